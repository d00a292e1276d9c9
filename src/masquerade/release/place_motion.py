"""How a film moves, without the trembling of a flow: noise that stands still must not wear off.

Where sensors are noisy, or lines run one way only, a dense flow wanders though nothing moves. So
the motion of the camera is measured from the whole picture, and a pixel moves otherwise only where
that explains the picture clearly better.
"""

from __future__ import annotations

import numpy as np

from masquerade._optional import Later
from masquerade.release.carried import steps_of

cv2 = Later("cv2", extra="vision")

_REACH = 7  # pixels over which differences are gathered
_CLEARLY, _SHADES = 1.5, 2.0  # by which factor a motion must explain a picture better, and more
_BETTER = 0.75  # what a guess must leave of a difference; moving a picture smooths its noise too
_RIDGE = 0.1  # shades a pixel, squared: what moves along its own lines does not move
_STANDS = 1 / 128  # pixels: a camera that moves less stands
_SOFT, _EDGE, _ROUNDS = 1.5, 8, 2  # pixels, pixels, and times, of least squares


class Follower:
    """Says by how many whole pixels noise has to move to stay with the scene.

    Where the camera is, is known to a part of a pixel and summed up, so that rounding never adds
    up; things that move by themselves are right on average.

    Args:
        scale: pixels of a frame in one of the small picture, right and down.
    """

    def __init__(self, scale: tuple[float, float]) -> None:
        self._scale, self._camera = np.array(scale, np.float32), np.zeros(2)
        self._number = 0

    def steps(
        self, now: np.ndarray, before: np.ndarray, back: np.ndarray, moved: np.ndarray
    ) -> np.ndarray:
        """(H, W, 2) int16, in pixels of a frame, right and down: where the noise comes from.

        Args:
            now: (H, W, 3) uint8, a small frame.
            before: the one before.
            back: the flow, ``now`` at x shows ``before`` at x + back.
            moved: ``before``, moved by that flow.
        """
        grey, old, own = (cv2.cvtColor(one, cv2.COLOR_RGB2GRAY) for one in (now, before, moved))
        camera = _camera(grey, old, back)
        stood = np.rint(self._camera)
        self._camera += camera * self._scale
        self._number += 1
        whole = np.rint(self._camera) - stood
        left, alone = (
            cv2.blur(_apart(grey, one), (_REACH,) * 2) for one in (_at(old, camera), own)
        )
        does_move = left > _CLEARLY * alone + _SHADES
        steps = np.empty(back.shape, np.int16)
        steps[:] = whole
        steps[does_move] = steps_of(back[does_move] * self._scale, self._number)
        return steps


def _camera(now: np.ndarray, before: np.ndarray, back: np.ndarray) -> np.ndarray:
    """Motion of the whole picture, right and down."""
    found, guess = np.zeros(2), np.median(back[::4, ::4].reshape(-1, 2), axis=0)
    if _apart(now, _at(before, guess)).mean() < _BETTER * _apart(now, before).mean():
        found = guess
    soft, old = (cv2.GaussianBlur(one.astype(np.float32), (0, 0), _SOFT) for one in (now, before))
    for _ in range(_ROUNDS):
        found = found + _rest(soft, _at(old, found))
    return np.where(np.abs(found) < _STANDS, 0.0, found)


def _rest(now: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The small motion that explains best what is left, by least squares over every other line."""
    ways = (cv2.Scharr(before, cv2.CV_32F, *way, scale=1 / 32) for way in ((1, 0), (0, 1)))
    some = np.s_[_EDGE:-_EDGE:2, _EDGE:-_EDGE:2]  # at the edges something new comes in
    lines = np.stack([way[some].ravel() for way in ways])
    change = (now[some] - before[some]).ravel()
    if change.size == 0:
        return np.zeros(2)
    far = np.abs(change)
    usual = far < max(4.5 * float(np.median(far)), 2.0)  # others move by themselves
    lines, change = lines[:, usual], change[usual]
    square = lines @ lines.T + _RIDGE * len(change) * np.eye(2)
    return np.asarray(np.clip(np.linalg.solve(square, lines @ change), -1, 1))


def _at(picture: np.ndarray, by: np.ndarray) -> np.ndarray:
    """What the picture shows at x + by."""
    if not by.any():
        return picture
    matrix = np.array([[1, 0, by[0]], [0, 1, by[1]]], np.float32)
    how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    size = picture.shape[::-1]
    edge = cv2.BORDER_REPLICATE
    return np.asarray(cv2.warpAffine(picture, matrix, size, flags=how, borderMode=edge))


def _apart(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.asarray(cv2.absdiff(one, other), np.float32)
