"""What a number of noisy votes costs, whatever the teachers said.

One changed shard moves one teacher's vote from one class to another; a subject whose data reaches
s teachers moves s votes together. So one query shifts two counts by s each [papernot2017, Sec. 2].
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

from masquerade import _check
from masquerade.account.compose import epsilon
from masquerade.events import DpEvent, GaussianDpEvent, LaplaceDpEvent, SelfComposedDpEvent
from masquerade.guarantee import Relation
from masquerade.tradeoff import gaussian_epsilon


def lnmax_bounds(
    gamma: float, *, queries: int, delta: float, shards_per_subject: int = 1
) -> dict[str, float]:
    """Four upper bounds on epsilon for the argmax of Laplace-noised counts; take the least.

    Args:
        gamma: inverse scale of the Laplace noise on each count.
        queries: how many labels are released.
        delta: of the guarantee.
        shards_per_subject: s, teachers that one person's data reaches.

    Example:
        >>> bounds = lnmax_bounds(0.1, queries=1000, delta=1e-5)
        >>> round(min(bounds.values()), 2)
        27.69
    """
    _check.positive(gamma=gamma)
    _check.count(queries=queries, shards_per_subject=shards_per_subject)
    _check.delta(delta=delta)
    each = gamma * shards_per_subject
    return {
        "pure": 2 * each * queries,
        "optimal": optimal_composition(2 * each, queries, delta=delta),
        "pld_laplace": epsilon(
            lnmax_event(gamma, queries=queries, shards_per_subject=shards_per_subject),
            delta=delta,
            relation=Relation.ADD_REMOVE,
        ),
        "moments": moments(2 * each, queries, delta=delta),
    }


def lnmax_event(gamma: float, *, queries: int, shards_per_subject: int = 1) -> DpEvent:
    """Two counts a query, each a Laplace of shift s: never 2 s Laplaces of shift one."""
    return SelfComposedDpEvent(LaplaceDpEvent(1 / (gamma * shards_per_subject)), 2 * queries)


def gnmax_epsilon(
    noise_std: float, *, queries: int, delta: float, shards_per_subject: int = 1
) -> float:
    """Epsilon of the argmax of Gaussian-noised counts: mu = s sqrt(2 k) / sigma.

    Example:
        >>> round(gnmax_epsilon(40, queries=1000, delta=1e-5), 6)
        4.983306
    """
    _check.positive(noise_std=noise_std)
    _check.count(queries=queries, shards_per_subject=shards_per_subject)
    _check.delta(delta=delta)
    return gaussian_epsilon(shards_per_subject * math.sqrt(2 * queries) / noise_std, delta)


def gnmax_event(noise_std: float, *, queries: int, shards_per_subject: int = 1) -> DpEvent:
    """One query is one Gaussian whose two changed counts are sqrt(2) s apart (add_remove)."""
    one = GaussianDpEvent(noise_std / (math.sqrt(2) * shards_per_subject))
    return SelfComposedDpEvent(one, queries)


def optimal_composition(each: float, times: int, *, delta: float) -> float:
    """Epsilon of ``times`` pure ``each``-DP mechanisms, the best possible [kairouz2015, Thm 3.3].

    The worst such mechanism is randomised response, whose loss is +-each.
    """
    counts = np.arange(times + 1)
    chance = binom.pmf(counts, times, 1 / (1 + math.exp(-each)))
    losses = (2.0 * counts - times) * each

    def excess(target: float) -> float:
        return float(chance @ -np.expm1(np.minimum(target - losses, 0.0))) - delta

    return _least(excess, high=times * each)


def moments(each: float, times: int, *, delta: float) -> float:
    """Epsilon by the moments of pure DP, at the best real order [papernot2017, Thm 2].

    Pure epsilon-DP is epsilon^2/2-zCDP [bun2016, Prop. 1.4], so the log moment at order l is at
    most l (l+1) epsilon^2/2 for every real l > 0.
    """
    rho = times * each**2 / 2
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def moments_at(each: float, times: int, *, delta: float, most: int) -> float:
    """The same over whole orders 1 .. ``most``, as a script with a fixed grid would print it."""
    orders = np.arange(1, most + 1)
    return float(np.min(times * each**2 / 2 * (orders + 1) + math.log(1 / delta) / orders))


def lnmax_at_least(gamma: float, *, queries: int, teachers: int, delta: float) -> float:
    """A *lower* bound on LNMax's true epsilon: two classes, the worst margin, exact composition.

    With margin m the first class wins with the probability that a difference of two Laplaces
    exceeds -m. One changed vote moves m by two; ``queries`` such coins compose exactly.
    """
    margins = np.arange(-teachers + 2, teachers + 1, 2)
    return max(_coins(gamma * m, gamma * (m - 2), queries, delta) for m in margins.tolist())


def _wins(scaled: float) -> float:
    """Chance that Laplace - Laplace > -margin, with the margin in units of the noise's scale."""
    tail = math.exp(-abs(scaled)) * (2 + abs(scaled)) / 4
    return 1 - tail if scaled >= 0 else tail


def _coins(margin: float, other: float, times: int, delta: float) -> float:
    wins = np.arange(times + 1)
    gain = math.log(_wins(margin) / _wins(other))
    loss = math.log(_wins(-margin) / _wins(-other))
    losses = wins * gain + (times - wins) * loss

    def one_way(chance: np.ndarray, losses: np.ndarray) -> float:
        def excess(target: float) -> float:
            return float(chance @ -np.expm1(np.minimum(target - losses, 0.0))) - delta

        return _least(excess, high=float(np.max(losses)))

    return max(
        one_way(binom.pmf(wins, times, _wins(margin)), losses),
        one_way(binom.pmf(wins, times, _wins(other)), -losses),
    )


def _least(excess: Callable[[float], float], *, high: float) -> float:
    """Least epsilon in [0, high] at which delta is met; ``excess`` falls."""
    if excess(0.0) <= 0:
        return 0.0
    if excess(high) > 0:
        return high
    return min(float(brentq(excess, 0.0, high, xtol=1e-12, rtol=1e-14)) * (1 + 1e-9), high)
