"""Noise: exact on the grid, from the operating system, never twice the same."""

from __future__ import annotations

import copy
import math
import os
import pickle
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from masquerade.noise import Noise, find_grid, find_scale, round_to_grid
from masquerade.noise import cells as cell_rule
from masquerade.noise import source as module
from masquerade.noise.cells import (
    EXPONENTIAL,
    HALF_NORMAL,
    Law,
    decide_cell,
    draw_extra_bits,
    make_keystream,
)

LAWS = {"gaussian": HALF_NORMAL, "laplace": EXPONENTIAL}
MP = mpmath.MPContext()
MP.prec = 400
RATIO = 1.37 * 2**20  # cells a scale: between 2^20 and 2^21 as find_grid makes it


def words_of(js: list[int], *, sign: int = 0) -> np.ndarray:
    return np.array([(j << 11) | sign for j in js], dtype=np.uint64)


def tail(law: Law, cells: float) -> Any:
    """The exact tail probability at so many cells from zero."""
    return law.tail(MP, MP.mpf(cells) / MP.mpf(RATIO))


def agrees_with_mpmath(law: Law, words: np.ndarray, cells: np.ndarray) -> None:
    """Wherever the fast rule decided, the whole interval lies in that cell, by mpmath."""
    for word, cell in zip(words.tolist(), np.abs(cells).tolist(), strict=True):
        j = word >> 11
        assert tail(law, cell + 0.5) < MP.ldexp(j + 1, -53)
        assert cell == 0 or tail(law, cell - 0.5) > MP.ldexp(j, -53)


