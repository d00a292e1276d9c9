"""How precision is spread over frequencies: reverse water-filling against the prior.

Among all L of one sum the one that a Gaussian prior P asks for is L = (1/theta - 1/P)_+, and along
free axes the L with sum P^2 / (1 + P L)^2 = const.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from masquerade.release import prior
from masquerade.release.prior import Size

_RADII = 512
_RATES = np.logspace(-12, 3, 240)


class Filling(Protocol):
    """L as a function of the water level, for a component with a share of the prior."""

    def rough(self, level: float, share: float) -> tuple[float, float]:
        """The sum and the largest of L, nearly."""

    def fill(self, level: float, share: float) -> np.ndarray:
        """L on the band where it is not zero."""


def filling(size: Size, side: int, *, time_free: bool, space_free: bool) -> Filling:
    """For a video in cells of some sites a side, with axes that are free or not."""
    if time_free and space_free:
        return _Flat()
    if time_free or space_free:
        return _Along(size, side, time_free=time_free)
    return _Everywhere(size, side)


class _Whole:
    """Where L is small enough to look at all of it."""

    def rough(self, level: float, share: float) -> tuple[float, float]:
        """Exactly."""
        found = self.fill(level, share)
        return float(found.sum()), float(found.max())

    def fill(self, level: float, share: float) -> np.ndarray:
        """L on the band where it is not zero."""
        raise NotImplementedError


class _Flat(_Whole):
    """All axes are free."""

    def fill(self, level: float, share: float) -> np.ndarray:
        """One number."""
        return np.full((1, 1, 1), 1 / level)


class _Everywhere:
    """No axis is free: L = (1/level - 1/P)_+.

    P depends on the place in the plane through its radius alone, so a few hundred radii tell the
    sum. That is exact for small frames and close for large ones; what is found is calibrated
    exactly either way.
    """

    def __init__(self, size: Size, side: int) -> None:
        self._size, self._side = size, side
        self._most = prior.kept(prior.in_cells(size, side))
        plane = prior.plane_of(size, self._most[1:], side)
        times = prior.times_of(size, self._most[0])
        radii, self._counts = prior.radii_of(plane, _RADII)
        self._table = prior.at(radii[:, None], times, size)
        still = times[:1]
        self._profiles = (
            prior.at(plane[0, 0], times, size),
            prior.at(plane[:, 0], still, size),
            prior.at(plane[0], still, size),
        )

    def rough(self, level: float, share: float) -> tuple[float, float]:
        """By radii."""
        found = np.maximum(1 / level - 1 / (self._table * share), 0.0)
        return float(self._counts @ found.sum(axis=1)), float(found.max())

    def fill(self, level: float, share: float) -> np.ndarray:
        """Everywhere."""
        t, h, w = (_above(profile * share, level) for profile in self._profiles)
        box = prior.spectrum(self._size, (t, h, w), self._side)
        return np.maximum(1 / level - 1 / (box * share), 0.0)


class _Along(_Whole):
    """One r along the free axes, with sum P^2 / (1 + P r)^2 = level^2 along them.

    Solved at a few hundred radii, as above.
    """

    def __init__(self, size: Size, side: int, *, time_free: bool) -> None:
        most = prior.kept(prior.in_cells(size, side))
        self._time_free, self._plane = time_free, prior.plane_of(size, most[1:], side)
        self._radii, counts = prior.radii_of(self._plane, _RADII)
        table = prior.at(self._radii[:, None], prior.times_of(size, most[0]), size)  # (radii, F)

        def gain(rate: float) -> np.ndarray:
            held = (table / (1 + table * rate)) ** 2
            return np.asarray(held.sum(axis=1) if time_free else counts @ held)

        self._gains = np.log(np.stack([gain(rate) for rate in _RATES]))  # falling with the rate

    def fill(self, level: float, share: float) -> np.ndarray:
        """Of the axes that are not free."""
        # share enters as sum (sP)^2/(1 + sP r)^2 = s^2 gain(s r)
        goal, logs = 2 * math.log(level / share), np.log(_RATES)
        rates = np.array(
            [
                np.interp(-goal, -column, logs, left=-np.inf, right=logs[-1])
                for column in self._gains.T
            ]
        )
        found = np.exp(rates) / share
        if not self._time_free:
            return np.asarray(found[: _above(found), None, None])
        smooth = np.interp(np.log(self._plane), np.log(self._radii), found)
        return np.asarray(smooth[None, : _above(smooth[:, 0]), : _above(smooth[0])])


def _above(falling: np.ndarray, level: float = 0.0) -> int:
    """How many lie above a level; at least one."""
    return max(int(np.sum(falling > level)), 1)
