"""Releasing a folder; and runs that are stopped, starved, or have the file changed under them."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import masquerade as mq
import video_files as maker
from masquerade import catalog
from masquerade.doors.folder import Work
from masquerade.doors.outputs import IfStanding
from masquerade.errors import BadInput
from masquerade.ledger import Ledger
from masquerade.mechanism import Heuristic, Shape
from masquerade.noise import Noise
from masquerade.video import read, write
from video_files import KINDS, Kind

PROGRAM = Path(sys.executable).with_name("masquerade")
PIXELS = "--epsilon 8 --delta 1e-4 --unit pixels --pixels 4".split()
POOLED = ["--mechanism", "pooled_gaussian", *PIXELS]
SLOW = ["--mechanism", "gaussian_noise", *PIXELS]
ONE = ["--jobs", "1"]
TWO = ["--jobs", "2"]
POOL = mq.make_mechanism("pooled_gaussian", epsilon=8, delta=1e-4, unit="pixels", pixels=4)
PNG = Kind(suffix=".png", codec="png", pixel_format="rgb24")


def make(path: Path, *, seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return maker.make(path, maker.moving(8, 24, 32, seed=seed), KINDS["h264.mp4"])


def make_long(path: Path, frames: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    film = maker.moving(10, 96, 128)
    with path.open("wb") as stream:
        looped = (film[number % 10] for number in range(frames))
        write.write(stream, looped, suffix=path.suffix, rate=maker.RATE)
    return path


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A folder ``in`` of three videos, one of them deeper."""
    for seed, name in enumerate(("a.mp4", "b.mp4", "deep/er/c.mp4")):
        make(tmp_path / "in" / name, seed=seed)
    return tmp_path


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def with_receipts(*names: str) -> set[str]:
    return {name + end for name in names for end in ("", ".receipt.json")}


def release(command: Any, house: Path, *words: object) -> Any:
    return command("release", house / "in", house / "out", *POOLED, *words)


@pytest.mark.parametrize("jobs", [ONE, TWO])
def test_one_corrupt_file_is_named_and_the_others_are_done(
    jobs: list[str], house: Path, command: Any
) -> None:
    bad = make(house / "in" / "bad.mp4")
    bad.write_bytes(bad.read_bytes()[:900])
    (house / "in" / "notes.txt").write_text("hello")
    (house / "in" / "deep" / "list.pdf").write_text("hello")
    for hidden in (".b.mp4", ".cache/b.mp4", "deep/.trash/b.mp4"):
        make(house / "in" / hidden)
    done = release(command, house, *jobs)
    assert done.code == 4 and "Wrote 3 files" in done.out
    assert "2 files are no recordings and were left alone" in done.out
    assert f"FAILED {bad}: Expected a whole video" in done.out and done.out.count("FAILED") == 1
    assert tree(house / "out") == with_receipts("a.mp4", "b.mp4", "deep/er/c.mp4")
    for name in ("a.mp4", "b.mp4", "deep/er/c.mp4"):
        assert command("receipt", "check", house / "out" / name).code == 0


def test_json_lists_every_file_with_its_outcome(house: Path, command: Any) -> None:
    (house / "in" / "bad.mp4").write_text("hello")
    make(house / "in" / "d.mp4", seed=8)
    shutil.copy(house / "in" / "a.mp4", house / "a.mp4")
    assert command("release", house / "a.mp4", house / "b.mp4", *POOLED).code == 0
    (house / "out").mkdir()
    for end in ("", ".receipt.json"):
        (house / f"b.mp4{end}").rename(house / "out" / f"a.mp4{end}")
    done = release(command, house, *ONE, "--resume", "--json")
    assert done.code == 4 and done.err == ""
    files = {Path(each["source"]).name: each for each in done.json["files"]}
    assert list(files) == ["a.mp4", "b.mp4", "bad.mp4", "d.mp4", "c.mp4"] or len(files) == 5
    assert files["a.mp4"]["already_done"] and not files["b.mp4"]["already_done"]
    assert files["bad.mp4"]["exit_code"] == 4 and files["bad.mp4"]["output"] is None
    assert "can be decoded" in files["bad.mp4"]["error"]
    assert files["c.mp4"]["output"] == str(house / "out" / "deep" / "er" / "c.mp4")
    assert (done.json["failed"], done.json["already_done"], done.json["left_alone"]) == (1, 1, 0)


