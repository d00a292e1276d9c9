"""Releasing a folder; and runs that are stopped, starved, or have the file changed under them."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import masquerade as mq
import video_files as maker
from masquerade import catalog
from masquerade.errors import BadInput
from masquerade.io.video import read, write
from masquerade.ledger import Ledger
from masquerade.mechanism import Heuristic, Shape
from masquerade.noise import Noise
from masquerade.publish import folder, spine
from masquerade.publish.folder import FileJob, FolderSettings
from masquerade.publish.spine import IfExists
from video_files import KINDS, Kind

PROGRAM = Path(sys.executable).with_name("masquerade")
PIXELS = "--epsilon 8 --delta 1e-4 --unit pixels --pixels 4".split()
POOLED = ["--mechanism=pooled_gaussian", *PIXELS]
SLOW = ["--mechanism=gaussian_noise", *PIXELS, "--yes"]
ONE, TWO, GREY = ["--jobs", "1"], ["--jobs", "2"], mq.FileSettings(accept_grey=True)
GAUSSIAN = ("pooled_gaussian", "cosine_gaussian", "video_dprp")
POOL = mq.make_mechanism("pooled_gaussian", epsilon=8, delta=1e-4, unit="pixels", pixels=4)
PNG = Kind(suffix=".png", codec="png", pixel_format="rgb24")


def make(path: Path, *, seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return maker.make(path, maker.moving(8, 24, 32, seed=seed), KINDS["h264.mp4"])


def make_long(path: Path, frames: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    looped = islice(cycle(maker.moving(10, 96, 128)), frames)
    with path.open("wb") as stream:
        write.write_video(stream, looped, suffix=path.suffix, rate=maker.RATE)
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
    return {name + end for name in names for end in ("", ".receipt.json", ".receipt.json.sig")}


def open_account(command: Any, folder: Path, *files: Path) -> Path:
    ledger = folder / "budget.db"
    words = ["--ledger", ledger, "--epsilon", 20, *PIXELS[2:]]
    assert command("ledger", "open", "ward", *words).code == 0
    assert command("ledger", "add", "ward", *files, "--ledger", ledger).code == 0
    return ledger


def release(command: Any, house: Path, *words: object) -> Any:
    return command("release", house / "in", house / "out", *POOLED, "--keep-names", *words)


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
    assert "Left alone: 2 files of no kind that is read." in done.out
    assert "Left alone: 3 files hidden, or in a hidden folder." in done.out
    assert f"FAILED {bad}: Expected a whole video" in done.out and done.out.count("FAILED") == 1
    assert tree(house / "out") == with_receipts("a.mp4", "b.mp4", "deep/er/c.mp4")
    for name in ("a.mp4", "b.mp4", "deep/er/c.mp4"):
        assert command("receipt", "check", house / "out" / name).code == 0


def test_json_lists_every_file_with_its_outcome(house: Path, command: Any) -> None:
    (house / "in" / "bad.mp4").write_text("hello")
    (house / "out").mkdir()
    mq.release_file(house / "in" / "a.mp4", house / "out" / "a.mp4", POOL)
    done = release(command, house, *ONE, "--resume", "--json")
    assert done.code == 4 and done.err == ""
    files = {Path(each["source"]).name: each for each in done.json["files"]}
    assert list(files) == ["a.mp4", "b.mp4", "bad.mp4", "c.mp4"]
    assert files["a.mp4"]["already_done"] and not files["b.mp4"]["already_done"]
    assert files["bad.mp4"]["exit_code"] == 4 and files["bad.mp4"]["output"] is None
    assert "can be decoded" in files["bad.mp4"]["error"]
    assert files["c.mp4"]["output"] == str(house / "out" / "deep" / "er" / "c.mp4")
    assert (done.json["failed"], done.json["already_done"], done.json["left_alone"]) == (1, 1, 0)


def test_all_outputs_may_get_one_suffix(house: Path, command: Any) -> None:
    assert release(command, house, *ONE, "--suffix", ".mkv", "--exact").code == 0
    assert tree(house / "out") == with_receipts("a.mkv", "b.mkv", "deep/er/c.mkv")
    shutil.copy(house / "in" / "a.mp4", house / "in" / "a.mov")
    refused = release(command, house, *ONE, "--suffix", ".mp4")
    assert refused.code == 2 and "names that stay apart" in refused.err
    opaque = command("release", house / "in", house / "new", *POOLED, *ONE, "--suffix", ".mp4")
    assert opaque.code == 0 and len(tree(house / "new")) == 12


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
    assert done.code == 4 and "there is none among its 1 file. These are read" in done.err
    with pytest.raises(BadInput, match="Expected a folder"):
        mq.release_folder(tmp_path / "none", tmp_path / "out", POOL)
    assert not (tmp_path / "out").exists()


def test_a_dry_run_of_a_folder_sums_up_and_writes_nothing(house: Path, command: Any) -> None:
    before = tree(house)
    said = release(command, house, "--dry-run", "--person-height", 20)
    assert said.code == 0 and "3 files; nothing was written" in said.out
    assert "epsilon 8 and delta 0.0001" in said.out and "covers about 72 sites" in said.out
    data = release(command, house, "--dry-run", "--json").json
    assert len(data["files"]) == 3 and data["expected_seconds"] > 0
    assert data["files"][0]["guarantee"]["epsilon"] == 8.0
    blurred = command("release", house / "in", house / "out", "--mechanism", "blur", "--dry-run")
    assert blurred.code == 0 and "this is a heuristic" in blurred.out
    assert tree(house) == before


@pytest.mark.parametrize(
    ("source", "target", "code"), [("in", "in/out", 2), ("in", "out", 2), ("empty", "out", 4)]
)
def test_a_dry_run_of_a_folder_refuses_what_the_release_would(
    source: str, target: str, code: int, house: Path, command: Any
) -> None:
    (house / "empty").mkdir()
    shutil.copy(house / "in" / "a.mp4", house / "in" / "a.mov")
    words = ["release", house / source, house / target, *POOLED, "--keep-names"]
    words += ["--suffix", ".mp4"]
    assert command(*words).code == code
    assert command(*words, "--dry-run").code == code


def test_a_link_to_a_file_that_is_gone_is_a_bad_file(house: Path, command: Any) -> None:
    (house / "in" / "gone.mp4").symlink_to("/nowhere/gone.mp4")
    done = release(command, house, *ONE)
    assert done.code == 4 and "gone.mp4" in done.out


def test_a_name_of_any_bytes_is_a_name(house: Path, command: Any) -> None:
    (house / "in" / "a.mp4").rename(house / "in" / os.fsdecode(b"caf\xe9.mp4"))
    assert release(command, house, *ONE, "--json").code == 0


@dataclass(frozen=True, kw_only=True)
class Meeting(Heuristic):
    """Waits until two are at work, and paints who it is into the picture."""

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
    meeting, work = (
        Meeting(place=str(tmp_path / "place")),
        FolderSettings(jobs=2, backend=backend, keep_names=True),
    )
    done = mq.release_folder(tmp_path / "in", tmp_path / "out", meeting, work=work)
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
        words = [*POOLED, *words, "--rehearsal-seed", "5", "--keep-names"]
        assert command("release", house / "in", out, *words).code == 0
        made = ("a.rehearsal.mp4", "b.rehearsal.mp4", "deep/er/c.rehearsal.mp4")
        assert tree(out) == {each for each in with_receipts(*made) if not each.endswith(".sig")}
        for path in out.rglob("*.mp4"):
            assert path.read_bytes() == (house / "0" / path.relative_to(out)).read_bytes()
    assert len({path.read_bytes() for path in (house / "0").rglob("*.mp4")}) == 3


def test_relative_names_are_relative_to_where_we_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = mq.FileSettings(if_standing=IfExists.OVERWRITE)
    for place in ("here", "there"):
        for seed, name in enumerate(("a.mp4", "b.mp4")):
            make(tmp_path / place / "in" / name, seed=seed)
        monkeypatch.chdir(tmp_path / place)
        mq.release_folder(
            "in", "out", POOL, options=again, work=FolderSettings(jobs=2, keep_names=True)
        )
        assert tree(tmp_path / place / "out") == with_receipts("a.mp4", "b.mp4")


@pytest.mark.parametrize("jobs", [ONE, TWO])
def test_a_ledger_charges_every_file_once(jobs: list[str], house: Path, command: Any) -> None:
    held = [house / "in" / name for name in ("a.mp4", "deep/er/c.mp4")]
    ledger = open_account(command, house, *held)
    done = release(command, house, *jobs, "--ledger", ledger)
    assert done.code == 4 and "Wrote 2 files" in done.out
    assert f"FAILED {house / 'in' / 'b.mp4'}: Expected a file that is in an account" in done.out
    entries = Ledger(ledger).read_entries()[3:]
    assert sorted(entry.kind for entry in entries) == ["reserve", "reserve", "settle", "settle"]
    members = [entry.payload["member"] for entry in entries if entry.kind == "reserve"]
    assert len(set(members)) == 2
    assert command("ledger", "add", "ward", house / "in" / "b.mp4", "--ledger", ledger).code == 0
    again = release(command, house, *jobs, "--ledger", ledger)
    assert again.code == 0 and "2 stood there already" in again.out
    assert [entry.kind for entry in Ledger(ledger).read_entries()[8:]] == ["reserve", "settle"]
    verify = ["ledger", "verify", "--receipts", house / "out", "--ledger", ledger]
    assert command(*verify, "--json").json["charged"] == 3


def started(folder: Path, *words: object) -> subprocess.Popen[str]:
    """The real program, in the middle of writing into ``folder``."""
    command, pipe = [PROGRAM, *map(str, words)], subprocess.PIPE
    process = subprocess.Popen(
        command,
        stdout=pipe,
        stderr=pipe,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # ignored in background jobs
    )
    while not list(folder.glob(".masquerade-*.part")) and process.poll() is None:
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_stop_in_the_middle_publishes_nothing_and_the_spend_stays(
    number: signal.Signals, tmp_path: Path, command: Any
) -> None:
    source = make_long(tmp_path / "in.avi", 300)
    ledger = open_account(command, tmp_path, source)
    (out := tmp_path / "out").mkdir()  # apart from the ledger, which has its own .part
    process = started(out, "release", source, out / "a.mp4", *SLOW, "--ledger", ledger)
    process.send_signal(number)
    said, complaint = process.communicate(timeout=60)
    assert [entry.kind for entry in Ledger(ledger).read_entries()] == ["open", "add", "reserve"]
    assert said == "" and not list(out.glob("a.mp4*"))
    if number is signal.SIGINT:
        told = "Interrupted; nothing was published. What was reserved for it is spent."
        assert process.returncode == 130 and complaint == f"masquerade: {told}\n"
        assert not list(out.iterdir())


@pytest.mark.parametrize(
    ("number", "jobs"),
    [
        (signal.SIGINT, [*TWO, "--backend", "threading"]),
        pytest.param(signal.SIGINT, TWO, marks=pytest.mark.slow),
        (signal.SIGTERM, TWO),
        (signal.SIGKILL, ONE),
    ],
)
def test_a_stopped_folder_has_only_whole_outputs_and_can_be_resumed(
    number: signal.Signals, jobs: list[str], tmp_path: Path, command: Any
) -> None:
    for name, frames in (("a.avi", 8), ("b.avi", 90), ("c.avi", 90)):
        make_long(tmp_path / "in" / name, frames)
    out = tmp_path / "out"
    words = ["release", tmp_path / "in", out, *SLOW, *jobs, "--keep-names"]
    process = started(out, *words)
    while not (out / "a.avi").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    if number is signal.SIGTERM:
        process.send_signal(number)  # its workers end with it
    else:
        os.killpg(process.pid, number)
    _, said = process.communicate(timeout=60)  # until all have closed their pipes: no worker left
    assert process.returncode == {"SIGINT": 130, "SIGTERM": 143, "SIGKILL": -9}[number.name]
    if number is not signal.SIGKILL:
        assert not list(out.glob(".*"))
        count = len(list(out.glob("*.avi")))
        assert f"{count} of 3 outputs stand in {out}, each with its receipt" in said
    for path in out.glob("*.avi"):
        mq.check_receipt(path)
    if number is signal.SIGKILL:
        assert "Wrote 2 files" in command(*words, "--resume").out
        assert {path.name for path in out.glob("*.avi")} == {"a.avi", "b.avi", "c.avi"}
        assert command("receipt", "check", out / "c.avi").code == 0


def writers(folder: Path) -> set[int]:
    """The processes that have an unfinished file open in a folder."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            name = link.readlink()
            if (
                name.parent == folder
                and name.name.startswith(".masquerade-")
                and name.suffix == ".part"
            ):
                found.add(int(link.parts[2]))
    return found


