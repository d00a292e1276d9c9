"""Get the picture back: average over time, filter by spectrum, or learn it on public films.

Ways to get a film back: average it over time, filter it by its spectrum, or learn how.

How like two films are, in the person and around: shares of variance, SSIM and PSNR.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol, TypeAlias

import numpy as np

from masquerade import _check
from masquerade._optional import ndimage
from masquerade.attacks.attack import (
    Attack,
    Case,
    ProgressCallback,
    RandomRecordings,
    Recording,
    Whose,
)
from masquerade.attacks.rates import bootstrap_figure
from masquerade.collection import Medium
from masquerade.errors import BadInput
from masquerade.recordings import Video
from masquerade.scores import AttackResult, MeasuredRate

Pair: TypeAlias = tuple[np.ndarray, np.ndarray]
"""A released film and the film that it was made from, (T, H, W, 3) uint8."""
_BLUR_SCALES_PX = (0.0, 1.0, 2.0, 4.0, 8.0)  # pixels
_SHORT_FRAMES = 5  # frames
_RIDGE_WEIGHT = 1e-4
_MAX_GAIN = 4.0


class Restorer(Protocol):
    """Whatever makes a film of a released one."""

    def __call__(self, film: np.ndarray) -> np.ndarray:
        """(T, H, W, 3) float32 of (T, H, W, 3) uint8."""


def as_it_is(film: np.ndarray) -> np.ndarray:
    """No attack: what anybody sees."""
    return film.astype(np.float32)


def average_over_time(film: np.ndarray) -> np.ndarray:
    """The mean over time in every frame: right where nothing moves."""
    return np.broadcast_to(film.mean(axis=0, dtype=np.float32), film.shape).copy()


@dataclass(frozen=True, kw_only=True, eq=False)
class WienerFilter:
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
    def learn_filter(cls, pairs: Iterable[Pair]) -> WienerFilter:
        """From films of the attacker's own, released in the same way."""
        both, own = np.zeros(_NUM_BINS), np.full(_NUM_BINS, 1e-9)
        means = []
        for released, truth in pairs:
            means.append((released.mean(), truth.mean()))
            bins = _assign_frequency_bins(truth.shape[:3]).ravel()
            seen, wanted = (_compute_film_spectrum(each) for each in (released, truth))
            cross = (seen.conj() * wanted).real.sum(axis=-1).ravel()
            power = np.square(np.abs(seen)).sum(axis=-1).ravel()
            both += np.bincount(bins, cross, _NUM_BINS)
            own += np.bincount(bins, power, _NUM_BINS)
        released_mean, mean = np.mean(means, axis=0).tolist()
        gains = np.clip(both / own, 0.0, _MAX_GAIN)
        return cls(gains=gains, mean=mean, released_mean=released_mean)

    def __call__(self, film: np.ndarray) -> np.ndarray:
        """Every frequency times its gain; the mean brightness is moved to where it belongs."""
        gains = self.gains[_assign_frequency_bins(film.shape[:3])][..., None]
        kept = np.fft.irfftn(_compute_film_spectrum(film) * gains, film.shape[:3], axes=(0, 1, 2))
        moved = film.mean(axis=(0, 1, 2)) - self.released_mean + self.mean
        return np.asarray(kept + moved, np.float32)


_OCTAVES, _RINGS = 8, 16
_NUM_BINS = _OCTAVES * _RINGS


def _compute_film_spectrum(film: np.ndarray) -> np.ndarray:
    """Of a film less its mean colour."""
    values = film.astype(np.float32)
    return np.fft.rfftn(values - values.mean(axis=(0, 1, 2)), axes=(0, 1, 2))


def _assign_frequency_bins(size: tuple[int, ...]) -> np.ndarray:
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
    def learn_regression(
        cls, pairs: Iterable[Pair], *, samples: int, rng: np.random.Generator
    ) -> LearnedRegression:
        """From ``samples`` pixels of each of the attacker's own films."""
        rows, wanted = [], []
        for released, truth in pairs:
            at = rng.integers(0, truth[..., 0].size, samples)
            rows.append(
                np.stack([view.reshape(-1, 3)[at] for view in list_feature_views(released)], axis=1)
            )
            wanted.append(truth.reshape(-1, 3)[at].astype(np.float64) - 127.5)
        seen = np.concatenate(rows).reshape(len(rows) * samples, -1).astype(np.float64)
        right = np.concatenate(wanted)
        mean, middle = seen.mean(axis=0), right.mean(axis=0)
        seen -= mean
        square = seen.T @ seen
        square += _RIDGE_WEIGHT * np.trace(square) / len(square) * np.eye(len(square))
        found = np.linalg.solve(square, seen.T @ (right - middle))  # (V*3, 3)
        return cls(weights=found.reshape(-1, 3, 3), mean=middle - mean @ found + 127.5)

    def __call__(self, film: np.ndarray) -> np.ndarray:
        """One view after the other, so that none waits in memory."""
        total = np.zeros(film.shape, np.float32)
        for view, weight in zip(
            list_feature_views(film), self.weights.astype(np.float32), strict=True
        ):
            total += view @ weight
        return np.asarray(total + self.mean.astype(np.float32))