def test_opaque_names_are_kept_in_a_private_list(house: Path, command: Any) -> None:
    assert release(command, house, *ONE, "--rename").code == 0
    book = house / "out.names.private.json"
    assert stat.S_IMODE(book.stat().st_mode) == 0o600
    listed = json.loads(book.read_text())
    assert set(listed) == {"a.mp4", "b.mp4", "deep/er/c.mp4"} and len(set(listed.values())) == 3
    assert tree(house / "out") == with_receipts(*(f"{name}.mp4" for name in listed.values()))
    assert not any(word in name for name in listed.values() for word in ("a.", "b.", "c."))
    make(house / "in" / "d.mp4", seed=4)
    first = {name: (house / "out" / name).read_bytes() for name in tree(house / "out")}
    again = release(command, house, *ONE, "--rename", "--resume")
    assert again.code == 0 and "3 stood there already" in again.out
    later = json.loads(book.read_text())
    assert listed.items() < later.items() and set(later) - set(listed) == {"d.mp4"}
    for name, data in first.items():
        assert (house / "out" / name).read_bytes() == data
        assert not any(private in data for private in (b"a.mp4", b"c.mp4", str(house).encode()))


def test_all_outputs_may_get_one_suffix(house: Path, command: Any) -> None:
    assert release(command, house, *ONE, "--suffix", ".mkv", "--exact").code == 0
    assert tree(house / "out") == with_receipts("a.mkv", "b.mkv", "deep/er/c.mkv")
    shutil.copy(house / "in" / "a.mp4", house / "in" / "a.mov")
    refused = release(command, house, *ONE, "--suffix", ".mp4")
    assert refused.code == 2 and "names that stay apart" in refused.err
    assert tree(house / "out") == with_receipts("a.mkv", "b.mkv", "deep/er/c.mkv")
    assert release(command, house, *ONE, "--suffix", ".mp4", "--rename").code == 0


def test_an_output_inside_the_input_is_refused(house: Path, command: Any) -> None:
    before = tree(house)
    (house / "link").symlink_to(house / "in")
    for target in ("in", "in/out", "link/out", "in/../in/deep"):
        done = command("release", house / "in", house / target, *POOLED)
        assert done.code == 2 and "outside of" in done.err
    assert tree(house) == before


def test_a_folder_without_recordings_exits_with_four(tmp_path: Path, command: Any) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "notes.txt").write_text("hello")
    done = release(command, tmp_path)
    assert done.code == 4 and "Expected recordings in" in done.err
    assert not (tmp_path / "out").exists()
    with pytest.raises(BadInput, match="Expected a folder"):
        mq.release_folder(tmp_path / "none", tmp_path / "out", POOL)


def test_a_dry_run_of_a_folder_sums_up_and_writes_nothing(house: Path, command: Any) -> None:
    before = tree(house)
    said = release(command, house, "--dry-run", "--person-height", 20)
    assert said.code == 0 and "3 files (3 .mp4); nothing was written" in said.out
    assert "epsilon 8 and delta 0.0001" in said.out and "covers about 72 sites" in said.out
    data = release(command, house, "--dry-run", "--json").json
    assert len(data["files"]) == 3 and data["expected_seconds"] > 0
    assert data["files"][0]["guarantee"]["epsilon"] == 8.0
    blurred = command("release", house / "in", house / "out", "--mechanism", "blur", "--dry-run")
    assert blurred.code == 0 and "this is a heuristic" in blurred.out
    assert tree(house) == before


@pytest.mark.xfail(strict=True, reason="a dry run of a folder does not plan where outputs go")
@pytest.mark.parametrize("case", ["inside", "twins", "empty"])
def test_a_dry_run_of_a_folder_refuses_what_the_release_would(
    case: str, house: Path, command: Any
) -> None:
    words: list[object] = ["release", house / "in", house / "out", *POOLED]
    if case == "inside":
        words[2] = house / "in" / "out"
    elif case == "twins":
        shutil.copy(house / "in" / "a.mp4", house / "in" / "a.mov")
        words += ["--suffix", ".mp4"]
    else:
        shutil.rmtree(house / "in")
        (house / "in").mkdir()
    expected = command(*words)
    assert expected.code in (2, 4)
    assert command(*words, "--dry-run").code == expected.code


@pytest.mark.xfail(strict=True, reason="links to nowhere are skipped without a word")
def test_a_link_to_a_file_that_is_gone_is_a_bad_file(house: Path, command: Any) -> None:
    (house / "in" / "gone.mp4").symlink_to("/nowhere/gone.mp4")
    done = release(command, house, *ONE)
    assert done.code == 4 and "gone.mp4" in done.out


@pytest.mark.xfail(strict=True, reason="the lock is named after the path's UTF-8")
def test_a_name_of_any_bytes_is_a_name(house: Path, command: Any) -> None:
    (house / "in" / "a.mp4").rename(house / "in" / os.fsdecode(b"caf\xe9.mp4"))
    assert release(command, house, *ONE, "--json").code == 0


