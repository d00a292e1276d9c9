r"""What a run costs somebody who is in several of its units at once.

A holder of k units is drawn J ~ Bin(k, q) times, and what a batch then adds has norm at most J C.
Given everybody else's coins, both neighbours are mixtures of Gaussians around such sums. By
Gaussian interpolation every hockey-stick divergence grows with the inner products of sums of one
neighbour and falls with those between two: in the worst case all of them are aligned, at their
largest norm, and opposite for replace_one. Taking k for each J >= 1 only moves them further. So

    Poisson(q, Gaussian(z)) for one unit  ->  Poisson(1 - (1-q)^k, Gaussian(z / k)) for k of them,

and the same where the batch is revealed. It is a bound, not the exact law; with `--unit subject` a
person is one unit and nothing of this is paid.
"""

from __future__ import annotations

import math

from masquerade import _check
from masquerade.account.parts import UnsupportedEvent
from masquerade.events import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RevealedSampledDpEvent,
    SelfComposedDpEvent,
)


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
            return GaussianDpEvent(z / units if z % units == 0 else _down(z / units))
        case PoissonSampledDpEvent(sampling_probability=q, event=GaussianDpEvent() as inner):
            return PoissonSampledDpEvent(_any_of(q, units), group_event(inner, units))
        case RevealedSampledDpEvent(sampling_probability=q, event=GaussianDpEvent() as inner):
            return RevealedSampledDpEvent(_any_of(q, units), group_event(inner, units))
    raise UnsupportedEvent(f"Expected sampled or plain Gaussian noise for a group, got {event}.")


def _any_of(q: float, units: int) -> float:
    """1 - (1-q)^k, rounded up."""
    if q >= 1:
        return 1.0
    return min(1.0, -math.expm1(units * math.log1p(-q)) * (1 + 1e-12))


def _down(value: float) -> float:
    return math.nextafter(value, 0.0)
