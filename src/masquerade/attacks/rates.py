"""How often an attacker is right: ranks, intervals over people or places, learned distances.

A way of comparing features that is learned from people or places that one knows.

Intervals by drawing people or places again and again, never frames.

How often the right person comes first, and how well one person is told from another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade.scores import MeasuredRate

_NUM_DRAWS = 1_000
_INTERVAL_PERCENTILES = (2.5, 97.5)


def bootstrap_figure(
    measure: str,
    of_rows: Callable[[np.ndarray], float],
    whose: Sequence[object],
    *,
    of: str,
    seed: int,
    chance: float | None = None,
    draws: int = _NUM_DRAWS,
) -> MeasuredRate:
    """A figure with its 95 % interval, by the percentile bootstrap over whole people or places.

    Args:
        measure: its name.
        of_rows: the measure of some rows, by their numbers; rows of one person come together, and
            come twice where the person was drawn twice. NaN where a draw has no answer.
        whose: the person or place of each row.
        of: what they are, such as "people".
        seed: of the draws.
        chance: what guessing gets.
        draws: how many.

    Example:
        >>> right = np.array([1.0, 1.0, 0.0, 1.0])
        >>> share = lambda rows: right[rows].mean()
        >>> found = bootstrap_figure("share", share, "abcd", of="people", seed=0)
        >>> found.value, found.low < found.value < found.high, found.count
        (0.75, True, 4)
    """
    names = np.array([str(each) for each in whose])
    groups = [np.flatnonzero(names == name) for name in dict.fromkeys(names)]
    every = np.arange(len(names))
    value = float(of_rows(every))
    rng = np.random.default_rng(seed)
    drawn = np.empty(draws)
    for number in range(draws):
        picked = rng.integers(0, len(groups), len(groups))
        drawn[number] = of_rows(np.concatenate([groups[each] for each in picked]))
    known = drawn[np.isfinite(drawn)]
    low, high = np.percentile(known, _INTERVAL_PERCENTILES) if len(known) else (value, value)
    return MeasuredRate(
        measure=measure,
        value=value,
        low=float(min(low, value)),
        high=float(max(high, value)),
        count=len(groups),
        of=of,
        chance=chance,
    )


def compute_hits(distances: np.ndarray, right: np.ndarray, *, among: int) -> np.ndarray:
    """(N,): how likely each row's own person is among the nearest few, ties broken at random.

    A row of equal distances is a guess, and hits as often as one.

    Args:
        distances: (N, P) from each recording to each person; infinite where nothing was seen.
        right: (N,) the column of each row's own person.
        among: how many of the nearest count.

    Example:
        >>> apart = np.array([[1.0, 2.0, 3.0], [2.0, 2.0, 9.0]])
        >>> compute_hits(apart, np.array([0, 1]), among=1)
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

    def compute_error(rows: np.ndarray) -> float:
        drawn = np.bincount(rows, minlength=count)
        let_own = _share_up_to(own, drawn, len(levels))
        let_in = _share_up_to(others, np.repeat(drawn, people - 1), len(levels))
        return _find_crossing(let_in, 1.0 - let_own)

    return compute_error


def _share_up_to(place: np.ndarray, weights: np.ndarray, levels: int) -> np.ndarray:
    """The share of what lies not above each level, and before all levels none."""
    counts = np.cumsum(np.bincount(place, weights, minlength=levels))
    return np.concatenate([[0.0], counts / counts[-1] if counts[-1] else np.full(levels, np.nan)])


def _find_crossing(let_in: np.ndarray, kept_out: np.ndarray) -> float:
    """Where one error, which rises from 0, meets the other, which falls from 1."""
    if np.isnan(let_in[-1]) or np.isnan(kept_out[-1]):
        return float("nan")
    gap = let_in - kept_out
    after = int(np.argmax(gap >= 0))  # at least 1
    share = gap[after - 1] / (gap[after - 1] - gap[after])
    return float(let_in[after - 1] + share * (let_in[after] - let_in[after - 1]))


_MAX_AXES = 128  # of the features' own that are kept
_MIN_SPREAD = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Metric:
    """Where rows of features lie so that those of one person or place are near each other.

    Args:
        centre: (D,) which is taken away first.
        matrix: (D, K) by which rows are multiplied.
    """

    centre: np.ndarray
    matrix: np.ndarray

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """(N, K) for (N, D)."""
        return np.asarray((rows - self.centre) @ self.matrix)


@dataclass(frozen=True, kw_only=True)
class Discriminants:
    """Linear discriminant analysis [fisher1936], with a spread within owners that is shrunk.

    What varies between rows of one owner, noise of a mechanism included, then counts little, and
    what tells owners apart counts much. Of many features the main axes are kept.

    Args:
        shrunk: share of a round spread in the estimate of how one owner varies, since there are
            fewer rows than features.
        is_scaled: whether every feature is first brought to unit spread, as where they are of
            different kinds.
        is_between: whether only those axes are kept along which the owners' middles differ; with
            one row an owner nothing is then known of how owners vary, and the main axes are all.
    """

    shrunk: float = 0.2
    is_scaled: bool = True
    is_between: bool = True

    def learn_metric(self, rows: np.ndarray, whose: np.ndarray) -> Metric:
        """What is learned from rows (N, D) and the number of each one's owner (N,)."""
        _check.shape("N D", rows=rows)
        _check.shape("N", rows=rows[:, 0], whose=whose)
        centre = rows.mean(axis=0)
        unit = _compute_unit_scale(rows.std(axis=0)) if self.is_scaled else np.ones(rows.shape[1])
        axes = unit[:, None] * _main_axes((rows - centre) * unit)  # (D, K)
        seen = (rows - centre) @ axes
        _, owner = np.unique(whose, return_inverse=True)
        middles = np.stack([seen[owner == each].mean(axis=0) for each in range(owner.max() + 1)])
        if self.is_between and len(rows) == len(middles):
            return Metric(centre=centre, matrix=axes)
        white = _compute_whitening(seen - middles[owner], self.shrunk)
        kept = _main_axes(middles @ white) if self.is_between else np.eye(white.shape[1])
        return Metric(centre=centre, matrix=axes @ white @ kept)


def _compute_unit_scale(spread: np.ndarray) -> np.ndarray:
    """What brings each feature to unit spread; 0 for one that never changes."""
    return np.asarray(np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > _MIN_SPREAD))


def _main_axes(rows: np.ndarray) -> np.ndarray:
    """(D, K): orthonormal axes along which rows spread, those that spread most first."""
    _, sizes, axes = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    kept = sizes > _MIN_SPREAD * max(float(sizes.max(initial=0.0)), _MIN_SPREAD)
    return np.asarray(axes[kept][:_MAX_AXES].T)


def _compute_whitening(inside: np.ndarray, shrunk: float) -> np.ndarray:
    """(K, K): makes the shrunk spread of rows about their owners' middles round."""
    spread = inside.T @ inside / len(inside)
    round_one = np.trace(spread) / max(1, len(spread))
    mixed = (1 - shrunk) * spread + (shrunk * round_one + _MIN_SPREAD) * np.eye(len(spread))
    values, axes = np.linalg.eigh(mixed)
    return np.asarray(axes / np.sqrt(values))
