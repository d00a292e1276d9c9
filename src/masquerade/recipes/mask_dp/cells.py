"""One cell of MaskDP's tables: a network is trained, some times, and tested."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from masquerade.datasets.stage import Stage
from masquerade.recipes import public_alone, seen
from masquerade.recipes.mask_dp.rows import ALONE, FREE, RELATIONS, ROWS, Cell
from masquerade.training.method import planned
from masquerade.training.rows import Rows

if TYPE_CHECKING:
    from masquerade.recipes.mask_dp import MaskDpTables


PHYSICAL = 192  # units whose gradients are computed at once: most batches of 128 on average
_SCRATCH_PHYSICAL = {"cpu": 8, "cuda": 64}


@dataclass(frozen=True, kw_only=True, eq=False)
class ExamRows:
    """What is tested on: recordings of one kind after those of another.

    Args:
        rows: of all of them.
        parts: which of them are of one kind.
    """

    rows: Rows
    parts: tuple[slice, ...]

    @classmethod
    def of(cls, several: Sequence[Rows]) -> ExamRows:
        """Of rows of each kind."""
        ends = np.cumsum([0, *(rows.units for rows in several)]).tolist()
        parts = tuple(slice(*pair) for pair in pairwise(ends))
        return cls(rows=seen.joined(several), parts=parts)

    @property
    def targets(self) -> np.ndarray:
        """(N,) the number of each recording's class."""
        found: np.ndarray = self.rows.targets.cpu().numpy()
        return found


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A cell that is to be measured."""

    name: str
    epsilon: float
    relation: str

    @property
    def is_free(self) -> bool:
        """Whether it is the same at every epsilon and under every relation."""
        return self.name in FREE

    @property
    def is_copied(self) -> bool:
        """Whether it learns from copies, where there are some."""
        return self.epsilon == math.inf and not self.is_free

    @property
    def said(self) -> str:
        """Its name in the journal; what has no noise has no relation."""
        if self.is_free:
            return self.name
        if self.epsilon == math.inf:
            return f"{self.name}, no noise"
        return f"{self.name}, {self.relation}, epsilon {self.epsilon:g}"


def cell_of(
    plan: MaskDpTables, asked: Asked, rows: Rows, exam: ExamRows, classes: tuple[str, ...]
) -> tuple[Cell, ...]:
    """Train a row at an epsilon, some times, and test it on films of each kind."""
    row = ROWS[asked.name]
    method = plan.method(asked.name, asked.epsilon, relation=asked.relation)
    if asked.is_copied:  # each recording is several units, and is seen as often
        method = replace(method, epochs=method.epochs / (plan.copies or 1))
    physical = _SCRATCH_PHYSICAL[plan.device] if row.from_scratch else PHYSICAL
    steps, scores, weights = planned(method, rows.units), [], 0
    for seed in range(plan.seeds or 1):
        net = plan.begun(from_scratch=row.from_scratch).make(len(classes), seed=seed)
        again = replace(method, public_seed=seed)
        tail = seen.taught(net.to(plan.device), rows, again, steps, physical=physical)
        weights = sum(held.numel() for held in tail.parameters() if held.requires_grad)
        scores.append(seen.is_right(tail, exam.rows))
    right, truth = np.stack(scores), exam.targets
    return tuple(
        Cell(
            method=asked.name,
            epsilon=asked.epsilon,
            relation=asked.relation,
            top_1=tuple(right[:, part].mean(axis=1).tolist()),
            per_class={
                classes[one]: tuple(right[:, part][:, truth[part] == one].mean(axis=1).tolist())
                for one in np.unique(truth[part])
            },
            proved={r.value: steps.epsilon(r) for r in RELATIONS}
            if steps.noise_multiplier > 0
            else {},
            noise_multiplier=steps.noise_multiplier,
            noise_norm=steps.sigma * math.sqrt(weights) / steps.sampler.expected,
            steps=steps.steps,
            tested=len(truth[part]),
        )
        for part in exam.parts
    )


def alone(plan: MaskDpTables, data: Stage, exam: ExamRows) -> tuple[Cell, ...]:
    """What the public weights know already, from a handful of public examples of each class."""
    shown = public_alone.examples(data)
    draws = [
        public_alone.handful(shown, each=public_alone.EACH, seed=s) for s in range(plan.seeds or 1)
    ]
    numbers = sorted({number for some in draws for number in some})
    known = public_alone.features(plan.begun(), shown, numbers, device=plan.device)
    handfuls = [[numbers.index(number) for number in some] for some in draws]
    values, targets = exam.rows.private.cpu().numpy(), exam.targets

    def shares(part: slice, one: int | None = None) -> tuple[float, ...]:
        is_meant = np.full(len(targets[part]), True) if one is None else targets[part] == one
        asked = public_alone.Features(
            values=values[part][is_meant], targets=targets[part][is_meant]
        )
        return tuple(public_alone.nearest(known, handfuls, asked).shares)

    return tuple(
        Cell(
            method=ALONE,
            epsilon=math.inf,
            top_1=shares(part),
            per_class={data.activities[o]: shares(part, o) for o in np.unique(targets[part])},
            proved={},
            noise_multiplier=0.0,
            steps=0,
            tested=len(targets[part]),
        )
        for part in exam.parts
    )
