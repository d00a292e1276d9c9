"""The noise of PPEDCRF: part of it stands still with the scene, so that it does not average out."""

from __future__ import annotations

import math
from enum import StrEnum
from functools import partial
from typing import Protocol

import numpy as np

from masquerade._optional import Later
from masquerade.noise import Noise
from masquerade.noise.rough import UNIT, rough_steps
from masquerade.release.carried import carried

cv2 = Later("cv2", extra="vision")

_BAND = 64  # lines that are worked on at once
_REDRAWN = 16  # frames after which the fresh part has another canvas


class NoiseShape(StrEnum):
    """How the noise looks."""

    WHITE = "white"
    GRAIN = "grain"
    PATTERNS = "patterns"


class Grains(Protocol):
    """Where the noise of a film comes from."""

    def following(self, steps: np.ndarray | None) -> np.ndarray:
        """(H, W, 3), times `UNIT`, of mean 0 and variance 1: the noise of the next frame.

        Args:
            steps: (H, W, 2), by how many pixels the scene moved; None where it did not.
        """


class Scattered:
    """A number of its own for each pixel and channel, or grains of some pixels.

    Args:
        size: (H, W) of the frames.
        still: the share of the power that stands still with the scene.
        grain_px: the standard deviation of a grain; below 1 each pixel is one.
        noise: where it comes from.
    """

    def __init__(
        self, size: tuple[int, int], *, still: float, grain_px: float, noise: Noise
    ) -> None:
        self._shape, self._still, self._grain_px = (*size, 3), still, grain_px
        self._rows = partial(_rows, noise=noise, power=still)
        self._fresh = partial(rough_steps, self._shape, noise, power=1 - still)
        self._stays = rough_steps(self._shape, noise, power=still) if still else None

    def following(self, steps: np.ndarray | None) -> np.ndarray:
        """The carried part and a fresh one."""
        grains = self._fresh()
        if self._stays is not None:
            if steps is not None:
                self._stays = carried(self._stays, steps, self._rows)
            grains = cv2.add(grains, self._stays)
        return _coarser(grains, self._grain_px)


class Patterned:
    """Patterns of a public network, from secret random numbers.

    One canvas moves with the scene. The fresh part of a frame is another one, shifted at random;
    that one is drawn anew from time to time, since drawing takes as long as a frame may.

    Args:
        size: (H, W) of the frames.
        still: the share of the power that stands still.
        bank: a file of the network's weights.
        noise: where the random numbers come from.
    """

    def __init__(
        self, size: tuple[int, int], *, still: float, bank: str | None, noise: Noise
    ) -> None:
        from masquerade.release import place_patterns  # needs another extra

        self._canvases = place_patterns.Canvases(size, bank=bank, noise=noise)
        self._drawn = partial(self._canvases.drawn, unit=UNIT)
        self._over = place_patterns.shifted_over
        self._still, self._noise, self._frames = still, noise, 0
        self._stays = self._drawn(power=still) if still else None
        self._pool = self._fresh()

    def following(self, steps: np.ndarray | None) -> np.ndarray:
        """The carried part and a fresh one."""
        if self._frames and self._frames % _REDRAWN == 0:
            self._pool = self._fresh()
        self._frames += 1
        if self._stays is not None and steps is not None:
            self._stays = carried(self._stays, steps, self._rows)
        return self._over(self._pool, self._canvases.shift(), self._stays)

    def _fresh(self) -> np.ndarray:
        return self._drawn(power=1 - self._still)

    def _rows(self, count: int) -> np.ndarray:
        """(N, 3) for what comes in: of a canvas from a random place on, one after the other."""
        canvas = self._pool.reshape(-1, 3)
        first = int(self._noise.integers(len(canvas), (1,))[0])
        rows = canvas.take(range(first, first + count), axis=0, mode="wrap")
        strength = math.sqrt(self._still / (1 - self._still))
        return np.asarray(np.rint(strength * rows), np.int16)


def left_by_averaging(sigma: float, *, still: float, frames: int) -> float:
    """The noise of the mean of some frames of a still scene.

    Example:
        >>> round(left_by_averaging(8.0, still=0.5, frames=300), 3)
        5.666
    """
    return sigma * math.sqrt(still + (1 - still) / frames)


def left_of_a_change(sigma: float, *, still: float, frames: int) -> float:
    """The noise on what one frame alone shows, for who knows all frames of a still scene.

    Example:
        >>> round(left_of_a_change(8.0, still=0.9, frames=300), 3)
        2.534
    """
    fresh = 1 - still
    return sigma * math.sqrt(fresh / (1 - still / (fresh + still * frames)))


def noised(frame: np.ndarray, amount: np.ndarray, grains: np.ndarray, sigma: float) -> np.ndarray:
    """The frame with noise of sigma times the amount; where that is 0, the frame itself.

    Args:
        frame: (H, W, 3) uint8.
        amount: (H, W) float32; `np.broadcast_to` makes one that is the same everywhere.
        grains: (H, W, 3), as `Grains` gives them.
        sigma: in shades.
    """
    is_one = amount.strides == (0, 0)  # one number, repeated
    frame, out = np.ascontiguousarray(frame), np.empty(frame.shape, np.uint8)
    for start in range(0, len(frame), _BAND):  # what is worked on fits the cache
        rows = slice(start, start + _BAND)
        if is_one:
            strength = float(amount[0, 0]) * sigma / UNIT
            shades = cv2.addWeighted(grains[rows], strength, grains[rows], 0, 0)
        else:
            each = cv2.cvtColor(np.ascontiguousarray(amount[rows]), cv2.COLOR_GRAY2RGB)
            shades = cv2.multiply(grains[rows], each, scale=sigma / UNIT, dtype=cv2.CV_16S)
        cv2.add(frame[rows], shades, dst=out[rows], dtype=cv2.CV_8U)
    return out


def _rows(count: int, *, noise: Noise, power: float) -> np.ndarray:
    return rough_steps((count, 3), noise, power=power)


def _coarser(grains: np.ndarray, size_px: float) -> np.ndarray:
    """The same with grains of some pixels, at the same variance."""
    if size_px < 1:
        return grains
    reach = 2 * math.ceil(3 * size_px) + 1
    kernel = cv2.getGaussianKernel(reach, size_px)[:, 0]
    kernel /= math.sqrt(float(np.sum(kernel**2)))  # along each axis
    border = cv2.BORDER_REFLECT_101
    return np.asarray(cv2.sepFilter2D(grains, cv2.CV_32F, kernel, kernel, borderType=border))
