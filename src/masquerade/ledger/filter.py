r"""Privacy filters: may this event still be spent, when each was chosen after seeing the last?

A total that is recomposed from a fixed list (a PLD) is not a valid stopping rule when later events
depend on earlier outputs. These are:

gaussian
    Every event is mu-GDP; stop when sum mu^2 exceeds mu*^2, with mu* from the cap
    [smith2022, Thm 2]. A pure epsilon-DP event may enter: it is mu-GDP with
    mu = 2 Phi^-1(e^eps / (1 + e^eps)), because its trade-off curve lies above that Gaussian's.
    An event whose loss spans eta (`BoundedRangeDpEvent`) enters like a pure one of eta/2. Its
    curve lies above two lines of slopes -e^(t+eta) and -e^t that meet where the log odds of a hit
    exceed those of a false alarm by eta. With h(z) = Phi^-1(1/(1+e^-z)), the Gaussian through
    that corner has mu = h(z+eta) - h(z). h' is even and falls away from 0 (proved below), so this
    is at most 2 h(eta/2).
renyi
    Every event has a Renyi divergence at one order a, fixed when the account is opened; stop when
    the sum exceeds epsilon - log((a-1)/a) + (log delta + log a)/(a-1) [feldman2021, Thm 3.1].

h' is Phi(x) Phi(-x)/phi(x) at x = h(z). It falls for x > 0 if D = (2 Phi - 1) phi - x Phi Phi(-x)
is positive there. D is zero at 0 and at infinity, and D' = 2 phi^2 - Phi(x) Phi(-x) changes sign
once, from + to -: the ratio of its two terms is 4/pi at 0 and falls, because the slope of
phi(x)/Phi(-x) is below 1.

Costs are whole multiples of 2^-80, rounded up; allowances are rounded down. Sums are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from masquerade import _check
from masquerade._optional import special
from masquerade.accounting.losses import UnsupportedEvent, find_distance, split_event
from masquerade.accounting.tilted import renyi_conversion_term, renyi_divergence
from masquerade.events import (
    BoundedRangeDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NoOpDpEvent,
)
from masquerade.guarantee import Relation
from masquerade.tradeoff import gaussian_epsilon, gaussian_mu

_UNITS_PER_ONE = 1 << 80


class FilterName(StrEnum):
    """Which rule an account keeps."""

    GAUSSIAN = "gaussian"
    RENYI = "renyi"


@dataclass(frozen=True, kw_only=True)
class BudgetFilter:
    """A cap and the rule that keeps it.

    Args:
        name: gaussian or renyi.
        epsilon: of the cap.
        delta: of the cap.
        relation: that events are read under.
        order: a, for renyi; fixed when the account is opened.
    """

    name: FilterName
    epsilon: float
    delta: float
    relation: Relation
    order: float | None = None

    def __post_init__(self) -> None:
        _check.positive(epsilon=self.epsilon)
        _check.delta(delta=self.delta)
        if (self.order is not None) != (self.name is FilterName.RENYI):
            raise ValueError(f"Expected an order exactly for renyi, got order={self.order}.")
        if self.order is not None and not 1 < self.order < math.inf:
            raise ValueError(f"Expected a finite order above 1, got order={self.order}.")

    @property
    def allowance(self) -> int:
        """All that may ever be spent."""
        if self.order is None:
            mu = Fraction(gaussian_mu(self.epsilon, self.delta))
            return math.floor(mu * mu * _UNITS_PER_ONE)
        budget = (self.epsilon - renyi_conversion_term(self.order, self.delta)) * (1 - 1e-12)
        return max(math.floor(Fraction(budget) * _UNITS_PER_ONE), 0)

    def price_event(self, event: DpEvent) -> int:
        """What an event costs, rounded up.

        Raises:
            UnsupportedEvent: if this rule has no price for it.
        """
        if self.order is not None:
            found = renyi_divergence(event, order=self.order, relation=self.relation)
            if not math.isfinite(found):
                raise UnsupportedEvent(f"Expected an event with a finite cost, got {event}.")
            return math.ceil(Fraction(found) * (1 + Fraction(1, 10**9)) * _UNITS_PER_ONE)
        return sum(self._compute_squared_mu(part, count) for part, count in split_event(event))

    def _compute_squared_mu(self, event: DpEvent, count: int) -> int:
        distance = find_distance(self.relation)
        if isinstance(event, NoOpDpEvent):
            return 0
        if isinstance(event, GaussianDpEvent) and event.noise_multiplier > 0:
            mu = Fraction(distance) / Fraction(event.noise_multiplier)
        elif isinstance(event, LaplaceDpEvent) and event.noise_multiplier > 0:
            mu = _pure_mu(distance / event.noise_multiplier, event)
        elif isinstance(event, BoundedRangeDpEvent):
            mu = _pure_mu(distance * event.bound / 2, event)
        else:
            raise UnsupportedEvent(
                f"Expected a Gaussian or pure event for a gaussian account, got {event}; open the "
                "account with --filter renyi for sampled training."
            )
        return math.ceil(mu * mu * count * _UNITS_PER_ONE)

    def compute_share(self, event: DpEvent) -> float:
        """How much of the whole allowance an event takes; 1 is all of it."""
        return self.price_event(event) / self.allowance

    def suggest_order(self, event: DpEvent) -> BudgetFilter | None:
        """The same cap at the order that suits an event best, if that is worth a new account."""
        if self.order is None:
            return None
        try:
            order = find_best_order(self.epsilon, self.delta, event, self.relation)
        except UnsupportedEvent:
            return None
        better = replace(self, order=order)
        return better if better.compute_share(event) < 0.95 * self.compute_share(event) else None

    def find_fitting_epsilon(self, left: int) -> float:
        """The epsilon, at the cap's delta, of a Gaussian release that would just fit."""
        share = max(left, 0) / _UNITS_PER_ONE
        if self.order is not None:
            share = 2 * share / self.order
        return gaussian_epsilon(math.sqrt(share) * (1 - 1e-12), self.delta)


