r"""Epsilon of an event: closed form where there is one, else its privacy loss, composed.

The loss of one step is put on a grid so that every interval gives an upper bound (`make_law`); the
sum over all steps is found by a tilted Fourier transform whose rounding is bounded (`tilted`). We
start coarse and halve the interval until epsilon hardly moves; where a finer grid would not fit,
the last value stands, which is still an upper bound. Renyi divergences bound what no grid can hold.

Poisson sampling whose batches the attacker sees: the exact bound.

MaskDP as published adds an un-noised public gradient of the same batch, which shows who is in it.
Then nothing is amplified. Over T steps the number of times a record takes part is K ~ Bin(T, q)
and known; given K the outputs are a Gaussian with mu = sqrt(K) D / z, so

    delta(epsilon) = sum_K Bin(K; T, q) delta_gauss(epsilon, sqrt(K) D / z)

exactly, with D = 1 for zero_out and 2 for replace_one.

How much noise a target needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from masquerade import _check, events
from masquerade._formatting import round_up_significant
from masquerade._optional import optimize, stats
from masquerade.accounting.losses import (
    MIN_TAIL,
    TooFine,
    UnsupportedEvent,
    find_distance,
    make_loss,
    split_event,
)
from masquerade.accounting.tilted import LossSum, renyi_bound
from masquerade.events import (
    BoundedRangeDpEvent,
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    MixtureOfGaussiansDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RevealedSampledDpEvent,
    SelfComposedDpEvent,
)
from masquerade.guarantee import Guarantee, Relation, require_alike
from masquerade.tradeoff import gaussian_delta, gaussian_epsilon, gaussian_mu


def compute_revealed_delta(
    epsilon: float, *, sampling_prob: float, steps: int, noise_multiplier: float, distance: float
) -> float:
    """Smallest delta at ``epsilon``, rounded up: the far tails of the binomial count in full."""
    law = stats.binom(steps, sampling_prob)
    mean, spread = steps * sampling_prob, math.sqrt(steps * sampling_prob * (1 - sampling_prob))
    first = max(0, math.floor(mean - 10 * spread - 40))
    last = min(steps, math.ceil(mean + 10 * spread + 40))
    counts = np.arange(first, last + 1)
    mus = np.sqrt(counts) * (distance / noise_multiplier)
    inside = float(law.pmf(counts) @ gaussian_delta(epsilon, mus))
    return inside * (1 + 1e-10) + float(law.cdf(first - 1)) + float(law.sf(last))


def compute_revealed_epsilon(
    *, sampling_prob: float, steps: int, noise_multiplier: float, delta: float, distance: float
) -> float:
    """Smallest epsilon at ``delta``, rounded up.

    Example:
        >>> e = compute_revealed_epsilon(
        ...     sampling_prob=0.01, steps=1000, noise_multiplier=4, delta=1e-5, distance=1
        ... )
        >>> round(e, 3)
        3.922
    """
    _check.probability(sampling_prob=sampling_prob)
    _check.count(steps=steps)
    _check.positive(noise_multiplier=noise_multiplier, distance=distance)
    _check.delta(delta=delta)

    def excess_delta(epsilon: float) -> float:
        return delta - compute_revealed_delta(
            epsilon,
            sampling_prob=sampling_prob,
            steps=steps,
            noise_multiplier=noise_multiplier,
            distance=distance,
        )

    if excess_delta(0.0) >= 0:
        return 0.0
    if excess_delta(math.inf) <= 0:
        return math.inf  # the tails alone are more than delta
    high = 1.0
    while excess_delta(high) < 0:
        high *= 2
        if not math.isfinite(high):
            return math.inf
    return (
        float(optimize.brentq(excess_delta, 0.0, high, xtol=1e-12, rtol=1e-14)) * (1 + 1e-9) + 2e-12
    )


TOLERANCE = 1e-6
_FIRST_POINTS = 2**7  # a deviation of the whole loss, on the first grid
_MAX_FIRST_CELLS = 2**14
_TAIL_SHARE = 1e-6  # of delta, that one step's grid may leave out
_MAX_RUNS_TO_COUNT = 10**6


def compute_epsilon(
    event: DpEvent, *, delta: float, relation: Relation | str, tolerance: float = TOLERANCE
) -> float:
    """Smallest epsilon we can prove for ``event``: an upper bound, infinite if there is none.

    Args:
        event: what was done.
        delta: of the guarantee.
        relation: between neighbours.
        tolerance: about how far above its limit it may be, as a part of it; larger is quicker.
    """
    _check.delta(delta=delta)
    relation = _check.parse_choice(Relation, relation=relation)
    parts, failing = _without_failures(split_event(event))
    if failing > 0:
        if failing >= delta:
            return math.inf
        event = ComposedDpEvent([SelfComposedDpEvent(part, count) for part, count in parts])
        delta = (delta - failing) * (1 - 1e-12)
    if any(is_not_private(part) for part, _ in parts):
        return math.inf
    mu = find_gaussian_mu(event, relation=relation)
    if mu is not None:
        return gaussian_epsilon(mu, delta)
    if _chance_of_taking_part(parts) <= delta:
        return 0.0  # outputs differ at all with that probability
    only, times = parts[0]
    if len(parts) == 1 and isinstance(only, RevealedSampledDpEvent):
        return _compute_revealed(only, times, delta=delta, relation=relation)
    found = _compute_by_losses(parts, delta=delta, relation=relation, tolerance=tolerance)
    if not math.isfinite(found):
        found = renyi_bound(event, delta=delta, relation=relation)
    if len(parts) == 1:
        found = min(found, _compute_otherwise(only, times, delta=delta, relation=relation))
    return found


def _compute_by_losses(
    parts: list[tuple[DpEvent, int]], *, delta: float, relation: Relation, tolerance: float
) -> float:
    """By the laws of the losses, on finer and finer grids; infinite where none fits.

    Both directions count, and every grid bounds both: only the worse one is refined.
    """
    best, tilts = [math.inf, math.inf], [0.0, 0.0]
    try:
        for sums in refine_sums(parts, relation, delta=delta):
            best = best[: len(sums)]
            before = list(best)
            refined = [way for way in range(len(sums)) if best[way] == max(best)]
            for way in refined:
                tilts[way] = tilts[way] or sums[way].find_tilt(delta)
                best[way] = min(best[way], sums[way].tilt_at(tilts[way]).find_epsilon(delta))
            worst = best.index(max(best))
            moved = before[worst] - best[worst]
            # the error falls with the square of the interval: a third of the last step is left
            is_settled = worst in refined and moved <= 3 * tolerance * best[worst]
            if is_settled or best[worst] < 1e-9:
                break
    except TooFine:
        pass
    return max(best)


def refine_sums(
    parts: list[tuple[DpEvent, int]], relation: Relation, *, delta: float
) -> Iterator[list[LossSum]]:
    """The loss on a grid, again and again with half the interval.

    Args:
        parts: of an event; nothing is given where the loss of one is not known.
        relation: between neighbours.
        delta: of which a small part may be lost.

    Yields:
        A sum for each direction, or one where both are alike.

    Raises:
        TooFine: if the next grid has too many points.
    """
    tail = _TAIL_SHARE * delta / sum(count for _, count in parts)
    try:
        runs = [
            make_loss(*part, relation) for part in parts if not isinstance(part[0], NoOpDpEvent)
        ]
    except UnsupportedEvent:
        return
    if tail < MIN_TAIL:
        return
    spread = math.sqrt(sum(count * loss.loss_std**2 for loss, count in runs))
    largest = max(loss.find_max_loss(tail) for loss, _ in runs)
    interval = max(min(spread / _FIRST_POINTS, largest / 8), largest / _MAX_FIRST_CELLS)
    interval = largest / math.ceil(largest / interval)  # Laplace noise has much of its loss there
    while interval > 0:
        laws = [(loss.make_laws(interval, tail), count) for loss, count in runs]
        is_same = all(up is down for (up, down), _ in laws)
        yield [
            LossSum([(pair[way], count) for pair, count in laws], interval)
            for way in ((0,) if is_same else (0, 1))
        ]
        interval /= 2


def _compute_otherwise(event: DpEvent, times: int, *, delta: float, relation: Relation) -> float:
    """Another bound of the same event: that of somebody who sees more than is released."""
    match event:
        case BoundedRangeDpEvent(bound=bound) if times <= _MAX_RUNS_TO_COUNT:
            return compose_pure(bound * find_distance(relation), times, delta=delta)
        case PoissonSampledDpEvent(sampling_probability=q, event=GaussianDpEvent() as inner) if (
            times < 2**62
        ):
            # the pair of add_remove is that of zero_out, and so is what showing the batch adds
            is_two_sided = relation is Relation.REPLACE_ONE
            like = Relation.REPLACE_ONE if is_two_sided else Relation.ZERO_OUT
            return _compute_revealed(
                RevealedSampledDpEvent(q, inner), times, delta=delta, relation=like
            )
    return math.inf


def compose_epsilon(releases: Iterable[tuple[Guarantee, DpEvent]], *, delta: float) -> float:
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
    return compute_epsilon(
        ComposedDpEvent([event for _, event in pairs]), delta=delta, relation=relation
    )


def find_gaussian_mu(event: DpEvent, *, relation: Relation) -> float | None:
    """The mu of an event made of Gaussians alone, in quadrature; None for any other event."""
    total = 0.0
    for part, count in split_event(event):
        if isinstance(part, NoOpDpEvent):
            continue
        if not isinstance(part, GaussianDpEvent):
            return None
        if part.noise_multiplier == 0:
            return math.inf
        total = math.hypot(total, math.sqrt(count) / part.noise_multiplier)
    return total * find_distance(relation)


def compose_pure(each: float, times: int, *, delta: float) -> float:
    """Epsilon of ``times`` pure ``each``-DP mechanisms, the best possible [kairouz2015, Thm 3.3].

    The worst such mechanism is randomised response, whose loss is +-each.
    """
    counts = np.arange(times + 1)
    chances = stats.binom.pmf(counts, times, 1 / (1 + math.exp(-each)))
    return find_least_epsilon(chances, (2.0 * counts - times) * each, delta=delta)


def find_least_epsilon(chances: np.ndarray, losses: np.ndarray, *, delta: float) -> float:
    """Least epsilon at which delta is met by a loss that has these values, with their chances."""

    def excess_delta_at(target: float) -> float:
        return float(chances @ -np.expm1(np.minimum(target - losses, 0.0))) - delta

    high = float(np.max(losses))
    if excess_delta_at(0.0) <= 0:
        return 0.0
    if excess_delta_at(high) > 0:
        return high
    return min(
        float(optimize.brentq(excess_delta_at, 0.0, high, xtol=1e-12, rtol=1e-14)) * (1 + 1e-9),
        high,
    )


def _chance_of_taking_part(parts: list[tuple[DpEvent, int]]) -> float:
    """How likely a record is in any secret batch; one, where anything else is done as well."""
    missed = 0.0  # log of the chance never to be sampled
    for part, count in parts:
        if isinstance(part, PoissonSampledDpEvent):
            missed += count * math.log1p(-part.sampling_probability)
        elif isinstance(part, MixtureOfGaussiansDpEvent) and _rest_chance(part) > 0:
            missed += count * math.log(_rest_chance(part))
        else:
            return 1.0
    return -math.expm1(missed) * (1 + 1e-12)


def _rest_chance(event: MixtureOfGaussiansDpEvent) -> float:
    """The chance that nothing is shifted."""
    return float(event.sampling_probs[0]) if event.sensitivities[0] == 0 else 0.0


def _without_failures(parts: list[tuple[DpEvent, int]]) -> tuple[list[tuple[DpEvent, int]], float]:
    """Parts that may fail with a small probability count towards delta; the rest, and their sum."""
    kept, failing = [], 0.0
    for part, count in parts:
        if isinstance(part, RevealedSampledDpEvent) and isinstance(part.event, NonPrivateDpEvent):
            failing += count * part.sampling_probability * (1 + 1e-12)
        else:
            kept.append((part, count))
    return kept, failing


def is_not_private(event: DpEvent) -> bool:
    """Whether a simple event promises nothing at all."""
    inner = getattr(event, "event", event)
    noises = (getattr(inner, name, 1.0) for name in ("noise_multiplier", "standard_deviation"))
    return isinstance(inner, NonPrivateDpEvent) or 0 in noises


def _compute_revealed(
    event: RevealedSampledDpEvent, count: int, *, delta: float, relation: Relation
) -> float:
    if not isinstance(event.event, GaussianDpEvent):
        raise UnsupportedEvent(f"Expected a Gaussian whose membership is revealed, got {event}.")
    if relation is Relation.ADD_REMOVE:
        return math.inf  # the public gradient of a record that is there shows that it is there
    return compute_revealed_epsilon(
        sampling_prob=event.sampling_probability,
        steps=count,
        noise_multiplier=event.event.noise_multiplier,
        delta=delta,
        distance=find_distance(relation),
    )


_COARSE_TOLERANCE, _FINE_TOLERANCE = (
    1e-3,
    2e-5,
)  # tolerances of epsilon, far from the answer and near it
_CLOSE_SHARE = 1e-4  # relative distance below the target at which the search stops
_MAX_STEPS = 60
_NUM_SECANTS = 6  # after that, an open bracket is doubled, and later every one halved
_MIN_MULTIPLIER = 0.02  # a multiplier; with less, nobody should speak of noise


def find_gaussian_sigma(target: float, *, delta: float, sensitivity: float) -> float:
    """Smallest sigma, rounded up, of the Gaussian mechanism [balle2018, Thm 9].

    Example:
        >>> round(find_gaussian_sigma(1.0, delta=1e-5, sensitivity=1.0), 6)
        3.730632
    """
    _check.positive(epsilon=target, sensitivity=sensitivity)
    _check.delta(delta=delta)
    return sensitivity / gaussian_mu(target, delta) * (1 + 2.0**-50)


def make_sampled_gaussian(
    noise_multiplier: float, *, sampling_prob: float, steps: int, is_revealed: bool = False
) -> DpEvent:
    """The event of ``steps`` Poisson-sampled Gaussians."""
    _check.positive(noise_multiplier=noise_multiplier)
    _check.probability(sampling_prob=sampling_prob)
    _check.count(steps=steps)
    one = events.GaussianDpEvent(noise_multiplier)
    kind = events.RevealedSampledDpEvent if is_revealed else events.PoissonSampledDpEvent
    return events.SelfComposedDpEvent(kind(sampling_prob, one) if sampling_prob < 1 else one, steps)


def find_noise_multiplier(
    target: float,
    *,
    delta: float,
    sampling_prob: float,
    steps: int,
    relation: Relation | str,
    is_revealed: bool = False,
) -> float:
    """A noise multiplier whose epsilon is at most ``target``, within .1 % of the smallest.

    Starts from the central limit (many sampled steps are one Gaussian with
    mu = q sqrt(T (e^{1/z^2} - 1)) [bu2020]) and follows the nearly straight line of
    log epsilon against log z by secants; what is returned was itself checked.
    """
    _check.positive(epsilon=target)
    _check.delta(delta=delta)
    relation = _check.parse_choice(Relation, relation=relation)
    if is_revealed and relation is Relation.ADD_REMOVE:
        raise ValueError(
            "Expected zero_out or replace_one where batches are revealed, got add_remove; "
            "a revealed batch shows who is in the data, at any noise."
        )

    distance = find_distance(relation)
    mu = gaussian_mu(target, delta)
    shrunk = (mu / (sampling_prob * distance)) ** 2 / steps
    z = 1 / math.sqrt(math.log1p(shrunk)) if shrunk > 0 else 1.0
    if is_revealed or sampling_prob == 1:
        z = distance * math.sqrt(sampling_prob * steps) / mu

    def epsilon_at(z: float, tolerance: float) -> float:
        event = make_sampled_gaussian(
            z, sampling_prob=sampling_prob, steps=steps, is_revealed=is_revealed
        )
        return compute_epsilon(event, delta=delta, relation=relation, tolerance=tolerance)

    near, slope = _find_smallest(
        lambda z: epsilon_at(z, _COARSE_TOLERANCE),
        target,
        max(z, _MIN_MULTIPLIER),
        close=_COARSE_TOLERANCE,
    )
    # whoever asks for epsilon with a smaller tolerance gets no larger one
    return _find_smallest(
        lambda z: epsilon_at(z, _FINE_TOLERANCE), target, near, slope=slope, close=_CLOSE_SHARE
    )[0]


def _find_smallest(
    at: Callable[[float], float], target: float, start: float, *, slope: float = -1.0, close: float
) -> tuple[float, float]:
    """Smallest z with at(z) <= target, by secants on logarithms inside a shrinking bracket.

    Also returns the slope of log epsilon against log z there.
    """
    low, high = 0.0, math.inf  # at(low) > target >= at(high)
    z = start
    last: tuple[float, float] | None = None
    for turn in range(_MAX_STEPS):
        z = round_up_significant(z)  # what is found is the same on every processor
        here = at(z)
        if here <= target:
            high = min(high, z)
        else:
            low = max(low, z)
        width = 1e-6 if turn <= 3 * _NUM_SECANTS else 1e-2  # a jump is not worth many evaluations
        is_close = target * (1 - close) <= here <= target or high - low <= width * low
        if is_close or high <= _MIN_MULTIPLIER:
            return high, slope
        if here > 0:
            if last and abs(z / last[0] - 1) > 1e-4:
                slope = min(math.log(here / last[1]) / math.log(z / last[0]), -0.05)
            last, z = (z, here), max(_step_secant(z, here, target, slope), _MIN_MULTIPLIER)
        is_open = turn > _NUM_SECANTS and (low == 0 or not math.isfinite(high))
        if here <= 0 or not low < z < high or is_open or turn > 3 * _NUM_SECANTS:
            z = _halve_bracket(low, high)
    if math.isfinite(high):
        return high, slope
    raise ValueError(f"Expected a reachable target, got epsilon={target}; no noise reaches it.")


def _step_secant(z: float, here: float, target: float, slope: float) -> float:
    """Where the line through (z, here) meets the target, a hair on the private side of it."""
    return z * math.exp(-(math.log(here / target) + _CLOSE_SHARE / 2) / slope)


def _halve_bracket(low: float, high: float) -> float:
    if not math.isfinite(high):
        return 2 * low
    return max(math.sqrt(low * high) if low > 0 else high / 2, _MIN_MULTIPLIER)
