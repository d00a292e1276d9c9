"""Private files, probed: readable, whole, of a public shape, and read when they are needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from masquerade import _check, video
from masquerade.errors import BadInput
from masquerade.files import arrays
from masquerade.ledger import Content
from masquerade.mechanism import Shapes, Value, shapes_of
from masquerade.video import formats, probe, read

SUFFIXES = (*arrays.SUFFIXES, *sorted(video.SUFFIXES))


@dataclass(frozen=True, kw_only=True)
class Saving:
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
class Limits:
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


class Recording(ABC):
    """A private file that was found readable, whole and of a public shape."""

    @property
    @abstractmethod
    def shapes(self) -> Shapes:
        """The public shapes of what would be released."""

    @cached_property
    @abstractmethod
    def content(self) -> Content:
        """What a ledger knows it by."""


def find(path: Path, *, heading: bool = False, limits: Limits | None = None) -> Recording:
    """Probe a file: it is read once, all of it, so that a bad one is refused here.

    Args:
        path: the file.
        heading: whether a .csv begins with the names of its columns.
        limits: on its size when it is unpacked; by default those of `Limits`.

    Raises:
        BadInput: if it is missing or cannot be used.
        ValueError: if its name says that it is of no kind we know.
    """
    limits = limits or Limits()
    try:
        path.stat()
    except FileNotFoundError:
        raise BadInput(f"Expected a file at {path}, got nothing; check the name.") from None
    except OSError as error:
        raise BadInput(f"Expected a file at {path}, got {error.strerror}.") from error
    if video.is_video(path):
        contents = probe.probe(path, max_pixels=limits.max_pixels)
        return Film(path=path, contents=contents, max_pixels=limits.max_pixels)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(_check.unknown("kind of file", path.suffix or path.name, SUFFIXES))
    return Table(table=arrays.read(path, heading=heading, max_bytes=limits.max_bytes))


@dataclass(frozen=True, kw_only=True, eq=False)
class Table(Recording):
    """A .npy, .npz or .csv file, in memory."""

    table: arrays.ArrayFile

    @property
    def value(self) -> Value:
        """One array, or all of a .npz jointly."""
        return self.table.arrays if self.table.names else self.table.arrays[0]

    @property
    def shapes(self) -> Shapes:
        """Of every array."""
        return shapes_of(self.value)

    @cached_property
    def content(self) -> Content:
        """The numbers."""
        return Content.of(self.value)


@dataclass(frozen=True, kw_only=True, eq=False)
class Film(Recording):
    """A video or picture file, read frame by frame."""

    path: Path
    contents: probe.Contents
    max_pixels: int = video.MAX_PIXELS

    @property
    def shapes(self) -> Shapes:
        """(T, H, W, 3)."""
        return (self.contents.shape,)

    @cached_property
    def content(self) -> Content:
        """The decoded frames."""
        frames = read.frames(self.path, max_pixels=self.max_pixels)
        return Content.of_frames(self.contents.shape, frames)