def test_a_file_whose_worker_is_killed_is_tried_again_and_charged_once(
    tmp_path: Path, command: Any
) -> None:
    sources = [make_long(tmp_path / "in" / f"{name}.avi", ord(name) - 50) for name in "abc"]
    ledger, out = open_account(command, tmp_path, *sources), tmp_path / "out"
    words = ["release", tmp_path / "in", out, *SLOW, *TWO, "--keep-names", "--ledger", ledger]
    process = started(out, *words)
    lost = min(writers(out))
    os.kill(lost, signal.SIGKILL)
    said, complaint = process.communicate(timeout=120)
    assert process.returncode == 0 and "Wrote 3 files" in said, complaint
    (line,) = (line for line in complaint.splitlines() if line.startswith("Worker"))
    assert line.startswith(f"Worker {lost} was killed") and line.count(str(tmp_path / "in")) == 1
    entries = [entry for entry in Ledger(ledger).read_entries() if entry.kind == "reserve"]
    assert len(entries) == 3 and len({entry.payload["member"] for entry in entries}) == 3
    assert tree(out) == with_receipts("a.avi", "b.avi", "c.avi")
    verify = ["ledger", "verify", "--receipts", out, "--ledger", ledger]
    assert command(*verify, "--json").json["charged"] == 3


