r"""Poisson sampling whose batches the attacker sees: the exact bound.

MaskDP as published adds an un-noised public gradient of the same batch, which shows who is in it.
Then nothing is amplified. Over T steps the number of times a record takes part is K ~ Bin(T, q)
and known; given K the outputs are a Gaussian with mu = sqrt(K) D / z, so

    delta(epsilon) = sum_K Bin(K; T, q) delta_gauss(epsilon, sqrt(K) D / z)

exactly, with D = 1 for zero_out and 2 for replace_one.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from scipy.optimize import brentq

from masquerade import _check
from masquerade.tradeoff import gaussian_delta


def revealed_delta(
    epsilon: float, *, sampling_prob: float, steps: int, noise_multiplier: float, distance: float
) -> float:
    """Smallest delta at ``epsilon``, rounded up: the far tails of the binomial count in full."""
    law = scipy.stats.binom(steps, sampling_prob)
    mean, spread = steps * sampling_prob, math.sqrt(steps * sampling_prob * (1 - sampling_prob))
    first = max(0, math.floor(mean - 10 * spread - 40))
    last = min(steps, math.ceil(mean + 10 * spread + 40))
    counts = np.arange(first, last + 1)
    mus = np.sqrt(counts) * (distance / noise_multiplier)
    inside = float(law.pmf(counts) @ gaussian_delta(epsilon, mus))
    return inside * (1 + 1e-10) + float(law.cdf(first - 1)) + float(law.sf(last))


def revealed_epsilon(
    *, sampling_prob: float, steps: int, noise_multiplier: float, delta: float, distance: float
) -> float:
    """Smallest epsilon at ``delta``, rounded up.

    Example:
        >>> e = revealed_epsilon(
        ...     sampling_prob=0.01, steps=1000, noise_multiplier=4, delta=1e-5, distance=1
        ... )
        >>> round(e, 3)
        3.922
    """
    _check.probability(sampling_prob=sampling_prob)
    _check.count(steps=steps)
    _check.positive(noise_multiplier=noise_multiplier, distance=distance)
    _check.delta(delta=delta)

    def excess(epsilon: float) -> float:
        return delta - revealed_delta(
            epsilon,
            sampling_prob=sampling_prob,
            steps=steps,
            noise_multiplier=noise_multiplier,
            distance=distance,
        )

    if excess(0.0) >= 0:
        return 0.0
    if excess(math.inf) <= 0:
        return math.inf  # the tails alone are more than delta
    high = 1.0
    while excess(high) < 0:
        high *= 2
        if not math.isfinite(high):
            return math.inf
    return float(brentq(excess, 0.0, high, xtol=1e-12, rtol=1e-14)) * (1 + 1e-9) + 2e-12
