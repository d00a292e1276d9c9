"""MaskDP's tables: DP-SGD, MaskDP and the public part alone, over epsilon, with both relations."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from masquerade.collection import Collection
from masquerade.data.stage import Stage
from masquerade.doors import training
from masquerade.doors.answer import Answer
from masquerade.doors.evaluate import Accuracy
from masquerade.doors.lessons import Lessons, Memory, lessons
from masquerade.doors.progress import bars
from masquerade.files import atomic
from masquerade.guarantee import Relation
from masquerade.nets import mvit
from masquerade.noise import Noise
from masquerade.train import loop
from masquerade.train.method import Method
from masquerade.train.rows import Rows

EPSILONS = (0.1, 0.25, 0.5, 0.75, 1.0, 5.0, math.inf)
METHODS = {
    "DP": "dp_sgd",
    "MaskDP": "mask_dp",
    "MaskDP, batch shared as published": "mask_dp",
    "public part only": "public_part",
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of the table.

    Args:
        method: its row.
        epsilon: that was asked for.
        top_1: on the test split, one number a seed.
        mean_per_class: the same, classes counted alike.
        per_class: of the last seed.
        proved: epsilon by relation; empty without noise.
    """

    method: str
    epsilon: float
    top_1: tuple[float, ...]
    mean_per_class: tuple[float, ...]
    per_class: dict[str, float]
    proved: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class MaskDpTables:
    """Train with and without noise where it is private, and write the tables.

    Args:
        out: folder for the results; it is made.
        network: which one.
        weights: public weights for it.
        part: what is trained.
        epochs: of every run.
        batch: units in a private batch, on average.
        seeds: runs of each cell.
        quick: three epsilons, the head alone.
    """

    ENTRIES: ClassVar[tuple[tuple[str, ...], ...]] = (("data", "data", "stage"),)

    out: Path = Path("out/mask_dp")
    network: Literal["mvit_small", "mvit_v1_b", "mvit_v2_s"] = "mvit_small"
    weights: Path | None = None
    part: Literal["head", "last_norms", "norms", "all"] = "last_norms"
    epochs: float = 20.0
    batch: int = 128
    seeds: int = 3
    quick: bool = False

    def run(self, data: Collection[Any]) -> Answer:
        """Read once, train many times, test each."""
        begun = time.perf_counter()
        self.out.mkdir(parents=True, exist_ok=True)
        cells = measure(self, data if not isinstance(data, Stage) else _sized(data))
        seconds = time.perf_counter() - begun
        text = markdown(cells)
        found = {"seconds": seconds, "cells": [_plain(cell) for cell in cells]}
        atomic.write_whole(self.out / "results.json", json.dumps(found, indent=1).encode())
        atomic.write_whole(self.out / "table.md", text.encode())
        return Answer(data=found, lines=[text, f"Wrote {self.out}/table.md, {seconds:.0f} s."])


def _sized(stage: Stage) -> Stage:
    """Stage as the small network wants it, unless sizes were given."""
    given = {"height": 64, "width": 64, "subjects": 84, "videos": 2_592, "correlation": 0.5}
    missing = {name: value for name, value in given.items() if getattr(stage, name) is None}
    return replace(stage, **missing)  # type: ignore[arg-type]


