"""Noise that is carried along by the motion of a film, and stays as random as it was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from masquerade._optional import Later

cv2 = Later("cv2", extra="vision")


_FEW = 16  # of so many pixels fewer than one: those are sorted, which no table of all is needed for
_GOLDEN = np.array([0.7548776662466927, 0.5698402909980532])  # 1/p and 1/p^2 with p^3 = p + 1


def offset(number: int) -> np.ndarray:
    """What is added to the flow of a frame before it is rounded down, another in every frame.

    So motion by a part of a pixel is right on average over time.
    """
    return np.asarray(((0.5 + number * _GOLDEN) % 1).astype(np.float32) % 1)  # never 1


def steps_of(back: np.ndarray, number: int) -> np.ndarray:
    """(..., 2) int32: by how many whole pixels the noise of frame ``number`` moves.

    Args:
        back: (..., 2), right and down in pixels, as `OpticalFlow.back` gives it.
        number: of the frame.
    """
    return np.asarray(np.floor(back + offset(number)), np.int32)


def carried(field: np.ndarray, steps: np.ndarray, fresh: Callable[[int], np.ndarray]) -> np.ndarray:
    """The next field (H, W, C): pixel x takes what was at x + steps, or something new.

    Which pixel goes where depends on ``steps`` alone, and none goes to two places: if the numbers
    of ``field`` are independent given the film, so are those of the result. Most pixels of most
    films move alike: they are moved together, and the others one by one.

    Args:
        field: of the frame before.
        steps: (H, W, 2) of whole numbers, right and down in pixels.
        fresh: draws rows (N, C) for what is uncovered or comes in over the border.
    """
    height, width, _ = steps.shape
    most = _usual(steps)
    is_odd = cv2.inRange(steps, most, most) == 0
    takers, givers = _paired(steps, is_odd, most)
    taken = field.reshape(height * width, -1)[givers]
    moved = np.roll(field, (-most[1], -most[0]), axis=(0, 1)) if any(most) else field.copy()
    rows = moved.reshape(height * width, -1)
    new = np.flatnonzero(is_odd | _comes_in(height, width, most) if any(most) else is_odd)
    rows[new] = fresh(len(new))
    rows[takers] = taken
    return moved


def _usual(steps: np.ndarray) -> tuple[int, int]:
    """The step in the middle of all, which most have where a camera stands or pans."""
    some = steps[:: max(1, len(steps) // 64), :: max(1, steps.shape[1] // 64)].reshape(-1, 2)
    right, down = np.sort(some, axis=0)[len(some) // 2]
    return int(right), int(down)


def _comes_in(height: int, width: int, most: tuple[int, int]) -> np.ndarray:
    """(H, W): where the usual step leads out of the picture."""
    y, x = np.arange(height) + most[1], np.arange(width) + most[0]
    return np.asarray(((y < 0) | (y >= height))[:, None] | ((x < 0) | (x >= width)))


def _paired(
    steps: np.ndarray, is_odd: np.ndarray, most: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Pixels with a step of their own that get their wish, and the places that they take."""
    height, width = is_odd.shape
    odd = np.flatnonzero(is_odd)
    y, x = np.divmod(odd, width)
    own = steps.reshape(-1, 2)[odd]
    x += own[:, 0]
    y += own[:, 1]
    inside = _is_inside(x, y, is_odd.shape)
    odd, x, y = odd[inside], x[inside], y[inside]
    x_usual, y_usual = x - most[0], y - most[1]  # who takes this place by the usual step
    free = ~_is_inside(x_usual, y_usual, is_odd.shape)
    free[~free] = is_odd[y_usual[~free], x_usual[~free]]
    takers, givers = odd[free], y[free] * width + x[free]
    # of several that want a pixel, one gets it
    if _FEW * len(givers) < height * width:
        _, wins = np.unique(givers, return_index=True)
        return takers[wins], givers[wins]
    last = np.empty(height * width, np.intp)
    last[givers] = takers
    is_last = last[givers] == takers
    return takers[is_last], givers[is_last]


def _is_inside(x: np.ndarray, y: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray((x >= 0) & (x < shape[1]) & (y >= 0) & (y < shape[0]))
