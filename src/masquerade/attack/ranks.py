"""How often the right person comes first, and how well one person is told from another."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from masquerade import _check


def hits(distances: np.ndarray, right: np.ndarray, *, among: int) -> np.ndarray:
    """(N,): how likely each row's own person is among the nearest few, ties broken at random.

    A row of equal distances is a guess, and hits as often as one.

    Args:
        distances: (N, P) from each recording to each person; infinite where nothing was seen.
        right: (N,) the column of each row's own person.
        among: how many of the nearest count.

    Example:
        >>> apart = np.array([[1.0, 2.0, 3.0], [2.0, 2.0, 9.0]])
        >>> hits(apart, np.array([0, 1]), among=1)
        array([1. , 0.5])
    """
    _check.shape("N P", distances=distances)
    _check.shape("N", distances=distances[:, 0], right=right)
    own = np.take_along_axis(distances, right[:, None], axis=1)  # (N, 1)
    nearer = np.sum(distances < own, axis=1)
    alike = np.sum(distances == own, axis=1)
    return np.asarray(np.clip((among - nearer) / alike, 0.0, 1.0))


def equal_error(distances: np.ndarray, right: np.ndarray) -> Callable[[np.ndarray], float]:
    """Of some rows, by their numbers: the error rate of telling one person from another.

    It is the rate at which as many strangers are let in as owners are kept out; NaN for no rows.
    Between two thresholds the rates are taken to change in straight lines, so that 0.5 is chance
    also where all distances are equal.

    Args:
        distances: (N, P) from each recording to each person.
        right: (N,) the column of each row's own person.

    Example:
        >>> error = equal_error(np.array([[1.0, 3.0], [5.0, 2.0], [0.0, 0.0]]), np.array([0, 1, 0]))
        >>> error(np.array([0, 1])), error(np.array([2, 2]))
        (0.0, 0.5)
    """
    _check.shape("N P", distances=distances)
    count, people = distances.shape
    levels, place = np.unique(distances, return_inverse=True)
    place = place.reshape(count, people)
    is_own = np.arange(people) == right[:, None]
    own, others = place[is_own], place[~is_own]

    def error(rows: np.ndarray) -> float:
        drawn = np.bincount(rows, minlength=count)
        let_own = _share_up_to(own, drawn, len(levels))
        let_in = _share_up_to(others, np.repeat(drawn, people - 1), len(levels))
        return _crossing(let_in, 1.0 - let_own)

    return error


def _share_up_to(place: np.ndarray, weights: np.ndarray, levels: int) -> np.ndarray:
    """The share of what lies not above each level, and before all levels none."""
    counts = np.cumsum(np.bincount(place, weights, minlength=levels))
    return np.concatenate([[0.0], counts / counts[-1] if counts[-1] else np.full(levels, np.nan)])


def _crossing(let_in: np.ndarray, kept_out: np.ndarray) -> float:
    """Where one error, which rises from 0, meets the other, which falls from 1."""
    if np.isnan(let_in[-1]) or np.isnan(kept_out[-1]):
        return float("nan")
    gap = let_in - kept_out
    after = int(np.argmax(gap >= 0))  # at least 1
    share = gap[after - 1] / (gap[after - 1] - gap[after])
    return float(let_in[after - 1] + share * (let_in[after] - let_in[after - 1]))
