"""What PPEDCRF's tables release: the variants, pairs of films of one place, and the pictures.

Variants are PPEDCRF, what is left of it without its parts, and the usual ways. Pairs are as in
[ma2026, Sec. 3.1], but for what is a place: there two recordings that a network finds alike stand
for one, here both are known to be of one place, and the network chooses the likest two. Imports no
torch: processes that release films need none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from experiments.engine import Progress
from masquerade import catalog
from masquerade._optional import require_extra
from masquerade.attacks.place_matching import (
    PlaceGallery,
    ViewSettings,
    find_hardest_places,
    list_frames,
)
from masquerade.collection import Collection
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.noise import Noise
from masquerade.quality import picture
from masquerade.recordings import Video
from masquerade.report import sheet

cv2 = require_extra("cv2", extra="vision")

# --- variants

OURS, GLOBAL, PUBLISHED = "PPEDCRF", "global noise", "PPEDCRF as published"
FULL_COVER = 0.5  # of a pixel, from which it counts as covered
SHAPES = ("white", "grain", "patterns")
MAPS = {"even": "no map", "evidence": "map of edges", "network": "taught map"}
CHOSEN = ("patterns", "even")  # what the mechanism does unless it is told otherwise
_START, _TRIES = 8.0, 3  # of the search for a sigma
_MOST = 255.0
_FEW, _HALVINGS, _EPSILONS = 4, 10, (0.0, 7.0)  # films, steps, powers of ten


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One row."""

    name: str  # of the row
    mechanism: str = "ppedcrf"  # an entry of release
    fields: Mapping[str, Any]  # of it
    sigma: float | None = None  # the strength, where there is noise; the paper's sigma_0
    # whether the mechanism's own sigma is twice this one: a map that is the same everywhere is one
    # half
    doubled: bool = False
    # the field that the strength goes into; epsilon, where a guarantee is given up for a better
    # picture
    knob: str = "sigma"
    on_support: bool = False  # whether it changes what PPEDCRF's map covers, given as a mask then

    def with_sigma(self, sigma: float) -> Variant:
        """The same at another strength."""
        return replace(self, sigma=sigma)

    def without_people(self) -> Variant:
        """The same on pictures without anybody."""
        is_told = self.fields.get("people") == "given"
        return replace(self, fields={**self.fields, "people": "nobody"}) if is_told else self

    def make_mechanism(self) -> Any:
        """The mechanism at this strength."""
        strength = {}
        if self.sigma is not None:
            most = _MOST if self.knob == "sigma" else math.inf
            strength = {self.knob: min(most, self.sigma * (2 if self.doubled else 1))}
        return type(catalog.make_example("mechanisms", self.mechanism))(**self.fields, **strength)

    def release(self, film: Video, seed: int) -> np.ndarray:
        """(T, H, W, 3) uint8."""
        if self.on_support:
            film = replace(film, person_mask=find_support(film))
        if self.knob != "sigma":
            film = replace(film, person_mask=None)
        frames: np.ndarray = self.make_mechanism().apply(film, Noise(seed=seed)).frames
        return frames


def shape_noise(shape: str, unary: str, **fields: Any) -> Variant:
    """One noise on one map, people as they are: all such rows have equal people."""
    return Variant(
        name=OURS if (shape, unary) == CHOSEN else f"{shape}, {MAPS[unary]}",
        fields={"people": "given", "unary": unary, "shape": shape, **fields},
        sigma=_START,
        doubled=unary == "even",
    )


def cover_support(name: str, mechanism: str, **fields: Any) -> Variant:
    """What is done without noise to what PPEDCRF's map covers."""
    fields["region"] = "given"
    return Variant(name=name, mechanism=mechanism, fields=fields, on_support=True)


def prove_noise(name: str, mechanism: str, **fields: Any) -> Variant:
    """Noise with an epsilon, which is its strength."""
    fields = {"delta": 1e-5, "unit": "pixels", "pixels": 16, **fields}
    return Variant(name=name, mechanism=mechanism, fields=fields, sigma=1e4, knob="epsilon")


