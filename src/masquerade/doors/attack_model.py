"""A model's file as what is attacked: who was learned from?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from masquerade._torch import torch
from masquerade.account.power import false_negative_rate
from masquerade.attack.attack import Told, silent
from masquerade.attack.case_model import ModelCase
from masquerade.collection import Collection, Medium
from masquerade.doors.receipt import check_receipt, promise_of
from masquerade.doors.shadow import ShadowTraining, outputs_of, units_in
from masquerade.doors.splits import public_part_of, split_of
from masquerade.errors import BadInput
from masquerade.guarantee import Relation
from masquerade.receipt import Receipt
from masquerade.tradeoff import power
from masquerade.train import learner
from masquerade.train.films import Films
from masquerade.train.memory import Memory
from masquerade.train.method import Method, planned
from masquerade.train.model_file import Trained, load_model
from masquerade.train.rows import Rows
from masquerade.train.units import count_units


def model_case(
    model: Path | str,
    data: Collection[Any],
    *,
    seed: int = 0,
    told: Told = silent,
) -> ModelCase:
    """A published model, with units that it learned from and as many others.

    It learned from the training split of the data set and not from the test split. Units of the
    larger of both are chosen by chance; those of the training split that are not asked for are in
    every shadow model, so that these learn from as many as the published one did.

    Args:
        model: the .safetensors file, its receipt beside it.
        data: the data set that it learned from.
        seed: of all that is random in the attack.
        told: called with what is done, how far, and of how much.

    Raises:
        BadInput: if the model is of another data set, or cannot be trained again like that.
    """
    path = Path(model)
    receipt, trained = check_receipt(path), load_model(path)
    method = _method_of(receipt, trained)
    taught, tested = (split_of(data.part(name), name) for name in ("train", "test"))
    _check_same(taught, trained, receipt, method)
    inside, outside = (_rows(each, method, trained, told) for each in (taught, tested))
    rng = np.random.default_rng(seed)
    rows, always = _halved(inside, outside, rng=rng)
    training = ShadowTraining(
        rows=rows,
        method=method,
        network=trained.network,
        classes=len(trained.classes),
        always=always,
    )
    at, whose = units_in(rows)
    _, tail = trained.network.split(trained.net, method.part)
    return ModelCase(
        targets=rows.targets.numpy()[at],
        whose=whose,
        learn=training,
        overfit=training.overfitted(),
        outputs=outputs_of(tail, rows),
        members=np.arange(rows.units) < rows.units // 2,
        allowed=_allowed(receipt, method, inside.units),
        of="people" if method.unit == "subject" else "recordings",
        seed=seed,
    )


def _method_of(receipt: Receipt, trained: Trained) -> Method:
    method = promise_of(receipt)
    if not isinstance(method, Method) or method.HAS_PUBLIC or trained.network.KIND != Medium.VIDEOS:
        raise BadInput(
            f"Expected a model of videos by a method that learns from whole recordings, got "
            f"{receipt.mechanism}: see masquerade recipe mask_dp or tempdiff --membership."
        )
    return method


def _check_same(
    taught: Collection[Any], trained: Trained, receipt: Receipt, method: Method
) -> None:
    said, own = trained.said.get("learned"), public_part_of(taught)
    if said and own and said != own:
        raise BadInput(
            f"Expected the data set that the model learned from, {said}, got {own}; check --data "
            "and its fields."
        )
    if trained.classes != taught.activities:
        raise BadInput("Expected the classes of the model, got a data set with others.")
    units = count_units(taught, str(method.unit))
    if receipt.shapes[0][0] != units:
        raise BadInput(
            f"Expected the {receipt.shapes[0][0]} units that the model learned from, got a data "
            f"set with {units}; check --data and its fields."
        )


def _rows(data: Collection[Any], method: Method, trained: Trained, told: Told) -> Rows:
    reader = Films(method, trained.network, trained.classes)
    trunk, _ = trained.network.split(trained.net, method.part)
    with learner.rows_of(data, reader, trunk, memory=Memory(), tell=told) as (rows, _):
        return Rows(
            private=rows.private.clone(), public=None, targets=rows.targets, slots=rows.slots
        )


def _halved(inside: Rows, outside: Rows, *, rng: np.random.Generator) -> tuple[Rows, np.ndarray]:
    """As many units of both sides, one side after the other, and the slots of the rest within."""
    count = min(inside.units, outside.units)
    order, others = (rng.permutation(each.units) for each in (inside, outside))
    width = max(inside.slots.shape[1], outside.slots.shape[1])
    first = _wider(inside.slots, width)
    second = _wider(outside.slots, width)
    second = np.where(second >= 0, second + len(inside.private), -1)
    rows = Rows(
        private=torch.cat([inside.private, outside.private]),
        public=None,
        targets=torch.cat([inside.targets, outside.targets]),
        slots=np.concatenate([first[order[:count]], second[others[:count]]]),
    )
    return rows, first[order[count:]]


def _wider(slots: np.ndarray, width: int) -> np.ndarray:
    return np.pad(slots, ((0, 0), (0, width - slots.shape[1])), constant_values=-1)


def _allowed(receipt: Receipt, method: Method, units: int) -> Any:
    """By the receipt's event, for a unit in place of which there was another."""
    if receipt.is_rehearsal or receipt.guarantee.epsilon is None:
        return None
    relation, event = Relation.REPLACE_ONE, receipt.dp_event
    epsilon = planned(method, units).epsilon(relation)

    def most(rate: float) -> float:
        missed = false_negative_rate(rate, event, relation=relation)
        return min(1 - missed, power(rate, epsilon=epsilon, delta=method.delta, is_gaussian=False))

    return most
