"""Recordings of an experiment: read once, several at a time, and cut by chance."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import joblib
import numpy as np

from masquerade.collection import Collection
from masquerade.errors import BadInput
from masquerade.recipes import bench
from masquerade.recordings import Video

_CHUNK, _CHUNK_BYTES = 12, 1 << 26  # the most that a process treats before it reports
_MOST_BYTES = 2 << 30  # of recordings that are kept; what is beyond is read again


@dataclass(frozen=True, kw_only=True, eq=False)
class Kept:
    """Some recordings of a data set, kept in memory once they were read, up to a limit.

    Args:
        origin: the data set.
        numbers: which of its recordings.
        held: those that were read.
    """

    origin: Collection[Any]
    numbers: tuple[int, ...]
    held: dict[int, Video] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> Video:
        number = self.numbers[index]
        if number in self.held:
            return self.held[number]
        video = _plain(self.origin[number])
        if sum(one.frames.nbytes for one in (*self.held.values(), video)) <= _MOST_BYTES:
            self.held[number] = video
        return video

    @property
    def size(self) -> int:
        """How many of them a process is given at once."""
        return max(1, min(_CHUNK, _CHUNK_BYTES // self[0].frames.nbytes))

    def every(self, step: int, *, start: int) -> Kept:
        """One in ``step``, from ``start`` on; all, where there are fewer than steps."""
        numbers = self.numbers[start::step] if len(self) >= step else self.numbers
        return replace(self, numbers=numbers)

    def read(self, *, jobs: int, told: bench.Told) -> None:
        """Read, in several processes, those that there is room for."""
        room = _MOST_BYTES // self[0].frames.nbytes
        missing = [number for number in self.numbers[:room] if number not in self.held]
        size = self.size
        parts = [missing[start : start + size] for start in range(0, len(missing), size)]
        calls = (joblib.delayed(_read)(self.origin, part) for part in parts)
        for part, videos in zip(parts, bench.together(calls, jobs=jobs), strict=True):
            self.held.update(zip(part, videos, strict=True))
            told("reading", len(self.held), len(self))


def _read(origin: Collection[Any], numbers: list[int]) -> list[Video]:
    return [_plain(origin[number]) for number in numbers]


def _plain(video: Any) -> Video:
    """Without joints, which nothing here looks at."""
    if not isinstance(video, Video):
        raise BadInput(f"Expected videos, got {type(video).__name__}s.")
    return replace(video, joints=None, joints_3d=None)


def cropped(film: Video, *, count: int, span: int, rng: np.random.Generator) -> list[Video]:
    """Stretches of ``span`` frames from anywhere in a recording; all of a shorter one."""
    last = max(0, len(film.frames) - span)
    starts = rng.integers(0, last + 1, count).tolist()
    return [cut(film, slice(start, start + span)) for start in starts]


def cut(film: Video, frames: slice) -> Video:
    """Some of its frames, and their masks where it has any."""
    mask = None if film.person_mask is None else film.person_mask[frames]
    return replace(film, frames=film.frames[frames], person_mask=mask)
