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

Renyi divergences of events at one real order: what a Renyi filter charges.

For a pair (P, Q) of outputs of neighbours, D_a = log E_Q[(P/Q)^a] / (a - 1), the larger of both
directions. Divergences of independent events add.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from masquerade import _check
from masquerade._optional import optimize, scipy, special
from masquerade.accounting.losses import (
    DominatingPair,
    LossLaw,
    TooFine,
    UnsupportedEvent,
    find_distance,
    make_pair,
    split_event,
)
from masquerade.events import (
    BoundedRangeDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    MixtureOfGaussiansDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RevealedSampledDpEvent,
)
from masquerade.guarantee import Relation

MAX_POINTS = 2**22
_UNIT = 2.0**-53
_BUTTERFLY_ERROR = 16 * _UNIT  # of one butterfly
_OUTSIDE_CHANCE = 1e-10  # chance outside the window, under the tilted law
_BOUND_TILTS = (0.1, 0.5, 2.0, 7.0)  # tilts that bound it, in inverse deviations
_MAX_EXPONENT = 600.0
_MIN_LOG = -640.0  # of a chance beside the largest
_MIN_LOG_PEAK = (
    -2.0
)  # log of the chance that the sum is its likeliest value, from which that is kept


@dataclass(frozen=True)
class LossSum:
    """A sum of losses: so many of each law, on one grid."""

    parts: Sequence[tuple[LossLaw, int]]
    interval: float

    def compute_cumulants(self, theta: float) -> tuple[float, float, float]:
        """K(theta) and its first two derivatives: the tilted sum's mean and variance."""
        total = mean = variance = 0.0
        for law, count in self.parts:
            losses = self._list_losses(law)
            tilted, log_mass = _tilt_law(law, losses, theta)
            here = float(np.sum(tilted * losses))  # a product would wake up other threads
            total += count * log_mass
            mean += count * here
            variance += count * float(np.sum(tilted * np.square(losses - here)))
        return total, mean, variance

    def find_tilt(self, delta: float) -> float:
        """The theta at which the sum is centred about where delta is reached."""
        most = 40 / self.interval

        def excess_log_tail(log_theta: float) -> float:
            theta = math.exp(log_theta)
            total, mean, _ = self.compute_cumulants(theta)
            return total - theta * mean - math.log(delta)

        low, high = math.log(min(1e-3, most / 2)), math.log(most)
        while excess_log_tail(low) < 0:
            low -= 4
            if low < -60:
                return math.exp(low)  # delta is nearly one
        middle = low
        while middle < high and excess_log_tail(middle) > 0:
            low, middle = middle, middle + 2
        if middle >= high:
            return most
        return math.exp(float(optimize.brentq(excess_log_tail, low, middle, xtol=0.02)))

    def _list_losses(self, law: LossLaw) -> np.ndarray:
        return (law.first + np.arange(len(law.chances))) * self.interval

    def _find_window(self, theta: float) -> tuple[int, int]:
        """First point and number of points that hold all but a hair of the tilted sum."""
        total, _, variance = self.compute_cumulants(theta)
        deviation = max(math.sqrt(variance), self.interval)
        top, bottom = math.inf, -math.inf
        for share in _BOUND_TILTS:
            step = share / deviation
            above, below = (
                self.compute_cumulants(theta + step)[0],
                self.compute_cumulants(theta - step)[0],
            )
            top = min(top, (above - total - math.log(_OUTSIDE_CHANCE)) / step)
            bottom = max(bottom, (total - below + math.log(_OUTSIDE_CHANCE)) / step)
        points = (top - bottom) / self.interval + 4
        if not points <= MAX_POINTS:
            raise TooFine
        return math.floor(bottom / self.interval), 1 << max(4, math.ceil(math.log2(points)))

    def tilt_at(self, theta: float) -> DeltaCurve:
        """All deltas near where the tilted sum is centred.

        Raises:
            TooFine: if the window has too many points.
        """
        total, centre, _ = self.compute_cumulants(theta)
        if [count for _, count in self.parts] == [1]:
            return self._tilt_single(self.parts[0][0], centre)
        start, points = self._find_window(theta)
        powers = np.zeros(points // 2 + 1, dtype=np.complex128)
        excess = np.zeros(points // 2 + 1)  # log of how much larger each may be
        bulk = np.zeros(points // 2 + 1)  # what rounding of powers is measured by
        origin, log_stay, log_room = 0, 0.0, 0.0
        for law, count in self.parts:
            losses = self._list_losses(law)
            tilted, _ = _tilt_law(law, losses, theta)
            likeliest = int(np.argmax(tilted))
            stay, tilted[likeliest] = float(tilted[likeliest]), 0.0
            places = (np.arange(len(tilted)) - likeliest) % points
            others = scipy.fft.rfft(np.bincount(places, tilted, points)) / stay
            error = _BUTTERFLY_ERROR * math.log2(points) * float(tilted.sum()) / stay
            size = _log_size(others)
            angle = np.arctan2(others.imag, 1 + others.real)
            powers += count * (size + 1j * angle)
            bulk += count * (np.abs(size) + np.abs(angle))
            excess += count * np.log1p(error * np.exp(-size))
            origin += count * (law.first + likeliest)
            log_stay += count * math.log(stay)
            log_room += count * _UNIT * (16 + 4 * theta * float(np.abs(losses).max()))
        is_kept = log_stay > _MIN_LOG_PEAK  # then it is left out of the transform
        spectrum = (
            _compute_expm1(powers) * math.exp(log_stay) if is_kept else np.exp(powers + log_stay)
        )
        sizes = np.exp(powers.real + log_stay)
        with np.errstate(over="ignore"):
            most = np.exp(powers.real + log_stay + np.maximum(excess, 1.0))
            unsure = np.where(excess < 1, sizes * np.expm1(np.minimum(excess, 1.0)), most)
            unsure += 8 * _UNIT * (bulk + abs(log_stay)) * (sizes + unsure)
            unsure += _BUTTERFLY_ERROR * math.log2(points) * np.abs(spectrum)
        chances = np.maximum(
            np.roll(scipy.fft.irfft(spectrum, points), (origin - start) % points), 0.0
        )
        chances += 2 * float(unsure.sum()) / points
        if is_kept:
            chances[(origin - start) % points] += math.exp(log_stay)
        return DeltaCurve(
            losses=(start + np.arange(points)) * self.interval,
            interval=self.interval,
            chances=chances,
            theta=theta,
            centre=centre,
            log_scale=total - theta * centre + log_room,
            outside=_OUTSIDE_CHANCE,
            lost=sum(count * law.lost for law, count in self.parts),
        )

    def _tilt_single(self, law: LossLaw, centre: float) -> DeltaCurve:
        """A single loss needs no transform."""
        return DeltaCurve(
            losses=self._list_losses(law),
            interval=self.interval,
            chances=law.chances,
            theta=0.0,
            centre=centre,
            log_scale=0.0,
            outside=0.0,
            lost=law.lost,
        )


@dataclass(frozen=True)
class DeltaCurve:
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
            weights = self.chances * np.exp(np.clip(tilts, -_MAX_EXPONENT, _MAX_EXPONENT))
            later = scipy.signal.lfilter([1.0], [1.0, -math.exp(-self.interval)], weights[::-1])[
                ::-1
            ]
            falls = -math.expm1(-self.interval) * later
            found = np.append(np.cumsum(falls[:0:-1])[::-1], 0.0)
            scale = math.exp(min(self.log_scale, _MAX_EXPONENT))
            over = math.exp(min(self.log_scale + tilts[-1], _MAX_EXPONENT)) * self.outside
        found = found * scale * (1 + 8 * _UNIT * len(found)) + over + self.lost
        found[tilts > _MAX_EXPONENT] = 1.0
        return np.minimum(np.nan_to_num(found, nan=1.0), 1.0)

    def find_delta(self, epsilons: np.ndarray) -> np.ndarray:
        """Upper bounds on delta at any epsilons: that of the grid point before each."""
        place = np.floor((epsilons - self.losses[0]) / self.interval - 1e-9)
        found = self.deltas[np.clip(place, 0, len(self.losses) - 1).astype(int)]
        return np.asarray(np.where(place < 0, 1.0, found))

    def find_epsilon(self, delta: float) -> float:
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


def _tilt_law(law: LossLaw, losses: np.ndarray, theta: float) -> tuple[np.ndarray, float]:
    """Chances in proportion to e^{theta loss}, adding up to one, and the log of what they were."""
    exponents = theta * losses
    if float(np.abs(exponents).max()) < 30:
        raised = law.chances * np.expm1(exponents)
        log_mass = math.log1p(math.fsum([float(raised.sum()), -law.lost]))
        return (law.chances + raised) * math.exp(-log_mass), log_mass
    with np.errstate(divide="ignore"):
        logs = exponents + np.log(law.chances)
    highest = float(logs.max())
    raised = np.where(logs - highest > _MIN_LOG, np.exp(np.maximum(logs - highest, _MIN_LOG)), 0)
    mass = float(raised.sum())
    return raised / mass, highest + math.log(mass)


def _log_size(change: np.ndarray) -> np.ndarray:
    """log |1 + change|, also where either is tiny."""
    near = 2 * change.real + np.abs(change) ** 2
    far = np.log(np.maximum(np.abs(1 + change), 1e-300))
    return np.asarray(np.where(np.abs(near) < 0.5, np.log1p(np.maximum(near, -0.9)) / 2, far))


def _compute_expm1(powers: np.ndarray) -> np.ndarray:
    """e^powers - 1, also where powers are tiny."""
    grown, half = np.expm1(powers.real), np.sin(powers.imag / 2)
    real = grown * np.cos(powers.imag) - 2 * half * half
    return np.asarray(real + 1j * (grown + 1) * np.sin(powers.imag))


_CELLS_PER_SIGMA = 12  # of the quadrature
_MAX_POINTS = 2_000_000
_ORDERS = tuple(1 + 2.0 ** (k / 2) / 16 for k in range(32))
_MAX_LOG_STEP = 10.0  # how far beyond them to look, in log(order - 1)


def renyi_divergence(event: DpEvent, *, order: float, relation: Relation) -> float:
    """An upper bound on the Renyi divergence of ``event`` at ``order`` > 1.

    Example:
        >>> renyi_divergence(GaussianDpEvent(2.0), order=4.0, relation=Relation.ZERO_OUT)
        0.5
    """
    _check.finite(order=order)
    if order <= 1:
        raise ValueError(f"Expected order to be above 1, got order={order}.")
    total = 0.0
    for part, count in split_event(event):
        total += count * _simple_divergence(part, order, relation)
    return total


def renyi_bound(event: DpEvent, *, delta: float, relation: Relation) -> float:
    """An upper bound on epsilon at any delta, by the best order [canonne2020].

    The best of a fixed list; where every divergence is a closed form, the best near that one.
    """

    def epsilon_at_order(order: float) -> float:
        return renyi_divergence(event, order=order, relation=relation) + renyi_conversion_term(
            order, delta
        )

    found = [epsilon_at_order(order) for order in _ORDERS]
    best = int(np.argmin(found))
    sampled = (PoissonSampledDpEvent, MixtureOfGaussiansDpEvent)
    is_closed = not any(isinstance(part, sampled) for part, _ in split_event(event))
    if is_closed and math.isfinite(found[best]):
        steps = [math.log(order - 1) for order in _ORDERS]
        low = steps[best - 1] if best > 0 else steps[0] - _MAX_LOG_STEP
        high = steps[best + 1] if best + 1 < len(steps) else steps[-1] + _MAX_LOG_STEP
        near = optimize.minimize_scalar(
            lambda step: epsilon_at_order(1 + math.exp(step)),
            bounds=(low, high),
            options={"xatol": 1e-6},
        )
        found.append(float(near.fun))
    return max(float(min(found)), 0.0)


def renyi_conversion_term(order: float, delta: float) -> float:
    """What is added to a divergence at ``order`` to make it an epsilon at ``delta``."""
    return math.log((order - 1) / order) - (math.log(delta) + math.log(order)) / (order - 1)


def _simple_divergence(event: DpEvent, order: float, relation: Relation) -> float:
    distance = find_distance(relation)
    match event:
        case NoOpDpEvent():
            return 0.0
        case NonPrivateDpEvent():
            return math.inf
        case GaussianDpEvent(noise_multiplier=z):
            return float(order * (distance / z) * (distance / z) / 2) if z > 0 else math.inf
        case LaplaceDpEvent(noise_multiplier=z):
            return _laplace_divergence(order, distance / z) if z > 0 else math.inf
        case BoundedRangeDpEvent(bound=bound):
            return _range_divergence(order, distance * bound)
        case RevealedSampledDpEvent(sampling_probability=q, event=GaussianDpEvent() as inner):
            if relation is Relation.ADD_REMOVE or inner.noise_multiplier == 0:
                return math.inf
            # log(1 - q + q exp(a (a-1) D^2 / (2 z^2))) / (a - 1), exact
            ratio = distance / inner.noise_multiplier
            exponent = order * (order - 1) * ratio * ratio / 2
            mixed = special.logsumexp([0.0, exponent], b=[1 - q, q])
            return max(float(mixed), 0.0) / (order - 1)
        case PoissonSampledDpEvent(event=GaussianDpEvent()) | MixtureOfGaussiansDpEvent():
            return _mixture_divergence(order, make_pair(event, relation), relation)
    raise UnsupportedEvent(f"Expected an event with a known Renyi divergence, got {event}.")


def _laplace_divergence(order: float, shift: float) -> float:
    """Laplace noise of scale one, shifted [mironov2017, Prop. 6].

    Where the closed form would cancel, pure DP bounds it: a shift^2 / 2 [bun2016, Prop. 1.4].
    """
    if shift < 1e-3:
        return order * shift * shift / 2
    terms = [(order - 1) * shift, -order * shift]
    weights = [order / (2 * order - 1), (order - 1) / (2 * order - 1)]
    return float(special.logsumexp(terms, b=weights)) / (order - 1) * (1 + 1e-9) + 1e-12


def _range_divergence(order: float, width: float) -> float:
    r"""A loss Z = log P/Q that lies in an interval of length eta: at most a eta^2/8 [cesar2021].

    K(a) = log E_Q[e^{aZ}] is zero at 0 and at 1, so K(a) = a (a-1) K''(x)/2 for some x between 0
    and a. K''(x) is the variance of Z under a tilted law, on the same interval: at most eta^2/4.
    And the loss itself, whose mean of e^Z is one, is at most eta.
    """
    return min(order * width * width / 8, width)


def _mixture_divergence(order: float, pair: DominatingPair, relation: Relation) -> float:
    """A sampled Gaussian, or a group of its units, by quadrature of its dominating pair.

    The integrand is a sum of Gaussians of width z or more: with 12 cells a sigma the trapezoid's
    error is far below the 1e-9 that is added.
    """
    z = pair.deviation
    if z == 0:
        return math.inf
    reach = (2 * order + 1) * max(pair.shifts) + 12 * z
    points = math.ceil(2 * reach / z * _CELLS_PER_SIGMA)
    if points > _MAX_POINTS:
        return math.inf
    x = np.linspace(-reach, reach, points)
    step = math.log(x[1] - x[0])
    plain = -((x / z) ** 2) / 2 - math.log(z * math.sqrt(2 * math.pi))

    def log_mix(side: int) -> np.ndarray:
        terms = [
            math.log(weight) + (side * shift * x - shift * shift / 2) / (z * z)
            for weight, shift in zip(pair.weights, pair.shifts, strict=True)
        ]
        terms += [np.full(points, math.log(pair.rest_weight))] if pair.rest_weight > 0 else []
        return np.asarray(plain + np.logaddexp.reduce(terms))

    first = log_mix(1)
    second = log_mix(-1) if relation is Relation.REPLACE_ONE else plain

    def one_way(p: np.ndarray, r: np.ndarray) -> float:
        return float(special.logsumexp(order * p - (order - 1) * r) + step) / (order - 1)

    return max(one_way(first, second), one_way(second, first), 0.0) * (1 + 1e-9) + 1e-12
