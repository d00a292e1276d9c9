"""Epsilon of an event: closed form where there is one, else a privacy loss distribution.

The distribution is discretised pessimistically, so every interval gives an upper bound; a fixed
interval can still be far too loose. We start coarse and halve until epsilon moves by less than the
tolerance; at the memory cap the last value stands, which is still an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dp_accounting.pld import privacy_loss_distribution as distributions
from dp_accounting.privacy_accountant import NeighboringRelation

from masquerade import _check
from masquerade.account.revealed import revealed_epsilon
from masquerade.events import (
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
MAX_GRID_POINTS = 2**25  # about 2 GB while two distributions are convolved

_NEIGHBOURS = {
    Relation.ZERO_OUT: NeighboringRelation.REPLACE_SPECIAL,
    Relation.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
    Relation.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
}


class UnsupportedEvent(ValueError):
    """No accountant here can read the event under that relation."""


@dataclass(frozen=True)
class Bound:
    """An upper bound on epsilon, and whether a finer interval could improve it.

    Args:
        epsilon: the bound.
        can_refine: False for closed forms and at the memory cap.
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
    parts = list(parts_of(event))
    if any(_is_not_private(part) for part, _ in parts):
        return Bound(math.inf, can_refine=False)
    mu = gaussian_mu_of(event, relation=relation)
    if mu is not None:
        return Bound(gaussian_epsilon(mu, delta), can_refine=False)
    only, times = parts[0]
    if len(parts) == 1 and isinstance(only, RevealedSampledDpEvent):
        bound = _revealed(only, times, delta=delta, relation=relation)
        return Bound(bound, can_refine=False)
    total = distributions.identity(value_discretization_interval=interval)
    for part, count in parts:
        if not isinstance(part, NoOpDpEvent):
            total = total.compose(pld(part, count, relation=relation, interval=interval))
    return Bound(
        float(total.get_epsilon_for_delta(delta)),
        can_refine=total._pmf_remove.size * 2 <= MAX_GRID_POINTS,
    )


def compose(guarantees: Iterable[Guarantee], events: Iterable[DpEvent], *, delta: float) -> float:
    """Epsilon of several releases together, if they share one unit and one relation.

    The list of events must have been fixed in advance; a total that decides what is released next
    needs a privacy filter instead.
    """
    _, relation = require_alike(guarantees)
    return epsilon(ComposedDpEvent(list(events)), delta=delta, relation=relation)


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
        total += count / part.noise_multiplier**2
    return math.sqrt(total) * _distance(relation)


def _distance(relation: Relation) -> float:
    """How far two neighbours may be apart, in units of the zero-out bound."""
    return 2.0 if relation is Relation.REPLACE_ONE else 1.0


def parts_of(event: DpEvent, count: int = 1) -> Iterable[tuple[DpEvent, int]]:
    """The simple events that ``event`` is composed of, and how often each is run."""
    if isinstance(event, SelfComposedDpEvent):
        yield from parts_of(event.event, count * event.count)
    elif isinstance(event, ComposedDpEvent):
        for part in event.events:
            yield from parts_of(part, count)
    elif count > 0:
        yield event, count


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
        distance=_distance(relation),
    )


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
    elif isinstance(event, LaplaceDpEvent) and relation is not Relation.REPLACE_ONE:
        one = distributions.from_laplace_mechanism(
            event.noise_multiplier, value_discretization_interval=interval
        )
    else:
        raise UnsupportedEvent(
            f"Expected an event with a known privacy loss under {relation.value}, got {event}; "
            "no epsilon is claimed for it."
        )
    return one.self_compose(count)
