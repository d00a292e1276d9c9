"""Secret patterns that make pictures of places alike, drawn by a public network.

White noise is spread over directions that no network looks at. The network was taught against
public networks and public places (`nets/place_texture.py`); what it draws depends on secret random
numbers alone, as many as a canvas has pixels, so that who has the network cannot take it out again.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from masquerade._optional import require
from masquerade.nets import place_texture
from masquerade.noise import Noise
from masquerade.noise.rough import rough_gaussian

cv2 = require("cv2", extra="vision")


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

    def drawn(self) -> np.ndarray:
        """(H, W, 3) float32 of mean 0 and variance 1."""
        down, right = place_texture.canvas_size(*self._size)
        codes = [
            rough_gaussian(shape, self._noise) for shape in place_texture.code_shapes(down, right)
        ]
        return _fitted(place_texture.canvas(self._net, codes), self._size)

    def shifted(self, canvas: np.ndarray) -> np.ndarray:
        """The canvas by a random way, around its edges, and perhaps mirrored."""
        down, right, turned = (
            int(self._noise.integers(many, (1,))[0]) for many in (*self._size, 2)
        )
        moved = np.roll(canvas, (down, right), axis=(0, 1))
        return np.ascontiguousarray(moved[:, ::-1]) if turned else moved


def _fitted(canvas: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """At the size of frames, of mean 0 and variance 1 again."""
    smaller = size[0] * size[1] < canvas.shape[0] * canvas.shape[1]
    how = cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
    large = cv2.resize(canvas, size[::-1], interpolation=how).reshape(*size, 3)
    middle, spread = cv2.meanStdDev(large.reshape(-1, 1))
    strength = max(float(spread[0, 0]), 1e-6)
    return np.asarray((large - np.float32(middle[0, 0])) * np.float32(1 / strength))


def in_steps(field: np.ndarray, *, unit: int, power: float) -> np.ndarray:
    """Whole numbers, int16, of a field of variance 1; ``power`` is their variance over unit^2."""
    return np.asarray(np.rint(field * np.float32(unit * math.sqrt(power))), np.int16)
