"""Public randomness: matrices that everyone may know, from a seed. Never privacy noise.

A projection is drawn independently of the data and counts as known in every proof, so a fast
generator will do; its seed comes from the operating system and stands in the receipt.
"""

from __future__ import annotations

import math

import numpy as np

from masquerade._optional import require
from masquerade.compute.device import Array, chosen, is_cpu

GRID = 2.0**-14


def gaussian_rows(seed: int, block: int, shape: tuple[int, int]) -> Array:
    """Rows of a matrix with entries N(0, 1/k) rounded to 2^-14, in float64; block after block."""
    rows, columns = shape
    if is_cpu():
        made = np.random.Generator(np.random.PCG64((seed, block))).standard_normal(shape)
        made *= 1 / (GRID * math.sqrt(columns))
        np.rint(made, out=made)
        made *= GRID
        return made
    torch = require("torch", extra="train")
    generator = torch.Generator(device=chosen()).manual_seed((seed + block * 0x9E3779B9) % 2**63)
    drawn = torch.randn(rows, columns, generator=generator, device=chosen(), dtype=torch.float64)
    return (drawn / (GRID * math.sqrt(columns))).round_() * GRID


def signs(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Random signs, as float64."""
    drawn = np.random.Generator(np.random.PCG64((seed, 0))).integers(0, 2, shape, dtype=np.int8)
    return np.asarray(drawn * 2.0 - 1.0)


def choice(seed: int, count: int, among: int) -> np.ndarray:
    """``count`` different places out of ``among``, in order."""
    generator = np.random.Generator(np.random.PCG64((seed, 1)))
    return np.sort(generator.choice(among, count, replace=False))
