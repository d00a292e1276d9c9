"""Public randomness: matrices that everyone may know, from a seed. Never privacy noise.

A projection is drawn independently of the data and counts as known in every proof, so a fast
generator will do; its seed comes from the operating system and stands in the receipt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from masquerade._optional import Later
from masquerade.compute.device import Array, cast, chosen, is_cpu

if TYPE_CHECKING:
    from masquerade._torch import torch
else:
    torch = Later("torch", extra="train")

GRID = 2.0**-14
_FEWEST = 256  # columns, from which on no entry ever reaches 1


class MatrixRows(Protocol):
    """Some rows of a matrix whose entries are whole multiples of 2^-14."""

    def times(self, values: Array, middle: float) -> Array:
        """(``values`` - ``middle``) times the rows, exactly, for uint8 values."""

    def whole_floats(self) -> Array:
        """The rows over 2^-14 in float32, exactly: whole numbers."""


def gaussian_rows(seed: int, block: int, shape: tuple[int, int]) -> MatrixRows:
    """Rows with entries N(0, 1/k) rounded to 2^-14; each block of them has a stream of its own."""
    factor = 1 / (GRID * math.sqrt(shape[1]))
    if is_cpu():
        plain = np.random.Generator(np.random.PCG64((seed, block))).standard_normal(shape)
        plain *= factor
        return Doubles(np.rint(plain, out=plain))
    is_few = shape[1] < _FEWEST or any(size % 8 for size in shape)  # the units want eights
    key = (seed + (block + 1) * 0x9E3779B97F4A7C15) % 2**64
    generator = torch.Generator(device=chosen()).manual_seed(key - 2**63)
    size = shape if is_few else shape[::-1]
    drawn = torch.empty(size, device=chosen(), dtype=torch.float64)
    drawn.normal_(0.0, factor, generator=generator)
    if is_few:
        return Doubles(drawn.round_())
    return Split.of(drawn.round_().to(torch.int16))


@dataclass(frozen=True, eq=False)
class Doubles:
    """Whole numbers j in float64, for the processor: sums far below 2^53 are exact."""

    whole: Array

    def times(self, values: Array, middle: float) -> Array:
        """One product."""
        return (cast(values, np.float64) - middle) @ self.whole * GRID

    def whole_floats(self) -> Array:
        """The rows' whole numbers."""
        return cast(self.whole, np.float32)


@dataclass(frozen=True, eq=False)
class Split:
    """Whole numbers j = 128 high + low in two halves of 8 bits, for a GPU's integer units.

    |values - 128| <= 128, |high|, low < 128 and at most 2^16 rows keep every sum below 2^31. They
    are kept with the rows' numbers next to each other, as the units read them.
    """

    high: Array
    low: Array
    floating: Array  # j

    @classmethod
    def of(cls, turned: Array) -> Split:
        """Of int16 numbers (k, rows) below 2^14, that is sqrt(k) deviations."""
        return cls(
            high=(turned >> 7).to(torch.int8),
            low=(turned & 127).to(torch.int8),
            floating=turned.to(torch.float32),
        )

    def times(self, values: Array, middle: float) -> Array:
        """Two integer products; what 128 differs from the middle is added exactly.

        One more row, of ones, gives the sums that this takes. The units want a multiple of 8 rows,
        and more than 16.
        """
        count = len(values)
        padded = torch.nn.functional.pad(values ^ 128, (0, 0, 0, 32 - count % 32))
        centred = padded.view(torch.int8)  # values - 128
        centred[count] = 1
        whole = torch._int_mm(centred, self.high.T)[: count + 1].double() * 128
        whole += torch._int_mm(centred, self.low.T)[: count + 1]
        return (whole[:count] + (128 - middle) * whole[count]) * GRID

    def whole_floats(self) -> Array:
        """The rows' whole numbers."""
        return self.floating.T


def signs(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Random signs, in 8 bits."""
    count = math.prod(shape)
    drawn = np.random.Generator(np.random.PCG64((seed, 0))).bytes(-(-count // 8))
    made = np.unpackbits(np.frombuffer(drawn, np.uint8), count=count).view(np.int8)
    made *= 2
    made -= 1
    return made.reshape(shape)


def choice(seed: int, count: int, among: int) -> np.ndarray:
    """``count`` different places out of ``among``, in order."""
    generator = np.random.Generator(np.random.PCG64((seed, 1)))
    return np.sort(generator.choice(among, count, replace=False, shuffle=False))
