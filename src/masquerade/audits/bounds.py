"""From the scores of a distinguishing game to a lower bound on epsilon, with stated confidence.

The threshold is chosen on the first half of each world's scores and judged on the second, so that
the search for it costs nothing. On the second half both error rates are bounded from above by
Clopper-Pearson, each at half of what the confidence leaves.

Several runs that know nothing of one another: what the least of them shows.

A bound that holds with confidence 1 - d is above the truth with a chance of at most d. Runs apart
from one another are all above it with a chance of at most d to the power of their number; so each
may have that much more doubt, and shows more of a claim than one run could at the whole confidence.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np

from masquerade import _check
from masquerade._optional import optimize, special, stats
from masquerade.accounting.compose import compute_epsilon, find_least_epsilon, make_sampled_gaussian
from masquerade.accounting.power import make_tradeoff_curve
from masquerade.events import DpEvent
from masquerade.guarantee import Relation
from masquerade.scores import Evidence, Scores
from masquerade.tradeoff import gaussian_epsilon

_MAX_THRESHOLDS = 400
_TAIL_DOUBT_SHARE = 1e-3
Bound = TypeVar("Bound", bound=Callable[..., Evidence])


def make_flawless_scores(without: int, within: int) -> Scores:
    """So many scores of an attacker who is always right."""
    return Scores(without=np.zeros(without), within=np.ones(within), attack="never wrong")


def add_best_bound(bound: Bound) -> Bound:
    """The same bound, which says besides what it gives for scores without a mistake."""

    @functools.lru_cache(maxsize=256)
    def compute_best_epsilon(without: int, within: int, **settings: Any) -> float:
        return bound(make_flawless_scores(without, within), **settings).epsilon_at_least

    @functools.wraps(bound)
    def compute_with_best(scores: Scores, **settings: Any) -> Evidence:
        best = compute_best_epsilon(len(scores.without), len(scores.within), **settings)
        return replace(bound(scores, **settings), most=best)

    return cast(Bound, compute_with_best)


def upper_rate(errors: np.ndarray | int, trials: int, *, doubt: float) -> np.ndarray:
    """Clopper-Pearson: each rate is below this with probability 1 - ``doubt``.

    Example:
        >>> round(float(upper_rate(0, 100, doubt=0.05)), 4)
        0.0295
    """
    counts = np.minimum(errors, trials - 1)
    bound = stats.beta.ppf(1 - doubt, counts + 1, trials - counts)
    return np.where(np.asarray(errors) >= trials, 1.0, bound)


def compute_rate_bounds(
    scores: Scores,
    gain: Callable[[np.ndarray, np.ndarray], np.ndarray],
    *,
    confidence: float,
    is_central: bool = False,
) -> tuple[float, float]:
    """Upper bounds on false positives and false negatives of the test that promises most.

    Args:
        scores: of both worlds.
        gain: what upper rates (false positive, false negative) would prove.
        confidence: that both bounds hold together.
        is_central: look at the middle only, where moderate errors are known best; the far tails
            promise more and are chosen by luck.
    """
    _check.delta(confidence=confidence)
    doubt = (1 - confidence) / 2
    if min(len(scores.without), len(scores.within)) < 2:
        raise ValueError("Expected at least two trials in each world.")
    candidates = _list_thresholds(scores.without[::2], scores.within[::2], is_central=is_central)
    wary = doubt * _TAIL_DOUBT_SHARE  # so that a lucky extreme is not preferred to a solid middle
    choosing = _upper_rates(scores.without[::2], scores.within[::2], candidates, wary)
    worth = np.stack([gain(*choosing), gain(*reversed(choosing))])  # either world may be accused
    way, place = np.unravel_index(int(np.argmax(worth)), worth.shape)
    threshold = candidates[place : place + 1]
    judged = _upper_rates(scores.without[1::2], scores.within[1::2], threshold, doubt)
    first, second = judged if way == 0 else reversed(judged)
    return float(first[0]), float(second[0])


def _upper_rates(
    out: np.ndarray, within: np.ndarray, thresholds: np.ndarray, doubt: float
) -> tuple[np.ndarray, np.ndarray]:
    """Of "above the threshold means within": upper bounds on false alarms and on misses."""
    alarms = len(out) - np.searchsorted(np.sort(out), thresholds, side="right")
    misses = np.searchsorted(np.sort(within), thresholds, side="right")
    return upper_rate(alarms, len(out), doubt=doubt), upper_rate(misses, len(within), doubt=doubt)


def _list_thresholds(out: np.ndarray, within: np.ndarray, *, is_central: bool) -> np.ndarray:
    pooled = np.concatenate([out, within])
    if is_central:
        return np.unique(np.quantile(pooled, np.linspace(0.4, 0.6, 21)))
    halves = 2.0 ** -np.arange(1, 30)
    far = [np.quantile(world, side) for world in (out, within) for side in (halves, 1 - halves)]
    return np.unique(
        np.concatenate([np.quantile(pooled, np.linspace(0, 1, _MAX_THRESHOLDS)), *far])
    )


@add_best_bound
def clopper_pearson(scores: Scores, *, delta: float, confidence: float = 0.95) -> Evidence:
    """Evidence that assumes nothing about the mechanism: epsilon >= log((TPR - delta) / FPR)."""
    _check.not_negative(delta=delta)

    def compute_log_ratio(positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
        hits = np.maximum(1 - negative - delta, 1e-300)
        return np.asarray(np.log(hits / positive))

    found = compute_rate_bounds(scores, compute_log_ratio, confidence=confidence)
    return make_evidence(
        float(compute_log_ratio(*map(np.array, found))),
        scores,
        delta=delta,
        confidence=confidence,
        assumes="nothing but independent trials",
    )


@add_best_bound
def gaussian_tradeoff(scores: Scores, *, delta: float, confidence: float = 0.95) -> Evidence:
    """Evidence against "this mechanism is Gaussian": delta(0) >= 1 - FPR - FNR, which tells mu.

    Large epsilons show with few trials, because a moderate error rate already tells mu. It holds
    too where mu depends on something public that is drawn, such as a projection: then delta(0) and
    delta(epsilon) are means over what is drawn, and the second is a convex function of the first,
    since d delta(epsilon) / d delta(0) = exp(epsilon/2 - epsilon^2 / (2 mu^2)) grows with mu.
    """
    _check.delta(delta=delta)
    found = compute_rate_bounds(scores, _compute_separation, confidence=confidence, is_central=True)
    mu = max(-2 * float(special.ndtri(sum(found) / 2)), 0.0)
    return make_evidence(
        gaussian_epsilon(mu, delta) * (1 - 1e-9),
        scores,
        delta=delta,
        confidence=confidence,
        assumes="the mechanism is Gaussian, given all that is public: this is evidence against its "
        "stated noise",
    )


@add_best_bound
def compose_coins(
    scores: Scores, *, coins: int, delta: float, confidence: float = 0.95
) -> Evidence:
    """Evidence against independent coins that all fall alike: what so many of them lose together.

    A trial's error rate says little of many coins, which one look at all tells apart. The share of
    heads in all trials of a world tells the one coin, and coins compose exactly. Bounds on
    both shares, moved towards each other, are a pair that is harder to tell apart.

    Args:
        scores: the share of heads in each trial.
        coins: in a trial.
        delta: of the claim.
        confidence: that the bound holds.
    """
    _check.delta(delta=delta, confidence=confidence)
    doubt, value = (1 - confidence) / 4, 0.0  # two shares, and either may be the larger
    worlds = [
        (float(np.mean(world)), coins * len(world)) for world in (scores.without, scores.within)
    ]
    (few, rare), (many, often) = sorted(worlds)
    low = float(upper_rate(round(few * rare), rare, doubt=doubt))
    high = 1 - float(upper_rate(round((1 - many) * often), often, doubt=doubt))
    if low < high:
        heads = np.arange(coins + 1)
        losses = heads * math.log(low / high) + (coins - heads) * math.log((1 - low) / (1 - high))
        value = max(
            find_least_epsilon(stats.binom.pmf(heads, coins, low), losses, delta=delta),
            find_least_epsilon(stats.binom.pmf(heads, coins, high), -losses, delta=delta),
        )
    return make_evidence(
        value * (1 - 1e-6),
        scores,
        delta=delta,
        confidence=confidence,
        assumes="labels are drawn independently and alike, in every query",
    )


@add_best_bound
def poisson_tradeoff(
    scores: Scores,
    *,
    delta: float,
    sampling_prob: float,
    steps: int,
    relation: Relation,
    confidence: float = 0.95,
) -> Evidence:
    """Evidence against "Poisson-sampled Gaussian steps with multiplier z", inverted in z.

    The error rates that were seen lie below the trade-off curve of every z above some z*; so the
    true multiplier is at most z*, and epsilon is at least that of z*.
    """
    _check.delta(delta=delta)
    if delta < 1e-9:
        raise ValueError(
            f"Expected delta of at least 1e-9, got delta={delta}; below, epsilon is a looser upper "
            "bound and would overstate the evidence."
        )
    alarms, misses = compute_rate_bounds(
        scores, _compute_separation, confidence=confidence, is_central=True
    )

    def make_poisson_event(log_z: float) -> DpEvent:
        return make_sampled_gaussian(math.exp(log_z), sampling_prob=sampling_prob, steps=steps)

    def measure_excess(log_z: float) -> float:
        return make_tradeoff_curve(make_poisson_event(log_z), relation=relation)(alarms) - misses

    low, high = math.log(0.3), math.log(1e3)
    value = 0.0  # where even nearly endless noise explains what was seen
    if measure_excess(high) > 0:
        root = (
            low
            if measure_excess(low) > 0
            else float(optimize.brentq(measure_excess, low, high, xtol=1e-4))
        )
        value = compute_epsilon(make_poisson_event(root), delta=delta, relation=relation) * (
            1 - 1e-3
        )
    return make_evidence(
        value,
        scores,
        delta=delta,
        confidence=confidence,
        assumes="Poisson-sampled Gaussian steps: this is evidence against their stated multiplier",
    )


def _compute_separation(false_positive: np.ndarray, false_negative: np.ndarray) -> np.ndarray:
    """The mu of two unit Gaussians with these error rates; rates of one tell nothing."""
    return np.asarray(
        np.maximum(-special.ndtri(false_positive) - special.ndtri(false_negative), -1e9)
    )


def make_evidence(
    value: float, scores: Scores, *, delta: float, confidence: float, assumes: str
) -> Evidence:
    """A bound that some scores gave; below zero it says nothing."""
    return Evidence(
        epsilon_at_least=max(value, 0.0),
        delta=delta,
        confidence=confidence,
        trials=min(len(scores.without), len(scores.within)),
        attack=scores.attack,
        assumes=assumes,
    )


def confidence_each(confidence: float, *, runs: int) -> float:
    """Of the bound of each run, so that the least of all holds with ``confidence``.

    Example:
        >>> round(confidence_each(0.95, runs=5), 3)
        0.451
    """
    _check.delta(confidence=confidence)
    _check.count(runs=runs)
    return float(1 - (1 - confidence) ** (1 / runs))


def choose_smallest_bound(found: Sequence[Evidence], *, confidence: float) -> Evidence:
    """The smallest bound of several runs, each made at `confidence_each`.

    Args:
        found: one a run.
        confidence: of all together.

    Raises:
        ValueError: if a run's bound was made at less confidence than it takes.
    """
    each = confidence_each(confidence, runs=len(found))
    for one in found:
        if one.confidence < each * (1 - 1e-12):
            raise ValueError(
                f"Expected bounds at confidence {each:.4g} each, got {one.confidence:.4g}; make "
                "them at confidence_each of the number of runs."
            )
    lowest = min(found, key=lambda one: one.epsilon_at_least)
    return replace(
        lowest,
        confidence=confidence,
        trials=sum(one.trials for one in found),
        most=min((one.most for one in found if one.most is not None), default=None),
    )
