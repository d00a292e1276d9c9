"""Pairs of recordings of one place, hard distractors, and the gallery of pictures made of them.

As in [ma2026, Sec. 3.1], but for what is a place: there two recordings that a network finds alike
stand for one, here both are known to be of one place, and the network chooses the likest two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from masquerade._optional import require
from masquerade.attacks.place_matching import PlaceGallery, hardest, shown_frames
from masquerade.collection import Collection
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.recipes.bench import Told
from masquerade.recordings import Video

cv2 = require("cv2", extra="vision")


SIZE = (192, 320)
_TAKES = 3  # recordings of a place that are looked at
_A_PLACE = 2.4  # recordings of one, on average, of those that Stage makes
Embed = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Scenes:
    """What is asked for, and among what.

    Args:
        queries: films, one a place.
        gallery: (N, H, W, 3) uint8, a picture a place: those asked for first, in the order of the
            films, then distractors, the hardest first.
        others: (M, 2, H, W, 3) uint8, two pictures of each of other places, to learn from.
        likeness: mean cosine of the pairs, and of the first distractors with their likest pair.
    """

    queries: tuple[Video, ...]
    gallery: np.ndarray
    others: np.ndarray
    likeness: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """How many of what.

    Args:
        candidates: places among which pairs are looked for.
        pairs: places asked for.
        gallery: pictures of the largest gallery; as many places are needed.
        frames: of a film.
        learning: other places that an attacker learns from, at most.
    """

    candidates: int
    pairs: int
    gallery: int
    frames: int
    learning: int


def found(data: Collection[Any], wanted: Wanted, embed: Embed, told: Told) -> Scenes:
    """Pair, and choose distractors.

    Raises:
        BadInput: if there are too few places with two recordings, or no masks of people.
    """
    data = _sized(data, wanted)
    if not isinstance(data, Stage) and getattr(data[0], "person_mask", None) is None:
        raise BadInput(
            "Expected films with a mask of the people in every frame, who stay as they are, got "
            f"none in {data.ABOUT.title}; take --data stage."
        )
    takes = _by_place(data)
    names = [name for name in sorted(takes, key=_turn) if len(takes[name]) > 1][: wanted.candidates]
    if len(names) < wanted.pairs + 2:
        raise BadInput(
            f"Expected at least {wanted.pairs + 2} places with two recordings each, got "
            f"{len(names)}; give more recordings"
            + (f", or --pairs {len(names) - 2} without --quick." if len(names) > 2 else ".")
        )
    looked = names + [name for name in sorted(takes, key=_turn) if name not in set(names)]
    looked = looked[: max(wanted.gallery, len(names))]
    pictures = {}
    for number, name in enumerate(looked):
        chosen = takes[name][: _TAKES if name in set(names) else 1]
        pictures[name] = np.stack([_picture(data, index) for index in chosen])
        told("look at places", number + 1, len(looked))
    rows = {name: embed(shown) for name, shown in pictures.items()}
    pairs = {name: _likest(rows[name]) for name in names}
    best = sorted(names, key=lambda name: -pairs[name][2])[: wanted.pairs]
    order = [*best, *_hardest(rows, best, looked)]
    side = {name: pairs[name][1] if name in set(best) else 0 for name in order}
    shown = order[: max(wanted.gallery, wanted.pairs)]
    gallery = np.stack([pictures[name][side[name]] for name in shown])
    films = tuple(_film(data, takes[name][pairs[name][0]], wanted.frames) for name in best)
    others = [name for name in names if name not in set(best)][: wanted.learning]
    return Scenes(
        queries=films,
        gallery=gallery,
        others=np.stack([pictures[name][list(pairs[name][:2])] for name in others]),
        likeness=(float(np.mean([pairs[name][2] for name in best])), _near(rows, best, order)),
    )


def _sized(data: Collection[Any], wanted: Wanted) -> Collection[Any]:
    """Stage with as many places as are asked for."""
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


def _by_place(data: Collection[Any]) -> dict[str, list[int]]:
    takes: dict[str, list[int]] = {}
    for number, known in enumerate(data.labels):
        place = known.place or known.activity  # a folder a place
        if place is not None:
            takes.setdefault(str(place), []).append(number)
    return takes


def _turn(name: str) -> tuple[str, str]:
    """Stage's places in the order of their numbers, kinds in turn; others by name."""
    kind, _, number = name.rpartition("_")
    return (number, kind) if kind and number.isdigit() else ("", name)


def _picture(data: Collection[Any], index: int) -> np.ndarray:
    """What a gallery shows of a place: nobody, where that can be had, else the middle frame."""
    if isinstance(data, Stage):
        return _fitted(data.empty(index))
    frames = shown_frames(data[index])
    return _fitted(frames[len(frames) // 2])


def _film(data: Collection[Any], index: int, frames: int) -> Video:
    """The middle of a recording."""
    whole = data[index]
    shown = shown_frames(whole)
    first = max(0, (len(shown) - frames) // 2)
    cut = slice(first, first + frames)
    given = getattr(whole, "person_mask", None)
    mask = None if given is None else np.stack([_fitted_mask(each) for each in given[cut]])
    return Video(
        frames=np.stack([_fitted(frame) for frame in shown[cut]]),
        rate_hz=getattr(whole, "rate_hz", 10.0),
        person_mask=mask,
        is_decoded=getattr(whole, "is_decoded", True),
    )


def _fitted(frame: np.ndarray) -> np.ndarray:
    """At the paper's size."""
    if frame.shape[:2] == SIZE:
        return frame
    given = np.ascontiguousarray(frame)
    return np.asarray(cv2.resize(given, SIZE[::-1], interpolation=cv2.INTER_AREA))


def _fitted_mask(mask: np.ndarray) -> np.ndarray:
    given = np.ascontiguousarray(mask, np.uint8)
    return np.asarray(cv2.resize(given, SIZE[::-1], interpolation=cv2.INTER_NEAREST)) > 0


def _likest(rows: np.ndarray) -> tuple[int, int, float]:
    """The two likest of some recordings, and their cosine."""
    cosines = rows @ rows.T - 2 * np.eye(len(rows))
    one, other = np.unravel_index(int(cosines.argmax()), cosines.shape)
    return int(one), int(other), float(cosines[one, other])


def _hardest(rows: dict[str, np.ndarray], best: Sequence[str], looked: Sequence[str]) -> list[str]:
    order = [*best, *(name for name in looked if name not in set(best))]
    gallery = PlaceGallery(
        features=np.concatenate([rows[name] for name in order]),
        owner=np.concatenate([np.full(len(rows[name]), n) for n, name in enumerate(order)]),
    )
    rest = len(order) - len(best)
    return [order[n] for n in hardest(gallery, paired=np.arange(len(best)), count=rest)]


def _near(rows: dict[str, np.ndarray], best: Sequence[str], order: Sequence[str]) -> float:
    asked = np.concatenate([rows[name] for name in best])
    first = order[len(best) : 4 * len(best)]
    return float(np.mean([(rows[name] @ asked.T).max() for name in first])) if first else np.nan
