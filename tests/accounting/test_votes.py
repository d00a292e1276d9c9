"""Votes: the table of bounds, shards that move together, and a lower bound below them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import binom, norm

from masquerade._formatting import round_up_decimals
from masquerade.accounting import compute_epsilon, votes
from masquerade.accounting.losses import UnsupportedEvent
from masquerade.accounting.tilted import renyi_divergence
from masquerade.accounting.votes import VoteTerms, find_vote_scale
from masquerade.events import (
    BoundedRangeDpEvent,
    ComposedDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    SelfComposedDpEvent,
    event_from_json,
    event_to_json,
)
from masquerade.guarantee import Relation
from masquerade.ledger.filter import BudgetFilter, FilterName
from masquerade.tradeoff import gaussian_epsilon

DELTA = 1e-5
TERMS = [
    VoteTerms(aggregator="lnmax", queries=300),
    VoteTerms(aggregator="gnmax", queries=300, shards_per_subject=3),
    VoteTerms(aggregator="gumbel", queries=300),
    VoteTerms(aggregator="confident", queries=300, cap=100, threshold_std=300.0),
]


@pytest.mark.parametrize(
    ("gamma", "queries", "teachers", "basic", "eight", "best", "kov", "pld", "lower", "gnmax"),
    # gamma, k, teachers, 2gk, Eq. 6 with l <= 8, Eq. 6 at the best l, KOV, PLD of 2k Laplaces,
    # exact lower bound of the argmax, GNMax with the same standard deviation
    [
        (0.01, 1000, 50, 20, 3.239, 3.235, 2.591, 1.756, 1.198, 1.199),
        (0.1, 1000, 50, 200, 51.51, 50.35, 45.87, 27.69, 17.77, 17.86),
        (0.3, 1000, 50, 600, 371.5, 271.1, 250.3, 134.7, 81.70, 84.64),
        (0.5, 1000, 50, 1000, 1011.5, 651.8, 577.9, 298.1, 176.3, 191.5),
        (0.01, 1600, 100, 32, 4.159, 4.159, 3.384, 2.283, 1.554, 1.555),
        (0.1, 1600, 100, 320, 75.51, 70.39, 64.91, 38.42, 24.26, 24.38),
    ],
)
def test_the_table_of_bounds(
    gamma: float,
    queries: int,
    teachers: int,
    basic: float,
    eight: float,
    best: float,
    kov: float,
    pld: float,
    lower: float,
    gnmax: float,
) -> None:
    bounds = votes.lnmax_bounds(gamma, queries=queries, delta=DELTA)
    four_digits = 4e-4  # the table rounds up to four digits
    assert bounds["pure"] == pytest.approx(basic)
    assert bounds["moments"] == pytest.approx(best, rel=four_digits)
    assert bounds["optimal"] == pytest.approx(kov, rel=four_digits)
    assert bounds["pld_laplace"] == pytest.approx(pld, rel=four_digits)
    fixed = votes.moments_epsilon_at(2 * gamma, queries, delta=DELTA, most=8)
    assert fixed == pytest.approx(eight, rel=four_digits)
    truth = votes.lnmax_at_least(gamma, queries=queries, teachers=teachers, delta=DELTA)
    assert truth == pytest.approx(lower, rel=4e-4)
    assert truth < min(bounds.values())
    same = VoteTerms(aggregator="gnmax", queries=queries).vote_epsilon(2**0.5 / gamma, delta=DELTA)
    assert same == pytest.approx(gnmax, rel=4e-4)


@pytest.mark.parametrize(("shards", "expected"), [(2, 5.031), (3, 8.126), (12, 49.677)])
def test_shards_of_a_subject_move_together(shards: int, expected: float) -> None:
    bounds = votes.lnmax_bounds(0.01, queries=1600, delta=DELTA, shards_per_subject=shards)
    assert min(bounds.values()) == pytest.approx(expected, rel=2e-4)


def test_unit_shifts_would_be_unsound() -> None:
    """Three teachers moving together: 2ks Laplaces of shift one print less than the truth."""
    event = VoteTerms(aggregator="lnmax", queries=1600 * 3).make_event(
        100, relation=Relation.ADD_REMOVE
    )
    wrong = compute_epsilon(event, delta=DELTA, relation=Relation.ADD_REMOVE)
    assert wrong == pytest.approx(4.27, abs=0.01)
    assert wrong < 5.41  # the exact lower bound for s = 3


def test_gnmax_has_the_known_epsilon_and_its_event_agrees() -> None:
    terms = VoteTerms(aggregator="gnmax", queries=1000)
    found = terms.vote_epsilon(40, delta=DELTA)
    assert found == pytest.approx(4.983306, abs=1e-6)
    assert found == pytest.approx(gaussian_epsilon(math.sqrt(2000) / 40, DELTA), rel=1e-9)
    three = replace(terms, shards_per_subject=3).vote_epsilon(120, delta=DELTA)
    assert three == pytest.approx(found, rel=1e-9)


@settings(max_examples=20)
@given(st.floats(0.001, 1), st.integers(1, 300), st.floats(1e-8, 1e-3))
def test_the_lower_bound_is_below_every_upper_bound(
    gamma: float, queries: int, delta: float
) -> None:
    bounds = votes.lnmax_bounds(gamma, queries=queries, delta=delta)
    truth = votes.lnmax_at_least(gamma, queries=queries, teachers=20, delta=delta)
    assert truth <= min(bounds.values()) * (1 + 1e-9)
    more = votes.lnmax_bounds(gamma, queries=queries + 10, delta=delta)
    assert min(more.values()) >= min(bounds.values()) * (1 - 2e-4)


@pytest.mark.parametrize(
    ("gamma", "queries", "expected"),
    [
        (0.01, 1000, 1.308),
        (0.1, 1000, 19.05),
        (0.3, 1000, 88.62),
        (0.5, 1000, 198.5),
        (0.01, 1600, 1.693),
        (0.1, 1600, 25.92),
        (0.3, 1600, 127.5),
        (0.5, 1600, 293.4),
    ],
)
def test_gumbel_votes_have_the_known_epsilons(gamma: float, queries: int, expected: float) -> None:
    terms = VoteTerms(aggregator="gumbel", queries=queries)
    found = terms.vote_epsilon(1 / gamma, delta=DELTA)
    assert found == pytest.approx(expected, rel=4e-4)
    together = replace(terms, shards_per_subject=4).vote_epsilon(4 / gamma, delta=DELTA)
    assert together == pytest.approx(found, rel=1e-9)


def coins_epsilon(shift: float, queries: int) -> float:
    """Exact epsilon of ``queries`` coins whose log odds move from +shift/2 to -shift/2."""
    wins = np.arange(queries + 1)
    losses = (2 * wins - queries) * shift / 2
    chance = binom.pmf(wins, queries, expit(shift / 2))
    grid = np.linspace(0, queries * shift / 2, 20_001)
    deltas = [float(chance @ np.maximum(-np.expm1(e - losses), 0)) for e in grid]
    return float(grid[np.argmax(np.array(deltas) <= DELTA)])


@pytest.mark.parametrize(("gamma", "queries"), [(0.05, 100), (0.5, 20), (0.02, 1000)])
def test_gumbel_votes_cost_no_less_than_the_worst_pair_of_two_classes(
    gamma: float, queries: int
) -> None:
    truth = coins_epsilon(2 * gamma, queries)
    found = VoteTerms(aggregator="gumbel", queries=queries).vote_epsilon(1 / gamma, delta=DELTA)
    assert truth <= found <= 1.6 * truth


def test_one_gumbel_vote_is_pure() -> None:
    found = VoteTerms(aggregator="gumbel", queries=1).vote_epsilon(10, delta=1e-9)
    assert 0.19 < found <= 0.2 * (1 + 1e-9)


def test_confident_votes_have_the_known_epsilon() -> None:
    terms = VoteTerms(aggregator="confident", queries=1000, cap=500, threshold_std=100.0)
    found = terms.vote_epsilon(40, delta=DELTA)
    assert round_up_decimals(found, 6) == 3.637267
    three = replace(terms, threshold_std=300.0, shards_per_subject=3).vote_epsilon(120, delta=DELTA)
    assert three == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize("terms", TERMS, ids=lambda terms: terms.aggregator)
def test_epsilon_is_the_same_under_every_relation(terms: VoteTerms) -> None:
    expected = terms.vote_epsilon(60.0, delta=DELTA)
    for relation in Relation:
        event = terms.make_event(60.0, relation=relation)
        assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event
        assert compute_epsilon(event, delta=DELTA, relation=relation) == pytest.approx(
            expected, rel=1e-6
        )
    misread = terms.make_event(60.0, relation=Relation.ADD_REMOVE)
    assert compute_epsilon(misread, delta=DELTA, relation="replace_one") > 1.9 * expected


@pytest.mark.parametrize("terms", TERMS, ids=lambda terms: terms.aggregator)
@pytest.mark.parametrize("target", [0.8, 3.00004])
def test_a_target_is_met_and_hardly_any_noise_is_wasted(terms: VoteTerms, target: float) -> None:
    scale = find_vote_scale(terms, epsilon=target, delta=DELTA)
    assert round_up_decimals(terms.vote_epsilon(scale, delta=DELTA)) <= target
    assert terms.vote_epsilon(scale * 0.998, delta=DELTA) > target


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"aggregator": "best"}, "Unknown aggregator"),
        ({"queries": 0}, "queries"),
        ({"shards_per_subject": 0}, "shards_per_subject"),
        ({"cap": 5}, "exactly for the aggregator confident"),
        ({"aggregator": "confident", "cap": 5}, "exactly for the aggregator confident"),
        ({"aggregator": "confident", "cap": 11, "threshold_std": 1.0}, "at most 10"),
        ({"aggregator": "confident", "cap": 5, "threshold_std": math.nan}, "threshold_std"),
    ],
)
def test_terms_that_mean_nothing_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VoteTerms(**({"aggregator": "gnmax", "queries": 10} | fields))


def test_targets_out_of_reach_are_refused() -> None:
    terms = VoteTerms(aggregator="confident", queries=1000, cap=10, threshold_std=100.0)
    with pytest.raises(ValueError, match="threshold_std above 118"):
        find_vote_scale(terms, epsilon=1.0, delta=DELTA)
    for target in (0.0, 5e-5, math.nan):
        with pytest.raises(ValueError, match="epsilon"):
            find_vote_scale(VoteTerms(aggregator="gnmax", queries=5), epsilon=target, delta=DELTA)


def two_points(width: float, place: float) -> tuple[float, float]:
    """Chances of the upper loss in both worlds, where losses are place - width and place."""
    upper = -math.expm1(place - width) / (-math.expm1(-width) * math.exp(place))
    return upper * math.exp(place), upper


@given(width=st.floats(1e-3, 12), share=st.floats(0.001, 0.999), order=st.floats(1.01, 60))
def test_a_bounded_range_is_never_charged_too_little(
    width: float, share: float, order: float
) -> None:
    """Beside the exact divergence of two outcomes, both ways."""
    p, q = two_points(width, share * width)
    assert logit(p) - logit(q) == pytest.approx(width, rel=1e-6, abs=1e-9)
    charged = renyi_divergence(
        BoundedRangeDpEvent(width), order=order, relation=Relation.ADD_REMOVE
    )
    for a, b in ((p, q), (q, p)):
        terms = (order * np.log([a, 1 - a])) - ((order - 1) * np.log([b, 1 - b]))
        assert np.logaddexp(*terms) / (order - 1) <= charged * (1 + 1e-6) + 1e-9
    doubled = renyi_divergence(
        BoundedRangeDpEvent(width / 2), order=order, relation=Relation.REPLACE_ONE
    )
    assert doubled == pytest.approx(charged)


def gaussian_account(relation: Relation = Relation.ADD_REMOVE) -> BudgetFilter:
    return BudgetFilter(name=FilterName.GAUSSIAN, epsilon=8.0, delta=DELTA, relation=relation)


@given(width=st.floats(1e-3, 12), share=st.floats(1e-3, 0.999))
def test_a_bounded_range_enters_a_gaussian_account_at_enough(width: float, share: float) -> None:
    """The corner of every pair of lines lies above the Gaussian that is charged."""
    charged = math.sqrt(gaussian_account().price_event(BoundedRangeDpEvent(width)) / 2**80)
    p, q = two_points(width, share * width)
    assert norm.isf(q) - norm.isf(p) <= charged * (1 + 1e-7) + 1e-9
    p, q = two_points(width, width / 2)
    assert norm.isf(q) - norm.isf(p) >= charged * (1 - 1e-4), "and no more than that"


def test_ledgers_price_a_bounded_range() -> None:
    event, cap = BoundedRangeDpEvent(0.5), gaussian_account()
    assert cap.price_event(event) == cap.price_event(LaplaceDpEvent(4.0))  # like pure .25
    assert gaussian_account(Relation.REPLACE_ONE).price_event(event) == cap.price_event(
        LaplaceDpEvent(2.0)
    )
    assert cap.price_event(BoundedRangeDpEvent(0.0)) == 0
    with pytest.raises(UnsupportedEvent, match="protects nothing"):
        cap.price_event(BoundedRangeDpEvent(1500.0))


@pytest.mark.parametrize("bound", [-1.0, math.nan, math.inf])
def test_a_bound_that_means_nothing_is_refused(bound: float) -> None:
    with pytest.raises(ValueError, match="bound"):
        compute_epsilon(BoundedRangeDpEvent(bound), delta=DELTA, relation="zero_out")
    with pytest.raises(ValueError, match="bound"):
        event_from_json({"class_name": "BoundedRangeDpEvent", "bound": bound})


def test_a_bounded_range_composes_with_other_noise() -> None:
    ranged, other = SelfComposedDpEvent(BoundedRangeDpEvent(0.02), 1000), GaussianDpEvent(5.0)
    alone = compute_epsilon(ranged, delta=DELTA, relation="zero_out")
    both = compute_epsilon(ComposedDpEvent([ranged, other]), delta=DELTA, relation="zero_out")
    assert alone < both < alone + compute_epsilon(other, delta=DELTA, relation="zero_out")
    assert compute_epsilon(BoundedRangeDpEvent(0.0), delta=DELTA, relation="zero_out") == 0


def test_laplace_under_replace_one_is_twice_as_far() -> None:
    far = compute_epsilon(
        SelfComposedDpEvent(LaplaceDpEvent(40.0), 50), delta=DELTA, relation="zero_out"
    )
    same = SelfComposedDpEvent(LaplaceDpEvent(80.0), 50)
    assert compute_epsilon(same, delta=DELTA, relation="replace_one") == pytest.approx(
        far, rel=1e-9
    )


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("gumbel --gamma 0.01", {"epsilon": 1.3082, "unit": "shard"}),
        ("confident --noise-std 40 --threshold-std 100 --cap 500", {"epsilon": 3.6373}),
        ("gnmax --epsilon 4.9834", {"noise_std": 39.99936, "epsilon": 4.9834}),
        ("gumbel --epsilon 2", {"gamma": 0.01471437, "epsilon": 2.0}),
        ("gnmax --noise-std 80 --shards-per-subject 2", {"epsilon": 4.9834}),
    ],
)
def test_votes_by_command(flags: str, expected: dict[str, Any], command: Any) -> None:
    line = f"account votes --aggregator {flags} --queries 1000 --delta 1e-5 --json"
    data = command(*line.split()).json
    assert {name: data[name] for name in expected} == pytest.approx(expected)
    assert "replace_one" in data["relation"] and data["unit"].startswith(("shard", "subject"))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("gumbel --noise-std 3", "Expected gamma or epsilon"),
        ("gumbel --gamma 1 --epsilon 1", "one of them"),
        ("confident --noise-std 40", "exactly for"),
        ("gnmax --noise-std 40 --cap 5", "exactly for"),
        ("gumbel --gamma nan", "gamma"),
    ],
)
def test_wrong_flags_for_votes_are_refused(flags: str, message: str, command: Any) -> None:
    line = f"account votes --aggregator {flags} --queries 1000 --delta 1e-5"
    done = command(*line.split())
    assert done.code == 2 and message in " ".join(done.err.split())
