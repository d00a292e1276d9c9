"""A published model as the case of an attack: what it learned from, and models trained like it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from masquerade.account.power import false_negative_rate
from masquerade.attack.case_model import ModelCase
from masquerade.collection import Collection, Medium
from masquerade.compute import device
from masquerade.doors.attack_case import Everybody
from masquerade.doors.receipt import check_receipt, promise_of
from masquerade.doors.shadow import ShadowTraining, outputs_of, units_in
from masquerade.doors.splits import public_part_of
from masquerade.errors import BadInput
from masquerade.guarantee import Relation, UnitName
from masquerade.receipt import Receipt
from masquerade.recipes import seen
from masquerade.train.method import Method
from masquerade.train.model_file import load_model

_WHOLE = (UnitName.VIDEO, UnitName.RECORD)


def of_model(path: Path, data: Collection[Any], *, seed: int) -> ModelCase:
    """The case of a model that `masquerade train` wrote, with its receipt beside it.

    Members are the recordings of the part that it learned from, which the model's file names;
    the others are those of the test part.

    Raises:
        BadInput: if the file is no such model, or learned from another data set; or if it is of a
            kind whose training cannot be repeated here.
    """
    receipt = check_receipt(path)
    method = _method(receipt, path)
    net, network, activities, said = load_model(path)
    if network.KIND is not Medium.VIDEOS:
        raise BadInput(f"Expected a model of videos, got one of {network.KIND} in {path}.")
    inside, outside = _parts(data, said.get("learned"), path)
    if activities != inside.activities:
        raise BadInput(f"Expected the classes of {path}, got a data set with others; see --data.")
    if receipt.shapes[0][0] != len(inside):
        raise BadInput(
            f"Expected the {receipt.shapes[0][0]} recordings that {path} learned from, got a data "
            f"set with {len(inside)}; see --data and its fields."
        )
    everybody = Everybody(
        places=[(part, at) for part in (inside, outside) for at in range(len(part))]
    )
    films = seen.InMemory(films=everybody, classes=activities)  # type: ignore[arg-type]
    where = device.chosen()
    trunk, tail = network.split(net.to(where).eval(), method.part)
    rows = seen.rows_of(films, method, network, trunk, device=where)
    row, unit = units_in(rows)
    whose = np.empty(len(row), int)
    whose[row] = unit
    learn = ShadowTraining(rows=rows, method=method, network=network, classes=len(activities))
    return ModelCase(
        targets=rows.targets.cpu().numpy(),
        whose=whose,
        learn=learn,
        overfit=learn.overfitted(),
        outputs=outputs_of(tail, rows.private),
        members=np.arange(rows.units) < len(inside),
        allowed=None if receipt.guarantee.epsilon is None else _Allowed(receipt),
        seed=seed,
    )


def _method(receipt: Receipt, path: Path) -> Method:
    """How it was trained, if that is on whole recordings."""
    method: Method = promise_of(receipt)
    is_plain = isinstance(method, Method) and not method.HAS_PUBLIC
    if not is_plain or receipt.guarantee.unit.name not in _WHOLE:
        raise BadInput(
            f"Expected a model that was trained on whole recordings, each for itself, got "
            f"{receipt.mechanism} for one {receipt.guarantee.unit} in {path}; the recipes mask_dp "
            "and tempdiff attack their own."
        )
    return method


def _parts(
    data: Collection[Any], learned: Any, path: Path
) -> tuple[Collection[Any], Collection[Any]]:
    """What it learned from, and what not."""
    if not isinstance(learned, dict) or "split" not in learned:
        raise BadInput(f"Expected {path} to say which part of a data set it learned from.")
    if "test" not in data.parts or learned["split"] not in data.parts:
        raise BadInput(
            f"Expected a data set with the parts {learned['split']} and test, got "
            f"{data.ABOUT.title} ({', '.join(data.parts) or 'one part'})."
        )
    inside = data.part(learned["split"])
    if public_part_of(inside) != learned or learned["split"] in ("test", "all"):
        raise BadInput(
            f"Expected the data set that {path} learned from, {learned}, without its test part, "
            f"got {public_part_of(inside)}; see --data and its fields."
        )
    return inside, data.part("test")


class _Allowed:
    """The most that a guarantee allows an attacker, at a rate of false alarms."""

    def __init__(self, receipt: Receipt) -> None:
        self._event = receipt.dp_event

    def __call__(self, rate: float) -> float:
        missed = false_negative_rate(rate, self._event, relation=Relation.REPLACE_ONE)
        return 1 - missed
