"""What a number of noisy votes costs, whatever the teachers said.

One changed shard moves one teacher's vote from one class to another; a subject whose data reaches
s teachers moves s votes together. So one query shifts two counts by s each [papernot2017, Sec. 2],
and the largest count by at most s. It is the same whether the data are replaced, blanked or left
out, so epsilon is one number for all relations; the events say it to accountants, which read
replace_one as twice the distance.

lnmax      Laplace noise of scale 1/gamma on every count, and the argmax.
gnmax      Gaussian noise of deviation sigma: a query is sqrt(2) s/sigma-GDP.
gumbel     Gumbel noise of scale 1/gamma: the exponential mechanism. Its loss spans 2 gamma s.
confident  gnmax for those queries alone whose largest count, with noise of deviation sigma_T,
           reaches a threshold, up to a public cap [papernot2018, Alg. 1]. Each query asked is
           s/sigma_T-GDP, each answered one costs what it does in gnmax, and whether one is
           answered depends on what came before, which GDP allows while the sum of squares is
           bounded [smith2022, Thm 2]: so the cap is charged, never the number answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import numpy as np

from masquerade import _check, events
from masquerade._formatting import round_up_decimals, round_up_significant
from masquerade._optional import optimize, stats
from masquerade.accounting.compose import compose_pure, find_least_epsilon
from masquerade.accounting.compose import compute_epsilon as epsilon_of
from masquerade.accounting.losses import find_distance
from masquerade.events import DpEvent
from masquerade.guarantee import Accountant, Relation
from masquerade.tradeoff import gaussian_mu

Aggregator = Literal["lnmax", "gnmax", "gumbel", "confident"]
_ROUND_UP, _ROUND_DOWN = 1 + 2.0**-50, 1 - 2.0**-50  # more than the rounding of what they multiply
_PROOFS = {
    "pure": Accountant.PURE,
    "optimal": Accountant.OPTIMAL_COMPOSITION,
    "pld_laplace": Accountant.PLD_LAPLACE,
    "moments": Accountant.MOMENTS,
}


@dataclass(frozen=True, kw_only=True)
class VoteTerms:
    """What is public about a vote, but for how much noise it has.

    Args:
        aggregator: lnmax, gnmax, gumbel or confident.
        queries: asked.
        shards_per_subject: s, teachers that one person's data reaches.
        threshold_std: confident alone: of the noise on the largest count of every query.
        cap: confident alone: the most queries that are answered.
    """

    aggregator: Aggregator
    queries: int
    shards_per_subject: int = 1
    threshold_std: float | None = None
    cap: int | None = None

    def __post_init__(self) -> None:
        if self.aggregator not in get_args(Aggregator):
            raise ValueError(
                _check.describe_unknown("aggregator", self.aggregator, get_args(Aggregator))
            )
        _check.count(queries=self.queries, shards_per_subject=self.shards_per_subject)
        is_confident = self.aggregator == "confident"
        if [self.threshold_std is not None, self.cap is not None] != [is_confident] * 2:
            raise ValueError(
                "Expected threshold_std and cap exactly for the aggregator confident, got "
                f"aggregator={self.aggregator}, threshold_std={self.threshold_std}, cap={self.cap}."
            )
        if self.threshold_std is not None and self.cap is not None:
            _check.positive(threshold_std=self.threshold_std)
            _check.count(cap=self.cap)
            if self.cap > self.queries:
                raise ValueError(f"Expected cap of at most {self.queries}, got cap={self.cap}.")

    def make_event(self, scale: float, *, relation: Relation) -> DpEvent:
        """The event, for an accountant that reads it under ``relation``.

        Args:
            scale: of the noise: sigma, or 1/gamma.
            relation: any; epsilon is the same.
        """
        _check.positive(scale=scale)
        shards, apart = self.shards_per_subject, find_distance(relation)
        if self.aggregator == "lnmax":
            return _make_laplaces(1 / scale * shards, self.queries, apart)
        if self.aggregator == "gumbel":  # a score rises by gamma s and another falls by it
            span = 2 * (1 / scale) * shards / apart * _ROUND_UP
            return events.SelfComposedDpEvent(events.BoundedRangeDpEvent(span), self.queries)
        # two changed counts are sqrt(2) s apart
        answer = events.GaussianDpEvent(apart * (scale / (math.sqrt(2) * shards)) * _ROUND_DOWN)
        answers = events.SelfComposedDpEvent(answer, self.cap or self.queries)
        if self.threshold_std is None:
            return answers
        asked = events.GaussianDpEvent(apart * self.threshold_std / shards * _ROUND_DOWN)
        return events.ComposedDpEvent([events.SelfComposedDpEvent(asked, self.queries), answers])

    def vote_epsilon(self, scale: float, *, delta: float) -> float:
        """The least epsilon that is proved, under every relation.

        Example:
            >>> round(VoteTerms(aggregator="gnmax", queries=1000).vote_epsilon(40, delta=1e-5), 6)
            4.983306
        """
        return self.prove_epsilon(scale, delta=delta)[0]

    def prove_epsilon(self, scale: float, *, delta: float) -> tuple[float, Accountant]:
        """The least epsilon, and the bound that gave it."""
        _check.positive(scale=scale)
        if self.aggregator == "lnmax":
            bounds = lnmax_bounds(
                1 / scale * _ROUND_UP,
                queries=self.queries,
                delta=delta,
                shards_per_subject=self.shards_per_subject,
            )
            least = min(bounds, key=bounds.__getitem__)
            return bounds[least], _PROOFS[least]
        event = self.make_event(scale, relation=Relation.ADD_REMOVE)
        found = epsilon_of(event, delta=delta, relation=Relation.ADD_REMOVE)
        match event:
            case events.SelfComposedDpEvent(
                event=events.BoundedRangeDpEvent(bound=span), count=times
            ):
                return found, _gumbel_proof(span, times, found, delta)
        return found, Accountant.ANALYTIC_GAUSSIAN


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
    each, relation = gamma * shards_per_subject, Relation.ADD_REMOVE
    event = _make_laplaces(each, queries, find_distance(relation))
    return {
        "pure": 2 * each * queries,
        "optimal": compose_pure(2 * each, queries, delta=delta),
        "pld_laplace": epsilon_of(event, delta=delta, relation=relation),
        "moments": moments_epsilon(2 * each, queries, delta=delta),
    }


def _make_laplaces(gamma: float, queries: int, apart: float) -> DpEvent:
    """Two counts a query, each a Laplace of shift s: never 2 s Laplaces of shift one."""
    return events.SelfComposedDpEvent(
        events.LaplaceDpEvent(apart / gamma * _ROUND_DOWN), 2 * queries
    )


def _gumbel_proof(span: float, times: int, found: float, delta: float) -> Accountant:
    """Which of its bounds gave epsilon: counting pure losses, all of them, or moments."""
    if found >= span * times * _ROUND_DOWN:
        return Accountant.PURE
    counted = compose_pure(span, times, delta=delta)
    return Accountant.OPTIMAL_COMPOSITION if found >= counted else Accountant.MOMENTS


def find_vote_scale(terms: VoteTerms, *, epsilon: float, delta: float) -> float:
    """The noise that a target needs: sigma, or 1/gamma, rounded up to seven digits.

    The epsilon that is printed for it, rounded up to four decimals, is at most the target.

    Example:
        >>> find_vote_scale(VoteTerms(aggregator="gnmax", queries=1000), epsilon=4.9834, delta=1e-5)
        39.99936
    """
    _check.positive(epsilon=epsilon)
    _check.delta(delta=delta)
    target = -round_up_decimals(-epsilon)  # rounded down
    if target <= 0:
        raise ValueError(f"Expected epsilon of at least .0001, got epsilon={epsilon}.")
    mu = gaussian_mu(target, delta) / terms.shards_per_subject
    left = mu * mu
    if terms.threshold_std is not None:
        left -= terms.queries / terms.threshold_std**2
        if left <= 0:
            least = round_up_significant(math.sqrt(terms.queries) / mu, 4)
            raise ValueError(
                f"Expected threshold_std above {least:g}, got {terms.threshold_std:g}; the tests "
                f"of {terms.queries} queries alone would spend all of epsilon={epsilon:g}."
            )
    shifts = 1 if terms.aggregator == "gumbel" else 2  # squared distance, in small steps
    start = math.sqrt(shifts * (terms.cap or terms.queries) / left)
    return _least_scale(lambda scale: terms.vote_epsilon(scale, delta=delta), target, start)


def _least_scale(epsilon: Callable[[float], float], target: float, start: float) -> float:
    """About the smallest scale whose printed epsilon is at most ``target``; it was checked."""

    @cache
    def log_excess(log_scale: float) -> float:
        return epsilon(math.exp(log_scale)) - target

    low = high = math.log(start)
    step = 0.02
    while log_excess(high) > 0:
        low, high, step = high, high + step, 2 * step
    while log_excess(low) <= 0:
        low, high, step = low - step, low, 2 * step
    root = float(optimize.brentq(log_excess, low, high, xtol=1e-9))
    scale, step = round_up_significant(math.exp(root)), 1e-7
    while round_up_decimals(epsilon(scale)) > target:
        scale, step = round_up_significant(scale * (1 + step)), 2 * step
    return scale


def moments_epsilon(each: float, times: int, *, delta: float) -> float:
    """Epsilon by the moments of pure DP, at the best real order [papernot2017, Thm 2].

    Pure epsilon-DP is epsilon^2/2-zCDP [bun2016, Prop. 1.4], so the log moment at order l is at
    most l (l+1) epsilon^2/2 for every real l > 0.
    """
    rho = times * each**2 / 2
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def moments_epsilon_at(each: float, times: int, *, delta: float, most: int) -> float:
    """The same over whole orders 1 .. ``most``, as a script with a fixed grid would print it."""
    orders = np.arange(1, most + 1)
    return float(np.min(times * each**2 / 2 * (orders + 1) + math.log(1 / delta) / orders))


def lnmax_at_least(
    gamma: float, *, queries: int, teachers: int, delta: float, shards_per_subject: int = 1
) -> float:
    """A *lower* bound on LNMax's true epsilon: two classes, the worst margin, exact composition.

    With margin m the first class wins with the probability that a difference of two Laplaces
    exceeds -m. Each changed vote moves m by two; ``queries`` such coins compose exactly.
    """
    moved = 2 * min(shards_per_subject, teachers)
    margins = np.arange(-teachers + moved, teachers + 1, 2)
    return max(
        _guess_epsilon(gamma * m, gamma * (m - moved), queries, delta) for m in margins.tolist()
    )


def _chance_of_win(scaled: float) -> float:
    """Chance that Laplace - Laplace > -margin, with the margin in units of the noise's scale."""
    tail = math.exp(-abs(scaled)) * (2 + abs(scaled)) / 4
    return 1 - tail if scaled >= 0 else tail


def _guess_epsilon(margin: float, other: float, times: int, delta: float) -> float:
    wins = np.arange(times + 1)
    gain = math.log(_chance_of_win(margin) / _chance_of_win(other))
    loss = math.log(_chance_of_win(-margin) / _chance_of_win(-other))
    losses = wins * gain + (times - wins) * loss
    return max(
        find_least_epsilon(
            stats.binom.pmf(wins, times, _chance_of_win(margin)), losses, delta=delta
        ),
        find_least_epsilon(
            stats.binom.pmf(wins, times, _chance_of_win(other)), -losses, delta=delta
        ),
    )
