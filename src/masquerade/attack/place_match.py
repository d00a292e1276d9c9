"""Who is asked for among which places, and how often an attacker names the right one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from masquerade.attack.interval import bootstrap
from masquerade.attack.metric import Discriminants, Metric
from masquerade.attack.place_gallery import PlaceGallery, among_first, groups, hardest
from masquerade.attack.place_seen import PlacesSeen
from masquerade.errors import BadInput
from masquerade.scores import Success

_PAIRED = 12  # places that are asked for in one gallery, as in the paper
_FIRST = (1, 5, 10)  # places that the attacker may name
_FEW = 12  # places below which an interval says little
_LEARNING = 8  # recordings of other places below which nothing can be learned
_ADAPTED = Discriminants(shrunk=0.3, is_scaled=False, is_between=False)
_LEAST = 1e-12  # a shorter row has no direction


@dataclass(frozen=True, kw_only=True, eq=False)
class PlacesAsked:
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
    def of(cls, known: PlacesSeen, asked: PlacesSeen, *, count: int) -> PlacesAsked:
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
class Match:
    """Galleries of several sizes, and what an attacker gets in them.

    Args:
        asked: the places.
        sizes: of galleries.
        anchor: (N, D) features of the known recordings by which distractors are chosen.
        seed: of what is random.
    """

    asked: PlacesAsked
    sizes: tuple[int, ...]
    anchor: np.ndarray
    seed: int

    @cached_property
    def _groups(self) -> list[np.ndarray]:
        return groups(np.unique(self.asked.truth), size=_PAIRED, seed=self.seed)

    @cached_property
    def fitting(self) -> tuple[int, ...]:
        """The sizes of galleries, largest first; no more than all known places."""
        least = max(len(group) for group in self._groups)
        known = self.asked.num_known
        return tuple(sorted({max(least, min(size, known)) for size in self.sizes}, reverse=True))

    def successes(
        self, queries: np.ndarray, held: np.ndarray, *, is_adaptive: bool
    ) -> tuple[Success, ...]:
        """Top-1, Top-5 and Top-10 in each gallery, the largest first.

        Args:
            queries: (Q, D) features of what is asked about.
            held: (N, D) features of the gallery.
            is_adaptive: whether the attacker compares by what it has learned from other places.
        """
        found = []
        for size in self.fitting:
            hits = self._hits(queries, held, size=size, is_adaptive=is_adaptive)
            for count in (each for each in _FIRST if each < size):
                found.append(
                    bootstrap(
                        f"Top-{count} of {size}",
                        partial(_mean, hits[count]),
                        self.asked.truth.tolist(),
                        of="places",
                        seed=self.seed,
                        chance=count / size,
                    )
                )
        return tuple(found)

    def _hits(
        self, queries: np.ndarray, held: np.ndarray, *, size: int, is_adaptive: bool
    ) -> dict[int, np.ndarray]:
        """For each number of places that may be named, (Q,) whether the right one is among them."""
        anchor = PlaceGallery(features=self.anchor, owner=self.asked.owner)
        hits = {count: np.zeros(len(queries)) for count in _FIRST}
        for group in self._groups:
            rows = np.isin(self.asked.truth, group)
            asked, known = queries[rows], held
            if is_adaptive:
                change = self._learned(held, group)
                asked, known = _directions(change(asked)), _directions(change(known))
            others = hardest(anchor, paired=group, count=size - len(group))
            places = np.sort(np.concatenate([group, others]))
            gallery = PlaceGallery(features=known, owner=self.asked.owner)
            scores = gallery.scores(asked, places)
            right = np.searchsorted(places, self.asked.truth[rows])
            for count in _FIRST:
                hits[count][rows] = among_first(scores, right, count=count)
        return hits

    def _learned(self, held: np.ndarray, group: np.ndarray) -> Metric:
        is_other = ~np.isin(self.asked.owner, group)
        if is_other.sum() < _LEARNING:
            raise BadInput(
                f"Expected at least {_LEARNING} recordings of places that are not asked for, to "
                f"learn from, got {is_other.sum()}; use --attacker raw, or give the attacker more."
            )
        return _ADAPTED.learned(held[is_other], self.asked.owner[is_other])

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader has to know."""
        asked, places = self.asked, len(np.unique(self.asked.truth))
        said = [
            f"{len(asked.rows)} recordings at {places} places, up to {_PAIRED} of them asked for "
            f"in one gallery; {asked.num_known} places are known by {len(asked.owner)} recordings."
        ]
        if places < _FEW:
            said.append(
                f"Too few places: with {places} instead of {_FEW} or more, the intervals say "
                "little."
            )
        if max(self.sizes) > asked.num_known:
            said.append(f"No gallery of {max(self.sizes)}: {asked.num_known} places are known.")
        if asked.left_out:
            said.append(
                f"{asked.left_out} recordings are left out: the attacker does not know their place."
            )
        return tuple(said)


def _mean(hits: np.ndarray, rows: np.ndarray) -> float:
    return float(hits[rows].mean())


def _directions(rows: np.ndarray) -> np.ndarray:
    """Rows (N, K) of unit length."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _LEAST))
