"""Audits: bounds that cover, games that stay below true claims and catch false ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binomtest, norm

from masquerade import Scores
from masquerade.accounting import compute_epsilon
from masquerade.accounting.compose import make_sampled_gaussian
from masquerade.accounting.power import false_negative_rate
from masquerade.audits.bounds import (
    clopper_pearson,
    compose_coins,
    gaussian_tradeoff,
    poisson_tradeoff,
    upper_rate,
)
from masquerade.audits.game import MechanismGame, score_by_direction
from masquerade.audits.paper_games import MaskDpBatches, VideoDprpValue
from masquerade.audits.vote_games import GnmaxVotes
from masquerade.cli.audit import find_trials, replace_forms
from masquerade.guarantee import Relation
from masquerade.noise import Noise
from masquerade.publish.audits import audit_game, find_game, list_games
from masquerade.publish.recording import make_mechanism
from masquerade.tradeoff import gaussian_delta, gaussian_epsilon

SURE = 1 - 1e-6


# those that take more than a thousand
TRIALS = {("mask_dp_batches", "sound"): 10_000, ("video_dprp_value", "published"): 200_000}


class WeakNoise(Noise):
    """A liar: claims a scale and draws a share of it."""

    def __init__(self, share: float, *, seed: int) -> None:
        super().__init__(seed=seed)
        self._share = share

    def sample_gaussian(self, sigma: float, shape: Any, *, grid: float | None = None) -> np.ndarray:
        return super().sample_gaussian(sigma, shape, grid=grid) * self._share

    def sample_laplace(self, scale: float, shape: Any, *, grid: float | None = None) -> np.ndarray:
        return super().sample_laplace(scale, shape, grid=grid) * self._share

    def sample_gumbel_argmax(self, scores: np.ndarray, scale: float) -> np.ndarray:
        return super().sample_gumbel_argmax(scores, scale * max(self._share, 1e-6))


def forms() -> Iterator[tuple[str, str | None]]:
    """Every game, in every form that it has."""
    for name in list_games():
        game = find_game(name)
        entry = game.mechanism if isinstance(game, MechanismGame) else game
        hints = get_type_hints(type(entry))
        yield from ((name, form) for form in get_args(hints.get("form")) or (None,))


def gaussian_scores(mu: float, trials: int, seed: int) -> Scores:
    rng = np.random.default_rng(seed)
    return Scores(
        without=rng.standard_normal(trials),
        within=rng.standard_normal(trials) + mu,
        attack="simulated",
    )


@pytest.mark.parametrize(("name", "form"), list(forms()))
def test_every_game_refutes_its_claim_at_a_quarter_of_the_noise_and_ours_not_at_the_whole(
    name: str, form: str | None
) -> None:
    game = find_game(name) if form is None else replace_forms(find_game(name), form)
    is_ours, claim = form not in ("published", "as_published"), game.claim().epsilon
    for share in (0, 0.25, 1):
        noise, trials = WeakNoise(share, seed=1), TRIALS.get((name, form), 1000)
        found = audit_game(game, trials=trials, confidence=SURE, noise=noise)
        assert found.can_refute(claim)
        assert found.refutes(claim) is (share < 1 or not is_ours), share


@pytest.mark.parametrize(
    ("target", "trials"),
    [
        (8.0, 10_000),
        (5.0, 10_000),
        pytest.param(2.0, 30_000, marks=pytest.mark.slow),
        pytest.param(1.0, 120_000, marks=pytest.mark.slow),
    ],
)
def test_evidence_for_gaussian_releases_is_tight(target: float, trials: int) -> None:
    mechanism = make_mechanism(
        "gaussian_noise", epsilon=target, delta=1e-5, unit="frame", low=0.0, high=1.0
    )
    evidence = audit_game(MechanismGame(mechanism=mechanism), trials=trials, noise=Noise(seed=5))
    assert 0.8 * target <= evidence.epsilon_at_least <= target


@pytest.mark.parametrize(
    ("noise_std", "trials"), [(9.0, 10_000), pytest.param(27.1, 30_000, marks=pytest.mark.slow)]
)
def test_evidence_for_vote_histograms_is_tight(noise_std: float, trials: int) -> None:
    game = GnmaxVotes(noise_std=noise_std)
    evidence = audit_game(game, trials=trials, noise=Noise(seed=6))
    assert 0.8 <= evidence.epsilon_at_least / game.claim().epsilon <= 1


@pytest.mark.parametrize("fields", [{"noise_multiplier": 0.7, "steps": 1}, {"steps": 300}])
def test_a_shared_batch_refutes_its_claim_at_other_settings_too(fields: Any) -> None:
    game = MaskDpBatches(trials=500_000 if fields["steps"] == 1 else 10_000, **fields)
    evidence = audit_game(game, confidence=SURE, noise=Noise(seed=3))
    assert evidence.refutes(game.claim().epsilon)


def test_a_gaussian_that_depends_on_something_public_is_never_overstated() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        mus, chances = rng.gamma(1.0, 2.0, 4), rng.dirichlet(np.ones(4))
        errors = float(chances @ norm.cdf(-mus / 2))
        found = gaussian_epsilon(-2 * norm.ppf(errors), 1e-5)
        assert chances @ [float(gaussian_delta(found, mu)) for mu in mus] >= 1e-5 * (1 - 1e-9)


def test_coins_compose_to_no_more_than_all_their_rows_counted_one_by_one() -> None:
    low, high, delta, rng = 0.4, 0.7, 1e-3, np.random.default_rng(6)
    rows = np.array(list(itertools.product([0, 1], repeat=3)))
    worlds = [np.prod(np.where(rows, p, 1 - p), axis=1) for p in (low, high)]

    def lost(epsilon: float) -> float:
        ways = ((p - math.exp(epsilon) * q).clip(0).sum() for p, q in (worlds, worlds[::-1]))
        return float(max(ways)) - delta

    def shown(trials: int, confidence: float) -> float:
        without, within = (rng.binomial(3, p, trials) / 3 for p in (high, low))
        scores = Scores(without=without, within=within, attack="simulated")
        return compose_coins(scores, coins=3, delta=delta, confidence=confidence).epsilon_at_least

    truth = float(brentq(lost, 0, 10))
    assert 0.98 * truth <= shown(500_000, 0.95) <= truth
    above = np.mean([shown(40, 0.5) > truth for _ in range(400)])
    assert 0 < above <= 0.5


@pytest.mark.parametrize("mu", [0.5, 2.0])
@pytest.mark.parametrize("bound", [clopper_pearson, gaussian_tradeoff])
def test_bounds_have_the_coverage_they_state(bound: Any, mu: float) -> None:
    truth, misses = gaussian_epsilon(mu, 1e-3), 0
    for seed in range(1000):
        found = bound(gaussian_scores(mu, 400, seed), delta=1e-3, confidence=0.9)
        misses += found.epsilon_at_least > truth
    assert misses <= 130, "at most 10 % may be wrong, and 3 deviations of luck"


def test_a_bound_that_lies_would_be_noticed() -> None:
    truth = gaussian_epsilon(0.5, 1e-3)
    wrong = sum(
        gaussian_tradeoff(
            gaussian_scores(0.5, 400, seed), delta=1e-3, confidence=0.01
        ).epsilon_at_least
        > truth
        for seed in range(200)
    )
    assert wrong > 60


def test_clopper_pearson_agrees_with_an_independent_implementation() -> None:
    scores = gaussian_scores(1.5, 3000, 7)
    ours = clopper_pearson(scores, delta=1e-5, confidence=0.95).epsilon_at_least

    def upper(errors: int, trials: int, level: float) -> float:
        return float(binomtest(errors, trials).proportion_ci(level, method="exact").high)

    def proves(
        out: np.ndarray, within: np.ndarray, threshold: float, swap: bool, level: float = 0.95
    ) -> float:
        alarms, misses = int((out > threshold).sum()), int((within <= threshold).sum())
        rates = upper(alarms, len(out), level), upper(misses, len(within), level)
        first, second = reversed(rates) if swap else rates
        return math.log(max(1 - second - 1e-5, 1e-300) / first)

    out, within = scores.without, scores.within
    pooled = np.quantile(np.concatenate([out[::2], within[::2]]), np.linspace(0, 1, 400))
    halves = 2.0 ** -np.arange(1, 30)
    far = [np.quantile(w[::2], side) for w in (out, within) for side in (halves, 1 - halves)]
    choices = [
        (t, swap) for swap in (False, True) for t in np.unique(np.concatenate([pooled, *far]))
    ]
    wary = 1 - 0.05 * 1e-3  # the threshold is chosen at a thousandth of the doubt
    best = max(choices, key=lambda choice: proves(out[::2], within[::2], *choice, wary))
    assert ours == pytest.approx(proves(out[1::2], within[1::2], *best), rel=1e-9)
    assert float(upper_rate(3, 500, doubt=0.025)) == pytest.approx(upper(3, 500, 0.95), rel=1e-9)
    assert float(upper_rate(500, 500, doubt=0.025)) == 1.0


def test_the_trade_off_curve_of_sampling_is_below_the_truth_and_close() -> None:
    # one unsampled step is a Gaussian: Phi(Phi^-1(1 - alpha) - mu)
    for alpha in (0.01, 0.2, 0.5):
        found = false_negative_rate(
            alpha,
            make_sampled_gaussian(1.0, sampling_prob=1.0, steps=1),
            relation=Relation.ZERO_OUT,
        )
        truth = norm.cdf(norm.isf(alpha) - 1.0)
        assert truth * 0.98 <= found <= truth * (1 + 1e-9)


def test_evidence_about_sampled_training_comes_close_to_its_epsilon() -> None:
    game = MaskDpBatches(form="sound", noise_multiplier=1.0, steps=300, trials=20_000)
    evidence = audit_game(game, noise=Noise(seed=9))
    claim = game.claim().epsilon
    truth = compute_epsilon(
        make_sampled_gaussian(1.0, sampling_prob=0.01, steps=300),
        delta=1e-5,
        relation="replace_one",
    )
    assert claim == pytest.approx(truth)
    assert 0.6 * claim <= evidence.epsilon_at_least <= claim
    assert "Poisson" in evidence.assumes


def test_scores_that_tell_nothing_prove_nothing() -> None:
    same = gaussian_scores(0.0, 2000, 1)
    for bound in (clopper_pearson, gaussian_tradeoff):
        assert bound(same, delta=1e-5, confidence=0.95).epsilon_at_least < 0.1
    run = dict(sampling_prob=0.01, steps=10, relation=Relation.ZERO_OUT)
    assert poisson_tradeoff(same, delta=1e-5, **run).epsilon_at_least < 0.1
    with pytest.raises(ValueError, match="two trials"):
        one = Scores(without=np.zeros(1), within=np.zeros(1), attack="x")
        clopper_pearson(one, delta=1e-5)


def test_either_world_may_be_the_one_that_gives_itself_away() -> None:
    same = gaussian_scores(0.0, 4000, 3)
    without = same.without.copy()
    without[
        np.random.default_rng(4).random(4000) < 0.05
    ] = -50.0  # one in twenty says clearly that the unit is not in
    scores = Scores(without=without, within=same.within, attack="outliers")
    assert clopper_pearson(scores, delta=1e-5).epsilon_at_least > 2.0


def test_a_trained_distinguisher_finds_a_difference_without_being_told() -> None:
    rng = np.random.default_rng(2)
    without, within = rng.standard_normal((2, 6000, 5))
    within[:, 3] += 2.0
    evidence = gaussian_tradeoff(score_by_direction(without, within), delta=1e-5)
    assert 0.8 * gaussian_epsilon(2.0, 1e-5) <= evidence.epsilon_at_least


def test_a_claim_that_no_feasible_number_of_trials_could_refute_gets_no_such_number() -> None:
    game = VideoDprpValue(epsilon=20.0)
    assert find_trials(game, audit_game(game, trials=100)) is None


def test_the_command_prints_claim_and_evidence_and_exits_with_five(command: Any) -> None:
    refuted = command("audit", "tempdiff_votes", "--trials", 1000)
    assert refuted.code == 5 and "REFUTED" in refuted.out
    passed = command("audit", "gnmax_votes", "--trials", 2000, "--json")
    assert passed.code == 0 and passed.json["refuted"] is False
    assert passed.json["evidence"]["epsilon_at_least"] < passed.json["claim"]["epsilon"]
    assert passed.json["can_refute"] and passed.json["evidence"]["most"] > 8
    few = command("audit", "video_dprp_value", "--trials", 2000)
    assert few.code == 0
    # half of 2,000 judge, and none of them wrong is a rate of 3.69 in 1,000 [log(.9963 / .0037)]
    assert "Cannot refute this claim: 2000 trials show at most 5.6. Give --trials 32000." in few.out
    sound = command("audit", "mask_dp_batches", "--form", "sound", "--trials", 500)
    assert sound.code == 0
    assert command("audit").code == 2
    assert command("audit", "magic").code == 2
    assert command("audit", "gnmax_votes", "--form", "sound").code == 2
    assert command("audit", "gnmax_votes", "--trials", 0).code == 2
    assert command("audit", "gnmax_votes", "--confidence", 1).code == 2
