"""What is compared: PPEDCRF and what is left of it without its parts, and the usual ways."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from masquerade import catalog
from masquerade.noise import Noise
from masquerade.recordings import Video

OURS = "PPEDCRF"
PATTERNS: dict[str, Any] = {"shape": "patterns"}
GLOBAL, PUBLISHED = "global noise", "PPEDCRF as published"
FULL_COVER = 0.5  # of a pixel, from which it counts as covered
_START, _TRIES = 8.0, 3  # of the search for a sigma
_MOST = 255.0


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One row.

    Args:
        name: of the row.
        mechanism: an entry of release.
        fields: of it.
        sigma: the strength, where there is noise; the paper's sigma_0.
        doubled: whether the mechanism's own sigma is twice this one: a map that is the same
            everywhere is one half.
        on_support: whether it changes what PPEDCRF's map covers, which is then given as a mask.
    """

    name: str
    mechanism: str = "ppedcrf"
    fields: tuple[tuple[str, Any], ...] = ()
    sigma: float | None = None
    doubled: bool = False
    on_support: bool = False

    def at(self, sigma: float) -> Variant:
        """The same at another strength."""
        return replace(self, sigma=sigma)

    @property
    def made(self) -> Any:
        """The mechanism."""
        strength = {}
        if self.sigma is not None:
            strength = {"sigma": min(_MOST, self.sigma * (2 if self.doubled else 1))}
        return type(catalog.example("release", self.mechanism))(**dict(self.fields), **strength)

    def released(self, film: Video, seed: int) -> np.ndarray:
        """(T, H, W, 3) uint8."""
        if self.on_support:
            film = replace(film, person_mask=support(film))
        frames: np.ndarray = self.made.apply(film, Noise(seed=seed)).frames
        return frames


def _row(name: str, mechanism: str = "ppedcrf", **fields: Any) -> Variant:
    """A row; those with noise get their sigma later."""
    options = {key: fields.pop(key) for key in ("doubled", "on_support", "sigma") if key in fields}
    return Variant(name=name, mechanism=mechanism, fields=tuple(fields.items()), **options)


_SELECTIVE: dict[str, Any] = {"people": "given", "unary": "network", "sigma": _START}
ours = _row(OURS, **_SELECTIVE, **PATTERNS)
white = _row(f"{OURS}, white noise", **_SELECTIVE)
ABLATIONS = (
    _row("without the temporal term", **_SELECTIVE, **PATTERNS, temporal=0.0),
    _row("without the penalty", **_SELECTIVE, **PATTERNS, penalty="none"),
)
EVEN = _row(
    "patterns, no map", people="given", unary="even", sigma=_START, doubled=True, **PATTERNS
)
UNTAUGHT = _row("training-free map", **{**_SELECTIVE, "unary": "evidence"}, **PATTERNS)
published = _row(PUBLISHED, form="as_published", people="nobody", sigma=_START)
everywhere = _row(GLOBAL, people="nobody", unary="even", still=0.0, sigma=_START, doubled=True)
BLURS = tuple(
    _row(f"blur, k {k}", "blur", kernel=k, region="given", on_support=True) for k in (5, 11, 21, 31)
)
MOSAICS = tuple(
    _row(f"mosaic, b {b}", "mosaic", block=b, region="given", on_support=True)
    for b in (4, 8, 12, 20)
)


def random_mask(share: float) -> Variant:
    """Noise on a random share of the pixels, fresh in every frame."""
    fields = {"share": max(0.01, share), "block": 1, "fill": "noise"}
    return _row("random mask", "random_mask", **fields, sigma=_START)


@cache
def _mapper() -> Any:
    return type(catalog.example("release", "ppedcrf"))(people="given", unary="network")


def mapped(film: Video) -> list[Any]:
    """The map of each frame."""
    pairs = zip(film.frames, film.person_mask, strict=True)  # type: ignore[arg-type]
    return list(_mapper()._mapped(pairs, film.frames.shape))


def support(film: Video) -> np.ndarray:
    """(T, H, W) bool: what PPEDCRF's map covers."""
    maps = mapped(film)
    return np.stack([one.amount >= FULL_COVER * one.amount.max() for one in maps])


def matched(variant: Variant, films: Sequence[Video], psnr: float) -> Variant:
    """The variant at the strength that leaves so many dB in middle frames, on average.

    What is left falls by 20 log10 of the strength, but for what is clipped at black and white.
    """
    chosen = variant
    for number in range(_TRIES):
        seeds = range(number * len(films), (number + 1) * len(films))
        left = [_psnr(chosen, film, seed) for film, seed in zip(films, seeds, strict=True)]
        got = float(np.mean(left))
        sigma = min(_MOST, (chosen.sigma or _START) * 10 ** ((got - psnr) / 20))
        chosen = chosen.at(sigma)
        if abs(got - psnr) < 0.02:
            break
    return chosen


def _psnr(variant: Variant, film: Video, seed: int) -> float:
    middle = len(film.frames) // 2
    short = replace(
        film,
        frames=film.frames[middle : middle + 1],
        person_mask=None if film.person_mask is None else film.person_mask[middle : middle + 1],
    )
    made = variant.released(short, 10_000 + seed).astype(float)
    error = float(np.mean((made - short.frames) ** 2))
    return 10 * math.log10(255**2 / max(error, 1e-9))
