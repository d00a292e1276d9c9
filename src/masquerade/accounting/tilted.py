r"""Many losses added up, exactly enough for any delta.

The chance of a sum of losses is found by a Fourier transform of one loss, to a power. Rounding in
it is a fixed part of the largest chance, while delta may be far smaller than that. So the loss is
tilted first [esscher1932]: with theta > 0 and K(theta) = log E e^{theta L},

    P(S = s) = e^{K(theta) - theta s} P_theta(S = s),

and under P_theta the sum is centred where delta is decided. There rounding is a small part of
delta itself, whatever delta is. Any theta is valid; a good one makes the error small.

Rounding is bounded, not guessed. An output of a fast transform of n numbers is a sum over its
inputs, each along a path of log2 n butterflies [higham2002, Sec. 24.1]; so it is off by at most
c u log2(n) times the sum of their sizes, with c below 8, and we take 16. One loss is transformed
without its likeliest value, and where the sum most likely stays there, that is left out of the
second transform as well: both errors are then a part of what is not there. T-th powers are known
to T times the first, and chances to the mean over frequencies of both.

The transform wraps around; the window is placed so that hardly anything is outside, and what is
above it counts in full [chernoff1952].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from masquerade._optional import optimize, scipy
from masquerade.accounting.losses import LossLaw, TooFine

MOST_POINTS = 2**22
_UNIT = 2.0**-53
_PATH = 16 * _UNIT  # of one butterfly
_OUTSIDE = 1e-10  # chance outside the window, under the tilted law
_SHARES = (0.1, 0.5, 2.0, 7.0)  # tilts that bound it, in inverse deviations
_MOST_EXPONENT = 600.0
_LEAST_LOG = -640.0  # of a chance beside the largest
_LOG_KEPT = -2.0  # log of the chance that the sum is its likeliest value, from which that is kept


@dataclass(frozen=True)
class Sum:
    """A sum of losses: so many of each law, on one grid."""

    parts: Sequence[tuple[LossLaw, int]]
    interval: float

    def cumulants(self, theta: float) -> tuple[float, float, float]:
        """K(theta) and its first two derivatives: the tilted sum's mean and variance."""
        total = mean = variance = 0.0
        for law, count in self.parts:
            losses = self._losses(law)
            tilted, log_mass = _tilted(law, losses, theta)
            here = float(np.sum(tilted * losses))  # a product would wake up other threads
            total += count * log_mass
            mean += count * here
            variance += count * float(np.sum(tilted * np.square(losses - here)))
        return total, mean, variance

    def tilt(self, delta: float) -> float:
        """The theta at which the sum is centred about where delta is reached."""
        most = 40 / self.interval

        def excess(log_theta: float) -> float:
            theta = math.exp(log_theta)
            total, mean, _ = self.cumulants(theta)
            return total - theta * mean - math.log(delta)

        low, high = math.log(min(1e-3, most / 2)), math.log(most)
        while excess(low) < 0:
            low -= 4
            if low < -60:
                return math.exp(low)  # delta is nearly one
        middle = low
        while middle < high and excess(middle) > 0:
            low, middle = middle, middle + 2
        if middle >= high:
            return most
        return math.exp(float(optimize.brentq(excess, low, middle, xtol=0.02)))

    def _losses(self, law: LossLaw) -> np.ndarray:
        return (law.first + np.arange(len(law.chances))) * self.interval

    def _window(self, theta: float) -> tuple[int, int]:
        """First point and number of points that hold all but a hair of the tilted sum."""
        total, _, variance = self.cumulants(theta)
        deviation = max(math.sqrt(variance), self.interval)
        top, bottom = math.inf, -math.inf
        for share in _SHARES:
            step = share / deviation
            above, below = self.cumulants(theta + step)[0], self.cumulants(theta - step)[0]
            top = min(top, (above - total - math.log(_OUTSIDE)) / step)
            bottom = max(bottom, (total - below + math.log(_OUTSIDE)) / step)
        points = (top - bottom) / self.interval + 4
        if not points <= MOST_POINTS:
            raise TooFine
        return math.floor(bottom / self.interval), 1 << max(4, math.ceil(math.log2(points)))

    def at(self, theta: float) -> Curve:
        """All deltas near where the tilted sum is centred.

        Raises:
            TooFine: if the window has too many points.
        """
        total, centre, _ = self.cumulants(theta)
        if [count for _, count in self.parts] == [1]:
            return self._alone(self.parts[0][0], centre)
        start, points = self._window(theta)
        powers = np.zeros(points // 2 + 1, dtype=np.complex128)
        excess = np.zeros(points // 2 + 1)  # log of how much larger each may be
        bulk = np.zeros(points // 2 + 1)  # what rounding of powers is measured by
        origin, log_stay, log_room = 0, 0.0, 0.0
        for law, count in self.parts:
            losses = self._losses(law)
            tilted, _ = _tilted(law, losses, theta)
            likeliest = int(np.argmax(tilted))
            stay, tilted[likeliest] = float(tilted[likeliest]), 0.0
            places = (np.arange(len(tilted)) - likeliest) % points
            others = scipy.fft.rfft(np.bincount(places, tilted, points)) / stay
            error = _PATH * math.log2(points) * float(tilted.sum()) / stay
            size = _log_size(others)
            angle = np.arctan2(others.imag, 1 + others.real)
            powers += count * (size + 1j * angle)
            bulk += count * (np.abs(size) + np.abs(angle))
            excess += count * np.log1p(error * np.exp(-size))
            origin += count * (law.first + likeliest)
            log_stay += count * math.log(stay)
            log_room += count * _UNIT * (16 + 4 * theta * float(np.abs(losses).max()))
        is_kept = log_stay > _LOG_KEPT  # then it is left out of the transform
        spectrum = _expm1(powers) * math.exp(log_stay) if is_kept else np.exp(powers + log_stay)
        sizes = np.exp(powers.real + log_stay)
        with np.errstate(over="ignore"):
            most = np.exp(powers.real + log_stay + np.maximum(excess, 1.0))
            unsure = np.where(excess < 1, sizes * np.expm1(np.minimum(excess, 1.0)), most)
            unsure += 8 * _UNIT * (bulk + abs(log_stay)) * (sizes + unsure)
            unsure += _PATH * math.log2(points) * np.abs(spectrum)
        chances = np.maximum(
            np.roll(scipy.fft.irfft(spectrum, points), (origin - start) % points), 0.0
        )
        chances += 2 * float(unsure.sum()) / points
        if is_kept:
            chances[(origin - start) % points] += math.exp(log_stay)
        return Curve(
            losses=(start + np.arange(points)) * self.interval,
            interval=self.interval,
            chances=chances,
            theta=theta,
            centre=centre,
            log_scale=total - theta * centre + log_room,
            outside=_OUTSIDE,
            lost=sum(count * law.lost for law, count in self.parts),
        )

    def _alone(self, law: LossLaw, centre: float) -> Curve:
        """A single loss needs no transform."""
        return Curve(
            losses=self._losses(law),
            interval=self.interval,
            chances=law.chances,
            theta=0.0,
            centre=centre,
            log_scale=0.0,
            outside=0.0,
            lost=law.lost,
        )


@dataclass(frozen=True)
class Curve:
    """Upper bounds on delta over a window of epsilons.

    Args:
        losses: the grid points of the window.
        interval: between them.
        chances: of the tilted sum, each with its rounding.
        theta: how far it is tilted.
        centre: about the tilted mean; chances are weighted relative to it.
        log_scale: log of what the weighted sum is multiplied by.
        outside: chance, of the tilted sum, to be above the window.
        lost: chance of an infinite loss.
    """

    losses: np.ndarray
    interval: float
    chances: np.ndarray
    theta: float
    centre: float
    log_scale: float
    outside: float
    lost: float

    @cached_property
    def deltas(self) -> np.ndarray:
        """At every grid point of the window: sums of positive terms alone.

        With W_i the untilted chances, D_j = sum_{i>j} W_i (1 - e^{-(i-j)h}) falls by
        (1 - e^{-h}) sum_{i>=j} W_i e^{-(i-j)h} from one point to the next.
        """
        tilts = -self.theta * (self.losses - self.centre)
        with np.errstate(over="ignore", under="ignore"):
            weights = self.chances * np.exp(np.clip(tilts, -_MOST_EXPONENT, _MOST_EXPONENT))
            later = scipy.signal.lfilter([1.0], [1.0, -math.exp(-self.interval)], weights[::-1])[
                ::-1
            ]
            falls = -math.expm1(-self.interval) * later
            found = np.append(np.cumsum(falls[:0:-1])[::-1], 0.0)
            scale = math.exp(min(self.log_scale, _MOST_EXPONENT))
            over = math.exp(min(self.log_scale + tilts[-1], _MOST_EXPONENT)) * self.outside
        found = found * scale * (1 + 8 * _UNIT * len(found)) + over + self.lost
        found[tilts > _MOST_EXPONENT] = 1.0
        return np.minimum(np.nan_to_num(found, nan=1.0), 1.0)

    def delta(self, epsilons: np.ndarray) -> np.ndarray:
        """Upper bounds on delta at any epsilons: that of the grid point before each."""
        place = np.floor((epsilons - self.losses[0]) / self.interval - 1e-9)
        found = self.deltas[np.clip(place, 0, len(self.losses) - 1).astype(int)]
        return np.asarray(np.where(place < 0, 1.0, found))

    def epsilon(self, delta: float) -> float:
        """The least epsilon in the window at which delta is met; infinite if there is none."""
        is_met = self.deltas <= delta
        if not is_met.any():
            return math.inf
        place = int(np.argmax(is_met))
        found = float(self.losses[place])
        if place > 0 and found > 0:  # between two points delta is a line in e^epsilon
            above, here = float(self.deltas[place - 1]), float(self.deltas[place])
            back = math.expm1(float(self.losses[place - 1]) - found) * (delta - here)
            found += math.log1p(back / (above - here)) * (1 - 1e-12)
        return max(found, 0.0)


def _tilted(law: LossLaw, losses: np.ndarray, theta: float) -> tuple[np.ndarray, float]:
    """Chances in proportion to e^{theta loss}, adding up to one, and the log of what they were."""
    exponents = theta * losses
    if float(np.abs(exponents).max()) < 30:
        raised = law.chances * np.expm1(exponents)
        log_mass = math.log1p(math.fsum([float(raised.sum()), -law.lost]))
        return (law.chances + raised) * math.exp(-log_mass), log_mass
    with np.errstate(divide="ignore"):
        logs = exponents + np.log(law.chances)
    highest = float(logs.max())
    raised = np.where(
        logs - highest > _LEAST_LOG, np.exp(np.maximum(logs - highest, _LEAST_LOG)), 0
    )
    mass = float(raised.sum())
    return raised / mass, highest + math.log(mass)


def _log_size(change: np.ndarray) -> np.ndarray:
    """log |1 + change|, also where either is tiny."""
    near = 2 * change.real + np.abs(change) ** 2
    far = np.log(np.maximum(np.abs(1 + change), 1e-300))
    return np.asarray(np.where(np.abs(near) < 0.5, np.log1p(np.maximum(near, -0.9)) / 2, far))


def _expm1(powers: np.ndarray) -> np.ndarray:
    """e^powers - 1, also where powers are tiny."""
    grown, half = np.expm1(powers.real), np.sin(powers.imag / 2)
    real = grown * np.cos(powers.imag) - 2 * half * half
    return np.asarray(real + 1j * (grown + 1) * np.sin(powers.imag))
