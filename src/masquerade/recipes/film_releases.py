"""Parts of a data set of videos: some recordings, kept in memory; and the same, released."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from masquerade.collection import About, Collection, Count, Kind, Labels
from masquerade.errors import BadInput
from masquerade.mechanism import Mechanism, Shape
from masquerade.noise import Noise
from masquerade.recordings import Video


@dataclass(frozen=True, kw_only=True, eq=False)
class Kept(Collection[Video]):
    """Some recordings of a data set, kept in memory once they were read, up to a limit.

    Args:
        origin: the data set.
        numbers: which of its recordings.
        most_mb: that are kept; what is beyond is read again.
    """

    ABOUT: ClassVar[About] = About(
        title="Part of a data set", kind=Kind.VIDEOS, licence="", home="", citation=""
    )
    origin: Collection[Any]
    numbers: tuple[int, ...]
    most_mb: int = 2048
    held: dict[int, Video] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)

    @property
    def activities(self) -> tuple[str, ...]:
        """Those of the whole."""
        return self.origin.activities

    def check(self) -> tuple[Count, ...]:
        """Nothing was published about a part."""
        return ()

    def _find(self) -> Sequence[Labels]:
        return [self.origin.labels[number] for number in self.numbers]

    def _load(self, index: int) -> Video:
        if index in self.held:
            return self.held[index]
        video = self.origin[self.numbers[index]]
        if not isinstance(video, Video):
            raise BadInput(f"Expected videos, got {type(video).__name__}s.")
        video = dataclasses.replace(video, person_mask=None, joints=None, joints_3d=None)
        if sum(self.sizes) + video.frames.nbytes <= self.most_mb * 2**20:
            self.held[index] = video
            self.sizes.append(video.frames.nbytes)
        return video


@dataclass(frozen=True, kw_only=True, eq=False)
class Released(Collection[Video]):
    """Recordings as a mechanism releases them, or as they are; labels are public here.

    Each look is a release of its own, so look once.

    Args:
        films: the recordings.
        classes: the public list of them.
        mechanism: what is done to each; None for nothing.
        noise: where its noise comes from.
        shapes: of what was released so far.
        changed: the share of numbers that each release changed.
    """

    ABOUT: ClassVar[About] = Kept.ABOUT
    films: Sequence[Video]
    classes: tuple[str, ...]
    mechanism: Mechanism | None
    noise: Noise
    shapes: set[Shape] = field(default_factory=set)
    changed: list[float] = field(default_factory=list)

    @property
    def activities(self) -> tuple[str, ...]:
        """The list of classes."""
        return self.classes

    def check(self) -> tuple[Count, ...]:
        """Nothing was published about a part."""
        return ()

    def _find(self) -> Sequence[Labels]:
        return [Labels(name=f"recording {number}") for number in range(len(self.films))]

    def _load(self, index: int) -> Video:
        video = self.films[index]
        self.shapes.add(video.frames.shape)
        if self.mechanism is None:
            return video
        made = self.mechanism.apply(video, self.noise)
        if not isinstance(made, Video):
            raise TypeError(f"Expected a video, got {type(made).__name__}.")
        self.changed.append(float(np.mean(made.frames != video.frames)))
        return dataclasses.replace(made, activity=video.activity)
