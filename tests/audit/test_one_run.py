"""One run, many canaries: bounds that an independent reckoning gives too, and that cover."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import norm

from masquerade import Scores
from masquerade.account.calibrate import sampled_gaussian
from masquerade.account.power import false_negative_rate, tradeoff_curve
from masquerade.audit.one_run import (
    Guesses,
    chance,
    epsilon_at_least,
    gaussian_curve,
    guessed,
    is_refuted,
    mu_at_least,
    one_run_coins,
    one_run_gaussian,
    one_run_poisson,
)
from masquerade.guarantee import Relation
from masquerade.tradeoff import gaussian_delta, gaussian_epsilon

RUNS, CANARIES = 1000, 256


def by_coins(score: np.ndarray, is_in: np.ndarray) -> Scores:
    return Scores(without=score[~is_in], within=score[is_in], attack="simulated")


def gaussian(mu: float, canaries: int, rng: np.random.Generator) -> Scores:
    is_in = rng.random(canaries) < 0.5
    return by_coins(rng.standard_normal(canaries) + mu * is_in, is_in)


def randomised_response(
    epsilon: float, canaries: int, rng: np.random.Generator, *, delta: float = 0.0
) -> Scores:
    """Each coin is told truthfully with the largest chance that is allowed; some are shown."""
    is_in = rng.random(canaries) < 0.5
    is_true = rng.random(canaries) < 1 / (1 + math.exp(-epsilon))
    is_shown = rng.random(canaries) < delta
    said = np.where(is_shown, 3 * (2.0 * is_in - 1), np.where(is_true == is_in, 1.0, -1.0))
    return by_coins(said + 0.5 * rng.random(canaries), is_in)


def tail_by_hand(guesses: Guesses, q: Fraction, delta: Fraction) -> Fraction:
    """The same bound in whole numbers: every term of every sum."""
    made, v = guesses.made, guesses.right
    mass = [math.comb(made, k) * q**k * (1 - q) ** (made - k) for k in range(made + 1)]
    worst = max(sum(mass[max(v - i, 0) : v]) / i for i in range(1, guesses.canaries + 1))
    return sum(mass[v:]) + 2 * guesses.canaries * delta * worst


@pytest.mark.parametrize(("right", "made", "canaries"), [(9, 10, 10), (28, 40, 80), (30, 30, 60)])
@pytest.mark.parametrize("odds", [1, 2, 7])
def test_the_chance_is_that_of_an_exact_reckoning(
    right: int, made: int, canaries: int, odds: int
) -> None:
    guesses, delta = Guesses(right=right, made=made, canaries=canaries), Fraction(1, 10_000)
    by_hand = tail_by_hand(guesses, Fraction(odds, 1 + odds), delta)
    ours = chance(guesses, epsilon=math.log(odds), delta=float(delta))
    assert ours == pytest.approx(min(float(by_hand), 1.0), rel=1e-9)


def test_randomised_response_is_as_likely_as_the_bound_says_and_showing_some_no_likelier() -> None:
    rng, made = np.random.default_rng(1), 64
    for delta in (0.0, 1e-3):
        right = [
            guessed(randomised_response(1.0, made, rng, delta=delta), share=1.0).right
            for _ in range(1500)
        ]
        # half are guessed in: a few more of those that are surest tell nothing new
        v = 52
        seen = float(np.mean(np.array(right) >= v))
        most = chance(Guesses(right=v, made=made, canaries=made), epsilon=1.0, delta=delta)
        assert seen <= most + 3 * math.sqrt(most / 1500)
    q = 1 / (1 + math.exp(-1.0))
    told = rng.binomial(made, q, 100_000)  # every coin is guessed as it was told
    most = chance(Guesses(right=v, made=made, canaries=made), epsilon=1.0, delta=0.0)
    assert np.mean(told >= v) == pytest.approx(most, rel=0.05)


def most_likely(guesses: Guesses, mu: float) -> float:
    """The largest chance of so many right guesses that the curve allows, as a linear program.

    The unknowns are the chances of 0, 1, ... right guesses; the curve is 400 of its tangents.
    """
    made, m, v = guesses.made, guesses.canaries, guesses.right
    count = np.arange(made + 1)
    bounds, limits = [], []
    for at in norm.cdf(np.linspace(-8, 8, 400)):
        slope = math.exp(mu * norm.ppf(1 - at) - mu * mu / 2)  # of the tangent at this rate
        height = norm.cdf(norm.ppf(1 - at) - mu)
        for j in range(1, made + 1):
            right, wrong = (count >= j) * count / m, (count >= j - 1) * (made - count) / m
            bounds.append(slope * right - wrong)
            limits.append(slope * (1 - at) - height)
    found = linprog(
        -1.0 * (count >= v),
        A_ub=np.array(bounds),
        b_ub=np.array(limits),
        A_eq=np.ones((1, made + 1)),
        b_eq=[1.0],
    )
    return float(-found.fun)


@pytest.mark.parametrize(("right", "mu"), [(7, 0.5), (8, 1.0), (8, 0.3)])
def test_a_curve_is_refuted_exactly_where_a_linear_program_says(right: int, mu: float) -> None:
    guesses = Guesses(right=right, made=8, canaries=24)
    most = most_likely(guesses, mu)
    assert 0 < most < 1
    assert is_refuted(guesses, gaussian_curve(mu), doubt=most * 1.02)
    assert not is_refuted(guesses, gaussian_curve(mu), doubt=most * 0.98)


def share_above(
    truth: float, bound: Callable[[Guesses], float], draw: Callable[[np.random.Generator], Scores]
) -> float:
    """How many of 1,000 audits give a bound above the truth."""
    rng, known = np.random.default_rng(7), cache(bound)
    return float(np.mean([known(guessed(draw(rng), share=0.5)) > truth for _ in range(RUNS)]))


def by_epsilon(confidence: float, delta: float) -> Callable[[Guesses], float]:
    return lambda guesses: epsilon_at_least(guesses, delta=delta, confidence=confidence)


def by_mu(confidence: float) -> Callable[[Guesses], float]:
    return lambda guesses: mu_at_least(guesses, confidence=confidence)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_audits_of_randomised_response_are_wrong_in_five_of_a_hundred_at_most(
    epsilon: float, delta: float
) -> None:
    def draw(rng: np.random.Generator) -> Scores:
        return randomised_response(epsilon, CANARIES, rng, delta=delta)

    assert share_above(epsilon, by_epsilon(0.95, delta), draw) <= 0.05


@pytest.mark.parametrize("mu", [0.5, 1.5])
def test_audits_of_a_gaussian_are_wrong_in_five_of_a_hundred_at_most(mu: float) -> None:
    def draw(rng: np.random.Generator) -> Scores:
        return gaussian(mu, CANARIES, rng)

    epsilon, delta = gaussian_epsilon(mu, 1e-5), 1e-5
    assert share_above(mu, by_mu(0.95), draw) <= 0.05
    assert share_above(epsilon, by_epsilon(0.95, delta), draw) <= 0.05


def test_a_bound_that_is_too_sure_of_itself_would_be_noticed() -> None:
    found = share_above(
        2.0, by_epsilon(0.3, 0.0), lambda rng: randomised_response(2.0, CANARIES, rng)
    )
    assert found > 0.2
    too_small = share_above(0.3, by_mu(0.95), lambda rng: gaussian(1.5, CANARIES, rng))
    assert too_small > 0.5


def test_a_whole_curve_shows_more_than_one_point_of_it() -> None:
    scores = gaussian(1.7, 2000, np.random.default_rng(3))
    truth = gaussian_epsilon(1.7, 1e-5)
    plain, whole = (bound(scores, delta=1e-5) for bound in (one_run_coins, one_run_gaussian))
    assert 2.0 < plain.epsilon_at_least < whole.epsilon_at_least < truth
    assert whole.epsilon_at_least > truth / 2
    assert "mu" in whole.assumes and plain.assumes == "nothing but fair coins"


def test_one_unsampled_step_is_the_gaussian_and_its_bound_the_same() -> None:
    scores = gaussian(1.5, 600, np.random.default_rng(4))
    gauss = one_run_gaussian(scores, delta=1e-5)
    steps = one_run_poisson(
        scores, delta=1e-5, sampling_prob=1.0, steps=1, relation=Relation.ZERO_OUT
    )
    assert steps.epsilon_at_least == pytest.approx(gauss.epsilon_at_least, rel=5e-3)


def test_the_curve_for_many_questions_is_the_one_for_each() -> None:
    event = sampled_gaussian(1.0, sampling_prob=0.2, steps=20)
    curve = tradeoff_curve(event, relation=Relation.ZERO_OUT)
    for rate in (0.01, 0.2, 0.9):
        one = false_negative_rate(rate, event, relation=Relation.ZERO_OUT)
        assert one * 0.99 <= curve(rate) <= one * 1.01


def test_scores_that_tell_nothing_prove_nothing() -> None:
    nothing = gaussian(0.0, 2000, np.random.default_rng(5))
    same = Scores(without=np.zeros(500), within=np.zeros(500), attack="a constant")
    for scores in (nothing, same):
        for bound in (one_run_coins, one_run_gaussian):
            assert bound(scores, delta=1e-5).epsilon_at_least < 0.2
    assert guessed(same, share=0.5).right == 0, "equal scores are guessed wrong"


def test_the_gaussian_curve_is_the_one_that_delta_follows_from() -> None:
    mu, epsilon = 1.2, 1.5
    rates = np.linspace(1e-6, 1 - 1e-6, 4001)
    apart = [1 - gaussian_curve(mu)(a) - math.exp(epsilon) * a for a in rates]
    assert max(apart) == pytest.approx(float(gaussian_delta(epsilon, mu)), rel=1e-3)


def test_bad_guesses_are_refused() -> None:
    scores = gaussian(1.0, 100, np.random.default_rng(6))
    with pytest.raises(ValueError, match="share above 0"):
        guessed(scores, share=0.0)
    with pytest.raises(ValueError, match="right <= made"):
        Guesses(right=5, made=4, canaries=10)
    with pytest.raises(ValueError, match="take fewer"):
        one_run_coins(scores, delta=0.1)
    with pytest.raises(ValueError, match="confidence"):
        one_run_gaussian(scores, delta=1e-5, confidence=1.0)
