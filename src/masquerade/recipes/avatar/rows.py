"""The rows of the table of avatars: what is learned from, and what it reached."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from masquerade import _json
from masquerade.recipes.released.film import Shown
from masquerade.recipes.released.films import Summary
from masquerade.recipes.verdict import Runs, Word, compared

if TYPE_CHECKING:
    from masquerade.recipes.avatar import AvatarTable


NAMES: Mapping[Shown, str] = {
    "real": "original films",
    "isolated": "figures alone, on grey",
    "emptied": "places alone, without people",
    "avatars": "avatars in their places",
}
HIDDEN: Mapping[Shown, str] = {
    "real": "nothing",
    "isolated": "people and places",
    "emptied": "people",
    "avatars": "people",
}
REFINED = "avatars, refined"
WHY_NOT = "not measured: refinement needs networks that do not come along"
AIM = 0.05  # of right answers, by which avatars may be behind original films


@dataclass(frozen=True, kw_only=True)
class AvatarRow:
    """Networks that learned from films in one way.

    Args:
        shown: the way.
        own: share of right answers on test films in the same way, one number a run.
        real: the same on real test films.
        own_each: share of runs that are right, one number a test film.
        real_each: the same on real test films.
    """

    shown: Shown
    own: tuple[float, ...]
    real: tuple[float, ...]
    own_each: tuple[float, ...]
    real_each: tuple[float, ...]

    @property
    def own_runs(self) -> Runs:
        """On films in the same way."""
        return Runs(self.own, tested=len(self.own_each))

    @property
    def real_runs(self) -> Runs:
        """On original films."""
        return Runs(self.real, tested=len(self.real_each))

    def plain(self) -> dict[str, Any]:
        """As JSON, without single films."""
        held = {name: value for name, value in _json.encode(self).items() if "_each" not in name}
        errors = {"own_error": self.own_runs.error, "real_error": self.real_runs.error}
        known = {name: None if math.isnan(error) else error for name, error in errors.items()}
        return held | {"tested": len(self.own_each)} | known


@dataclass(frozen=True, kw_only=True)
class Gap:
    """By how much original films are ahead of a row, tested in its own way or on original ones.

    Args:
        mean: share of right answers.
        error: its standard error, over runs and films that both were tested on; NaN from one run.
        word: whether the row is ahead.
    """

    mean: float
    error: float
    word: Word

    @property
    def says(self) -> str:
        """Whether the aim is met; only what is beyond twice the standard error counts."""
        if math.isnan(self.error):
            return "not known from one run"
        if self.mean + 2 * self.error < AIM:
            return "met"
        return "missed" if self.mean - 2 * self.error > AIM else "not shown"


@dataclass(frozen=True, kw_only=True)
class AvatarFound:
    """All rows and what they were measured on.

    Args:
        rows: in order.
        plan: that they share.
        about: the films, in words.
        units: that were learned from.
        summary: how they were released.
    """

    rows: tuple[AvatarRow, ...]
    plan: AvatarTable
    about: str
    units: int
    summary: Summary

    def row(self, shown: Shown) -> AvatarRow:
        """That one."""
        return next(row for row in self.rows if row.shown == shown)

    @property
    def tested(self) -> int:
        """Films that were tested on."""
        return len(self.rows[0].own_each)

    def gap(self, shown: Shown, *, asked_real: bool) -> Gap:
        """Original films against a row; both were tested on the same recordings."""
        real, row = self.row("real"), self.row(shown)
        theirs = (row.real, row.real_each) if asked_real else (row.own, row.own_each)
        one, other = Runs(real.own, self.tested), Runs(theirs[0], self.tested)
        each = np.array(real.own_each) - theirs[1]
        chance = float(each.std() / math.sqrt(self.tested))
        spreads = (runs.spread / math.sqrt(len(runs.shares)) for runs in (one, other))
        return Gap(
            mean=one.mean - other.mean,
            error=math.hypot(*spreads, chance),
            word=compared(other, one, chance=chance),
        )
