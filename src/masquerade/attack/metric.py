"""A way of comparing features that is learned from people whose recordings one holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade import _check

_MOST_AXES = 128  # of the features' own that are kept
_SHRUNK = 0.2  # share of a round spread in the estimate of how one person varies
_TINY = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Metric:
    """Where rows of features lie so that one person's are near each other.

    Args:
        centre: (D,) which is taken away first.
        matrix: (D, K) by which rows are multiplied.
    """

    centre: np.ndarray
    matrix: np.ndarray

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """(N, K) for (N, D)."""
        return np.asarray((rows - self.centre) @ self.matrix)


def learned(rows: np.ndarray, whose: np.ndarray) -> Metric:
    """Linear discriminant analysis [fisher1936], with a spread within people that is shrunk.

    Every feature is first brought to unit spread, and of many features the main axes are kept.
    Where there is one row a person, nothing is known of how people vary, and that is all.

    Args:
        rows: (N, D) features.
        whose: (N,) the number of each row's person.
    """
    _check.shape("N D", rows=rows)
    _check.shape("N", rows=rows[:, 0], whose=whose)
    centre, spread = rows.mean(axis=0), rows.std(axis=0)
    unit = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > _TINY)
    axes = unit[:, None] * _main_axes((rows - centre) * unit)  # (D, K)
    seen = (rows - centre) @ axes
    middles = np.stack([seen[whose == each].mean(axis=0) for each in np.unique(whose)])
    inside = seen - middles[np.unique(whose, return_inverse=True)[1]]
    if len(rows) == len(middles):
        return Metric(centre=centre, matrix=axes)
    white = _whitening(inside)
    return Metric(centre=centre, matrix=axes @ white @ _main_axes(middles @ white))


def _main_axes(rows: np.ndarray) -> np.ndarray:
    """(D, K): orthonormal axes along which rows spread, those that spread most first."""
    _, sizes, axes = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    kept = sizes > _TINY * max(float(sizes.max(initial=0.0)), _TINY)
    return np.asarray(axes[kept][:_MOST_AXES].T)


def _whitening(inside: np.ndarray) -> np.ndarray:
    """(K, K): makes the shrunk spread of rows about their people's middles round."""
    spread = inside.T @ inside / len(inside)
    round_one = np.trace(spread) / max(1, len(spread))
    shrunk = (1 - _SHRUNK) * spread + (_SHRUNK * round_one + _TINY) * np.eye(len(spread))
    values, axes = np.linalg.eigh(shrunk)
    return np.asarray(axes / np.sqrt(values))
