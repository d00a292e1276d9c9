"""Values on a grid plus noise, where the values are: the same on every device."""

from __future__ import annotations

import numpy as np
import pytest

from masquerade.noise import Noise, Scale, find_grid
from masquerade.noise.source import PresampledNoise

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]
on_each_device = pytest.mark.parametrize("device", DEVICES)
GRIDS = [(3.0, None), (138.484, None), (1e-6, None), (5.5, 1.0), (0.3, 0.125), (1.7, 2.0**-24)]


def scale(sigma: float, grid: float | None = None) -> Scale:
    return Scale(sigma=sigma, grid=grid or find_grid(sigma), sensitivity=1.0)


def added(values: np.ndarray, wanted: Scale, seed: int, device: str) -> np.ndarray:
    found = Noise(seed=seed).add_gaussian(torch.from_numpy(values).to(device), wanted)
    assert found.dtype == torch.float64 and found.device.type == device
    return np.asarray(found.cpu())


@on_each_device
@pytest.mark.parametrize(("sigma", "grid"), GRIDS)
def test_a_device_adds_the_processors_noise_to_the_processors_grid(
    sigma: float, grid: float | None, device: str
) -> None:
    wanted = scale(sigma, grid)
    values = np.random.default_rng(1).standard_normal(40_003) * sigma * 50
    values[:9] = np.arange(-4, 5) * wanted.grid / 2  # halves of a cell, rounded to even
    before = values.copy()
    here = Noise(seed=2).add_gaussian(values, wanted)
    there = added(values, wanted, 2, device)
    assert np.array_equal(here, there) and np.array_equal(values, before)
    assert np.array_equal(there / wanted.grid, np.rint(there / wanted.grid))
    assert not np.array_equal(added(values, wanted, 3, device), here)


@on_each_device
@pytest.mark.parametrize("shape", [(0,), (1,), (7, 3), (2, 0, 5)])
def test_every_shape_is_added_to(shape: tuple[int, ...], device: str) -> None:
    values = np.ones(shape)
    assert np.array_equal(
        added(values, scale(2.0), 4, device), Noise(seed=4).add_gaussian(values, scale(2.0))
    )


@on_each_device
@pytest.mark.parametrize("value", [2.0**52, -(2.0**53), np.inf, np.nan])
def test_values_too_far_for_the_grid_are_refused_everywhere(value: float, device: str) -> None:
    values = np.array([0.0, value])
    with pytest.raises(ValueError, match="below 2\\^52 cells"):
        Noise(seed=1).add_gaussian(values, scale(3.0, 1.0))
    with pytest.raises(ValueError, match="below 2\\^52 cells"):
        added(values, scale(3.0, 1.0), 1, device)


def test_a_zero_has_no_sign_that_could_tell() -> None:
    values = np.array([-0.2, 0.2] * 200)
    found = added(values, scale(0.3, 1.0), 5, "cpu")
    assert (found == 0).sum() > 100 and not np.signbit(found[found == 0]).any()
    here = Noise(seed=5).add_gaussian(values, scale(0.3, 1.0))
    assert not np.signbit(here[here == 0]).any()


@on_each_device
def test_reserved_noise_is_drawn_anew_in_the_order_it_was_asked_for(device: str) -> None:
    reserved, noise, plain = PresampledNoise(), Noise(seed=6), Noise(seed=6)
    orders = [(2.0, 5, None), (3.0, (2, 4), 0.5)]
    asked = [reserved.sample_gaussian_on(device, s, n, grid=g) for s, n, g in orders]
    reserved.rewind_slots()
    again = [reserved.sample_gaussian_on(device, s, n, grid=g) for s, n, g in orders]
    assert all(one is other for one, other in zip(asked, again, strict=True))
    seen = []
    for _ in range(2):
        reserved.fill_slots(noise)
        for cells, (sigma, shape, grid) in zip(asked, orders, strict=True):
            values = cells.cpu().numpy() * (grid or find_grid(sigma))
            assert np.array_equal(values, plain.sample_gaussian(sigma, shape, grid=grid))
        seen.append(asked[0].clone())
    assert not torch.equal(*seen)


def test_reserved_noise_gives_nothing_else() -> None:
    reserved = PresampledNoise()
    for draw in (
        reserved.draw_words,
        reserved.sample_uniform,
        lambda n: reserved.sample_gaussian(1.0, n),
    ):
        with pytest.raises(RuntimeError, match="noise of a device only"):
            draw(3)
    reserved.sample_gaussian_on("cpu", 1.0, 3)
    reserved.rewind_slots()
    with pytest.raises(RuntimeError, match="the same noise"):
        reserved.sample_gaussian_on("cpu", 2.0, 3)
    reserved.sample_gaussian_on("cpu", 1.0, 3)
    with pytest.raises(RuntimeError, match="the same noise"):
        reserved.sample_gaussian_on("cpu", 1.0, 3)
