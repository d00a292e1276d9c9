"""Kills, races, full disks, wrong clocks and meddling: no spend is lost, no output goes unpaid."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import test_ledger
from test_ledger import DELTA, FRAME, MECHANISM, kinds, opened, values

from masquerade import Options, check_receipt, release_file, release_value
from masquerade.doors.publish import IfStanding
from masquerade.errors import BadInput, BudgetExceeded
from masquerade.files import atomic
from masquerade.ledger import Ledger
from masquerade.ledger.store import OutOfReach, Tampered
from masquerade.release.gaussian_noise import GaussianNoise

address = test_ledger.address
STEPS = ("doors/recording.py", "doors/publish.py", "doors/bill.py", "files/atomic.py")
STEPS += ("ledger/ledger.py", "ledger/home.py", "ledger/store.py")


def fork(work: Callable[[], object]) -> int:
    """Start ``work`` in a child; it exits with 0, or 3 past the cap, 4 for bad input, 5 else."""
    child = os.fork()
    if child:
        return child
    code = 5
    try:
        work()
        code = 0
    except BudgetExceeded:
        code = 3
    except (BadInput, OSError):
        code = 4
    finally:
        os._exit(code)


def code_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


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
        self.source, self.seen = folder / "in.npy", len(self.ledger.entries())
        np.save(self.source, values(0))

    def release(self) -> None:
        release_file(
            self.source,
            self.target,
            MECHANISM,
            ledger=self.ledger,
            options=Options(if_standing=IfStanding.OVERWRITE),
        )

    def judge(self) -> str:
        """How far the run came; whatever it is, the books must be right."""
        entries = self.ledger.entries()
        assert len(entries) >= self.seen, "a recorded spend was lost"
        new, self.seen = [entry.kind for entry in entries[self.seen :]], len(entries)
        assert new in ([], ["reserve"], ["reserve", "settle"])
        is_new = False
        if self.target.exists():
            receipt = check_receipt(self.target)
            assert self.ledger.strangers([receipt]) == []
            assert self.ledger.vouches_for(receipt, values(0))
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
    """Kill runs before the receipt has its name, and between it and the output."""
    states = set()
    for last in ("out.npy.receipt.json", "out.npy"):

        def run(last: str = last) -> None:
            plain = atomic.Part.name

            def name(part: atomic.Part) -> None:
                if part.target.name == last:
                    os.kill(os.getpid(), signal.SIGKILL)
                plain(part)

            atomic.Part.name = name  # type: ignore[method-assign]
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


def test_sixteen_racers_get_exactly_the_five_spends_there_are(address: str) -> None:
    ledger = opened(address, count=5)
    gate, start = os.pipe()

    def race() -> None:
        os.close(start)
        os.read(gate, 1)  # all wait here until the gate is closed
        ledger.reserve(values(0), MECHANISM)

    children = [fork(race) for _ in range(16)]
    os.close(start)
    os.close(gate)
    codes = [code_of(child) for child in children]
    assert sorted(codes) == [0] * 5 + [3] * 11
    assert kinds(ledger) == ["open", "add", *["reserve"] * 5]


def test_one_ledger_comes_of_many_that_open_it_at_once(address: str) -> None:
    def open_account(place: int) -> Callable[[], object]:
        return lambda: Ledger(address).open_account(f"ward {place}", FRAME, epsilon=1, delta=DELTA)

    children = [fork(open_account(place)) for place in range(8)]
    assert [code_of(child) for child in children] == [0] * 8
    assert set(Ledger(address).book().accounts) == {f"ward {place}" for place in range(8)}


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
        patch.setattr(Ledger, "settle", cut)
        release_file(tmp_path / "in.npy", tmp_path / "out.npy", MECHANISM, ledger=ledger)
    assert kinds(ledger) == ["open", "add", "reserve"] and not list(tmp_path.glob("out*"))


def test_an_output_that_stands_unsettled_is_settled_by_the_second_run(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a ledger out of reach leaves it."""
    ledger = opened(address)
    np.save(tmp_path / "in.npy", values(0))

    def away(self: Ledger, receipt: object) -> None:
        raise OutOfReach("It is away.")

    with monkeypatch.context() as patch, pytest.raises(OutOfReach, match="stands and its spend"):
        patch.setattr(Ledger, "settle", away)
        release_file(tmp_path / "in.npy", tmp_path / "out.npy", MECHANISM, ledger=ledger)
    assert kinds(ledger) == ["open", "add", "reserve"] and (tmp_path / "out.npy").exists()
    assert release_file(tmp_path / "in.npy", tmp_path / "out.npy", MECHANISM, ledger=ledger).stood
    assert kinds(ledger) == ["open", "add", "reserve", "settle"]


