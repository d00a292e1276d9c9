"""Large frames are pooled first: the bound, its rounding, and what pooling leaves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from test_precision import MU, UNITS, cosines, furthest, linear_map, released
from test_precision import (
    test_rounding_stays_within_what_is_allowed_for_it as rounding_stays_within_what_is_allowed,
)

from masquerade.guarantee import Unit, UnitName
from masquerade.mechanisms import cosine_gaussian, gaussian_video, precision
from masquerade.mechanisms.precision import Precision
from masquerade.noise import Noise
from masquerade.vision import transforms


@pytest.fixture(params=[2, 3])
def side(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Cells of so many sites a side, also in small frames."""
    monkeypatch.setattr(cosine_gaussian, "_MIN_POOLED_SITES", 0)
    monkeypatch.setattr(cosine_gaussian, "_CELL_SIDES", (request.param,))
    monkeypatch.setattr(cosine_gaussian, "_MAX_BAND_SHARE", 1.0)
    cosine_gaussian._find_cell_side.cache_clear()
    gaussian_video.GaussianVideo.compute_scale.cache_clear()
    request.addfinalizer(cosine_gaussian._find_cell_side.cache_clear)
    request.addfinalizer(gaussian_video.GaussianVideo.compute_scale.cache_clear)
    return int(request.param)


@pytest.mark.parametrize("size", [(4, 6, 6), (2, 5, 7), (3, 4, 1)], ids=str)
@pytest.mark.parametrize(("unit", "sites"), UNITS)
def test_no_change_of_one_unit_exceeds_the_bound_where_sites_are_pooled(
    unit: str, sites: int | None, size: tuple[int, int, int], side: int
) -> None:
    mechanism, shape = released(unit, sites), (*size, 3)
    assert mechanism.choose_cell_side(shape) == side
    bound = mechanism.compute_distance_bound(shape, mechanism.privacy_unit)
    worst = furthest(linear_map(mechanism, shape), shape, mechanism.privacy_unit)
    assert worst <= bound * (1 + 1e-12)
    is_whole = size[1] % side == 0 and size[2] % side == 0
    if unit == "value" or (unit, sites) == ("pixels", 1) or is_whole:
        assert worst >= 0.95 * bound  # it is met, not merely true
    assert bound <= MU * (1 + 1e-8)


@pytest.mark.parametrize("of", [("frame", None), ("tube", 2), ("pixels", 9), ("video", None)])
def test_other_units_are_bounded_where_sites_are_pooled(
    of: tuple[str, int | None], side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cosine_gaussian, "_MAX_CHUNK_FRAMES", 2)
    unit, shape = Unit(name=UnitName(of[0]), sites=of[1]), (5, 4, 5, 3)
    for mechanism in (released("pixels", 2), released("tube", 2), released("video")):
        worst = furthest(linear_map(mechanism, shape), shape, unit)
        assert worst <= mechanism.compute_distance_bound(shape, unit) * (1 + 1e-12)


def test_large_frames_are_pooled_and_small_ones_are_not() -> None:
    mechanism = released("pixels", 16)
    assert mechanism.choose_cell_side((64, 240, 320, 3)) == 1
    large = (40, 720, 1280, 3)
    side = mechanism.choose_cell_side(large)
    assert side > 1
    band, size = (
        mechanism.plan_precision(mechanism.list_chunks(large)[0]).output_bands[0].shape,
        (720, 1280),
    )
    assert all(kept <= 0.9 * n / side for kept, n in zip(band[1:], size, strict=True))


def test_pooling_leaves_of_each_cosine_what_the_formula_says(side: int) -> None:
    size, rows = 12, cosines(12, 12)
    cells = rows.reshape(size, -1, side).sum(axis=2) / math.sqrt(side)
    count = size // side
    found = np.einsum("kj,kj->k", cells[:count], cosines(count, count))
    assert found == pytest.approx(precision._compute_pooling_gain(count, count, side))


@pytest.mark.parametrize(("unit", "sites"), [("pixels", 1), ("pixels", 3), ("tube", 1)])
def test_a_bound_that_forgets_that_sites_of_a_cell_add_up_is_caught(
    unit: str, sites: int, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        precision.Precision,
        "compute_component_bound",
        _as_if_apart(precision.Precision.compute_component_bound),
    )
    precision.calibrate_precision.cache_clear()
    mechanism, shape = released(unit, sites), (4, 6, 6, 3)
    worst = furthest(linear_map(mechanism, shape), shape, mechanism.privacy_unit)
    precision.calibrate_precision.cache_clear()
    assert worst > 1.01 * mechanism.compute_distance_bound(shape, mechanism.privacy_unit)
    precision.calibrate_precision.cache_clear()


def _as_if_apart(honest: Any) -> Any:
    def apart(self: Precision, kappa: float, lam: float, unit: UnitName, sites: int) -> float:
        return float(honest(self, kappa / self.side**2, lam, unit, sites))

    return apart


@pytest.mark.parametrize("unit", [("pixels", 4), ("tube", 2), ("frame", None), ("video", None)])
@pytest.mark.parametrize("size", [(3, 5, 7), (20, 9, 8), (2, 40, 33)], ids=str)
def test_rounding_of_pooled_frames_stays_within_what_is_allowed_for_it(
    unit: tuple[str, int | None], size: tuple[int, int, int], side: int
) -> None:
    rounding_stays_within_what_is_allowed(unit, size)


@pytest.mark.parametrize("kernel", ["linear", "cubic"])
@pytest.mark.parametrize(("size", "step"), [((8, 12), 4), ((7, 50), 3), ((1, 5), 2), ((70, 3), 16)])
def test_enlarging_in_strips_is_the_whole_product(
    size: tuple[int, int], step: int, kernel: Any
) -> None:
    high, wide = (transforms.enlarging_matrix(n, step, kernel) for n in size)
    small = np.random.default_rng(2).uniform(20, 230, (2, high.shape[1], wide.shape[1], 3))
    whole = np.einsum("ab,tbcd,ec->taed", high, small, wide)
    found = transforms.enlarge_to_bytes(small.astype(np.float32), size, step, kernel)
    assert found.dtype == np.uint8 and found.shape == (2, *size, 3)
    assert np.abs(found - np.clip(whole, 0, 255)).max() <= 0.51


@pytest.mark.parametrize("kernel", ["linear", "cubic"])
def test_a_plain_picture_stays_plain_when_it_is_enlarged(kernel: Any) -> None:
    small = np.full((1, 3, 4, 3), 200, np.float32)
    assert np.all(transforms.enlarge_to_bytes(small, (11, 16), 4, kernel) == 200)


def test_a_cubic_keeps_a_slope() -> None:
    mix = transforms.enlarging_matrix(40, 4, "cubic")
    centres = 4 * np.arange(10) + 1.5
    assert (mix @ centres)[6:-6] == pytest.approx(np.arange(40)[6:-6], abs=1e-4)


def test_a_film_comes_through_pooled_where_there_is_hardly_noise(side: int) -> None:
    rows, columns = np.mgrid[:46, :60]
    plane = 128 + 60 * np.sin(rows / 9) * np.cos(columns / 11)
    film = np.repeat(plane[None, ..., None], 4, axis=0).repeat(3, axis=-1).round().astype(np.uint8)
    mechanism = released("value", epsilon=1e6)
    found = np.array(list(mechanism.stream(iter(film), film.shape, Noise())))
    assert np.sqrt(np.mean((found.astype(float) - film) ** 2)) < 3.0
