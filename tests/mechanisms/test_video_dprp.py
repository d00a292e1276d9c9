"""Video-DPRP: the noise it takes, the projections, and what the published form really promises."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest, norm
from test_precision import UNITS, corner, cosines, furthest, linear_map, measured

import masquerade
from masquerade.accounting import compute_epsilon
from masquerade.accounting.published import VideoDprpClaim as Paper
from masquerade.guarantee import Accountant, Unit, UnitName
from masquerade.mechanisms import random_projection
from masquerade.mechanisms.random_projection import (
    GaussianProjection,
    OrthonormalProjection,
    Projection,
)
from masquerade.mechanisms.video_dprp import VideoDprp

PAPER_SHAPE = (16, 240, 320, 3)
SMALL = (3, 4, 5, 3)


def dprp(unit: str, sites: int | None = None, **fields: Any) -> VideoDprp:
    fields = {"epsilon": 8.0, "delta": 1e-4} | fields
    return VideoDprp(unit=unit, pixels=sites, **fields)


# sigma for a real-valued R at 320 x 240, k = 3072, delta = 1e-4: orthonormal, fresh Gaussian
GOLDEN = {
    2: [(442.26, 469.84), (766.02, 813.79), (3064.1, 3255.1), (12256, 13021), (212285, 225523)],
    5: [(202.96, 215.32), (351.55, 372.94), (1406.2, 1491.8), (5624.7, 5967.1), (97423, 103353)],
    8: [(138.48, 146.81), (239.86, 254.27), (959.45, 1017.1), (3837.8, 4068.4), (66472, 70467)],
}
GOLDEN_UNITS = [("value", None), ("pixels", 1), ("pixels", 16), ("pixels", 256), ("frame", None)]


@pytest.mark.parametrize("target", GOLDEN)
def test_sound_noise_has_the_known_scale(target: int) -> None:
    for (unit, sites), (orthonormal, gaussian) in zip(GOLDEN_UNITS, GOLDEN[target], strict=True):
        common: dict[str, Any] = dict(epsilon=float(target), columns=3072)
        found = dprp(unit, sites, form="orthonormal", **common).compute_scale(PAPER_SHAPE).sigma
        # never below; above by what rounding to the grid costs, 2 g sqrt(16 k) at most
        assert orthonormal * (1 - 2e-5) <= found <= orthonormal * (1 + 6e-4)
        found = dprp(unit, sites, form="gaussian", **common).compute_scale(PAPER_SHAPE).sigma
        # the Chernoff bound and the grid of R cost one percent over the exact quantile
        assert gaussian * (1 - 2e-5) <= found <= gaussian * 1.015


@pytest.mark.parametrize(
    ("target", "sigma_1", "sigma_2"),
    [(2.0, 13.8477, 88.9090), (5.0, 6.1484, 56.2310), (8.0, 4.1891, 44.4545)],
)
def test_published_noise_has_the_printed_scale(
    target: float, sigma_1: float, sigma_2: float
) -> None:
    mechanism = dprp("frame", form="as_published", epsilon=target, columns=3072)
    assert mechanism.compute_scale(PAPER_SHAPE).sigma == pytest.approx(sigma_1, abs=6e-5)
    assert Paper(epsilon=target, columns=3072).sigma_2() == pytest.approx(sigma_2, abs=6e-5)


def rows_of(projection: Projection) -> np.ndarray:
    """R itself: what `forward` makes of one bright value after the other."""
    numbers = math.prod(projection.frame)
    pulses = np.eye(numbers, dtype=np.uint8).reshape(numbers, *projection.frame)
    return projection.forward(pulses, middle=0.0)


@pytest.mark.parametrize(("frame", "columns"), [((4, 5, 3), 13), ((7, 1, 3), 20), ((1, 1, 3), 2)])
def test_the_orthonormal_projection_is_orthonormal(frame: tuple[int, ...], columns: int) -> None:
    projection = OrthonormalProjection(11, frame, columns)
    r = rows_of(projection)
    assert np.abs(r.T @ r - np.eye(columns)).max() < 1e-12
    y = np.random.default_rng(1).standard_normal((6, columns))
    back = projection.backward(y.copy())
    assert np.allclose(back.reshape(6, -1), y @ r.T, atol=1e-5)
    # lengths are kept, and forward undoes backward
    assert np.allclose(np.linalg.norm(back.reshape(6, -1), axis=1), np.linalg.norm(y, axis=1))
    assert np.allclose(projection.forward(back.astype(np.float64), middle=0.0), y, atol=1e-5)


@pytest.mark.parametrize("wide", [14, 15], ids=["even", "odd"])
def test_the_error_of_the_orthonormal_projection_is_within_its_bound(wide: int) -> None:
    projection = OrthonormalProjection(5, (9, wide, 3), 40)
    video = np.random.default_rng(2).integers(0, 2, (8, 9, wide, 3), dtype=np.uint8) * 255
    centred = np.moveaxis(video.astype(np.longdouble) - 127.5, 3, 1)
    signed = centred * random_projection.sample_signs(5, (3, 9, wide))
    exact = np.einsum("tchw,gh,kw->tcgk", signed, cosines(9, 9), cosines(wide, wide))
    exact = exact.reshape(8, -1)[:, random_projection.sample_places(5, 40, 27 * wide)]
    off = float(np.abs(projection.forward(video, middle=127.5) - exact).max())
    assert 0 < off <= projection.error_bound() < 1e-8


def test_the_gaussian_projection_lies_on_its_grid_and_has_its_law() -> None:
    r = rows_of(GaussianProjection(3, (16, 16, 3), 48))
    assert np.array_equal(np.rint(r * 2**14), r * 2**14)
    assert kstest(r.reshape(-1) * math.sqrt(48), norm.cdf).pvalue > 0.01
    assert kstest(r.reshape(-1) * math.sqrt(56), norm.cdf).pvalue < 1e-6
    gram = r.T @ r / 768 * 48
    assert np.abs(gram - np.eye(48)).max() < 6 / math.sqrt(768)  # columns are independent


def test_products_with_the_gaussian_projection_are_exact() -> None:
    projection = GaussianProjection(8, (5, 7, 3), 9)
    whole = [[int(v) for v in row] for row in rows_of(projection) * 2**14]
    video = np.random.default_rng(4).integers(0, 256, (3, 5, 7, 3), dtype=np.uint8)
    found = projection.forward(video, middle=127.5)
    for t, frame in enumerate(video.reshape(3, -1)):
        doubled = [2 * int(v) - 255 for v in frame]
        for k in range(9):
            exact = sum(a * row[k] for a, row in zip(doubled, whole, strict=True))
            assert Fraction(float(found[t, k])) == Fraction(exact, 2**15)
    assert projection.error_bound() == 0.0


def test_the_way_back_is_the_pseudoinverse() -> None:
    projection = GaussianProjection(8, (10, 12, 3), 40)
    y = np.random.default_rng(5).standard_normal((4, 40)) * 100
    right = y @ np.linalg.pinv(rows_of(projection))
    found = projection.backward(y.copy()).reshape(4, -1)
    assert np.linalg.norm(found - right) <= 1e-4 * np.linalg.norm(right)


@pytest.mark.parametrize("form", ["orthonormal", "gaussian", "truncated"])
def test_every_video_gets_a_projection_of_its_own_that_the_receipt_names(form: str) -> None:
    video = np.random.default_rng(6).integers(0, 256, (2, 6, 6, 3), dtype=np.uint8)
    mechanism = dprp("pixels", 1, form=form, columns=8)
    seeds = [masquerade.release_value(video, mechanism).receipt.public_seeds for _ in range(2)]
    assert [len(each) for each in seeds] == [1, 1] and seeds[0] != seeds[1]
    kind = GaussianProjection if form == "gaussian" else OrthonormalProjection
    first, second = (rows_of(kind(each[0], (6, 6, 3), 8)) for each in seeds)
    assert not np.allclose(first, second)


@pytest.mark.parametrize("form", ["orthonormal", "gaussian"])
def test_the_seed_in_the_receipt_is_the_one_that_was_used(form: str) -> None:
    video = np.random.default_rng(6).integers(0, 256, (2, 6, 6, 3), dtype=np.uint8)
    mechanism = dprp("value", form=form, columns=60, epsilon=1e9)  # next to no noise
    release = masquerade.release_value(video, mechanism)
    kind = GaussianProjection if form == "gaussian" else OrthonormalProjection
    projection = kind(release.receipt.public_seeds[0], (6, 6, 3), 60)
    again = projection.backward(projection.forward(video, middle=127.5)) + 127.5
    again = np.clip(np.rint(again), 0, 255)
    assert np.abs(np.asarray(release.value).astype(float) - again).max() <= 1


@pytest.mark.parametrize(("unit", "sites"), UNITS)
def test_no_change_exceeds_the_bound_of_an_orthonormal_projection(
    unit: str, sites: int | None
) -> None:
    mechanism = dprp(unit, sites, columns=57)
    bound = mechanism.compute_distance_bound(SMALL, mechanism.privacy_unit)
    worst = furthest(linear_map(mechanism, SMALL, seed=9), SMALL, mechanism.privacy_unit)
    assert 0.9 * bound <= worst <= bound  # 57 of 60 directions are kept


@pytest.mark.parametrize(("unit", "sites"), UNITS)
def test_a_fresh_gaussian_projection_stretches_no_more_than_is_counted(
    unit: str, sites: int | None
) -> None:
    mechanism = dprp(unit, sites, form="gaussian", columns=6)
    bound = mechanism.compute_distance_bound(SMALL, mechanism.privacy_unit)
    black = np.zeros(SMALL, np.uint8)
    rng = np.random.default_rng(7)
    lengths = []
    for seed in range(100):  # the pair first, R after it
        other = (corner(rng.standard_normal(SMALL), mechanism.privacy_unit) != 0) * np.uint8(255)
        apart = measured(mechanism, other, seed=seed) - measured(mechanism, black, seed=seed)
        lengths.append(float(np.linalg.norm(apart)))
    assert max(lengths) <= bound
    assert max(lengths) >= 0.4 * bound


@pytest.mark.parametrize(("unit", "sites"), UNITS)
def test_the_published_covariance_moves_no_more_than_is_counted(
    unit: str, sites: int | None
) -> None:
    mechanism = dprp(unit, sites, form="as_published", columns=6)
    of, rng, shares = mechanism.privacy_unit, np.random.default_rng(7), []
    for seed in range(60):  # the pair first, R after it; a white video moves its square most
        where = corner(rng.standard_normal(SMALL), of) != 0
        pair = (np.full(SMALL, 255, np.uint8), np.where(where, 0, 255).astype(np.uint8))
        if seed % 2:
            pair = neighbours(of, rng, seed % 6)
        apart = np.subtract(*(measured(mechanism, video, seed=seed) for video in pair))
        rows, squares = np.split(apart, [SMALL[0] * 6])
        exact = squares.reshape(6, 6)
        assert np.allclose(exact, exact.T) and rows.any() and squares.any()
        shares.append(float(np.linalg.norm(apart)) / mechanism.compute_distance_bound(SMALL, of))
    assert 0.04 < max(shares) <= 1


@pytest.mark.parametrize("rank", [None, 2])
def test_v_is_computed_as_printed_and_cancels_unless_it_is_cut(rank: int | None) -> None:
    shape, k, noise = (5, 12, 16, 3), 24, masquerade.Noise(seed=4)
    mechanism = dprp("frame", form="as_published", columns=k, rank=rank)
    chunk = dataclasses.replace(mechanism.list_chunks(shape)[0], seed=3)
    video = np.random.default_rng(2).integers(0, 256, shape, dtype=np.uint8)
    exact = mechanism.measure_chunk(iter(video), chunk)
    seen = mechanism.add_grid_noise(exact, shape, noise)
    r = rows_of(GaussianProjection(3, shape[1:], k))
    paper = Paper(columns=k, height=12, width=16)
    projected, q = (
        (seen - exact)[: 5 * k],
        (seen - exact)[5 * k :] / mechanism._compute_printed_weight(shape),
    )
    assert projected.std() == pytest.approx(paper.sigma_1(), rel=0.3)
    assert q.std() == pytest.approx(paper.sigma_2(), rel=0.12) and len(q) == k * k
    # Algorithm 1 by hand, lines 5 to 10, in the reading that conforms
    flat = video.reshape(5, -1).astype(float)
    noisy = flat @ r + projected.reshape(5, k)
    v = np.linalg.svd((flat @ r).T @ (flat @ r) + q.reshape(k, k))[2].T[:, :rank]
    right = np.clip(np.rint(noisy @ v @ np.linalg.pinv(r @ v)), 0, 255)
    [found] = mechanism.rebuild_frames(seen, chunk, 0.0, noise)
    assert np.abs(found.reshape(5, -1) - right).max() <= 1
    cancelled = np.clip(np.rint(noisy @ np.linalg.pinv(r)), 0, 255)
    differs = np.abs(found.reshape(5, -1) - cancelled).max()
    assert differs <= 1 if rank is None else differs > 3


def test_without_noise_the_top_directions_hold_all_there_is() -> None:
    # rank X <= T: with T directions of the exact covariance nothing of the projection is lost
    projection = GaussianProjection(8, (6, 7, 3), 20)
    rows = np.random.default_rng(5).standard_normal((4, 20)) * 100
    top = random_projection.right_directions(rows.T @ rows, 4)
    assert np.allclose(rows @ top @ top.T, rows, atol=1e-6)
    everything = random_projection.right_directions(rows.T @ rows, 20)
    assert np.allclose(projection.restrict_rows(rows, everything), rows, atol=1e-6)
    assert not np.allclose(projection.restrict_rows(rows, top), rows, atol=1e-2)


def test_the_stretch_is_not_for_those_who_choose_the_change_after_seeing_r() -> None:
    mechanism = dprp("frame", form="gaussian", columns=6)
    worst = furthest(linear_map(mechanism, SMALL, seed=1), SMALL, mechanism.privacy_unit)
    assert worst > mechanism.compute_distance_bound(SMALL, mechanism.privacy_unit)


def neighbours(unit: Unit, rng: np.random.Generator, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """Videos that differ in one unit: black against white, negatives, and at random."""
    video = np.full(SMALL, 255 * (kind % 2), np.uint8)
    if kind > 1:
        video = rng.integers(0, 2, SMALL, dtype=np.uint8) * 255
    where = corner(rng.standard_normal(SMALL), unit) != 0
    other = 255 - video if kind < 4 else rng.integers(0, 256, SMALL, dtype=np.uint8)
    return video, np.where(where, other, video)


@pytest.mark.parametrize(("unit", "sites"), UNITS)
@pytest.mark.parametrize("radius", [5.0, 150.0, None, 1e6])
def test_no_neighbours_exceed_the_bounds_of_rows_and_covariance(
    unit: str, sites: int | None, radius: float | None
) -> None:
    mechanism = dprp(unit, sites, form="truncated", columns=4, radius=radius)
    of, rng = mechanism.privacy_unit, np.random.default_rng(8)
    rho = radius or 64 * math.sqrt(4)
    bounds = random_projection.compute_distance_bounds(SMALL, of, rho)
    weights = mechanism._compute_weights(SMALL)
    bound = mechanism.compute_distance_bound(SMALL, of)
    assert bound == pytest.approx(1.0)
    rows = SMALL[0] * 4
    for kind in range(6):
        for seed in range(6):
            pair = (measured(mechanism, v, seed=seed) for v in neighbours(of, rng, kind))
            apart = np.subtract(*pair)
            assert np.linalg.norm(apart) <= bound
            assert np.linalg.norm(apart[:rows]) <= weights[0] * bounds[0] * (1 + 1e-9)
            assert np.linalg.norm(apart[rows:]) <= weights[1] * bounds[1] * (1 + 1e-9)


def test_a_frame_and_its_negative_are_two_radii_apart() -> None:
    mechanism = dprp("frame", form="truncated", columns=4, radius=5.0)
    video = np.full(SMALL, 255, np.uint8)
    other = video.copy()
    other[1] = 0
    apart = measured(mechanism, video, seed=3) - measured(mechanism, other, seed=3)
    # half of what is counted: a row that is left out in part may turn round as well
    assert np.linalg.norm(apart) == pytest.approx(math.sqrt(mechanism.split) / 2, rel=1e-9)


def test_leaving_sites_out_costs_no_more_than_the_event_says() -> None:
    shape = (1, 8, 8, 3)
    mechanism = dprp("pixels", 48, form="truncated", columns=2)
    r = rows_of(OrthonormalProjection(3, shape[1:], 2))[:, 0].reshape(1, 8, 8, 3)
    most = corner(r, mechanism.privacy_unit) != 0
    # the sites pull the row one way and the rest the other; without them it points back
    video = np.where((r > 0) == most, 255, 0).astype(np.uint8)
    without = np.where(most, 128, video).astype(np.uint8)
    apart = measured(mechanism, video, seed=3) - measured(mechanism, without, seed=3)
    event: Any = mechanism.event(shape)
    counted = mechanism.compute_scale(shape).sigma / event.noise_multiplier
    assert np.linalg.norm(apart) <= counted


def test_packing_keeps_lengths_and_can_be_undone() -> None:
    rng = np.random.default_rng(9)
    for columns in (1, 2, 5):
        one, two = (m + m.T for m in rng.standard_normal((2, columns, columns)))
        assert np.dot(
            random_projection.pack_triangle(one), random_projection.pack_triangle(two)
        ) == pytest.approx(float((one * two).sum()))
        assert np.allclose(
            random_projection.unpack_triangle(random_projection.pack_triangle(one), columns),
            one,
            atol=1e-14,
        )


def test_clipping_keeps_rows_within_the_radius() -> None:
    rows = (
        np.random.default_rng(3).standard_normal((50, 9))
        * 10.0 ** np.arange(-3, 2).repeat(10)[:, None]
    )
    rows[0] = 0
    kept = random_projection.clip_rows(rows, 1.0)
    assert np.linalg.norm(kept, axis=1).max() <= 1
    short = np.linalg.norm(rows, axis=1) < 0.999
    assert short.any() and np.array_equal(kept[short], rows[short])


def test_the_published_form_states_what_really_holds() -> None:
    mechanism = dprp("value", form="as_published", columns=3072)
    guarantee = mechanism.guarantee(PAPER_SHAPE)
    assert (guarantee.published_claim or "").startswith("CLAIMED, NOT VALID: epsilon 8")
    assert "4.1891" in (guarantee.published_claim or "")
    assert "44.4545" in (guarantee.published_claim or "")
    assert guarantee.accountant is Accountant.GAUSSIAN_RANDOM_PROJECTION
    whole, alone, cancels, _ = guarantee.caveats
    for unit in ("value", "pixels(16)", "tube(16)", "frame", "video"):
        assert f"one {unit}: " in whole and f"one {unit}: " in alone
    own = float(alone.partition("one value: ")[2].partition(";")[0])
    assert 2140 <= own <= 2200 and "cancel" in cancels
    # the covariance moves by 255 times 510 sqrt(d) or so, and its noise is 44.4545
    mu = 255 * 510 * math.sqrt(230_400) / 44.4545
    assert guarantee.epsilon is not None and mu**2 / 2 < guarantee.epsilon < mu**2
    event = mechanism.event(PAPER_SHAPE)
    found = compute_epsilon(event, delta=1e-4, relation="replace_one")
    assert found >= guarantee.epsilon * (1 - 1e-6)


def test_the_published_form_has_the_papers_columns_at_most() -> None:
    mechanism = dprp("frame", form="as_published")
    assert [
        mechanism.count_columns((2, *size, 3)) for size in ((240, 320), (720, 1280), (24, 24))
    ] == [*(3072, 3072, 23)]
    with pytest.raises(ValueError, match="leave it out"):
        dprp("frame", form="as_published", columns=5, rank=5).guarantee(SMALL)
    cut = dprp("frame", form="as_published", columns=5, rank=2).guarantee(SMALL)
    assert any("5 directions 2 are kept" in said for said in cut.caveats)


def test_the_published_form_is_worse_the_larger_the_unit() -> None:
    shape = (2, 16, 16, 3)
    found = [
        dprp(unit, sites, form="as_published", columns=48).guarantee(shape).epsilon or 0.0
        for unit, sites in (("value", None), ("frame", None), ("video", None))
    ]
    assert found == sorted(found) and found[0] > 32 and found[1] > 2e4


@pytest.mark.parametrize("form", ["orthonormal", "gaussian", "truncated"])
def test_sound_forms_meet_their_target_and_hardly_more(form: str) -> None:
    for unit, sites in UNITS:
        guarantee = dprp(unit, sites, form=form, columns=12).guarantee((2, 6, 6, 3))
        assert guarantee.epsilon is not None and 7.9 < guarantee.epsilon <= 8.0
        assert guarantee.published_claim is None


def test_what_a_projection_cannot_be_is_refused() -> None:
    for columns in (60, 61):
        with pytest.raises(ValueError, match="fewer columns"):
            dprp("frame", columns=columns).guarantee(SMALL)
    for rank in (5, 6):
        with pytest.raises(ValueError, match="rank below 5"):
            dprp("frame", form="truncated", columns=5, rank=rank).guarantee(SMALL)
    dprp("frame", form="truncated", columns=5, rank=4).guarantee(SMALL)
    for wrong in ({"columns": 0}, {"rank": 0}, {"radius": 0.0}, {"split": 1.0}, {"split": 0.0}):
        with pytest.raises(ValueError, match="Expected"):
            dprp("frame", **wrong)


def test_other_units_of_a_projection_are_bounded_too() -> None:
    mechanism = dprp("pixels", 2, columns=57)
    rows = linear_map(mechanism, SMALL, seed=4)
    for name, sites in UNITS:
        unit = Unit(name=UnitName(name), sites=sites)
        assert furthest(rows, SMALL, unit, tries=3) <= mechanism.compute_distance_bound(SMALL, unit)
    assert mechanism.event_for(SMALL, Unit(name=UnitName.SHARD)) is None