def decided_only(law: Law, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Run the fast rule and drop the words that it handed on."""
    handed_on: list[int] = []

    def note(law: object, ratio: float, j: int, key: bytes, index: int) -> int:
        handed_on.append(index)
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_rule, "_refine_cell", note)
        cells = cell_rule.sample_cells(law, RATIO, words, bytes(32), 0)
    keep = np.ones(len(words), dtype=bool)
    keep[handed_on] = False
    return words[keep], cells[keep]


def strictly_decided(law: Law, words: np.ndarray, cells: np.ndarray) -> None:
    """Stronger: both ends of the 53-bit interval are in the cell."""
    for word, cell in zip(words.tolist(), np.abs(cells).tolist(), strict=True):
        j = word >> 11
        assert tail(law, cell + 0.5) <= MP.ldexp(j, -53)
        assert cell == 0 or tail(law, cell - 0.5) >= MP.ldexp(j + 1, -53)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(
    "count", [50_000, pytest.param(500_000, marks=pytest.mark.slow)], ids=["quick", "million"]
)
def test_the_decision_rule_agrees_with_mpmath(name: str, count: int) -> None:
    words = Noise().draw_words(count)
    strictly_decided(LAWS[name], *decided_only(LAWS[name], words))


@pytest.mark.parametrize("name", LAWS)
def test_the_decision_rule_agrees_with_mpmath_near_cell_borders(name: str) -> None:
    law, js = LAWS[name], []
    rng = np.random.default_rng(1)
    for cell in [0, 1, 2, 3, *rng.integers(4, int(4 * RATIO), 300).tolist()]:
        j = int(MP.floor(MP.ldexp(tail(law, cell + 0.5), 53)))
        js += [j + step for step in (-3, -2, -1, 0, 1, 2, 3, 2**12, -(2**12)) if j + step >= 0]
    js = [j for j in js if j < 2**53]
    words = words_of([*js, 0, 1, 2, 3, 2**53 - 1, 2**53 - 2, 2**52, 2**52 - 1])
    kept, cells = decided_only(law, words)
    assert len(kept) < len(words), "borders must be handed on"
    strictly_decided(law, kept, cells)
    refined = cell_rule.sample_cells(law, RATIO, words, bytes(32), 0)
    agrees_with_mpmath(law, words, refined)


def test_a_wrong_cell_would_be_noticed() -> None:
    law = LAWS["gaussian"]
    words, cells = decided_only(law, Noise(seed=1).draw_words(50))
    with pytest.raises(AssertionError):
        strictly_decided(law, words, cells + np.sign(cells))


def test_another_error_bound_gives_the_same_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = Noise(seed=5).sample_gaussian(3.0, 4000)
    monkeypatch.setattr(cell_rule, "_RELATIVE_ERROR", 2.0**-24)  # refine one number in a few
    assert np.array_equal(Noise(seed=5).sample_gaussian(3.0, 4000), quick)


def test_an_undecided_number_gets_more_bits_until_it_is_decided() -> None:
    law = LAWS["gaussian"]
    j = int(MP.floor(MP.ldexp(tail(law, 1000.5), 181)))
    assert decide_cell(law, RATIO, j, 181) is None
    inside = decide_cell(law, RATIO, (j << 128) | 1, 309)
    outside = decide_cell(law, RATIO, ((j + 1) << 128) - 1, 309)
    assert {inside, outside} == {1000, 1001}
    assert decide_cell(law, RATIO, 0, 53) is None
    assert decide_cell(law, RATIO, 2**53 - 1, 53) == 0


@pytest.mark.parametrize(
    ("draw", "law"),
    [
        (lambda noise, n: noise.sample_gaussian(2.5, n), stats.norm(scale=2.5)),
        (lambda noise, n: noise.sample_laplace(2.5, n), stats.laplace(scale=2.5)),
        (lambda noise, n: noise.sample_uniform(n), stats.uniform()),
    ],
    ids=["gaussian", "laplace", "uniform"],
)
def test_kolmogorov_smirnov_accepts_the_scale_and_rejects_two_percent_more(
    draw: Callable[[Noise, int], np.ndarray], law: object
) -> None:
    drawn = draw(Noise(seed=11), 1_000_000)
    assert stats.kstest(drawn, law.cdf).pvalue > 0.01  # type: ignore[attr-defined]
    assert stats.kstest(drawn * 1.02, law.cdf).pvalue < 1e-6  # type: ignore[attr-defined]


@given(scale=st.floats(1e-6, 1e12), seed=st.integers(0, 2**32))
def test_every_value_is_on_the_grid(scale: float, seed: int) -> None:
    grid = find_grid(scale)
    assert math.frexp(grid)[0] == 0.5 and grid <= scale * 2**-20 < 2 * grid
    drawn = Noise(seed=seed).sample_gaussian(scale, 50)
    assert np.all(drawn / grid == np.rint(drawn / grid))
    values = np.random.default_rng(seed).uniform(-scale, scale, 50)
    released = round_to_grid(values, grid) + drawn
    assert np.all(released / grid == np.rint(released / grid))


def test_signs_are_fair_and_zero_has_none() -> None:
    drawn = Noise(seed=3).sample_gaussian(1.0, 200_000)
    assert abs(np.mean(drawn > 0) - 0.5) < 0.005
    coarse = Noise(seed=3).sample_gaussian(1.0, 1000, grid=8.0)
    assert np.all(coarse == 0) and not np.any(np.signbit(coarse))


def low_bits_differ(released_by: Callable[[float, int], np.ndarray]) -> float:
    """How often "is this a double that 1/3 plus noise can reach" tells 0 from 1/3."""
    trials, third = 2000, 1 / 3

    def reachable(outputs: np.ndarray) -> np.ndarray:
        # from 0 every double near zero can come out; from 1/3 only multiples of 1/3's last place,
        # since noise near -1/3 has the same last place
        cell = math.ulp(third)
        small = np.abs(outputs) < third / 4
        return np.where(small, np.rint(outputs / cell) == outputs / cell, True)

    zero, other = released_by(0.0, trials), released_by(third, trials)
    return float(np.mean(~reachable(zero)) - np.mean(~reachable(other)))


def test_low_bits_betray_plain_floating_point_noise_and_not_ours() -> None:
    rng = np.random.default_rng(0)
    plain = low_bits_differ(lambda x, n: x + 0.5 * rng.standard_normal(n))
    assert plain > 0.05, "the attack must work where it can"
    noise, grid = Noise(), find_grid(0.5)

    def ours(x: float, n: int) -> np.ndarray:
        return round_to_grid(np.full(n, x), grid) + noise.sample_gaussian(0.5, n, grid=grid)

    assert low_bits_differ(ours) == 0.0


def test_chacha20_is_the_one_of_rfc_8439() -> None:
    # RFC 8439, section 2.3.2: key 00..1f, nonce 000000090000004a00000000, block counter 1
    key, nonce = bytes(range(32)), bytes.fromhex("000000090000004a00000000")
    block = make_keystream(key, lane=nonce, block=1, num_bytes=64)
    assert block.hex() == (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )
    # RFC 8439, appendix A.1, test vector 1: all zero
    zero = make_keystream(bytes(32), lane=bytes(12), block=0, num_bytes=16)
    assert zero.hex() == "76b8e0ada0f13d90405d6ae55386bd28"


def test_a_large_request_is_the_keystream_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_read_entropy", lambda: bytes(32))
    words = Noise().draw_words(16)
    stream = make_keystream(bytes(32), lane=bytes(12), block=0, num_bytes=128)
    assert words.tobytes() == stream


def test_a_key_is_replaced_before_its_blocks_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = iter([bytes(32), bytes([1]) * 32, bytes([2]) * 32])
    monkeypatch.setattr(module, "_read_entropy", lambda: next(keys))
    monkeypatch.setattr(module, "_BLOCKS_PER_KEY", 2)
    noise = Noise()
    seen = np.concatenate([noise.draw_words(8) for _ in range(5)])
    assert len(set(seen.tolist())) == 40
    with pytest.raises(ValueError, match="words in one call"):
        noise.draw_words(8 * 3)


def test_two_streams_and_two_calls_never_repeat() -> None:
    noise = Noise()
    words = np.concatenate(
        [noise.draw_words(100), noise.draw_words(3), noise.draw_words(100), Noise().draw_words(100)]
    )
    assert len(set(words.tolist())) == len(words)


@pytest.mark.parametrize("seed", [None, 4])
def test_forked_processes_never_share_a_stream(seed: int | None) -> None:
    noise = Noise(seed=seed)
    noise.draw_words(1)
    streams = []
    for _ in range(2):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, noise.draw_words(8).tobytes())
            os._exit(0)
        os.close(write)
        streams.append(os.read(read, 64))
        os.close(read)
        os.waitpid(child, 0)
    streams.append(noise.draw_words(8).tobytes())
    assert len(set(streams)) == 3 and all(len(stream) == 64 for stream in streams)


def test_threads_never_share_a_stream() -> None:
    noise, seen = Noise(), []

    def draw() -> None:
        for _ in range(200):
            seen.extend(noise.draw_words(3).tolist())

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == len(seen) == 2400


def test_noise_cannot_be_copied() -> None:
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="repeat its stream"):
            duplicate(Noise())


def test_a_seed_makes_a_rehearsal_that_repeats() -> None:
    first, second = Noise(seed=9), Noise(seed=9)
    assert first.is_rehearsal and "rehearsal" in first.source
    assert np.array_equal(first.sample_gaussian(1.0, 100), second.sample_gaussian(1.0, 100))
    assert not Noise().is_rehearsal and "operating system" in Noise().source


@given(q=st.floats(1e-18, 1.0, exclude_min=True))
def test_the_true_sampling_probability_is_never_above_the_accounted_one(q: float) -> None:
    threshold = math.floor(Fraction(q) * 2**64)
    assert Fraction(threshold, 2**64) <= Fraction(q)


def test_poisson_batches_compare_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    noise, q = Noise(), 0.1
    threshold = math.floor(Fraction(q) * 2**64)
    edge = np.array([threshold - 1, threshold, threshold + 1], dtype=np.uint64)
    monkeypatch.setattr(noise, "draw_words", lambda count: edge)
    assert noise.sample_poisson_batch(q, 3).tolist() == [True, False, False]
    assert noise.sample_poisson_batch(1.0, 3).all()
    with pytest.raises(ValueError, match="probability"):
        noise.sample_poisson_batch(2.0, 3)


def test_poisson_batches_have_the_right_size() -> None:
    size = Noise(seed=2).sample_poisson_batch(0.03, 1_000_000).sum()
    assert stats.binomtest(int(size), 1_000_000, 0.03).pvalue > 1e-3
    assert stats.binomtest(int(size), 1_000_000, 0.0315).pvalue < 1e-6


@pytest.mark.parametrize("high", [1, 2, 3, 7, 1000, 2**32 - 5, 2**32])
def test_whole_numbers_are_uniform(high: int) -> None:
    drawn = Noise(seed=high).sample_integers(high, 30_000)
    assert drawn.min() >= 0 and drawn.max() < high
    if 1 < high <= 1000:
        counts = np.bincount(drawn, minlength=high)
        assert stats.chisquare(counts).pvalue > 1e-3


def test_whole_numbers_at_a_border_take_more_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    third = (1 << 64) // 3  # its interval times 3 meets both 0 and 1
    monkeypatch.setattr(
        Noise, "_read_words", lambda self, n: (np.array([third], np.uint64), bytes(32), 0)
    )
    extra = draw_extra_bits(bytes(32), 0, 0)
    expected = (third << 128 | extra) * 3 >> 192
    assert Noise().sample_integers(3, 1).tolist() == [expected]


def test_threads_with_other_precisions_do_not_disturb_the_decision() -> None:
    law = LAWS["gaussian"]
    j = int(MP.floor(MP.ldexp(tail(law, 1000.5), 181)))
    wrong: list[int | None] = []

    def decide(bits: int) -> None:
        for _ in range(300):
            near = (j << 128 | 1) << (bits - 309)
            cell = decide_cell(law, RATIO, near, bits)
            if cell != 1001:
                wrong.append(cell)

    threads = [threading.Thread(target=decide, args=(bits,)) for bits in (309, 437, 565, 2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_many_numbers_and_little_budget_cost_no_extra_noise() -> None:
    touched = 300 * 240 * 320 * 3
    sensitivity = 127.5 * math.sqrt(touched)
    scale = find_scale(sensitivity, mu=0.002, coordinates=touched)
    assert scale.sigma <= 1.04 * sensitivity / 0.002
    assert np.all(Noise().sample_gaussian(scale.sigma, 200, grid=scale.grid) % scale.grid == 0)
    with pytest.raises(ValueError, match="raise epsilon or choose a smaller unit"):
        find_scale(sensitivity, mu=1e-9, coordinates=touched)


def test_scale_includes_the_rounding() -> None:
    scale = find_scale(255.0, mu=1.841366, coordinates=100)
    assert scale.sensitivity >= 255.0 + 10 * scale.grid
    assert scale.sensitivity / scale.sigma <= 1.841366
    assert scale.sigma == pytest.approx(138.484, rel=1e-4)


def test_values_too_large_for_the_grid_are_refused() -> None:
    with pytest.raises(ValueError, match="narrow the value range"):
        round_to_grid(np.array([2.0**40]), 2.0**-13)
    with pytest.raises(ValueError, match="power of two"):
        round_to_grid(np.array([1.0]), 0.3)
    with pytest.raises(ValueError, match="scale"):
        Noise().sample_gaussian(-1.0, 3)
    with pytest.raises(ValueError, match="scale"):
        Noise().sample_gaussian(float("nan"), 3)
