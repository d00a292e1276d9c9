"""Gumbel noise: the winner has the softmax law, to the last bit, at any scores."""

from __future__ import annotations

import math
import os
from itertools import accumulate

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from masquerade.noise import Noise, cells
from masquerade.noise.cells import decide_winner, sample_winners

MP = mpmath.MPContext()
MP.prec = 400
KEY = bytes(32)


def repeated(scores: list[int], times: int) -> np.ndarray:
    return np.broadcast_to(scores, (times, len(scores)))


def softmax(scores: list[int], scale: float) -> np.ndarray:
    weights = np.exp((np.array(scores) - max(scores)) / scale)
    return np.asarray(weights / weights.sum())


def borders(scores: list[int], scale: float) -> list[mpmath.mpf]:
    """The exact chances of the first classes together, the last left out."""
    weights = [MP.exp(MP.mpf(score - max(scores)) / MP.mpf(scale)) for score in scores]
    return [border / MP.fsum(weights) for border in list(accumulate(weights))[:-1]]


@pytest.mark.parametrize("order", [1, -1])
def test_two_classes_are_a_logistic_coin_and_five_percent_more_noise_shows(order: int) -> None:
    scores, scale, trials = [70, 40][::order], 20.0, 200_000
    drawn = Noise(seed=3).sample_gumbel_argmax(repeated(scores, trials), scale)
    won = int((drawn == 0).sum())
    gap = scores[0] - scores[1]
    assert stats.binomtest(won, trials, 1 / (1 + math.exp(-gap / scale))).pvalue > 1e-3
    assert stats.binomtest(won, trials, 1 / (1 + math.exp(-gap / (1.05 * scale)))).pvalue < 1e-6


def test_many_classes_have_the_softmax_law() -> None:
    scores, scale, trials = [3, 40, 12, 0, 39, 25, 31], 11.5, 300_000
    drawn = Noise(seed=5).sample_gumbel_argmax(repeated(scores, trials), scale)
    counts = np.bincount(drawn, minlength=len(scores))
    assert stats.chisquare(counts, trials * softmax(scores, scale)).pvalue > 1e-3
    assert stats.chisquare(counts, trials * softmax(scores, 1.05 * scale)).pvalue < 1e-6


def test_it_is_the_law_of_the_largest_noisy_score() -> None:
    """Beside plain Gumbel numbers, which are the definition and not exact."""
    scores, scale, trials = [9, 4, 7], 3.0, 200_000
    plain = np.random.default_rng(1).gumbel(scale=scale, size=(trials, 3)) + scores
    table = [
        np.bincount(plain.argmax(axis=1)),
        np.bincount(Noise(seed=1).sample_gumbel_argmax(repeated(scores, trials), scale)),
    ]
    assert stats.chi2_contingency(table).pvalue > 1e-3


def test_rows_do_not_disturb_each_other() -> None:
    rng = np.random.default_rng(2)
    rows = rng.integers(0, 60, (5, 4))
    scores = np.tile(rows, (40_000, 1))
    drawn = Noise(seed=7).sample_gumbel_argmax(scores, 17.0).reshape(-1, 5)
    for row, found in zip(rows.tolist(), drawn.T, strict=True):
        expected = len(found) * softmax(row, 17.0)
        assert stats.chisquare(np.bincount(found, minlength=4), expected).pvalue > 1e-4


