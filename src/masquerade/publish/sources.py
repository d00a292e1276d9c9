"""Private files, probed: readable, whole, of a public shape, and read when they are needed.

Frames of a film that is read again are those that were probed, or it is an error.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np

from masquerade import _check
from masquerade.errors import BadInput
from masquerade.io import arrays, video
from masquerade.io.video import formats, probe, read
from masquerade.ledger.content import Content, ContentHasher
from masquerade.mechanism import Frames, Shapes, Value, shapes_of

SUFFIXES = (*arrays.SUFFIXES, *sorted(video.SUFFIXES))


@dataclass(frozen=True, kw_only=True)
class OutputSettings:
    """How an output is written.

    Args:
        exact: keep every released value, in a format that can.
        keep_sound: copy the sound of a video along, which protects nothing of it.
        threads: of the encoder; 0 leaves it to the library.
    """

    exact: bool = False
    keep_sound: bool = False
    threads: int = 0


@dataclass(frozen=True, kw_only=True)
class ReadLimits:
    """How large a file may be when it is unpacked; what is larger is refused by its header.

    Args:
        max_pixels: of a frame.
        max_bytes: of all numbers of an array file together.
    """

    max_pixels: int = video.MAX_PIXELS
    max_bytes: int = arrays.MAX_BYTES

    def __post_init__(self) -> None:
        _check.count(max_pixels=self.max_pixels, max_bytes=self.max_bytes)
        if self.max_pixels > formats.MAX_PIXELS:
            raise ValueError(
                f"Expected max_pixels of at most {formats.MAX_PIXELS}, which is the most that can "
                f"be written, got {self.max_pixels}."
            )


def probe_recording(
    path: Path, *, heading: bool = False, limits: ReadLimits | None = None, is_charged: bool = False
) -> Recording:
    """Probe a file: it is read once, all of it, so that a bad one is refused here.

    Args:
        path: the file.
        heading: whether a .csv begins with the names of its columns.
        limits: on its size when it is unpacked; by default those of `ReadLimits`.
        is_charged: whether a ledger will ask for its content, which the same reading can give.

    Raises:
        BadInput: if it is missing or cannot be used.
        ValueError: if its name says that it is of no kind we know.
    """
    limits = limits or ReadLimits()
    if not _is_film(path):
        return ArrayRecording(
            table=arrays.read_array_file(path, heading=heading, max_bytes=limits.max_bytes)
        )
    if is_charged:
        return _with_content(path, limits.max_pixels)
    contents = probe.probe(path, max_pixels=limits.max_pixels)
    return FilmRecording(path=path, contents=contents, max_pixels=limits.max_pixels)


def read_header(
    path: Path, *, heading: bool = False, limits: ReadLimits | None = None
) -> Recording:
    """What the header of a film says, for an estimate; `probe_recording` for anything else.

    Raises:
        BadInput: as `probe_recording`, as far as the header and the first frame tell.
        ValueError: as `probe_recording`.
    """
    limits = limits or ReadLimits()
    if not _is_film(path):
        return probe_recording(path, heading=heading, limits=limits)
    contents = probe.probe_header(path, max_pixels=limits.max_pixels)
    return FilmRecording(path=path, contents=contents, max_pixels=limits.max_pixels)


def _is_film(path: Path) -> bool:
    """Whether it is a video or a picture; refuses what is not there, or of no kind we know."""
    try:
        path.stat()
    except FileNotFoundError:
        raise BadInput(f"Expected a file at {path}, got nothing; check the name.") from None
    except OSError as error:
        raise BadInput(f"Expected a file at {path}, got {error.strerror}.") from error
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(
            _check.describe_unknown("kind of file", path.suffix or path.name, SUFFIXES)
        )
    return video.is_video(path)


def _with_content(path: Path, max_pixels: int) -> FilmRecording:
    """A film and its content by one reading, if the header tells the number of frames.

    The content begins with the shape. Where decoding gives another one than the header, the content
    is made by a second reading, when it is asked for.
    """
    shape = probe.probe_header(path, max_pixels=max_pixels).shape
    watcher = ContentHasher(shape)
    contents = probe.probe(path, max_pixels=max_pixels, see=watcher.add_video_frame)
    content = watcher.make_content() if contents.shape == shape else None
    return FilmRecording(
        path=path, contents=contents, max_pixels=max_pixels, content_if_read=content
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ArrayRecording:
    """A .npy, .npz or .csv file, in memory."""

    table: arrays.ArrayFile

    @cached_property
    def value(self) -> Value:
        """One array, or all of a .npz jointly."""
        return self.table.arrays if self.table.names else self.table.arrays[0]

    @cached_property
    def shapes(self) -> Shapes:
        """Of every array: public, of what would be released."""
        return shapes_of(self.value)

    @cached_property
    def content(self) -> Content:
        """What a ledger knows it by: the numbers."""
        return Content.from_value(self.value)


@dataclass(frozen=True, kw_only=True, eq=False)
class FilmRecording:
    """A video or picture file, read frame by frame."""

    path: Path
    contents: probe.FileContents
    max_pixels: int = video.MAX_PIXELS
    content_if_read: Content | None = None

    @property
    def shapes(self) -> Shapes:
        """(T, H, W, 3): public, of what would be released."""
        return (self.contents.shape,)

    @cached_property
    def content(self) -> Content:
        """What a ledger knows it by: the decoded frames."""
        if self.content_if_read is not None:
            return self.content_if_read
        frames = read.read_frames(self.path, max_pixels=self.max_pixels)
        return Content.from_frames(self.contents.shape, frames)


Recording: TypeAlias = ArrayRecording | FilmRecording  # found readable, whole and of a public shape


class UnchangedReading:
    """One reading of a film: the frames that were probed, and charged for, or an error.

    Args:
        film: what was probed.
        is_marked: whether they are compared with those of another reading.
    """

    def __init__(self, film: FilmRecording, *, is_marked: bool = False) -> None:
        self._film, self._count = film, 0
        is_charged = "content" in film.__dict__
        self._charged = ContentHasher(film.contents.shape) if is_charged else None
        self._mark = hashlib.blake2b() if is_marked else None

    def iter_frames(self) -> Generator[np.ndarray, None, None]:
        """The frames of the file, as long as each can be one of them."""
        shape = self._film.contents.shape
        with contextlib.closing(
            read.read_frames(self._film.path, max_pixels=self._film.max_pixels)
        ) as every:
            for frame in every:
                if frame.shape != shape[1:] or self._count == shape[0]:
                    raise self._make_changed_error()
                self._count += 1
                if self._charged is not None:
                    self._charged.add_video_frame(frame)
                if self._mark is not None:
                    self._mark.update(np.ascontiguousarray(frame).data)
                yield frame

    def check_complete(self, *, rest: Iterator[np.ndarray]) -> None:
        """All of them were the same, and there are no more."""
        for _ in rest:
            pass
        is_same = self._charged is None or self._charged.make_content() == self._film.content
        if self._count != self._film.contents.frames or not is_same:
            raise self._make_changed_error()

    def check_same_frames(self, other: UnchangedReading) -> None:
        """Both readings gave the same frames."""
        assert self._mark is not None and other._mark is not None  # both are marked
        if self._mark.digest() != other._mark.digest():
            raise self._make_changed_error()

    def _make_changed_error(self) -> BadInput:
        return BadInput(
            f"Expected {self._film.path} to stay as it was; it changed while it was read."
        )


class UnchangedDetector:
    """Whether all frames come out as they went in; after the first that does not, none is held."""

    def __init__(self) -> None:
        self.is_all = True
        self._waiting = deque[np.ndarray]()

    def hold_frames(self, frames: Frames) -> Frames:
        """The same frames."""
        for frame in frames:
            if self.is_all:
                self._waiting.append(frame)
            yield frame

    def compare_frame(self, released: np.ndarray) -> None:
        """The next frame that comes out."""
        if self.is_all:
            self.is_all = np.array_equal(released, self._waiting.popleft())
        if not self.is_all:
            self._waiting.clear()
