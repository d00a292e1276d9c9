"""How the camera moves: where each frame lies on the plate of its shot.

A plate is a picture of the place as one frame, its first, sees it. Points of that frame, outside of
people, are sought in every later one, and give one homography for the whole picture. Each frame is
compared with the plate's own first, so that errors do not add up. A camera that turns too far away,
or a cut, begins another plate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade._optional import Later

cv2 = Later("cv2", extra="vision")

_LINES = 360  # of the small picture in which points are sought
_POINTS, _APART, _QUALITY = 400, 7, 0.01
_LEAST = 16  # points that a homography is trusted with
_MISS_PX = 1.5  # how far a point may lie off, in the small picture
_MOST_LOST = 0.35  # of the points that must agree for the frame to be of this shot
_STILL_PX = 0.2  # in the small picture: a camera that moves less stands
_FARTHEST = 0.22  # of the picture's sides: beyond it another plate begins
_ZOOM = 1.25
_OTHER = 30.0  # shades in the mean by which a picture without points is another shot


@dataclass(frozen=True, kw_only=True, eq=False)
class Placed:
    """Where a frame lies.

    Args:
        plate: the number of its plate.
        to_plate: (3, 3) leads from pixels of the frame to pixels of the plate's first frame.
        begins: whether it is the first of its plate.
        link: (3, 3) leads from pixels of a new plate to those of the one before; None after a cut.
    """

    plate: int
    to_plate: np.ndarray
    begins: bool = False
    link: np.ndarray | None = None

    @property
    def is_still(self) -> bool:
        """Whether it lies exactly on the plate."""
        return bool(np.array_equal(self.to_plate, np.eye(3)))


class Aligner:
    """Places frames, one after the other."""

    def __init__(self) -> None:
        self._plate, self._key, self._points = -1, np.zeros((0, 0), np.uint8), np.zeros((0, 2))
        self._last = np.eye(3)  # from the small first picture of the plate to the last small one

    def place(self, frame: np.ndarray, people: np.ndarray) -> Placed:
        """Where the next frame (H, W, 3) lies, judged by what is not in ``people`` (H, W)."""
        grey, free = _small(frame, people)
        if self._plate < 0:
            return self._begin(grey, free, link=None)
        found = self._sought(grey, free)
        if found is None:
            return self._begin(grey, free, link=None)
        self._last = found
        scale = np.diag([frame.shape[1] / grey.shape[1], frame.shape[0] / grey.shape[0], 1.0])
        to_plate = _unit(scale @ np.linalg.inv(found) @ np.linalg.inv(scale))
        if _is_far(found, grey.shape):
            return self._begin(grey, free, link=to_plate)
        is_still = np.array_equal(found, np.eye(3))
        return Placed(plate=self._plate, to_plate=np.eye(3) if is_still else to_plate)

    def _begin(self, grey: np.ndarray, free: np.ndarray, *, link: np.ndarray | None) -> Placed:
        self._plate += 1
        self._key, self._last = grey, np.eye(3)
        points = cv2.goodFeaturesToTrack(
            grey, _POINTS, _QUALITY, _APART, mask=free.astype(np.uint8)
        )
        self._points = np.zeros((0, 2)) if points is None else points.reshape(-1, 2)
        return Placed(plate=self._plate, to_plate=np.eye(3), begins=True, link=link)

    def _sought(self, grey: np.ndarray, free: np.ndarray) -> np.ndarray | None:
        """(3, 3) from the plate's small first picture to this one; None if it is another shot."""
        if len(self._points) < _LEAST:
            apart = cv2.absdiff(grey, self._key)[free]
            return None if apart.size and apart.mean() > _OTHER else np.eye(3)
        before = self._points.astype(np.float32)[:, None]
        guess = cv2.perspectiveTransform(before, self._last).astype(np.float32)
        after, status, _ = cv2.calcOpticalFlowPyrLK(
            self._key, grey, before, guess, flags=cv2.OPTFLOW_USE_INITIAL_FLOW
        )
        kept = _is_free(after[:, 0], free) & (status.ravel() > 0)
        inside = _is_free(guess[:, 0], np.ones_like(free))
        before, after = before[kept, 0], after[kept, 0]
        if len(before) < max(_LEAST, _MOST_LOST * inside.sum()):
            return self._without_points(grey, free)
        if np.median(np.linalg.norm(after - before, axis=1)) < _STILL_PX:
            return np.eye(3)
        found, agree = cv2.findHomography(before, after, cv2.RANSAC, _MISS_PX)
        if found is None or agree.sum() < max(_LEAST, _MOST_LOST * len(before)):
            return self._without_points(grey, free)
        return np.asarray(_unit(found))

    def _without_points(self, grey: np.ndarray, free: np.ndarray) -> np.ndarray | None:
        """Where points are lost, as behind a crowd: the same place if it hardly changed."""
        height, width = grey.shape
        seen = cv2.warpPerspective(self._key, self._last, (width, height))
        there = cv2.warpPerspective(np.ones_like(self._key), self._last, (width, height)) > 0
        apart = cv2.absdiff(grey, seen)[free & there]
        return self._last if apart.size and np.median(apart) < _OTHER / 3 else None


def _small(frame: np.ndarray, people: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The frame in grey and what is free of people, both made smaller."""
    rows, columns = frame.shape[:2]
    scale = min(1.0, _LINES / rows)
    size = (max(16, round(columns * scale)), max(16, round(rows * scale)))
    grey = cv2.cvtColor(np.ascontiguousarray(frame), cv2.COLOR_RGB2GRAY)
    small = cv2.resize(grey, size, interpolation=cv2.INTER_AREA)
    hidden = cv2.resize(people.astype(np.uint8) * 255, size, interpolation=cv2.INTER_AREA)
    return small, cv2.dilate(hidden, np.ones((5, 5), np.uint8)) == 0


def _is_free(points: np.ndarray, free: np.ndarray) -> np.ndarray:
    """(N,) which points (N, 2) lie in the picture, where ``free`` says so."""
    x, y = np.rint(np.nan_to_num(points, nan=-1.0).clip(-1e6, 1e6)).astype(int).T
    inside = (x >= 0) & (y >= 0) & (x < free.shape[1]) & (y < free.shape[0])
    inside[inside] = free[y[inside], x[inside]]
    return np.asarray(inside)


def _is_far(found: np.ndarray, size: tuple[int, ...]) -> bool:
    """Whether the picture moved too far away, or grew or shrank too much."""
    height, width = size
    corners = np.array([[[0, 0]], [[width, 0]], [[width, height]], [[0, height]]], np.float32)
    moved = (cv2.perspectiveTransform(corners, found) - corners)[:, 0] / [width, height]
    zoom = np.sqrt(abs(np.linalg.det(found[:2, :2])))
    return bool(np.abs(moved).max() > _FARTHEST or not 1 / _ZOOM < zoom < _ZOOM)


def _unit(matrix: np.ndarray) -> np.ndarray:
    return np.asarray(matrix / matrix[2, 2])