@pytest.mark.parametrize("scale", [0.7, 13.0, 1e6])
def test_numbers_that_are_not_decided_at_once_have_the_same_winner(
    scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = np.random.default_rng(4).integers(0, 30, (2000, 5))
    quick = Noise(seed=8).sample_gumbel_argmax(scores, scale)
    asked = []
    refined = cells._refine_winner

    def noted(scores: list[int], scale: float, j: int, key: bytes, index: int) -> int:
        asked.append(index)
        return refined(scores, scale, j, key, index)

    monkeypatch.setattr(cells, "_refine_winner", noted)
    assert np.array_equal(Noise(seed=8).sample_gumbel_argmax(scores, scale), quick)
    assert not asked, "about one in a million million"
    monkeypatch.setattr(cells, "_ROUNDING_PER_CLASS", 1.0)  # nothing is decided by 53 bits
    assert np.array_equal(Noise(seed=8).sample_gumbel_argmax(scores, scale), quick)
    assert len(set(asked)) == 2000


def test_refined_numbers_have_the_law_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "_ROUNDING_PER_CLASS", 1.0)
    drawn = Noise(seed=9).sample_gumbel_argmax(repeated([8, 2], 6000), 5.0)
    won = int((drawn == 0).sum())
    assert stats.binomtest(won, 6000, 1 / (1 + math.exp(-6 / 5))).pvalue > 1e-3
    assert stats.binomtest(won, 6000, 1 / (1 + math.exp(-6 / 4))).pvalue < 1e-6


def near_borders(scores: list[int], scale: float) -> list[int]:
    places = [int(MP.floor(MP.ldexp(border, 53))) for border in borders(scores, scale)]
    steps = (-4000, -200, -30, -3, -2, -1, 0, 1, 2, 3, 30, 200, 4000)
    found = [place + step for place in places for step in steps]
    return [j for j in [*found, 0, 1, 2**53 - 1, 2**52] if 0 <= j < 2**53]


@settings(max_examples=60, deadline=None)
@given(
    scores=st.lists(st.integers(-60, 60), min_size=2, max_size=9),
    scale=st.floats(0.05, 1e4),
)
def test_what_is_decided_at_once_agrees_with_mpmath(scores: list[int], scale: float) -> None:
    js = near_borders(scores, scale)
    handed_on: list[int] = []

    def note(scores: list[int], scale: float, j: int, key: bytes, index: int) -> int:
        handed_on.append(index)
        return 0

    words = np.array([j << 11 for j in js], dtype=np.uint64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "_refine_winner", note)
        found = sample_winners(repeated(scores, len(js)), scale, words, KEY, 0)
    assert handed_on, "borders must be handed on"
    exact = borders(scores, scale)
    for i, j in enumerate(js):
        if i not in handed_on:
            assert found[i] == sum(border <= MP.ldexp(j, -53) for border in exact)
            assert found[i] == sum(border < MP.ldexp(j + 1, -53) for border in exact)


@settings(max_examples=60, deadline=None)
@given(
    scores=st.lists(st.integers(-60, 60), min_size=2, max_size=9),
    scale=st.floats(0.05, 1e4),
)
def test_borders_are_known_to_half_of_what_is_allowed_for(scores: list[int], scale: float) -> None:
    weights = np.exp((np.array(scores, dtype=np.float64) - max(scores)) / scale)
    sums = np.cumsum(weights)
    exact = borders(scores, scale)
    allowed = 2.0**-53 * (2 * len(scores) + 8)
    total = MP.fsum(MP.exp(MP.mpf(score - max(scores)) / MP.mpf(scale)) for score in scores)
    for found, border in zip(sums.tolist(), exact, strict=False):
        assert abs(found - border * total) <= allowed * total


def test_exp_is_as_accurate_as_the_proof_wants() -> None:
    x = -np.random.default_rng(3).uniform(0, 700, 5000)
    found = np.exp(x)
    worst = max(
        abs(MP.mpf(float(y)) / MP.exp(MP.mpf(float(v))) - 1) for v, y in zip(x, found, strict=True)
    )
    assert worst < 2.0**-50


def test_a_tie_at_an_interval_end_takes_more_bits() -> None:
    half = 2**52  # of 2^53: the border of two equal scores, exactly
    assert decide_winner([5, 5], 1.0, half, 53) is None
    assert decide_winner([5, 5], 1.0, half - 1, 53) is None
    assert decide_winner([5, 5], 1.0, half + 1, 53) == 1
    assert decide_winner([5, 5], 1.0, half - 2, 53) == 0
    assert decide_winner([5, 5], 1.0, (half << 128) + 1, 181) == 1
    assert decide_winner([5, 5], 1.0, (half << 128) - 2, 181) == 0
    assert decide_winner([5, 5], 1.0, (half << 128) - 1, 181) is None
    assert decide_winner([5], 1.0, 0, 53) == 0


