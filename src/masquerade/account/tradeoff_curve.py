"""The trade-off curve of an event: how few misses an attacker with few false alarms can have."""

from __future__ import annotations

from typing import Any

import numpy as np

from masquerade.account.compose import pld
from masquerade.account.parts import distance_of, parts_of
from masquerade.events import DpEvent
from masquerade.guarantee import Relation

_EPSILONS = np.concatenate([[0.0], np.geomspace(1e-4, 60.0, 400)])


def false_negative_rate(false_positive: float, event: DpEvent, *, relation: Relation) -> float:
    """A lower bound on the miss rate of any test with that false-alarm rate [dong2019, Prop. 2.5].

    The curve is the upper envelope of the lines that each (epsilon, delta(epsilon)) gives. The
    deltas are those of a pessimistic distribution, so the bound is never above the truth.
    """
    ((part, count),) = parts_of(event)
    losses = pld(part, count, relation=relation, interval=_interval(part, relation))
    deltas = np.asarray(losses.get_delta_for_epsilon(_EPSILONS.tolist()))
    first = 1 - deltas - np.exp(_EPSILONS) * false_positive
    second = np.exp(-_EPSILONS) * (1 - deltas - false_positive)
    return float(np.max(np.maximum(np.maximum(first, second), 0.0)))


def _interval(event: DpEvent, relation: Relation) -> float:
    """A fifth of the loss that one step typically has: finer gains nothing."""
    inner: Any = getattr(event, "event", event)
    share = getattr(event, "sampling_probability", 1.0)
    return float(min(1e-3, 0.2 * share * distance_of(relation) / inner.noise_multiplier))
