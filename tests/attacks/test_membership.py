"""Membership: hand-made models whose leak is known, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from masquerade.attacks.attack import ModelCase, TrainFunction, ignore_progress
from masquerade.attacks.membership import AttackerGuesses, Membership
from masquerade.attacks.membership_scores import (
    MemberGuesses,
    UnitConfidences,
    clopper_pearson,
    sample_halves,
    score_by_lira,
    score_by_rmia,
)
from masquerade.errors import BadInput

UNITS = 400
FAST = Membership(shadows=16, few=64, jobs=1)


def leaking(by: float, *, units: int = UNITS, spread: float = 0.0, rows: int = 1) -> TrainFunction:
    """Models that are surer of what they learned; some units are harder than others."""
    hard = np.random.default_rng(99).normal(0, spread, units)

    def learn(members: np.ndarray, seed: int) -> np.ndarray:
        rng = np.random.default_rng((7, seed))
        sure = np.repeat(hard + by * members, rows) + rng.normal(0, 1, units * rows)
        return np.stack([sure, np.zeros_like(sure)], axis=1)

    return learn


def case(learn: TrainFunction, **given: object) -> ModelCase:
    usual = {
        "targets": np.zeros(UNITS, int),
        "whose": np.arange(UNITS),
        "learn": learn,
        "overfit": leaking(30.0),
    }
    return ModelCase(**(usual | given))  # type: ignore[arg-type]


def hits(tried: AttackerGuesses, place: int = 0) -> float:
    return tried.published.compute_figures(of="recordings", seed=0)[place].value


def test_a_loss_that_tells_all_units_apart_finds_all_of_them() -> None:
    for one in FAST.run(case(leaking(60.0)), told=ignore_progress):
        if not one.attacker.startswith("RMIA"):  # which sees chances, all of them nearly 1
            assert [figure.value for figure in one.published] == [1.0, 1.0, 1.0]
        assert one.published[2].value > 0.99
        assert one.is_telling and one.verdict.startswith("Not stopped")


def test_models_that_learned_nothing_of_a_unit_are_right_as_often_as_wrong() -> None:
    for one in FAST.run(case(leaking(0.0)), told=ignore_progress):
        for figure in one.published[:1] + one.published[2:]:
            assert figure.chance is not None and figure.low <= figure.chance <= figure.high
        assert abs(one.published[0].value - 0.01) < 0.006
        assert abs(one.published[2].value - 0.5) < 0.02
        assert one.verdict.startswith("Not told apart from random")


def test_lira_and_rmia_see_a_leak_that_is_smaller_than_units_differ() -> None:
    tried = FAST.guess_members(case(leaking(2.0, spread=6.0)), told=ignore_progress)
    by_name = {one.attacker: hits(one) for one in tried}
    assert by_name["loss"] < 0.05
    assert by_name["LiRA, with and without"] > 5 * by_name["loss"]
    assert by_name["RMIA"] > 3 * by_name["loss"]


def test_the_floor_is_of_models_that_never_saw_whom_they_are_asked_for() -> None:
    for one in FAST.guess_members(case(leaking(30.0)), told=ignore_progress):
        floor = one.floor.compute_figures(of="recordings", seed=0)
        assert floor[2].low <= 0.5 <= floor[2].high
        assert floor[0].high < 0.05


def test_a_published_model_is_attacked_itself() -> None:
    members = sample_halves(UNITS, 6, rng=np.random.default_rng(5))[0]
    leaky = leaking(30.0)(members, 1_000)
    asked = case(leaking(30.0), outputs=leaky, members=members)
    one = FAST.summarise_guesses(asked, FAST.guess_members(asked, told=ignore_progress)[0])
    assert one.published[0].value == 1.0 and one.published[0].count == UNITS
    assert any("none may be wrong" in note for note in one.notes), "200 others cannot show 0.1 %"


def test_more_rows_of_a_person_tell_more_of_them() -> None:
    several = case(
        leaking(1.0, rows=16),
        targets=np.zeros(16 * UNITS, int),
        whose=np.repeat(np.arange(UNITS), 16),
        overfit=leaking(30.0, rows=16),
        of="people",
    )
    few, many = (
        hits(FAST.guess_members(one, told=ignore_progress)[0])
        for one in (case(leaking(1.0)), several)
    )
    assert many > 3 * few


@pytest.mark.parametrize(("leak", "word"), [(0.0, "within what"), (30.0, "more than")])
def test_figures_stand_beside_what_the_guarantee_allows(leak: float, word: str) -> None:
    proved = case(leaking(leak), allowed=lambda rate: 3 * rate)
    tried = FAST.guess_members(proved, told=ignore_progress)[0]
    assert f"{word} the guarantee allows: 3.00%" in FAST.summarise_guesses(proved, tried).notes[0]
    free = FAST.summarise_guesses(case(leaking(leak)), tried)
    assert free.notes[0].startswith("No guarantee")


def brute(scores: np.ndarray, truth: np.ndarray, rate: float) -> float:
    """By trying every threshold."""
    kept = [0.0]
    for least in np.unique(scores):
        says = scores >= least
        if says[~truth].mean() <= rate:
            kept.append(float(says[truth].mean()))
    return max(kept)


def test_hits_and_area_are_those_of_all_thresholds_ties_and_all() -> None:
    rng = np.random.default_rng(3)
    for digits in (0, 1, 6):
        truth = rng.random(600) < 0.4
        scores = (rng.normal(0, 1, 600) + truth).round(digits)
        guessed = MemberGuesses(scores=scores, truth=truth, whose=np.arange(600))
        found = guessed.compute_figures(of="recordings", seed=0)
        assert found[0].value == pytest.approx(brute(scores, truth, 0.01))
        pairs = scores[truth][:, None] - scores[~truth]
        assert found[2].value == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean())
        alarms, right = guessed.compute_curve()
        assert (np.diff(alarms) >= 0).all() and (np.diff(right) >= 0).all()


def test_intervals_count_units_and_not_guesses() -> None:
    rng = np.random.default_rng(0)
    scores, members = rng.normal(0, 1, (32, 20)), rng.random((32, 20)) < 0.5
    scores[:, 0] += 10 * members[:, 0]  # one unit of twenty gives itself away, in every model
    found = MemberGuesses.from_scores(scores, members).compute_figures(of="recordings", seed=0)[0]
    assert found.count == 20 and found.low < 0.01 < 0.05 < found.value
    assert found.high > 0.15, "it may as well have been three of twenty"


def test_clopper_and_pearson_cover_what_they_promise() -> None:
    rng = np.random.default_rng(0)
    drawn = rng.binomial(50, 0.1, 2_000) / 50
    held = [low <= 0.1 <= high for low, high in (clopper_pearson(one, 50) for one in drawn)]
    assert np.mean(held) >= 0.95
    assert clopper_pearson(0.0, 50) == (0.0, pytest.approx(1 - 0.025 ** (1 / 50)))


def test_each_unit_has_as_many_models_with_it_as_without_whatever_the_attacked_one_did() -> None:
    members = sample_halves(7, 8, rng=np.random.default_rng(0))
    for model in range(8):
        others = members[np.arange(8) // 2 != model // 2]
        assert (others.sum(axis=0) == 3).all() and len(others) == 6


def test_rmia_is_the_share_of_others_that_a_unit_outdoes() -> None:
    chance = np.log([[0.9, 0.5, 0.5, 0.2]])
    usual = np.log(np.full((4, 4), 0.5))
    members = np.array([[True, False] * 2, [False, True] * 2] * 2)
    shadows, attacked = (
        UnitConfidences(sure=usual, chance=usual),
        UnitConfidences(sure=chance, chance=chance),
    )
    assert score_by_rmia(attacked, shadows, members, gamma=1.0).tolist() == [
        [1.0, 0.75, 0.75, 0.25]
    ]
    assert score_by_rmia(attacked, shadows, members, gamma=2.0).tolist() == [
        [0.25, 0.25, 0.25, 0.0]
    ]


def test_lira_is_the_ratio_of_two_bells() -> None:
    sure = np.array([[0.0], [2.0], [10.0], [12.0]])
    members = np.array([[False], [False], [True], [True]])
    shadows = UnitConfidences(sure=sure, chance=sure)
    for value, sign in ((1.0, -1), (11.0, 1), (6.0, 0)):
        asked = UnitConfidences(sure=np.array([[value]]), chance=np.zeros((1, 1)))
        assert np.sign(score_by_lira(asked, shadows, members).round(9)) == sign


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Membership(shadows=7), "even number"),
        (lambda: Membership(few=2), "few"),
        (lambda: case(leaking(0.0), whose=np.zeros(UNITS, int)), "at least 4 units"),
        (lambda: case(leaking(0.0), members=np.ones(UNITS, bool)), "together"),
        (
            lambda: case(leaking(0.0), members=np.ones(UNITS, bool), outputs=np.zeros((UNITS, 2))),
            "learned from and others",
        ),
    ],
)
def test_what_cannot_be_attacked_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises((ValueError, BadInput), match=words):
        make()


def test_models_may_be_trained_in_other_processes() -> None:
    one, two = (
        Membership(shadows=6, few=8, jobs=jobs).guess_members(
            case(leaking(1.0)), told=ignore_progress
        )[0]
        for jobs in (1, 2)
    )
    assert np.array_equal(one.published.scores, two.published.scores)


def test_several_attacks_share_one_ceiling() -> None:
    def never(members: np.ndarray, seed: int) -> np.ndarray:
        raise AssertionError("it is given")

    quick = Membership(shadows=6, few=16, jobs=1)
    leaky = quick.train_leaky_models(case(leaking(0.0)), told=ignore_progress)
    assert leaky.members.any(axis=0).sum() == 16 and (leaky.members.sum(axis=1) == 8).all()
    known = quick.guess_members(case(leaking(0.0)), told=ignore_progress)
    shared = quick.guess_members(
        case(leaking(0.0), overfit=never), told=ignore_progress, leaky=leaky
    )
    for one, other in zip(known, shared, strict=True):
        assert np.array_equal(one.ceiling.scores, other.ceiling.scores)
        assert np.array_equal(one.floor.scores, other.floor.scores)