def test_extreme_scores_are_decided() -> None:
    most = 2**52
    scores = np.array([[-most, most], [most, -most], [most, most - 1], [-most, -most + 1]])
    for scale in (5e-324, 1e-300, 1e-3):
        assert Noise().sample_gumbel_argmax(scores, scale).tolist() == [1, 0, 0, 1]
    even = Noise(seed=2).sample_gumbel_argmax(repeated([-most, most], 40_000), 1e300)
    assert stats.binomtest(int(even.sum()), 40_000).pvalue > 1e-3
    tied = Noise(seed=2).sample_gumbel_argmax(repeated([most, -most, most], 40_000), 1e-9)
    assert set(tied.tolist()) == {0, 2}
    assert stats.binomtest(int((tied == 0).sum()), 40_000).pvalue > 1e-3


def test_a_rare_class_wins_as_rarely_as_it_should() -> None:
    drawn = Noise(seed=4).sample_gumbel_argmax(repeated([0, 10], 2_000_000), 1.0)
    won = int((drawn == 0).sum())
    assert stats.binomtest(won, 2_000_000, 1 / (1 + math.exp(10))).pvalue > 1e-3


def test_one_class_and_no_queries() -> None:
    assert Noise().sample_gumbel_argmax(np.array([[7], [0]]), 1.0).tolist() == [0, 0]
    empty = Noise().sample_gumbel_argmax(np.empty((0, 4), dtype=np.int64), 1.0)
    assert empty.shape == (0,) and empty.dtype == np.int64


@pytest.mark.parametrize("scale", [math.nan, math.inf, 0.0, -1.0])
def test_a_scale_that_means_nothing_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="scale"):
        Noise().sample_gumbel_argmax(np.array([[1, 2]]), scale)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.array([[1.0, math.nan]]), "whole numbers"),
        (np.array([[True, False]]), "whole numbers"),
        (np.array([1, 2]), "shape"),
        (np.empty((3, 0), dtype=np.int64), "1 to 2\\^20 classes"),
        (np.array([[0, 2**52 + 1]]), "2\\^52"),
        (np.array([[0, -(2**62)]]), "2\\^52"),
        (np.array([[0, 2**63]], dtype=np.uint64), "2\\^52"),
    ],
)
def test_scores_that_are_none_are_refused(scores: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Noise().sample_gumbel_argmax(scores, 1.0)


def test_a_rehearsal_repeats_and_its_scores_stay_as_they_are() -> None:
    scores = np.random.default_rng(5).integers(0, 9, (70_000, 3))
    before = scores.copy()
    drawn = Noise(seed=6).sample_gumbel_argmax(scores, 4.0)
    assert np.array_equal(scores, before)
    assert np.array_equal(Noise(seed=6).sample_gumbel_argmax(scores, 4.0), drawn)
    small = Noise(seed=6).sample_gumbel_argmax(np.asfortranarray(scores.astype(np.uint8)), 4.0)
    assert np.array_equal(small, drawn)
    again = Noise(seed=6)
    again.draw_words(8)
    assert not np.array_equal(again.sample_gumbel_argmax(scores, 4.0), drawn)


def test_a_forked_rehearsal_draws_its_own() -> None:
    noise, scores = Noise(seed=4), repeated([1, 1], 64)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, noise.sample_gumbel_argmax(scores, 1.0).astype(np.uint8).tobytes())
        os._exit(0)
    os.close(write)
    theirs = os.read(read, 64)
    os.close(read)
    os.waitpid(child, 0)
    assert len(theirs) == 64
    assert theirs != noise.sample_gumbel_argmax(scores, 1.0).astype(np.uint8).tobytes()
