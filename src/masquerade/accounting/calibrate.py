"""How much noise a target needs."""

from __future__ import annotations

import math
from collections.abc import Callable

from masquerade import _check, events
from masquerade._formatting import up_significant
from masquerade.accounting.compose import epsilon
from masquerade.accounting.losses import distance_of
from masquerade.events import DpEvent
from masquerade.guarantee import Relation
from masquerade.tradeoff import gaussian_mu

_COARSE, _FINE = 1e-3, 2e-5  # tolerances of epsilon, far from the answer and near it
_CLOSE = 1e-4  # relative distance below the target at which the search stops
_MOST_STEPS = 60
_SECANTS = 6  # after that, an open bracket is doubled, and later every one halved
_LEAST = 0.02  # a multiplier; with less, nobody should speak of noise


def gaussian_sigma(target: float, *, delta: float, sensitivity: float) -> float:
    """Smallest sigma, rounded up, of the Gaussian mechanism [balle2018, Thm 9].

    Example:
        >>> round(gaussian_sigma(1.0, delta=1e-5, sensitivity=1.0), 6)
        3.730632
    """
    _check.positive(epsilon=target, sensitivity=sensitivity)
    _check.delta(delta=delta)
    return sensitivity / gaussian_mu(target, delta) * (1 + 2.0**-50)


def sampled_gaussian(
    noise_multiplier: float, *, sampling_prob: float, steps: int, is_revealed: bool = False
) -> DpEvent:
    """The event of ``steps`` Poisson-sampled Gaussians."""
    _check.positive(noise_multiplier=noise_multiplier)
    _check.probability(sampling_prob=sampling_prob)
    _check.count(steps=steps)
    one = events.GaussianDpEvent(noise_multiplier)
    kind = events.RevealedSampledDpEvent if is_revealed else events.PoissonSampledDpEvent
    return events.SelfComposedDpEvent(kind(sampling_prob, one) if sampling_prob < 1 else one, steps)


def calibrate(
    target: float,
    *,
    delta: float,
    sampling_prob: float,
    steps: int,
    relation: Relation | str,
    is_revealed: bool = False,
) -> float:
    """A noise multiplier whose epsilon is at most ``target``, within .1 % of the smallest.

    Starts from the central limit (many sampled steps are one Gaussian with
    mu = q sqrt(T (e^{1/z^2} - 1)) [bu2020]) and follows the nearly straight line of
    log epsilon against log z by secants; what is returned was itself checked.
    """
    _check.positive(epsilon=target)
    _check.delta(delta=delta)
    relation = _check.choice(Relation, relation=relation)
    if is_revealed and relation is Relation.ADD_REMOVE:
        raise ValueError(
            "Expected zero_out or replace_one where batches are revealed, got add_remove; "
            "a revealed batch shows who is in the data, at any noise."
        )

    distance = distance_of(relation)
    mu = gaussian_mu(target, delta)
    shrunk = (mu / (sampling_prob * distance)) ** 2 / steps
    z = 1 / math.sqrt(math.log1p(shrunk)) if shrunk > 0 else 1.0
    if is_revealed or sampling_prob == 1:
        z = distance * math.sqrt(sampling_prob * steps) / mu

    def at(z: float, tolerance: float) -> float:
        event = sampled_gaussian(
            z, sampling_prob=sampling_prob, steps=steps, is_revealed=is_revealed
        )
        return epsilon(event, delta=delta, relation=relation, tolerance=tolerance)

    near, slope = _smallest(lambda z: at(z, _COARSE), target, max(z, _LEAST), close=_COARSE)
    # whoever asks for epsilon with a smaller tolerance gets no larger one
    return _smallest(lambda z: at(z, _FINE), target, near, slope=slope, close=_CLOSE)[0]


def _smallest(
    at: Callable[[float], float], target: float, start: float, *, slope: float = -1.0, close: float
) -> tuple[float, float]:
    """Smallest z with at(z) <= target, by secants on logarithms inside a shrinking bracket.

    Also returns the slope of log epsilon against log z there.
    """
    low, high = 0.0, math.inf  # at(low) > target >= at(high)
    z = start
    last: tuple[float, float] | None = None
    for turn in range(_MOST_STEPS):
        z = up_significant(z)  # what is found is the same on every processor
        here = at(z)
        if here <= target:
            high = min(high, z)
        else:
            low = max(low, z)
        width = 1e-6 if turn <= 3 * _SECANTS else 1e-2  # a jump is not worth many evaluations
        is_close = target * (1 - close) <= here <= target or high - low <= width * low
        if is_close or high <= _LEAST:
            return high, slope
        if here > 0:
            if last and abs(z / last[0] - 1) > 1e-4:
                slope = min(math.log(here / last[1]) / math.log(z / last[0]), -0.05)
            last, z = (z, here), max(_step(z, here, target, slope), _LEAST)
        is_open = turn > _SECANTS and (low == 0 or not math.isfinite(high))
        if here <= 0 or not low < z < high or is_open or turn > 3 * _SECANTS:
            z = _between(low, high)
    if math.isfinite(high):
        return high, slope
    raise ValueError(f"Expected a reachable target, got epsilon={target}; no noise reaches it.")


def _step(z: float, here: float, target: float, slope: float) -> float:
    """Where the line through (z, here) meets the target, a hair on the private side of it."""
    return z * math.exp(-(math.log(here / target) + _CLOSE / 2) / slope)


def _between(low: float, high: float) -> float:
    if not math.isfinite(high):
        return 2 * low
    return max(math.sqrt(low * high) if low > 0 else high / 2, _LEAST)
