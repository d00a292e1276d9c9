"""Releases that fail or are stopped in the middle: what is said, what stands, what is left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade.errors import BadInput, StopRequested
from masquerade.io import atomic
from masquerade.ledger import Ledger
from masquerade.publish import spine
from masquerade.publish.recording import ReleasedTable

WORDS = "--mechanism gaussian_noise --epsilon 2 --delta 1e-5 --unit frame --low 0 --high 10".split()
SPENT = "What was reserved for it is spent."


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A folder ``in`` of two arrays."""
    (tmp_path / "in").mkdir()
    for seed, name in enumerate(("anna.npy", "ben.npy")):
        np.save(tmp_path / "in" / name, np.random.default_rng(seed).uniform(0, 10, (4, 3)))
    return tmp_path


def opened(command: Any, house: Path) -> Path:
    ledger = house / "budget.db"
    words = ["--ledger", ledger, "--epsilon", 20, "--delta", "1e-5", "--unit", "frame"]
    assert command("ledger", "open", "ward", *words).code == 0
    files = sorted((house / "in").iterdir())
    assert command("ledger", "add", "ward", *files, "--ledger", ledger).code == 0
    return ledger


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), BadInput("It changed."), MemoryError()]
)
@pytest.mark.parametrize("is_charged", [True, False])
def test_whatever_fails_after_the_charge_says_that_it_is_spent(
    error: Exception, is_charged: bool, house: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        raise type(error)(*error.args)

    words = [*WORDS, *(["--ledger", opened(command, house)] if is_charged else [])]
    monkeypatch.setattr(ReleasedTable, "write", fail)
    done = command("release", house / "in" / "anna.npy", house / "out.npy", *words)
    assert done.code == 4 and done.err.count(SPENT) == is_charged
    done = command("release", house / "in", house / "out", *words, "--jobs", 1)
    assert done.code == 4 and done.out.count(SPENT) == 2 * is_charged


def test_what_fails_before_the_charge_says_nothing_of_a_spend(house: Path, command: Any) -> None:
    ledger = opened(command, house)
    other = house / "other.npy"
    np.save(other, np.ones((4, 3)))
    done = command("release", other, house / "out.npy", *WORDS, "--ledger", ledger)
    assert done.code == 4 and SPENT not in done.err
    assert "reserve" not in [entry.kind for entry in Ledger(ledger).read_entries()]


BUSY = """
import sys, time
from pathlib import Path
from masquerade.io.workers import WorkerPool

def work(path):
    Path(path).touch()
    time.sleep(120)

if __name__ == "__main__":
    list(WorkerPool(jobs=2).run_tasks(work, sys.argv[1:]))
"""


def test_workers_end_when_the_run_that_started_them_is_killed(tmp_path: Path) -> None:
    (program := tmp_path / "busy.py").write_text(BUSY)
    signs = [tmp_path / name for name in ("one", "two")]
    with subprocess.Popen([sys.executable, program, *signs], stdout=subprocess.PIPE) as process:
        while not all(sign.exists() for sign in signs):
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()
        process.communicate(timeout=30)  # until all have closed their pipes: no worker left


def test_a_terminal_that_goes_is_a_request_to_end(command: Any) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        assert command("--version").code == 0
        with pytest.raises(StopRequested):
            signal.raise_signal(signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
        assert command("--version").code == 0
        signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def stop_at(patch: pytest.MonkeyPatch, place: int, *, is_after: bool) -> None:
    """Ctrl-C before or after the naming of file number ``place``."""
    plain, numbers = atomic.UnfinishedFile.move_into_place, count(1)

    def name(part: atomic.UnfinishedFile) -> None:
        is_here = next(numbers) == place
        if is_after or not is_here:
            plain(part)
        if is_here:
            raise KeyboardInterrupt

    patch.setattr(atomic.UnfinishedFile, "move_into_place", name)


STOPS = [(1, False), (1, True), (2, True), (3, False), (3, True)]  # of receipt, signature, output


@pytest.mark.parametrize("words", [[], ["--overwrite"]])
@pytest.mark.parametrize(("place", "is_after"), STOPS)
def test_a_stop_between_receipt_and_output_leaves_both_or_none(
    place: int, is_after: bool, words: list[str], house: Path, command: Any
) -> None:
    out, receipt = house / "out.npy", house / "out.npy.receipt.json"
    signed = house / "out.npy.receipt.json.sig"
    line = ["release", house / "in" / "anna.npy", out, *WORDS]
    if words:
        assert command(*line).code == 0
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, place, is_after=is_after)
        done = command(*line, *words)
    is_whole = (place, is_after) == (3, True)
    assert done.code == 130 and out.exists() == receipt.exists() == signed.exists() == is_whole
    if is_whole:
        assert f"Interrupted; {out} stands." in done.err
        assert command("receipt", "check", out).code == 0
    else:
        assert "nothing was published" in done.err
        assert (f"the old {out} is gone" in done.err) == bool(words)


def test_a_stop_before_the_old_output_goes_says_that_it_stands(
    house: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> Any:
        raise KeyboardInterrupt

    out, line = house / "out.npy", ["release", house / "in" / "anna.npy", house / "out.npy", *WORDS]
    assert command(*line).code == 0
    monkeypatch.setattr(spine, "write_receipt", stop)
    done = command(*line, "--overwrite")
    assert done.code == 130
    assert done.err == f"masquerade: Interrupted; nothing was published; the old {out} stands.\n"
    assert command("receipt", "check", out).code == 0


def test_a_stop_does_not_take_old_outputs_for_new_ones(house: Path, command: Any) -> None:
    line = ["release", house / "in", house / "out", *WORDS, "--jobs", 1, "--keep-names"]
    assert command(*line).code == 0
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 4, is_after=False)
        done = command(*line, "--overwrite")
    assert done.code == 130 and "1 of 2 new outputs stand" in done.err
    assert "--resume" not in done.err and "all of them again" in done.err
    for path in (house / "out").glob("*.npy"):
        path.unlink()
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 4, is_after=False)
        done = command(*line)
    assert "1 of 2 outputs stand" in done.err and "with --resume" in done.err
