"""Who watches the masks: a person or a face that q does not cover is blurred, and counted.

Every few frames two detectors look at the whole frame, whatever was posed: MediaPipe's for people,
CenterFace for faces. Somebody whom they find and whom the mask does not cover was missed: what the
segmenter takes for them, or the face, is blurred beyond recognition, in that frame and in those
around it that nobody looked at. Detectors see somebody now and not then: as long as a place looks
as it did when somebody was found for sure there, they are there.

People of whom the left or the right border leaves a strip, which no detector takes for anybody.

The segmenter is shown the border with a mirror behind it, as large as half the frame and as all of
it. What it is sure of both times, touches the border, and is as slim and as tall as a person who is
not far away, is somebody. Walls, curtains and trees are wider, or lower.

What a mask misses of the people and faces that detectors found in a frame.

Of half a body at the border there is little to see, and what there is suffices: a doubtful find is
somebody if the segmenter thinks so, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from masquerade._optional import lazy_module
from masquerade.avatars.segment import grow_mask, select_touching
from masquerade.io.streams import MaskSpool, Spool
from masquerade.vision.face_detector import FaceDetector
from masquerade.vision.person_detector import PersonSegmenter

cv2 = lazy_module("cv2", extra="vision")


_SIZES = 0.4, 0.24  # radii of what is looked at, of the frame's height,
_PLACES = 0.35, 0.55, 0.75  # and where: down from its upper edge
_SURE_BORDERS = 0.7  # how likely a pixel must be a person's, both times
_TALL, _SLIM = 0.5, 3.5  # of the frame's height at least, and times as tall as wide
_STRIP_PX = 3  # that must be touched


def find_border_people(frame: np.ndarray, segmenter: PersonSegmenter) -> tuple[np.ndarray, ...]:
    """(H, W) bool each: people at the left and at the right border of a frame (H, W, 3) uint8."""
    height, width = frame.shape[:2]
    found = []
    for side, strip in ((0, np.s_[:, :_STRIP_PX]), (width, np.s_[:, -_STRIP_PX:])):
        border = np.zeros((height, width), bool)
        border[strip] = True
        sure = np.logical_and.reduce(
            [_segment_crop(frame, segmenter, side, size * height) for size in _SIZES]
        )
        body = select_touching(sure, border & sure)
        found += [body] if _is_somebody(body) else []
    return tuple(found)


def _segment_crop(
    frame: np.ndarray, segmenter: PersonSegmenter, side: int, radius: float
) -> np.ndarray:
    places = [[side, place * len(frame), radius] for place in _PLACES]
    return np.asarray(segmenter.search_near(frame, np.array(places)) > _SURE_BORDERS)


def _is_somebody(body: np.ndarray) -> bool:
    _, _, wide, tall = cv2.boundingRect(body.view(np.uint8))
    return bool(tall >= _TALL * len(body) and tall >= _SLIM * wide > 0)


_MIN_UNCOVERED_SHARE = 0.1  # of a found person's inner circle that must be, outside of the mask
_INNER, _AROUND = 0.4, 1.25  # of the radius: that circle, and how far a body may reach
_MISSED_GROWTH = 0.08  # of the radius: by which a body that was missed grows
_SCORE = 0.5  # of somebody of whom more than half is in the picture
_AT_EDGE = 0.3  # of the radius: hips so near to the left or the right edge may be of half a body;
_MIN_INNER_SHARE = 0.6  # of its inner circle so much is theirs, and of the whole one
_MAX_FILLED_SHARE = 0.4  # no more than this: that is a wall, or a floor;
_MAX_RADIUS_SHARE = 0.7  # of the frame's shorter side: its radius at most
_MAX_OUTSIDE_SHARE = 0.2  # and of it no more may lie outside of the mask
_SURE_MISSED = 0.8  # score of somebody who is still there when they are found no more,
_MAX_FRAME_SHARE = (
    0.25  # and of whoever is more than this of the frame: floors look like people, too
)
_ABOUT = 0.15  # of the radius: hips so near to the mask are covered
_FACE = 0.5  # of a face's box that the mask must cover
_MARGIN = 0.3  # of its sides, all around: what is blurred of a face


@dataclass(frozen=True, kw_only=True, eq=False)
class DetectedPeople:
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
    def sure_people(self) -> DetectedPeople:
        """Whoever was found for sure, or is half out of the picture."""
        kept = [
            (one, body)
            for one, body in zip(self.people, self.bodies, strict=True)
            if one[3] >= _SURE_MISSED or is_at_edge(one, body.shape[1])
        ]
        return DetectedPeople(
            people=np.array([one for one, _ in kept]).reshape(-1, 4),
            bodies=[body for _, body in kept],
            halves=self.halves,
            faces=self.faces[self.faces[:, 4] >= _SURE_MISSED],
        )


def select_body(person: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """(H, W) bool: of what the segmenter takes for people, the one who was found.

    Args:
        person: (3,) or more: x, y of the hips, and radius.
        seen: (H, W) bool, what the segmenter takes for people around there.
    """
    x, y, radius = person[:3]
    about = make_disc(seen.shape, x, y, _AROUND * radius)
    return select_touching(seen & about, make_disc(seen.shape, x, y, _INNER * radius))


def find_missed(found: DetectedPeople, q: np.ndarray) -> np.ndarray:
    """(H, W) bool: people and faces that a mask (H, W) bool does not cover."""
    missed = np.zeros_like(q)
    for person, body in zip(found.people, found.bodies, strict=True):
        if _is_missed(person, body, q):
            missed |= grow_mask(body, max(1, round(_MISSED_GROWTH * person[2])))
    for half in found.halves:
        if (half & ~q).sum() > _MAX_OUTSIDE_SHARE * half.sum():
            missed |= grow_mask(
                half, max(1, round(_MISSED_GROWTH * np.ptp(np.nonzero(half)[0]) / 2))
            )
    for left, top, right, bottom, _ in found.faces:
        box = np.zeros_like(q)
        box[_clip_span(top, bottom, 0, len(q)), _clip_span(left, right, 0, q.shape[1])] = True
        if box.any() and (box & q).sum() < _FACE * box.sum():
            rows = _clip_span(top, bottom, _MARGIN * (bottom - top), len(q))
            columns = _clip_span(left, right, _MARGIN * (right - left), q.shape[1])
            missed[rows, columns] = True
    return np.asarray(missed & ~q)


def _is_missed(person: np.ndarray, body: np.ndarray, q: np.ndarray) -> bool:
    """Whether a mask (H, W) does not cover somebody who was found."""
    x, y, radius, score = person[:4]
    inner, left = make_disc(q.shape, x, y, _INNER * radius), body & ~q
    num_inner = max(1, inner.sum())
    if is_at_edge(person, q.shape[1]) and radius < _MAX_RADIUS_SHARE * min(q.shape):
        is_body = (body & inner).sum() > _MIN_INNER_SHARE * num_inner
        is_body &= body.sum() < _MAX_FILLED_SHARE * np.pi * radius**2
        if is_body and left.sum() > _MAX_OUTSIDE_SHARE * body.sum():
            return True
    is_other = score >= _SCORE and (left & inner).sum() > _MIN_UNCOVERED_SHARE * num_inner
    is_other &= score >= _SURE_MISSED or body.mean() < _MAX_FRAME_SHARE
    return bool(is_other and not _is_covered(x, y, radius, q))


def is_at_edge(person: np.ndarray, columns: int) -> bool:
    """Whether the hips of somebody lie about at the left or the right edge of the frame."""
    x, _, radius = person[:3]
    return bool(min(x, columns - x) < _AT_EDGE * radius)


def _is_covered(x: float, y: float, radius: float, q: np.ndarray) -> bool:
    about = max(1.0, _ABOUT * radius)
    near = q[
        _clip_span(y - about, y + about, 0, len(q)), _clip_span(x - about, x + about, 0, q.shape[1])
    ]
    return bool(near.any())


def make_disc(shape: tuple[int, ...], x: float, y: float, radius: float) -> np.ndarray:
    """(H, W) bool: what lies within a circle."""
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    return np.asarray((rows - y) ** 2 + (columns - x) ** 2 <= radius**2)


def _clip_span(low: float, high: float, margin: float, end: int) -> slice:
    """Pixels from ``low`` to ``high`` and a margin around, inside the frame."""
    return slice(
        int(np.clip(np.floor(low - margin), 0, end)), int(np.clip(np.ceil(high + margin), 0, end))
    )


_MIN_PERSON_LIKELIHOOD = 0.5  # how likely a pixel must be a person's, who was found but not posed
_WELL_IN = 1.15  # beyond which a body may be cut off, and is looked at in
_WIDER = 1.0, 1.5, 2.2  # times that circle,
_MAX_SWELLING = 1.5  # unless it becomes so many times as large
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


class MissedPeopleWatch:
    """Looks at every so many frames, and then says what was missed in which.

    Args:
        segmenter: that finds people, and which pixels are theirs.
        faces: that finds faces.
        every: of so many frames one is looked at.
        size: height and width of a frame.
    """

    def __init__(
        self, segmenter: PersonSegmenter, faces: FaceDetector, *, every: int, size: tuple[int, int]
    ) -> None:
        self._segmenter, self._faces, self._every = segmenter, faces, every
        self._found: list[_Glance] = []
        self._bodies = MaskSpool(*size)  # of all who were found
        self._missed = MaskSpool(*size)  # and, in the end, what of it the mask misses,
        self._stays = MaskSpool(*size)  # and what of that is a person's for sure
        self._is_missed: list[bool] = []
        self._small, self._remembered = _compute_small_size(size), Spool()

    def look_at_frame(
        self, number: int, frame: np.ndarray, people: np.ndarray | None = None
    ) -> None:
        """At the next frame, if it is one of those.

        Args:
            number: of the frame.
            frame: (H, W, 3) uint8.
            people: whom the detector found in it, if it has been searched already.
        """
        if number % self._every:
            return
        people = self._segmenter.find_people(frame) if people is None else people
        bodies = self._spool_masks(self._segment_body(frame, one) for one in people)
        halves = self._spool_masks(find_border_people(frame, self._segmenter))
        small = cv2.resize(frame, self._small, interpolation=cv2.INTER_AREA)
        self._remembered.add_piece(small.tobytes())
        self._found.append(_Glance(number, people, bodies, halves, self._faces(frame)))

    def _spool_masks(self, masks: Iterable[np.ndarray]) -> range:
        """Where some masks are held from now on."""
        first = len(self._bodies)
        for mask in masks:
            self._bodies.add_mask(mask)
        return range(first, len(self._bodies))

    def _segment_body(self, frame: np.ndarray, person: np.ndarray) -> np.ndarray:
        """(H, W) bool: what the segmenter takes for somebody, who may be larger than thought.

        What grows by much when more is looked at is a wall or a floor, but for half a body.
        """
        x, y, radius = person[:3]
        is_half, body = is_at_edge(person, frame.shape[1]), np.zeros(frame.shape[:2], bool)
        for times in _WIDER:
            circle = np.array([x, y, times * radius])
            wider = select_body(
                circle, self._segmenter.search_near(frame, circle[None]) > _MIN_PERSON_LIKELIHOOD
            )
            if body.any() and not is_half and wider.sum() > _MAX_SWELLING * body.sum():
                break
            body = wider
            if not (body & ~make_disc(body.shape, x, y, _WELL_IN * times * radius)).any():
                break
        return body

    @property
    def frame_numbers(self) -> list[int]:
        """The frames that were looked at."""
        return [found.number for found in self._found]

    def compare_masks(self, masks: Iterable[np.ndarray]) -> None:
        """With the mask of each frame that was looked at, in order."""
        for look, q in zip(self._found, masks, strict=True):
            self._compare_glance(look, q)
        times = range(len(self._found))
        for pair in (*pairwise(times), *pairwise(reversed(times))):
            self._carry_missed(*pair)

    def _compare_glance(self, look: _Glance, q: np.ndarray) -> None:
        found = DetectedPeople(
            people=look.people,
            bodies=[self._bodies[at] for at in look.bodies],
            halves=[self._bodies[at] for at in look.halves],
            faces=look.faces,
        )
        missed = find_missed(found, q)
        self._missed.add_mask(missed)
        self._stays.add_mask(find_missed(found.sure_people, q))
        self._is_missed.append(bool(missed.any()))

    def _carry_missed(self, at: int, to: int) -> None:
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
                    masks.replace_mask(to, masks[to] | thing)
                self._is_missed[to] = True

    @property
    def count_missed(self) -> int:
        """Looks that found somebody whom the mask does not cover."""
        return sum(self._is_missed)

    def find_missed_mask(self, number: int) -> np.ndarray | None:
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


def blur_region(frame: np.ndarray, where: np.ndarray) -> np.ndarray:
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


def _compute_small_size(size: tuple[int, int]) -> tuple[int, int]:
    """Width and height of a frame that is remembered, for one of that height and width."""
    times = min(1.0, _SMALL / max(size))
    return max(1, round(times * size[1])), max(1, round(times * size[0]))
