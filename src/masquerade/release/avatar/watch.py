"""Who watches the masks: a person or a face that q does not cover is blurred, and counted.

Every few frames two detectors look at the whole frame, whatever was posed: MediaPipe's for people,
CenterFace for faces. Somebody whom they find and whom the mask does not cover was missed: what the
segmenter takes for them, or the face, is blurred beyond recognition, in that frame and in those
around it that nobody looked at. Detectors see somebody now and not then: as long as a place looks
as it did when somebody was found for sure there, they are there.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from masquerade._optional import Later
from masquerade.files.spool import MaskSpool, Spool
from masquerade.release.avatar.borders import at_borders
from masquerade.release.avatar.missed import Detected, body_of, disc, is_at_edge, missed_of
from masquerade.sight.face_detector import Detector
from masquerade.sight.person_segmenter import PersonSegmenter

cv2 = Later("cv2", extra="vision")

_SEEN = 0.5  # how likely a pixel must be a person's, who was found but not posed
_WELL_IN = 1.15  # beyond which a body may be cut off, and is looked at in
_WIDER = 1.0, 1.5, 2.2  # times that circle,
_SWELLS = 1.5  # unless it becomes so many times as large
_TILES = 5  # of the longer side of what is blurred, that can be told apart
_SMALL = 192  # pixels of the longer side of a frame that is remembered
_STILL = 5.0  # shades by which it may differ, in the mean, where nobody moved


class _Glance(NamedTuple):
    """At one frame: its number, people, where their bodies and halves are spooled, and faces."""

    number: int
    people: np.ndarray
    bodies: range
    halves: range
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
        self._found: list[_Glance] = []
        self._bodies = MaskSpool(*size)  # of all who were found
        self._missed = MaskSpool(*size)  # and, in the end, what of it the mask misses,
        self._stays = MaskSpool(*size)  # and what of that is a person's for sure
        self._is_missed: list[bool] = []
        self._small, self._remembered = _smaller(size), Spool()

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
        bodies = self._spooled(self._body(frame, one) for one in people)
        halves = self._spooled(at_borders(frame, self._segmenter))
        small = cv2.resize(frame, self._small, interpolation=cv2.INTER_AREA)
        self._remembered.add(small.tobytes())
        self._found.append(_Glance(number, people, bodies, halves, self._faces(frame)))

    def _spooled(self, masks: Iterable[np.ndarray]) -> range:
        """Where some masks are held from now on."""
        first = len(self._bodies)
        for mask in masks:
            self._bodies.add(mask)
        return range(first, len(self._bodies))

    def _body(self, frame: np.ndarray, person: np.ndarray) -> np.ndarray:
        """(H, W) bool: what the segmenter takes for somebody, who may be larger than thought.

        What grows by much when more is looked at is a wall or a floor, but for half a body.
        """
        x, y, radius = person[:3]
        is_half, body = is_at_edge(person, frame.shape[1]), np.zeros(frame.shape[:2], bool)
        for times in _WIDER:
            circle = np.array([x, y, times * radius])
            wider = body_of(circle, self._segmenter.near(frame, circle[None]) > _SEEN)
            if body.any() and not is_half and wider.sum() > _SWELLS * body.sum():
                break
            body = wider
            if not (body & ~disc(body.shape, x, y, _WELL_IN * times * radius)).any():
                break
        return body

    @property
    def numbers(self) -> list[int]:
        """The frames that were looked at."""
        return [found.number for found in self._found]

    def compare(self, masks: Iterable[np.ndarray]) -> None:
        """With the mask of each frame that was looked at, in order."""
        for look, q in zip(self._found, masks, strict=True):
            self._compare(look, q)
        times = range(len(self._found))
        for pair in (*pairwise(times), *pairwise(reversed(times))):
            self._carry(*pair)

    def _compare(self, look: _Glance, q: np.ndarray) -> None:
        found = Detected(
            people=look.people,
            bodies=[self._bodies[at] for at in look.bodies],
            halves=[self._bodies[at] for at in look.halves],
            faces=look.faces,
        )
        missed = missed_of(found, q)
        self._missed.add(missed)
        self._stays.add(missed_of(found.sure, q))
        self._is_missed.append(bool(missed.any()))

    def _carry(self, at: int, to: int) -> None:
        """Whoever was missed for sure at one look is there at the next, where it looks the same."""
        missed = self._stays[at]
        if not missed.any():
            return
        one, other = (np.frombuffer(self._remembered[each], np.uint8) for each in (at, to))
        apart = cv2.absdiff(one, other).reshape(*self._small[::-1], 3).mean(axis=2)
        count, things = cv2.connectedComponents(missed.astype(np.uint8))
        for number in range(1, count):
            thing = things == number
            where = cv2.resize(thing.astype(np.float32), self._small, interpolation=cv2.INTER_AREA)
            if where.any() and np.average(apart, weights=where) < _STILL:
                for masks in (self._missed, self._stays):
                    masks.put(to, masks[to] | thing)
                self._is_missed[to] = True

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
        self._stays.close()
        self._remembered.close()


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


def _smaller(size: tuple[int, int]) -> tuple[int, int]:
    """Width and height of a frame that is remembered, for one of that height and width."""
    times = min(1.0, _SMALL / max(size))
    return max(1, round(times * size[1])), max(1, round(times * size[0]))
