"""Votes: the table of bounds, shards that move together, and a lower bound below them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masquerade.account import epsilon, votes
from masquerade.guarantee import Relation

DELTA = 1e-5


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
    fixed = votes.moments_at(2 * gamma, queries, delta=DELTA, most=8)
    assert fixed == pytest.approx(eight, rel=four_digits)
    truth = votes.lnmax_at_least(gamma, queries=queries, teachers=teachers, delta=DELTA)
    assert truth == pytest.approx(lower, rel=4e-4)
    assert truth < min(bounds.values())
    same = votes.gnmax_epsilon(2**0.5 / gamma, queries=queries, delta=DELTA)
    assert same == pytest.approx(gnmax, rel=4e-4)


@pytest.mark.parametrize(("shards", "expected"), [(2, 5.031), (3, 8.126), (12, 49.677)])
def test_shards_of_a_subject_move_together(shards: int, expected: float) -> None:
    bounds = votes.lnmax_bounds(0.01, queries=1600, delta=DELTA, shards_per_subject=shards)
    assert min(bounds.values()) == pytest.approx(expected, rel=2e-4)


def test_unit_shifts_would_be_unsound() -> None:
    """Three teachers moving together: 2ks Laplaces of shift one print less than the truth."""
    wrong = epsilon(
        votes.lnmax_event(0.01, queries=1600 * 3), delta=DELTA, relation=Relation.ADD_REMOVE
    )
    assert wrong == pytest.approx(4.27, abs=0.01)
    assert wrong < 5.41  # the exact lower bound for s = 3


def test_gnmax_has_the_known_epsilon_and_its_event_agrees() -> None:
    found = votes.gnmax_epsilon(40, queries=1000, delta=DELTA)
    assert found == pytest.approx(4.983306, abs=1e-6)
    event = votes.gnmax_event(40, queries=1000)
    assert epsilon(event, delta=DELTA, relation="add_remove") == pytest.approx(found, rel=1e-9)
    three = votes.gnmax_epsilon(120, queries=1000, delta=DELTA, shards_per_subject=3)
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