def find_best_order(
    epsilon: float,
    delta: float,
    event: DpEvent | None = None,
    relation: Relation = Relation.REPLACE_ONE,
) -> float:
    """The order at which the cap affords the most events of a kind.

    Args:
        epsilon: of the cap.
        delta: of the cap.
        event: that is expected; by default any Gaussian.
        relation: that events are read under.

    Raises:
        UnsupportedEvent: if no order has a price for the event.
    """
    orders: list[float] = [1 + 2.0 ** (k / 16) / 64 for k in range(16 * 30)]
    if event is None:
        return max(
            orders, key=lambda order: (epsilon - renyi_conversion_term(order, delta)) / order
        )
    best, least = 0.0, math.inf
    for order in (float(f"{order:.5g}") for order in orders):
        allowance = epsilon - renyi_conversion_term(order, delta)
        if allowance <= 0:
            continue
        cost = renyi_divergence(event, order=order, relation=relation)
        if cost / epsilon >= least:  # costs grow with the order, and no allowance is above epsilon
            break
        if cost / allowance < least:
            best, least = order, cost / allowance
    if not best:
        raise UnsupportedEvent(f"Expected an event with a finite cost at some order, got {event}.")
    return best


def _pure_mu(pure: float, event: DpEvent) -> Fraction:
    """The mu of a pure event, rounded up; near zero, where digits cancel, by its tangent."""
    if pure > 700:
        raise UnsupportedEvent(
            f"Expected a pure event of epsilon at most 700, got {event}; it protects nothing that "
            "a ledger could count."
        )
    if pure < 1e-4:
        return Fraction(1.2534 * pure)  # sqrt(2 pi) / 2 = 1.25331...; the curve lies below it
    # Phi^-1 of 1 / (1 + e^-pure), from its small side, where ndtri is accurate
    return Fraction(-2 * float(special.ndtri(1 / (1 + math.exp(pure))))) * (1 + Fraction(1, 10**9))
