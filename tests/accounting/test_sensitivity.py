"""How far neighbours can be apart: known numbers, and brute force that never exceeds them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from masquerade.accounting import sensitivity
from masquerade.guarantee import Unit, UnitName

FILM = (16, 240, 320, 3)


def unit(name: str, sites: int | None = None) -> Unit:
    return Unit(name=UnitName(name), sites=sites)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (unit("value"), 255),
        (unit("pixels", 16), 255 * math.sqrt(48)),
        (unit("tube", 16), 255 * math.sqrt(48 * 16)),
        (unit("frame"), 122400),
        (unit("video"), 122400 * 4),
        (unit("subject"), 122400 * 4),
    ],
    ids=str,
)
def test_arrays(of: Unit, expected: float) -> None:
    assert sensitivity.array_sensitivity(of, FILM) == pytest.approx(expected)


def test_a_unit_cannot_touch_more_than_there_is() -> None:
    small = (2, 1, 2, 3)
    whole = sensitivity.array_sensitivity(unit("video"), small)
    assert sensitivity.array_sensitivity(unit("pixels", 10**9), small) == whole
    assert sensitivity.array_sensitivity(unit("tube", 10**9), small) == whole


@pytest.mark.parametrize(
    ("sites", "block", "length", "expected"),
    # closed form, V = block^2 length
    [
        (16, 16, 1, 27.604560),
        (300, 16, 1, 448.149209),
        (1, 4, 2, 13.802280),
        (16, 2, 2, 624.619884),
        (256, 16, 16, 27.604560),
    ],
)
def test_block_means(sites: int, block: int, length: int, expected: float) -> None:
    found = sensitivity.block_means_sensitivity(
        unit("pixels", sites), FILM, block=block, length=length
    )
    assert found == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize("name", ["value", "pixels", "tube", "frame", "video"])
@pytest.mark.parametrize("sites", [1, 2, 3, 5])
def test_block_means_bound_every_change_of_a_ragged_film(name: str, sites: int) -> None:
    film, block, length = (3, 3, 5, 2), 2, 2
    of = unit(name, sites if name in ("pixels", "tube") else None)
    bound = sensitivity.block_means_sensitivity(of, film, block=block, length=length) / 255
    rng = np.random.default_rng(sites)
    worst = 0.0
    for _ in range(300):
        change = adversarial_change(of, film, rng)
        pooled = np.zeros((2, 2, 3, 2))
        for t, y, x in itertools.product(range(3), range(3), range(5)):
            pooled[t // length, y // block, x // block] += change[t, y, x]
        worst = max(worst, float(np.linalg.norm(pooled / (block**2 * length))))
    assert worst <= bound * (1 + 1e-12)
    if name in ("value", "pixels") and sites <= 4:
        assert worst > 0.5 * bound  # the bound is met, not merely true


def adversarial_change(of: Unit, film: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """One unit changed from bottom to top, its sites clustered to hurt."""
    change = np.zeros(film)
    corner = rng.integers(0, 2, 3)
    order = sorted(
        itertools.product(*map(range, film[:3])),
        key=lambda s: (max(abs(s[0] // 2 - corner[0]), abs(s[1] // 2 - corner[1])), rng.random()),
    )
    m = of.sites or 1
    match of.name:
        case UnitName.VALUE:
            change[(*order[0], 0)] = 1
        case UnitName.PIXELS:
            for site in order[:m]:
                change[site] = 1
        case UnitName.TUBE:
            for t in range(film[0]):
                for site in [s for s in order if s[0] == t][:m]:
                    change[site] = 1
        case UnitName.FRAME:
            change[int(rng.integers(film[0]))] = 1
        case _:
            change[...] = 1
    return change


def test_random_projections_have_the_known_factors() -> None:
    assert sensitivity.fresh_projection_factor(3072, tail=4e-5) == pytest.approx(1.050627, abs=1e-6)
    # sqrt(y) 1.06184 by Chernoff and .00180 for the grid
    both = sensitivity.grid_projection_factor(3072, tail=1e-5, rounding_tail=1e-5)
    assert both == pytest.approx(1.06184 + 0.00180, abs=2e-5)
    exact = math.sqrt(chi2.isf(1e-5, 3072) / 3072)
    assert exact < both


@pytest.mark.parametrize(
    ("epsilon", "orthonormal", "fresh"),
    # sigma on the projection for one value / m=16 / a frame at delta 1e-4, tail delta/10
    [(2, 442.26, 469.84), (5, 202.96, 215.32), (8, 138.48, 146.81)],
)
def test_sound_sigmas_for_projections(epsilon: float, orthonormal: float, fresh: float) -> None:
    from masquerade.accounting import find_gaussian_sigma

    value = sensitivity.array_sensitivity(unit("value"), FILM)
    found = find_gaussian_sigma(epsilon, delta=1e-4, sensitivity=value)
    assert found == pytest.approx(orthonormal, abs=6e-3)
    factor = sensitivity.fresh_projection_factor(3072, tail=1e-5)
    found = find_gaussian_sigma(epsilon, delta=0.9e-4, sensitivity=value * factor)
    assert found == pytest.approx(fresh, abs=6e-3)


def test_a_shard_is_not_a_part_of_a_file() -> None:
    with pytest.raises(ValueError, match="teacher"):
        sensitivity.count_changed_coordinates(unit("shard"), ((3, 3),))
    with pytest.raises(ValueError, match="inside one file"):
        sensitivity.block_means_sensitivity(unit("shard"), FILM, block=2, length=1)


@given(st.integers(0, 10**6), st.floats(0.05, 2.0))
def test_no_pair_of_rows_exceeds_the_covariance_bound(seed: int, distance: float) -> None:
    rng = np.random.default_rng(seed)
    p = rng.standard_normal(3)
    p /= np.linalg.norm(p) / rng.uniform(0, 1) ** 0.1
    step = rng.standard_normal(3)
    q = p + step / np.linalg.norm(step) * distance * rng.uniform(0, 1) ** 0.1
    q = q if np.linalg.norm(q) <= 1 else p - p * min(distance, 1)
    bound = min(2 * distance, math.sqrt(2))  # of `distances`, for a radius of one
    assert np.linalg.norm(np.outer(p, p) - np.outer(q, q)) <= bound * (1 + 1e-12)
