"""Flow finds known shifts, and moves pictures by exactly as much as it says."""

from __future__ import annotations

import numpy as np
import pytest
import skimage.data

from masquerade.vision.flow import OpticalFlow, lies_inside, warp_picture


def shifted(right: int, down: int) -> tuple[np.ndarray, np.ndarray]:
    """Two cuts of one photograph: what the first shows at x the second shows at x + shift."""
    photo, size = skimage.data.astronaut(), 160
    now = photo[100 : 100 + size, 150 : 150 + size]
    top, left = 100 - down, 150 - right
    return now, photo[top : top + size, left : left + size]


@pytest.mark.parametrize("preset", ["fast", "medium"])
@pytest.mark.parametrize(("right", "down"), [(0, 0), (3, 0), (-2, 5)])
def test_a_known_shift_is_found(preset: str, right: int, down: int) -> None:
    now, before = shifted(right, down)
    back = OpticalFlow(preset=preset).estimate_back_flow(now, before)
    assert back.shape == (160, 160, 2) and back.dtype == np.float32
    middle = np.median(back[20:-20, 20:-20], axis=(0, 1))
    np.testing.assert_allclose(middle, (right, down), atol=0.2)


@pytest.mark.parametrize("is_nearest", [True, False])
def test_a_picture_moved_along_its_flow_is_the_other_one(is_nearest: bool) -> None:
    now, before = shifted(4, -3)
    back = np.broadcast_to(np.array([4, -3], np.float32), (160, 160, 2))
    moved, inside = warp_picture(before, back, is_nearest=is_nearest), lies_inside(back)
    assert moved.dtype == np.uint8
    np.testing.assert_array_equal(moved[inside], now[inside])
    assert inside.sum() == 156 * 157
    found = warp_picture(before, OpticalFlow().estimate_back_flow(now, before))
    assert np.abs(found.astype(int) - now)[20:-20, 20:-20].mean() < 4
    assert np.abs(before.astype(int) - now)[20:-20, 20:-20].mean() > 12


def test_fields_of_any_number_of_channels_move_by_halves() -> None:
    ramp = np.tile(np.arange(8, dtype=np.float32), (5, 1))
    back = np.full((5, 8, 2), 0.5, np.float32)
    np.testing.assert_allclose(warp_picture(ramp, back)[:-1, :-1], ramp[:-1, :-1] + 0.5)
    assert warp_picture(ramp[..., None], back).shape == (5, 8, 1)
    assert warp_picture(np.repeat(ramp[..., None], 2, 2), back).shape == (5, 8, 2)
    assert warp_picture(np.zeros((5, 8), np.float32), back).dtype == np.float32


def test_noise_keeps_its_spread_when_the_nearest_pixel_is_taken() -> None:
    rng = np.random.default_rng(0)
    noise = rng.uniform(-1, 1, (200, 200)).astype(np.float32)
    back = np.full((200, 200, 2), 0.5, np.float32)
    assert warp_picture(noise, back, is_nearest=True).std() > 0.98 * noise.std()
    assert warp_picture(noise, back).std() < 0.55 * noise.std()


def test_frames_of_few_pixels_have_a_flow() -> None:
    for shape in ((1, 1, 3), (5, 70, 3)):
        frame = np.zeros(shape, np.uint8)
        np.testing.assert_array_equal(OpticalFlow().estimate_back_flow(frame, frame), 0)


def test_pictures_of_two_sizes_are_refused() -> None:
    one, other = np.zeros((8, 8, 3), np.uint8), np.zeros((8, 9, 3), np.uint8)
    with pytest.raises(ValueError, match="before"):
        OpticalFlow().estimate_back_flow(one, other)
    with pytest.raises(ValueError, match="flow's size"):
        warp_picture(other, np.zeros((8, 8, 2), np.float32))
    with pytest.raises(ValueError, match="fast, medium"):
        OpticalFlow(preset="slow")
