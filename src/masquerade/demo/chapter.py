"""A chapter of the demo: what it adds to the page, to the one table and to the machine's answer."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from masquerade.attacks.membership_scores import clopper_pearson
from masquerade.report import page, plots
from masquerade.scores import Success

Progress: TypeAlias = Callable[[str, int, int], None]  # what is done, how far, and of how much
CONFIDENCE = 0.999  # of each audit: many are played, and at 95 % some would refute what is true


@dataclass(frozen=True, kw_only=True)
class System:
    """One line of the table that the demo ends with; every word of it is computed.

    Args:
        name: of the system.
        protects: what one promise is for, in words.
        epsilon: the proved one with its delta, or why there is none.
        good_for: what the result can still be used for, as a figure.
        attack: what the strongest attacker that was tried gets without the system, and with it.
    """

    name: str
    protects: str
    epsilon: str
    good_for: str
    attack: str


SYSTEMS = (
    *("system", "what it protects", "proved epsilon: at most", "what is left to use"),
    *("an attacker gets, before and after", "seconds"),
)


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """Sections of the page, lines on a screen, lines of the one table, and all as plain values."""

    sections: Sequence[page.Section]
    lines: Sequence[str] = ()
    systems: Sequence[System] = ()
    data: dict[str, Any] = field(default_factory=dict)


def hide_progress(what: str, done: int, total: int) -> None:
    """Tell nobody how far the work is."""


def compare_rates(before: Success, after: Success) -> str:
    """An attacker's headline in per cent, and what guessing would get.

    Example:
        >>> said = {"count": 9, "of": "people", "chance": 0.1, "measure": "rank-1"}
        >>> raw = Success(value=0.9, low=0.8, high=1.0, **said)
        >>> compare_rates(raw, Success(value=0.1, low=0.0, high=0.2, **said))
        '90 %, then 10 % (0 to 20) of 9 people named; guessing 10 %'
        >>> compare_rates(raw, Success(value=0.0, low=0.0, high=0.0, **said))
        '90 %, then 0 % (0 to 34) of 9 people named; guessing 10 %'
    """
    guess = "" if after.chance is None else f"; guessing {100 * after.chance:.0f} %"
    low, high = after.low, after.high
    if after.value in (0.0, 1.0):  # drawing the same again and again shows no spread
        low, high = clopper_pearson(after.value, after.count)
    span = f"{100 * low:.0f} to {100 * high:.0f}"
    named = f"of {after.count} {after.of} named"
    return f"{100 * before.value:.0f} %, then {100 * after.value:.0f} % ({span}) {named}{guess}"


def draw_table(title: str, heading: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """For a screen."""
    stream = io.StringIO()
    shown = Table(*heading, title=title, show_lines=True, box=box.SIMPLE)
    for row in rows:
        shown.add_row(*row)
    Console(file=stream, width=132).print(shown)
    return stream.getvalue()


def write_table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown.

    Example:
        >>> print(write_table(("a", "b"), [("1", "2")]))
        | a | b |
        |---|---|
        | 1 | 2 |
    """
    first, *others = ("| " + " | ".join(cells) + " |" for cells in (heading, *rows))
    return "\n".join([first, "|---" * len(heading) + "|", *others])


def make_curves(points: Iterable[tuple[str, float, float]]) -> list[plots.Line]:
    """Lines of a plot from points with the name of their line, each from left to right."""
    named: dict[str, list[tuple[float, float]]] = {}
    for name, x, y in points:
        named.setdefault(name, []).append((x, y))
    return [
        plots.Line(name=name, x=xy[:, 0], y=xy[:, 1])
        for name, xy in ((name, np.array(sorted(some))) for name, some in named.items())
    ]