GRID = tuple(shape_noise(shape, unary) for shape in SHAPES for unary in MAPS)
OUR_ROW = shape_noise(*CHOSEN)
SELECTIVE_ROW = shape_noise("patterns", "network")
EVEN_ROW = shape_noise("patterns", "even")
BEHIND_ROW = shape_noise("white", "even")  # global noise, less that on people
ABLATIONS = (
    replace(shape_noise("patterns", "network", temporal=0.0), name="without the temporal term"),
    replace(shape_noise("patterns", "network", penalty="none"), name="without the penalty"),
)
FORMAL = (
    prove_noise("cosine_gaussian", "cosine_gaussian"),
    *(
        prove_noise(f"pooled_gaussian, blocks of {b}", "pooled_gaussian", block=b, length=1)
        for b in (2, 1)
    ),
)
PUBLISHED_ROW = Variant(
    name=PUBLISHED, fields={"form": "as_published", "people": "nobody"}, sigma=_START
)
_WHITE = {"people": "nobody", "unary": "even", "shape": "white", "still": 0.0}
GLOBAL_ROW = Variant(name=GLOBAL, fields=_WHITE, sigma=_START, doubled=True)
BLURS = tuple(cover_support(f"blur, k {k}", "blur", kernel=k) for k in (5, 11, 21, 31))
USUAL_BLUR = BLURS[1]  # the paper's
MOSAICS = tuple(cover_support(f"mosaic, b {b}", "mosaic", block=b) for b in (4, 8, 12, 20))


def mask_randomly(share: float) -> Variant:
    """Noise on a random share of the pixels, fresh in every frame."""
    fields = {"share": max(0.01, share), "block": 1, "fill": "noise"}
    return Variant(name="random mask", mechanism="random_mask", fields=fields, sigma=_START)


@cache
def _make_mapper() -> Any:
    return type(catalog.make_example("mechanisms", "ppedcrf"))(people="given", unary="network")


def map_frames(film: Video) -> list[Any]:
    """The map of each frame."""
    pairs = zip(film.frames, film.person_mask, strict=True)  # type: ignore[arg-type]
    return list(_make_mapper()._map_masked_frames(pairs, film.frames.shape))


def find_support(film: Video) -> np.ndarray:
    """(T, H, W) bool: what PPEDCRF's map covers."""
    maps = map_frames(film)
    return np.stack([one.amount >= FULL_COVER * one.amount.max() for one in maps])


def match_psnr(variant: Variant, films: Sequence[Video], psnr: float) -> Variant:
    """The variant at the strength that leaves so many dB in middle frames, on average.

    What is left falls by 20 log10 of the strength, but for what is clipped at black and white.
    Mechanisms with an epsilon rebuild frames from their neighbours: theirs is found by halving, on
    a few whole films.
    """
    if variant.knob != "sigma":
        few, low, high = films[:_FEW], *_EPSILONS
        for number in range(_HALVINGS):
            middle = (low + high) / 2
            left = [measure_psnr(variant.with_sigma(10**middle), film, number) for film in few]
            low, high = (middle, high) if np.mean(left) < psnr else (low, middle)
        return variant.with_sigma(float(f"{10 ** ((low + high) / 2):.3g}"))
    chosen = variant
    for number in range(_TRIES):
        seeds = range(number * len(films), (number + 1) * len(films))
        left = [measure_psnr(chosen, film, seed) for film, seed in zip(films, seeds, strict=True)]
        got = float(np.mean(left))
        sigma = min(_MOST, (chosen.sigma or _START) * 10 ** ((got - psnr) / 20))
        chosen = chosen.with_sigma(sigma)
        if abs(got - psnr) < 0.02:
            break
    return chosen


def measure_psnr(variant: Variant, film: Video, seed: int) -> float:
    """Of the middle frame; noise by the pixel is put on it alone."""
    middle = len(film.frames) // 2
    cut = slice(middle, middle + 1) if variant.knob == "sigma" else slice(None)
    mask = None if film.person_mask is None else film.person_mask[cut]
    short = replace(film, frames=film.frames[cut], person_mask=mask)
    at = len(short.frames) // 2
    made = variant.release(short, 10_000 + seed)[at].astype(float)
    error = float(np.mean((made - short.frames[at]) ** 2))
    return 10 * math.log10(255**2 / max(error, 1e-9))


