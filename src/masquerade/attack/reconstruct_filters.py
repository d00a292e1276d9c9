"""Ways to get a film back: average it over time, filter it by its spectrum, or learn how."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from scipy import ndimage

Pair: TypeAlias = tuple[np.ndarray, np.ndarray]
"""A released film and the film that it was made from, (T, H, W, 3) uint8."""
_SCALES = (0.0, 1.0, 2.0, 4.0, 8.0)  # pixels
_SHORT = 5  # frames
_RIDGE = 1e-4
_MOST_GAIN = 4.0


class Restorer(Protocol):
    """Whatever makes a film of a released one."""

    def __call__(self, film: np.ndarray) -> np.ndarray:
        """(T, H, W, 3) float32 of (T, H, W, 3) uint8."""


def as_it_is(film: np.ndarray) -> np.ndarray:
    """No attack: what anybody sees."""
    return film.astype(np.float32)


def averaged(film: np.ndarray) -> np.ndarray:
    """The mean over time in every frame: right where nothing moves."""
    return np.broadcast_to(film.mean(axis=0, dtype=np.float32), film.shape).copy()


@dataclass(frozen=True, kw_only=True, eq=False)
class Wiener:
    """The best filter that treats all places alike: a gain for each frequency in space and time.

    Args:
        gains: (G,) of the bins of frequencies.
        mean: of the true pixels.
        released_mean: of the released ones.
    """

    gains: np.ndarray
    mean: float
    released_mean: float

    @classmethod
    def learned(cls, pairs: Iterable[Pair]) -> Wiener:
        """From films of the attacker's own, released in the same way."""
        both, own = np.zeros(_BINS), np.full(_BINS, 1e-9)
        means = []
        for released, truth in pairs:
            means.append((released.mean(), truth.mean()))
            bins = _bins(truth.shape[:3]).ravel()
            seen, wanted = (_spectrum(each) for each in (released, truth))
            cross = (seen.conj() * wanted).real.sum(axis=-1).ravel()
            power = np.square(np.abs(seen)).sum(axis=-1).ravel()
            both += np.bincount(bins, cross, _BINS)
            own += np.bincount(bins, power, _BINS)
        released_mean, mean = np.mean(means, axis=0).tolist()
        gains = np.clip(both / own, 0.0, _MOST_GAIN)
        return cls(gains=gains, mean=mean, released_mean=released_mean)

    def __call__(self, film: np.ndarray) -> np.ndarray:
        """Every frequency times its gain; the mean brightness is moved to where it belongs."""
        gains = self.gains[_bins(film.shape[:3])][..., None]
        kept = np.fft.irfftn(_spectrum(film) * gains, film.shape[:3], axes=(0, 1, 2))
        moved = film.mean(axis=(0, 1, 2)) - self.released_mean + self.mean
        return np.asarray(kept + moved, np.float32)


_OCTAVES, _RINGS = 8, 16
_BINS = _OCTAVES * _RINGS


def _spectrum(film: np.ndarray) -> np.ndarray:
    """Of a film less its mean colour."""
    values = film.astype(np.float32)
    return np.fft.rfftn(values - values.mean(axis=(0, 1, 2)), axes=(0, 1, 2))


def _bins(size: tuple[int, ...]) -> np.ndarray:
    """A number for each frequency: octaves in time, half octaves in space, whatever the size."""
    time, rows = (np.abs(np.fft.fftfreq(n)) for n in size[:2])
    columns = np.fft.rfftfreq(size[2])
    octave = np.where(time == 0, 0, _OCTAVES - 1 + np.floor(np.log2(np.maximum(time, 1e-9)) + 1))
    radius = np.hypot(rows[:, None], columns)
    ring = np.where(radius == 0, 0, _RINGS - 1 + np.floor(2 * np.log2(np.maximum(radius, 1e-9))))
    octave, ring = np.clip(octave, 0, _OCTAVES - 1), np.clip(ring, 0, _RINGS - 1)
    return np.asarray(octave[:, None, None] * _RINGS + ring, np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedRegression:
    """Pixels from their surroundings at several scales and times, as they fit public films best.

    Every view of a film is used as it is, and weighted by how much moves there: where nothing does,
    time can be averaged over; where something does, only space.

    Args:
        weights: (V, 3, 3) of each view's colours for each colour.
        mean: (3,) added.
    """

    weights: np.ndarray
    mean: np.ndarray

    @classmethod
    def learned(
        cls, pairs: Iterable[Pair], *, samples: int, rng: np.random.Generator
    ) -> LearnedRegression:
        """From ``samples`` pixels of each of the attacker's own films."""
        rows, wanted = [], []
        for released, truth in pairs:
            at = rng.integers(0, truth[..., 0].size, samples)
            rows.append(np.stack([view.reshape(-1, 3)[at] for view in views(released)], axis=1))
            wanted.append(truth.reshape(-1, 3)[at].astype(np.float64) - 127.5)
        seen = np.concatenate(rows).reshape(len(rows) * samples, -1).astype(np.float64)
        right = np.concatenate(wanted)
        mean, middle = seen.mean(axis=0), right.mean(axis=0)
        seen -= mean
        square = seen.T @ seen
        square += _RIDGE * np.trace(square) / len(square) * np.eye(len(square))
        found = np.linalg.solve(square, seen.T @ (right - middle))  # (V*3, 3)
        return cls(weights=found.reshape(-1, 3, 3), mean=middle - mean @ found + 127.5)

    def __call__(self, film: np.ndarray) -> np.ndarray:
        """One view after the other, so that none waits in memory."""
        total = np.zeros(film.shape, np.float32)
        for view, weight in zip(views(film), self.weights.astype(np.float32), strict=True):
            total += view @ weight
        return np.asarray(total + self.mean.astype(np.float32))


def views(film: np.ndarray) -> Iterator[np.ndarray]:
    """A film about grey: each frame, a few and all averaged, at several scales; then by motion."""
    values = film.astype(np.float32) - 127.5
    still = np.broadcast_to(values.mean(axis=0), values.shape)
    few = ndimage.uniform_filter1d(values, _SHORT, axis=0, mode="nearest")
    moved = np.abs(_blurred(few, 2.0) - _blurred(still, 2.0)).mean(axis=-1, keepdims=True)
    moves = _blurred(moved, 2.0)
    moves = moves / (moves + np.median(moves) + 1e-3)  # 0 to 1
    for view in (values, few, still):
        for scale in _SCALES:
            blurred = _blurred(view, scale)
            yield blurred
            yield blurred * moves


def _blurred(film: np.ndarray, scale: float) -> np.ndarray:
    """Two means after each other: nearly a bell of that standard deviation, and much quicker."""
    for _ in range(2 if scale else 0):
        side = round(math.sqrt(6 * scale**2 + 1)) // 2 * 2 + 1
        film = ndimage.uniform_filter(film, (1, side, side, 1), mode="nearest")
    return np.asarray(film)
