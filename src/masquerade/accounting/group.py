r"""What a run costs somebody who is in several of its units at once.

A holder of k units is drawn J ~ Bin(k, q) times, and what a batch then adds has norm at most J C.
Given everybody else's coins, both neighbours are mixtures of Gaussians around such sums. By
Gaussian interpolation every hockey-stick divergence grows with the inner products of sums of one
neighbour and falls with those between two: in the worst case all of them are aligned, at their
largest norm, and opposite for replace_one. So the pair

    sum_j Bin(j; k, q) N(j, z^2)   against   N(0, z^2), or its mirror image for replace_one,

dominates, and is reached. Rare j, and where k is large the others too, are taken together with
their neighbours, at the larger one. The likelihood ratio rises with x, so the best tests are those
of x against a threshold; a larger J only moves what they see further, so the bound stays above the
truth, and close to it: up to 400 likely j stay as they are. Where the batch is revealed, J is known
and the bound is looser: k for each J >= 1. With `--unit subject` a person is one unit and nothing
of this is paid.
"""

from __future__ import annotations

import math

import numpy as np

from masquerade import _check
from masquerade._optional import stats
from masquerade.accounting.losses import UnsupportedEvent
from masquerade.events import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    MixtureOfGaussiansDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RevealedSampledDpEvent,
    SelfComposedDpEvent,
)

# shifts of a mixture, at most, for the j beyond which there is less chance than that
_MAX_SHIFTS = {1e-40: 16, 1e-16: 400}
_RARE_LOG = 92.0  # of e^-92 = 1e-40


def group_event(event: DpEvent, units: int) -> DpEvent:
    """An event as it is felt by a holder of ``units`` of its units.

    Example:
        >>> group_event(GaussianDpEvent(4.0), 2)
        GaussianDpEvent(noise_multiplier=2.0)
    """
    _check.count(units=units)
    if units == 1 or isinstance(event, NoOpDpEvent):
        return event
    match event:
        case SelfComposedDpEvent(event=inner, count=count):
            return SelfComposedDpEvent(group_event(inner, units), count)
        case ComposedDpEvent(events=parts):
            return ComposedDpEvent([group_event(part, units) for part in parts])
        case GaussianDpEvent(noise_multiplier=z):
            return GaussianDpEvent(z / units if z % units == 0 else _round_down(z / units))
        case PoissonSampledDpEvent(sampling_probability=q, event=GaussianDpEvent() as inner):
            return _make_group_mixture(q, units, inner.noise_multiplier)
        case RevealedSampledDpEvent(sampling_probability=q, event=GaussianDpEvent() as inner):
            return RevealedSampledDpEvent(_chance_of_any(q, units), group_event(inner, units))
    raise UnsupportedEvent(f"Expected sampled or plain Gaussian noise for a group, got {event}.")


def _make_group_mixture(q: float, units: int, z: float) -> DpEvent:
    """How many of the units are drawn, as a mixture whose shifts are few."""
    if q >= 1:
        return group_event(GaussianDpEvent(z), units)
    drawn, mean = stats.binom(units, q), units * q
    # Bernstein: more than this from the mean is rarer than e^-92; the law itself says where
    far = _RARE_LOG / 3 + math.sqrt(_RARE_LOG**2 / 9 + 2 * _RARE_LOG * mean * (1 - q))
    near = np.arange(max(0, math.floor(mean - far)), min(units, math.ceil(mean + far)) + 1)
    rarer, places = np.minimum(drawn.sf(near - 1), drawn.cdf(near)), [np.array([0.0, units])]
    for rare, most in _MAX_SHIFTS.items():
        likely = near[rarer > rare]
        places.append(np.linspace(likely[0], likely[-1], min(len(likely), most)).round())
    tops = np.unique(np.concatenate(places))
    above = drawn.sf(tops[:-1]) * (1 + 1e-10)  # chance of more than each; rounded up
    chances = -np.diff(np.concatenate([[1.0], np.minimum(above, 1.0), [0.0]]))
    kept = (chances > 0) | (tops == units)
    return MixtureOfGaussiansDpEvent(z, tops[kept].tolist(), chances[kept].tolist())


def _chance_of_any(q: float, units: int) -> float:
    """1 - (1-q)^k, rounded up."""
    if q >= 1:
        return 1.0
    return min(1.0, -math.expm1(units * math.log1p(-q)) * (1 + 1e-12))


def _round_down(value: float) -> float:
    return math.nextafter(value, 0.0)
