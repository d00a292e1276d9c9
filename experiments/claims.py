"""What is said of cells: which is ahead of which, and sentences as data with one writer.

Only what is beyond twice the standard error counts. Two things make a result scatter: what is
random in a run (seeds), and which recordings happened to be tested. Both are counted, and as if
they were independent, which for arms that were tested on the same recordings asks for more than is
needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import numpy as np

ERRORS = 2.0  # standard errors of a difference, beyond which it counts
Word = Literal["ahead", "behind", "not told apart", "not known from one run"]
Cell = TypeVar("Cell")


def spread_of(shares: Sequence[float] | np.ndarray) -> float:
    """The standard deviation of several runs (n - 1 below); NaN from one alone."""
    return float(np.std(shares, ddof=1)) if len(shares) > 1 else math.nan


@dataclass(frozen=True)
class Runs:
    """Shares of right answers, one a run; or other shares that scatter from run to run.

    Example:
        >>> str(Runs((0.5, 0.52, 0.54), tested=1200)), str(Runs((0.5,), tested=1200))
        ('52.0 ± 2.0', '50.0')
    """

    shares: Sequence[float]  # 0 to 1
    # recordings that each run was tested on; infinity for shares that are no counts of right
    # answers, and for which each run drew recordings of its own, so that the spread over runs has
    # those too
    tested: float

    @property
    def mean(self) -> float:
        """Over runs."""
        return float(np.mean(self.shares))

    @property
    def spread(self) -> float:
        """The standard deviation over runs; NaN from one alone."""
        return spread_of(self.shares)

    @property
    def error(self) -> float:
        """The standard error of the mean, of runs and of tested recordings; NaN from one run."""
        chance = self.mean * (1 - self.mean) / self.tested
        return math.sqrt(self.spread**2 / len(self.shares) + chance)

    def __str__(self) -> str:
        """In per cent, with the spread where there is one."""
        mean = f"{100 * self.mean:.1f}"
        return mean if math.isnan(self.spread) else f"{mean} ± {100 * self.spread:.1f}"


def format_percent(shares: Sequence[float]) -> str:
    """Mean in per cent, with the spread where there are several; a dash for none.

    Example:
        >>> format_percent((0.5, 0.52, 0.54)), format_percent((0.5,)), format_percent(())
        ('52.0 ± 2.0', '50.0', '-')
    """
    return str(Runs(shares, math.inf)) if len(shares) else "-"


def compare_runs(one: Runs, other: Runs, *, chance: float | None = None) -> Word:
    """Whether the first is ahead of the second.

    Args:
        one: some runs.
        other: some others.
        chance: standard error of their difference over the recordings that both were tested on;
            each by itself if None.

    Example:
        >>> compare_runs(Runs((0.9, 0.91, 0.9), 1200), Runs((0.8, 0.81, 0.8), 1200))
        'ahead'
        >>> compare_runs(Runs((0.9, 0.91, 0.9), 1200), Runs((0.89, 0.9, 0.91), 1200))
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


def merge_words(words: Sequence[Word]) -> Word:
    """One word for several comparisons of the same pair: the least that holds for all.

    Example:
        >>> merge_words(["ahead", "not told apart", "ahead"])
        'not told apart'
    """
    ranks: tuple[Word, ...] = ("behind", "not known from one run", "not told apart", "ahead")
    return min(words, key=ranks.index)


def format_words(words: Mapping[Any, Word], show: Callable[[Any], str] = str) -> str:
    """Which word holds where: ``ahead at 0.1 0.25, behind at 1``."""
    return ", ".join(
        f"{word} at {' '.join(map(show, w))}" for word, w in group_words(words).items()
    )


def group_words(words: Mapping[Any, Word]) -> dict[Word, list[Any]]:
    """Where each word holds."""
    groups: dict[Word, list[Any]] = {}
    for where, word in words.items():
        groups.setdefault(word, []).append(where)
    return groups


class Cells(tuple[Cell, ...], Generic[Cell]):
    """Measured cells, found by their fields: the arm, the column, what panel they are in.

    Example:
        >>> cells = Cells([1 + 2j, 1 + 3j])
        >>> cells.find(imag=3.0), cells.find(imag=4.0), cells.list_values("real")
        ((1+3j), None, [1.0])
    """

    def find_all(self, **wanted: Any) -> list[Cell]:
        """Those with these fields."""
        return [c for c in self if all(getattr(c, name) == v for name, v in wanted.items())]

    def find(self, **wanted: Any) -> Cell | None:
        """The first with these fields, if it was measured."""
        return next(iter(self.find_all(**wanted)), None)

    def list_values(self, name: str) -> list[Any]:
        """All values of a field, in order."""
        return list(dict.fromkeys(getattr(cell, name) for cell in self))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two arms beside each other in every column."""

    one: Mapping[str, Any]  # the fields of the first's cells, the arm among them
    other: Mapping[str, Any]  # the same of the second
    over: str = "epsilon"  # the field that is the column
    # the value up to which columns count as a whole; None for no such sentence
    most: float | None = 1.0
    show: Callable[[Any], str] = "{:g}".format  # a column in words
    score: Callable[[Any], Runs] = lambda cell: cell.runs  # the runs of a cell

    def find_words(self, cells: Cells[Any], **panel: Any) -> dict[Any, Word]:
        """Whether the first is ahead, in each column that both have."""
        words: dict[Any, Word] = {}
        for value in sorted(cells.list_values(self.over)):
            pair = [
                cells.find(**{**panel, **own, self.over: value}) for own in (self.one, self.other)
            ]
            if all(cell is not None for cell in pair):
                words[value] = compare_runs(*map(self.score, pair))
        return words

    def write(self, name: str, places: Mapping[str, Mapping[Any, Word]]) -> list[str]:
        """The sentence: where the first is ahead, by columns, and up to the most as a whole.

        Args:
            name: of the pair.
            places: the words of each panel, by the panel in words.
        """
        told: dict[str, list[str]] = {}  # where, by what is said
        small: list[Word] = []
        for place, words in places.items():
            if words:
                is_same = len(set(words.values())) == 1
                every = f"{next(iter(words.values()))} at every {self.over}"
                said = every if is_same else format_words(words, self.show)
                told.setdefault(said, []).append(place)
                small += [w for v, w in words.items() if self.most is not None and v <= self.most]
        if not told:
            return []
        parts = [
            said if len(told) == 1 else f"{', '.join(where)}: {said}"
            for said, where in told.items()
        ]
        whole = ""
        if small:
            whole = f" Up to {self.over} {self.most:g} as a whole: {merge_words(small)}."
        return [f"{name}: {'; '.join(parts)}.{whole}"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence as data; it is left out where something that it tells of is empty."""

    text: str  # a format string; ``{f.…}`` is what was measured, ``{s.…}`` its settings
    when: Callable[[Any], bool] | None = None  # whether it is said; always if None
    # what else the text names, each computed from what was measured
    values: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

    def write(self, found: Any) -> list[str]:
        """No sentence, or one."""
        if self.when is not None and not self.when(found):
            return []
        values = {name: make(found) for name, make in self.values.items()}
        if any(value is None or value in ("", ()) for value in values.values()):
            return []
        return [self.text.format(f=found, s=found.settings, **values)]


AnyClaim = str | Claim | Callable[[Any], Iterable[str]]


def write_sentences(found: Any, claims: Iterable[AnyClaim]) -> Iterator[str]:
    """The sentences of claims: words as they are, data, or what a function makes of the cells."""
    for claim in claims:
        if isinstance(claim, str):
            yield claim
        else:
            yield from claim.write(found) if isinstance(claim, Claim) else claim(found)
