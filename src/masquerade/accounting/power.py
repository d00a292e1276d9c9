"""How often an attacker who may raise a few false alarms notices a change, from the event itself.

(epsilon, delta) alone is one line of a trade-off curve and says little where epsilon is large; the
whole curve says how often a change is really noticed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from masquerade._formatting import round_up_decimals
from masquerade._optional import special
from masquerade.accounting.compose import compute_epsilon as epsilon_of
from masquerade.accounting.compose import find_gaussian_mu, is_not_private, refine_sums
from masquerade.accounting.losses import TooFine, split_event
from masquerade.events import ComposedDpEvent, DpEvent, SelfComposedDpEvent
from masquerade.guarantee import FALSE_ALARM, Relation
from masquerade.tradeoff import compute_max_power

_DELTAS = np.geomspace(1e-9, 0.5, 32)
_LOST_CHANCE = 1e-9  # chance that the grids may leave out
_CLOSE_RATE = 1e-4  # change of the rate at which a finer grid is not worth it
_CHECK_RATES, _RATE_TOLERANCE = (
    (0.01, 0.5, 0.99, 0.999),
    3e-3,
)  # where a whole curve is looked at, and how closely
_MAX_LINES = 1000  # that a curve is made of at most


def compute_event_power(
    event: DpEvent, *, relation: Relation, epsilon: float, delta: float
) -> float:
    """An upper bound on the power at `FALSE_ALARM`, four decimals.

    It is never above what ``epsilon`` and ``delta``, which are proved for the event, allow.

    Example:
        >>> from masquerade.events import GaussianDpEvent
        >>> event = GaussianDpEvent(1.0)
        >>> compute_event_power(event, relation=Relation.ZERO_OUT, epsilon=4.38, delta=1e-5)
        0.0924
    """
    most = compute_max_power(FALSE_ALARM, epsilon=epsilon, delta=delta, is_gaussian=False)
    found = _compute_power_by_curve(tuple(split_event(event)), relation)
    return round_up_decimals(min(max(found, FALSE_ALARM), most))


@lru_cache(maxsize=64)
def _compute_power_by_curve(parts: tuple[tuple[DpEvent, int], ...], relation: Relation) -> float:
    event = ComposedDpEvent([SelfComposedDpEvent(part, count) for part, count in parts])
    missed = false_negative_rate(FALSE_ALARM, event, relation=relation)
    if missed > 0:
        return 1 - missed
    lines = [(epsilon_of(event, delta=d, relation=relation), d) for d in _DELTAS.tolist()]
    return min(
        compute_max_power(FALSE_ALARM, epsilon=e, delta=d, is_gaussian=False) for e, d in lines
    )


def false_negative_rate(false_positive: float, event: DpEvent, *, relation: Relation) -> float:
    """A lower bound on the miss rate of any test with that false-alarm rate [dong2019, Prop. 2.5].

    The curve is the upper envelope of the lines that each (epsilon, delta(epsilon)) gives. The
    deltas are upper bounds, so the rate is never above the truth; zero where nothing is known.
    """
    if any(is_not_private(part) for part, _ in split_event(event)):
        return 0.0
    mu = find_gaussian_mu(event, relation=relation)
    if mu is not None:
        return float(special.ndtr(-special.ndtri(false_positive) - mu)) * (1 - 1e-9)
    best = 0.0
    for epsilons, deltas in _finer_lines(event, relation):
        found = _envelope_above(false_positive, epsilons, deltas)
        moved, best = found - best, max(best, found)
        if moved <= _CLOSE_RATE * best and math.isfinite(moved):
            break
    return best


def make_tradeoff_curve(event: DpEvent, *, relation: Relation) -> Callable[[float], float]:
    """`false_negative_rate` at any false-alarm rate, for whoever asks many times.

    Example:
        >>> from masquerade.events import GaussianDpEvent
        >>> round(make_tradeoff_curve(GaussianDpEvent(1.0), relation=Relation.ZERO_OUT)(0.5), 4)
        0.1587
    """
    return _make_curve(event, relation, _take_worse_deltas)


def make_coin_curve(event: DpEvent, *, relation: Relation) -> Callable[[float], float]:
    """Of guesses of fair coins: the least share of wrong ones, at 1 less the share of right ones.

    With S where "in" is guessed and S' where "out" is, twice the right ones are P(S) + Q(S') and
    twice the wrong ones Q(S) + P(S'). As P(S) <= e^epsilon Q(S) + delta and Q(S') <= e^epsilon
    P(S') + delta', they are held to the mean of both deltas; a single test, to the larger.

    Example:
        >>> from masquerade.events import GaussianDpEvent
        >>> round(make_coin_curve(GaussianDpEvent(1.0), relation=Relation.ZERO_OUT)(0.5), 4)
        0.1587
    """
    return _make_curve(event, relation, _average_deltas)


def _make_curve(
    event: DpEvent, relation: Relation, joined: Callable[[np.ndarray], np.ndarray]
) -> Callable[[float], float]:
    is_open = any(is_not_private(part) for part, _ in split_event(event))
    if is_open or find_gaussian_mu(event, relation=relation) is not None:
        return lambda rate: false_negative_rate(rate, event, relation=relation)
    before = np.zeros(len(_CHECK_RATES))
    lines = np.zeros(1), np.ones(1)  # which say nothing
    for lines in _finer_lines(event, relation, joined):
        found = np.array([_envelope_above(rate, *lines) for rate in _CHECK_RATES])
        if np.all(found - before <= _RATE_TOLERANCE * found):
            break
        before = found
    some = slice(None, None, len(lines[0]) // _MAX_LINES + 1)  # fewer lines: no higher, and quicker
    return lambda rate: _envelope_above(rate, lines[0][some], lines[1][some])


def _take_worse_deltas(deltas: np.ndarray) -> np.ndarray:
    return np.asarray(deltas.max(axis=0))


def _average_deltas(deltas: np.ndarray) -> np.ndarray:
    return np.asarray(deltas.mean(axis=0) * (1 + 1e-12))  # rounded up


def _finer_lines(
    event: DpEvent,
    relation: Relation,
    joined: Callable[[np.ndarray], np.ndarray] = _take_worse_deltas,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Epsilons and upper bounds on their deltas, on finer and finer grids, while they fit."""
    try:
        for sums in refine_sums(split_event(event), relation, delta=_LOST_CHANCE):
            curves = [each.tilt_at(0.0) for each in sums]
            epsilons = np.unique(np.maximum(np.concatenate([c.losses for c in curves]), 0.0))
            epsilons = epsilons[epsilons < 700]
            yield epsilons, joined(np.stack([curve.find_delta(epsilons) for curve in curves]))
    except TooFine:
        pass


def _envelope_above(false_positive: float, epsilons: np.ndarray, deltas: np.ndarray) -> float:
    """The upper envelope of the lines there, and of those of the mirrored curve."""
    first = 1 - deltas - np.exp(epsilons) * false_positive
    second = np.exp(-epsilons) * (1 - deltas - false_positive)
    return float(np.max(np.maximum(np.maximum(first, second), 0.0)))
