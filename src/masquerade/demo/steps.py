"""The demo's signal: a day of steps, released until the budget refuses, with a crash between.

A chapter of the demo: what it adds to the page, to the one table and to the machine's answer.
"""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from masquerade.attacks.membership_scores import clopper_pearson
from masquerade.errors import BudgetExceeded
from masquerade.guarantee import Unit, UnitName
from masquerade.io import atomic
from masquerade.ledger import Ledger
from masquerade.mechanism import Mechanism
from masquerade.publish.recording import FileSettings, make_mechanism, release_file
from masquerade.publish.spine import IfExists
from masquerade.receipt import receipt_path
from masquerade.report import page, plots, release_sections
from masquerade.report.page import PagePart
from masquerade.scores import MeasuredRate
from masquerade.wording import explain

Progress: TypeAlias = Callable[[str, int, int], None]  # what is done, how far, and of how much
AUDIT_CONFIDENCE = (
    0.999  # of each audit: many are played, and at 95 % some would refute what is true
)


@dataclass(frozen=True, kw_only=True)
class DemoSystem:
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


SYSTEM_HEADING = (
    *("system", "what it protects", "proved epsilon: at most", "what is left to use"),
    *("an attacker gets, before and after", "seconds"),
)


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """Sections of the page, lines on a screen, lines of the one table, and all as plain values."""

    sections: Sequence[page.Section]
    lines: Sequence[str] = ()
    systems: Sequence[DemoSystem] = ()
    data: dict[str, Any] = field(default_factory=dict)


def hide_progress(what: str, done: int, total: int) -> None:
    """Tell nobody how far the work is."""


def compare_rates(before: MeasuredRate, after: MeasuredRate) -> str:
    """An attacker's headline in per cent, and what guessing would get.

    Example:
        >>> said = {"count": 9, "of": "people", "chance": 0.1, "measure": "rank-1"}
        >>> raw = MeasuredRate(value=0.9, low=0.8, high=1.0, **said)
        >>> compare_rates(raw, MeasuredRate(value=0.1, low=0.0, high=0.2, **said))
        '90 %, then 10 % (0 to 20) of 9 people named; guessing 10 %'
        >>> compare_rates(raw, MeasuredRate(value=0.0, low=0.0, high=0.0, **said))
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


def make_curves(points: Iterable[tuple[str, float, float]]) -> list[plots.PlotLine]:
    """Lines of a plot from points with the name of their line, each from left to right."""
    named: dict[str, list[tuple[float, float]]] = {}
    for name, x, y in points:
        named.setdefault(name, []).append((x, y))
    return [
        plots.PlotLine(name=name, x=xy[:, 0], y=xy[:, 1])
        for name, xy in ((name, np.array(sorted(some))) for name, some in named.items())
    ]


PRIVATE_NAME = "steps.private.csv"
MAX_STEPS = 200.0  # a minute; public: nobody's pace is read from the data
_NUM_MINUTES = 1440  # one day of a wearable, a number a minute
_AVERAGING_MINUTES = 61  # minutes; averaging what was released is free


def make_day(*, rng: np.random.Generator) -> np.ndarray:
    """Steps a minute of a person who never lived: two walks, errands, a night's sleep."""
    minute = np.arange(_NUM_MINUTES)
    pace = 8.0 * ((minute > 420) & (minute < 1380))
    for start, length, speed in ((455, 70, 105), (770, 45, 80), (1030, 110, 120)):
        pace = pace + speed * ((minute >= start) & (minute < start + length))
    drawn = rng.gamma(4.0, np.maximum(pace, 1e-6) / 4.0)
    return np.asarray(np.round(drawn).clip(0, MAX_STEPS))


