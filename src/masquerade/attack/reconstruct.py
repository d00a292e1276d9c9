"""Get the picture back: average over time, filter by spectrum, or learn it on public films."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from masquerade import _check
from masquerade.attack.attack import Attack, Told, Whose
from masquerade.attack.case import Case, Each, Recording, noise_like
from masquerade.attack.interval import bootstrap
from masquerade.attack.reconstruct_filters import (
    LearnedRegression,
    Pair,
    Restorer,
    Wiener,
    as_it_is,
    averaged,
)
from masquerade.attack.reconstruct_likeness import explained, psnr, ssim
from masquerade.collection import Medium
from masquerade.errors import BadInput
from masquerade.recordings import Video
from masquerade.scores import Attacked, Success

_MEASURES = {"explained": explained, "SSIM": ssim, "PSNR": psnr}
_DRAWS = 200
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

    def run(self, case: Case, *, told: Told) -> tuple[Attacked, ...]:
        """One answer for each way; the first is no attack at all."""
        known = case.known_released if case.release is not None else None
        worlds = {
            "published": (known, case.targets),
            "raw": (case.known, case.raw),
            "random": (Each(case.known, noise_like), case.random),
        }
        found = {}
        for name, (lessons, targets) in worlds.items():
            ways = self._ways(lessons, case)
            found[name] = self._measured(ways, targets, case, told=partial(told, name))
        return tuple(
            Attacked(
                attack="reconstruct",
                attacker=way,
                published=found["published"][way],
                ceiling=found["raw"][way],
                floor=found["random"][way],
                notes=_NOTES,
            )
            for way in found["published"]
        )

    def _ways(self, released: Sequence[Recording] | None, case: Case) -> dict[str, Restorer]:
        """By name; those that learn need films of the attacker's own, released in the same way."""
        ways: dict[str, Restorer] = {"as it is": as_it_is, "mean over time": averaged}
        if released is not None and len(released):
            rng = np.random.default_rng(case.seed)
            pairs = list(self._pairs(released, case.known))
            ways["Wiener"] = Wiener.learned(pairs)
            ways["learned"] = LearnedRegression.learned(pairs, samples=self.samples, rng=rng)
        return ways

    def _pairs(self, released: Sequence[Recording], known: Sequence[Recording]) -> Iterator[Pair]:
        for at in range(min(self.lessons, len(known))):
            one, truth = (_video(each[at]).frames[: self.frames] for each in (released, known))
            yield one, truth

    def _measured(
        self,
        ways: dict[str, Restorer],
        targets: Sequence[Recording],
        case: Case,
        *,
        told: Callable[[int, int], None],
    ) -> dict[str, tuple[Success, ...]]:
        shares: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
        whose = []
        for at in range(len(targets)):
            raw = _video(case.raw[at])
            film, truth = (each.frames[: self.frames] for each in (_video(targets[at]), raw))
            regions = _regions(raw, len(truth))
            for way, restore in ways.items():
                guess = np.clip(restore(film), 0, 255)
                shares[way].append(_likeness(guess, truth, regions))
            whose.append(raw.subject or f"recording {at}")
            told(at + 1, len(targets))
        return {way: _figures(each, whose, seed=case.seed) for way, each in shares.items()}


def _regions(raw: Video, frames: int) -> dict[str, np.ndarray]:
    """The person and the rest, or the picture where nobody was marked."""
    if raw.person_mask is None:
        return {"picture": np.ones(raw.frames.shape[:3], bool)[:frames]}
    return {"person": raw.person_mask[:frames], "rest": ~raw.person_mask[:frames]}


def _likeness(
    guess: np.ndarray, truth: np.ndarray, regions: dict[str, np.ndarray]
) -> dict[str, float]:
    """Every measure of every region; NaN where there is none of it."""
    return {
        f"{region} {name}": measure(guess, truth, where) if where.any() else math.nan
        for region, where in regions.items()
        for name, measure in _MEASURES.items()
    }


def _figures(
    each: Sequence[dict[str, float]], whose: Sequence[str], *, seed: int
) -> tuple[Success, ...]:
    names = list(each[0])
    if any(list(one) != names for one in each):
        raise BadInput("Expected people to be marked in all recordings or in none, got both.")
    of = "recordings" if whose[0].startswith("recording ") else "people"
    found = []
    for name in names:
        values = np.array([one[name] for one in each])
        if np.isnan(values).all():
            raise BadInput(f"Expected a {name.split()[0]} in some recording, got none.")
        measured = partial(_mean, values)
        found.append(bootstrap(name, measured, whose, of=of, seed=seed, draws=_DRAWS))
    return tuple(found)


def _mean(values: np.ndarray, rows: np.ndarray) -> float:
    known = values[rows][np.isfinite(values[rows])]
    return float(known.mean()) if len(known) else math.nan


def _video(recording: Recording) -> Video:
    if not isinstance(recording, Video):
        raise BadInput(f"Expected videos, got {type(recording).__name__}s.")
    return recording


EXAMPLE = Reconstruct()
