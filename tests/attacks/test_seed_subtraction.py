"""A rehearsal is undone; a release with live noise is not."""

from __future__ import annotations

import numpy as np
import pytest

from masquerade.attacks.attack import Case, ignore_progress
from masquerade.attacks.seed_subtraction import (
    SeedSubtraction,
    error_undone,
    find_likeliest_seed,
    release_recording,
    undo_release,
)
from masquerade.errors import BadInput
from masquerade.mechanism import Mechanism
from masquerade.mechanisms.filters import Blur
from masquerade.mechanisms.gaussian_noise import GaussianNoise
from masquerade.mechanisms.pooled_gaussian import PooledGaussian
from masquerade.noise import Noise, make_file_seed
from masquerade.recordings import Signal, Video
from masquerade.scores import AttackResult

NOISY = GaussianNoise(epsilon=4.0, delta=1e-4, unit="pixels", pixels=1)
STRONG = GaussianNoise(epsilon=1.0, delta=1e-4, unit="pixels", pixels=4)
POOLED = PooledGaussian(epsilon=4.0, delta=1e-4, unit="pixels", pixels=4, block=4, length=4)
WORN = GaussianNoise(epsilon=1.0, delta=1e-4, unit="value", low=-4.0, high=4.0)


def film(seed: int = 0) -> Video:
    """Smooth, moving, and of all brightnesses."""
    t, y, x = np.mgrid[:8, :32, :48]
    wave = np.sin(x / 7 + t / 3 + seed) + np.cos(y / 5 - seed)
    frames = np.stack([127 + 60 * wave, 127 - 50 * wave, 127 + 40 * wave], axis=-1)
    return Video(frames=frames.clip(0, 255).astype(np.uint8), rate_hz=30.0)


def test_numbers_of_a_rehearsed_signal_are_recovered_to_the_last_bit_of_what_is_stored() -> None:
    values = np.random.default_rng(0).normal(0, 1, (200, 3)).clip(-4, 4).astype(np.float32)
    raw = Signal(values=values, rate_hz=50.0)
    published = release_recording(raw, WORN, Noise(seed=3))
    found = undo_release(published, WORN, 3)
    assert isinstance(found, Signal) and isinstance(published, Signal)
    assert np.abs(published.values - values).mean() > 1
    assert np.abs(found.values - values).max() < 1e-4
    wrong = undo_release(published, WORN, 4)
    assert isinstance(wrong, Signal) and np.abs(wrong.values - values).mean() > 1


def test_a_film_with_noise_is_recovered_wherever_it_is_not_black_or_white() -> None:
    raw = film()
    published = release_recording(raw, NOISY, Noise(seed=5))
    found = undo_release(published, NOISY, 5)
    assert isinstance(found, Video) and isinstance(published, Video)
    is_open = (published.frames > 0) & (published.frames < 255)
    assert 0.2 < is_open.mean() < 0.99
    assert np.array_equal(found.frames[is_open], raw.frames[is_open])
    assert error_undone(found, published, raw) > 0.8


def means(frames: np.ndarray) -> np.ndarray:
    """Of the blocks of POOLED."""
    return np.asarray(frames.astype(float).reshape(2, 4, 8, 4, 12, 4, 3).mean(axis=(1, 3, 5)))


def test_block_means_are_recovered_from_a_rehearsal() -> None:
    raw = film()
    published = release_recording(raw, POOLED, Noise(seed=5))
    right, wrong = (undo_release(published, POOLED, seed) for seed in (5, 6))
    before, after, worse = (
        float(np.square(means(each.frames) - means(raw.frames)).mean())  # type: ignore[union-attr]
        for each in (published, right, wrong)
    )
    assert after < 0.6 * before < 0.6 * worse


@pytest.mark.parametrize("mechanism", [NOISY, STRONG, POOLED])
def test_a_seed_is_found_by_trying(mechanism: Mechanism) -> None:
    assert (
        find_likeliest_seed(
            release_recording(film(), mechanism, Noise(seed=11)), mechanism, range(16)
        )
        == 11
    )


def attacked(mechanism: Mechanism, noise: Noise, attack: SeedSubtraction) -> AttackResult:
    raw = [film(seed) for seed in range(2)]
    targets = []
    for each in raw:
        own = Noise(seed=noise.seed) if noise.is_rehearsal else Noise()
        targets.append(release_recording(each, mechanism, own))
    case = Case(known=[], targets=targets, raw=raw, mechanism=mechanism)
    [found] = attack.run(case, told=ignore_progress)
    assert found.is_telling
    return found


@pytest.mark.parametrize("mechanism", [NOISY, POOLED])
def test_a_rehearsal_is_undone_and_a_release_is_not(mechanism: Mechanism) -> None:
    attack = SeedSubtraction(seed=2) if mechanism is POOLED else SeedSubtraction(tries=3)
    rehearsed, live = (attacked(mechanism, noise, attack) for noise in (Noise(seed=2), Noise()))
    assert rehearsed.published[0].low > 0.2 and rehearsed.verdict.startswith("Not stopped")
    assert live.published[0].high < 0 and not live.verdict.startswith("Not stopped")


@pytest.mark.parametrize("attack", [SeedSubtraction(seed=2), SeedSubtraction(tries=3)])
def test_a_rehearsed_folder_is_undone_by_its_one_seed(attack: SeedSubtraction) -> None:
    raw = [film(number) for number in range(3)]
    made = [
        release_recording(each, NOISY, Noise(seed=make_file_seed(2, at)))
        for at, each in enumerate(raw)
    ]
    [found] = attack.run(
        Case(known=[], targets=made, raw=raw, mechanism=NOISY), told=ignore_progress
    )
    assert found.published[0].low > 0.2 and found.verdict.startswith("Not stopped")
    mixed = Case(known=[], targets=made[::-1], raw=raw[::-1], mechanism=NOISY)
    [other] = attack.run(mixed, told=ignore_progress)
    assert other.published[0].value < found.published[0].value - 0.5  # two are in wrong places


def test_what_has_no_noise_or_no_receipt_is_refused() -> None:
    raw = film()
    with pytest.raises(BadInput, match="receipt"):
        SeedSubtraction().run(Case(known=[], targets=[raw], raw=[raw]), told=ignore_progress)
    case = Case(known=[], targets=[raw], raw=[raw], mechanism=Blur())
    with pytest.raises(BadInput, match="mechanism with noise"):
        SeedSubtraction().run(case, told=ignore_progress)


def test_a_guess_as_wrong_as_what_was_published_undoes_nothing() -> None:
    raw, other = film(0), film(1)
    assert error_undone(other, other, raw) == 0.0
    assert error_undone(raw, other, raw) == 1.0
