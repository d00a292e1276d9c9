"""Secret patterns that make pictures of places alike, drawn by a public network.

White noise is spread over directions that no network looks at. The network was taught against
public networks and public places (`nets/place_texture.py`); what it draws depends on secret random
numbers alone, as many as a canvas has pixels, so that who has the network cannot take it out again.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from masquerade._optional import Later
from masquerade.nets import place_texture
from masquerade.noise import Noise
from masquerade.noise.rough import rough_gaussian

cv2 = Later("cv2", extra="vision")

_MOST, _STEPS = 15.0, 2_048  # of a canvas of variance 1: where it is cut, and steps of one


class Canvases:
    """Draws patterns for frames of one size.

    Args:
        size: (H, W) of the frames.
        bank: a file of the network's weights; by default our own.
        noise: where the random numbers come from.
    """

    def __init__(self, size: tuple[int, int], *, bank: str | None, noise: Noise) -> None:
        path = place_texture.OWN if bank is None else Path(bank)
        self._net = place_texture.opened(path)
        self._size, self._noise = size, noise

    def drawn(self, *, unit: int, power: float) -> np.ndarray:
        """(H, W, 3) int16 of mean 0; ``power`` is the variance over unit^2."""
        down, right = place_texture.canvas_size(*self._size)
        codes = [
            rough_gaussian(shape, self._noise) for shape in place_texture.code_shapes(down, right)
        ]
        canvas = place_texture.canvas(self._net, codes)
        return _fitted(canvas, self._size, deviation=unit * math.sqrt(power))

    def shift(self) -> tuple[int, int, bool]:
        """A random way around the edges of a canvas, down and right, and whether it is mirrored."""
        down, right, turned = (
            int(self._noise.integers(many, (1,))[0]) for many in (*self._size, 2)
        )
        return down, right, bool(turned)


def shifted_over(
    canvas: np.ndarray, shift: tuple[int, int, bool], below: np.ndarray | None
) -> np.ndarray:
    """A canvas (H, W, 3), shifted around its edges, plus what is below it.

    The four parts into which a shift cuts a canvas are added where they belong: nothing is moved.
    """
    down, right, is_turned = shift
    out = np.empty_like(canvas)
    for rows, from_rows in _halves(down, canvas.shape[0]):
        for columns, from_columns in _halves(right, canvas.shape[1]):
            part = canvas[from_rows, from_columns]
            if is_turned:
                part, columns = cv2.flip(part, 1), _mirrored(columns, canvas.shape[1])
            if below is None:
                out[rows, columns] = part
            else:
                cv2.add(part, below[rows, columns], dst=out[rows, columns])
    return out


def _halves(by: int, size: int) -> list[tuple[slice, slice]]:
    """Where the two parts of a line go that is shifted around its ends, and where they were."""
    cuts = [(slice(by, size), slice(0, size - by)), (slice(0, by), slice(size - by, size))]
    return [(to, was) for to, was in cuts if to.stop > to.start]


def _mirrored(columns: slice, width: int) -> slice:
    return slice(width - columns.stop, width - columns.start)


def _fitted(canvas: np.ndarray, size: tuple[int, int], *, deviation: float) -> np.ndarray:
    """At the size of frames, in whole numbers of mean 0 and that standard deviation."""
    smaller = size[0] * size[1] < canvas.shape[0] * canvas.shape[1]
    how = cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
    small = np.rint(np.clip(canvas, -_MOST, _MOST) * np.float32(_STEPS)).astype(np.int16)
    large = cv2.resize(small, size[::-1], interpolation=how).reshape(*size, 3)
    middle, spread = cv2.meanStdDev(large.reshape(-1, 1))
    gain = deviation / max(float(spread[0, 0]), 1e-6)
    return np.asarray(cv2.addWeighted(large, gain, large, 0, -gain * float(middle[0, 0])))