def list_feature_views(film: np.ndarray) -> Iterator[np.ndarray]:
    """A film about grey: each frame, a few and all averaged, at several scales; then by motion."""
    values = film.astype(np.float32) - 127.5
    still = np.broadcast_to(values.mean(axis=0), values.shape)
    few = ndimage.uniform_filter1d(values, _SHORT_FRAMES, axis=0, mode="nearest")
    moved = np.abs(_blur_film(few, 2.0) - _blur_film(still, 2.0)).mean(axis=-1, keepdims=True)
    moves = _blur_film(moved, 2.0)
    moves = moves / (moves + np.median(moves) + 1e-3)  # 0 to 1
    for view in (values, few, still):
        for scale in _BLUR_SCALES_PX:
            blurred = _blur_film(view, scale)
            yield blurred
            yield blurred * moves


def _blur_film(film: np.ndarray, scale: float) -> np.ndarray:
    """Two means after each other: nearly a bell of that standard deviation, and much quicker."""
    for _ in range(2 if scale else 0):
        side = round(math.sqrt(6 * scale**2 + 1)) // 2 * 2 + 1
        film = ndimage.uniform_filter(film, (1, side, side, 1), mode="nearest")
    return np.asarray(film)


_SSIM_WINDOW_PX = 7
_MAX_BYTE = 255.0
_ROUNDING_VARIANCE = 1 / 12  # squared error that rounding to bytes has: PSNR stays finite
_WORST_SCORE = -1.0


def measure_explained(guess: np.ndarray, truth: np.ndarray, where: np.ndarray) -> float:
    """The share of the variation of the true pixels that a guess has right.

    1 is perfect, 0 is as good as their mean colour; not below -1, however wrong.

    Args:
        guess: (T, H, W, 3).
        truth: the same.
        where: (T, H, W) bool.

    Example:
        >>> truth = np.arange(24.0).reshape(1, 2, 4, 3)
        >>> everywhere = np.ones((1, 2, 4), bool)
        >>> [measure_explained(found, truth, everywhere) < 1 for found in (truth, truth + 1)]
        [False, True]
    """
    inside = truth[where].astype(np.float64)
    wrong = float(np.square(guess[where] - inside).mean())
    spread = float(np.square(inside - inside.mean(axis=0)).mean())
    return max(_WORST_SCORE, 1 - wrong / max(spread, _ROUNDING_VARIANCE))


def compute_psnr(guess: np.ndarray, truth: np.ndarray, where: np.ndarray) -> float:
    """In dB, with the error of rounding to bytes added: at most 58.9."""
    wrong = float(np.square(guess[where] - truth[where].astype(np.float64)).mean())
    return 10 * math.log10(_MAX_BYTE**2 / (wrong + _ROUNDING_VARIANCE))


def compute_ssim(guess: np.ndarray, truth: np.ndarray, where: np.ndarray) -> float:
    """The mean of the structural similarity [wang2004, Eq. 13] around the pixels that are meant.

    Windows of 7 x 7 in each frame and channel, with sample covariance; at edges they are mirrored.
    """
    x, y = (each.astype(np.float64) for each in (guess, truth))
    size = (1, _SSIM_WINDOW_PX, _SSIM_WINDOW_PX, 1)
    sample = _SSIM_WINDOW_PX**2 / (_SSIM_WINDOW_PX**2 - 1)

    def average_windows(values: np.ndarray) -> np.ndarray:
        return np.asarray(ndimage.uniform_filter(values, size, mode="reflect"))

    mean_x, mean_y = average_windows(x), average_windows(y)
    var_x, var_y = (
        sample * (average_windows(v * v) - m * m) for v, m in ((x, mean_x), (y, mean_y))
    )
    both = sample * (average_windows(x * y) - mean_x * mean_y)
    bright, contrast = (0.01 * _MAX_BYTE) ** 2, (0.03 * _MAX_BYTE) ** 2
    found = (2 * mean_x * mean_y + bright) * (2 * both + contrast)
    found /= (mean_x**2 + mean_y**2 + bright) * (var_x + var_y + contrast)
    return float(found[where].mean())


_MEASURES = {"explained": measure_explained, "SSIM": compute_ssim, "PSNR": compute_psnr}
_NUM_DRAWS = 200
_NOTES = (
    "Explained is the share of the true pixels' variation: 1 is the original, 0 its mean colour.",
    "PSNR counts the rounding to bytes, so that the original itself has 58.9 dB.",
)


