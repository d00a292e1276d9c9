"""Epsilon of an event: closed form where there is one, else a privacy loss distribution.

The distribution is discretised pessimistically, so every interval gives an upper bound; a fixed
interval can still be far too loose. We start coarse and halve until epsilon moves by less than the
tolerance; at the size cap the last value stands, which is still an upper bound.

Composition uses the fast Fourier transform, whose rounding can move small probabilities either way.
We take an allowance for it off delta before we ask: not a proved bound, but more than twenty times
the largest error that a test measures beside the Gaussian's closed form. Where delta is not well
above that allowance, or the distribution would be too large, Renyi divergences bound epsilon
instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as distributions
from dp_accounting.privacy_accountant import NeighboringRelation
from scipy.optimize import brentq
from scipy.stats import binom

from masquerade import _check
from masquerade.account.divergence import renyi_bound
from masquerade.account.parts import UnsupportedEvent, distance_of, parts_of
from masquerade.account.revealed import revealed_epsilon
from masquerade.events import (
    BoundedRangeDpEvent,
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RevealedSampledDpEvent,
    SelfComposedDpEvent,
)
from masquerade.guarantee import Guarantee, Relation, require_alike
from masquerade.tradeoff import gaussian_epsilon

FIRST_INTERVAL = 1e-3
TOLERANCE = 1e-4  # relative change of epsilon at which halving stops
MAX_GRID_POINTS = 2**24  # about 1 GB while two distributions are convolved
_MAX_POINTS_TO_START = 2**20
_MAX_RUNS_TO_COUNT = 10**6
_NEIGHBOURS = {
    Relation.ZERO_OUT: NeighboringRelation.REPLACE_SPECIAL,
    Relation.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
    Relation.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
}


@dataclass(frozen=True)
class Bound:
    """An upper bound on epsilon, and whether a finer interval could improve it.

    Args:
        epsilon: the bound.
        can_refine: False for closed forms and at the size cap.
    """

    epsilon: float
    can_refine: bool


def epsilon(event: DpEvent, *, delta: float, relation: Relation | str) -> float:
    """Smallest epsilon we can prove for ``event``: an upper bound, infinite if there is none."""
    interval = FIRST_INTERVAL
    bound = epsilon_at(event, delta=delta, relation=relation, interval=interval)
    best = bound.epsilon
    while bound.can_refine:
        interval /= 2
        bound = epsilon_at(event, delta=delta, relation=relation, interval=interval)
        moved, best = abs(best - bound.epsilon), min(best, bound.epsilon)
        if moved <= TOLERANCE * best or moved < 1e-9:
            break
    return best


def epsilon_at(event: DpEvent, *, delta: float, relation: Relation | str, interval: float) -> Bound:
    """The bound at one discretisation interval; closed forms do not need it."""
    _check.delta(delta=delta)
    relation = _check.choice(Relation, relation=relation)
    parts, failing = _without_failures(parts_of(event))
    if failing > 0:
        if failing >= delta:
            return Bound(math.inf, can_refine=False)
        event = ComposedDpEvent([SelfComposedDpEvent(part, count) for part, count in parts])
        delta = (delta - failing) * (1 - 1e-12)
    if any(_is_not_private(part) for part, _ in parts):
        return Bound(math.inf, can_refine=False)
    mu = gaussian_mu_of(event, relation=relation)
    if mu is not None:
        return Bound(gaussian_epsilon(mu, delta), can_refine=False)
    if _chance_of_taking_part(parts) <= delta:
        return Bound(0.0, can_refine=False)  # outputs differ at all with that probability
    only, times = parts[0]
    if len(parts) == 1 and isinstance(only, RevealedSampledDpEvent):
        bound = _revealed(only, times, delta=delta, relation=relation)
        return Bound(bound, can_refine=False)
    found = _pld_epsilon(parts, delta, relation, interval)
    if found is not None:
        return found
    renyi = renyi_bound(event, delta=delta, relation=relation)
    if isinstance(only, BoundedRangeDpEvent) and len(parts) == 1 and times <= _MAX_RUNS_TO_COUNT:
        each = only.bound * distance_of(relation)
        renyi = min(renyi, optimal_composition(each, times, delta=delta))
    return Bound(renyi, can_refine=False)


def compose(releases: Iterable[tuple[Guarantee, DpEvent]], *, delta: float) -> float:
    """Epsilon of several releases together, if they share one unit and one relation.

    The list of events must have been fixed in advance; a total that decides what is released next
    needs a privacy filter instead.
    """
    pairs = list(releases)
    _, relation = require_alike(guarantee for guarantee, _ in pairs)
    for guarantee, _ in pairs:
        if guarantee.epsilon is None:
            raise ValueError(
                f"Expected releases with a guarantee, got one of kind {guarantee.kind.value}; "
                "what promises nothing has no total."
            )
    return epsilon(ComposedDpEvent([event for _, event in pairs]), delta=delta, relation=relation)


def gaussian_mu_of(event: DpEvent, *, relation: Relation) -> float | None:
    """The mu of an event made of Gaussians alone, in quadrature; None for any other event."""
    total = 0.0
    for part, count in parts_of(event):
        if isinstance(part, NoOpDpEvent):
            continue
        if not isinstance(part, GaussianDpEvent):
            return None
        if part.noise_multiplier == 0:
            return math.inf
        total = math.hypot(total, math.sqrt(count) / part.noise_multiplier)
    return total * distance_of(relation)


def optimal_composition(each: float, times: int, *, delta: float) -> float:
    """Epsilon of ``times`` pure ``each``-DP mechanisms, the best possible [kairouz2015, Thm 3.3].

    The worst such mechanism is randomised response, whose loss is +-each.
    """
    counts = np.arange(times + 1)
    chance = binom.pmf(counts, times, 1 / (1 + math.exp(-each)))
    losses = (2.0 * counts - times) * each

    def excess(target: float) -> float:
        return float(chance @ -np.expm1(np.minimum(target - losses, 0.0))) - delta

    return least_epsilon(excess, high=times * each)


def least_epsilon(excess: Callable[[float], float], *, high: float) -> float:
    """Least epsilon in [0, high] at which delta is met; ``excess`` falls."""
    if excess(0.0) <= 0:
        return 0.0
    if excess(high) > 0:
        return high
    return min(float(brentq(excess, 0.0, high, xtol=1e-12, rtol=1e-14)) * (1 + 1e-9), high)


def _chance_of_taking_part(parts: list[tuple[DpEvent, int]]) -> float:
    """How likely a record is in any secret batch; one, where anything else is done as well."""
    missed = 0.0  # log of the chance never to be sampled
    for part, count in parts:
        if not isinstance(part, PoissonSampledDpEvent):
            return 1.0
        missed += count * math.log1p(-part.sampling_probability)
    return -math.expm1(missed) * (1 + 1e-12)


def _without_failures(parts: list[tuple[DpEvent, int]]) -> tuple[list[tuple[DpEvent, int]], float]:
    """Parts that may fail with a small probability count towards delta; the rest, and their sum."""
    kept, failing = [], 0.0
    for part, count in parts:
        if isinstance(part, RevealedSampledDpEvent) and isinstance(part.event, NonPrivateDpEvent):
            failing += count * part.sampling_probability * (1 + 1e-12)
        else:
            kept.append((part, count))
    return kept, failing


def _is_not_private(event: DpEvent) -> bool:
    inner = getattr(event, "event", event)
    return isinstance(inner, NonPrivateDpEvent) or getattr(inner, "noise_multiplier", 1.0) == 0


def _revealed(
    event: RevealedSampledDpEvent, count: int, *, delta: float, relation: Relation
) -> float:
    if not isinstance(event.event, GaussianDpEvent):
        raise UnsupportedEvent(f"Expected a Gaussian whose membership is revealed, got {event}.")
    if relation is Relation.ADD_REMOVE:
        return math.inf  # the public gradient of a record that is there shows that it is there
    return revealed_epsilon(
        sampling_prob=event.sampling_probability,
        steps=count,
        noise_multiplier=event.event.noise_multiplier,
        delta=delta,
        distance=distance_of(relation),
    )


def _pld_epsilon(
    parts: list[tuple[DpEvent, int]], delta: float, relation: Relation, interval: float
) -> Bound | None:
    """The bound by privacy loss distributions, or None where they are of no use."""
    if sum(_largest_loss(*part, relation) for part in parts) / interval > _MAX_POINTS_TO_START:
        return None
    total = distributions.identity(value_discretization_interval=interval)
    try:
        for part, count in parts:
            if not isinstance(part, NoOpDpEvent):
                total = total.compose(pld(part, count, relation=relation, interval=interval))
    except (UnsupportedEvent, IndexError):  # the library has no cells left at extreme arguments
        return None
    points, steps = total._pmf_remove.size, sum(count for _, count in parts)
    allowance = rounding_allowance(points, steps)
    if delta < 4 * allowance:
        return None
    found = float(total.get_epsilon_for_delta(delta - allowance))
    can_refine = points * 2 <= MAX_GRID_POINTS and math.isfinite(found)
    return Bound(found, can_refine=can_refine) if math.isfinite(found) else None


def rounding_allowance(points: int, steps: int) -> float:
    """What rounding may have taken from delta in a Fourier transform of ``points`` to a power."""
    return 2.0**-52 * (64 * math.sqrt(points) + 16 * steps)


def _largest_loss(event: DpEvent, count: int, relation: Relation) -> float:
    """About how far the privacy loss of ``count`` runs reaches: its mean and nine deviations."""
    inner = getattr(event, "event", event)
    one = 1 / getattr(inner, "noise_multiplier", math.inf)
    share, ratio = getattr(event, "sampling_probability", 1.0), one * distance_of(relation)
    sampled = share * math.sqrt(count * math.expm1(min(one * one, 700.0)))  # [bu2020]
    mu = min(math.sqrt(count) * ratio, distance_of(relation) * sampled)
    return ratio * ratio / 2 + 9 * ratio + mu * mu / 2 + 9 * mu


def pld(
    event: DpEvent, count: int, *, relation: Relation, interval: float
) -> distributions.PrivacyLossDistribution:
    """Privacy loss distribution of ``count`` independent runs of a simple event."""
    if isinstance(event, PoissonSampledDpEvent) and isinstance(event.event, GaussianDpEvent):
        one = distributions.from_gaussian_mechanism(
            event.event.noise_multiplier,
            value_discretization_interval=interval,
            sampling_prob=event.sampling_probability,
            neighboring_relation=_NEIGHBOURS[relation],
        )
    elif isinstance(event, GaussianDpEvent):
        return distributions.from_gaussian_mechanism(
            event.noise_multiplier / math.sqrt(count),
            value_discretization_interval=interval,
            neighboring_relation=_NEIGHBOURS[relation],
        )
    elif isinstance(event, LaplaceDpEvent):
        one = distributions.from_laplace_mechanism(
            event.noise_multiplier / distance_of(relation), value_discretization_interval=interval
        )
    else:
        raise UnsupportedEvent(
            f"Expected an event with a known privacy loss under {relation.value}, got {event}; "
            "no epsilon is claimed for it."
        )
    return one.self_compose(count)
