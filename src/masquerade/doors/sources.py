"""What can be released: the content of a file, read when it is needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np

from masquerade import _check, video
from masquerade.errors import BadInput
from masquerade.files import arrays
from masquerade.ledger import Content
from masquerade.mechanism import Mechanism, Shapes, Streams, Value, arrays_of, shapes_of
from masquerade.noise import Noise
from masquerade.receipt import SUFFIX
from masquerade.video import audio, formats, probe, read, write

Watch = Callable[[Iterator[np.ndarray], int], Iterator[np.ndarray]]
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


class Source(ABC):
    """A private file that was found readable, whole and of a public shape."""

    @property
    @abstractmethod
    def shapes(self) -> Shapes:
        """The public shapes of what would be released."""

    @cached_property
    @abstractmethod
    def content(self) -> Content:
        """What a ledger knows it by."""

    @abstractmethod
    def check(self, mechanism: Mechanism, target: Path, saving: Saving) -> None:
        """Refuse what cannot be released or written, before anything is spent."""

    @abstractmethod
    def writer(
        self, mechanism: Mechanism, noise: Noise, target: Path, saving: Saving, watch: Watch
    ) -> Callable[[BinaryIO], None]:
        """What runs the mechanism and writes its output to a stream."""


def find(path: Path, *, heading: bool = False, limits: Limits | None = None) -> Source:
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
    return Arrays(table=arrays.read(path, heading=heading, max_bytes=limits.max_bytes))


@dataclass(frozen=True, kw_only=True, eq=False)
class Arrays(Source):
    """A .npy, .npz or .csv file, in memory."""

    table: arrays.Table

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

    def check(self, mechanism: Mechanism, target: Path, saving: Saving) -> None:
        """The mechanism takes the values, and the target's format can hold them."""
        if saving.keep_sound:
            raise ValueError("Expected a video to keep the sound of, got an array file.")
        mechanism.guarantee(self.shapes)
        mechanism.check(self.value)
        arrays.writer(target, self.table)

    def writer(
        self, mechanism: Mechanism, noise: Noise, target: Path, saving: Saving, watch: Watch
    ) -> Callable[[BinaryIO], None]:
        """All at once."""

        def write_arrays(stream: BinaryIO) -> None:
            released = arrays_of(mechanism.apply(self.value, noise))
            table = arrays.Table(
                arrays=released, names=self.table.names, columns=self.table.columns
            )
            arrays.writer(target, table)(stream)

        return write_arrays


@dataclass(frozen=True, kw_only=True, eq=False)
class Film(Source):
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
        return Content.of_frames(
            self.contents.shape, read.frames(self.path, max_pixels=self.max_pixels)
        )

    def check(self, mechanism: Mechanism, target: Path, saving: Saving) -> None:
        """The mechanism works frame by frame, and the target's format can hold them."""
        if not isinstance(mechanism, Streams):
            raise ValueError(f"Expected a mechanism for videos, got {mechanism.name}.")
        _check_export(mechanism, self.path, target)
        if target.suffix.lower() not in video.WRITABLE:
            raise ValueError(
                f"Expected a video to become a video, got {target.name}; choose one of "
                f"{', '.join(sorted(video.WRITABLE))}."
            )
        if saving.keep_sound:
            audio.check(self.path, suffix=target.suffix)
        mechanism.guarantee(self.shapes)
        mechanism.check(np.empty((1, *self.contents.shape[1:]), np.uint8))
        frames, height, width, _ = self.contents.shape
        write.check(
            target.suffix,
            frames=frames,
            height=height,
            width=width,
            exact=saving.exact,
            rate=self.contents.rate,
            aspect=self.contents.aspect,
        )

    def writer(
        self, mechanism: Mechanism, noise: Noise, target: Path, saving: Saving, watch: Watch
    ) -> Callable[[BinaryIO], None]:
        """Decode, release and encode as one stream; memory does not grow with the length."""
        shape = self.contents.shape

        def write_video(stream: BinaryIO) -> None:
            assert isinstance(mechanism, Streams)  # `check` has seen to it
            frames = self._same_as_before()
            released = mechanism.stream(frames, shape, noise)
            write.write(
                stream,
                watch(released, shape[0]),
                suffix=target.suffix,
                rate=self.contents.rate,
                aspect=self.contents.aspect,
                exact=saving.exact,
                audio_from=self.path if saving.keep_sound else None,
                num_frames=shape[0],
                threads=saving.threads,
            )
            next(frames, None)  # so that it looks at the end, too

        return write_video

    def _same_as_before(self) -> Iterator[np.ndarray]:
        """The frames that were probed, and charged for; files may change under our hands."""
        count, size, seen = self.contents.frames, self.contents.shape[1:], 0
        charged = Content.watch(self.contents.shape) if "content" in self.__dict__ else None
        for frame in read.frames(self.path, max_pixels=self.max_pixels):
            if frame.shape != size or seen == count:
                break
            seen += 1
            if charged is not None:
                charged.add(frame)
            yield frame
        else:
            if seen == count and (charged is None or charged.content() == self.content):
                return
        raise BadInput(f"Expected {self.path} to stay as it was; it changed while it was read.")


def _check_export(mechanism: Mechanism, source: Path, target: Path) -> None:
    """What a mechanism writes for its owner must not stand where the public output goes."""
    export = getattr(mechanism, "export", None)
    taken = (source, target, target.with_name(target.name + SUFFIX))
    if export is not None and Path(export).resolve() in [path.resolve() for path in taken]:
        raise ValueError(
            f"Expected a place of its own for the private export, got {export}, which is the "
            "input, the output or its receipt; choose another name."
        )
