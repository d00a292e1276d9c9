"""Who is asked for among which places, and how often an attacker names the right one.

Galleries of places, hard ones first, and how often the right place comes among the first.

The pictures of a recording that an attacker matches: which frames, averaged and cleaned how.

What networks make of recordings, read one at a time, with the place of each.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module
from masquerade.attacks.attack import ProgressCallback, Recording
from masquerade.attacks.rates import Discriminants, Metric, bootstrap_figure
from masquerade.errors import BadInput
from masquerade.recordings import Photo, Video
from masquerade.scores import MeasuredRate
from masquerade.vision import embedding_cache
from masquerade.vision.flow import OpticalFlow, warp_picture

if TYPE_CHECKING:
    from masquerade.vision.place_features import PlaceFeatures

cv2 = lazy_module("cv2", extra="vision")


@dataclass(frozen=True, kw_only=True, eq=False)
class PlaceGallery:
    """Pictures of places.

    Args:
        features: (N, D), of unit length.
        owner: (N,) the place of each, as its number.
    """

    features: np.ndarray
    owner: np.ndarray

    def __post_init__(self) -> None:
        _check.shape("N D", features=self.features)
        _check.shape("N", owner=self.owner)
        if len(self.owner) != len(self.features) or not len(self.owner):
            raise ValueError(
                f"Expected a place for each of {len(self.features)} pictures, and at least one, "
                f"got {len(self.owner)}."
            )

    def score_places(self, queries: np.ndarray, places: np.ndarray) -> np.ndarray:
        """(Q, P): the cosine of queries (Q, D) with the likest picture of each place."""
        found = np.empty((len(queries), len(places)))
        for column, place in enumerate(places):
            found[:, column] = (queries @ self.features[self.owner == place].T).max(axis=1)
        return found


def find_hardest_places(gallery: PlaceGallery, *, paired: np.ndarray, count: int) -> np.ndarray:
    """The ``count`` other places whose pictures are likest to those of the paired ones.

    As [ma2026, Sec. 3.1] takes its distractors: by the largest similarity to any paired place.
    """
    others = np.array([each for each in np.unique(gallery.owner) if each not in set(paired)], int)
    if count > len(others):
        raise ValueError(f"Expected at most {len(others)} distractors, got count={count}.")
    wanted = gallery.features[np.isin(gallery.owner, paired)]
    near = [(gallery.features[gallery.owner == each] @ wanted.T).max() for each in others]
    return others[np.argsort(-np.array(near), kind="stable")[:count]]


def among_first(scores: np.ndarray, right: np.ndarray, *, count: int) -> np.ndarray:
    """(Q,): the chance that the right column is among the first ``count``; ties fall at random.

    Args:
        scores: (Q, P), larger for likelier places.
        right: (Q,) the column of the true place.
        count: of places that are named.

    Example:
        >>> scores = np.array([[0.9, 0.5, 0.1], [0.2, 0.2, 0.8]])
        >>> among_first(scores, np.array([1, 0]), count=1).tolist()
        [0.0, 0.0]
        >>> among_first(scores, np.array([1, 0]), count=2).tolist()
        [1.0, 0.5]
    """
    own = np.take_along_axis(scores, right[:, None], axis=1)
    above, equal = (scores > own).sum(axis=1), (scores == own).sum(axis=1)
    return np.asarray(np.clip((count - above) / equal, 0, 1))


def group_places(places: np.ndarray, *, size: int, seed: int) -> list[np.ndarray]:
    """The places in random order, ``size`` at a time; the last has what is left."""
    order = np.random.default_rng(seed).permutation(places)
    return [order[start : start + size] for start in range(0, len(order), size)]


Rule: TypeAlias = Literal["middle", "spread"]
Motion: TypeAlias = Literal["flow", "still"]

_MAX_FLOW_FRAMES = 4  # frames
_SMOOTH_PX = 2.0  # sigma of the blur before flow is estimated, so that noise does not lead it
_MIN_CLEANED_PX = 3  # pixels a side below which nothing is cleaned
_LAPLACE_KERNEL = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float32)
_MIN_NOISE_LEVEL = 1.0  # levels below which nothing is cleaned
_CLEANING_STRENGTH = 0.35  # of non-local means, in spreads of the noise


@dataclass(frozen=True, kw_only=True)
class ViewSettings:
    """How pictures are made of what was published.

    Args:
        rule: the frame in the middle, or four spread over the recording.
        frames: how many around each are averaged.
        motion: whether they are moved onto it along the optical flow first, or taken as they are,
            as from a camera that stands still.
        denoise: whether noise is taken out afterwards, by non-local means.
    """

    rule: Rule = "middle"
    frames: int = 1
    motion: Motion = "flow"
    denoise: bool = False

    def make_pictures(self, recording: Recording) -> np.ndarray:
        """(P, H, W, 3) uint8.

        Raises:
            BadInput: if the recording is not one of pictures.
        """
        shown = list_frames(recording)
        found = []
        for place in choose_frames(len(shown), self.rule):
            picture = average_frames(shown, place, count=self.frames, motion=self.motion)
            found.append(denoise_picture(picture) if self.denoise else picture)
        return np.stack(found)


def list_frames(recording: Recording) -> np.ndarray:
    """(T, H, W, 3) uint8 of a video or photo."""
    match recording:
        case Video():
            return recording.frames
        case Photo():
            return recording.image[None]
    raise BadInput("Expected videos or photos to find places in, got signals; choose others.")


def choose_frames(count: int, rule: Rule) -> list[int]:
    """Which of ``count`` frames are looked at.

    Example:
        >>> choose_frames(16, "middle"), choose_frames(16, "spread"), choose_frames(2, "spread")
        ([8], [2, 6, 10, 14], [0, 1])
    """
    _check.count(count=count)
    if rule == "middle":
        return [count // 2]
    number = min(_MAX_FLOW_FRAMES, count)
    return [int((place + 0.5) * count / number) for place in range(number)]


def average_frames(frames: np.ndarray, place: int, *, count: int, motion: Motion) -> np.ndarray:
    """The mean of ``count`` frames around ``place``, (H, W, 3) uint8, as that frame shows things.

    Independent noise shrinks by the root of ``count``. What moves otherwise than the flow says
    is smeared.
    """
    first = max(0, min(place - count // 2, len(frames) - count))
    around = range(first, min(first + count, len(frames)))
    now = frames[place]
    if len(around) < 2:
        return np.asarray(now)
    total = np.zeros(now.shape, np.float32)
    for other in around:
        total += frames[other] if other == place else _move_frame(frames[other], now, motion)
    return np.asarray(np.rint(total / len(around)), np.uint8)


def _move_frame(other: np.ndarray, now: np.ndarray, motion: Motion) -> np.ndarray:
    if motion == "still":
        return other
    smooth = (cv2.GaussianBlur(each, (0, 0), _SMOOTH_PX) for each in (now, other))
    return warp_picture(other, OpticalFlow().estimate_back_flow(*smooth))


def noise_level(picture: np.ndarray) -> float:
    """The spread of independent noise in a picture, in levels, from what no smooth picture has.

    The mean absolute value after a filter that is blind to planes, over that of unit noise.
    """
    if min(picture.shape[:2]) < _MIN_CLEANED_PX:
        return 0.0
    grey = picture.astype(np.float32).mean(axis=2)
    rough = cv2.filter2D(grey, -1, _LAPLACE_KERNEL)[1:-1, 1:-1]
    # Unit noise has spread 6 behind the filter, and sqrt(3) less in a mean of three colours.
    return float(math.sqrt(3) * math.sqrt(math.pi / 2) * np.abs(rough).mean() / 6)


def denoise_picture(picture: np.ndarray) -> np.ndarray:
    """The picture with its noise taken out by non-local means, as much as there seems to be."""
    level = noise_level(picture)
    if level < _MIN_NOISE_LEVEL:
        return picture
    strength = _CLEANING_STRENGTH * level
    cleaned = cv2.fastNlMeansDenoisingColored(
        np.ascontiguousarray(picture), None, strength, strength, 7, 21
    )
    return np.asarray(cleaned)


_MIN_NORM = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class PlaceViews:
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
class PlaceViewer:
    """Networks that look, and who is told how far they are."""

    networks: dict[str, PlaceFeatures]
    told: ProgressCallback

    def view_recordings(
        self, recordings: Sequence[Recording], looking: ViewSettings, *, what: str, most: int = 0
    ) -> PlaceViews:
        """Look at recordings whose place is known; at up to ``most`` of a place, if it is given."""
        rows: list[list[np.ndarray]] = []
        chosen, places, counts = [], [], Counter[str]()
        for number, recording in enumerate(recordings):
            place = place_of(recording)
            if place is not None and not 0 < most <= counts[place]:
                rows.append(self._compute_features(recording, looking))
                chosen.append(number)
                places.append(place)
                counts[place] += 1
            self.told(f"look at {what}", number + 1, len(recordings))
        return PlaceViews(chosen=chosen, places=places, features=self._stack_by_network(rows))

    def view_again(
        self, same: PlaceViews, recordings: Sequence[Recording], looking: ViewSettings, *, what: str
    ) -> PlaceViews:
        """Look at another form of recordings that were looked at; their places are known."""
        rows = []
        for number, each in enumerate(same.chosen):
            rows.append(self._compute_features(recordings[each], looking))
            self.told(f"look at {what}", number + 1, len(same.chosen))
        return PlaceViews(
            chosen=same.chosen, places=same.places, features=self._stack_by_network(rows)
        )

    def _compute_features(self, recording: Recording, looking: ViewSettings) -> list[np.ndarray]:
        pictures = looking.make_pictures(recording)
        return [_mean_feature(pictures, eye) for eye in self.networks.values()]

    def _stack_by_network(self, rows: list[list[np.ndarray]]) -> dict[str, np.ndarray]:
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
    rows = embedding_cache.read_or_embed(pictures, fingerprint=eye.fingerprint, make=eye.embed)
    mean = rows.mean(axis=0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), _MIN_NORM))


_PLACES_PER_GALLERY = 12  # places that are asked for in one gallery, as in the paper
_TOP_RANKS = (1, 5, 10)  # places that the attacker may name
_MIN_PLACES = 12  # places below which an interval says little
_MIN_LEARNING_RECORDINGS = 8  # recordings of other places below which nothing can be learned
_ADAPTIVE_METRIC = Discriminants(shrunk=0.3, is_scaled=False, is_between=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class PlaceQueries:
    """Places by number, on both sides.

    Args:
        owner: (N,) the place of each recording in the gallery.
        truth: (Q,) the place of each recording that is asked about.
        rows: (Q,) which of those that were looked at.
        left_out: how many of the published are at places that the attacker does not know.
    """

    owner: np.ndarray
    truth: np.ndarray
    rows: np.ndarray
    left_out: int

    @classmethod
    def from_views(cls, known: PlaceViews, asked: PlaceViews, *, count: int) -> PlaceQueries:
        """All that was looked at and is at a known place, of ``count`` published recordings.

        Raises:
            BadInput: if there are fewer than two places, or nothing to ask about.
        """
        numbers = {name: number for number, name in enumerate(sorted(set(known.places)))}
        if len(numbers) < 2:
            raise BadInput(
                "Expected the attacker to hold recordings of at least two places, with the place "
                f"as a label, got {len(numbers)}; choose recordings that say where they were made."
            )
        rows = [row for row, place in enumerate(asked.places) if place in numbers]
        if not rows:
            raise BadInput(
                f"Expected something published at one of the {len(numbers)} places that the "
                f"attacker holds, got none of {count}; the attacker needs other recordings of the "
                "same places."
            )
        return cls(
            owner=np.array([numbers[place] for place in known.places]),
            truth=np.array([numbers[asked.places[row]] for row in rows]),
            rows=np.array(rows),
            left_out=count - len(rows),
        )

    @property
    def num_known(self) -> int:
        """Places that the attacker holds."""
        return int(self.owner.max()) + 1


@dataclass(frozen=True, kw_only=True, eq=False)
class PlaceMatch:
    """Galleries of several sizes, and what an attacker gets in them.

    Args:
        asked: the places.
        sizes: of galleries.
        anchor: (N, D) features of the known recordings by which distractors are chosen.
        seed: of what is random.
    """

    asked: PlaceQueries
    sizes: tuple[int, ...]
    anchor: np.ndarray
    seed: int

    @cached_property
    def _place_groups(self) -> list[np.ndarray]:
        return group_places(np.unique(self.asked.truth), size=_PLACES_PER_GALLERY, seed=self.seed)

    @cached_property
    def gallery_sizes(self) -> tuple[int, ...]:
        """The sizes of galleries, largest first; no more than all known places."""
        least = max(len(group) for group in self._place_groups)
        known = self.asked.num_known
        return tuple(sorted({max(least, min(size, known)) for size in self.sizes}, reverse=True))

    def measure_successes(
        self, queries: np.ndarray, held: np.ndarray, *, is_adaptive: bool
    ) -> tuple[MeasuredRate, ...]:
        """Top-1, Top-5 and Top-10 in each gallery, the largest first.

        Args:
            queries: (Q, D) features of what is asked about.
            held: (N, D) features of the gallery.
            is_adaptive: whether the attacker compares by what it has learned from other places.
        """
        found = []
        for size in self.gallery_sizes:
            hits = self._count_hits(queries, held, size=size, is_adaptive=is_adaptive)
            for count in (each for each in _TOP_RANKS if each < size):
                found.append(
                    bootstrap_figure(
                        f"Top-{count} of {size}",
                        partial(_average_hits, hits[count]),
                        self.asked.truth.tolist(),
                        of="places",
                        seed=self.seed,
                        chance=count / size,
                    )
                )
        return tuple(found)

    def _count_hits(
        self, queries: np.ndarray, held: np.ndarray, *, size: int, is_adaptive: bool
    ) -> dict[int, np.ndarray]:
        """For each number of places that may be named, (Q,) whether the right one is among them."""
        anchor = PlaceGallery(features=self.anchor, owner=self.asked.owner)
        hits = {count: np.zeros(len(queries)) for count in _TOP_RANKS}
        for group in self._place_groups:
            rows = np.isin(self.asked.truth, group)
            asked, known = queries[rows], held
            if is_adaptive:
                change = self._learn_metric(held, group)
                asked, known = _normalise_rows(change(asked)), _normalise_rows(change(known))
            others = find_hardest_places(anchor, paired=group, count=size - len(group))
            places = np.sort(np.concatenate([group, others]))
            gallery = PlaceGallery(features=known, owner=self.asked.owner)
            scores = gallery.score_places(asked, places)
            right = np.searchsorted(places, self.asked.truth[rows])
            for count in _TOP_RANKS:
                hits[count][rows] = among_first(scores, right, count=count)
        return hits

    def _learn_metric(self, held: np.ndarray, group: np.ndarray) -> Metric:
        is_other = ~np.isin(self.asked.owner, group)
        if is_other.sum() < _MIN_LEARNING_RECORDINGS:
            raise BadInput(
                f"Expected at least {_MIN_LEARNING_RECORDINGS} recordings of places that are not "
                "asked for, to "
                f"learn from, got {is_other.sum()}; use --attacker raw, or give the attacker more."
            )
        return _ADAPTIVE_METRIC.learn_metric(held[is_other], self.asked.owner[is_other])

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader has to know."""
        asked, places = self.asked, len(np.unique(self.asked.truth))
        said = [
            f"{len(asked.rows)} recordings at {places} places, up to {_PLACES_PER_GALLERY} of "
            "them asked for "
            f"in one gallery; {asked.num_known} places are known by {len(asked.owner)} recordings."
        ]
        if places < _MIN_PLACES:
            said.append(
                f"Too few places: with {places} instead of {_MIN_PLACES} or more, the intervals "
                "say "
                "little."
            )
        if max(self.sizes) > asked.num_known:
            said.append(f"No gallery of {max(self.sizes)}: {asked.num_known} places are known.")
        if asked.left_out:
            said.append(
                f"{asked.left_out} recordings are left out: the attacker does not know their place."
            )
        return tuple(said)


def _average_hits(hits: np.ndarray, rows: np.ndarray) -> float:
    return float(hits[rows].mean())


def _normalise_rows(rows: np.ndarray) -> np.ndarray:
    """Rows (N, K) of unit length."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _MIN_NORM))
