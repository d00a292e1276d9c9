"""What a cue sees in a recording, kept in the private cache by what the cue was shown."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np

from masquerade import assets
from masquerade.attack.case import Recording
from masquerade.recordings import Photo, Signal, Video
from masquerade.sight import embedding_cache


class NetworkCue(Protocol):
    """A cue that asks networks."""

    NETWORKS: ClassVar[tuple[str, ...]]
    """Assets that it looks with."""
    VERSION: ClassVar[int]
    """Another one where the same networks would give other rows."""

    @property
    def is_told(self) -> bool:
        """Whether it reads labels of bodies."""

    def __call__(self, recording: Recording, /) -> np.ndarray:
        """(K, D): one row a look."""


@dataclass(frozen=True)
class KeptCue:
    """A cue that looks at a recording once; the next attack on it finds the rows in the cache."""

    cue: NetworkCue

    def __call__(self, recording: Recording) -> np.ndarray:
        """(K, D), as the cue gives them."""
        return embedding_cache.made_once(
            _shown(recording, is_told=self.cue.is_told),
            fingerprint=self._fingerprint,
            make=lambda: self.cue(recording),
        )

    @cached_property
    def _fingerprint(self) -> str:
        hashes = [assets.find(name).sha256 for name in self.cue.NETWORKS]
        return f"{type(self.cue).__name__} {self.cue.VERSION} {self.cue.is_told} {hashes}"


def _shown(recording: Recording, *, is_told: bool) -> tuple[np.ndarray, ...]:
    """All that a cue reads of a recording."""
    match recording:
        case Video():
            seen = [recording.frames, np.array(recording.rate_hz)]
            told = [recording.joints, recording.joints_3d, recording.person_mask]
        case Photo():
            seen, told = [recording.image], [recording.joints]
        case Signal():
            return recording.values, np.array(recording.rate_hz)
    known = [np.zeros(0) if each is None else each for each in told]
    return (*seen, *known) if is_told else tuple(seen)
