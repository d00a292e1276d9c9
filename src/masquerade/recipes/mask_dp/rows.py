"""The rows of MaskDP's tables: ways of learning, and cells once they are measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from masquerade import _json, _round
from masquerade.guarantee import Relation
from masquerade.recipes import bench
from masquerade.train.dp_sgd import DpSgd
from masquerade.train.mask_dp import MaskDp
from masquerade.train.method import Method
from masquerade.train.multi_clip import MultiClip
from masquerade.train.public_part import PublicPart

if TYPE_CHECKING:
    from masquerade.recipes.mask_dp import MaskDpTables

RELATIONS = (Relation.ZERO_OUT, Relation.REPLACE_ONE)
SEGMENTS = 3
WHOLE, PIXELS = "whole recording", "private pixels of one recording"
DP, MULTI_CLIP, MASK_DP, SHARED = "DP", "MultiClip", "MaskDP", "MaskDP, shared batch"
PUBLIC, SCRATCH = "public part only", "DP from scratch"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A way of learning.

    Args:
        learner: its method.
        unit: what it protects, in words.
        fields: in which it differs from the others.
        from_scratch: whether the whole network is trained, from random weights.
    """

    learner: type[Method]
    unit: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    from_scratch: bool = False

    @property
    def is_claim(self) -> bool:
        """Whether the epsilon that is asked for is only claimed."""
        return self.fields.get("form") == "as_published"


ROWS = {
    DP: Row(learner=DpSgd, unit=WHOLE),
    MULTI_CLIP: Row(learner=MultiClip, unit=WHOLE, fields={"segments": SEGMENTS}),
    MASK_DP: Row(learner=MaskDp, unit=PIXELS),
    SHARED: Row(learner=MaskDp, unit=PIXELS, fields={"form": "as_published"}),
    PUBLIC: Row(learner=PublicPart, unit="nothing; no private pixel is read"),
    SCRATCH: Row(
        learner=DpSgd,
        unit=WHOLE,
        fields={"part": "all", "optimiser": "adam", "learning_rate": 1e-3},
        from_scratch=True,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of the table.

    Args:
        method: its row.
        unit: what is protected.
        epsilon: that was asked for; inf for no noise.
        top_1: on the test split, one number a seed.
        per_class: the same for each class, by name.
        proved: epsilon by relation; empty without noise.
        noise_multiplier: z.
        steps: of a run.
    """

    method: str
    unit: str
    epsilon: float
    top_1: tuple[float, ...]
    per_class: Mapping[str, Sequence[float]]
    proved: Mapping[str, float]
    noise_multiplier: float
    steps: int

    @property
    def mean(self) -> float:
        """Over seeds."""
        return float(np.mean(self.top_1))

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; NaN from one alone."""
        return bench.spread(self.top_1)

    @property
    def mean_per_class(self) -> float:
        """The mean over classes, however many recordings each has, and over seeds."""
        return float(np.mean([np.mean(shares) for shares in self.per_class.values()]))

    @property
    def told(self) -> str:
        """What was proved, under each relation."""
        return ", ".join(f"{name} {_round.shown(value, 4)}" for name, value in self.proved.items())

    def plain(self) -> dict[str, Any]:
        """As JSON, which has no infinity."""
        asked = None if self.epsilon == math.inf else self.epsilon
        more = {"epsilon": asked, "mean": self.mean, "mean_per_class": self.mean_per_class}
        return dict(_json.encode(self)) | more


@dataclass(frozen=True, kw_only=True)
class Found:
    """All cells of a table and what they were measured on.

    Args:
        cells: in order.
        plan: that they share.
        about: the data, in words.
        units: that were learned from.
        tested: recordings that were tested on.
    """

    cells: tuple[Cell, ...]
    plan: MaskDpTables
    about: str
    units: int
    tested: int

    def __post_init__(self) -> None:
        if not any(cell.method == PUBLIC for cell in self.cells):
            raise ValueError(
                f"Expected a row {PUBLIC!r} in the table: without it nobody sees what noise costs."
            )

    def cell(self, method: str, epsilon: float) -> Cell | None:
        """That one, if it was measured."""
        same = (c for c in self.cells if c.method == method and c.epsilon == epsilon)
        return next(same, None)

    @property
    def epsilons(self) -> list[float]:
        """The columns, from small to none."""
        return sorted({cell.epsilon for cell in self.cells})

    @property
    def classes(self) -> tuple[str, ...]:
        """Those that were tested."""
        return tuple(self.cells[0].per_class)
