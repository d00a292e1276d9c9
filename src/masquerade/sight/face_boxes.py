"""Boxes: how far two are apart, how much of them is shared, where one is in between.

A box is left, top, right, bottom, in pixels; what else stands in its row is left alone.
"""

from __future__ import annotations

import numpy as np


def overlap(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Intersection over union of one box with each of ``boxes``; front axes are broadcast.

    Example:
        >>> overlap(np.array([0, 0, 2, 2]), np.array([[0, 0, 2, 2], [1, 0, 3, 2], [5, 5, 6, 6]]))
        array([1.        , 0.33333333, 0.        ])
    """
    both = _shared(box, boxes)
    whole = _areas(box) + _areas(boxes) - both
    return np.asarray(both / np.maximum(whole, np.finfo(float).tiny))


def share_inside(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """How much of one box lies in each of ``boxes``, 0 to 1; axes in front are broadcast.

    Example:
        >>> share_inside(np.array([0, 0, 2, 2]), np.array([[1, 0, 9, 9], [5, 5, 6, 6]]))
        array([0.5, 0. ])
    """
    return np.asarray(_shared(box, boxes) / np.maximum(_areas(box), np.finfo(float).tiny))


def centres(boxes: np.ndarray) -> np.ndarray:
    """The middle of each box, (N, 2)."""
    return np.asarray(boxes[:, :2] + boxes[:, 2:4]) / 2


def mean_sides(boxes: np.ndarray) -> np.ndarray:
    """Mean of width and height of each box, above zero."""
    return np.asarray(np.maximum(np.mean(boxes[:, 2:4] - boxes[:, :2], axis=1), 1e-6))


def at_least(box: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The box, grown about its centre to ``size`` (width, height) where it is smaller."""
    lack = np.maximum(size - (box[2:] - box[:2]), 0.0) / 2
    return np.concatenate([box[:2] - lack, box[2:] + lack])


def _shared(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Area of the intersection."""
    least = np.minimum(box[..., 2:4], boxes[..., 2:4])
    most = np.maximum(box[..., :2], boxes[..., :2])
    return np.asarray(np.prod(np.maximum(least - most, 0.0), axis=-1))


def _areas(boxes: np.ndarray) -> np.ndarray:
    return np.asarray(np.prod(boxes[..., 2:4] - boxes[..., :2], axis=-1))
