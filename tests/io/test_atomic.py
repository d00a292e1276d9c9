"""Locks and temporary files beside the target: one writer, and nothing that killed runs leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import masquerade as mq
from masquerade.errors import BadInput
from masquerade.guarantee import Unit
from masquerade.io import atomic
from masquerade.ledger import Ledger
from masquerade.publish import spine

MECHANISM = mq.make_mechanism(
    "gaussian_noise", epsilon=2, delta=1e-5, unit="frame", low=0.0, high=10.0
)
WORDS = "--mechanism gaussian_noise --epsilon 2 --delta 1e-5 --unit frame --low 0 --high 10".split()


def python(code: str, *, wait: bool = True, **environment: str) -> subprocess.Popen[str]:
    """A fresh interpreter that runs ``code``; with ``wait``, once it has printed a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    if wait:
        assert process.stdout is not None and process.stdout.readline(), process.communicate()
    return process


def holding(target: Path, **environment: str) -> subprocess.Popen[str]:
    code = f"""
import time
from pathlib import Path
from masquerade.io import atomic
path = Path({str(target)!r})
with atomic.lock_target(path), atomic.open_unfinished(path) as part:
    part.stream.write(b"half")
    part.stream.flush()
    print("held", flush=True)
    time.sleep(60)
"""
    return python(code, **environment)


def hidden(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.glob(".*"))


def test_a_lock_holds_off_processes_with_another_temporary_folder(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    target = tmp_path / "out.npy"
    process = holding(target, TMPDIR=str(tmp_path / "tmp"))
    got = threading.Event()

    def take() -> None:
        with atomic.lock_target(target):
            got.set()

    thread = threading.Thread(target=take)
    thread.start()
    try:
        assert not got.wait(0.3), "it is held"
    finally:
        process.kill()
    assert got.wait(20), "a killed holder lets go"
    thread.join()
    process.communicate()


def test_a_lock_leaves_nothing_and_many_take_turns(tmp_path: Path) -> None:
    target, inside, most = tmp_path / "x", [0], [0]

    def take() -> None:
        for _ in range(20):
            with atomic.lock_target(target):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.0005)
                inside[0] -= 1

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] and not list(tmp_path.iterdir())


@pytest.mark.skipif(os.getuid() != 0, reason="only a superuser can be somebody else")
def test_users_with_closed_files_take_turns() -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own is closed to others
        Path(folder).chmod(0o1777)
        code = f"""
import os
from pathlib import Path
from masquerade.io import atomic
os.umask(0o077)
os.setuid(int(os.environ["WHO"]))
mine = Path({folder!r}, "in-" + os.environ["WHO"])
for _ in range(60):
    with atomic.lock_target(Path({folder!r}, "x")):
        mine.touch()
        assert len(list(mine.parent.glob("in-*"))) == 1
        mine.unlink()
"""
        users = [python(code, wait=False, WHO=who) for who in ("0", "1", "65534")]
        for user in users:
            assert user.communicate(timeout=60)[1] == ""
        assert not list(Path(folder).iterdir())


def test_a_folder_that_cannot_hold_a_lock_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(BadInput, match="files can be locked"),
        atomic.lock_target(tmp_path / "no" / "x"),
    ):
        pass


def test_what_a_killed_run_left_is_swept_and_a_live_one_is_left_alone(tmp_path: Path) -> None:
    process = holding(tmp_path / "out.npy")
    assert hidden(tmp_path) == [".lock", ".part"]
    assert atomic.remove_dead_files(tmp_path) == 0 and hidden(tmp_path) == [".lock", ".part"]
    process.kill()
    process.communicate()
    assert atomic.remove_dead_files(tmp_path) == 1 and not list(tmp_path.iterdir())


def test_another_machines_file_is_swept_only_after_a_day(tmp_path: Path) -> None:
    part = tmp_path / ".masquerade-one-000000000000-0011223344556677.part"
    part.write_bytes(b"half")
    assert atomic.remove_dead_files(tmp_path) == 0 and part.exists()
    os.utime(part, (time.time() - 90_000, time.time() - 90_000))
    assert atomic.remove_dead_files(tmp_path) == 1 and not part.exists()


def test_the_next_release_says_what_it_removed(tmp_path: Path, command: Any) -> None:
    np.save(tmp_path / "in.npy", np.ones((4, 3)))
    for name in ("a.npy", "b.npy"):
        process = holding(tmp_path / name)
        process.kill()
        process.communicate()
    done = command("release", tmp_path / "in.npy", tmp_path / "out.npy", *WORDS)
    assert done.code == 0 and "Removed 2 unfinished files of a run that was stopped." in done.out
    assert not hidden(tmp_path)