@dataclass(frozen=True, kw_only=True)
class Reconstruct(Attack):
    """Make released films as they were, and see how near they come, in the person and around.

    Args:
        lessons: films of other people that the attacker releases in the same way to learn from.
        samples: pixels of each that the learned filter sees.
        frames: of a film that are looked at, from the first on.
    """

    ON: ClassVar[tuple[Medium, ...]] = (Medium.VIDEOS,)
    KNOWN: ClassVar[Whose] = "other people"

    lessons: int = 32
    samples: int = 3_000
    frames: int = 32

    def __post_init__(self) -> None:
        _check.count(lessons=self.lessons, samples=self.samples, frames=self.frames)

    def run(self, case: Case, *, told: ProgressCallback) -> tuple[AttackResult, ...]:
        """One answer for each way; the first is no attack at all."""
        known = case.own_releases if case.release is not None else None
        worlds = {
            "published": (known, case.targets),
            "raw": (case.known, case.raw),
            "random": (RandomRecordings(case.known, stream=1), case.random_recordings),
        }
        found = {}
        for name, (lessons, targets) in worlds.items():
            ways = self._list_restorers(lessons, case)
            found[name] = self._measure_restorers(ways, targets, case, told=partial(told, name))
        return tuple(
            AttackResult(
                attack="reconstruct",
                attacker=way,
                published=found["published"][way],
                ceiling=found["raw"][way],
                floor=found["random"][way],
                notes=_NOTES,
            )
            for way in found["published"]
        )

    def _list_restorers(
        self, released: Sequence[Recording] | None, case: Case
    ) -> dict[str, Restorer]:
        """By name; those that learn need films of the attacker's own, released in the same way."""
        ways: dict[str, Restorer] = {"as it is": as_it_is, "mean over time": average_over_time}
        if released is not None and len(released):
            rng = np.random.default_rng(case.seed)
            pairs = list(self._read_pairs(released, case.known))
            ways["Wiener"] = WienerFilter.learn_filter(pairs)
            ways["learned"] = LearnedRegression.learn_regression(
                pairs, samples=self.samples, rng=rng
            )
        return ways

    def _read_pairs(
        self, released: Sequence[Recording], known: Sequence[Recording]
    ) -> Iterator[Pair]:
        for at in range(min(self.lessons, len(known))):
            one, truth = (
                _require_video(each[at]).frames[: self.frames] for each in (released, known)
            )
            yield one, truth

    def _measure_restorers(
        self,
        ways: dict[str, Restorer],
        targets: Sequence[Recording],
        case: Case,
        *,
        told: Callable[[int, int], None],
    ) -> dict[str, tuple[MeasuredRate, ...]]:
        shares: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
        whose = []
        for at in range(len(targets)):
            raw = _require_video(case.raw[at])
            film, truth = (
                each.frames[: self.frames] for each in (_require_video(targets[at]), raw)
            )
            regions = _split_regions(raw, len(truth))
            for way, restore in ways.items():
                guess = np.clip(restore(film), 0, 255)
                shares[way].append(_measure_likeness(guess, truth, regions))
            whose.append(raw.subject or f"recording {at}")
            told(at + 1, len(targets))
        return {
            way: _bootstrap_figures(each, whose, seed=case.seed) for way, each in shares.items()
        }


def _split_regions(raw: Video, frames: int) -> dict[str, np.ndarray]:
    """The person and the rest, or the picture where nobody was marked."""
    if raw.person_mask is None:
        return {"picture": np.ones(raw.frames.shape[:3], bool)[:frames]}
    return {"person": raw.person_mask[:frames], "rest": ~raw.person_mask[:frames]}


def _measure_likeness(
    guess: np.ndarray, truth: np.ndarray, regions: dict[str, np.ndarray]
) -> dict[str, float]:
    """Every measure of every region; NaN where there is none of it."""
    return {
        f"{region} {name}": measure(guess, truth, where) if where.any() else math.nan
        for region, where in regions.items()
        for name, measure in _MEASURES.items()
    }


def _bootstrap_figures(
    each: Sequence[dict[str, float]], whose: Sequence[str], *, seed: int
) -> tuple[MeasuredRate, ...]:
    names = list(each[0])
    if any(list(one) != names for one in each):
        raise BadInput("Expected people to be marked in all recordings or in none, got both.")
    of = "recordings" if whose[0].startswith("recording ") else "people"
    found = []
    for name in names:
        values = np.array([one[name] for one in each])
        if np.isnan(values).all():
            raise BadInput(f"Expected a {name.split()[0]} in some recording, got none.")
        measured = partial(_average_rows, values)
        found.append(bootstrap_figure(name, measured, whose, of=of, seed=seed, draws=_NUM_DRAWS))
    return tuple(found)


def _average_rows(values: np.ndarray, rows: np.ndarray) -> float:
    known = values[rows][np.isfinite(values[rows])]
    return float(known.mean()) if len(known) else math.nan


def _require_video(recording: Recording) -> Video:
    if not isinstance(recording, Video):
        raise BadInput(f"Expected videos, got {type(recording).__name__}s.")
    return recording
