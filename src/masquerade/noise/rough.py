"""Bell-shaped noise for heuristics: quick, of the same secret words; nothing is proved of it."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from masquerade.noise.keystream import CHUNK
from masquerade.noise.source import Noise

UNIT = 4096  # what a standard deviation is in `rough_steps`
_LEVELS = 1 << 16


def rough_gaussian(shape: tuple[int, ...], noise: Noise) -> np.ndarray:
    """Float32 numbers of mean 0 and variance 1, one of 65,536 levels each, up to 4.3.

    No guarantee may rest on it: `Noise.gaussian` is for that.
    """
    return _drawn(_levels(), shape, noise)


def rough_steps(shape: tuple[int, ...], noise: Noise, *, power: float = 1.0) -> np.ndarray:
    """The same times ``UNIT`` in whole numbers, int16; ``power`` is the variance, up to 1."""
    return _drawn(_steps(power), shape, noise)


def _drawn(levels: np.ndarray, shape: tuple[int, ...], noise: Noise) -> np.ndarray:
    """A level for each number, some at a time: what is worked on fits the cache."""
    out = np.empty(math.prod(shape), levels.dtype)
    for start in range(0, out.size, 4 * CHUNK):
        part = out[start : start + 4 * CHUNK]
        picked = noise.words(-(-part.size // 4)).view(np.uint16)[: part.size]
        np.take(levels, picked, out=part, mode="clip")  # none is clipped; "raise" would copy
    return out.reshape(shape)


@lru_cache(maxsize=1)
def _levels() -> np.ndarray:
    """Quantiles of the bell at the middles of equal shares, stretched to variance 1."""
    from scipy.special import ndtri  # scipy is not loaded until noise is asked for

    middles = ndtri((np.arange(_LEVELS) + 0.5) / _LEVELS)
    made = (middles / math.sqrt(float(np.mean(middles**2)))).astype(np.float32)
    made.setflags(write=False)
    return made


@lru_cache(maxsize=8)
def _steps(power: float) -> np.ndarray:
    made = np.rint(_levels() * (UNIT * math.sqrt(power))).astype(np.int16)
    made.setflags(write=False)
    return made
