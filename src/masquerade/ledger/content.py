"""How a ledger knows a recording: by a hash of what it holds, in any file format."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from masquerade.ledger.looks import Looker
from masquerade.mechanism import Shape, Shapes, Value, arrays_of, shapes_of


@dataclass(frozen=True, kw_only=True)
class Content:
    """What a ledger needs to know of a recording: its shape, and a hash that never leaves it.

    The hash is of the decoded numbers, the same for every file format.

    Args:
        shapes: of the arrays.
        fingerprint: the hash.
        look: of a film or picture (see `ledger.looks`); it stays in the ledger, too.
    """

    shapes: Shapes
    fingerprint: bytes
    look: bytes = field(default=b"", compare=False, repr=False)

    @classmethod
    def of(cls, value: Value | Content) -> Content:
        """Of a value in memory; of a content, itself."""
        if isinstance(value, Content):
            return value
        arrays, shapes = arrays_of(value), shapes_of(value)
        if len(shapes) == 1 and len(shapes[0]) == 4:
            return cls.of_frames(shapes[0], arrays[0])
        digest = hashlib.sha256()
        for array in arrays:
            digest.update(repr(array.shape).encode())
            digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        return cls(shapes=shapes, fingerprint=digest.digest())

    @classmethod
    def of_frames(cls, shape: Shape, frames: Iterable[np.ndarray]) -> Content:
        """Of a video that comes frame by frame; equal to that of the same frames in memory."""
        watcher = cls.watch(shape)
        for frame in frames:
            watcher.add(frame)
        return watcher.content()

    @staticmethod
    def watch(shape: Shape) -> Watcher:
        """What makes a content of frames as they pass by."""
        return Watcher(shape)


class Watcher:
    """Makes the `Content` of a video whose frames pass by one at a time."""

    def __init__(self, shape: Shape) -> None:
        self._shape, self._digest = shape, hashlib.sha256(repr(shape).encode())
        self._looker = Looker(shape)

    def add(self, frame: np.ndarray) -> None:
        """The next frame."""
        self._digest.update(np.ascontiguousarray(frame, dtype="<f8").tobytes())
        self._looker.add(frame)

    def content(self) -> Content:
        """Of the frames so far."""
        return Content(
            shapes=(self._shape,), fingerprint=self._digest.digest(), look=self._looker.look()
        )
