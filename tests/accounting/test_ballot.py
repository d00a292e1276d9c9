"""The ballot: noisy winners with their law, a cap that holds, and figures that are no promise."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from masquerade.accounting import compute_epsilon, votes
from masquerade.audits.vote_games import ConfidentVotes
from masquerade.guarantee import Relation
from masquerade.noise import Noise, round_to_grid
from masquerade.publish.audits import audit_game
from masquerade.training import votes as module
from masquerade.training.votes import Ballot, calibrate_ballot, data_dependent_epsilon

DELTA = 1e-5
SURE = 1 - 1e-6
CONFIDENT: dict[str, Any] = dict(threshold=30.0, threshold_std=10.0, cap=50)


def repeated(counts: list[int], times: int) -> np.ndarray:
    return np.tile(np.array(counts), (times, 1))


def wins(aggregator: str, lead: float, scale: float) -> float:
    """How often the first of two classes wins."""
    if aggregator == "gumbel":
        return 1 / (1 + math.exp(-lead / scale))
    if aggregator == "lnmax":
        return votes._chance_of_win(lead / scale)
    return float(stats.norm.cdf(lead / (math.sqrt(2) * scale)))


@pytest.mark.parametrize("aggregator", ["gnmax", "lnmax", "gumbel"])
def test_winners_have_their_law_and_five_percent_more_noise_shows(aggregator: Any) -> None:
    trials, scale = 300_000, 15.0
    ballot = Ballot(aggregator=aggregator, queries=trials, scale=scale)
    found = ballot.sample_answers(repeated([40, 20], trials), Noise(seed=1))
    assert found.dtype == np.int64
    first = int((found == 0).sum())
    assert stats.binomtest(first, trials, wins(aggregator, 20, scale)).pvalue > 1e-3
    assert stats.binomtest(first, trials, wins(aggregator, 20, 1.05 * scale)).pvalue < 1e-6


@pytest.mark.parametrize("scale", [0.3, 20.0, 1.3 * 2**22, 2.0**29])
def test_counts_lie_on_the_grid_so_nothing_of_them_is_rounded(
    scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    grids = []

    def noted(values: np.ndarray, grid: float) -> np.ndarray:
        grids.append(grid)
        return round_to_grid(values, grid)

    monkeypatch.setattr(module, "round_to_grid", noted)
    counts = np.random.default_rng(1).integers(0, 1000, (50, 6))
    noisy = module._add_vote_noise(counts, "gaussian", scale, Noise(seed=3))
    (grid,) = grids
    assert grid <= 1 and math.frexp(grid)[0] == 0.5
    assert np.array_equal(round_to_grid(counts, grid), counts)
    drawn = Noise(seed=3).sample_gaussian(scale, counts.shape, grid=grid)
    assert np.array_equal(noisy, drawn + counts)


def confident(**fields: Any) -> Ballot:
    given = dict(aggregator="confident", queries=400, scale=2.0, **CONFIDENT)
    return Ballot(**(given | fields))


def test_a_confident_ballot_stops_at_its_cap() -> None:
    sure = repeated([90, 1], 400)
    found = confident().sample_answers(sure, Noise(seed=1))
    assert (found[:50] == 0).all() and (found[50:] == -1).all()
    assert (confident(cap=400).sample_answers(sure, Noise(seed=1)) == 0).all()
    unsure = confident().sample_answers(repeated([2, 1], 400), Noise(seed=2))
    assert set(unsure.tolist()) <= {-1, 0, 1} and (unsure == -1).sum() > 380


def test_a_confident_ballot_asks_about_the_largest_count_with_noise() -> None:
    ballot = confident(queries=100_000, cap=100_000)
    found = ballot.sample_answers(repeated([5, 35, 11], 100_000), Noise(seed=4))
    asked = int((found >= 0).sum())
    assert stats.binomtest(asked, 100_000, stats.norm.cdf(0.5)).pvalue > 1e-3
    assert stats.binomtest(asked, 100_000, stats.norm.cdf(0.5 / 1.1)).pvalue < 1e-6


def test_the_threshold_and_the_answer_have_noise_of_their_own() -> None:
    """Answered or not, the winner's law is that of gnmax; shared noise would favour the first."""
    ballot = confident(queries=200_000, cap=200_000, scale=10.0, threshold=45.0)
    found = ballot.sample_answers(repeated([35, 30], 200_000), Noise(seed=5))
    answered = found[found >= 0]
    first = int((answered == 0).sum())
    assert stats.binomtest(first, len(answered), wins("gnmax", 5, 10.0)).pvalue > 1e-3


