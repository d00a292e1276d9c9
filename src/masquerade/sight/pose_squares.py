"""The square around a body that the pose network is shown: where it lies, and what is in it."""

from __future__ import annotations

import numpy as np

from masquerade._optional import Later

cv2 = Later("cv2", extra="vision")

SHOWN_PX = 256  # a side of the picture that the network takes
_AROUND = 1.25  # of the circle around a body: what the network is shown
_ALIKE = 0.15  # of the side of a square: one that is so near shows the same person
_EDGE = 0.3  # of half the side of a square: so near to an edge half a body may be out
_MOST_TIMES = 4  # as large is a picture first cut out that is then made smaller by means


def square_about(x: float, y: float, radius: float, turn: float) -> np.ndarray:
    """(2, 3): from pixels of the network's picture to pixels of the frame, around a body."""
    scale = 2 * max(_AROUND * radius, 1.0) / SHOWN_PX
    right, down = scale * np.cos(turn), scale * np.sin(turn)
    middle = SHOWN_PX / 2
    return np.array(
        [
            [right, -down, x - middle * (right - down)],
            [down, right, y - middle * (down + right)],
        ]
    )


def reach(square: np.ndarray, size: tuple[int, ...]) -> tuple[slice, slice]:
    """Rows and columns of a frame around what the network is shown."""
    places = corners(square)
    (left, top), (right, bottom) = (
        np.clip(each, 0, size[::-1]).astype(int).tolist()
        for each in (places.min(axis=0), places.max(axis=0))
    )
    return slice(top, bottom), slice(left, right)


def corners(square: np.ndarray) -> np.ndarray:
    """(4, 2) of a square (2, 3), in pixels of the frame."""
    far = float(SHOWN_PX)
    return np.asarray(np.array([[0, 0, 1], [far, 0, 1], [0, far, 1], [far, far, 1]]) @ square.T)


def is_alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two squares lie so near to each other that they show the same person."""
    apart = np.linalg.norm(corners(one) - corners(other), axis=1).max()
    return bool(apart < _ALIKE * SHOWN_PX * np.sqrt(np.linalg.det(one[:, :2])))


def is_at_edge(square: np.ndarray, frame: np.ndarray) -> bool:
    """Whether the middle of a square lies about at the left or the right edge of the frame."""
    places = corners(square)
    middle, half = places[:, 0].mean(), np.ptp(places[:, 0]) / 2
    return bool(min(middle, frame.shape[1] - middle) < _EDGE * half)


def shown_in(frame: np.ndarray, to_frame: np.ndarray, beyond: int) -> np.ndarray:
    """(256, 256, 3): the square, and what OpenCV calls ``beyond`` where it reaches out."""
    shrunk = np.sqrt(np.linalg.det(to_frame[:, :2]))
    times = int(np.clip(np.ceil(shrunk), 1, _MOST_TIMES))
    finer = to_frame / np.array([times, times, 1.0])
    cut = cv2.warpAffine(
        np.ascontiguousarray(frame),
        finer,
        (times * SHOWN_PX,) * 2,
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=beyond,
    )
    return np.asarray(cv2.resize(cut, (SHOWN_PX,) * 2, interpolation=cv2.INTER_AREA))
