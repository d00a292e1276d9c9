r"""From one run with many canaries to a lower bound on epsilon.

Each of m canaries is in or out by a fair coin of its own. Whoever sees the result guesses the coins
that it is surest of, a number that is fixed beforehand. The canaries share one run, so the guesses
are no independent trials; the bounds below hold all the same, because each coin alone is protected.

For (epsilon, delta) [steinke2023]: with W a binomial of that many tries at e^epsilon / (1 +
e^epsilon), at least v guesses are right with a chance of at most

    P[W >= v] + 2 m delta max_i P[v - i <= W < v] / i.

For a whole trade-off curve f [mahloujifar2024]: let r_j and h_j be the expected shares of canaries
that are guessed right and wrong in runs with at least j right guesses. Turning a coin over makes
its right guess a wrong one, and one right guess is lost, so h_{j-1} >= f(1 - r_j). Where "in" and
"out" are not told apart equally well, f is the curve of fair coins, `make_coin_curve`.

Canaries: secret coins, and what an attacker who sees every update makes of them.

A canary's contribution to a private sum is a direction of its own and as long as it may be, so
that it shows along that direction and nowhere else [nasr2023]. Out it is absent or, where it is
replaced by a neighbour, turned round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from masquerade import _check
from masquerade._optional import special, stats
from masquerade.accounting.compose import compute_epsilon as epsilon_of
from masquerade.accounting.compose import make_sampled_gaussian
from masquerade.accounting.power import make_coin_curve
from masquerade.audits.bounds import add_best_bound, make_evidence
from masquerade.events import DpEvent
from masquerade.guarantee import Relation
from masquerade.noise import Noise
from masquerade.scores import Evidence, Scores
from masquerade.tradeoff import gaussian_epsilon

# of the canaries that are guessed, each at its part of the doubt: a few show most of a claim that
# is kept, many show one that is not
GUESS_SHARES = (1 / 8, 3 / 4)
Curve: TypeAlias = Callable[[float], float]  # the miss rate at a false-alarm rate

_MAX_EPSILON = 50.0
_MAX_MU = 20.0
_MIN_Z, _MAX_Z = 0.2, 1e3
_COINS_ASSUMPTION = "nothing but fair coins"
_NUM_HALVINGS = 40


@dataclass(frozen=True, kw_only=True)
class CoinGuesses:
    """How well the coins were guessed.

    Args:
        right: guesses that were.
        made: guesses in all.
        canaries: coins there were.
    """

    right: int
    made: int
    canaries: int

    def __post_init__(self) -> None:
        _check.count(made=self.made, canaries=self.canaries)
        if not 0 <= self.right <= self.made <= self.canaries:
            raise ValueError(
                "Expected 0 <= right <= made <= canaries, got "
                f"right={self.right}, made={self.made}, canaries={self.canaries}."
            )


def make_guesses(scores: Scores, *, share: float) -> CoinGuesses:
    """Guess "in" for the highest scores and "out" for the lowest, as many of each.

    Where scores are equal, the guess is taken to be the wrong one.

    Args:
        scores: of canaries that were out and of those that were in.
        share: of the canaries that are guessed; to be fixed before any score is seen.

    Example:
        >>> scores = Scores(without=np.array([0.0, 3.0]), within=np.array([2.0, 4.0]), attack="")
        >>> make_guesses(scores, share=0.5).right, make_guesses(scores, share=1.0).right
        (2, 2)
    """
    if not 0 < share <= 1:
        raise ValueError(f"Expected share above 0 and up to 1, got share={share}.")
    both = np.concatenate([scores.within, scores.without])
    is_in = np.arange(len(both)) < len(scores.within)
    order = np.argsort(both, kind="stable")  # among equals those that are in come first
    each = max(1, int(share * len(both) / 2))
    if 2 * each > len(both):
        raise ValueError("Expected at least two canaries, got one.")
    right = np.sum(~is_in[order[:each]]) + np.sum(is_in[order[-each:]])
    return CoinGuesses(right=int(right), made=2 * each, canaries=len(both))


def compute_chance_bound(guesses: CoinGuesses, *, epsilon: float, delta: float) -> float:
    """At most so likely are as many right guesses under (epsilon, delta)-DP [steinke2023].

    Example:
        >>> right = CoinGuesses(right=100, made=100, canaries=1000)
        >>> round(compute_chance_bound(right, epsilon=3.0, delta=0.0), 4)
        0.0078
    """
    v, r, q = guesses.right, guesses.made, float(special.expit(epsilon))
    first = float(stats.binom.sf(v - 1, r, q))
    if delta == 0 or v == 0:
        return first
    i = np.arange(1, v + 1)
    below = np.max((stats.binom.sf(v - i - 1, r, q) - first) / i)
    return min(1.0, first + 2 * guesses.canaries * delta * float(below))


def is_refuted(guesses: CoinGuesses, curve: Curve, *, doubt: float) -> bool:
    """Whether as many right guesses are less likely than ``doubt`` under a trade-off curve.

    If they were that likely, the least that the curve demands of runs with fewer right guesses is
    known from the top down; together all runs must have a chance of at most one.

    Args:
        guesses: that were made.
        curve: symmetric, such as every lower bound on a trade-off curve is made.
        doubt: one less the confidence.
    """
    made, canaries = guesses.made, guesses.canaries
    right = doubt * guesses.right / canaries
    wrong = doubt * (made - guesses.right) / canaries
    for count in range(guesses.right - 1, -1, -1):
        needed = curve(1 - right) if right < 1 else 1.0
        if needed <= wrong:
            break  # nor will it ever be more
        right += count / (made - count) * (needed - wrong)
        wrong = needed
        if right + wrong > made / canaries:
            return True
    return right + wrong > made / canaries


@add_best_bound
def one_run_coins(
    scores: Scores,
    *,
    delta: float,
    confidence: float = 0.95,
    shares: tuple[float, ...] = GUESS_SHARES,
) -> Evidence:
    """Evidence that assumes nothing but fair coins [steinke2023].

    Args:
        scores: of canaries that were out and of those that were in.
        delta: of the claim.
        confidence: that the bound holds.
        shares: of the canaries that are guessed; the best counts, at its part of the doubt.

    Raises:
        ValueError: if there are too many canaries for this delta: it then explains anything.
    """
    each = _each_confidence(confidence, shares)
    found = [
        epsilon_at_least(make_guesses(scores, share=share), delta=delta, confidence=each)
        for share in shares
    ]
    return make_evidence(
        max(found), scores, delta=delta, confidence=confidence, assumes=_COINS_ASSUMPTION
    )


def epsilon_at_least(guesses: CoinGuesses, *, delta: float, confidence: float) -> float:
    """The largest epsilon under which as many right guesses are less likely than the doubt."""
    _check.not_negative(delta=delta)
    _check.delta(confidence=confidence)
    if 2 * guesses.canaries * delta > 1:
        raise ValueError(
            f"Expected at most 1 / (2 delta) canaries, got {guesses.canaries} at delta={delta}; "
            "take fewer, or a smaller delta."
        )

    def is_too_small(epsilon: float) -> bool:
        return compute_chance_bound(guesses, epsilon=epsilon, delta=delta) <= 1 - confidence

    return _find_largest(is_too_small, _MAX_EPSILON)


@add_best_bound
def one_run_gaussian(
    scores: Scores,
    *,
    delta: float,
    confidence: float = 0.95,
    shares: tuple[float, ...] = GUESS_SHARES,
) -> Evidence:
    """Evidence against "this mechanism is mu-GDP" [mahloujifar2024]; as in `one_run_coins`."""
    _check.delta(delta=delta)
    each = _each_confidence(confidence, shares)
    mu = max(mu_at_least(make_guesses(scores, share=share), confidence=each) for share in shares)
    return make_evidence(
        gaussian_epsilon(mu, delta) * (1 - 1e-9),
        scores,
        delta=delta,
        confidence=confidence,
        assumes="fair coins, and a Gaussian mechanism: this is evidence against its stated mu",
    )


def mu_at_least(guesses: CoinGuesses, *, confidence: float) -> float:
    """The largest mu under which as many right guesses are less likely than the doubt."""
    _check.delta(confidence=confidence)

    def is_too_small(mu: float) -> bool:
        return is_refuted(guesses, gaussian_curve(mu), doubt=1 - confidence)

    return _find_largest(is_too_small, _MAX_MU)


@add_best_bound
def one_run_poisson(
    scores: Scores,
    *,
    delta: float,
    sampling_prob: float,
    steps: int,
    relation: Relation,
    confidence: float = 0.95,
) -> Evidence:
    """Evidence against "Poisson-sampled Gaussian steps with multiplier z", inverted in z.

    The curve of each z is the numerical lower bound of the accountant [mahloujifar2024].
    """
    _check.delta(delta=delta)
    doubt = 1 - _each_confidence(confidence, GUESS_SHARES)
    guesses = [make_guesses(scores, share=share) for share in GUESS_SHARES]

    def make_quiet_event(quiet: float) -> DpEvent:
        z = _MAX_Z * math.exp(-quiet)
        return make_sampled_gaussian(z, sampling_prob=sampling_prob, steps=steps)

    def is_too_quiet(quiet: float) -> bool:
        curve = make_coin_curve(make_quiet_event(quiet), relation=relation)
        return any(is_refuted(each, curve, doubt=doubt) for each in guesses)

    found = _find_largest(is_too_quiet, math.log(_MAX_Z / _MIN_Z), halvings=14)
    value = (
        epsilon_of(make_quiet_event(found), delta=delta, relation=relation) if found > 0 else 0.0
    )
    return make_evidence(
        value * (1 - 1e-3),
        scores,
        delta=delta,
        confidence=confidence,
        assumes="fair coins, and Poisson-sampled Gaussian steps: this is evidence against their "
        "stated multiplier",
    )


def _each_confidence(confidence: float, shares: Sequence[float]) -> float:
    """Of each of several bounds, so that all hold together."""
    _check.delta(confidence=confidence)
    return 1 - (1 - confidence) / len(shares)


def gaussian_curve(mu: float) -> Curve:
    """The trade-off curve of telling N(0, 1) from N(mu, 1) [dong2019, Def. 2.6]."""
    return lambda false_positive: float(special.ndtr(-special.ndtri(false_positive) - mu))


def _find_largest(
    holds: Callable[[float], bool], most: float, *, halvings: int = _NUM_HALVINGS
) -> float:
    """The largest number up to ``most`` at which it still holds; 0 where it never does."""
    if not holds(0.0):
        return 0.0
    if holds(most):
        return most
    low, high = 0.0, most
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def toss_coins(count: int, noise: Noise) -> np.ndarray:
    """A fair coin for each canary: whether it is in."""
    _check.count(canaries=count)
    return np.asarray(noise.sample_poisson_batch(0.5, count), dtype=bool)


def score_by_coins(score: np.ndarray, is_in: np.ndarray, *, attack: str) -> Scores:
    """What canaries scored, parted by their coins.

    Raises:
        ValueError: if all coins fell alike, which for more than a few does not happen.
    """
    if is_in.all() or not is_in.any():
        raise ValueError("Expected canaries that are in and canaries that are out; take more.")
    return Scores(without=score[~is_in], within=score[is_in], attack=attack)


class LikelihoodTracker:
    """The log likelihood ratio of "in" against "out" for each canary, from every noisy sum.

    Args:
        count: of canaries.
        sampling_prob: of the batches.
        noise_multiplier: that is claimed.
        relation: zero_out (out is absent) or replace_one (out is turned round).
    """

    def __init__(
        self, count: int, *, sampling_prob: float, noise_multiplier: float, relation: Relation
    ) -> None:
        _check.count(count=count)
        _check.positive(noise_multiplier=noise_multiplier)
        _check.probability(sampling_prob=sampling_prob)
        self.total = np.zeros(count)
        self._q, self._z, self._relation = sampling_prob, noise_multiplier, relation

    def observe_sum(self, along: np.ndarray, is_drawn: np.ndarray | None = None) -> None:
        """Take in one noisy sum.

        Args:
            along: (count,) the sum along each canary's direction, in units of the clipping norm.
            is_drawn: (count,) who was in the batch, where that shows.
        """
        if is_drawn is not None:
            self.total += np.where(is_drawn, along, 0.0)  # of the same order as the ratio
            return
        self.total += self._compute_log_ratio(along)
        if self._relation is Relation.REPLACE_ONE:
            self.total -= self._compute_log_ratio(-along)

    def _compute_log_ratio(self, along: np.ndarray) -> np.ndarray:
        """Of a contribution of +1, by chance q, to none."""
        if self._q == 1:
            return np.asarray((2 * along - 1) / (2 * self._z**2))
        drawn = np.log(self._q) + (2 * along - 1) / (2 * self._z**2)
        return np.asarray(np.logaddexp(np.log1p(-self._q), drawn))
