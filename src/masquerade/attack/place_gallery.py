"""Galleries of places, hard ones first, and how often the right place comes among the first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade import _check


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

    def scores(self, queries: np.ndarray, places: np.ndarray) -> np.ndarray:
        """(Q, P): the cosine of queries (Q, D) with the likest picture of each place."""
        found = np.empty((len(queries), len(places)))
        for column, place in enumerate(places):
            found[:, column] = (queries @ self.features[self.owner == place].T).max(axis=1)
        return found


def hardest(gallery: PlaceGallery, *, paired: np.ndarray, count: int) -> np.ndarray:
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


def groups(places: np.ndarray, *, size: int, seed: int) -> list[np.ndarray]:
    """The places in random order, ``size`` at a time; the last has what is left."""
    order = np.random.default_rng(seed).permutation(places)
    return [order[start : start + size] for start in range(0, len(order), size)]
