"""How well joints are found: PCKh, as MPII counts it.

A joint is right where it lies within a share of the head's size from the truth. The head's size is
0.6 times the diagonal of the head box, so that a head_px is given, not made, here. Every labelled
joint counts, seen or hidden; pelvis and thorax are left out of the mean [andriluka2014].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade.errors import BadInput

LEFT_OUT = ("pelvis", "thorax")
GROUPS = {
    "head": ("upper_neck", "head_top", "nose", "left_eye", "right_eye", "left_ear", "right_ear"),
    **{
        name: (f"left_{name}", f"right_{name}")
        for name in ("shoulder", "elbow", "wrist", "hip", "knee", "ankle")
    },
}


@dataclass(frozen=True, kw_only=True)
class Pckh:
    """How many joints are right, in per cent.

    Args:
        mean: over all joints that count, pelvis and thorax left out; NaN if there is none.
        groups: the mean of each group's joints, by name; of those that have any.
        counted: joints in the mean.
        photos: that have a head size and a joint that counts.
    """

    mean: float
    groups: dict[str, float]
    counted: int
    photos: int


def pckh(
    found: np.ndarray,
    truth: np.ndarray,
    head_px: np.ndarray,
    *,
    names: Sequence[str],
    share: float = 0.5,
) -> Pckh:
    """Count joints that are right.

    Args:
        found: (N, J, 2) in pixels.
        truth: (N, J, 2); missing is NaN, and does not count.
        head_px: (N,) size of each head; a photo where it is not above 0 does not count.
        names: of the joints.
        share: of the head's size within which a joint is right.

    Example:
        >>> truth = np.array([[[10.0, 10.0], [20.0, 30.0]]])
        >>> found = truth + [[[3.0, 4.0], [3.0, 5.0]]]
        >>> pckh(found, truth, np.array([10.0]), names=["left_hip", "left_knee"]).groups
        {'hip': 100.0, 'knee': 0.0}
    """
    _check.positive(share=share)
    is_right, counts = _judged(found, truth, head_px, names, share)
    is_in_mean = _in_mean(names)
    total = int(counts[:, is_in_mean].sum())
    return Pckh(
        mean=100 * float(is_right[:, is_in_mean].sum() / total) if total else float("nan"),
        groups=_groups(is_right, counts, names),
        counted=total,
        photos=int(counts[:, is_in_mean].any(axis=1).sum()),
    )


def shares_right(
    found: np.ndarray,
    truth: np.ndarray,
    head_px: np.ndarray,
    *,
    names: Sequence[str],
    share: float = 0.5,
) -> np.ndarray:
    """(N,) of each photo, as `pckh` counts; NaN where nothing counts.

    Example:
        >>> truth = np.array([[[10.0, 10.0], [20.0, 30.0]]])
        >>> found = truth + [[[3.0, 4.0], [3.0, 5.0]]]
        >>> shares_right(found, truth, np.array([10.0]), names=["left_hip", "left_knee"]).tolist()
        [0.5]
    """
    is_right, counts = _judged(found, truth, head_px, names, share)
    total = counts[:, _in_mean(names)].sum(axis=1)
    right = is_right[:, _in_mean(names)].sum(axis=1)
    return np.where(total > 0, right / np.maximum(total, 1), np.nan)


def _in_mean(names: Sequence[str]) -> np.ndarray:
    return np.array([name not in LEFT_OUT for name in names])


def _judged(
    found: np.ndarray, truth: np.ndarray, head_px: np.ndarray, names: Sequence[str], share: float
) -> tuple[np.ndarray, np.ndarray]:
    """(N, J) whether each joint is right, and whether it counts."""
    _check.shape("N J 2", found=found, truth=truth)
    if truth.shape[:2] != (len(head_px), len(names)):
        raise ValueError(
            f"Expected {len(head_px)} photos of {len(names)} joints, got {truth.shape[:2]}."
        )
    with np.errstate(invalid="ignore"):
        is_measured = np.isfinite(head_px) & (head_px > 0)
        counts = np.isfinite(truth).all(axis=2) & is_measured[:, None]  # (N, J)
        size = np.where(is_measured, head_px, 1.0)[:, None]
        is_right = counts & (np.linalg.norm(found - truth, axis=2) / size <= share)
    return is_right, counts


def _groups(is_right: np.ndarray, counts: np.ndarray, names: Sequence[str]) -> dict[str, float]:
    """The mean over a group's joints, each with its own share of photos."""
    found = {}
    for group, members in GROUPS.items():
        places = [place for place, name in enumerate(names) if name in members]
        shares = [
            is_right[:, place].sum() / counts[:, place].sum()
            for place in places
            if counts[:, place].any()
        ]
        if shares:
            found[group] = 100 * float(np.mean(shares))
    return found


def measured(result: Pckh) -> Pckh:
    """The result, if there is something in it.

    Raises:
        BadInput: if no photo could be measured.
    """
    if not result.counted:
        raise BadInput(
            "Expected photos with joints and a head size, by which PCKh is measured, got none."
        )
    return result
