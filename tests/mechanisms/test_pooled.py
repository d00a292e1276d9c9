"""Sums over blocks: whole numbers, ragged borders, changes that never exceed their bound."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_precision import UNITS, furthest, linear_map, measured

from masquerade.guarantee import Unit, UnitName
from masquerade.mechanisms.pooled_gaussian import PooledGaussian
from masquerade.noise import Noise


def pooling(unit: str, sites: int | None = None, **fields: Any) -> PooledGaussian:
    fields = {"epsilon": 8.0, "delta": 1e-4} | fields
    return PooledGaussian(unit=unit, pixels=sites, **fields)


def by_hand(video: np.ndarray, block: int, length: int) -> np.ndarray:
    """Sums of 2 x - 255 over blocks, by Python's own whole numbers."""
    places = [range(0, n, s) for n, s in zip(video.shape, (length, block, block), strict=False)]
    whole = 2 * video.astype(object) - 255
    sums = [
        whole[t : t + length, y : y + block, x : x + block, c].sum()
        for t, y, x in itertools.product(*places)
        for c in range(3)
    ]
    return np.array(sums, dtype=object)


SHAPES = [(4, 5, 6), (1, 1, 1), (7, 3, 2), (70, 2, 3), (130, 1, 1)]


@pytest.mark.parametrize("size", SHAPES, ids=str)
@pytest.mark.parametrize(("block", "length"), [(1, 1), (2, 2), (3, 5), (4, 64), (50, 200)])
def test_sums_are_exact_whole_numbers(size: tuple[int, ...], block: int, length: int) -> None:
    video = np.random.default_rng(1).integers(0, 256, (*size, 3), dtype=np.uint8)
    mechanism = pooling("pixels", 4, block=block, length=length)
    found = measured(mechanism, video)
    length, block, _ = mechanism.choose_block_steps(video.shape)
    assert np.array_equal(found, by_hand(video, block, length).astype(float))


def test_a_large_block_is_exact() -> None:
    video = np.full((40, 200, 150, 3), 255, np.uint8)
    found = measured(pooling("video", block=200, length=40), video)
    assert found.tolist() == [255.0 * 40 * 200 * 150] * 3


def test_a_block_of_millions_of_sites_is_exact() -> None:
    video = np.full((16, 760, 760, 3), 255, np.uint8)
    found = measured(pooling("video", block=760, length=16), video)
    assert found.tolist() == [255.0 * 16 * 760 * 760] * 3


@pytest.mark.parametrize(("unit", "sites"), UNITS)
@pytest.mark.parametrize(
    ("size", "block", "length"),
    [
        ((4, 4, 6), 2, 2),  # whole blocks only
        ((5, 3, 5), 2, 2),  # ragged on every side
        ((3, 4, 5), 3, 7),  # longer than the video
        ((2, 3, 4), 9, 1),  # larger than the frame
        ((1, 1, 7), 2, 1),
        ((7, 2, 2), 1, 3),
    ],
)
def test_no_change_of_one_unit_exceeds_the_bound(
    unit: str, sites: int | None, size: tuple[int, int, int], block: int, length: int
) -> None:
    mechanism, shape = pooling(unit, sites, block=block, length=length), (*size, 3)
    bound = mechanism.compute_distance_bound(shape, mechanism.privacy_unit)
    worst = furthest(linear_map(mechanism, shape), shape, mechanism.privacy_unit, tries=4)
    assert worst <= bound * (1 + 1e-12)
    fits = all(n % s == 0 for n, s in zip(size, (length, block, block), strict=True))
    if fits or unit == "value" or (unit, sites) == ("pixels", 1):
        assert worst >= 0.999999 * bound  # attained


