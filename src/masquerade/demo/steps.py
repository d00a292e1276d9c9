"""The demo's signal: a day of steps, released until the budget refuses, with a crash between."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np

from masquerade.demo.chapter import Chapter
from masquerade.errors import BudgetExceeded
from masquerade.guarantee import Unit, UnitName
from masquerade.io import atomic
from masquerade.ledger import Ledger
from masquerade.mechanism import Mechanism
from masquerade.publish.recording import Options, make_mechanism, release_file
from masquerade.publish.spine import IfStanding
from masquerade.receipt import receipt_path
from masquerade.report import page, plots, release_sections
from masquerade.report.page import PagePart
from masquerade.wording import explain

PRIVATE = "steps.private.csv"
MOST = 200.0  # a minute; public: nobody's pace is read from the data
_MINUTES = 1440  # one day of a wearable, a number a minute
_AVERAGED = 61  # minutes; averaging what was released is free


def make_day(*, rng: np.random.Generator) -> np.ndarray:
    """Steps a minute of a person who never lived: two walks, errands, a night's sleep."""
    minute = np.arange(_MINUTES)
    pace = 8.0 * ((minute > 420) & (minute < 1380))
    for start, length, speed in ((455, 70, 105), (770, 45, 80), (1030, 110, 120)):
        pace = pace + speed * ((minute >= start) & (minute < start + length))
    drawn = rng.gamma(4.0, np.maximum(pace, 1e-6) / 4.0)
    return np.asarray(np.round(drawn).clip(0, MOST))


def make_steps_chapter(folder: Path, *, seed: int) -> Chapter:
    """A day, written to a private file and released from it."""
    private, target = folder / PRIVATE, folder / "steps.csv"
    original = make_day(rng=np.random.default_rng(seed))
    text = "steps\n" + "".join(f"{value:g}\n" for value in original)
    atomic.write_whole(private, text.encode())
    mechanism = make_mechanism(
        "gaussian_noise", epsilon=8.0, delta=1e-5, unit="frame", low=0.0, high=MOST
    )
    again = Options(heading=True, if_standing=IfStanding.OVERWRITE)
    receipt = release_file(private, target, mechanism, options=again).receipt
    drawn = page.figure(_draw_day(original, np.loadtxt(target, skiprows=1)))
    section = release_sections.write_release_section("A day of steps", receipt, pictures=drawn)
    return Chapter(
        sections=[
            replace(section, has_originals=True),  # generated, so it can be shown
            release_sections.receipts([(target.name, receipt)]),
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
    hours = np.arange(_MINUTES) / 60
    window = np.ones(_AVERAGED) / _AVERAGED
    lines = [
        plots.Line(name="released", x=hours, y=released, is_faint=True),
        plots.Line(name="original", x=hours, y=original, is_faint=True),
        plots.Line(name="released, averaged", x=hours, y=np.convolve(released, window, "same")),
        plots.Line(name="original, averaged", x=hours, y=np.convolve(original, window, "same")),
    ]
    axes = plots.Axes(title="Steps of one day", x_label="hour", y_label="steps a minute")
    return plots.draw_lines(lines, axes)


# --- the budget

CAP = 8.0
EACH = 3.0
DELTA = 1e-5


def make_budget_chapter(folder: Path) -> Chapter:
    """Open an account on the folder's private steps, spend it, crash once; what happened."""
    source, database = folder / PRIVATE, folder / "budget.db"
    for path in folder.glob("budget.db*"):
        path.unlink()
    ledger = Ledger(database)
    unit = Unit(name=UnitName.FRAME)
    ledger.open_account("demo", unit, epsilon=CAP, delta=DELTA)
    value = np.loadtxt(source, skiprows=1).reshape(-1, 1)
    ledger.add("demo", value)
    mechanism = make_mechanism(
        "gaussian_noise", epsilon=EACH, delta=DELTA, unit="frame", low=0.0, high=MOST
    )
    said = [
        f"An account for one frame: epsilon {CAP:g}, delta {DELTA:g}. Each release asks for "
        f"epsilon {EACH:g}."
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
                options=Options(heading=True, if_standing=IfStanding.OVERWRITE),
            )
        except BudgetExceeded as error:
            said.append(f"Release {number} was refused. {error}")
            break
        said.append(f"Release {number} stands as {target.name}.")
    entries = ledger.entries()
    spends = sum(entry.kind == "reserve" for entry in entries)
    said.append(f"The ledger's {len(entries)} entries verify; {spends} spends are in it.")
    title = "The budget: an account that cannot be overdrawn"
    section = page.Section(title=title, body=page.listing(said), part=PagePart.BUDGET)
    return Chapter(sections=[section], lines=[*said, ""])


def _reserve_and_die(ledger: Ledger, value: np.ndarray, mechanism: Mechanism) -> None:
    """In a process of its own, which is killed as soon as the spend is recorded."""
    child = os.fork()
    if child == 0:
        ledger.reserve(value, mechanism)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
