"""The bound behind `cosine_gaussian`: known figures, brute force, rounding, and wrong plans."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masquerade.guarantee import Unit, UnitName
from masquerade.mechanisms import cosine_gaussian, precision, prior
from masquerade.mechanisms.cosine_gaussian import CosineGaussian
from masquerade.mechanisms.gaussian_video import Chunk, GaussianVideo
from masquerade.mechanisms.precision import Band, Precision
from masquerade.noise import compute_rounded_bound
from masquerade.tradeoff import gaussian_mu
from masquerade.vision import transforms

MU = gaussian_mu(8.0, 1e-4)
SIZES = [(4, 5, 6), (3, 1, 1), (1, 4, 5), (2, 3, 7), (5, 2, 1)]
UNITS = [
    ("value", None),
    ("pixels", 1),
    ("pixels", 3),
    ("pixels", 16),
    ("tube", 1),
    ("tube", 3),
    ("frame", None),
    ("video", None),
]


def released(unit: str, sites: int | None = None, *, epsilon: float = 8.0) -> CosineGaussian:
    return CosineGaussian(epsilon=epsilon, delta=1e-4, unit=unit, pixels=sites)


def measured(mechanism: GaussianVideo, video: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """All that a release measures of a video, before noise."""
    frames = iter(video)
    parts = []
    for chunk in mechanism.list_chunks(video.shape):
        mine = (next(frames) for _ in range(chunk.length))
        parts.append(mechanism.measure_chunk(mine, dataclasses.replace(chunk, seed=seed)))
    return np.concatenate(parts)


def linear_map(mechanism: GaussianVideo, shape: tuple[int, ...], *, seed: int = 0) -> np.ndarray:
    """What one more grey level of each number does to what is measured, (numbers, measured)."""
    black = np.zeros(shape, np.uint8)
    base = measured(mechanism, black, seed=seed)
    rows = []
    for place in range(black.size):
        video = black.copy()
        video.flat[place] = 255
        rows.append((measured(mechanism, video, seed=seed) - base) / 255)
    return np.array(rows)


def furthest(rows: np.ndarray, shape: tuple[int, ...], unit: Unit, *, tries: int = 12) -> float:
    """The longest |d rows| that ascent finds, over changes d of one unit by up to 255 each.

    |d rows| is convex in d, so the best corner of the cube in the direction of the gradient is
    never worse than where one stands.
    """
    rng = np.random.default_rng(5)
    gram = rows @ rows.T
    pulls = [gram[i].reshape(shape) for i in np.argsort(-np.diag(gram))[:3]]
    pulls += [np.ones(shape), *rng.standard_normal((tries, *shape))]
    for _ in range(tries):  # clumps about a few numbers, one after the other
        about = rng.permutation(len(gram))[:8]
        pulls.append((0.5 ** np.arange(len(about)) @ gram[about]).reshape(shape))
    best = 0.0
    for pull in pulls:
        before = 0.0
        for _ in range(30):
            change = corner(pull, unit)
            pull = (gram @ change.reshape(-1)).reshape(shape)
            found = math.sqrt(max(float(change.reshape(-1) @ pull.reshape(-1)), 0.0))
            if found <= before * (1 + 1e-12):
                break
            before = found
        best = max(best, before)
    return best


def corner(pull: np.ndarray, unit: Unit) -> np.ndarray:
    """The change of one unit, by 255 up or down everywhere, that gains most along ``pull``."""
    frames = pull.shape[0]
    by_site = np.abs(pull).sum(axis=-1).reshape(frames, -1)
    chosen = np.zeros(by_site.shape, bool)
    match unit.name:
        case UnitName.VALUE:
            chosen = np.zeros(pull.shape, bool)
            chosen.flat[np.argmax(np.abs(pull))] = True
        case UnitName.PIXELS:
            chosen.flat[np.argsort(-by_site, axis=None)[: unit.sites]] = True
        case UnitName.TUBE:  # other sites in every frame
            np.put_along_axis(chosen, np.argsort(-by_site)[:, : unit.sites], True, axis=1)
        case UnitName.FRAME:
            chosen[np.argmax(by_site.sum(axis=1))] = True
        case _:
            chosen[...] = True
    spread = chosen if chosen.shape == pull.shape else chosen.reshape(*pull.shape[:3], 1)
    return np.where(spread, np.where(pull < 0, -255.0, 255.0), 0.0)


@pytest.mark.parametrize("unit", ["pixels", "tube", "frame", "video"])
def test_the_prior_has_the_known_values(unit: str) -> None:
    spectrum = prior.compute_full_spectrum((8, 12, 16))
    assert spectrum[0, 0, 0] == pytest.approx(186998, abs=0.5)
    assert spectrum[1, 2, 3] == pytest.approx(1858.31, abs=0.005)


@pytest.mark.parametrize(
    ("unit", "sites", "sigma", "active", "first_window", "within"),
    [
        ("pixels", 1, 65.6513, 181, 0.826876, 1e-4),
        ("pixels", 16, 318.185, 23, 0.562117, 1e-4),
        # 504.133 came from a grid of 90 rates, too coarse for four digits; 240 rates and log-linear
        # interpolation between them give 504.43, finer ones 504.49
        ("tube", 4, 504.133, 25, 0.620835, 1e-3),
        ("frame", None, 1175.08, 192, 1.0, 1e-4),
        ("video", None, 255 * math.sqrt(3 * 1536) / 1.841366, 17, 1.0, 1e-6),
    ],
)
def test_plans_have_the_known_figures(
    unit: str, sites: int | None, sigma: float, active: int, first_window: float, within: float
) -> None:
    mechanism = released(unit, sites)
    plan = mechanism.plan_precision(Chunk(0, 8, (8, 12, 16, 3)))
    luma = plan.components[0]
    assert 1 / math.sqrt(luma.precision[0, 0, 0]) == pytest.approx(sigma, rel=within)
    assert len(plan.output_bands[0].places) == active
    window = np.broadcast_to(luma.slice_window(range(8), plan.size), plan.size)
    assert window[0, 0, 0] == pytest.approx(first_window, rel=within)
    assert window[4, 6, 8] == pytest.approx(1.0) or unit == "tube"
    assert window.max() <= 1


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("unit", "sites"), UNITS)
def test_no_change_of_one_unit_exceeds_the_bound(
    unit: str, sites: int | None, size: tuple[int, int, int]
) -> None:
    mechanism, shape = released(unit, sites), (*size, 3)
    bound = mechanism.compute_distance_bound(shape, mechanism.privacy_unit)
    worst = furthest(linear_map(mechanism, shape), shape, mechanism.privacy_unit)
    assert worst <= bound * (1 + 1e-12)
    if (unit, sites) in (("value", None), ("pixels", 1), ("frame", None), ("video", None)):
        assert worst >= 0.99 * bound  # it is met, not merely true
    assert bound <= MU * (1 + 1e-8)


def test_the_bound_for_many_sites_is_hardly_loose() -> None:
    shape = (4, 5, 6, 3)
    for unit, sites in (("pixels", 3), ("pixels", 16), ("tube", 1), ("tube", 3)):
        mechanism = released(unit, sites)
        worst = furthest(linear_map(mechanism, shape), shape, mechanism.privacy_unit)
        assert worst >= 0.95 * mechanism.compute_distance_bound(shape, mechanism.privacy_unit)


@pytest.mark.parametrize(("unit", "sites"), [*UNITS, ("pixels", 7)])
def test_a_unit_that_passes_through_three_chunks_stays_below_the_target(
    unit: str, sites: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cosine_gaussian, "_MAX_CHUNK_FRAMES", 2)
    mechanism, shape = released(unit, sites), (6, 3, 3, 3)
    assert len(mechanism.list_chunks(shape)) == (1 if unit == "frame" else 3)
    worst = furthest(linear_map(mechanism, shape), shape, mechanism.privacy_unit)
    assert worst <= mechanism.compute_distance_bound(shape, mechanism.privacy_unit) * (1 + 1e-12)
    assert worst <= MU * (1 + 1e-8)
    if unit == "video":
        assert worst >= 0.99 * MU


@pytest.mark.parametrize("of", [("frame", None), ("tube", 2), ("pixels", 9), ("video", None)])
def test_other_units_are_bounded_in_a_video_of_uneven_chunks(
    of: tuple[str, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cosine_gaussian, "_MAX_CHUNK_FRAMES", 2)
    unit, shape = Unit(name=UnitName(of[0]), sites=of[1]), (5, 3, 3, 3)
    for mechanism in (released("pixels", 2), released("tube", 2), released("video")):
        assert [chunk.length for chunk in mechanism.list_chunks(shape)] == [2, 2, 1]
        worst = furthest(linear_map(mechanism, shape), shape, unit)
        assert worst <= mechanism.compute_distance_bound(shape, unit) * (1 + 1e-12)


@pytest.mark.parametrize("sites", [13, 40, 48])
def test_more_sites_than_a_chunk_holds_are_bounded_too(
    sites: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cosine_gaussian, "_MAX_CHUNK_FRAMES", 3)
    mechanism, shape = released("pixels", sites), (12, 2, 2, 3)  # chunks of 12 sites
    worst = furthest(linear_map(mechanism, shape), shape, mechanism.privacy_unit)
    assert worst <= mechanism.compute_distance_bound(shape, mechanism.privacy_unit) * (1 + 1e-12)


UNITS_DRAWN = st.sampled_from([*UNITS, ("tube", 100), ("pixels", 1000), ("subject", None)])


@settings(max_examples=100)
@given(
    st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 4)),
    UNITS_DRAWN,
    UNITS_DRAWN,
    st.floats(0.05, 500),
)
def test_the_distance_of_every_unit_bounds_every_change_of_it(
    size: tuple[int, int, int], own: tuple[str, int | None], of: tuple[str, int | None], e: float
) -> None:
    mechanism, shape = released(*own, epsilon=e), (*size, 3)
    unit = Unit(name=UnitName(of[0]), sites=of[1])
    worst = furthest(linear_map(mechanism, shape), shape, unit, tries=3)
    scale = mechanism.compute_scale(shape)
    assert worst <= mechanism.compute_distance_bound(shape, unit) * (1 + 1e-12)
    # and the event counts rounding to the grid on top
    event: Any = mechanism.event_for(shape, unit)
    coordinates = mechanism.coordinates(shape, unit)
    assert 2 * scale.sigma / event.noise_multiplier >= compute_rounded_bound(
        worst, scale.grid, coordinates
    )


def _bold(factor: float) -> Callable[[CosineGaussian, Chunk], Precision]:
    """A plan whose precision is higher than its bounds say."""
    honest = CosineGaussian.plan_precision

    def plan(self: CosineGaussian, chunk: Chunk) -> Precision:
        right = honest(self, chunk)
        return dataclasses.replace(
            right,
            components=tuple(
                dataclasses.replace(c, precision=c.precision * factor) for c in right.components
            ),
        )

    return plan


def _windowless(self: CosineGaussian, chunk: Chunk) -> Precision:
    right = HONEST(self, chunk)
    flat = tuple(dataclasses.replace(c, window=np.ones((1, 1, 1))) for c in right.components)
    return dataclasses.replace(right, components=flat)


def _alone(self: CosineGaussian, chunk: Chunk) -> Precision:
    """Each chunk calibrated as if a tube touched it alone."""
    unit = self.privacy_unit
    return precision.calibrate_precision(chunk.size, unit.name, unit.sites or 1, MU**2)


HONEST = CosineGaussian.plan_precision


@pytest.mark.parametrize(
    ("wrong", "unit", "sites"),
    [
        (_bold(1.1), "pixels", 1),
        (_bold(1.1), "tube", 1),
        (_bold(1.1), "frame", None),
        (_bold(1.1), "video", None),
        (_windowless, "pixels", 1),
        (_alone, "tube", 1),
        (_alone, "video", None),
    ],
)
def test_a_wrong_plan_is_caught(
    wrong: Any, unit: str, sites: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cosine_gaussian, "_MAX_CHUNK_FRAMES", 2)
    mechanism, shape = released(unit, sites), (4, 3, 4, 3)
    claimed = mechanism.compute_distance_bound(shape, mechanism.privacy_unit)
    monkeypatch.setattr(CosineGaussian, "plan_precision", wrong)
    worst = furthest(linear_map(mechanism, shape), shape, mechanism.privacy_unit)
    assert worst > 1.01 * claimed


COLOURS = ((1, 1, 1), (1, 0, -1), (1, -2, 1))


def cosines(size: int, kept: int) -> np.ndarray:
    """The orthonormal cosine transform in 64 bits of precision."""
    pi = 4 * np.arctan(np.longdouble(1))
    rows = np.cos(np.outer(np.arange(kept), 2 * np.arange(size) + 1) * (pi / (2 * size)))
    rows *= np.sqrt(np.longdouble(2) / size)
    rows[0] = np.sqrt(np.longdouble(1) / size)
    return rows


def _in_cells(planes: np.ndarray, side: int) -> np.ndarray:
    """Sums over cells of (T, H, W), and nothing beyond the border."""
    missing = [(0, 0), *((0, -n % side) for n in planes.shape[1:])]
    whole = np.pad(planes, missing)
    frames, height, width = whole.shape
    cells = whole.reshape(frames, height // side, side, width // side, side)
    return np.asarray(cells.sum(axis=(2, 4)))


def _exactly(video: np.ndarray, plan: Precision, *, kind: type[np.floating] = np.longdouble) -> Any:
    """What `measure` computes, from the formula, in another precision."""
    parts = []
    for mix, component, band in zip(COLOURS, plan.components, plan.output_bands, strict=True):
        plane = (video.astype(np.longdouble) - 127.5) @ np.array(mix, np.longdouble)
        plane = plane / np.sqrt(np.longdouble(np.dot(mix, mix)))
        plane = _in_cells(plane, plan.side) / plan.side
        plane = (plane * component.slice_window(range(len(video)), plan.size)).astype(kind)
        matrices = (
            cosines(n, kept).astype(kind) for n, kept in zip(plan.size, band.shape, strict=True)
        )
        box = np.einsum("thw,ft,gh,kw->fgk", plane, *matrices)
        parts.append(box.reshape(-1)[band.places] * band.weights)
    return np.concatenate(parts)


@pytest.mark.parametrize("unit", [("pixels", 4), ("tube", 2), ("frame", None), ("video", None)])
@pytest.mark.parametrize("size", [(1, 1, 1), (3, 5, 7), (20, 9, 8), (2, 40, 33)], ids=str)
def test_rounding_stays_within_what_is_allowed_for_it(
    unit: tuple[str, int | None], size: tuple[int, int, int]
) -> None:
    mechanism, rng = released(*unit, epsilon=200.0), np.random.default_rng(3)
    plan = mechanism.plan_precision(Chunk(0, size[0], (*size, 3)))
    allowed = cosine_gaussian._compute_rounding_bound(plan)
    assert 0 < allowed < 1e-7 * MU
    flat = rng.integers(0, 2, (*size, 3), dtype=np.uint8) * 255
    for video in (flat, rng.integers(0, 256, (*size, 3), dtype=np.uint8), np.full_like(flat, 255)):
        off = measured(mechanism, video) - _exactly(video, plan)
        assert float(np.linalg.norm(off.astype(float))) <= allowed


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 144, 240, 333, 1920])
def test_rows_of_the_transform_are_right_to_four_roundings(size: int) -> None:
    kept = min(size, 64)
    off = np.abs(transforms.cosine_matrix(size, kept) - cosines(size, kept)).sum(axis=1)
    assert float(off.max()) <= 4 * 2.0**-53 * math.sqrt(size)  # of the 32 that are allowed


def test_the_allowance_is_not_so_wide_that_everything_passes() -> None:
    mechanism = released("pixels", 4, epsilon=200.0)
    video = np.random.default_rng(1).integers(0, 256, (3, 5, 7, 3), dtype=np.uint8)
    plan = mechanism.plan_precision(Chunk(0, 3, video.shape))
    coarse = _exactly(video, plan, kind=np.float32) - _exactly(video, plan)
    assert float(
        np.linalg.norm(coarse.astype(float))
    ) > 100 * cosine_gaussian._compute_rounding_bound(plan)


def test_coefficients_that_tell_nothing_are_not_released() -> None:
    plan = released("video").plan_precision(Chunk(0, 8, (8, 12, 16, 3)))
    for band, component in zip(plan.output_bands, plan.components, strict=True):
        assert isinstance(band, Band)
        assert np.all(band.spectrum * band.weights**2 > 1e-3)
        assert len(band.places) < math.prod(plan.size)
        assert math.isclose(component.lam, component.kappa)