@pytest.mark.parametrize("aggregator", ["gnmax", "lnmax", "gumbel", "confident"])
def test_one_call_costs_the_event_under_every_relation(aggregator: Any) -> None:
    extra = CONFIDENT | {"threshold_std": 200.0} if aggregator == "confident" else {}
    target = dict(epsilon=2.0, delta=DELTA, queries=200)
    ballot = calibrate_ballot(aggregator, **target, teachers_per_subject=2, **extra)
    assert 1.99 < ballot.compute_epsilon(DELTA) <= 2.0
    for relation in Relation:
        found = compute_epsilon(ballot.event(relation), delta=DELTA, relation=relation)
        assert found == pytest.approx(ballot.compute_epsilon(DELTA), abs=2e-4)
    alone = calibrate_ballot(aggregator, **target, **extra)
    assert alone.scale < ballot.scale


def test_at_one_epsilon_gumbel_needs_the_least_scale() -> None:
    scales = {
        name: calibrate_ballot(name, epsilon=1.0, delta=DELTA, queries=500).scale  # type: ignore[arg-type]
        for name in ("gnmax", "lnmax", "gumbel")
    }
    assert scales["gumbel"] < scales["lnmax"] < scales["gnmax"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"aggregator": "most"}, "Unknown aggregator"),
        ({"queries": 0}, "queries"),
        ({"scale": math.nan}, "scale"),
        ({"scale": 0.0}, "scale"),
        ({"scale": math.inf}, "scale"),
        ({"scale": 2.0**31}, "below 2\\^30"),
        ({"teachers_per_subject": 0}, "shards_per_subject"),
        ({"threshold": 3.0}, "exactly for the aggregator confident"),
        ({"cap": 3}, "exactly for the aggregator confident"),
        ({"aggregator": "confident"}, "exactly for the aggregator confident"),
        ({"aggregator": "confident", **CONFIDENT, "threshold": None}, "threshold"),
        ({"aggregator": "confident", **CONFIDENT, "threshold": math.nan}, "threshold"),
        ({"aggregator": "confident", **CONFIDENT, "cap": 101}, "at most 100"),
    ],
)
def test_a_ballot_that_means_nothing_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Ballot(**({"aggregator": "gnmax", "queries": 100, "scale": 3.0} | fields))


@pytest.mark.parametrize("aggregator", ["gnmax", "lnmax", "gumbel", "confident"])
@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (np.full((101, 2), 777), "at most 100 queries"),
        (np.array([[777, -1]]), "no negative counts"),
        (np.array([[777.0, math.nan]]), "whole numbers"),
        (np.array([777, 1]), "shape"),
        (np.empty((3, 0), dtype=np.int64), "one class"),
    ],
)
def test_counts_that_are_none_are_refused_and_not_told(
    aggregator: Any, counts: np.ndarray, message: str
) -> None:
    extra = CONFIDENT if aggregator == "confident" else {}
    ballot = Ballot(aggregator=aggregator, queries=100, scale=3.0, **extra)
    with pytest.raises(ValueError, match=message) as caught:
        ballot.sample_answers(counts, Noise())
    assert "777" not in str(caught.value)


@pytest.mark.parametrize("aggregator", ["gnmax", "lnmax", "gumbel", "confident"])
def test_votes_stay_as_they_are_and_leave_no_trace(aggregator: Any) -> None:
    extra = CONFIDENT | {"cap": 9} if aggregator == "confident" else {}
    ballot = Ballot(aggregator=aggregator, queries=9, scale=3.0, **extra)
    counts = np.random.default_rng(2).integers(7000, 7999, (9, 4))
    before, described = counts.copy(), repr(ballot)
    found = ballot.sample_answers(counts, Noise(seed=1))
    assert np.array_equal(counts, before)
    assert repr(ballot) == described and "7" not in described
    assert np.array_equal(ballot.sample_answers(counts, Noise(seed=1)), found)
    assert ballot.sample_answers(counts[:0], Noise()).shape == (0,)


def lnmax(gamma: float, together: int = 1) -> Ballot:
    return Ballot(aggregator="lnmax", queries=1000, scale=1 / gamma, teachers_per_subject=together)


def test_the_papers_figure_is_a_floor_of_its_accountant() -> None:
    """50 teachers agree, gamma = .5, 1,000 queries: eight moments print ln(1e5)/8 and little else.

    By hand, at l = 8: q = 5 (2 + 25)/4 e^-25 = 4.687e-10, so 1,000 log moments are
    1000 (q e^8 + 8 q (e - 1) - q) = 1.40e-3, and (1.40e-3 + 11.5129)/8 = 1.43929.
    """
    counts = repeated([50, 0, 0, 0, 0, 0], 1000)
    found = data_dependent_epsilon(counts, lnmax(0.5), delta=DELTA)
    assert found.floor == pytest.approx(1.43912, abs=1e-5)
    assert found.value_at_8_moments == pytest.approx(1.43929, abs=1e-5)
    assert found.value == pytest.approx(0.863, abs=5e-4)
    assert lnmax(0.5).compute_epsilon(DELTA) > 298, "what is true whatever they vote"


