"""Films are got back where that can be done, and measured as others measure them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from masquerade.attacks.attack import (
    Case,
    MappedRecordings,
    Recording,
    ReleaseFunction,
    ignore_progress,
)
from masquerade.attacks.reconstruct import (
    Reconstruct,
    compute_psnr,
    compute_ssim,
    measure_explained,
)
from masquerade.errors import BadInput
from masquerade.mechanism import Mechanism, arrays_of
from masquerade.mechanisms.filters import Blur
from masquerade.mechanisms.gaussian_noise import GaussianNoise
from masquerade.noise import Noise
from masquerade.quality.picture import frame_ssim
from masquerade.recordings import Signal, Video
from masquerade.scores import AttackResult

NOISY = GaussianNoise(epsilon=8.0, delta=1e-4, unit="value")
SMALL = Reconstruct(lessons=4, samples=1_000)
EVERYWHERE = np.ones((12, 32, 40), bool)


def film(seed: int) -> Video:
    """A still place of smooth colours, and somebody in it who moves to the right."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:32, :40]
    place = np.stack(
        [
            127 + 60 * np.sin(x / rng.uniform(2, 6) + c) * np.cos(y / rng.uniform(2, 6))
            for c in range(3)
        ],
        axis=-1,
    )
    frames = np.repeat(place[None], 12, axis=0)
    mask = np.zeros((12, 32, 40), bool)
    for t in range(12):
        mask[t, 8:26, 6 + 2 * t : 14 + 2 * t] = True
    stripes = 127 + 90 * np.sign(np.sin((x - 2 * np.arange(12)[:, None, None]) / 2 + y / 3))
    frames[mask] = stripes[mask][:, None] * rng.uniform(0.4, 1, 3)
    return Video(
        frames=frames.clip(0, 255).astype(np.uint8),
        rate_hz=10.0,
        subject=f"s{seed}",
        person_mask=mask,
        is_decoded=False,
    )


def by(mechanism: Mechanism) -> ReleaseFunction:
    def release(recording: Recording) -> Recording:
        assert isinstance(recording, Video)
        made = arrays_of(mechanism.apply(recording, Noise()))[0]
        return Video(frames=made, rate_hz=10.0, subject=recording.subject)

    return release


@cache
def attacked(mechanism: Mechanism, *, is_known: bool = True) -> dict[str, AttackResult]:
    raw = [film(seed) for seed in range(3)]
    case = Case(
        known=[film(seed) for seed in range(10, 14)] if is_known else [],
        targets=MappedRecordings(raw, by(mechanism)),
        raw=raw,
        release=by(mechanism) if is_known else None,
    )
    return {one.attacker: one for one in SMALL.run(case, told=ignore_progress)}


def value(found: AttackResult, measure: str) -> float:
    return next(one.value for one in found.published if one.measure == measure)


def test_noise_on_pixels_is_filtered_away_and_a_still_place_averaged_out() -> None:
    found = attacked(NOISY)
    seen, still, wiener, learned = found.values()
    assert value(seen, "rest explained") < 0
    assert value(still, "rest explained") > value(seen, "rest explained") + 0.5
    for one in (wiener, learned):
        assert value(one, "person explained") > value(seen, "person explained") + 0.3
        assert one.is_telling
    assert value(learned, "rest explained") > 0.6
    assert value(learned, "rest explained") > value(wiener, "rest explained")


def test_a_blur_is_partly_undone() -> None:
    found = attacked(Blur(sigma=2.0))
    seen, learned = found["as it is"], found["learned"]
    assert value(learned, "person explained") > value(seen, "person explained") + 0.05
    assert value(learned, "person SSIM") > value(seen, "person SSIM")


def test_the_original_is_the_ceiling_and_random_pixels_the_floor() -> None:
    for name, one in attacked(NOISY).items():
        top, bottom = one.ceiling[0], one.floor[0]
        if name != "mean over time":  # which blurs who moves
            assert top.value > 0.98 and one.is_telling
        assert bottom.value < 0.1
        assert all(np.isfinite(each.value) for each in (*one.published, *one.ceiling))
        assert one.published[0].of == "people" and one.published[0].count == 3


def test_without_a_receipt_nothing_is_learned() -> None:
    assert list(attacked(NOISY, is_known=False)) == ["as it is", "mean over time"]


def test_ssim_is_that_of_whole_frames_inside_their_edges() -> None:
    rng = np.random.default_rng(0)
    truth = film(0).frames[:1]
    guess = (truth + rng.normal(0, 20, truth.shape)).clip(0, 255).astype(np.uint8)
    inside = np.zeros(truth.shape[:3], bool)
    inside[:, 3:-3, 3:-3] = True
    assert compute_ssim(guess, truth, inside) == pytest.approx(
        frame_ssim(guess[0], truth[0]), abs=1e-9
    )


def test_measures_are_finite_and_ordered() -> None:
    truth = film(1).frames.astype(np.float64)
    grey = np.broadcast_to(truth.mean(axis=(0, 1, 2)), truth.shape)
    assert measure_explained(truth, truth, EVERYWHERE) == 1.0
    assert measure_explained(grey, truth, EVERYWHERE) == pytest.approx(0.0, abs=1e-9)
    assert measure_explained(255 - 3 * truth, truth, EVERYWHERE) == -1.0
    assert compute_psnr(truth, truth, EVERYWHERE) == pytest.approx(58.92, abs=0.01)
    assert compute_ssim(truth, truth, EVERYWHERE) == pytest.approx(1.0)


def test_recordings_that_are_no_videos_or_marked_in_part_are_refused() -> None:
    worn = Signal(values=np.zeros((8, 2), np.float32), rate_hz=50)
    with pytest.raises(BadInput, match="videos"):
        SMALL.run(Case(known=[], targets=[worn], raw=[worn]), told=ignore_progress)
    one = film(0)
    bare = Video(frames=one.frames, rate_hz=10.0)
    with pytest.raises(BadInput, match="in all recordings or in none"):
        SMALL.run(Case(known=[], targets=[one, bare], raw=[one, bare]), told=ignore_progress)
