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

import numpy as np

from masquerade.compute.device import Array

_UNIT = 2.0**-53


@lru_cache(maxsize=64)
def matrix(size: int, kept: int) -> np.ndarray:
    """Rows 0 to ``kept`` - 1 of the orthonormal cosine transform of ``size`` points.

    Angles are reduced in whole numbers first, so every entry is right to a few units in the last
    place whatever the size. The array is shared: it cannot be written to.
    """
    turns = np.outer(np.arange(kept), 2 * np.arange(size) + 1) % (4 * size)
    rows: np.ndarray = np.cos(turns * (math.pi / (2 * size))) * math.sqrt(2 / size)
    rows[0] = math.sqrt(1 / size)
    rows.setflags(write=False)
    return rows


def forward(block: Array, time: Array, high: Array, wide: Array) -> Array:
    """Coefficients (F, G, K) of a block (T, H, W), with the rows of three transforms."""
    over_width = block @ wide.T  # (T, H, K)
    over_plane = high @ over_width  # (T, G, K)
    flat = over_plane.reshape(over_plane.shape[0], -1)
    return (time @ flat).reshape(time.shape[0], *over_plane.shape[1:])


def backward(band: Array, time: Array, high: Array, wide: Array) -> Array:
    """The block (T, H, W) of coefficients (F, G, K); the transpose of `forward`."""
    frames = (time.T @ band.reshape(band.shape[0], -1)).reshape(-1, *band.shape[1:])
    return (high.T @ frames) @ wide


def error_bound(size: tuple[int, int, int]) -> float:
    """A bound on |computed - exact| of one coefficient, for a block of numbers up to 1.

    Each of the three products and the rounding of its input add gamma_n; the absolute row sums
    are at most sqrt(n) each, so sum |phi_f(i)| <= sqrt(T H W). Entries of the matrices are right
    to 4 u, which shifts the exact map and is counted here too.
    """
    terms = sum(size) + 32
    gamma = terms * _UNIT / (1 - terms * _UNIT)
    return gamma * math.sqrt(math.prod(size)) * (1 + 1e-9)
