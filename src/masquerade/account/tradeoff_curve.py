"""The trade-off curve of an event: how few misses an attacker with few false alarms can have."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri

from masquerade.account.compose import finer, gaussian_mu_of, is_not_private
from masquerade.account.law import TooFine
from masquerade.account.parts import parts_of
from masquerade.events import DpEvent
from masquerade.guarantee import Relation

_LOST = 1e-9  # chance that the grids may leave out
_CLOSE = 1e-4  # change of the rate at which a finer grid is not worth it


def false_negative_rate(false_positive: float, event: DpEvent, *, relation: Relation) -> float:
    """A lower bound on the miss rate of any test with that false-alarm rate [dong2019, Prop. 2.5].

    The curve is the upper envelope of the lines that each (epsilon, delta(epsilon)) gives. The
    deltas are upper bounds, so the rate is never above the truth; zero where nothing is known.
    """
    if any(is_not_private(part) for part, _ in parts_of(event)):
        return 0.0
    mu = gaussian_mu_of(event, relation=relation)
    if mu is not None:
        return float(ndtr(-ndtri(false_positive) - mu)) * (1 - 1e-9)
    best = 0.0
    try:
        for sums in finer(parts_of(event), relation, delta=_LOST):
            curves = [each.at(0.0) for each in sums]
            epsilons = np.unique(np.maximum(np.concatenate([c.losses for c in curves]), 0.0))
            epsilons = epsilons[epsilons < 700]
            deltas = np.max([curve.delta(epsilons) for curve in curves], axis=0)
            first = 1 - deltas - np.exp(epsilons) * false_positive
            second = np.exp(-epsilons) * (1 - deltas - false_positive)
            found = float(np.max(np.maximum(np.maximum(first, second), 0.0)))
            moved, best = found - best, max(best, found)
            if moved <= _CLOSE * best and math.isfinite(moved):
                break
    except TooFine:
        pass
    return best