@pytest.mark.parametrize("stop", ["written", "settled", "named"])
def test_the_same_request_is_charged_once_wherever_it_was_cut_off(
    stop: str, house: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = house / "in" / "a.mp4", house / "out" / "a.mp4"
    ledger = open_account(command, house, source)
    target.parent.mkdir()
    job = FileJob(source=source, target=target, place=0)
    once = folder._ReleaseTask(
        mechanism=POOL, run="run", ledger=str(ledger), seed=None, options=mq.FileSettings()
    )
    request = folder._ReleaseRequest.from_job(job, Noise())

    def fail(*_: object) -> Any:
        raise OSError("cut off")

    with monkeypatch.context() as patch:
        if stop == "written":
            patch.setattr(spine, "write_receipt", lambda *_, **__: fail())
        elif stop == "settled":
            patch.setattr(spine.OutputPlace, "name_files", fail)
        assert (once(request).error is None) == (stop == "named")
    again = once(request)
    assert not again.already_done
    assert [entry.kind for entry in Ledger(ledger).read_entries()].count("reserve") == 1
    if stop == "settled":  # which output it was paid for is known, and that one is gone
        assert again.error is not None and "one charge is good for one output" in again.error
        assert again.exit_code == 4 and not target.exists()
    else:
        assert again.error is None and again.target == target
        assert command("receipt", "check", target).code == 0
    other = once(replace(request, job=replace(job, source=house / "in" / "b.mp4")))
    assert other.error is not None
    assert [entry.kind for entry in Ledger(ledger).read_entries()].count("reserve") == 1


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process can grow beyond 20 kB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".avi", ".webm"])
def test_a_full_disk_leaves_nothing(suffix: str, tmp_path: Path) -> None:
    source = maker.make(tmp_path / "in.mp4", maker.moving(30, 72, 96), KINDS["h264.mp4"])
    mechanism = mq.make_mechanism("gaussian_noise", epsilon=1, delta=1e-4, unit="frame")
    with full_disk(), pytest.raises((OSError, av.FFmpegError)):
        mq.release_file(source, tmp_path / f"out{suffix}", mechanism, options=GREY)
    assert tree(tmp_path) == {"in.mp4"}


@pytest.mark.parametrize("suffix", [".mp4", ".avi"])
def test_a_full_disk_is_said_to_be_full(suffix: str, tmp_path: Path, command: Any) -> None:
    source = maker.make(tmp_path / "in.mp4", maker.moving(30, 72, 96), KINDS["h264.mp4"])
    with full_disk():
        done = command("release", source, tmp_path / f"out{suffix}", *SLOW)
    assert done.code == 4 and "too large" in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize("way", ["grown", "shrunk"])
@pytest.mark.parametrize("name", ["blur", "gaussian_noise", *GAUSSIAN])
def test_a_file_that_changes_after_it_was_counted_is_refused(
    name: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: Any
) -> None:
    clip = make(tmp_path / "in.mp4")
    every = list(read.read_frames(clip))
    later = [*every, every[0]] if way == "grown" else every[:-1]
    monkeypatch.setattr(read, "read_frames", lambda path, **_: (frame for frame in later))
    with pytest.raises(BadInput, match="changed"):
        mq.release_file(
            clip, tmp_path / "out.mp4", catalog.make_example("mechanisms", name), options=GREY
        )
    assert tree(tmp_path) == {"in.mp4"}