def measure(plan: MaskDpTables, data: Any) -> list[Cell]:
    """Every cell; the trunk runs once over each split."""
    part: Any = "head" if plan.quick else plan.part
    network = training.Network(network=plan.network, weights=plan.weights)
    probe = training.make_method("mask_dp", epsilon=1.0, unit="video", part=part)
    classes = data.activities
    epsilons = (0.25, 1.0, math.inf) if plan.quick else EPSILONS
    cells = []
    with bars() as progress:
        task = progress.add_task("reading", total=None)

        def tell(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        net = network.make(len(classes), seed=0)
        trunk, _ = mvit.split(net, part)
        held = [
            lessons(replace(data, split=split), probe, net, trunk, memory=Memory(), progress=tell)
            for split in ("train", "test")
        ]
        with held[0] as learned, held[1] as tested:
            total = len(METHODS) * len(epsilons)
            progress.update(task, description="training", completed=0, total=total)
            for row in METHODS:
                for epsilon in epsilons:
                    cells.append(_cell(plan, row, epsilon, network, learned, tested, classes))
                    progress.advance(task)
    return cells


def _method(plan: MaskDpTables, row: str, epsilon: float) -> Method:
    fields: dict[str, Any] = {
        "epsilon": epsilon,
        "unit": "video",
        "batch": plan.batch,
        "epochs": plan.epochs,
        "part": "head" if plan.quick else plan.part,
    }
    if "shared" in row:
        fields["form"] = "as_published"
    return training.make_method(METHODS[row], **fields)


def _cell(
    plan: MaskDpTables,
    row: str,
    epsilon: float,
    network: training.Network,
    learned: Lessons,
    tested: Lessons,
    classes: tuple[str, ...],
) -> Cell:
    method = _method(plan, row, epsilon)
    ways = loop.Work(physical=64)
    run_plan = method.plan(learned.rows.units)
    scores: list[Accuracy] = []
    for seed in range(plan.seeds):
        own = dataclasses.replace(method, public_seed=seed)
        net = network.make(len(classes), seed=seed)
        _, tail = mvit.split(net, method.part)
        rows = learned.rows if method.HAS_PUBLIC else dataclasses.replace(learned.rows, public=None)
        loop.run(
            tail, rows, own, run_plan, noise=Noise(), work=ways, progress=lambda done, total: None
        )
        scores.append(_score(tail, tested.rows, classes))
    relations = (Relation.ZERO_OUT, Relation.REPLACE_ONE) if run_plan.noise_multiplier > 0 else ()
    return Cell(
        method=row,
        epsilon=epsilon,
        top_1=tuple(score.top_1 for score in scores),
        mean_per_class=tuple(score.mean_per_class for score in scores),
        per_class=scores[-1].per_class,
        proved={relation.value: run_plan.epsilon(relation) for relation in relations},
    )


def _score(tail: Any, rows: Rows, classes: tuple[str, ...]) -> Accuracy:
    torch = training.torch
    with torch.no_grad():
        parts = [
            tail(rows.private[start : start + 64]) for start in range(0, len(rows.private), 64)
        ]
    is_right = (torch.cat(parts).argmax(dim=1) == rows.targets).numpy()
    wanted = rows.targets.numpy()
    per_class = {
        name: float(is_right[wanted == number].mean())
        for number, name in enumerate(classes)
        if (wanted == number).any()
    }
    return Accuracy(top_1=float(is_right.mean()), per_class=per_class)


def _plain(cell: Cell) -> dict[str, Any]:
    found = dataclasses.asdict(cell)
    found["epsilon"] = None if cell.epsilon == math.inf else cell.epsilon
    return found


def markdown(cells: list[Cell]) -> str:
    """Top-1 with its spread over seeds, and what is proved under each relation."""
    epsilons = list(dict.fromkeys(cell.epsilon for cell in cells))
    heading = ["method", *(f"epsilon {epsilon:g}" for epsilon in epsilons)]
    lines = ["| " + " | ".join(heading) + " |", "|---" * len(heading) + "|"]
    for row in dict.fromkeys(cell.method for cell in cells):
        shown = [row]
        for cell in (cell for cell in cells if cell.method == row):
            text = f"{100 * np.mean(cell.top_1):.1f} ± {100 * np.std(cell.top_1):.1f}"
            if cell.proved:
                zero, replaced = (cell.proved[name] for name in ("zero_out", "replace_one"))
                text += f" (zero_out {zero:.3g}, replace_one {replaced:.3g})"
            shown.append(text)
        lines.append("| " + " | ".join(shown) + " |")
    lines += ["", "Each epsilon is that of one run alone; all runs of a table together cost more."]
    return "\n".join(lines) + "\n"


EXAMPLE = MaskDpTables()
