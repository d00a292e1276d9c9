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
GLOBAL, PUBLISHED = "global noise", "PPEDCRF as published"
FULL_COVER = 0.5  # of a pixel, from which it counts as covered
_START, _TRIES = 8.0, 3  # of the search for a sigma
_MOST = 255.0
_FEW, _HALVINGS, _EPSILONS = 4, 10, (0.0, 7.0)  # films, steps, powers of ten


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
        knob: the field that the strength goes into; epsilon, where a guarantee is given up for a
            better picture.
        on_support: whether it changes what PPEDCRF's map covers, which is then given as a mask.
    """

    name: str
    mechanism: str = "ppedcrf"
    fields: tuple[tuple[str, Any], ...] = ()
    sigma: float | None = None
    doubled: bool = False
    knob: str = "sigma"
    on_support: bool = False

    def at(self, sigma: float) -> Variant:
        """The same at another strength."""
        return replace(self, sigma=sigma)

    @property
    def has_people(self) -> bool:
        """Whether it is told where people are."""
        return dict(self.fields).get("people") == "given"

    @property
    def made(self) -> Any:
        """The mechanism."""
        strength = {}
        if self.sigma is not None:
            most = _MOST if self.knob == "sigma" else math.inf
            strength = {self.knob: min(most, self.sigma * (2 if self.doubled else 1))}
        return type(catalog.example("mechanisms", self.mechanism))(**dict(self.fields), **strength)

    def released(self, film: Video, seed: int) -> np.ndarray:
        """(T, H, W, 3) uint8."""
        if self.on_support:
            film = replace(film, person_mask=support(film))
        if self.knob != "sigma":
            film = replace(film, person_mask=None)
        frames: np.ndarray = self.made.apply(film, Noise(seed=seed)).frames
        return frames


def _row(name: str, mechanism: str = "ppedcrf", **fields: Any) -> Variant:
    """A row; those with noise get their sigma later."""
    own = ("doubled", "knob", "on_support", "sigma")
    options = {key: fields.pop(key) for key in own if key in fields}
    return Variant(name=name, mechanism=mechanism, fields=tuple(fields.items()), **options)


SHAPES = ("white", "grain", "patterns")
MAPS = {"even": "no map", "evidence": "map of edges", "network": "taught map"}
CHOSEN = ("patterns", "even")  # what the mechanism does unless it is told otherwise


def shaped(shape: str, unary: str, **fields: Any) -> Variant:
    """One noise on one map, people as they are: all such rows have equal people."""
    name = OURS if (shape, unary) == CHOSEN else f"{shape}, {MAPS[unary]}"
    given = {"people": "given", "unary": unary, "shape": shape}
    return _row(name, **given, **fields, sigma=_START, doubled=unary == "even")


GRID = tuple(shaped(shape, unary) for shape in SHAPES for unary in MAPS)
ours = shaped(*CHOSEN)
selective = shaped("patterns", "network")
behind = shaped("white", "even")  # global noise, less that on people
ABLATIONS = (
    replace(shaped("patterns", "network", temporal=0.0), name="without the temporal term"),
    replace(shaped("patterns", "network", penalty="none"), name="without the penalty"),
)
_FORMAL: dict[str, Any] = {"delta": 1e-5, "unit": "pixels", "pixels": 16}
_FORMAL |= {"sigma": 1e4, "knob": "epsilon"}
FORMAL = (
    _row("cosine_gaussian", "cosine_gaussian", **_FORMAL),
    *(
        _row(f"pooled_gaussian, blocks of {b}", "pooled_gaussian", **_FORMAL, block=b, length=1)
        for b in (2, 1)
    ),
)
published = _row(PUBLISHED, form="as_published", people="nobody", sigma=_START)
_WHITE: dict[str, Any] = {"people": "nobody", "unary": "even", "shape": "white", "still": 0.0}
everywhere = _row(GLOBAL, **_WHITE, sigma=_START, doubled=True)
BLURS = tuple(
    _row(f"blur, k {k}", "blur", kernel=k, region="given", on_support=True) for k in (5, 11, 21, 31)
)
usual_blur = BLURS[1]  # the paper's
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
    return type(catalog.example("mechanisms", "ppedcrf"))(people="given", unary="network")


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
    if variant.knob != "sigma":
        return _bisected(variant, films, psnr)
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


def _bisected(variant: Variant, films: Sequence[Video], psnr: float) -> Variant:
    """By halving, on a few whole films: these mechanisms rebuild frames from their neighbours."""
    few, low, high = films[:_FEW], *_EPSILONS
    for number in range(_HALVINGS):
        middle = (low + high) / 2
        left = [_psnr(variant.at(10**middle), film, number) for film in few]
        low, high = (middle, high) if np.mean(left) < psnr else (low, middle)
    return variant.at(float(f"{10 ** ((low + high) / 2):.3g}"))


def _psnr(variant: Variant, film: Video, seed: int) -> float:
    """Of the middle frame; noise by the pixel is put on it alone."""
    middle = len(film.frames) // 2
    cut = slice(middle, middle + 1) if variant.knob == "sigma" else slice(None)
    mask = None if film.person_mask is None else film.person_mask[cut]
    short = replace(film, frames=film.frames[cut], person_mask=mask)
    seen = len(short.frames) // 2
    made = variant.released(short, 10_000 + seed)[seen].astype(float)
    error = float(np.mean((made - short.frames[seen]) ** 2))
    return 10 * math.log10(255**2 / max(error, 1e-9))
