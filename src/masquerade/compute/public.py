"""Public randomness: matrices that everyone may know, from a seed. Never privacy noise.

A projection is drawn independently of the data and counts as known in every proof, so a fast
generator will do; its seed comes from the operating system and stands in the receipt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from masquerade._optional import require
from masquerade.compute.device import Array, cast, chosen, is_cpu

GRID = 2.0**-14


class Rows(Protocol):
    """Some rows of a matrix whose entries are whole multiples of 2^-14."""

    def times(self, values: Array, middle: float) -> Array:
        """(``values`` - ``middle``) times the rows, exactly, for uint8 values."""

    def floats(self) -> Array:
        """The rows in float32, exactly."""


def gaussian_rows(seed: int, block: int, shape: tuple[int, int]) -> Rows:
    """Rows with entries N(0, 1/k) rounded to 2^-14; each block of them has a stream of its own."""
    factor = 1 / (GRID * math.sqrt(shape[1]))
    if is_cpu():
        drawn = np.random.Generator(np.random.PCG64((seed, block))).standard_normal(shape)
        drawn *= factor
        return Doubles(np.rint(drawn, out=drawn))
    torch = require("torch", extra="train")
    key = (seed + (block + 1) * 0x9E3779B97F4A7C15) % 2**64
    generator = torch.Generator(device=chosen()).manual_seed(key - 2**63)
    drawn = torch.empty(shape, device=chosen(), dtype=torch.float64)
    drawn.normal_(0.0, factor, generator=generator)
    return Split.of(drawn.round_().to(torch.int16))


@dataclass(frozen=True, eq=False)
class Doubles:
    """Whole numbers j in float64, for the processor: sums far below 2^53 are exact."""

    whole: np.ndarray

    def times(self, values: Array, middle: float) -> Array:
        """One product."""
        return (cast(values, np.float64) - middle) @ self.whole * GRID

    def floats(self) -> Array:
        """The rows."""
        return (self.whole * GRID).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Split:
    """Whole numbers j = 128 high + low in two halves of 8 bits, for a GPU's integer units.

    |values - 128| <= 128, |high|, low < 128 and at most 2^16 rows keep every sum below 2^31. They
    are kept with the rows' numbers next to each other, as the units read them.
    """

    high: Array
    low: Array
    columns: Array  # sum of j over the rows

    @classmethod
    def of(cls, whole: Array) -> Split:
        """Of int16 numbers below 2^14 in magnitude, which is 1 on the scale of R."""
        torch = require("torch", extra="train")
        turned = whole.T.contiguous()
        high = turned >> 7
        return cls(
            high=high.to(torch.int8),
            low=(turned & 127).to(torch.int8),
            columns=turned.sum(1, dtype=torch.float64),
        )

    def times(self, values: Array, middle: float) -> Array:
        """Two integer products; what 128 differs from the middle is added exactly."""
        torch = require("torch", extra="train")
        centred = (values ^ 128).view(torch.int8)  # values - 128
        missing = -len(centred) % 32  # the units want a multiple of 8, and more than 16 rows
        if missing:
            centred = torch.nn.functional.pad(centred, (0, 0, 0, missing))
        high = torch._int_mm(centred, self.high.T)[: len(values)].double()
        low = torch._int_mm(centred, self.low.T)[: len(values)].double()
        return (high * 128 + low + (128 - middle) * self.columns) * GRID

    @cached_property
    def _floats(self) -> Array:
        torch = require("torch", extra="train")
        return (self.high.to(torch.float32) * 128).add_(self.low).mul_(GRID)

    def floats(self) -> Array:
        """The rows."""
        return self._floats.T


def signs(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Random signs, as float64."""
    drawn = np.random.Generator(np.random.PCG64((seed, 0))).integers(0, 2, shape, dtype=np.int8)
    return np.asarray(drawn * 2.0 - 1.0)


def choice(seed: int, count: int, among: int) -> np.ndarray:
    """``count`` different places out of ``among``, in order."""
    generator = np.random.Generator(np.random.PCG64((seed, 1)))
    return np.sort(generator.choice(among, count, replace=False))
