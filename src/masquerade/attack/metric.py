"""A way of comparing features that is learned from people or places that one knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade import _check

_MOST_AXES = 128  # of the features' own that are kept
_TINY = 1e-9


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

    def learned(self, rows: np.ndarray, whose: np.ndarray) -> Metric:
        """What is learned from rows (N, D) and the number of each one's owner (N,)."""
        _check.shape("N D", rows=rows)
        _check.shape("N", rows=rows[:, 0], whose=whose)
        centre = rows.mean(axis=0)
        unit = _unit(rows.std(axis=0)) if self.is_scaled else np.ones(rows.shape[1])
        axes = unit[:, None] * _main_axes((rows - centre) * unit)  # (D, K)
        seen = (rows - centre) @ axes
        _, owner = np.unique(whose, return_inverse=True)
        middles = np.stack([seen[owner == each].mean(axis=0) for each in range(owner.max() + 1)])
        if self.is_between and len(rows) == len(middles):
            return Metric(centre=centre, matrix=axes)
        white = _whitening(seen - middles[owner], self.shrunk)
        kept = _main_axes(middles @ white) if self.is_between else np.eye(white.shape[1])
        return Metric(centre=centre, matrix=axes @ white @ kept)


def _unit(spread: np.ndarray) -> np.ndarray:
    """What brings each feature to unit spread; 0 for one that never changes."""
    return np.asarray(np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > _TINY))


def _main_axes(rows: np.ndarray) -> np.ndarray:
    """(D, K): orthonormal axes along which rows spread, those that spread most first."""
    _, sizes, axes = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    kept = sizes > _TINY * max(float(sizes.max(initial=0.0)), _TINY)
    return np.asarray(axes[kept][:_MOST_AXES].T)


def _whitening(inside: np.ndarray, shrunk: float) -> np.ndarray:
    """(K, K): makes the shrunk spread of rows about their owners' middles round."""
    spread = inside.T @ inside / len(inside)
    round_one = np.trace(spread) / max(1, len(spread))
    mixed = (1 - shrunk) * spread + (shrunk * round_one + _TINY) * np.eye(len(spread))
    values, axes = np.linalg.eigh(mixed)
    return np.asarray(axes / np.sqrt(values))
