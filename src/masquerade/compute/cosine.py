r"""The orthonormal cosine transform of a block of video, as matrix products.

Row f of the n-point transform is c_f cos(pi f (2i+1) / 2n). Products are used instead of a fast
transform because only a low band of frequencies is ever wanted, because a GPU multiplies matrices
faster than it transforms, and because the error of a product is known: for any order of summation
|computed - exact| <= gamma_n sum |a_i||x_i| with gamma_n = n u / (1 - n u), u = 2^-53
[higham2002, Sec. 3.1].
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from masquerade.compute.device import Array, empty

_UNIT = 2.0**-53


@lru_cache(maxsize=128)
def matrix(size: int, kept: int, kind: type[Any] = np.float64) -> np.ndarray:
    """Rows 0 to ``kept`` - 1 of the orthonormal cosine transform of ``size`` points.

    Angles are reduced in whole numbers first, so every entry is right to a few units in the last
    place whatever the size. The array is shared: it cannot be written to.
    """
    turns = np.outer(np.arange(kept), 2 * np.arange(size) + 1) % (4 * size)
    rows: np.ndarray = np.cos(turns * (math.pi / (2 * size))) * math.sqrt(2 / size)
    rows[0] = math.sqrt(1 / size)
    rows = rows.astype(kind, copy=False)
    rows.setflags(write=False)
    return rows


def forward(block: Array, time: Array, high: Array, wide: Array) -> Array:
    """Coefficients (F, G, K) of a block (T, H, W), with the rows of three transforms."""
    frames, height, width = block.shape
    done = (block.reshape(-1, width) @ wide.T).reshape(frames, height, -1)
    return _along(time, _along(high, done))


def backward(band: Array, time: Array, high: Array, wide: Array) -> Array:
    """The block (T, H, W) of coefficients (F, G, K); the transpose of `forward`."""
    return along_time(along_plane(band, high, wide), time)


def along_plane(band: Array, high: Array, wide: Array) -> Array:
    """The first half of `backward`: pictures (F, H, W) of coefficients (F, G, K)."""
    first, rows, _ = band.shape
    done = (band.reshape(-1, band.shape[2]) @ wide).reshape(first, rows, -1)
    return high.T @ done


def along_time(pictures: Array, time: Array) -> Array:
    """The second half: the block (T, H, W) of pictures (F, H, W)."""
    flat = time.T @ pictures.reshape(len(pictures), -1)
    return flat.reshape(-1, *pictures.shape[1:])


def _along(matrix: Array, block: Array) -> Array:
    """Multiply along the middle axis, which comes out first: (A, B, C) to (b, A, C).

    One large product is much faster than many small ones, and the copy is cheap beside it.
    """
    first, middle, last = block.shape
    flat = block.swapaxes(0, 1).reshape(middle, -1)
    return (matrix @ flat).reshape(-1, first, last)


@lru_cache(maxsize=16)
def halves(size: int) -> tuple[np.ndarray, np.ndarray]:
    """The left halves of even and of odd rows, for a line whose ends were added or subtracted.

    Even rows are the same from both ends and odd ones change sign, so x_i + x_(n-1-i) and
    x_i - x_(n-1-i) times half a row are what x times a whole row is, at half the cost. The middle
    of an odd line meets itself, so its weight is halved.
    """
    left = matrix(size, size)[:, : -(-size // 2)].copy()
    if size % 2:
        left[:, -1] /= 2
    for rows in (even_odd := (np.ascontiguousarray(left[0::2]), np.ascontiguousarray(left[1::2]))):
        rows.setflags(write=False)
    return even_odd


def folded_place(frequency: np.ndarray, size: int) -> np.ndarray:
    """Where `plane_forward` puts frequencies along the width: even ones first.

    Example:
        >>> folded_place(np.arange(5), 5).tolist()
        [0, 3, 1, 4, 2]
    """
    return np.asarray(frequency // 2 + (frequency % 2) * -(-size // 2))


def plane_forward(added: Array, apart: Array, high: Array, even: Array, odd: Array) -> Array:
    """Coefficients (G, T, W) of planes (T, H, W) whose lines were folded; see `halves`.

    The axis of height comes out first, and frequencies along the width as `folded_place` says.
    """
    frames, height, _ = added.shape
    mixed = empty((height, frames, len(even) + len(odd)), np.float64)
    for line, rows, place in (
        (added, even, slice(len(even))),
        (apart, odd, slice(len(even), None)),
    ):
        done = (line.reshape(frames * height, -1) @ rows.T).reshape(frames, height, -1)
        mixed[:, :, place] = done.swapaxes(0, 1)
    return (high @ mixed.reshape(height, -1)).reshape(-1, frames, mixed.shape[2])


def plane_backward(bands: Array, high: Array, wide: Array) -> Array:
    """Planes (T, H, W) of coefficients (G, T, K), whose order is the plain one."""
    rows, frames, _ = bands.shape
    done = (bands.reshape(-1, bands.shape[2]) @ wide).reshape(rows, frames, -1)
    return _along(high.T, done.swapaxes(0, 1)).swapaxes(0, 1)


def error_bound(size: tuple[int, int, int]) -> float:
    """A bound on |computed - exact| of one coefficient, for a block of numbers up to 1.

    Each of the three products and the rounding of its input add gamma_n; the absolute row sums
    are at most sqrt(n) each, so sum |phi_f(i)| <= sqrt(T H W). The errors of the matrices' own
    entries add up to at most 4 u sqrt(n) in a row (a test measures it), which is counted here too.
    """
    terms = sum(size) + 32
    gamma = terms * _UNIT / (1 - terms * _UNIT)
    return gamma * math.sqrt(math.prod(size)) * (1 + 1e-9)