@pytest.mark.parametrize(("limit", "spent"), [(2048, []), (300_000, ["reserve"])])
def test_a_full_disk_never_leaves_an_output_without_a_spend(
    limit: int, spent: list[str], tmp_path: Path
) -> None:
    ledger, big = opened(str(tmp_path / "budget.db")), np.zeros((100_000, 1))
    ledger.add("ward", big)
    np.save(tmp_path / "in.npy", big)

    def run() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        release_file(tmp_path / "in.npy", tmp_path / "out.npy", MECHANISM, ledger=ledger)

    assert code_of(fork(run)) == 4
    assert kinds(ledger) == ["open", "add", "add", *spent]
    assert not list(tmp_path.glob("out*")) and not list(tmp_path.glob(".masq*"))
    release_file(tmp_path / "in.npy", tmp_path / "out.npy", MECHANISM, ledger=ledger)
    assert kinds(ledger)[-2:] == ["reserve", "settle"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user may look into."""
    folder = Path(tempfile.mkdtemp(prefix="masquerade-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_ledger_that_cannot_be_written_releases_nothing(open_folder: Path) -> None:
    path = open_folder / "budget.db"
    ledger = opened(str(path))
    path.chmod(0o444)
    open_folder.chmod(0o555)

    def run() -> None:
        if os.getuid() == 0:  # to whom no file is read-only
            os.setgid(65534)
            os.setuid(65534)
        release_value(values(0), MECHANISM, ledger=ledger)

    assert code_of(fork(run)) == 4
    open_folder.chmod(0o755)
    assert kinds(ledger) == ["open", "add"]


def test_what_is_no_ledger_is_refused(tmp_path: Path) -> None:
    text, folder, other = tmp_path / "text.db", tmp_path / "folder.db", tmp_path / "other.db"
    text.write_text("hello, this is not a database at all; " * 50)
    folder.mkdir()
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    (tmp_path / "empty.db").touch()
    for path in (text, folder, other, tmp_path / "empty.db", tmp_path / "missing.db"):
        with pytest.raises(BadInput):
            Ledger(path).entries()
    for path in (text, folder):
        with pytest.raises(BadInput, match=r"read and written|folder"):
            Ledger(path).open_account("ward", FRAME, epsilon=1, delta=DELTA)
    assert text.read_text().startswith("hello") and not (tmp_path / "missing.db").exists()
    with pytest.raises(BadInput):
        Ledger("postgresql://postgres:@/postgres?host=/nowhere").entries()


MEDDLING = {
    "changed cost": 'UPDATE entries SET payload = replace(payload, \'"cost": "\', \'"cost": "-\')',
    "changed cap": "UPDATE entries SET payload = replace(payload, '1e-05', '1e-02')",
    "changed time": "UPDATE entries SET time = '2020-01-01T00:00:00+00:00' WHERE sequence = 3",
    "changed kind": "UPDATE entries SET kind = 'noted' WHERE sequence = 3",
    "inserted row": "INSERT INTO entries SELECT 7, time, kind, payload, head FROM entries "
    "WHERE sequence = 3",
    "deleted last row": "DELETE FROM entries WHERE sequence = 6",
    "deleted last row and tip": "DELETE FROM entries WHERE sequence = 6; "
    "UPDATE ledger SET tip_sequence = 5, "
    "tip_head = (SELECT head FROM entries WHERE sequence = 5)",
    "deleted middle row": "DELETE FROM entries WHERE sequence = 4",
    "renumbered": "DELETE FROM entries WHERE sequence = 4; "
    "UPDATE entries SET sequence = 4 WHERE sequence = 5; "
    "UPDATE entries SET sequence = 5 WHERE sequence = 6; UPDATE ledger SET tip_sequence = 5",
    "other tip": "UPDATE ledger SET tip_sequence = 5",
    "other key": "UPDATE ledger SET key = '00'",
    "other id": "UPDATE ledger SET id = '00'",
    "other member": "UPDATE contents SET member = '00'",
    "other content": "UPDATE contents SET content = '00'",
    "deleted content": "DELETE FROM contents",
    "emptied": "DELETE FROM entries",
}


@pytest.mark.parametrize("what", MEDDLING)
def test_meddling_is_noticed(what: str, address: str) -> None:
    ledger = opened(address)
    for _ in range(2):
        release_value(values(0), MECHANISM, ledger=ledger)
    assert len(ledger.entries()) == 6
    with ledger._store._engine.begin() as connection:
        for statement in MEDDLING[what].split("; "):
            assert connection.exec_driver_sql(statement).rowcount >= 1
    with pytest.raises(Tampered):
        ledger.entries()
    with pytest.raises(Tampered):
        ledger.reserve(values(0), MECHANISM)


def test_a_restored_backup_is_refused(tmp_path: Path, command: Any) -> None:
    path, old = tmp_path / "budget.db", tmp_path / "old.db"
    published = tmp_path / "published"
    published.mkdir()
    np.save(tmp_path / "in.npy", values(0))
    ledger = opened(str(path), count=2)

    def release(name: str) -> None:
        release_file(tmp_path / "in.npy", published / name, MECHANISM, ledger=ledger)

    release("a.npy")
    witness = Path(f"{path}.witness")
    for file in (path, witness):
        shutil.copy(file, old.with_suffix(file.suffix))
    release("b.npy")
    shutil.copy(old, path)
    with pytest.raises(Tampered, match="older copy"):
        ledger.reserve(values(0), MECHANISM)
    verify = ["ledger", "verify", "--ledger", path]
    assert command(*verify).code == 4

    shutil.copy(old.with_suffix(".witness"), witness)
    assert command(*verify).code == 0, "nothing in the ledger itself can tell"
    found = command(*verify, "--receipts", published)
    assert found.code == 4 and "1 of 2 are not in it" in found.err
    (published / "b.npy").unlink()
    release("c.npy")
    found = command(*verify, "--receipts", published)
    assert found.code == 4 and "1 of 3 are not in it: entry 5" in found.err
    (published / "b.npy.receipt.json").unlink()
    assert command(*verify, "--receipts", published).code == 0
    (published / "c.npy.receipt.json").write_text("{}")
    assert command(*verify, "--receipts", published).code == 4
    assert command(*verify, "--receipts", tmp_path / "nowhere").code == 4


def test_a_lost_witness_is_written_anew(address: str, tmp_path: Path) -> None:
    ledger = opened(address)
    [witness] = tmp_path.rglob("*.witness")
    said = witness.read_text()
    witness.unlink()
    ledger.entries()
    assert witness.read_text() == said
    ledger.reserve(values(0), MECHANISM)
    assert witness.read_text() != said
