"""Verdicts count what is random, and settings fill in only what was left open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from experiments.claims import Runs, compare_runs, merge_words
from experiments.engine import fill_settings


def test_one_run_tells_nothing_apart() -> None:
    assert compare_runs(Runs((0.9,), 1000), Runs((0.1,), 1000)) == "not known from one run"


def test_the_standard_error_counts_runs_and_tested_recordings() -> None:
    runs = Runs((0.4, 0.5, 0.6), tested=100)
    assert runs.error == pytest.approx(np.sqrt(0.1**2 / 3 + 0.25 / 100))


def test_shares_that_are_no_counts_scatter_by_their_runs_alone() -> None:
    one, other = (
        Runs(shares, tested=np.inf) for shares in ((0.75, 0.77, 0.76), (0.72, 0.74, 0.73))
    )
    assert one.error == pytest.approx(0.01 / np.sqrt(3))
    assert compare_runs(one, other) == "ahead"
    assert compare_runs(Runs(one.shares, 1000), Runs(other.shares, 1000)) == "not told apart"
    assert compare_runs(Runs((0.9,), np.inf), other) == "not known from one run"


def test_equal_methods_are_seldom_told_apart() -> None:
    """Two standard errors: at most one in twenty, and the count of recordings is on top."""
    rng, false = np.random.default_rng(0), 0
    for _ in range(400):
        truth = rng.normal(0.7, 0.02, size=(2, 5))
        drawn = rng.binomial(400, truth) / 400
        one, other = (Runs(tuple(shares), tested=400) for shares in drawn)
        false += compare_runs(one, other) != "not told apart"
    assert false <= 30


def test_a_true_gap_of_ten_points_is_seen_and_has_its_sign() -> None:
    low, high = Runs((0.6, 0.61, 0.59), 1200), Runs((0.7, 0.71, 0.69), 1200)
    assert (compare_runs(high, low), compare_runs(low, high)) == ("ahead", "behind")


def test_a_single_setback_decides_over_several_comparisons() -> None:
    assert merge_words(["ahead", "behind", "ahead"]) == "behind"


@dataclass(frozen=True, kw_only=True)
class _Recipe:
    setting: str = "paper"
    rate: float | None = None
    batch: int | None = None


def test_a_setting_fills_only_what_is_left_open() -> None:
    values = {"rate": 0.01, "batch": 8}
    assert fill_settings(_Recipe(batch=3), values) == _Recipe(rate=0.01, batch=3)
