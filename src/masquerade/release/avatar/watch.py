"""Who watches the masks: a person or a face that q does not cover is blurred, and counted.

Every few frames two detectors look at the whole frame, whatever was posed: MediaPipe's for people,
CenterFace for faces. Somebody whom they find and whom the mask does not cover was missed: what the
segmenter takes for them, or the face, is blurred beyond recognition, in that frame and in those
around it that nobody looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from masquerade._optional import require
from masquerade.files.spool import MaskSpool
from masquerade.release.avatar.segment import grown, together
from masquerade.sight.face_detector import Detector
from masquerade.sight.person_segmenter import PersonSegmenter

cv2 = require("cv2", extra="vision")

_SEEN = 0.5  # how likely a pixel must be a person's, who was found but not posed
_LEAST = 0.1  # of a found person's inner circle that must be, outside of the mask
_INNER, _AROUND = 0.4, 1.25  # of the radius: that circle, and how far a body may reach
_ABOUT = 0.15  # of the radius: hips so near to the mask are covered
_FACE = 0.5  # of a face's box that the mask must cover
_MARGIN = 0.3  # of its sides, all around: what is blurred of a face
_TILES = 5  # of the longer side of what is blurred, that can be told apart


@dataclass(frozen=True, kw_only=True, eq=False)
class Detected:
    """What the detectors found in one frame.

    Args:
        number: of the frame.
        people: (N, 4) x, y of the hips, radius and score.
        bodies: N times (H, W) bool, what the segmenter takes for each of them.
        faces: (M, 5) left, top, right, bottom and score.
    """

    number: int
    people: np.ndarray
    bodies: Sequence[np.ndarray]
    faces: np.ndarray


class _Look(NamedTuple):
    """At one frame: its number, people, the place of their bodies in the spool, and faces."""

    number: int
    people: np.ndarray
    first: int
    faces: np.ndarray


class Watchman:
    """Looks at every so many frames, and then says what was missed in which.

    Args:
        segmenter: that finds people, and which pixels are theirs.
        faces: that finds faces.
        every: of so many frames one is looked at.
        size: height and width of a frame.
    """

    def __init__(
        self, segmenter: PersonSegmenter, faces: Detector, *, every: int, size: tuple[int, int]
    ) -> None:
        self._segmenter, self._faces, self._every = segmenter, faces, every
        self._found: list[_Look] = []
        self._bodies = MaskSpool(*size)  # of all who were found
        self._missed = MaskSpool(*size)  # and, in the end, what of it the mask misses
        self._is_missed: list[bool] = []

    def look(self, number: int, frame: np.ndarray, people: np.ndarray | None = None) -> None:
        """At the next frame, if it is one of those.

        Args:
            number: of the frame.
            frame: (H, W, 3) uint8.
            people: whom the detector found in it, if it has been searched already.
        """
        if number % self._every:
            return
        people = self._segmenter.found(frame) if people is None else people
        first = len(self._bodies)
        for one in people:
            self._bodies.add(body_of(one, self._segmenter.near(frame, one[None]) > _SEEN))
        self._found.append(_Look(number, people, first, self._faces(frame)))

    @property
    def numbers(self) -> list[int]:
        """The frames that were looked at."""
        return [found.number for found in self._found]

    def compare(self, at: int, q: np.ndarray) -> None:
        """With the mask of the ``at``-th frame that was looked at; all must be, in order."""
        look = self._found[at]
        bodies = [self._bodies[look.first + which] for which in range(len(look.people))]
        found = Detected(number=look.number, people=look.people, bodies=bodies, faces=look.faces)
        missed = missed_of(found, q)
        self._missed.add(missed)
        self._is_missed.append(bool(missed.any()))

    @property
    def num_missed(self) -> int:
        """Looks that found somebody whom the mask does not cover."""
        return sum(self._is_missed)

    def missed(self, number: int) -> np.ndarray | None:
        """(H, W) bool: what is to be blurred in a frame, by the looks around it; or None."""
        at = number // self._every
        around = {at, min(at + (number % self._every > 0), len(self._is_missed) - 1)}
        found = [self._missed[each] for each in around if self._is_missed[each]]
        return np.logical_or.reduce(found) if found else None

    def close(self) -> None:
        """Forget all of it."""
        self._bodies.close()
        self._missed.close()


def body_of(person: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """(H, W) bool: of what the segmenter takes for people, the one who was found.

    Args:
        person: (3,) or more: x, y of the hips, and radius.
        seen: (H, W) bool, what the segmenter takes for people around there.
    """
    x, y, radius = person[:3]
    about = _disc(seen.shape, x, y, _AROUND * radius)
    return together(seen & about, _disc(seen.shape, x, y, _INNER * radius))


def missed_of(found: Detected, q: np.ndarray) -> np.ndarray:
    """(H, W) bool: people and faces that a mask (H, W) bool does not cover."""
    missed = np.zeros_like(q)
    for (x, y, radius, _), body in zip(found.people, found.bodies, strict=True):
        inner = _disc(q.shape, x, y, _INNER * radius)
        left = (body & inner & ~q).sum()
        if left > _LEAST * max(1, inner.sum()) and not _is_covered(x, y, radius, q):
            missed |= grown(body, max(1, round(0.05 * radius)))
    for left, top, right, bottom, _ in found.faces:
        box = np.zeros_like(q)
        box[_span(top, bottom, 0, len(q)), _span(left, right, 0, q.shape[1])] = True
        if box.any() and (box & q).sum() < _FACE * box.sum():
            rows = _span(top, bottom, _MARGIN * (bottom - top), len(q))
            columns = _span(left, right, _MARGIN * (right - left), q.shape[1])
            missed[rows, columns] = True
    return np.asarray(missed & ~q)


def blurred(frame: np.ndarray, where: np.ndarray) -> np.ndarray:
    """The frame, of which nothing but a few colours is left ``where`` (H, W) bool."""
    out = frame.copy()
    count, _, boxes, _ = cv2.connectedComponentsWithStats(where.astype(np.uint8))
    for number in range(1, count):
        left, top, wide, tall = boxes[number, :4]
        part = np.s_[top : top + tall, left : left + wide]
        tile = max(tall, wide) / _TILES
        size = (max(1, round(wide / tile)), max(1, round(tall / tile)))
        few = cv2.resize(frame[part], size, interpolation=cv2.INTER_AREA)
        soft = cv2.resize(few, (int(wide), int(tall)), interpolation=cv2.INTER_LINEAR)
        out[part] = np.where(where[part][..., None], soft, out[part])
    return out


def _is_covered(x: float, y: float, radius: float, q: np.ndarray) -> bool:
    about = max(1.0, _ABOUT * radius)
    near = q[_span(y - about, y + about, 0, len(q)), _span(x - about, x + about, 0, q.shape[1])]
    return bool(near.any())


def _disc(shape: tuple[int, ...], x: float, y: float, radius: float) -> np.ndarray:
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    return np.asarray((rows - y) ** 2 + (columns - x) ** 2 <= radius**2)


def _span(low: float, high: float, margin: float, end: int) -> slice:
    """Pixels from ``low`` to ``high`` and a margin around, inside the frame."""
    return slice(
        int(np.clip(np.floor(low - margin), 0, end)), int(np.clip(np.ceil(high + margin), 0, end))
    )
