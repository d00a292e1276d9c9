"""What processes of their own do: release films, and take the pictures that attackers look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.attacks.place_matching import Looking
from masquerade.quality import picture
from masquerade.recipes.ppedcrf.variants import Variant
from masquerade.recordings import Video

_FILMS = 1_000  # more than there are in a run


@dataclass(frozen=True, kw_only=True, eq=False)
class Taken:
    """Pictures of films that were released once, and what is left of them.

    Args:
        pictures: (N, H, W, 3) uint8, one a film.
        psnr: of the middle frames, mean, in dB.
        ssim: of the middle frames.
        flicker: mean absolute change from frame to frame.
        stability: spread of how much frames were changed.
    """

    pictures: np.ndarray
    psnr: float
    ssim: float
    flicker: float
    stability: float


def released(films: Sequence[Video], variant: Variant, seed: int) -> list[np.ndarray]:
    """Each film once, with noise of its own."""
    return [variant.released(film, seed * _FILMS + n) for n, film in enumerate(films)]


def taken(films: Sequence[Video], variant: Variant, seed: int) -> Taken:
    """The middle frame of each, and how good all are."""
    shown = released(films, variant, seed)
    pairs = list(zip(films, shown, strict=True))
    whole = [picture.measure(a.frames, b, every=len(b) // 2 or 1) for a, b in pairs]
    middle = [picture.measure(*(_middle(each) for each in (a.frames, b))) for a, b in pairs]
    return Taken(
        pictures=np.concatenate([_middle(made) for made in shown]),
        psnr=float(np.mean([one.psnr for one in middle])),
        ssim=float(np.mean([one.ssim for one in middle])),
        flicker=float(np.mean([one.flicker_after for one in whole])),
        stability=float(np.mean([one.perturbation_stability for one in whole])),
    )


def looked(films: Sequence[Video], variant: Variant, seed: int, looking: Looking) -> np.ndarray:
    """(N, H, W, 3) uint8: what an attacker makes of each film who averages or cleans."""
    shown = (Video(frames=made, rate_hz=10.0) for made in released(films, variant, seed))
    return np.concatenate([looking.pictures(film) for film in shown])


def each(pictures: np.ndarray, variant: Variant, seed: int) -> np.ndarray:
    """Pictures without people, released one by one."""
    films = (Video(frames=one[None], rate_hz=10.0) for one in pictures)
    return np.concatenate([variant.released(film, seed + n) for n, film in enumerate(films)])


def _middle(frames: np.ndarray) -> np.ndarray:
    return frames[len(frames) // 2 :][:1]