@dataclass(frozen=True, kw_only=True)
class Meeting(Heuristic):
    """Waits until two are at work, and paints who it is into the picture.

    Args:
        place: a folder where they meet.
    """

    place: str

    @property
    def hides(self) -> str:
        return "nothing"

    def stream(
        self, frames: Iterator[np.ndarray], shape: Shape, noise: Noise
    ) -> Iterator[np.ndarray]:
        me, place = (os.getpid(), threading.get_native_id()), Path(self.place)
        (place / f"{me[0]}-{me[1]}").touch()
        until = time.monotonic() + 60
        while len(list(place.iterdir())) < 2 and time.monotonic() < until:
            time.sleep(0.02)
        for frame in frames:
            painted = frame.copy()
            painted.reshape(-1)[:16] = np.array(me, "<i8").view(np.uint8)
            yield painted


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_two_jobs_are_two_at_work(backend: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "place").mkdir()
    for name in ("a", "b"):
        maker.make(tmp_path / "in" / f"{name}.png", maker.moving(1, 24, 32), PNG)
    done = mq.release_folder(
        tmp_path / "in",
        tmp_path / "out",
        Meeting(place=str(tmp_path / "place")),
        work=Work(jobs=2, backend=backend),
    )
    assert [outcome.error for outcome in done] == [None, None]
    pictures = [mq.read_video(outcome.target).frames for outcome in done if outcome.target]
    workers = np.array([picture.reshape(-1)[:16].view("<i8") for picture in pictures])
    assert len(set(workers[:, 1])) == 2, "threads"
    if backend == "loky":
        assert len({os.getpid(), *workers[:, 0].tolist()}) == 3, "processes"
    else:
        assert set(workers[:, 0]) == {os.getpid()}


def test_a_rehearsal_does_not_depend_on_how_many_are_at_work(house: Path, command: Any) -> None:
    for number, words in enumerate((ONE, TWO, [*TWO, "--backend", "threading"])):
        out = house / str(number)
        done = command("release", house / "in", out, *POOLED, *words, "--rehearsal-seed", "5")
        assert done.code == 0, done.out
        assert tree(out) == with_receipts(
            "a.rehearsal.mp4", "b.rehearsal.mp4", "deep/er/c.rehearsal.mp4"
        )
        for name in tree(out):
            assert (out / name).read_bytes() == (house / "0" / name).read_bytes()
    files = {(house / "0" / name).read_bytes() for name in ("a.rehearsal.mp4", "b.rehearsal.mp4")}
    assert len(files) == 2


@pytest.mark.xfail(strict=True, reason="workers keep the folder that they were started in")
def test_relative_names_are_relative_to_where_we_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = mq.Options(if_standing=IfStanding.OVERWRITE)
    for place in ("here", "there"):
        for seed, name in enumerate(("a.mp4", "b.mp4")):
            make(tmp_path / place / "in" / name, seed=seed)
        monkeypatch.chdir(tmp_path / place)
        mq.release_folder("in", "out", POOL, options=again, work=Work(jobs=2))
        assert tree(tmp_path / place / "out") == with_receipts("a.mp4", "b.mp4")


@pytest.mark.parametrize("jobs", [ONE, TWO])
def test_a_ledger_charges_every_file_once(jobs: list[str], house: Path, command: Any) -> None:
    ledger = house / "budget.db"
    words = ["--ledger", ledger, "--epsilon", 20, "--delta", 1e-4, "--unit", "pixels"]
    assert command("ledger", "open", "ward", *words, "--pixels", 4).code == 0
    held = [house / "in" / name for name in ("a.mp4", "deep/er/c.mp4")]
    assert command("ledger", "add", "ward", *held, "--ledger", ledger).code == 0
    done = release(command, house, *jobs, "--ledger", ledger)
    assert done.code == 4 and "Wrote 2 files" in done.out
    assert f"FAILED {house / 'in' / 'b.mp4'}: Expected a file that is in an account" in done.out
    entries = Ledger(ledger).entries()[3:]
    assert sorted(entry.kind for entry in entries) == ["reserve", "reserve", "settle", "settle"]
    members = [entry.payload["member"] for entry in entries if entry.kind == "reserve"]
    assert len(set(members)) == 2
    assert command("ledger", "add", "ward", house / "in" / "b.mp4", "--ledger", ledger).code == 0
    again = release(command, house, *jobs, "--ledger", ledger)
    assert again.code == 0 and "2 stood there already" in again.out
    assert [entry.kind for entry in Ledger(ledger).entries()[8:]] == ["reserve", "settle"]
    verify = ["ledger", "verify", "--receipts", house / "out", "--ledger", ledger]
    assert command(*verify, "--json").json["charged"] == 3