@pytest.mark.parametrize("has_links", [True, False])
def test_an_exclusive_name_never_replaces(
    has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(95, "no links")))
    target = tmp_path / "x"
    with atomic.open_unfinished(target, replaces=False) as part:
        part.stream.write(b"one")
        part.seal_file()
        part.move_into_place()
        assert part.is_in_place
    with atomic.open_unfinished(target, replaces=False) as part:
        part.stream.write(b"two")
        part.seal_file()
        with pytest.raises(FileExistsError):
            part.move_into_place()
        assert not part.is_in_place
    assert target.read_bytes() == b"one" and not hidden(tmp_path)


@pytest.mark.parametrize("ends", ["", ".receipt.json"])
def test_an_output_that_came_from_elsewhere_in_the_meantime_stays(
    ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a network that knows only the locks of each machine."""
    np.save(tmp_path / "in.npy", np.ones((4, 3)))
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("ward", Unit(name="frame"), epsilon=20, delta=1e-5)
    ledger.add_content("ward", np.ones((4, 3)))
    (out := tmp_path / "out").mkdir()
    real = spine.OutputPlace.name_files

    def late(place: spine.OutputPlace, *parts: atomic.UnfinishedFile) -> None:
        (out / f"x.npy{ends}").write_bytes(b"theirs")
        real(place, *parts)

    monkeypatch.setattr(spine.OutputPlace, "name_files", late)
    with pytest.raises(FileExistsError, match="What was reserved for it is spent"):
        mq.release_file(tmp_path / "in.npy", out / "x.npy", MECHANISM, ledger=ledger)
    assert [path.name for path in out.iterdir()] == [f"x.npy{ends}"]
    assert (out / f"x.npy{ends}").read_bytes() == b"theirs"


def test_a_receipt_without_its_output_is_no_obstacle(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.ones((4, 3)))
    (tmp_path / "x.npy.receipt.json").write_text("of a run that was stopped")
    done = mq.release_file(tmp_path / "in.npy", tmp_path / "x.npy", MECHANISM)
    assert mq.check_receipt(done.value) == done.receipt


def test_racers_with_their_own_temporary_folders_release_once(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.ones((4, 3)))
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("ward", Unit(name="frame"), epsilon=50, delta=1e-5)
    ledger.add_content("ward", np.ones((4, 3)))
    (out := tmp_path / "out").mkdir()
    racers = []
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        words = [str(tmp_path / "in.npy"), str(out / "x.npy"), *WORDS]
        words += ["--ledger", str(tmp_path / "budget.db")]
        code = f"""
import sys, time
from pathlib import Path
from masquerade import cli
import masquerade.cli.release, masquerade.mechanisms.gaussian_noise
Path({str(tmp_path / "ready")!r} + "{number}").touch()
while len(list(Path({str(tmp_path)!r}).glob("ready*"))) < 3: time.sleep(0.001)
cli.main({["release", *words]!r})
"""
        racers.append(python(code, wait=False, TMPDIR=str(tmp_path / str(number))))
    said = [racer.communicate(timeout=120)[0] for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 3
    assert sorted("stood there already" in each for each in said) == [False, True, True]
    kinds = [entry.kind for entry in Ledger(tmp_path / "budget.db").read_entries()]
    assert kinds == ["open", "add", "reserve", "settle"]
    ends = ("", ".receipt.json", ".receipt.json.sig")
    assert sorted(path.name for path in out.iterdir()) == [f"x.npy{end}" for end in ends]


def test_a_request_to_end_cleans_up_and_says_so(tmp_path: Path) -> None:
    code = f"""
import sys, time
import numpy as np
from pathlib import Path
from masquerade import cli
from masquerade.mechanisms.gaussian_noise import GaussianNoise
def slow(self, value, noise):
    print("at work", flush=True)
    time.sleep(60)
GaussianNoise.apply = slow
np.save({str(tmp_path / "in.npy")!r}, np.ones((4, 3)))
cli.main(["release", {str(tmp_path / "in.npy")!r}, {str(tmp_path / "x.npy")!r}, *{WORDS!r}])
"""
    process = python(code)
    process.send_signal(signal.SIGTERM)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 143
    assert complaint == "masquerade: Interrupted; nothing was published.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["in.npy"]


def test_what_was_removed_under_our_hands_is_noticed_before_it_is_settled(tmp_path: Path) -> None:
    with atomic.open_unfinished(tmp_path / "x") as part:
        part.stream.write(b"much work")
        next(tmp_path.glob(".masquerade-*.part")).unlink()
        with pytest.raises(OSError, match="it was removed"):
            part.seal_file()
