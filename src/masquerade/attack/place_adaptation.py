"""What an attacker learns from their own recordings of other places, released in the same way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade import _check

_MOST_AXES = 128  # of the features' own that are kept
_SHRUNK = 0.3  # share of a round spread in the estimate of how one place varies
_TINY = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureMap:
    """A linear map that brings pictures of one place together.

    Args:
        centre: (D,) which is taken away first.
        matrix: (D, K) by which rows are multiplied.
    """

    centre: np.ndarray
    matrix: np.ndarray

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """(N, K) of unit length for (N, D)."""
        moved = (features - self.centre) @ self.matrix
        length = np.linalg.norm(moved, axis=1, keepdims=True)
        return np.asarray(moved / np.maximum(length, _TINY))


def learned(features: np.ndarray, owner: np.ndarray) -> FeatureMap:
    """Make the spread of features about the middle of their place round, along their main axes.

    What varies between pictures of one place, noise of the mechanism included, then counts
    little, and what tells places apart counts much. The spread is shrunk towards a round one,
    since there are fewer pictures than features.

    Args:
        features: (M, D) of pictures whose places are known.
        owner: (M,) the place of each, as its number.
    """
    _check.shape("M D", features=features)
    _check.shape("M", features=features[:, 0], owner=owner)
    centre = features.mean(axis=0)
    _, sizes, axes = np.linalg.svd(features - centre, full_matrices=False)
    kept = sizes > 1e-6 * max(float(sizes[0]), _TINY)
    main = axes[kept][:_MOST_AXES].T  # (D, K)
    seen = (features - centre) @ main
    _, place = np.unique(owner, return_inverse=True)
    middles = np.stack([seen[place == each].mean(axis=0) for each in range(place.max() + 1)])
    inside = seen - middles[place]
    spread = inside.T @ inside / len(inside)
    even = np.trace(spread) / max(1, len(spread))
    values, turned = np.linalg.eigh((1 - _SHRUNK) * spread + _SHRUNK * even * np.eye(len(spread)))
    return FeatureMap(centre=centre, matrix=main @ (turned / np.sqrt(np.maximum(values, _TINY))))
