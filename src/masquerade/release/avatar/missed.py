"""What a mask misses of the people and faces that detectors found in a frame.

Of half a body at the border there is little to see, and what there is suffices: a doubtful find is
somebody if the segmenter thinks so, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.release.avatar.outline import grown, together

_LEAST = 0.1  # of a found person's inner circle that must be, outside of the mask
_INNER, _AROUND = 0.4, 1.25  # of the radius: that circle, and how far a body may reach
_GROWN = 0.08  # of the radius: by which a body that was missed grows
_SCORE = 0.5  # of somebody of whom more than half is in the picture
_AT_EDGE = 0.3  # of the radius: hips so near to the left or the right edge may be of half a body;
_HALF = 0.6  # of its inner circle so much is theirs, and of the whole one
_FILLS = 0.4  # no more than this: that is a wall, or a floor;
_LARGEST = 0.7  # of the frame's shorter side: its radius at most
_PART = 0.2  # and of it no more may lie outside of the mask
_SURE = 0.8  # score of somebody who is still there when they are found no more,
_HUGE = 0.25  # and of whoever is more than this of the frame: floors look like people, too
_ABOUT = 0.15  # of the radius: hips so near to the mask are covered
_FACE = 0.5  # of a face's box that the mask must cover
_MARGIN = 0.3  # of its sides, all around: what is blurred of a face


@dataclass(frozen=True, kw_only=True, eq=False)
class Detected:
    """What the detectors found in one frame.

    Args:
        people: (N, 4) x, y of the hips, radius and score.
        bodies: N times (H, W) bool, what the segmenter takes for each of them.
        halves: (H, W) bool each, people of whom the border leaves a strip.
        faces: (M, 5) left, top, right, bottom and score.
    """

    people: np.ndarray
    bodies: Sequence[np.ndarray]
    halves: Sequence[np.ndarray]
    faces: np.ndarray

    @property
    def sure(self) -> Detected:
        """Whoever was found for sure, or is half out of the picture."""
        kept = [
            (one, body)
            for one, body in zip(self.people, self.bodies, strict=True)
            if one[3] >= _SURE or is_at_edge(one, body.shape[1])
        ]
        return Detected(
            people=np.array([one for one, _ in kept]).reshape(-1, 4),
            bodies=[body for _, body in kept],
            halves=self.halves,
            faces=self.faces[self.faces[:, 4] >= _SURE],
        )


def body_of(person: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """(H, W) bool: of what the segmenter takes for people, the one who was found.

    Args:
        person: (3,) or more: x, y of the hips, and radius.
        seen: (H, W) bool, what the segmenter takes for people around there.
    """
    x, y, radius = person[:3]
    about = disc(seen.shape, x, y, _AROUND * radius)
    return together(seen & about, disc(seen.shape, x, y, _INNER * radius))


def missed_of(found: Detected, q: np.ndarray) -> np.ndarray:
    """(H, W) bool: people and faces that a mask (H, W) bool does not cover."""
    missed = np.zeros_like(q)
    for person, body in zip(found.people, found.bodies, strict=True):
        if _is_missed(person, body, q):
            missed |= grown(body, max(1, round(_GROWN * person[2])))
    for half in found.halves:
        if (half & ~q).sum() > _PART * half.sum():
            missed |= grown(half, max(1, round(_GROWN * np.ptp(np.nonzero(half)[0]) / 2)))
    for left, top, right, bottom, _ in found.faces:
        box = np.zeros_like(q)
        box[_span(top, bottom, 0, len(q)), _span(left, right, 0, q.shape[1])] = True
        if box.any() and (box & q).sum() < _FACE * box.sum():
            rows = _span(top, bottom, _MARGIN * (bottom - top), len(q))
            columns = _span(left, right, _MARGIN * (right - left), q.shape[1])
            missed[rows, columns] = True
    return np.asarray(missed & ~q)


def _is_missed(person: np.ndarray, body: np.ndarray, q: np.ndarray) -> bool:
    """Whether a mask (H, W) does not cover somebody who was found."""
    x, y, radius, score = person[:4]
    inner, left = disc(q.shape, x, y, _INNER * radius), body & ~q
    num_inner = max(1, inner.sum())
    if is_at_edge(person, q.shape[1]) and radius < _LARGEST * min(q.shape):
        is_body = (body & inner).sum() > _HALF * num_inner
        is_body &= body.sum() < _FILLS * np.pi * radius**2
        if is_body and left.sum() > _PART * body.sum():
            return True
    is_other = score >= _SCORE and (left & inner).sum() > _LEAST * num_inner
    is_other &= score >= _SURE or body.mean() < _HUGE
    return bool(is_other and not _is_covered(x, y, radius, q))


def is_at_edge(person: np.ndarray, columns: int) -> bool:
    """Whether the hips of somebody lie about at the left or the right edge of the frame."""
    x, _, radius = person[:3]
    return bool(min(x, columns - x) < _AT_EDGE * radius)


def _is_covered(x: float, y: float, radius: float, q: np.ndarray) -> bool:
    about = max(1.0, _ABOUT * radius)
    near = q[_span(y - about, y + about, 0, len(q)), _span(x - about, x + about, 0, q.shape[1])]
    return bool(near.any())


def disc(shape: tuple[int, ...], x: float, y: float, radius: float) -> np.ndarray:
    """(H, W) bool: what lies within a circle."""
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    return np.asarray((rows - y) ** 2 + (columns - x) ** 2 <= radius**2)


def _span(low: float, high: float, margin: float, end: int) -> slice:
    """Pixels from ``low`` to ``high`` and a margin around, inside the frame."""
    return slice(
        int(np.clip(np.floor(low - margin), 0, end)), int(np.clip(np.ceil(high + margin), 0, end))
    )