@settings(max_examples=60)
@given(
    st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 4)),
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from([*UNITS, ("tube", 100), ("pixels", 1000), ("record", None)]),
)
def test_every_unit_is_bounded_whatever_the_blocks(
    size: tuple[int, int, int], block: int, length: int, of: tuple[str, int | None]
) -> None:
    mechanism, shape = pooling("pixels", 2, block=block, length=length), (*size, 3)
    unit = Unit(name=UnitName(of[0]), sites=of[1])
    rows = linear_map(mechanism, shape)
    worst = furthest(rows, shape, unit, tries=2)
    assert worst <= mechanism.compute_distance_bound(shape, unit) * (1 + 1e-12)


def test_a_tube_that_moves_over_ragged_borders_is_bounded() -> None:
    # the worst tube of 3 sites fills whole blocks where it can, in every frame elsewhere if it must
    mechanism, shape = pooling("tube", 3, block=2, length=2), (5, 3, 3, 3)
    rows = linear_map(mechanism, shape).reshape(*shape, -1)
    rng = np.random.default_rng(2)
    bound = mechanism.compute_distance_bound(shape, mechanism.privacy_unit)
    for _ in range(300):
        moved = np.zeros(rows.shape[-1])
        for t in range(5):
            for site in rng.choice(9, 3, replace=False):
                moved += 255 * rows[t, site // 3, site % 3].sum(axis=0)
        assert np.linalg.norm(moved) <= bound


def test_a_block_counts_in_how_many_numbers_a_unit_can_differ() -> None:
    shape = (5, 5, 3, 3)  # 3 x 3 x 2 blocks
    for (unit, sites), count in zip(UNITS, [1, 3, 9, 48, 9, 27, 18, 54], strict=True):
        mechanism = pooling(unit, sites, block=2, length=2)
        assert mechanism.coordinates(shape, mechanism.privacy_unit) == count
        rows = linear_map(mechanism, shape)
        assert rows.shape[1] == 54
        # each number of the video is in one sum alone
        assert np.all((rows != 0).sum(axis=1) == 1)


COLOUR = (210, 90, 30)


@pytest.mark.parametrize("size", [(9, 13, 11), (3, 5, 33), (70, 3, 3)], ids=str)
@pytest.mark.parametrize(("block", "length"), [(4, 4), (2, 3), (64, 100)])
def test_a_flat_colour_comes_back_as_that_colour_right_to_the_border(
    size: tuple[int, int, int], block: int, length: int
) -> None:
    video = np.broadcast_to(np.uint8(COLOUR), (*size, 3))
    mechanism = pooling("pixels", 1, epsilon=1e6, block=block, length=length)
    out = np.asarray(mechanism.apply(video, Noise(seed=1))).astype(float)
    # noise of 255 sqrt(3) / (1410 V) is below one grey level: what is off is bias
    assert np.abs(out - COLOUR).max() <= 2
    # a ragged border block that forgot its grey would be drawn towards 127.5
    for border in (out[-1], out[:, -1], out[:, :, -1]):
        assert np.abs(border.reshape(-1, 3).mean(axis=0) - COLOUR).max() <= 1


def test_less_noise_brings_the_picture_back() -> None:
    rng = np.random.default_rng(4)
    blocks = rng.integers(0, 256, (1, 4, 4, 3), dtype=np.uint8)
    video = blocks.repeat(6, 0).repeat(5, 1).repeat(5, 2)

    def middles(epsilon: float) -> np.ndarray:
        """Where nothing is interpolated."""
        mechanism = pooling("pixels", 1, epsilon=epsilon, block=5, length=6)
        out = np.asarray(mechanism.apply(video, Noise(seed=2))).astype(float)
        return out[2, 2::5, 2::5]

    def error(epsilon: float) -> float:
        return float(np.abs(middles(epsilon) - blocks[0]).mean())

    assert error(1e6) < 2 < error(1.0) < error(0.05)


def test_blocks_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="block"):
        pooling("frame", block=0)
    with pytest.raises(ValueError, match="length"):
        pooling("frame", length=-3)
