"""Blur, mosaic, low resolution, random mask and appearance-free video do what they say."""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
import pytest
from scipy import ndimage

from masquerade.guarantee import GuaranteeKind
from masquerade.mechanism import Heuristic
from masquerade.mechanisms.filters import Blur, LowResolution, Mosaic, RandomMask
from masquerade.mechanisms.selective_privacy import AppearanceFree
from masquerade.noise import Noise

ALL = [
    Blur(),
    Mosaic(),
    LowResolution(),
    RandomMask(),
    RandomMask(redraw="video"),
    RandomMask(fill="noise"),
    AppearanceFree(),
    AppearanceFree(preset="fast"),
]
STILL = LowResolution(columns=8, rows=6, shift=0, scale=0, rotation=0)

each = pytest.mark.parametrize("mechanism", ALL, ids=str)


def released(mechanism: Heuristic, frames: np.ndarray, seed: int | None = 0) -> np.ndarray:
    return np.asarray(mechanism.apply(frames, Noise(seed=seed)))


def some_video(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (*shape, 3), dtype=np.uint8)


def texture(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Something smooth enough to have an optical flow, (H, W, 3) uint8."""
    rough = np.random.default_rng(seed).normal(size=(height, width, 3))
    smooth = ndimage.gaussian_filter(rough, (2, 2, 0)) * 8
    return np.clip(128 + 60 * smooth, 0, 255).astype(np.uint8)


def moving_square(count: int, step: int, seed: int = 0) -> np.ndarray:
    """A square of 40 pixels that moves to the right before a ground that stands still."""
    frames = np.repeat(texture(80, 160, seed)[None], count, axis=0)
    for number, frame in enumerate(frames):
        frame[20:60, 10 + number * step : 50 + number * step] = texture(40, 40, seed + 100)
    return frames


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.corrcoef(first.ravel().astype(float), second.ravel().astype(float))[0, 1])


# What holds for all of them.


@each
@pytest.mark.parametrize("size", [(1, 1, 1), (3, 1, 1), (2, 1, 70), (2, 5, 3), (3, 67, 33)])
def test_any_size_works_and_the_input_is_not_written_to(
    mechanism: Heuristic, size: tuple[int, ...]
) -> None:
    frames = some_video(*size)
    frames.setflags(write=False)
    out = released(mechanism, frames)
    assert out.shape == frames.shape and out.dtype == np.uint8
    assert not np.shares_memory(out, frames)


@each
def test_frames_that_are_views_are_released_like_their_copies(mechanism: Heuristic) -> None:
    view = some_video(3, 40, 60)[:, ::2, ::-1]
    assert np.array_equal(released(mechanism, view), released(mechanism, view.copy()))


@each
def test_frames_are_taken_and_given_one_by_one(mechanism: Heuristic) -> None:
    taken = []

    def source() -> Iterator[np.ndarray]:
        for number, frame in enumerate(some_video(5, 20, 30)):
            taken.append(number)
            yield frame

    for number, _ in enumerate(mechanism.stream(source(), (5, 20, 30, 3), Noise())):
        assert len(taken) == number + 1
    assert len(taken) == 5


@each
def test_nothing_is_promised(mechanism: Heuristic) -> None:
    guarantee = mechanism.guarantee((4, 20, 30, 3))
    assert guarantee.kind is GuaranteeKind.HEURISTIC and guarantee.epsilon is None
    assert mechanism.hides in guarantee.released


@pytest.mark.parametrize("mechanism", ALL[2:], ids=str)
def test_what_is_random_comes_from_the_noise_and_from_nowhere_else(mechanism: Heuristic) -> None:
    frames = some_video(3, 48, 64)
    assert np.array_equal(released(mechanism, frames, 1), released(mechanism, frames, 1))
    assert not np.array_equal(released(mechanism, frames, None), released(mechanism, frames, None))


@pytest.mark.slow
@each
def test_4k_works(mechanism: Heuristic) -> None:
    assert released(mechanism, some_video(2, 2160, 3840)).shape == (2, 2160, 3840, 3)


@pytest.mark.parametrize(
    ("make", "fields", "said"),
    [
        (Blur, {"kernel": 20}, r"odd.*kernel=20; use 19 or 21"),
        (Blur, {"kernel": 0}, r"whole number >= 1, got kernel=0"),
        (Blur, {"sigma": 0.0}, r"> 0, got sigma=0\.0"),
        (Blur, {"sigma": float("nan")}, r"finite.*sigma=nan"),
        (Mosaic, {"block": 0}, r">= 1, got block=0"),
        (Mosaic, {"block": 2.5}, r"whole number.*block=2\.5"),
        (LowResolution, {"columns": 0}, r">= 1, got columns=0"),
        (LowResolution, {"rows": -3}, r">= 1, got rows=-3"),
        (LowResolution, {"shift": -1.0}, r">= 0, got shift=-1\.0"),
        (LowResolution, {"shift": 25.0}, r"at most the 24 cells.*shift=25\.0"),
        (LowResolution, {"scale": 1.0}, r"below 1.*scale=1\.0"),
        (LowResolution, {"rotation": 200.0}, r"at most 180 degrees.*rotation=200\.0"),
        (RandomMask, {"share": 0.0}, r"\(0, 1\], got share=0\.0"),
        (RandomMask, {"share": 1.5}, r"\(0, 1\], got share=1\.5"),
        (RandomMask, {"block": 0}, r">= 1, got block=0"),
        (RandomMask, {"redraw": "vidéo"}, r"redraw 'vidéo'.*choose from frame, video"),
        (RandomMask, {"fill": "black"}, r"fill 'black'.*choose from grey, noise"),
        (RandomMask, {"sigma": 300.0}, r"at most 255.*sigma=300"),
        (Mosaic, {"region": "people"}, r"choose from all, given"),
        (Mosaic, {"masks": "m.npy"}, r"masks with region given, got region=all"),
        (Blur, {"kernel": 1}, r"at least 3, got kernel=1.*as it went in"),
        (Blur, {"kernel": 99_999_999}, r"at most 4095, got kernel=99999999"),
        (Blur, {"sigma": 0.01}, r"at least 0\.5, got sigma=0\.01.*as it went in"),
        (Mosaic, {"block": 1}, r"at least 2, got block=1.*as it went in"),
        (Mosaic, {"block": 10**9}, r"at most 65535, got block=1000000000"),
        (LowResolution, {"columns": 10**9}, r"at most 65535, got columns=1000000000"),
        (RandomMask, {"share": 1e-9}, r"at least 0\.01, got share=1e-09.*as it went in"),
        (RandomMask, {"block": 10**9}, r"at most 65535, got block=1000000000"),
        (AppearanceFree, {"preset": "slow"}, r"preset 'slow'.*choose from fast, medium"),
    ],
)
def test_wrong_fields_are_refused_with_rule_and_value(
    make: type[Heuristic], fields: dict[str, object], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        make(**fields)


# Blur.


@pytest.mark.parametrize("level", [0, 1, 127, 255])
def test_the_blur_of_a_constant_is_the_constant(level: int) -> None:
    frames = np.full((1, 30, 41, 3), level, np.uint8)
    assert np.array_equal(released(Blur(), frames), frames)


def test_the_blur_of_a_dot_is_the_gaussian() -> None:
    frames = np.zeros((1, 31, 31, 3), np.uint8)
    frames[0, 15, 15] = 255
    out = released(Blur(kernel=5, sigma=0.8), frames)[0, ..., 1].astype(float)
    bell = np.exp(-((np.arange(31) - 15.0) ** 2) / (2 * 0.8**2)) * (np.abs(np.arange(31) - 15) <= 2)
    truth, wrong = (255 * np.outer(b, b) / b.sum() ** 2 for b in (bell, bell**0.8))
    assert np.abs(out - truth).max() <= 0.501 < np.abs(out - wrong).max()


@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 3), (5, 40), (33, 47)])
def test_borders_are_mirrored_also_where_the_kernel_is_larger_than_the_frame(
    height: int, width: int
) -> None:
    frames, blur = some_video(1, height, width), Blur(kernel=31, sigma=9.0)
    truth = frames[0].astype(float)
    for axis in (0, 1):
        truth = ndimage.correlate1d(truth, blur.compute_kernel(), axis=axis, mode="mirror")
    assert np.abs(released(blur, frames)[0] - truth).max() <= 0.501


def test_a_low_resolution_that_changes_nothing_is_refused() -> None:
    still = LowResolution(columns=40, rows=30, shift=0, scale=0, rotation=0)
    with pytest.raises(ValueError, match="40 x 30 cells for 40 x 30 pixels"):
        still.apply(some_video(1, 30, 40), Noise())
    still.check(some_video(1, 31, 40))


# Mosaic.


@pytest.mark.parametrize("block", [2, 7, 12, 65535])
def test_every_block_has_its_mean_and_a_second_mosaic_changes_nothing(block: int) -> None:
    frames = some_video(2, 30, 41)
    out = released(Mosaic(block=block), frames)
    for top in range(0, 30, block):
        for left in range(0, 41, block):
            part = (slice(None), slice(top, top + block), slice(left, left + block))
            mean = frames[part].mean(axis=(1, 2), keepdims=True)
            assert np.abs(out[part] - mean).max() <= 0.5 + 1e-9
            assert np.ptp(out[part], axis=(1, 2)).max() == 0
    assert np.array_equal(released(Mosaic(block=block), out), out)


def test_the_mean_of_a_very_large_white_block_does_not_overflow() -> None:
    frames = np.full((1, 3000, 3000, 3), 255, np.uint8)
    assert released(Mosaic(block=3000), frames).min() == 255


# Low resolution.


@pytest.mark.parametrize(("height", "width"), [(240, 320), (37, 53), (5, 100)])
def test_no_more_than_rows_times_columns_cells_are_left(height: int, width: int) -> None:
    out = released(LowResolution(columns=8, rows=6), some_video(1, height, width))[0]
    assert len(np.unique(out.reshape(-1, 3), axis=0)) <= 48
    rows = np.any(out[1:] != out[:-1], axis=(1, 2)).sum() + 1
    columns = np.any(out[:, 1:] != out[:, :-1], axis=(0, 2)).sum() + 1
    assert rows <= 6 and columns <= 8


def test_without_movement_low_resolution_is_a_mosaic() -> None:
    frames = some_video(2, 60, 80)
    assert np.array_equal(released(STILL, frames), released(Mosaic(block=10), frames))


def test_the_movement_is_the_same_within_a_video_and_another_in_the_next() -> None:
    frames = np.repeat(some_video(1, 60, 80), 4, axis=0)
    runs = [released(LowResolution(columns=8, rows=6), frames, None) for _ in range(20)]
    assert all(np.array_equal(run[0], frame) for run in runs for frame in run)
    assert len({run[0].tobytes() for run in runs}) == 20


def places(mechanism: LowResolution) -> np.ndarray:
    """Where a dot, 15 pixels to the right of the middle, comes to lie in 200 runs, from there."""
    frames = np.zeros((1, 61, 61, 3), np.uint8)
    frames[0, 29:32, 44:47] = 255
    runs = [released(mechanism, frames, seed)[0, ..., 0] for seed in range(200)]
    return np.array([np.argwhere(run).mean(axis=0) for run in runs]) - np.array([30, 45])


def test_shift_scale_and_rotation_fill_their_ranges_and_stay_within() -> None:
    still = {"columns": 61, "rows": 61, "shift": 0.0, "scale": 0.0, "rotation": 0.0}
    shifted = places(LowResolution(**still | {"shift": 4.0}))
    assert 3 < shifted.max() <= 4.5 and -4.5 <= shifted.min() < -3
    assert np.all(np.ptp(shifted, axis=0) > 6)
    scaled = places(LowResolution(**still | {"scale": 0.4}))
    assert np.abs(scaled[:, 0]).max() <= 0.5
    assert 5 < scaled[:, 1].max() <= 6.5 and -6.5 <= scaled[:, 1].min() < -5
    turned = places(LowResolution(**still | {"rotation": 30.0})) + np.array([0, 15])
    degrees = np.degrees(np.arctan2(turned[:, 0], turned[:, 1]))
    assert np.abs(np.hypot(*turned.T) - 15).max() < 1
    assert 25 < degrees.max() < 33 and -33 < degrees.min() < -25


# Random mask.


def covered(mechanism: RandomMask, count: int, height: int, width: int) -> np.ndarray:
    """Which pixels of a video without grey turn grey, (T, H, W)."""
    frames = some_video(count, height, width)
    frames[frames == 128] = 0
    out = released(mechanism, frames)
    hidden = np.all(out == 128, axis=-1)
    assert np.array_equal(out[~hidden], frames[~hidden]), "what is not covered is left alone"
    assert np.all(out[hidden] == 128)
    return hidden


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_the_stated_share_is_covered_and_no_other(share: float) -> None:
    hidden = covered(RandomMask(share=share, block=2), 20, 60, 80)
    blocks = 20 * 30 * 40
    far = 5 * np.sqrt(share * (1 - share) / blocks)
    assert abs(hidden.mean() - share) < far < abs(hidden.mean() - 1.3 * share)


def test_blocks_are_covered_whole_also_at_the_border() -> None:
    hidden = covered(RandomMask(block=8), 6, 30, 43)
    for top in range(0, 30, 8):
        for left in range(0, 43, 8):
            part = hidden[:, top : top + 8, left : left + 8]
            assert np.all(part.all(axis=(1, 2)) == part.any(axis=(1, 2)))


def test_the_mask_is_fresh_in_every_frame_or_one_for_the_video() -> None:
    fresh = covered(RandomMask(), 10, 64, 64)
    assert len({mask.tobytes() for mask in fresh}) == 10
    one = covered(RandomMask(redraw="video"), 10, 64, 64)
    assert len({mask.tobytes() for mask in one}) == 1
    assert np.all(covered(RandomMask(share=1.0, block=65535), 2, 5, 7))


def test_noise_of_the_stated_strength_fills_a_random_mask_and_leaves_the_rest() -> None:
    frames = np.full((8, 64, 64, 3), 128, np.uint8)
    off = released(RandomMask(fill="noise", sigma=12.0), frames).astype(float) - 128
    hidden = off.any(axis=-1)
    assert abs(hidden.mean() - 0.5) < 0.1
    assert off[hidden].std() == pytest.approx(12.0, rel=0.03) != pytest.approx(16.0, rel=0.03)


# Appearance-free.


@pytest.mark.parametrize("seed", [0, 1])
def test_the_appearance_cannot_be_read_from_any_frame(seed: int) -> None:
    frames = moving_square(20, 3, seed)
    out = released(AppearanceFree(), frames)
    chance = 5 / np.sqrt(frames[0].size)
    assert all(abs(correlation(*pair)) < chance for pair in zip(out, frames, strict=True))
    assert correlation(frames[0], frames[1]) > 0.5 > chance  # the test can fail


@pytest.mark.parametrize(("preset", "far"), [("fast", 1.3), ("medium", 0.5)])
def test_the_noise_moves_where_the_picture_moves_and_nowhere_else(preset: str, far: float) -> None:
    step, count = 3, 20
    out = released(AppearanceFree(preset=preset), moving_square(count, step))
    estimator = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    grey = [cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY) for frame in out]
    inside, ground = [], []
    for number in range(count - 1):
        flow = estimator.calc(grey[number], grey[number + 1], None)
        left = 10 + number * step
        inside.append(np.median(flow[28:52, left + 8 : left + 32], axis=(0, 1)))
        ground.append(np.median(flow[:, 135:], axis=(0, 1)))
    assert np.mean(inside, axis=0) == pytest.approx([step, 0], abs=far)
    assert np.abs(np.mean(inside, axis=0)[1]) < 0.1
    assert np.abs(np.mean(ground, axis=0)).max() < 0.1


def test_what_moves_by_whole_pixels_keeps_its_grains() -> None:
    out = released(AppearanceFree(), moving_square(20, 3))
    same = [
        np.all(out[n][28:52, 18 + 3 * n :][:, :24] == out[n + 1][28:52, 21 + 3 * n :][:, :24])
        for n in range(19)
    ]
    assert np.mean(same) > 0.5


def test_a_video_that_stands_still_gives_noise_that_stands_still() -> None:
    out = released(AppearanceFree(), np.repeat(texture(70, 90)[None], 30, axis=0))
    assert np.all(out == out[0])
    assert np.ptp(out[0]) == 255


def test_slow_motion_adds_up_to_the_right_distance() -> None:
    ground, speed, count = texture(80, 140).astype(float), 0.25, 41
    frames = [
        ndimage.shift(ground, (0, -speed * number, 0), order=1)[:, 10:110]
        for number in range(count)
    ]
    out = released(AppearanceFree(), np.rint(frames).astype(np.uint8))
    middle = out[-1][15:65, 25:75]
    like = [correlation(middle, out[0][15:65, 25 + by : 75 + by]) for by in range(21)]
    assert np.argmax(like) in (9, 10, 11) and max(like) > 0.3
    assert abs(like[0]) < 0.1  # rounding each flow would leave everything in its place


def test_every_frame_stays_uniform_noise_while_the_picture_grows() -> None:
    ground = texture(120, 120)
    frames = []
    for number in range(60):
        turn = cv2.getRotationMatrix2D((60, 60), 0.7 * number, 1.012**number)
        frames.append(cv2.warpAffine(ground, turn, (120, 120), borderMode=cv2.BORDER_REFLECT))
    out = released(AppearanceFree(), np.stack(frames))
    spread = np.sqrt((256**2 - 1) / 12)  # of a uniform byte
    for frame in out:
        assert frame.std() == pytest.approx(spread, rel=0.02)
        assert frame.mean() == pytest.approx(127.5, abs=5 * spread / np.sqrt(frame.size))
        assert abs(correlation(frame[1:], frame[:-1])) < 5 / np.sqrt(frame.size)
        assert abs(correlation(frame[:, 1:], frame[:, :-1])) < 5 / np.sqrt(frame.size)
        assert np.all(frame[:, 1:] == frame[:, :-1], axis=-1).sum() <= 2
    kept = np.mean(np.all(out[1:] == out[:-1], axis=-1))
    assert kept > 0.005  # it is carried along, not drawn anew each time