def test_one_query_of_the_papers_figure_by_hand() -> None:
    """gamma .5, ten votes ahead, third moment: q = 7/4 e^-5 = .0117914, e q = .0320524.

    (1 - q) ((1 - q)/(1 - e q))^3 = 1.051572 and q e^3 = .236837.
    """
    found = module._laplace_cost(np.array([10.0]), 2.0, 1, np.array([3.0]))
    assert found[0] == pytest.approx(math.log(1.051572 + 0.236837), abs=2e-6)


def test_votes_that_are_split_cost_what_they_cost_without_looking() -> None:
    found = data_dependent_epsilon(repeated([25, 25], 1000), lnmax(0.01), delta=DELTA)
    eight = votes.moments_epsilon_at(0.02, 1000, delta=DELTA, most=8)
    assert found.value_at_8_moments == pytest.approx(eight)
    together = data_dependent_epsilon(repeated([25, 25], 1000), lnmax(0.01, 3), delta=DELTA)
    three = votes.moments_epsilon_at(0.06, 1000, delta=DELTA, most=8)
    assert together.value_at_8_moments == pytest.approx(three)


def test_the_figure_depends_on_the_votes_and_so_is_private() -> None:
    one = data_dependent_epsilon(repeated([50, 0], 100), lnmax(0.3), delta=DELTA)
    other = data_dependent_epsilon(repeated([49, 1], 100), lnmax(0.3), delta=DELTA)
    assert one.value < other.value
    assert "never a guarantee" in (type(one).__doc__ or "")
    alone = data_dependent_epsilon(np.full((10, 1), 50), lnmax(0.3), delta=DELTA)
    assert alone.value == pytest.approx(math.log(1e5) / 512), "one class costs nothing"


def coin_moments(lead: float, moved: float, orders: np.ndarray, law: str) -> np.ndarray:
    """Exact log moments of one two-class query whose lead becomes ``moved``; the scale is one."""
    with mpmath.workdps(60):
        if law == "lnmax":

            def loses(x: mpmath.mpf) -> mpmath.mpf:
                tail = mpmath.exp(-abs(x)) * (2 + abs(x)) / 4
                return tail if x >= 0 else 1 - tail
        else:

            def loses(x: mpmath.mpf) -> mpmath.mpf:
                return mpmath.erfc(x / 2) / 2

        p, r = loses(mpmath.mpf(lead)), loses(mpmath.mpf(moved))
        return np.array(
            [
                float(mpmath.log((1 - p) * ((1 - p) / (1 - r)) ** m + p * (p / r) ** m))
                for m in orders.tolist()
            ]
        )


@given(
    lead=st.floats(0.01, 40),
    step=st.floats(0.01, 1.5),
    law=st.sampled_from(["lnmax", "gnmax"]),
)
def test_no_neighbour_of_two_classes_costs_more_than_the_figure(
    lead: float, step: float, law: str
) -> None:
    orders = np.array([1.0, 2.0, 5.0, 16.0, 40.0])
    cost = module._laplace_cost if law == "lnmax" else module._gaussian_cost
    # in units of the scale: one vote is half of what the lead moves by
    charged = cost(np.array([lead / step * 2]), 2 / step, 1, orders)
    for moved in (lead - step, lead + step):
        assert np.all(coin_moments(lead, moved, orders, law) <= charged * (1 + 1e-9) + 1e-14)


def test_gaussian_votes_that_agree_cost_less_than_without_looking() -> None:
    """By hand from the theorem, for one query of 200 votes to 0, sigma 20, order 11."""
    q = math.erfc(5) / 2
    b = math.sqrt(-math.log(q)) * 20
    first = (1 - q) * ((1 - q) / (1 - (q * math.exp(b / 400)) ** (1 - 1 / b))) ** 10
    second = q * (math.exp((b + 1) / 400) / q ** (1 / b)) ** 10
    found = module._gaussian_cost(np.array([200.0]), 20.0, 1, np.array([10.0]))
    assert found[0] == pytest.approx(math.log(first + second), rel=1e-3)
    assert found[0] < 1e-9 < 110 / 400
    ballot = Ballot(aggregator="gnmax", queries=1000, scale=20.0)
    close = data_dependent_epsilon(repeated([100, 100], 1000), ballot, delta=DELTA)
    sure = data_dependent_epsilon(repeated([200, 0], 1000), ballot, delta=DELTA)
    assert sure.value < 0.4 < ballot.compute_epsilon(DELTA) < close.value


def test_the_figure_is_only_for_what_is_published() -> None:
    with pytest.raises(ValueError, match="lnmax or gnmax"):
        gumbel = Ballot(aggregator="gumbel", queries=3, scale=1.0)
        data_dependent_epsilon(np.array([[1, 2]]), gumbel, delta=DELTA)
    with pytest.raises(ValueError, match="at most 1000 queries"):
        data_dependent_epsilon(np.ones((1001, 2), dtype=int), lnmax(0.1), delta=DELTA)


def test_evidence_for_confident_votes_is_tight() -> None:
    game = ConfidentVotes()
    found = audit_game(game, noise=Noise(seed=6)).epsilon_at_least
    assert 0.8 <= found / game.claim().epsilon <= 1
