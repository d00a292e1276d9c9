"""Picture measures: scikit-image is the yardstick, and the papers' own numbers."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from masquerade import _json
from masquerade.cli import _plain_json
from masquerade.io.video.write import write_video
from masquerade.quality import picture


def noisy(video: np.ndarray, spread: float, seed: int = 1) -> np.ndarray:
    jitter = np.random.default_rng(seed).normal(0, spread, video.shape)
    return np.clip(np.rint(video + jitter), 0, 255).astype(np.uint8)


def walk(frames: int = 6, height: int = 40, width: int = 48) -> np.ndarray:
    """A smooth scene that moves by a pixel a frame; (T, H, W, 3)."""
    y, x = np.mgrid[:height, : width + frames]
    scene = 128 + 60 * np.sin(x / 5) + 50 * np.cos(y / 7) * np.sin(x / 11)
    still = np.stack([scene, scene * 0.8, scene * 0.6 + 40], axis=-1).astype(np.uint8)
    return np.stack([still[:, shift : shift + width] for shift in range(frames)])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Two frames of any size, unrelated, close or flat."""
    height, width = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    before = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    kind = draw(st.sampled_from(["unrelated", "close", "flat", "inverse"]))
    if kind == "unrelated":
        return before, rng.integers(0, 256, before.shape, dtype=np.uint8)
    if kind == "flat":
        return np.full_like(before, before[0, 0, 0]), np.full_like(before, 255)
    return before, noisy(before, 9) if kind == "close" else 255 - before