def make_steps_chapter(folder: Path, *, seed: int) -> Chapter:
    """A day, written to a private file and released from it."""
    private, target = folder / PRIVATE_NAME, folder / "steps.csv"
    original = make_day(rng=np.random.default_rng(seed))
    text = "steps\n" + "".join(f"{value:g}\n" for value in original)
    atomic.write_whole(private, text.encode())
    mechanism = make_mechanism(
        "gaussian_noise", epsilon=8.0, delta=1e-5, unit="frame", low=0.0, high=MAX_STEPS
    )
    again = FileSettings(heading=True, if_standing=IfExists.OVERWRITE)
    receipt = release_file(private, target, mechanism, options=again).receipt
    drawn = page.format_figure(_draw_day(original, np.loadtxt(target, skiprows=1)))
    section = release_sections.write_release_section("A day of steps", receipt, pictures=drawn)
    return Chapter(
        sections=[
            replace(section, has_originals=True),  # generated, so it can be shown
            release_sections.make_receipts_section([(target.name, receipt)]),
        ],
        lines=[
            f"Released {target}, one day of steps, one number a minute. Its receipt "
            f"({receipt_path(target).name}) says:",
            *(f"  {line}" for line in explain(receipt.guarantee)),
            "",
        ],
        data={"released": str(target)},
    )


def _draw_day(original: np.ndarray, released: np.ndarray) -> str:
    """The day before and after, and after averaging what was released."""
    hours = np.arange(_NUM_MINUTES) / 60
    window = np.ones(_AVERAGING_MINUTES) / _AVERAGING_MINUTES
    lines = [
        plots.PlotLine(name="released", x=hours, y=released, is_faint=True),
        plots.PlotLine(name="original", x=hours, y=original, is_faint=True),
        plots.PlotLine(name="released, averaged", x=hours, y=np.convolve(released, window, "same")),
        plots.PlotLine(name="original, averaged", x=hours, y=np.convolve(original, window, "same")),
    ]
    axes = plots.PlotAxes(title="Steps of one day", x_label="hour", y_label="steps a minute")
    return plots.draw_lines(lines, axes)


# --- the budget
EPSILON_CAP = 8.0
EPSILON_EACH = 3.0
DELTA = 1e-5


def make_budget_chapter(folder: Path) -> Chapter:
    """Open an account on the folder's private steps, spend it, crash once; what happened."""
    source, database = folder / PRIVATE_NAME, folder / "budget.db"
    for path in folder.glob("budget.db*"):
        path.unlink()
    ledger = Ledger(database)
    unit = Unit(name=UnitName.FRAME)
    ledger.open_account("demo", unit, epsilon=EPSILON_CAP, delta=DELTA)
    value = np.loadtxt(source, skiprows=1).reshape(-1, 1)
    ledger.add_content("demo", value)
    mechanism = make_mechanism(
        "gaussian_noise", epsilon=EPSILON_EACH, delta=DELTA, unit="frame", low=0.0, high=MAX_STEPS
    )
    said = [
        f"An account for one frame: epsilon {EPSILON_CAP:g}, delta {DELTA:g}. Each release asks "
        "for "
        f"epsilon {EPSILON_EACH:g}."
    ]
    for number in range(1, 20):
        if number == 2:
            _reserve_and_die(ledger, value, mechanism)
            said.append("Release 2 was killed after its spend was recorded: nothing was published.")
            continue
        target = folder / f"steps-{number}.csv"
        try:
            release_file(
                source,
                target,
                mechanism,
                ledger=ledger,
                options=FileSettings(heading=True, if_standing=IfExists.OVERWRITE),
            )
        except BudgetExceeded as error:
            said.append(f"Release {number} was refused. {error}")
            break
        said.append(f"Release {number} stands as {target.name}.")
    entries = ledger.read_entries()
    spends = sum(entry.kind == "reserve" for entry in entries)
    said.append(f"The ledger's {len(entries)} entries verify; {spends} spends are in it.")
    title = "The budget: an account that cannot be overdrawn"
    section = page.Section(title=title, body=page.format_listing(said), part=PagePart.BUDGET)
    return Chapter(sections=[section], lines=[*said, ""])


def _reserve_and_die(ledger: Ledger, value: np.ndarray, mechanism: Mechanism) -> None:
    """In a process of its own, which is killed as soon as the spend is recorded."""
    child = os.fork()
    if child == 0:
        ledger.reserve_release(value, mechanism)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
