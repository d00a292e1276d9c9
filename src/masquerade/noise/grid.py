"""The grid that released numbers lie on: how fine it is, and what rounding to it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from masquerade import _check

GRID_BITS = 20  # sigma is at least 2^20 cells wide
MAX_WHOLE = 2.0**52  # cells from zero: beyond, a sum would not be exact
MAX_SCALE_CELLS = 2.0**30  # a scale: beyond, too many numbers would need mpmath


def find_grid(scale: float) -> float:
    """The largest power of two that is at most ``scale`` 2^-20.

    Example:
        >>> find_grid(138.5) == 2.0**-13
        True
    """
    _check.positive(scale=scale)
    grid = math.ldexp(0.5, math.frexp(scale)[1] - GRID_BITS)
    _check.positive(grid=grid)
    return grid


@dataclass(frozen=True)
class Scale:
    """Noise for a statistic that is first rounded to the grid.

    Args:
        sigma: standard deviation of the noise.
        grid: the grid that statistic and noise lie on.
        sensitivity: L2 sensitivity of the *rounded* statistic.
    """

    sigma: float
    grid: float
    sensitivity: float


def find_scale(sensitivity: float, *, mu: float, coordinates: int) -> Scale:
    """Noise that makes a statistic mu-GDP, rounding included."""
    _check.positive(sensitivity=sensitivity, mu=mu)
    _check.count(coordinates=coordinates)
    grid = find_grid(sensitivity / mu)
    while grid * math.sqrt(coordinates) > sensitivity / 32:  # many numbers and little budget
        grid /= 2
    if sensitivity / mu / grid >= MAX_SCALE_CELLS / 2:
        raise ValueError(
            f"Expected a budget that this many numbers can share, got mu={mu:g} for "
            f"{coordinates} of them; raise epsilon or choose a smaller unit."
        )
    rounded = compute_rounded_bound(sensitivity, grid, coordinates)
    return Scale(sigma=rounded / mu * (1 + 2.0**-50), grid=grid, sensitivity=rounded)


def compute_rounded_bound(sensitivity: float, grid: float, coordinates: int) -> float:
    """L2 sensitivity of a statistic after it was rounded to the grid.

    Rounding moves each coordinate by at most g/2, so two neighbours that differ in ``coordinates``
    places come apart by at most g sqrt(coordinates) more.
    """
    return (sensitivity + grid * math.sqrt(coordinates)) * (1 + 2.0**-50)


def round_to_grid(values: np.ndarray, grid: float) -> np.ndarray:
    """``values`` rounded to multiples of ``grid``, a power of two, in float64.

    Raises:
        ValueError: if a value is 2^52 cells or more from zero; the sum would not be exact.
    """
    if math.frexp(grid)[0] != 0.5:
        raise ValueError(f"Expected grid to be a power of two, got grid={grid}.")
    cells = np.rint(np.asarray(values, dtype=np.float64) / grid)
    if cells.size and not np.max(np.abs(cells)) < MAX_WHOLE:
        raise make_range_error(grid)
    return np.asarray(cells * grid)


def make_range_error(grid: float) -> ValueError:
    """What is said of values that are 2^52 cells or more from zero."""
    return ValueError(
        f"Expected values below 2^52 cells of the grid {grid}; narrow the value range."
    )
