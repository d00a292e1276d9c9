"""Kills at every step of the one spine: whatever is cut off, the books are right."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import test_ledger
from test_ledger import MECHANISM, kinds, opened, values
from test_ledger_faults import code_of, fork

from masquerade import FileSettings, check_receipt, release_file
from masquerade.errors import BadInput
from masquerade.io import atomic
from masquerade.ledger import Ledger
from masquerade.ledger.damage import OutOfReach
from masquerade.mechanisms.gaussian_noise import GaussianNoise
from masquerade.publish.spine import IfExists

address = test_ledger.address
STEPS = ("publish/recording.py", "publish/spine.py", "publish/bills.py", "io/atomic.py")
STEPS += ("ledger/ledger.py", "ledger/store.py", "ledger/store.py")


def at_each_line(act: Callable[[int], None]) -> None:
    """Call ``act`` with a count before every line that a step of a release runs."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.endswith(STEPS):
            return None
        if event == "line":
            count += 1
            act(count)
        return trace

    sys.settrace(trace)


class Scene:
    """A ledger, a file in it, and an output that is released again and again."""

    def __init__(self, address: str, folder: Path) -> None:
        self.ledger, self.target = opened(address, count=5000), folder / "out.npy"
        self.source, self.seen = folder / "in.npy", len(self.ledger.read_entries())
        np.save(self.source, values(0))

    def release(self) -> None:
        release_file(
            self.source,
            self.target,
            MECHANISM,
            ledger=self.ledger,
            options=FileSettings(if_standing=IfExists.OVERWRITE),
        )

    def judge(self) -> str:
        """How far the run came; whatever it is, the books must be right."""
        entries = self.ledger.read_entries()
        assert len(entries) >= self.seen, "a recorded spend was lost"
        new, self.seen = [entry.kind for entry in entries[self.seen :]], len(entries)
        assert new in ([], ["reserve"], ["reserve", "settle"])
        is_new = False
        if self.target.exists():
            receipt = check_receipt(self.target)
            assert self.ledger.find_strangers([receipt]) == []
            assert self.ledger.has_spend_for(receipt, values(0))
            reserves = [entry for entry in entries if entry.kind == "reserve"]
            is_new = bool(new) and receipt.ledger_sequence == reserves[-1].sequence
        assert not is_new or "settle" in new, "an output, and not settled"
        return " ".join([*new, "output" * is_new]).strip() or "nothing"


def kill_at_lines(scene: Scene, kills: int) -> set[str]:
    """Kill runs at lines spread evenly from the first to the last of a release."""
    (scene.target.parent / "lines").unlink(missing_ok=True)

    def counted() -> None:
        last = [0]
        at_each_line(lambda count: last.__setitem__(0, count))
        scene.release()
        sys.settrace(None)
        (scene.target.parent / "lines").write_text(str(last[0]))

    assert code_of(fork(counted)) == 0
    lines, states = int((scene.target.parent / "lines").read_text()), {scene.judge()}

    for line in np.linspace(1, lines, kills).astype(int):

        def run(line: int = line) -> None:
            at_each_line(
                lambda count: os.kill(os.getpid(), signal.SIGKILL) if count >= line else None
            )
            scene.release()

        assert code_of(fork(run)) == -signal.SIGKILL
        states.add(scene.judge())
    return states


def kill_at_names(scene: Scene) -> set[str]:
    """Kill runs before the receipt, its signature and the output get their names."""
    states = set()
    for last in ("out.npy.receipt.json", "out.npy.receipt.json.sig", "out.npy"):

        def run(last: str = last) -> None:
            plain = atomic.UnfinishedFile.move_into_place

            def name(part: atomic.UnfinishedFile) -> None:
                if part.target.name == last:
                    os.kill(os.getpid(), signal.SIGKILL)
                plain(part)

            atomic.UnfinishedFile.move_into_place = name  # type: ignore[method-assign]
            scene.release()

        assert code_of(fork(run)) == -signal.SIGKILL
        states.add(scene.judge())
    return states


def kill_at_times(scene: Scene, kills: int) -> None:
    """Kill runs at any moment, inside SQLite and the system as well."""
    rng = np.random.default_rng(5)
    for _ in range(kills):
        child = fork(scene.release)
        time.sleep(float(rng.uniform(0, 0.08)))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        scene.judge()


def test_kills_inside_every_step_leave_the_books_right(address: str, tmp_path: Path) -> None:
    scene = Scene(address, tmp_path)
    states = kill_at_lines(scene, 18) | kill_at_names(scene)
    assert states == {"nothing", "reserve", "reserve settle", "reserve settle output"}
    kill_at_times(scene, 12)
    scene.release()
    assert scene.judge() == "reserve settle output"


@pytest.mark.slow
def test_three_hundred_kills_leave_the_books_right(address: str, tmp_path: Path) -> None:
    scene = Scene(address, tmp_path)
    kill_at_lines(scene, 150)
    kill_at_times(scene, 150)
    scene.release()
    assert scene.judge() == "reserve settle output"


def test_a_crash_while_the_mechanism_runs_leaves_the_budget_spent(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(address)
    np.save(tmp_path / "in.npy", values(0))

    def broken(self: GaussianNoise, value: object, noise: object) -> None:
        raise RuntimeError("power cut")

    monkeypatch.setattr(GaussianNoise, "apply", broken)
    with pytest.raises(RuntimeError, match="power cut"):
        release_file(tmp_path / "in.npy", tmp_path / "out.npy", MECHANISM, ledger=ledger)
    assert kinds(ledger) == ["open", "add", "reserve"] and not list(tmp_path.glob("out*"))


def test_a_crash_before_settling_leaves_the_budget_spent_and_no_output(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(address)
    np.save(tmp_path / "in.npy", values(0))

    def cut(self: Ledger, receipt: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt, match="is spent"):
        patch.setattr(Ledger, "record_output", cut)
        release_file(tmp_path / "in.npy", tmp_path / "out.npy", MECHANISM, ledger=ledger)
    assert kinds(ledger) == ["open", "add", "reserve"] and not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("error", [OutOfReach, BadInput, OSError])
def test_an_output_that_stands_unsettled_is_settled_by_the_second_run(
    error: type[Exception], address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a ledger out of reach leaves it."""
    ledger = opened(address)
    np.save(tmp_path / "in.npy", values(0))

    def away(self: Ledger, receipt: object) -> None:
        raise error("It is away.")

    with monkeypatch.context() as patch, pytest.raises(error, match="stands and its spend"):
        patch.setattr(Ledger, "record_output", away)
        release_file(tmp_path / "in.npy", tmp_path / "out.npy", MECHANISM, ledger=ledger)
    assert kinds(ledger) == ["open", "add", "reserve"] and (tmp_path / "out.npy").exists()
    assert release_file(tmp_path / "in.npy", tmp_path / "out.npy", MECHANISM, ledger=ledger).stood
    assert kinds(ledger) == ["open", "add", "reserve", "settle"]
