r"""What (epsilon, delta) means as a hypothesis test, for the Gaussian and in general.

A mechanism is mu-GDP when telling two neighbours apart from its output is no easier than telling
N(0, 1) from N(mu, 1) [dong2019, Def. 2.6]; the Gaussian mechanism is exactly that with
mu = sensitivity / sigma. For it, delta and epsilon are tied by [balle2018, Thm 8]

    delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

The roots below are returned from the side that promises less: epsilon rounded up, mu down.

Example:
    >>> round(gaussian_mu(8, 1e-4), 6)
    1.841366
    >>> round(gaussian_epsilon(1.841366, 1e-4), 4)
    8.0
    >>> round(compute_max_power(0.01, epsilon=8, delta=1e-4, is_gaussian=True), 2)
    0.31
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from masquerade._optional import optimize, special

_SQRT_HALF = math.sqrt(0.5)


def _compute_rounding_margin(epsilon: float, mu: float) -> float:
    """More than what rounding in `gaussian_delta` can move epsilon by.

    An error of one part in 2^52 in either erfcx moves epsilon by about 2^-52 (1 + epsilon/mu).
    """
    return 1e-12 * (epsilon + mu) + 1e-14 * (1 + epsilon / mu)


def _find_root(
    curve: Callable[[float], np.ndarray], low: float, high: float, *, xtol: float
) -> float:
    return optimize.brentq(
        lambda at: float(curve(at)), low, high, xtol=xtol, rtol=1e-15, maxiter=500
    )


def gaussian_delta(epsilon: float, mu: float | np.ndarray) -> np.ndarray:
    """Smallest delta for which mu-GDP implies (epsilon, delta)-DP; ``mu`` may be an array.

    With a = mu/2 - epsilon/mu and b = mu/2 + epsilon/mu, b^2 - a^2 = 2 epsilon, hence
    e^epsilon Phi(-b) = exp(-a^2/2) erfcx(b/sqrt 2)/2: no overflow at any epsilon.
    """
    mu = np.maximum(np.asarray(mu, dtype=np.float64), 1e-300)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        ratio = epsilon / mu
        a, b = mu / 2 - ratio, mu / 2 + ratio
        weight = np.exp(-a * a / 2) / 2
        # where a < 0 both terms share the weight: subtract before multiplying
        both = weight * (special.erfcx(np.abs(a) * _SQRT_HALF) - special.erfcx(b * _SQRT_HALF))
        value = np.where(a < 0, both, special.ndtr(a) - weight * special.erfcx(b * _SQRT_HALF))
    return np.asarray(np.clip(np.nan_to_num(value, nan=1.0), 0.0, 1.0))


@lru_cache(maxsize=1024)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon, rounded up, for which mu-GDP implies (epsilon, delta)-DP."""
    if math.isnan(mu) or mu < 0:
        raise ValueError(f"Expected mu to be >= 0, got mu={mu}.")
    if mu == 0 or gaussian_delta(0.0, mu) <= delta:
        return 0.0
    if mu > 1e7:  # the Gaussian's tail bound, hardly loose out here
        return mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    high = mu * mu / 2 + mu * (4 + math.sqrt(2 * math.log(1 / delta)))  # Gaussian tail bound
    root = _find_root(lambda e: gaussian_delta(e, mu) - delta, 0.0, high, xtol=1e-14)
    return root + _compute_rounding_margin(root, mu)


@lru_cache(maxsize=1024)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu, rounded down, for which mu-GDP implies (epsilon, delta)-DP."""
    high = 1.0
    while gaussian_delta(epsilon, high) <= delta:
        high *= 2
    low = high
    while gaussian_delta(epsilon, low) > delta:
        low /= 2
    root = _find_root(lambda m: gaussian_delta(epsilon, m) - delta, low, high, xtol=1e-300)
    # epsilon falls by at least max(b, .79) for each unit that mu falls: 4 rooms are left, of
    # which `gaussian_epsilon` takes one when it is asked what this mu costs
    b = root / 2 + epsilon / root
    return root - 4 * _compute_rounding_margin(epsilon, root) / max(b, 0.79)


def compute_max_power(
    false_alarm: float, *, epsilon: float, delta: float, is_gaussian: bool
) -> float:
    """How often an attacker that cries wolf with probability ``false_alarm`` can be right.

    For Gaussian mechanisms the mu-GDP curve; otherwise the two lines that every
    (epsilon, delta)-DP mechanism obeys [dong2019, Prop. 2.5].
    """
    if is_gaussian:
        return float(special.ndtr(special.ndtri(false_alarm) + gaussian_mu(epsilon, delta)))
    first = math.exp(min(epsilon, 700.0)) * false_alarm + delta
    second = 1 - math.exp(-epsilon) * (1 - false_alarm - delta)
    return min(1.0, first, second)
