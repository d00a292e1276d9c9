"""The frames of a film as they were when it was probed, and whether they come out like that."""

from __future__ import annotations

import contextlib
import hashlib
from collections import deque
from collections.abc import Generator, Iterator

import numpy as np

from masquerade.doors.source import Film
from masquerade.errors import BadInput
from masquerade.ledger.content import Watcher
from masquerade.mechanism import Frames
from masquerade.video import read


class Unchanged:
    """One reading of a film: the frames that were probed, and charged for, or an error.

    Args:
        film: what was probed.
        is_marked: whether they are compared with those of another reading.
    """

    def __init__(self, film: Film, *, is_marked: bool = False) -> None:
        self._film, self._count = film, 0
        is_charged = "content" in film.__dict__
        self._charged = Watcher(film.contents.shape) if is_charged else None
        self._mark = hashlib.blake2b() if is_marked else None

    def frames(self) -> Generator[np.ndarray, None, None]:
        """The frames of the file, as long as each can be one of them."""
        shape = self._film.contents.shape
        with contextlib.closing(
            read.frames(self._film.path, max_pixels=self._film.max_pixels)
        ) as every:
            for frame in every:
                if frame.shape != shape[1:] or self._count == shape[0]:
                    raise self._changed()
                self._count += 1
                if self._charged is not None:
                    self._charged.add(frame)
                if self._mark is not None:
                    self._mark.update(np.ascontiguousarray(frame).data)
                yield frame

    def check(self, *, rest: Iterator[np.ndarray]) -> None:
        """All of them were the same, and there are no more."""
        for _ in rest:
            pass
        is_same = self._charged is None or self._charged.content() == self._film.content
        if self._count != self._film.contents.frames or not is_same:
            raise self._changed()

    def check_same(self, other: Unchanged) -> None:
        """Both readings gave the same frames."""
        assert self._mark is not None and other._mark is not None  # both are marked
        if self._mark.digest() != other._mark.digest():
            raise self._changed()

    def _changed(self) -> BadInput:
        return BadInput(
            f"Expected {self._film.path} to stay as it was; it changed while it was read."
        )


class LeftAsItWas:
    """Whether all frames come out as they went in; after the first that does not, none is held."""

    def __init__(self) -> None:
        self.is_all = True
        self._waiting = deque[np.ndarray]()

    def taken(self, frames: Frames) -> Frames:
        """The same frames."""
        for frame in frames:
            if self.is_all:
                self._waiting.append(frame)
            yield frame

    def compare(self, released: np.ndarray) -> None:
        """The next frame that comes out."""
        if self.is_all:
            self.is_all = np.array_equal(released, self._waiting.popleft())
        if not self.is_all:
            self._waiting.clear()