# --- pairs of films of one place, hard distractors, and the gallery made of them

SIZE = (192, 320)
_TAKES = 3  # recordings of a place that are looked at
_A_PLACE = 2.4  # recordings of one, on average, of those that Stage makes
Embed = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Scenes:
    """What is asked for, and among what."""

    queries: tuple[Video, ...]  # films, one a place
    # (N, H, W, 3) uint8, a picture a place: those asked for first, in the order of the films, then
    # distractors, the hardest first
    gallery: np.ndarray
    others: np.ndarray  # (M, 2, H, W, 3) uint8, two pictures of each of other places
    # mean cosine of the pairs, and of the first distractors with their likest pair
    likeness: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """How many of what."""

    candidates: int  # places among which pairs are looked for
    pairs: int  # places asked for
    gallery: int  # pictures of the largest gallery; as many places are needed
    frames: int  # of a film
    learning: int  # other places that an attacker learns from, at most


def pair_places(data: Collection[Any], wanted: Wanted, embed: Embed, progress: Progress) -> Scenes:
    """Pair, and choose distractors.

    Raises:
        BadInput: if there are too few places with two recordings, or no masks of people.
    """
    data = size_stage(data, wanted)
    if not isinstance(data, Stage) and getattr(data[0], "person_mask", None) is None:
        raise BadInput(
            "Expected films with a mask of the people in every frame, who stay as they are, got "
            f"none in {data.ABOUT.title}; take --data stage."
        )
    takes: dict[str, list[int]] = {}
    for number, known in enumerate(data.labels):
        place = known.place or known.activity  # a folder a place
        if place is not None:
            takes.setdefault(str(place), []).append(number)
    every = sorted(takes, key=_sort_place)
    names = [name for name in every if len(takes[name]) > 1][: wanted.candidates]
    if len(names) < wanted.pairs + 2:
        raise BadInput(
            f"Expected at least {wanted.pairs + 2} places with two recordings each, got "
            f"{len(names)}; give more recordings"
            + (f", or --pairs {len(names) - 2} without --quick." if len(names) > 2 else ".")
        )
    looked = names + [name for name in every if name not in set(names)]
    looked = looked[: max(wanted.gallery, len(names))]
    pictures = {}
    for number, name in enumerate(looked):
        chosen = takes[name][: _TAKES if name in set(names) else 1]
        pictures[name] = np.stack([_show_place(data, index) for index in chosen])
        progress("look at places", number + 1, len(looked))
    rows = {name: embed(shown) for name, shown in pictures.items()}
    pairs = {name: _find_likest(rows[name]) for name in names}
    best = sorted(names, key=lambda name: -pairs[name][2])[: wanted.pairs]
    order = [*best, *_sort_hardest(rows, best, looked)]
    side = {name: pairs[name][1] if name in set(best) else 0 for name in order}
    shown = order[: max(wanted.gallery, wanted.pairs)]
    others = [name for name in names if name not in set(best)][: wanted.learning]
    asked = np.concatenate([rows[name] for name in best])
    first = order[len(best) : 4 * len(best)]
    near = float(np.mean([(rows[name] @ asked.T).max() for name in first])) if first else np.nan
    return Scenes(
        queries=tuple(_cut_film(data, takes[name][pairs[name][0]], wanted.frames) for name in best),
        gallery=np.stack([pictures[name][side[name]] for name in shown]),
        others=np.stack([pictures[name][list(pairs[name][:2])] for name in others]),
        likeness=(float(np.mean([pairs[name][2] for name in best])), near),
    )


def size_stage(data: Collection[Any], wanted: Wanted) -> Collection[Any]:
    """Stage with as many places as are asked for; other data as they are."""
    if not isinstance(data, Stage):
        return data
    places = data.places or max(wanted.candidates, wanted.gallery)
    return replace(
        data,
        split="all",
        places=places,
        videos=data.videos or round(_A_PLACE * places),
        frames=data.frames or wanted.frames,
        height=data.height or SIZE[0],
        width=data.width or SIZE[1],
    )