@given(pairs())
def test_ssim_is_that_of_scikit_image_with_the_largest_window_that_fits(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    before, after = pair
    side = picture.ssim_window(*before.shape[:2])
    assert side == max(w for w in (1, 3, 5, 7) if w <= min(before.shape[:2]))
    ours = picture.frame_ssim(before, after)
    if side > 1:  # scikit-image divides by zero there
        theirs = structural_similarity(before, after, channel_axis=2, data_range=255, win_size=side)
        assert ours == pytest.approx(theirs, abs=1e-6)
    else:
        x, y, small = before.astype(float), after.astype(float), (0.01 * 255) ** 2
        assert ours == pytest.approx(np.mean((2 * x * y + small) / (x * x + y * y + small)))


@pytest.mark.parametrize("size", [(7, 7), (7, 300), (301, 9), (240, 320)])
def test_ssim_needs_no_window_argument_from_seven_pixels_on(size: tuple[int, int]) -> None:
    before = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    after = noisy(before, 30)
    theirs = structural_similarity(before, after, channel_axis=2, data_range=255)
    assert picture.frame_ssim(before, after) == pytest.approx(theirs, abs=1e-6)
    backwards = before[::-1, ::-1], after[::-1, ::-1]  # views that are not contiguous
    assert picture.frame_ssim(*backwards) == pytest.approx(theirs, abs=1e-6)


def test_the_extremes_of_ssim_do_not_overflow() -> None:
    checks = (np.indices((20, 20)).sum(axis=0) % 2 * 255).astype(np.uint8)
    before = np.repeat(checks[..., None], 3, axis=2)
    for after in (255 - before, before, np.full_like(before, 255)):
        theirs = structural_similarity(before, after, channel_axis=2, data_range=255)
        assert picture.frame_ssim(before, after) == pytest.approx(theirs, abs=1e-6)
    assert picture.frame_ssim(before, 255 - before) < -0.9


@given(pairs(), st.integers(1, 4))
def test_psnr_is_that_of_scikit_image_over_the_whole_video(
    pair: tuple[np.ndarray, np.ndarray], frames: int
) -> None:
    before = np.stack([pair[0]] * frames)
    after = before.copy()
    after[0] = pair[1]
    after[0, 0, 0, 0] = 255 - before[0, 0, 0, 0]  # never identical
    theirs = peak_signal_noise_ratio(before, after, data_range=255)
    quality = picture.measure(before, after)
    assert quality.psnr == pytest.approx(theirs, abs=1e-6)
    if frames > 1:  # a frame that is unchanged is infinitely good
        assert quality.psnr_of_frames == math.inf


def test_the_mean_of_frames_is_not_the_psnr_of_the_video() -> None:
    before = np.full((2, 8, 8, 3), 100, np.uint8)
    after = before + np.array([1, 10], np.uint8)[:, None, None, None]
    quality = picture.measure(before, after)
    assert quality.psnr == pytest.approx(10 * math.log10(255**2 / 50.5))
    assert quality.psnr_of_frames == pytest.approx(20 * math.log10(255) - 10)
    assert quality.perturbation_stability == pytest.approx(9 / math.sqrt(2))
    assert quality.flicker_before == 0 and quality.flicker_after == 9
    assert quality.flicker_ratio == math.inf


def test_the_measures_are_what_they_are_called() -> None:
    before = walk()
    after = noisy(before, 12)
    quality = picture.measure(iter(before), iter(after))
    assert quality.ssim == pytest.approx(
        np.mean([picture.frame_ssim(*pair) for pair in zip(before, after, strict=True)])
    )
    moves = np.abs(np.diff(after.astype(int), axis=0)).mean()
    assert quality.flicker_after == pytest.approx(moves)
    assert quality.flicker_before == pytest.approx(
        np.abs(np.diff(before.astype(int), axis=0)).mean()
    )
    changed = np.abs(after.astype(int) - before).mean(axis=(1, 2, 3))
    assert quality.perturbation_stability == pytest.approx(changed.std(ddof=1))


def test_the_measures_put_copies_in_the_right_order() -> None:
    before = walk()
    copies = {
        "same": before,
        "a little noise": noisy(before, 4),
        "brighter": (before.astype(int) + 12).clip(0, 255).astype(np.uint8),
        "noise": noisy(before, 25),
        "much noise": noisy(before, 80),
    }
    seen = {name: picture.measure(before, copy) for name, copy in copies.items()}
    by_psnr = sorted(seen, key=lambda name: -seen[name].psnr)
    assert by_psnr == ["same", "a little noise", "brighter", "noise", "much noise"]
    by_ssim = sorted(seen, key=lambda name: -seen[name].ssim)
    assert by_ssim == ["same", "brighter", "a little noise", "noise", "much noise"]
    ratio = {name: quality.flicker_ratio for name, quality in seen.items()}
    assert ratio["same"] == 1.0 and ratio["brighter"] == pytest.approx(1.0, rel=0.02)
    assert 1 < ratio["a little noise"] < ratio["noise"] < ratio["much noise"]
    shifted = picture.measure(before, np.roll(before, 3, axis=2))
    assert shifted.ssim < seen["brighter"].ssim and shifted.psnr < seen["brighter"].psnr


def test_a_static_pair_does_not_flicker() -> None:
    still = np.stack([walk(1)[0]] * 4)
    quality = picture.measure(still, still)
    assert quality.flicker_before == quality.flicker_after == 0 and quality.flicker_ratio == 1
    assert quality.is_identical and quality.ssim == 1.0 and quality.perturbation_stability == 0
    assert picture.measure(still, noisy(still, 3)).flicker_ratio == math.inf


def test_the_papers_noise_gives_the_papers_flicker_and_stability() -> None:
    """PPEDCRF, Table 7, global Gaussian noise of 8 grey levels: 9.06, .010 +- .001; 192x320."""
    still = np.full((6, 192, 320, 3), 128, np.uint8)
    seen = [picture.measure(still, noisy(still, 8, seed), every=6) for seed in range(5)]
    assert np.mean([quality.flicker_after for quality in seen]) == pytest.approx(9.03, abs=0.03)
    stability = np.mean([quality.perturbation_stability for quality in seen])
    assert 0.007 < stability < 0.014
    assert seen[0].psnr == pytest.approx(30.05, abs=0.03)  # its Table 6 prints 30.17


def test_one_frame_and_one_pixel_have_no_time() -> None:
    dot = np.zeros((1, 1, 1, 3), np.uint8)
    quality = picture.measure(dot, dot + np.uint8(255))
    assert quality.psnr == 0 and quality.ssim_window == 1 and quality.frames == 1
    assert 0 < quality.ssim < 1e-3
    assert math.isnan(quality.flicker_after) and math.isnan(quality.perturbation_stability)
    assert math.isnan(quality.flicker_ratio)


def test_ssim_of_every_third_frame_begins_with_the_first() -> None:
    before = walk(7)
    after = before.copy()
    after[[1, 2, 4, 5]] = 0
    quality = picture.measure(before, after, every=3)
    assert quality.ssim == 1.0 and quality.ssim_frames == 3 and quality.frames == 7
    assert picture.measure(before, after).ssim < 1.0
    with pytest.raises(ValueError, match="every=0"):
        picture.measure(before, after, every=0)


def test_what_does_not_match_is_refused_with_both_shapes() -> None:
    video = walk()
    for one, other, message in (
        (video, video[:4], "more frames before and 4 after"),
        (video[:4], video, "4 frames before and more after"),
        (video, video[:, :30], r"\(40, 48, 3\) before and \(30, 48, 3\) after"),
        (video[:0], video[:0], "at least one frame"),
        ([video[0], video[0, :9]], video[:2], r"before of one size > 0, got \(40, 48, 3\)"),
        (video[..., :2], video[..., :2], "H, W, 3"),
        (video[:, :0], video[:, :0], "> 0"),
    ):
        with pytest.raises(ValueError, match=message):
            picture.measure(one, other)
    with pytest.raises(TypeError, match="uint8"):
        picture.measure(video, video.astype(float))


def test_memory_does_not_grow_and_a_buffer_may_be_filled_again() -> None:
    def film(length: int, level: int) -> Iterator[np.ndarray]:
        frame = np.empty((60, 80, 3), np.uint8)
        for place in range(length):
            frame[:] = place % 7 + level  # the same array every time
            yield frame

    peaks = []
    for length in (10, 300):
        tracemalloc.start()
        quality = picture.measure(film(length, 0), film(length, 9), every=5)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert quality.flicker_after == quality.flicker_before > 1
    assert peaks[1] < 1.2 * peaks[0]


def test_the_figures_are_json_with_null_for_infinity() -> None:
    video = walk(1)
    data = json.loads(json.dumps(_plain_json(_json.encode_noun(picture.measure(video, video)))))
    assert data["psnr"] is None and data["ssim"] == 1 and data["flicker_after"] is None
    assert data["frames"] == 1 and data["height"] == 40 and data["width"] == 48


def save(path: Path, video: np.ndarray) -> Path:
    """The video as a file; exact where it is a .mkv."""
    if path.suffix == ".npy":
        np.save(path, video)
    elif path.suffix == ".npz":
        np.savez(path, video=video)
    else:
        with path.open("wb") as stream:
            write_video(stream, iter(video), suffix=path.suffix, rate=Fraction(25), exact=True)
    return path


@pytest.mark.parametrize("suffixes", [(".npy", ".npz"), (".mkv", ".mkv"), (".mkv", ".npy")])
def test_the_command_measures_files_and_says_private(
    suffixes: tuple[str, str], tmp_path: Path, command: Any
) -> None:
    video = walk(9)
    before = save(tmp_path / f"before{suffixes[0]}", video)
    after = save(tmp_path / f"after{suffixes[1]}", noisy(video, 10))
    expected = picture.measure(video, noisy(video, 10), every=4)
    told = command("utility", before, after, "--every", 4)
    assert told.code == 0, told.err
    assert told.out.startswith("PRIVATE")
    assert f"{expected.psnr:.2f} dB" in told.out and "mean of 3 frames" in told.out
    data = command("utility", before, after, "--every", 4, "--json").json
    assert data["private"] is True and data["identical"] is False and data["rounded"] is False
    assert data["psnr"] == expected.psnr and data["ssim"] == expected.ssim
    assert data["flicker_ratio"] == expected.flicker_ratio


def test_the_command_rounds_what_a_mechanism_added_noise_to_but_not_the_original(
    tmp_path: Path, command: Any
) -> None:
    video = walk(3)
    before = save(tmp_path / "before.npy", video)
    after = save(tmp_path / "after.npy", video + 0.4)
    far = save(tmp_path / "far.npy", np.where(video < 128, -1e9, 1e9))
    done = command("utility", before, after)
    assert "no pixel differs" in done.out and "rounded and clamped" in done.out
    data = command("utility", before, after, "--json").json
    assert data["psnr"] is None and data["identical"] is True and data["rounded"] is True
    black_and_white = np.where(video < 128, 0, 255).astype(np.uint8)
    data = command("utility", before, far, "--json").json
    assert data["psnr"] == picture.measure(video, black_and_white).psnr
    assert command("utility", after, before).code == 4


def test_the_command_speaks_of_still_and_single_frames(tmp_path: Path, command: Any) -> None:
    still = np.full((2, 8, 8, 3), 9, np.uint8)
    before = save(tmp_path / "before.npy", still)
    moved = still.copy()
    moved[1] += 5
    told = command("utility", before, save(tmp_path / "moved.npy", moved)).out
    assert "0 grey levels a frame before, 5 after\n" in told and "some are unchanged" in told
    one = save(tmp_path / "one.png", still[:1])
    told = command("utility", one, one).out
    assert "a single frame" in told and "no pixel differs" in told
    data = command("utility", one, one, "--json").json
    assert data["flicker_after"] is None and data["flicker_ratio"] is None and data["ssim"] == 1


def test_the_command_refuses_what_does_not_match_or_cannot_be_read(
    tmp_path: Path, command: Any
) -> None:
    video = walk(4)
    before = save(tmp_path / "before.npy", video)
    film = save(tmp_path / "film.mkv", video[:3])
    np.savez(tmp_path / "two.npz", a=video, b=video)
    damaged = tmp_path / "damaged.mkv"
    damaged.write_bytes(film.read_bytes()[:200])
    save(tmp_path / "signal.npy", np.zeros((5, 3), np.uint8))
    for other, code, message in (
        (film, 2, "(4, 40, 48, 3) before and (3, 40, 48, 3) after"),
        (save(tmp_path / "small.npy", video[:, 1:]), 2, "(4, 39, 48, 3) after"),
        (tmp_path / "notes.txt", 2, "choose from .mp4"),
        (tmp_path / "table.csv", 2, "choose from .mp4"),
        (tmp_path / "missing.mp4", 4, "missing.mp4"),
        (tmp_path / "missing.npy", 4, "missing.npy"),
        (damaged, 4, "damaged.mkv"),
        (tmp_path / "two.npz", 4, "got a, b"),
        (tmp_path / "signal.npy", 4, "(5, 3)"),
    ):
        done = command("utility", before, other, "--json")
        assert (done.code, done.out) == (code, ""), done.err
        assert message in json.loads(done.err)["error"]
    done = command("utility", before, before, "--every", 0)
    assert done.code == 2 and "every=0" in done.err
