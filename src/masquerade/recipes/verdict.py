"""Which of two results is ahead: only what is beyond twice the standard error counts.

Two things make a result scatter: what is random in a run (seeds), and which recordings happened to
be tested. Both are counted, and as if they were independent, which for rows that were tested on the
same recordings asks for more than is needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

ERRORS = 2.0  # standard errors of a difference, beyond which it counts
Word = Literal["ahead", "behind", "not told apart", "not known from one run"]


@dataclass(frozen=True)
class Runs:
    """Shares of right answers, one a run; or other shares that scatter from run to run.

    Args:
        shares: 0 to 1.
        tested: recordings that each run was tested on; infinity for shares that are no counts
            of right answers, and for which each run drew recordings of its own, so that the spread
            over runs has those too.

    Example:
        >>> str(Runs((0.5, 0.52, 0.54), tested=1200)), str(Runs((0.5,), tested=1200))
        ('52.0 ± 2.0', '50.0')
    """

    shares: Sequence[float]
    tested: float

    @property
    def mean(self) -> float:
        """Over runs."""
        return float(np.mean(self.shares))

    @property
    def spread(self) -> float:
        """The standard deviation over runs (n - 1 below); NaN from one alone."""
        return float(np.std(self.shares, ddof=1)) if len(self.shares) > 1 else math.nan

    @property
    def error(self) -> float:
        """The standard error of the mean, of runs and of tested recordings; NaN from one run."""
        chance = self.mean * (1 - self.mean) / self.tested
        return math.sqrt(self.spread**2 / len(self.shares) + chance)

    def __str__(self) -> str:
        """In per cent, with the spread where there is one."""
        mean = f"{100 * self.mean:.1f}"
        return mean if math.isnan(self.spread) else f"{mean} ± {100 * self.spread:.1f}"


def compared(one: Runs, other: Runs, *, chance: float | None = None) -> Word:
    """Whether the first is ahead of the second.

    Args:
        one: some runs.
        other: some others.
        chance: standard error of their difference over the recordings that both were tested on;
            each by itself if None.

    Example:
        >>> compared(Runs((0.9, 0.91, 0.9), 1200), Runs((0.8, 0.81, 0.8), 1200))
        'ahead'
        >>> compared(Runs((0.9, 0.91, 0.9), 1200), Runs((0.89, 0.9, 0.91), 1200))
        'not told apart'
    """
    error = math.hypot(one.error, other.error)
    if chance is not None:
        spreads = (runs.spread / math.sqrt(len(runs.shares)) for runs in (one, other))
        error = math.hypot(*spreads, chance)
    room = ERRORS * error
    if math.isnan(room):
        return "not known from one run"
    gap = one.mean - other.mean
    return "not told apart" if abs(gap) <= room else "ahead" if gap > 0 else "behind"


def overall(words: Sequence[Word]) -> Word:
    """One word for several comparisons of the same pair: the least that holds for all.

    Example:
        >>> overall(["ahead", "not told apart", "ahead"])
        'not told apart'
    """
    ranks: tuple[Word, ...] = ("behind", "not known from one run", "not told apart", "ahead")
    return min(words, key=ranks.index)