def _sort_place(name: str) -> tuple[str, str]:
    """Stage's places in the order of their numbers, kinds in turn; others by name."""
    kind, _, number = name.rpartition("_")
    return (number, kind) if kind and number.isdigit() else ("", name)


def _show_place(data: Collection[Any], index: int) -> np.ndarray:
    """What a gallery shows of a place: nobody, where that can be had, else the middle frame."""
    if isinstance(data, Stage):
        return _fit_frame(data.render_empty_place(index))
    frames = list_frames(data[index])
    return _fit_frame(frames[len(frames) // 2])


def _cut_film(data: Collection[Any], index: int, frames: int) -> Video:
    """The middle of a recording."""
    whole = data[index]
    shown = list_frames(whole)
    first = max(0, (len(shown) - frames) // 2)
    cut = slice(first, first + frames)
    given = getattr(whole, "person_mask", None)
    if given is not None:
        masks = np.asarray(given[cut], np.uint8)
        given = np.stack([_fit_frame(each, cv2.INTER_NEAREST) for each in masks]) > 0
    return Video(
        frames=np.stack([_fit_frame(frame) for frame in shown[cut]]),
        rate_hz=getattr(whole, "rate_hz", 10.0),
        person_mask=given,
        is_decoded=getattr(whole, "is_decoded", True),
    )


def _fit_frame(frame: np.ndarray, how: int = cv2.INTER_AREA) -> np.ndarray:
    """At the paper's size."""
    if frame.shape[:2] == SIZE:
        return frame
    return np.asarray(cv2.resize(np.ascontiguousarray(frame), SIZE[::-1], interpolation=how))


def _find_likest(rows: np.ndarray) -> tuple[int, int, float]:
    """The two likest of some recordings, and their cosine."""
    cosines = rows @ rows.T - 2 * np.eye(len(rows))
    one, other = np.unravel_index(int(cosines.argmax()), cosines.shape)
    return int(one), int(other), float(cosines[one, other])


def _sort_hardest(
    rows: Mapping[str, np.ndarray], best: Sequence[str], looked: Sequence[str]
) -> list[str]:
    order = [*best, *(name for name in looked if name not in set(best))]
    gallery = PlaceGallery(
        features=np.concatenate([rows[name] for name in order]),
        owner=np.concatenate([np.full(len(rows[name]), n) for n, name in enumerate(order)]),
    )
    rest = len(order) - len(best)
    return [order[n] for n in find_hardest_places(gallery, paired=np.arange(len(best)), count=rest)]


# --- what processes of their own do: release films, and take the pictures that attackers look at

_FILMS = 1_000  # more than there are in a run
_OTHERS = 100_000  # seeds of what the attacker releases
_ACTED = 500_000  # seeds of films whose activities are named


@dataclass(frozen=True, kw_only=True, eq=False)
class Taken:
    """Pictures of films that were released once, and what is left of them."""

    pictures: np.ndarray  # (N, H, W, 3) uint8, one a film
    quality: Mapping[str, float]  # as cells have it; psnr and ssim are of the middle frames


def release_films(films: Sequence[Video], variant: Variant, seed: int) -> list[np.ndarray]:
    """Each film once, with noise of its own."""
    return [variant.release(film, seed * _FILMS + n) for n, film in enumerate(films)]


def take_middle(films: Sequence[Video], variant: Variant, seed: int) -> Taken:
    """The middle frame of each, and how good all are."""
    shown = release_films(films, variant, seed)
    pairs = list(zip(films, shown, strict=True))
    whole = [picture.measure(a.frames, b, every=len(b) // 2 or 1) for a, b in pairs]
    middle = [picture.measure(*(_cut_middle(each) for each in (a.frames, b))) for a, b in pairs]
    rows = {
        "psnr": [one.psnr for one in middle],
        "ssim": [one.ssim for one in middle],
        "flicker": [one.flicker_after for one in whole],
        "stability": [one.perturbation_stability for one in whole],
    }
    return Taken(
        pictures=np.concatenate([_cut_middle(made) for made in shown]),
        quality={name: float(np.mean(values)) for name, values in rows.items()},
    )


def take_clean(
    films: Sequence[Video], variant: Variant, seed: int, looking: ViewSettings
) -> np.ndarray:
    """(N, H, W, 3) uint8: what an attacker makes of each film who averages or cleans."""
    shown = (Video(frames=made, rate_hz=10.0) for made in release_films(films, variant, seed))
    return np.concatenate([looking.make_pictures(film) for film in shown])


def take_lesson(
    films: Sequence[Video], pictures: Sequence[np.ndarray], variant: Variant, seed: int
) -> tuple[np.ndarray, ...]:
    """What was released, and what an attacker releases in the same way, without people."""
    alone, own = variant.without_people(), []
    for part, some in enumerate(pictures):
        first = _OTHERS * (part + 1) + seed * len(some)
        one_by_one = (Video(frames=one[None], rate_hz=10.0) for one in some)
        made = [alone.release(film, first + n) for n, film in enumerate(one_by_one)]
        own.append(np.concatenate(made))
    return take_clean(films, variant, seed, ViewSettings()), *own


def release_some(data: Any, numbers: Sequence[int], variant: Variant) -> list[Video]:
    """Some recordings of a data set with their activities."""
    found = []
    for number in numbers:
        film = data[number]
        frames = variant.release(film, _ACTED + number)
        found.append(Video(frames=frames, rate_hz=film.rate_hz, activity=film.activity))
    return found


def _cut_middle(frames: np.ndarray) -> np.ndarray:
    return frames[len(frames) // 2 :][:1]


# --- Figure 6: one frame in six panels, from what was filmed to what is published

_EYE_SIGMA = 24.0  # as in the paper: for the eye
_ZOOM = 3  # of the crop
_BRIGHTER = 4.0  # of the difference


def draw_panels(film: Video) -> str:
    """The panels of a film's middle frame, as SVG.

    They show the film: only for one that may be published.
    """
    middle = len(film.frames) // 2
    frame = film.frames[middle]
    amount = map_frames(film)[middle].amount
    made = SELECTIVE_ROW.with_sigma(_EYE_SIGMA).release(film, 6)[middle]
    blurred = USUAL_BLUR.release(film, 6)[middle]
    away = np.abs(made.astype(int) - frame).clip(0, 255 / _BRIGHTER) * _BRIGHTER
    rows = {
        "a frame, b map": (frame, _draw_heat(frame, amount)),
        "c noise, d diff": (made, away.astype(np.uint8)),
        "e blur, f crop": (blurred, _draw_crop(frame, made, amount)),
    }
    return sheet.draw_sheet(
        [
            sheet.SheetStrip(
                label=label, pictures=[sheet.SheetPicture(image=each) for each in pictures]
            )
            for label, pictures in rows.items()
        ]
    )


def _draw_heat(frame: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """The map in warm colours over a pale frame."""
    share = np.uint8(255 * amount / max(float(amount.max()), 1e-6))
    warm = cv2.cvtColor(cv2.applyColorMap(share, cv2.COLORMAP_INFERNO), cv2.COLOR_BGR2RGB)
    return np.asarray(cv2.addWeighted(frame, 0.35, warm, 0.65, 0))


def _draw_crop(frame: np.ndarray, made: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """Where most noise is, before on the left and after on the right, enlarged."""
    height, width = amount.shape
    high, wide = height // _ZOOM, width // 2 // _ZOOM
    near = cv2.blur(amount, (wide, high))
    inside = near[high // 2 : height - high // 2, wide // 2 : width - wide // 2]
    top, left = np.unravel_index(int(inside.argmax()), inside.shape)
    cuts = [each[top : top + high, left : left + wide] for each in (frame, made)]
    size = (width // 2, height)
    large = [cv2.resize(cut, size, interpolation=cv2.INTER_NEAREST) for cut in cuts]
    return np.concatenate(large, axis=1)
