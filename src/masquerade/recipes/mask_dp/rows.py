"""The rows of MaskDP's tables: ways of learning, and cells once they are measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from masquerade import _json
from masquerade.guarantee import Relation
from masquerade.recipes.membership import MembersFound
from masquerade.recipes.verdict import Runs
from masquerade.training.dp_sgd import DpSgd
from masquerade.training.mask_dp import MaskDp
from masquerade.training.method import Method
from masquerade.training.multi_clip import MultiClip
from masquerade.training.public_part import PublicPart

if TYPE_CHECKING:
    from masquerade.recipes.mask_dp import MaskDpTables


RELATIONS = (Relation.ZERO_OUT, Relation.REPLACE_ONE)
SEGMENTS = 3
WHOLE, PIXELS = "whole recording", "private pixels of one recording"
DP, MULTI_CLIP, MASK_DP, SHARED = "DP", "MultiClip", "MaskDP", "MaskDP as published"
ALONE, PUBLIC, SCRATCH = "public weights alone", "public part only", "DP from scratch"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A way of learning.

    Args:
        learner: its method.
        unit: what it protects, in words.
        fields: in which it differs from the others.
        from_plan: its fields that the plan has under names of their own.
        from_scratch: whether the whole network is trained, from random weights.
    """

    learner: type[Method]
    unit: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    from_plan: Mapping[str, str] = field(default_factory=dict)
    from_scratch: bool = False

    @property
    def is_claim(self) -> bool:
        """Whether the epsilon that is asked for is only claimed."""
        return self.fields.get("form") == "as_published"


_MASKED = {
    "view": "view",
    "weight": "weight",
    "batch": "mask_batch",
    "public_batch": "mask_batch",
    "learning_rate": "mask_learning_rate",
}
ROWS = {
    PUBLIC: Row(
        learner=PublicPart,
        unit="nothing; no private pixel is read",
        from_plan={
            "batch": "public_batch",
            "public_batch": "public_batch",
            "learning_rate": "public_learning_rate",
        },
    ),
    DP: Row(learner=DpSgd, unit=WHOLE),
    MULTI_CLIP: Row(learner=MultiClip, unit=WHOLE, fields={"segments": SEGMENTS}),
    MASK_DP: Row(learner=MaskDp, unit=PIXELS, from_plan=_MASKED),
    SHARED: Row(
        learner=MaskDp,
        unit=PIXELS,
        fields={"form": "as_published", "momentum": 0.0},
        from_plan={"learning_rate": "published_learning_rate"},
    ),
    SCRATCH: Row(
        learner=DpSgd,
        unit=WHOLE,
        fields={"part": "all", "optimiser": "adam", "learning_rate": 1e-3},
        from_scratch=True,
    ),
}
UNITS = {ALONE: "nothing; nobody is learned from"} | {name: row.unit for name, row in ROWS.items()}
CONTEXT = (ALONE, PUBLIC, DP, MASK_DP)  # where the private part pays
FREE = (ALONE, PUBLIC)  # the same at every epsilon


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of the tables.

    Args:
        method: its row.
        epsilon: that was asked for; inf for no noise.
        relation: under which it is met.
        correlation: of activities and places; None where the data decide.
        films: which were learned from and tested on; None where there is one kind.
        top_1: on the test split, one number a run.
        per_class: the same for each class, by name.
        proved: epsilon by relation; empty without noise.
        noise_multiplier: z.
        noise_norm: of the noise in the mean gradient of a step, about.
        steps: of a run.
        tested: recordings that it was tested on.
    """

    method: str
    epsilon: float
    relation: str = "replace_one"
    correlation: float | None = None
    films: str | None = None
    top_1: tuple[float, ...]
    per_class: Mapping[str, Sequence[float]]
    proved: Mapping[str, float]
    noise_multiplier: float
    noise_norm: float = 0.0
    steps: int
    tested: int

    @property
    def unit(self) -> str:
        """What is protected, in words."""
        return UNITS[self.method]

    @property
    def runs(self) -> Runs:
        """Top-1."""
        return Runs(self.top_1, tested=self.tested)

    @property
    def class_runs(self) -> Runs:
        """The mean over classes, however many recordings each has."""
        return Runs(tuple(np.mean(list(self.per_class.values()), axis=0)), tested=self.tested)

    def plain(self) -> dict[str, Any]:
        """As JSON, which has no infinity."""
        asked = None if self.epsilon == math.inf else self.epsilon
        means = {"mean": self.runs.mean, "mean_per_class": self.class_runs.mean}
        return dict(_json.encode(self)) | {"epsilon": asked, "unit": self.unit} | means


@dataclass(frozen=True, kw_only=True)
class Found:
    """All cells of the tables and what they were measured on.

    Args:
        cells: in order.
        plan: that they share.
        about: the data, in words.
        units: that were learned from.
        tested: recordings that were tested on.
        members: what an attacker found of who was learned from, if one tried.
    """

    cells: tuple[Cell, ...]
    plan: MaskDpTables
    about: str
    units: int
    tested: int
    members: tuple[MembersFound, ...] = ()

    def __post_init__(self) -> None:
        if not any(cell.method == PUBLIC for cell in self.cells):
            raise ValueError(
                f"Expected a row {PUBLIC!r} in the table: without it nobody sees what noise costs."
            )

    def cell(self, method: str, epsilon: float, of: Panel | None = None) -> Cell | None:
        """That one, if it was measured; of the first panel if none is given."""
        wanted = (method, epsilon, *(of or next(self.panels())).key)
        found = {(c.method, c.epsilon, *Panel.of(c).key): c for c in self.cells}
        return found.get(wanted)

    def panels(self) -> Iterator[Panel]:
        """Cells that are compared with each other: under one relation, of one world."""
        return iter(dict.fromkeys(map(Panel.of, self.cells)))

    @property
    def relations(self) -> list[str]:
        """In order."""
        return list(dict.fromkeys(cell.relation for cell in self.cells))

    @property
    def methods(self) -> list[str]:
        """In order."""
        return list(dict.fromkeys(cell.method for cell in self.cells))

    @property
    def epsilons(self) -> list[float]:
        """The columns, from small to none."""
        return sorted({cell.epsilon for cell in self.cells})

    @property
    def classes(self) -> tuple[str, ...]:
        """Those that were tested."""
        return tuple(self.cells[0].per_class)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Which cells are compared with each other."""

    relation: str
    correlation: float | None = None
    films: str | None = None

    @classmethod
    def of(cls, cell: Cell) -> Panel:
        """The one that a cell is in."""
        return cls(relation=cell.relation, correlation=cell.correlation, films=cell.films)

    @property
    def key(self) -> tuple[str, float | None, str | None]:
        """Relation, correlation and films."""
        return self.relation, self.correlation, self.films

    @property
    def place(self) -> str:
        """Films or correlation in words; empty where the data decide."""
        return self.films or ("" if self.correlation is None else f"place {self.correlation:g}")
