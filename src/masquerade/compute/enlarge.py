"""Bring small pictures to full size: each place mixes a few cells near it.

The mixing matrix of an axis is a narrow band. It is kept in pieces, so that enlarging is a few
small products of matrices and costs little more than writing the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from masquerade.compute import device
from masquerade.compute.device import Array
from masquerade.compute.frames import painted, plain

Kernel = Literal["linear", "cubic"]
_CELLS = 16  # of a piece


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece:
    """Places ``start`` to ``stop`` of an axis, mixed from cells ``first`` to ``last``."""

    start: int
    stop: int
    first: int
    last: int
    mix: np.ndarray  # (places, cells)


@lru_cache(maxsize=32)
def matrix(size: int, step: int, kernel: Kernel) -> np.ndarray:
    """Interpolation from the centres of cells of ``step`` places to ``size`` places, in float32.

    Cubic is Keys's with a = -1/2. Beyond the outermost centres the outermost cell goes on.
    """
    count = math.ceil(size / step)
    place = (np.arange(size) - (step - 1) / 2) / step
    if kernel == "linear":
        place = np.clip(place, 0, count - 1)
    near = np.floor(place).astype(int)
    share = place - near
    mix = np.zeros((size, count))
    for offset in (0, 1) if kernel == "linear" else (-1, 0, 1, 2):
        cell = np.clip(near + offset, 0, count - 1)
        np.add.at(mix, (np.arange(size), cell), _weight(share - offset, kernel))
    return mix.astype(np.float32)


def _weight(distance: np.ndarray, kernel: Kernel) -> np.ndarray:
    d = np.abs(distance)
    if kernel == "linear":
        return np.asarray(np.maximum(1 - d, 0.0))
    inner, outer = 1.5 * d**3 - 2.5 * d**2 + 1, -0.5 * d**3 + 2.5 * d**2 - 4 * d + 2
    return np.asarray(np.where(d <= 1, inner, np.where(d < 2, outer, 0.0)))


@lru_cache(maxsize=32)
def pieces(size: int, step: int, kernel: Kernel, channels: int = 1) -> tuple[Piece, ...]:
    """The same matrix in pieces; numbers of ``channels`` that stand side by side do not mix."""
    mix, found = matrix(size, step, kernel), []
    for start in range(0, size, _CELLS * step):
        stop = min(start + _CELLS * step, size)
        used = np.nonzero(mix[start:stop].any(axis=0))[0]
        first, last = int(used[0]), int(used[-1]) + 1
        small = np.kron(mix[start:stop, first:last], np.eye(channels, dtype=np.float32))
        found.append(
            Piece(
                start=channels * start,
                stop=channels * stop,
                first=channels * first,
                last=channels * last,
                mix=small,
            )
        )
    return tuple(found)


def to_bytes(small: Array, size: tuple[int, int], step: int, kernel: Kernel) -> Array:
    """Pictures (T, h, w, 3) of cells as pictures (T, H, W, 3) of bytes."""
    if device.is_cpu():
        whole = np.empty((len(small), *size, 3), np.uint8)
        for picture, place in zip(small, whole, strict=True):
            _enlarge(picture, place, step, kernel)
        return whole
    high, wide = (device.constant(matrix(n, step, kernel)) for n in size)
    return painted([high @ (small[..., c] @ wide.T) for c in range(3)], plain(0.0))


def _enlarge(picture: np.ndarray, whole: np.ndarray, step: int, kernel: Kernel) -> None:
    """One picture into its place, in strips that stay in the processor's cache."""
    rows, columns, channels = picture.shape
    height, width = whole.shape[:2]
    flat = np.ascontiguousarray(picture, np.float32).reshape(rows, columns * channels)
    wide = np.empty((rows, width * channels), np.float32)
    for piece in pieces(width, step, kernel, channels):
        wide[:, piece.start : piece.stop] = flat[:, piece.first : piece.last] @ piece.mix.T
    wide += 0.5  # rounded by what is cut off
    lines = whole.reshape(height, width * channels)
    for piece in pieces(height, step, kernel):
        strip = piece.mix @ wide[piece.first : piece.last]
        np.clip(strip, 0, 255, out=strip)
        lines[piece.start : piece.stop] = strip
