"""How well yes-or-no labels are told: cMAP and class-wise F1, as papers on visual privacy do.

A label that all or none of the records have is left out: there is nothing to tell. Records of the
same score come in together, so that no order among them is made up.
"""

from __future__ import annotations

import numpy as np


def average_precisions(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    """(L,) the area below precision over recall of each label, as steps; NaN where it has none.

    Args:
        scores: (N, L), larger where a label is likelier.
        right: (N, L) whether it holds.

    Example:
        >>> average_precisions(np.array([[0.9], [0.8], [0.1]]), np.array([[1], [0], [1]]))
        array([0.83333333])
    """
    order = np.argsort(-scores, axis=0, kind="stable")
    ranked = np.take_along_axis(scores, order, axis=0)
    hits = np.take_along_axis(np.asarray(right, float), order, axis=0)
    precision = np.cumsum(hits, axis=0) / np.arange(1, len(hits) + 1)[:, None]
    is_last = np.vstack([ranked[:-1] != ranked[1:], np.ones((1, scores.shape[1]), bool)])
    places = np.where(is_last, np.arange(len(hits))[:, None], len(hits))
    ends = np.minimum.accumulate(places[::-1], axis=0)[::-1]  # where records of this score end
    total = hits.sum(axis=0)
    found = (hits * np.take_along_axis(precision, ends, axis=0)).sum(axis=0)
    return np.where(_is_asked(right), found / np.maximum(total, 1), np.nan)


def class_mean_average_precision(scores: np.ndarray, right: np.ndarray) -> float:
    """cMAP: the mean over labels of `average_precisions`; NaN where no label can be told."""
    return _mean(average_precisions(scores, right))


def class_f1(said: np.ndarray, right: np.ndarray) -> float:
    """The mean over labels of F1; a label that is never said and does hold counts as 0.

    Args:
        said: (N, L) whether a label is said to hold.
        right: (N, L) whether it does.

    Example:
        >>> class_f1(np.array([[1], [1], [0]]), np.array([[1], [0], [1]]))
        0.5
    """
    said, right = np.asarray(said, bool), np.asarray(right, bool)
    both = (said & right).sum(axis=0)
    either = said.sum(axis=0) + right.sum(axis=0)
    return _mean(np.where(_is_asked(right), 2 * both / np.maximum(either, 1), np.nan))


def prevalence(right: np.ndarray) -> float:
    """The mean share of records that have a label: what guessing gets as cMAP."""
    return _mean(np.where(_is_asked(right), np.mean(right, axis=0), np.nan))


def _is_asked(right: np.ndarray) -> np.ndarray:
    total = np.asarray(right, float).sum(axis=0)
    return np.asarray((total > 0) & (total < len(right)))


def _mean(each: np.ndarray) -> float:
    known = each[np.isfinite(each)]
    return float(known.mean()) if len(known) else float("nan")
