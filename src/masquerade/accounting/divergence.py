r"""Renyi divergences of events at one real order: what a Renyi filter charges.

For a pair (P, Q) of outputs of neighbours, D_a = log E_Q[(P/Q)^a] / (a - 1), the larger of both
directions. Divergences of independent events add.
"""

from __future__ import annotations

import math

import numpy as np

from masquerade import _check
from masquerade._optional import optimize, special
from masquerade.accounting.losses import Pair, UnsupportedEvent, distance_of, pair_of, parts_of
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

_CELLS_A_SIGMA = 12  # of the quadrature
_MOST_POINTS = 2_000_000
_ORDERS = tuple(1 + 2.0 ** (k / 2) / 16 for k in range(32))
_FURTHER = 10.0  # how far beyond them to look, in log(order - 1)


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
    for part, count in parts_of(event):
        total += count * _single(part, order, relation)
    return total


def renyi_bound(event: DpEvent, *, delta: float, relation: Relation) -> float:
    """An upper bound on epsilon at any delta, by the best order [canonne2020].

    The best of a fixed list; where every divergence is a closed form, the best near that one.
    """

    def at(order: float) -> float:
        return renyi_divergence(event, order=order, relation=relation) + conversion(order, delta)

    found = [at(order) for order in _ORDERS]
    best = int(np.argmin(found))
    sampled = (PoissonSampledDpEvent, MixtureOfGaussiansDpEvent)
    is_closed = not any(isinstance(part, sampled) for part, _ in parts_of(event))
    if is_closed and math.isfinite(found[best]):
        steps = [math.log(order - 1) for order in _ORDERS]
        low = steps[best - 1] if best > 0 else steps[0] - _FURTHER
        high = steps[best + 1] if best + 1 < len(steps) else steps[-1] + _FURTHER
        near = optimize.minimize_scalar(
            lambda step: at(1 + math.exp(step)), bounds=(low, high), options={"xatol": 1e-6}
        )
        found.append(float(near.fun))
    return max(float(min(found)), 0.0)


def conversion(order: float, delta: float) -> float:
    """What is added to a divergence at ``order`` to make it an epsilon at ``delta``."""
    return math.log((order - 1) / order) - (math.log(delta) + math.log(order)) / (order - 1)


def _single(event: DpEvent, order: float, relation: Relation) -> float:
    distance = distance_of(relation)
    match event:
        case NoOpDpEvent():
            return 0.0
        case NonPrivateDpEvent():
            return math.inf
        case GaussianDpEvent(noise_multiplier=z):
            return float(order * (distance / z) * (distance / z) / 2) if z > 0 else math.inf
        case LaplaceDpEvent(noise_multiplier=z):
            return _laplace(order, distance / z) if z > 0 else math.inf
        case BoundedRangeDpEvent(bound=bound):
            return _bounded_range(order, distance * bound)
        case RevealedSampledDpEvent(sampling_probability=q, event=GaussianDpEvent() as inner):
            if relation is Relation.ADD_REMOVE or inner.noise_multiplier == 0:
                return math.inf
            # log(1 - q + q exp(a (a-1) D^2 / (2 z^2))) / (a - 1), exact
            ratio = distance / inner.noise_multiplier
            exponent = order * (order - 1) * ratio * ratio / 2
            mixed = special.logsumexp([0.0, exponent], b=[1 - q, q])
            return max(float(mixed), 0.0) / (order - 1)
        case PoissonSampledDpEvent(event=GaussianDpEvent()) | MixtureOfGaussiansDpEvent():
            return _sampled(order, pair_of(event, relation), relation)
    raise UnsupportedEvent(f"Expected an event with a known Renyi divergence, got {event}.")


def _laplace(order: float, shift: float) -> float:
    """Laplace noise of scale one, shifted [mironov2017, Prop. 6].

    Where the closed form would cancel, pure DP bounds it: a shift^2 / 2 [bun2016, Prop. 1.4].
    """
    if shift < 1e-3:
        return order * shift * shift / 2
    terms = [(order - 1) * shift, -order * shift]
    weights = [order / (2 * order - 1), (order - 1) / (2 * order - 1)]
    return float(special.logsumexp(terms, b=weights)) / (order - 1) * (1 + 1e-9) + 1e-12


def _bounded_range(order: float, width: float) -> float:
    r"""A loss Z = log P/Q that lies in an interval of length eta: at most a eta^2/8 [cesar2021].

    K(a) = log E_Q[e^{aZ}] is zero at 0 and at 1, so K(a) = a (a-1) K''(x)/2 for some x between 0
    and a. K''(x) is the variance of Z under a tilted law, on the same interval: at most eta^2/4.
    And the loss itself, whose mean of e^Z is one, is at most eta.
    """
    return min(order * width * width / 8, width)


def _sampled(order: float, pair: Pair, relation: Relation) -> float:
    """A sampled Gaussian, or a group of its units, by quadrature of its dominating pair.

    The integrand is a sum of Gaussians of width z or more: with 12 cells a sigma the trapezoid's
    error is far below the 1e-9 that is added.
    """
    z = pair.deviation
    if z == 0:
        return math.inf
    reach = (2 * order + 1) * max(pair.shifts) + 12 * z
    points = math.ceil(2 * reach / z * _CELLS_A_SIGMA)
    if points > _MOST_POINTS:
        return math.inf
    x = np.linspace(-reach, reach, points)
    step = math.log(x[1] - x[0])
    plain = -((x / z) ** 2) / 2 - math.log(z * math.sqrt(2 * math.pi))

    def log_mix(side: int) -> np.ndarray:
        terms = [
            math.log(weight) + (side * shift * x - shift * shift / 2) / (z * z)
            for weight, shift in zip(pair.weights, pair.shifts, strict=True)
        ]
        terms += [np.full(points, math.log(pair.rest))] if pair.rest > 0 else []
        return np.asarray(plain + np.logaddexp.reduce(terms))

    first = log_mix(1)
    second = log_mix(-1) if relation is Relation.REPLACE_ONE else plain

    def one_way(p: np.ndarray, r: np.ndarray) -> float:
        return float(special.logsumexp(order * p - (order - 1) * r) + step) / (order - 1)

    return max(one_way(first, second), one_way(second, first), 0.0) * (1 + 1e-9) + 1e-12
