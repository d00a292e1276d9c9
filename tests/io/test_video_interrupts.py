"""An interrupt or a full disk in the middle of a film reaches whoever asked for it."""

from __future__ import annotations

import _thread
import contextlib
import io
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import video_files as maker
from masquerade.io.video import read, write
from masquerade.publish.recording import make_mechanism, release_file

FILM = maker.moving(4, 48, 64)
RAISED = [KeyboardInterrupt, SystemExit, MemoryError, OSError(28, "No space left on device")]


class Fragile:
    """Calls ``inner``, and fails at call number ``at``."""

    def __init__(self, inner: Any, at: int, error: Any) -> None:
        self.inner, self.left, self.error = inner, at, error

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name not in ("read", "write", "seek", "tell"):
            return found

        def call(*words: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise self.error
            return found(*words)

        return call

    def __enter__(self) -> Fragile:
        return self

    def __exit__(self, *_: object) -> None:
        self.inner.close()


def attempts(work: Callable[[int], Fragile], error: Any) -> int:
    """Fail at every call in turn; each failure must come out. Returns how many there were."""
    kind = error if isinstance(error, type) else type(error)
    for at in count(1):
        try:
            fragile = work(at)
        except kind:
            continue
        assert fragile.left > 0, f"call {at} failed and nobody heard of it"
        return at - 1
    raise AssertionError


@pytest.mark.parametrize("error", RAISED, ids=str)
@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".avi", ".png"])
def test_whatever_ends_a_write_reaches_the_caller(suffix: str, error: Any) -> None:
    film = FILM[: 1 if suffix == ".png" else None]

    def work(at: int) -> Fragile:
        stream = Fragile(io.BytesIO(), at, error)
        write.write_video(stream, iter(film), suffix=suffix, rate=maker.RATE)  # type: ignore[arg-type]
        return stream

    assert attempts(work, error) > 0


@pytest.mark.parametrize("error", RAISED[:3], ids=str)
@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".avi", ".png"])
def test_whatever_ends_a_read_reaches_the_caller(
    suffix: str, error: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a{suffix}"
    film = FILM[: 1 if suffix == ".png" else None]
    with path.open("wb") as stream:
        write.write_video(stream, iter(film), suffix=suffix, rate=maker.RATE)
    plain = Path.open

    def work(at: int) -> Fragile:
        made: list[Fragile] = []

        def fragile(self: Path, *words: Any, **options: Any) -> Any:
            made.append(Fragile(plain(self, *words, **options), at, error))
            return made[-1]

        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", fragile)
            assert sum(1 for _ in read.read_frames(path)) == len(film)
        return made[0]

    try:
        assert attempts(work, error) > 0
    except ValueError as refused:
        assert error is MemoryError and "decoded" in str(refused)


# Python has no place to close a file between opening it and the block that closes it; it closes it
# when it forgets it.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_moment_is_never_swallowed(tmp_path: Path) -> None:
    source, target = tmp_path / "a.mp4", tmp_path / "b.mp4"
    maker.make(source, maker.moving(30, 96, 128), maker.KINDS["h264.mp4"])
    mechanism, receipt = make_mechanism("mosaic"), tmp_path / "b.mp4.receipt.json"
    began = time.monotonic()
    release_file(source, tmp_path / "c.mp4", mechanism)
    usual = time.monotonic() - began
    for share in np.linspace(0.05, 0.95, 12):
        over, sent = threading.Event(), threading.Event()
        thread = threading.Thread(target=_interrupt, args=(usual * share, over, sent))
        stopped = finished = False
        try:
            thread.start()
            release_file(source, target, mechanism)
            finished = True
            over.set()
            thread.join()
        except KeyboardInterrupt:
            stopped = True
        thread.join()
        assert stopped == sent.is_set()
        assert finished or target.exists() <= receipt.exists()
        target.unlink(missing_ok=True)
        receipt.unlink(missing_ok=True)
    assert not list(tmp_path.glob(".masquerade-*"))


def test_an_interrupt_that_a_library_loses_stops_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "a.mp4", tmp_path / "b.mp4"
    maker.make(source, FILM, maker.KINDS["h264.mp4"])
    mechanism = make_mechanism("mosaic")
    plain = type(mechanism).stream

    def loses(*words: Any) -> Any:
        yield from plain(*words)
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(type(mechanism), "stream", loses)
    with pytest.raises(KeyboardInterrupt, match="nothing was published"):
        release_file(source, target, mechanism)
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


def _interrupt(delay: float, over: threading.Event, sent: threading.Event) -> None:
    if not over.wait(delay):
        sent.set()
        _thread.interrupt_main()


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".avi", ".webm"])
def test_a_disk_that_is_full_at_any_point_is_told(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    with path.open("wb") as stream:
        write.write_video(stream, iter(FILM), suffix=suffix, rate=maker.RATE)
    size = path.stat().st_size
    for room in (0, 100, size // 2, size - 1):
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
            code = 0
            try:
                with path.open("wb") as stream:
                    write.write_video(stream, iter(FILM), suffix=suffix, rate=maker.RATE)
            except OSError as error:
                code = 7 if "Expected room" in str(error) else 8
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".avi", ".webm", ".png"])
def test_a_film_that_cannot_be_read_back_is_refused(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hole is what a lost write leaves, a shorter file what a lost end leaves."""
    film = FILM[: 1 if suffix == ".png" else None]
    plain = write.VideoEncoder.finish
    for spoil in (_with_hole, _cut, _emptied):
        with (tmp_path / f"a{suffix}").open("w+b") as stream:
            write.write_video(stream, iter(film), suffix=suffix, rate=maker.RATE)
            spoil(stream.fileno())
            with pytest.raises(OSError, match="read back what was written"):
                write._check_written(stream, film.shape)

    def one_too_many(encoder: write.VideoEncoder) -> None:
        plain(encoder)
        encoder.count += 1

    monkeypatch.setattr(write.VideoEncoder, "finish", one_too_many)
    with pytest.raises(OSError, match="read back what was written"):
        write.write_video(io.BytesIO(), iter(film), suffix=suffix, rate=maker.RATE)


def _with_hole(file: int) -> None:
    size = os.fstat(file).st_size
    os.pwrite(file, bytes(size // 2), size // 4)


def _cut(file: int) -> None:
    os.ftruncate(file, os.fstat(file).st_size // 2)


def _emptied(file: int) -> None:
    os.ftruncate(file, 0)
