"""A budget that is spent until it refuses, with a crash in the middle, as the demo tells it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np

from masquerade.errors import BudgetExceeded
from masquerade.guarantee import Unit, UnitName
from masquerade.ledger import Ledger
from masquerade.mechanism import Mechanism
from masquerade.publish.recording import Options, make_mechanism, release_file
from masquerade.publish.spine import IfStanding
from masquerade.recipes.demo import steps
from masquerade.recipes.demo.chapter import Chapter
from masquerade.report import page
from masquerade.report.page import PagePart

CAP = 8.0
EACH = 3.0
DELTA = 1e-5


def spent(folder: Path) -> Chapter:
    """Open an account on the folder's private steps, spend it, crash once; what happened."""
    source, database = folder / steps.PRIVATE, folder / "budget.db"
    for path in folder.glob("budget.db*"):
        path.unlink()
    ledger = Ledger(database)
    unit = Unit(name=UnitName.FRAME)
    ledger.open_account("demo", unit, epsilon=CAP, delta=DELTA)
    value = np.loadtxt(source, skiprows=1).reshape(-1, 1)
    ledger.add("demo", value)
    mechanism = make_mechanism(
        "gaussian_noise", epsilon=EACH, delta=DELTA, unit="frame", low=0.0, high=steps.MOST
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
