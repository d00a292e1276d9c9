r"""The privacy loss of one event on a grid, never smaller than it is.

For a dominating pair (P, Q) the loss is log dP/dQ under P. Every cell between two grid points has a
mass under P and one under Q; putting both on the cell's two ends, so that each end has its own
likelihood ratio, gives a pair that dominates the true one and has the same delta at every grid
point [doroshenko2022]. What is beyond the last point counts as lost: an infinite loss.

Rounding, in masses and in where cells end, is bounded, and moved to the upper end of each cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MOST_CELLS = 2**22
ROUNDING = 8 * 2.0**-53  # of a short chain of operations, relative


class TooFine(Exception):
    """The grid would have more points than fit."""


@dataclass(frozen=True)
class LossLaw:
    """A loss on a grid.

    Args:
        first: index of the lowest grid point.
        chances: of the grid points from there, under P.
        lost: chance of an infinite loss.
    """

    first: int
    chances: np.ndarray
    lost: float

    def plus(self, place: int, mass: float, *, lost: float = 0.0) -> LossLaw:
        """The law with some more mass, at a grid point and lost."""
        first = min(self.first, place)
        last = max(self.first + len(self.chances), place + 1)
        chances = np.zeros(last - first)
        chances[self.first - first : self.first - first + len(self.chances)] = self.chances
        chances[place - first] += mass
        return LossLaw(first, chances, self.lost + float(lost))

    def sometimes(self, chance: float) -> LossLaw:
        """With that chance the law, and no loss at all otherwise."""
        return LossLaw(self.first, self.chances * chance, self.lost * chance).plus(0, 1 - chance)


@dataclass(frozen=True)
class Cells:
    """What lies between grid points.

    Args:
        ends: indices of the grid points, rising.
        mass: of each cell under P.
        other: under Q.
        gain: the first less the second, computed before it could cancel.
        blur: what the rounding of that difference is measured by.
        too_low: by how much the loss may be below each end.
        too_high: by how much above.
    """

    ends: np.ndarray
    mass: np.ndarray
    other: np.ndarray
    gain: np.ndarray
    blur: np.ndarray
    too_low: np.ndarray
    too_high: np.ndarray

    def swapped(self) -> Cells:
        """The same with P and Q exchanged."""
        return Cells(
            ends=-self.ends[::-1],
            mass=self.other[::-1],
            other=self.mass[::-1],
            gain=-self.gain[::-1],
            blur=self.blur[::-1],
            too_low=self.too_high[::-1],
            too_high=self.too_low[::-1],
        )

    def law(self, interval: float) -> LossLaw:
        """All masses on the ends of their cells."""
        least = self.ends[:-1] * interval
        with np.errstate(over="ignore", invalid="ignore"):
            lifted = self.other * np.expm1(np.minimum(least, 709.0))
            size = np.abs(lifted)
            unsure = ROUNDING * (self.blur + np.abs(self.gain) + size * (1 + np.abs(least)))
            unsure += 2 * (self.mass + self.other + size) * self.too_low[:-1]
            upper = (self.gain - lifted + unsure) / -np.expm1(-interval)
        upper = np.clip(np.nan_to_num(upper, nan=np.inf), 0.0, self.mass)
        share = np.expm1(-self.too_high[1:]) / np.expm1(-interval) * (1 + 1e-12)
        beyond = np.minimum(upper * share, upper)  # at an end that is a hair too low
        is_far = self.too_high[1:] > interval
        chances = np.zeros(len(self.ends) + 1)
        chances[:-2] += self.mass - upper
        chances[1:-1] += upper - beyond
        chances[2:] += np.where(is_far, 0.0, beyond)
        return LossLaw(int(self.ends[0]), chances, float(np.sum(beyond[is_far])))
