"""PPEDCRF: noise where the place is told, people as they are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

from masquerade.errors import BadInput
from masquerade.mechanisms.selective_privacy import carry_pixels, steps_of
from masquerade.noise import Noise
from masquerade.noise.source import STEPS_PER_STD, sample_rough_gaussian, sample_rough_steps
from masquerade.places import place_maps
from masquerade.places.place_noise import (
    ScatteredNoise,
    _fit_canvas,
    add_place_noise,
    compute_noise_after_averaging,
    compute_noise_of_change,
    shift_canvas_over,
)
from masquerade.places.ppedcrf import Ppedcrf
from masquerade.progress import collect_owner_notes
from masquerade.recordings import Video


def scene(frames: int = 6, height: int = 96, width: int = 128, step: int = 0) -> np.ndarray:
    """A wall on the left, a fence of bars on the right; the camera may move."""
    wide = np.full((height, width + step * frames, 3), 128, np.uint8)
    bars = (np.arange(wide.shape[1]) // 4 % 2 == 0) & (np.arange(wide.shape[1]) > width // 2)
    wide[:, bars] = 40
    return np.stack([wide[:, step * t : step * t + width] for t in range(frames)])


def mapped(**fields: Any) -> Ppedcrf:
    """White noise by a map of edges, unless something else is asked for."""
    return Ppedcrf(**{"shape": "white", "unary": "evidence", **fields})


@pytest.mark.parametrize("fields", [{"form": "as_published"}, {"unary": "even", "still": 0.0}])
def test_a_constant_map_is_global_noise_at_scaled_sigma_and_is_called_constant(
    fields: dict[str, Any],
) -> None:
    still = np.full((4, 64, 64, 3), 128, np.uint8)
    mechanism = mapped(sigma=20.0, people="nobody", **fields)
    amounts = [one.amount for one in mechanism.map_frames(iter(still), still.shape)]
    assert np.allclose(amounts, 0.5, atol=1e-5), "sigmoid(0) everywhere"
    with collect_owner_notes() as heard:
        spread = (mechanism.apply(still, Noise(seed=1)) - 128.0).std(axis=(1, 2, 3))
    assert np.allclose(spread, 10.0, rtol=0.03)
    assert len(heard) == 1 and heard[0].startswith("The mask is constant: it selects nothing")
    with collect_owner_notes() as heard:
        mapped(people="nobody").apply(scene(), Noise(seed=1))
    assert "constant" not in heard[0] and "coverage 0." in heard[0]


def test_a_constant_mask_is_said_loudly_and_never_in_the_receipt(
    tmp_path: Path, command: Any
) -> None:
    source, target, facts = (tmp_path / name for name in ("in.npy", "out.npy", "facts.json"))
    np.save(source, scene(3))
    words = ("--mechanism", "ppedcrf", "--people", "nobody", "--unary", "even")
    done = command("release", source, target, *words, "--export", facts)
    assert done.code == 0 and "PRIVATE, for you alone: The mask is constant" in done.out
    receipt = (tmp_path / "out.npy.receipt.json").read_text()
    assert not [word for word in ("coverage", "entropy", "facts.json") if word in receipt]
    written = json.loads(facts.read_text())
    assert "PRIVATE" in written and len(written["frames"]) == 3
    assert all(one["is_constant"] and one["entropy"] == 1.0 for one in written["frames"])
    assert command("receipt", "check", target).code == 0
    assert command("release", source, tmp_path / "b.npy", *words, "--export", facts).code != 0


def test_by_default_patterns_of_one_strength_go_behind_people_and_it_is_said() -> None:
    film = np.full((2, 96, 128, 3), 128, np.uint8)
    mask = np.zeros(film.shape[:3], bool)
    mask[:, 20:80, 30:60] = True
    with collect_owner_notes() as heard:
        made = Ppedcrf(sigma=20.0).apply(
            Video(frames=film, rate_hz=30, person_mask=mask), Noise(seed=2)
        )
    assert isinstance(made, Video) and heard[0].startswith("The mask is constant")
    off = made.frames.astype(float) - 128
    assert not off[mask].any()
    assert off[~mask].std() == pytest.approx(10.0, rel=0.15), "half of sigma"
    left, right = off[:, :, 64:-1].ravel(), off[:, :, 65:].ravel()
    assert np.corrcoef(left, right)[0, 1] > 0.3, "patterns, and no white noise"


def test_a_grey_film_works_and_one_without_colours_is_refused_with_the_reason() -> None:
    grey = np.random.default_rng(0).integers(0, 256, (2, 64, 80, 1), np.uint8).repeat(3, axis=3)
    assert mapped(people="nobody").apply(grey, Noise(seed=0)).shape == grey.shape
    with pytest.raises(ValueError, match=r"\(T, H, W, 3\) in 8 bits, got shape \(2, 64, 80\)"):
        mapped(people="nobody").apply(grey[..., 0], Noise(seed=0))


def test_noise_goes_where_structure_is() -> None:
    film = scene()
    made = mapped(sigma=24.0, people="nobody").apply(film, Noise(seed=2)).astype(float)
    off = (made - film).std(axis=(0, 1, 3))
    assert off[84:120].mean() > 4 * off[8:44].mean()


def test_peoples_pixels_are_the_same_to_the_bit(tmp_path: Path) -> None:
    film, mask = scene(), np.zeros((6, 96, 128), bool)
    mask[:, 20:80, 70:100] = True
    own = mapped().apply(Video(frames=film, rate_hz=30, person_mask=mask), Noise(seed=3))
    assert isinstance(own, Video) and own.person_mask is None
    np.savez(tmp_path / "people.npz", mask=mask)
    given = mapped(people="given", masks=str(tmp_path / "people.npz"))
    for made in (own.frames, np.asarray(given.apply(film, Noise(seed=3)))):
        assert np.array_equal(made[mask], film[mask])
        assert not np.array_equal(made[:, :, 100:], film[:, :, 100:])
    assert given.encode_fields()["masks"] is None, "no receipt names a private file"
    nobody = mapped(people="nobody")
    made = nobody.apply(Video(frames=film, rate_hz=30, person_mask=mask), Noise(seed=3))
    assert isinstance(made, Video) and not np.array_equal(made.frames[mask], film[mask])


def test_people_without_masks_or_with_others_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="got none; name a file with --masks, or let a network"):
        mapped(people="given").apply(scene(), Noise())
    np.save(tmp_path / "masks.npy", np.zeros((5, 96, 128), bool))
    with pytest.raises(BadInput, match=r"shape \(6, 96, 128\).*got \(5, 96, 128\)"):
        mapped(people="given", masks=str(tmp_path / "masks.npy")).apply(scene(), Noise())


def test_a_film_of_people_alone_stays_as_it_is() -> None:
    film = scene(3)
    full = Video(frames=film, rate_hz=30, person_mask=np.ones(film.shape[:3], bool))
    made = mapped().apply(full, Noise())
    assert isinstance(made, Video) and np.array_equal(made.frames, film)


@pytest.mark.parametrize(
    ("still", "averaged", "changed"),
    [(0.0, 0.462, 8.0), (0.5, 5.666, 5.666), (0.9, 7.591, 2.534), (0.99, 7.96, 0.80)],
)
def test_what_averaging_leaves_is_the_tables(still: float, averaged: float, changed: float) -> None:
    assert compute_noise_after_averaging(8.0, still=still, frames=300) == pytest.approx(
        averaged, abs=5e-3
    )
    assert compute_noise_of_change(8.0, still=still, frames=300) == pytest.approx(changed, abs=5e-3)


@pytest.mark.parametrize(("still", "frames"), [(0.0, 16), (0.5, 16), (0.9, 16)])
def test_averaging_a_still_scene_leaves_the_predicted_noise(still: float, frames: int) -> None:
    film = scene(frames=frames)
    mechanism = mapped(sigma=20.0, people="nobody", still=still)
    amount = np.mean([one.amount for one in mechanism.map_frames(iter(film), film.shape)], axis=0)
    off = mechanism.apply(film, Noise(seed=4)).astype(float).mean(axis=0) - film[0]
    where = (amount > 0.3) & (film[0, ..., 0] == 40)
    found = (off[where] / amount[where][:, None]).std()
    wanted = compute_noise_after_averaging(20.0, still=still, frames=frames)
    assert found == pytest.approx(wanted, rel=0.05)


def test_a_camera_that_trembles_does_not_wear_the_noise_off() -> None:
    jitter = np.random.default_rng(0).normal(0, 2, (16, 96, 128, 1))
    film = np.clip(np.rint(scene(16) + jitter), 0, 255).astype(np.uint8)
    grains = ScatteredNoise((96, 128), still=0.5, grain_px=0.0, noise=Noise(seed=8))
    maps = mapped(people="nobody").map_frames(iter(film), film.shape)
    total = np.zeros((96, 128, 3))
    for one in maps:
        total += grains.next_frame_noise(one.resize_steps())
    left = (total / 16 / STEPS_PER_STD)[:, 72:120].std()
    assert left == pytest.approx(compute_noise_after_averaging(1.0, still=0.5, frames=16), rel=0.05)


@pytest.mark.parametrize("speed", [0.3, 1.3])
def test_the_noise_goes_with_a_camera_that_pans_by_parts_of_a_pixel(speed: float) -> None:
    rough = np.random.default_rng(0).normal(size=(128, 240, 3))
    wide = np.clip(128 + 260 * ndimage.gaussian_filter(rough, (3, 3, 0)), 0, 255)
    pan = [ndimage.shift(wide, (0, -speed * t, 0), order=1)[:, 20:180] for t in range(12)]
    film = np.rint(pan).astype(np.uint8)
    grains = ScatteredNoise((128, 160), still=0.5, grain_px=0.0, noise=Noise(seed=8))
    total = np.zeros((128, 160, 3))
    for number, one in enumerate(mapped(people="nobody").map_frames(iter(film), film.shape)):
        total += np.roll(grains.next_frame_noise(one.resize_steps()), round(number * speed), axis=1)
    left = (total / 12 / STEPS_PER_STD)[16:-16, 32:-32].std()
    assert left > 0.8 * compute_noise_after_averaging(1.0, still=0.5, frames=12)
    assert left > 1.8 * compute_noise_after_averaging(1.0, still=0.0, frames=12), (
        "what fresh noise leaves"
    )


def test_the_map_follows_a_moving_camera() -> None:
    film = scene(frames=5, step=4)
    maps = [one.amount for one in mapped(people="nobody").map_frames(iter(film), film.shape)]
    first, last = maps[0] > 0.25, maps[-1] > 0.25
    moved = np.roll(first, -16, axis=1)[:, :100]
    both, either = (moved & last[:, :100]).sum(), (moved | last[:, :100]).sum()
    assert both / either > 0.8 > (first & last).sum() / (first | last).sum() * 0.95


@pytest.mark.parametrize("shape", ["white", "patterns"])
def test_two_runs_share_no_noise(shape: str) -> None:
    film = scene(frames=2)
    chosen = Ppedcrf(people="nobody", shape=shape)
    one, two = (chosen.apply(film, Noise()).astype(float) for _ in range(2))
    where = np.abs(one - film) + np.abs(two - film) > 0
    assert abs(np.corrcoef((one - film)[where], (two - film)[where])[0, 1]) < (
        0.05 if shape == "white" else 0.5
    )


def test_grains_are_larger_at_the_same_variance() -> None:
    film = np.full((2, 120, 160, 3), 128, np.uint8)
    made = Ppedcrf(sigma=20.0, people="nobody", shape="grain", grain=0.02, unary="even")
    off = made.apply(film, Noise(seed=5)).astype(float) - 128
    assert off.std() == pytest.approx(10.0, rel=0.1)
    assert np.corrcoef(off[:, :, 1:].ravel(), off[:, :, :-1].ravel())[0, 1] > 0.8


@pytest.mark.parametrize("shape", ["grain", "patterns"])
def test_what_the_paper_measured_has_white_noise_whatever_shape_is_asked_for(shape: str) -> None:
    film = np.full((2, 96, 128, 3), 128, np.uint8)
    made = Ppedcrf(sigma=20.0, people="nobody", shape=shape, grain=0.05, form="as_published")
    off = made.apply(film, Noise(seed=5)).astype(float) - 128
    assert off.std() == pytest.approx(10.0, rel=0.05)
    for near, far in ((off[:, :, 1:], off[:, :, :-1]), (off[0], off[1])):
        assert abs(np.corrcoef(near.ravel(), far.ravel())[0, 1]) < 0.05


def test_patterns_have_their_strength_and_stand_still_as_far_as_they_should() -> None:
    film = np.full((12, 96, 128, 3), 128, np.uint8)
    made = Ppedcrf(sigma=40.0, people="nobody", unary="even", shape="patterns", still=0.0)
    off = made.apply(film, Noise(seed=5)).astype(float) - 128
    assert off.std() == pytest.approx(20.0, rel=0.1)
    pairs = np.triu_indices(12, 1)
    assert np.abs(np.corrcoef(off.reshape(12, -1))[pairs]).mean() < 0.3
    still = replace(made, still=0.9).apply(film, Noise(seed=5)).astype(float) - 128
    assert np.corrcoef(still.reshape(12, -1))[pairs].mean() == pytest.approx(0.9, abs=0.1)


def test_patterns_follow_the_camera() -> None:
    wide = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(96, 150, 3)), (3, 3, 0))
    wide = np.clip(128 + 40 * wide / wide.std(), 60, 196).astype(np.uint8)
    film = np.stack([wide[:, 4 * t : 4 * t + 128] for t in range(4)])
    made = Ppedcrf(sigma=60.0, people="nobody", unary="even", shape="patterns", still=0.95)
    off = made.apply(film, Noise(seed=3)).astype(float) - film
    last = off[-1][:, 16:-16].ravel()
    moved, stood = (np.roll(off[0], -way, axis=1)[:, 16:-16].ravel() for way in (12, 0))
    assert np.corrcoef(moved, last)[0, 1] > 0.5 > np.corrcoef(stood, last)[0, 1] + 0.1


def test_a_file_of_other_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.safetensors").write_bytes(b"rubbish")
    for name, said in (("bad.safetensors", "got"), ("none.safetensors", "no such")):
        made = Ppedcrf(people="nobody", shape="patterns", bank=str(tmp_path / name))
        assert made.encode_fields()["bank"] == name, "no receipt says where it lies"
        with pytest.raises(BadInput, match=said):
            made.apply(scene(1), Noise())


def test_the_taught_map_selects_and_the_penalty_makes_it_narrower() -> None:
    film = scene(frames=2)
    maps = {
        penalty: next(
            mapped(people="nobody", unary="network", penalty=penalty).map_frames(
                iter(film), film.shape
            )
        )
        for penalty in ("normalised", "none")
    }
    assert not maps["normalised"].facts.is_constant
    assert maps["normalised"].facts == maps["none"].facts
    assert np.all(maps["normalised"].amount <= maps["none"].amount + 1e-6)
    assert maps["normalised"].amount.mean() < 0.95 * maps["none"].amount.mean()


def test_class_weights_scale_the_noise(tmp_path: Path) -> None:
    film, classes = scene(), np.zeros((6, 96, 128), np.uint8)
    classes[:, 48:] = 1
    np.save(tmp_path / "classes.npy", classes)
    made = mapped(people="nobody", classes=str(tmp_path / "classes.npy"), class_weights=(1.0, 0.0))
    out = np.asarray(made.apply(film, Noise(seed=1)))
    assert np.array_equal(out[:, 48:], film[:, 48:])
    assert not np.array_equal(out[:, :48], film[:, :48])
    with pytest.raises(BadInput, match=r"classes from 0 to 0.*got 0 to 1"):
        replace(made, class_weights=(1.0,)).apply(film, Noise())


def test_a_cut_starts_the_map_anew() -> None:
    film = np.concatenate([scene(3), 255 - scene(3)[:, :, ::-1]])
    maps = [one.amount for one in mapped(people="nobody").map_frames(iter(film), film.shape)]
    alone = [
        one.amount for one in mapped(people="nobody").map_frames(iter(film[3:]), film[3:].shape)
    ]
    assert np.allclose(maps[3], alone[0], atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1, 1, 3), (2, 3, 200, 3), (1, 64, 64, 3)])
def test_odd_sizes_and_one_frame_work(shape: tuple[int, ...]) -> None:
    film = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    assert mapped(people="nobody").apply(film, Noise(seed=0)).shape == shape


@pytest.mark.slow
def test_4k_works() -> None:
    film = np.random.default_rng(0).integers(0, 256, (3, 2160, 3840, 3), np.uint8)
    assert mapped(people="nobody").apply(film, Noise()).shape == film.shape


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"still": 1.0}, "still below 1"),
        ({"sigma": 0.0}, "sigma"),
        ({"sigma": 300.0}, "at most 255"),
        ({"alpha": 2.0}, "at most 1"),
        ({"people": "all"}, "choose from segmenter, given, nobody"),
        ({"masks": "m.npy"}, "masks with people given"),
        ({"bank": "b", "shape": "white"}, "bank with shape patterns"),
        ({"classes": "c.npy"}, "class_weights with classes"),
        ({"iterations": -1}, "iterations"),
        ({"shape": "pink"}, "choose from white, grain, patterns"),
    ],
)
def test_wrong_fields_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Ppedcrf(**fields)


def test_carried_noise_keeps_its_variance_and_its_independence() -> None:
    noise, rng = Noise(seed=7), np.random.default_rng(0)
    field = sample_rough_gaussian((64, 64, 1), noise)
    back = rng.uniform(-3, 3, (64, 64, 2)).astype(np.float32)
    for _ in range(20):
        steps = steps_of(back, 0)
        field = carry_pixels(field, steps, lambda count: sample_rough_gaussian((count, 1), noise))
    assert field.std() == pytest.approx(1.0, abs=0.05)
    assert abs(np.corrcoef(field[:, 1:].ravel(), field[:, :-1].ravel())[0, 1]) < 0.06


def test_rough_noise_has_the_bells_moments_and_a_wrong_scale_is_seen() -> None:
    drawn = sample_rough_gaussian((400_000,), Noise(seed=9)).astype(float)
    assert abs(drawn.mean()) < 0.01
    assert drawn.var() == pytest.approx(1.0, abs=0.01)
    assert (drawn**4).mean() == pytest.approx(3.0, abs=0.05)
    assert (1.05 * drawn).var() != pytest.approx(1.0, abs=0.01)
    whole = sample_rough_steps((400_000,), Noise(seed=9), power=0.5)
    assert whole.dtype == np.int16
    assert np.abs(whole - drawn * STEPS_PER_STD * 0.5**0.5).max() <= 0.51


def test_the_random_field_without_weights_is_the_logits_own() -> None:
    logits = np.array([[-1.0, 0.0, 2.0]], np.float32)
    found = place_maps.DynamicField(spatial=0.0, temporal=0.0).refine_map(logits, None)
    assert np.allclose(found, 1 / (1 + np.exp(-logits)))
    pulled = place_maps.DynamicField().refine_map(logits, np.ones_like(logits))
    assert np.all(pulled > found - 0.5)


@pytest.mark.parametrize("shift", [(0, 0, False), (3, 0, True), (5, 11, False), (7, 16, True)])
def test_a_canvas_is_shifted_around_its_edges_and_mirrored(shift: tuple[int, int, bool]) -> None:
    canvas, below = np.random.default_rng(0).integers(-999, 999, (2, 9, 17, 3)).astype(np.int16)
    down, right, is_turned = shift
    moved = np.roll(canvas, (down, right), axis=(0, 1))
    moved = moved[:, ::-1] if is_turned else moved
    np.testing.assert_array_equal(shift_canvas_over(canvas, shift, None), moved)
    np.testing.assert_array_equal(shift_canvas_over(canvas, shift, below), moved + below)


def test_an_amount_that_is_one_number_gives_the_noise_of_a_map_of_it() -> None:
    rng, level = np.random.default_rng(0), np.float32(0.5)
    frame = rng.integers(0, 256, (150, 40, 3), np.uint8)
    grains = sample_rough_steps(frame.shape, Noise())
    one = np.broadcast_to(level, frame.shape[:2])
    noisy, mapped = (add_place_noise(frame, some, grains, 16.0) for some in (one, one.copy()))
    assert np.abs(noisy.astype(int) - mapped).max() <= 1  # a tie may be rounded either way
    assert noisy.astype(int).std() > frame.std() and not np.array_equal(noisy, frame)


def test_what_stands_out_of_a_pattern_is_cut_and_never_changes_sign() -> None:
    canvas = np.zeros((64, 64, 3), np.float32)
    canvas[20:24, 20:24] = 14.0
    steps = _fit_canvas(canvas, (64, 64), deviation=4096 * 0.7)
    assert steps[20:24, 20:24].min() == np.iinfo(np.int16).max
