"""What networks make of recordings, read one at a time, with the place of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.attack.attack import Told
from masquerade.attack.case import Recording
from masquerade.attack.place_pictures import Looking
from masquerade.recordings import Video
from masquerade.sight import embedding_cache
from masquerade.sight.place_features import PlaceFeatures

_LEAST = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class PlacesSeen:
    """Recordings that were looked at.

    Args:
        chosen: their numbers among all.
        places: where each was made.
        features: (N, D) of unit length by each network: the mean over a recording's pictures.
    """

    chosen: list[int]
    places: list[str]
    features: dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Eyes:
    """Networks that look, and who is told how far they are."""

    networks: dict[str, PlaceFeatures]
    told: Told

    def look(
        self, recordings: Sequence[Recording], looking: Looking, *, what: str, most: int = 0
    ) -> PlacesSeen:
        """Look at recordings whose place is known; at up to ``most`` of a place, if it is given."""
        rows: list[list[np.ndarray]] = []
        chosen, places, counts = [], [], Counter[str]()
        for number, recording in enumerate(recordings):
            place = place_of(recording)
            if place is not None and not 0 < most <= counts[place]:
                rows.append(self._features(recording, looking))
                chosen.append(number)
                places.append(place)
                counts[place] += 1
            self.told(f"look at {what}", number + 1, len(recordings))
        return PlacesSeen(chosen=chosen, places=places, features=self._named(rows))

    def again(
        self, same: PlacesSeen, recordings: Sequence[Recording], looking: Looking, *, what: str
    ) -> PlacesSeen:
        """Look at another form of recordings that were looked at; their places are known."""
        rows = []
        for number, each in enumerate(same.chosen):
            rows.append(self._features(recordings[each], looking))
            self.told(f"look at {what}", number + 1, len(same.chosen))
        return PlacesSeen(chosen=same.chosen, places=same.places, features=self._named(rows))

    def _features(self, recording: Recording, looking: Looking) -> list[np.ndarray]:
        pictures = looking.pictures(recording)
        return [_mean_feature(pictures, eye) for eye in self.networks.values()]

    def _named(self, rows: list[list[np.ndarray]]) -> dict[str, np.ndarray]:
        columns = zip(*rows, strict=True) if rows else ((),) * len(self.networks)
        return {
            name: np.array(column, np.float32)
            for name, column in zip(self.networks, columns, strict=True)
        }


def place_of(recording: Recording) -> str | None:
    """Where it was made, if that is known."""
    if isinstance(recording, Video):
        return recording.place
    place = recording.attributes.get("place")
    return None if place is None else str(place)


def _mean_feature(pictures: np.ndarray, eye: PlaceFeatures) -> np.ndarray:
    rows = embedding_cache.remembered(pictures, fingerprint=eye.fingerprint, make=eye.embed)
    mean = rows.mean(axis=0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), _LEAST))
