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
from masquerade.accounting.compose import make_sampled_gaussian
from masquerade.accounting.power import false_negative_rate, make_coin_curve, make_tradeoff_curve
from masquerade.audits.bounds import choose_smallest_bound, confidence_each
from masquerade.audits.one_run import (
    CoinGuesses,
    compute_chance_bound,
    epsilon_at_least,
    gaussian_curve,
    is_refuted,
    make_guesses,
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


def tail_by_hand(guesses: CoinGuesses, q: Fraction, delta: Fraction) -> Fraction:
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
    guesses, delta = CoinGuesses(right=right, made=made, canaries=canaries), Fraction(1, 10_000)
    by_hand = tail_by_hand(guesses, Fraction(odds, 1 + odds), delta)
    ours = compute_chance_bound(guesses, epsilon=math.log(odds), delta=float(delta))
    assert ours == pytest.approx(min(float(by_hand), 1.0), rel=1e-9)


def test_randomised_response_is_as_likely_as_the_bound_says_and_showing_some_no_likelier() -> None:
    rng, made = np.random.default_rng(1), 64
    for delta in (0.0, 1e-3):
        right = [
            make_guesses(randomised_response(1.0, made, rng, delta=delta), share=1.0).right
            for _ in range(1500)
        ]
        # half are guessed in: a few more of those that are surest tell nothing new
        v = 52
        seen = float(np.mean(np.array(right) >= v))
        most = compute_chance_bound(
            CoinGuesses(right=v, made=made, canaries=made), epsilon=1.0, delta=delta
        )
        assert seen <= most + 3 * math.sqrt(most / 1500)
    q = 1 / (1 + math.exp(-1.0))
    told = rng.binomial(made, q, 100_000)  # every coin is guessed as it was told
    most = compute_chance_bound(
        CoinGuesses(right=v, made=made, canaries=made), epsilon=1.0, delta=0.0
    )
    assert np.mean(told >= v) == pytest.approx(most, rel=0.05)


def most_likely(guesses: CoinGuesses, mu: float) -> float:
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
    guesses = CoinGuesses(right=right, made=8, canaries=24)
    most = most_likely(guesses, mu)
    assert 0 < most < 1
    assert is_refuted(guesses, gaussian_curve(mu), doubt=most * 1.02)
    assert not is_refuted(guesses, gaussian_curve(mu), doubt=most * 0.98)


def share_above(
    truth: float,
    bound: Callable[[CoinGuesses], float],
    draw: Callable[[np.random.Generator], Scores],
) -> float:
    """How many of 1,000 audits give a bound above the truth."""
    rng, known = np.random.default_rng(7), cache(bound)
    return float(np.mean([known(make_guesses(draw(rng), share=0.5)) > truth for _ in range(RUNS)]))


def by_epsilon(confidence: float, delta: float) -> Callable[[CoinGuesses], float]:
    return lambda guesses: epsilon_at_least(guesses, delta=delta, confidence=confidence)


def by_mu(confidence: float) -> Callable[[CoinGuesses], float]:
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
    event = make_sampled_gaussian(1.0, sampling_prob=0.2, steps=20)
    curve = make_tradeoff_curve(event, relation=Relation.ZERO_OUT)
    for rate in (0.01, 0.2, 0.9):
        one = false_negative_rate(rate, event, relation=Relation.ZERO_OUT)
        assert one * 0.99 <= curve(rate) <= one * 1.01


def mixture_guesses(z: float, q: float, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Right and wrong guesses of one sampled step: "in" above a place, "out" below its mirror."""
    alarms, lows = norm.sf(places / z), norm.cdf(-places / z)
    hits = (1 - q) * alarms + q * norm.sf((places - 1) / z)
    misses = (1 - q) * lows + q * norm.cdf((-places - 1) / z)
    return (hits + lows) / 2, (alarms + misses) / 2


def test_guesses_of_fair_coins_are_held_to_both_directions_at_once() -> None:
    z, q = 0.7, 0.1
    event = make_sampled_gaussian(z, sampling_prob=q, steps=1)
    coins = make_coin_curve(event, relation=Relation.ZERO_OUT)
    worst = make_tradeoff_curve(event, relation=Relation.ZERO_OUT)
    right, wrong = mixture_guesses(z, q, np.linspace(-2, 3, 21))
    least_wrong = np.array([coins(1 - one) for one in right])
    assert np.all(least_wrong <= wrong * (1 + 1e-9)), "no guesser is better than the curve"
    assert np.any(least_wrong > 0.9 * wrong), "and one comes close"
    single = np.array([worst(1 - one) for one in right])
    assert np.all(single <= least_wrong * (1 + 1e-6)) and np.any(single < 0.9 * least_wrong)


def sampled_steps(canaries: int, rng: np.random.Generator) -> Scores:
    """The exact likelihood ratio of ten sampled steps, seen one by one."""
    q, z = 0.2, 1.0
    is_in, total = rng.random(canaries) < 0.5, np.zeros(canaries)
    for _ in range(10):
        seen = rng.normal(0, z, canaries) + (is_in & (rng.random(canaries) < q))
        total += np.log1p(q * np.expm1((2 * seen - 1) / (2 * z * z)))
    return by_coins(total, is_in)


def test_audits_of_sampled_steps_are_wrong_in_five_of_a_hundred_at_most() -> None:
    curves = {
        z: make_coin_curve(
            make_sampled_gaussian(z, sampling_prob=0.2, steps=10), relation=Relation.ZERO_OUT
        )
        for z in (1.0, 4.0)
    }
    rng = np.random.default_rng(8)
    guesses = [make_guesses(sampled_steps(CANARIES, rng), share=1 / 8) for _ in range(RUNS)]

    def refuted(z: float) -> float:
        judged = cache(lambda each: is_refuted(each, curves[z], doubt=0.05))
        return float(np.mean([judged(each) for each in guesses]))

    assert refuted(1.0) <= 0.05, "the noise that there is"
    assert refuted(4.0) > 0.5, "four times as much"


def test_the_least_of_several_runs_shows_more_and_is_as_rarely_wrong() -> None:
    rng, truth, runs = np.random.default_rng(9), 1.5, 5
    each = confidence_each(0.95, runs=runs)
    known = cache(lambda guesses: mu_at_least(guesses, confidence=each))
    once = cache(lambda guesses: mu_at_least(guesses, confidence=0.95))
    drawn = [
        [make_guesses(gaussian(truth, CANARIES, rng), share=0.5) for _ in range(runs)]
        for _ in range(200)
    ]
    lowest = np.array([min(map(known, some)) for some in drawn])
    alone = np.array([once(some[0]) for some in drawn])
    assert np.mean(lowest > truth) <= 0.05
    assert np.median(lowest) > np.median(alone)


def test_the_least_of_several_runs_is_stated_with_the_confidence_of_all() -> None:
    scores = [gaussian(1.5, 300, np.random.default_rng(seed)) for seed in range(3)]
    each = confidence_each(0.95, runs=3)
    assert (1 - each) ** 3 == pytest.approx(0.05)
    found = [one_run_gaussian(one, delta=1e-5, confidence=each) for one in scores]
    all_three = choose_smallest_bound(found, confidence=0.95)
    assert all_three.epsilon_at_least == min(one.epsilon_at_least for one in found)
    assert all_three.confidence == 0.95
    assert all_three.trials == sum(one.trials for one in found)
    with pytest.raises(ValueError, match="confidence_each"):
        choose_smallest_bound(found[:2], confidence=0.95)


def test_scores_that_tell_nothing_prove_nothing() -> None:
    nothing = gaussian(0.0, 2000, np.random.default_rng(5))
    same = Scores(without=np.zeros(500), within=np.zeros(500), attack="a constant")
    for scores in (nothing, same):
        for bound in (one_run_coins, one_run_gaussian):
            assert bound(scores, delta=1e-5).epsilon_at_least < 0.2
    assert make_guesses(same, share=0.5).right == 0, "equal scores are guessed wrong"


def test_the_gaussian_curve_is_the_one_that_delta_follows_from() -> None:
    mu, epsilon = 1.2, 1.5
    rates = np.linspace(1e-6, 1 - 1e-6, 4001)
    apart = [1 - gaussian_curve(mu)(a) - math.exp(epsilon) * a for a in rates]
    assert max(apart) == pytest.approx(float(gaussian_delta(epsilon, mu)), rel=1e-3)


def test_bad_guesses_are_refused() -> None:
    scores = gaussian(1.0, 100, np.random.default_rng(6))
    with pytest.raises(ValueError, match="share above 0"):
        make_guesses(scores, share=0.0)
    with pytest.raises(ValueError, match="right <= made"):
        CoinGuesses(right=5, made=4, canaries=10)
    with pytest.raises(ValueError, match="take fewer"):
        one_run_coins(scores, delta=0.1)
    with pytest.raises(ValueError, match="confidence"):
        one_run_gaussian(scores, delta=1e-5, confidence=1.0)
