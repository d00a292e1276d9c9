"""A release on a GPU is the processor's: the same noise to the bit, the same film but for a shade.

Without a GPU its steps run as torch's on the processor.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from masquerade.io import device_graphs, devices
from masquerade.mechanism import Shape
from masquerade.mechanisms.cosine_gaussian import CosineGaussian
from masquerade.mechanisms.gaussian_video import GaussianVideo
from masquerade.mechanisms.pooled_gaussian import PooledGaussian
from masquerade.mechanisms.video_dprp import VideoDprp
from masquerade.noise import Noise

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

TARGET: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-4, "unit": "pixels", "pixels": 4}
MECHANISMS = {
    "pooled": PooledGaussian(**TARGET),
    "plain": CosineGaussian(**TARGET, denoise="plain"),
    "local": CosineGaussian(**TARGET),
    "orthonormal": VideoDprp(**TARGET, columns=60),
    "truncated": VideoDprp(**TARGET, columns=60, form="truncated", rank=9),
}
SHAPE = (18, 24, 32, 3)
each_mechanism = pytest.mark.parametrize("name", MECHANISMS)


@pytest.fixture(params=["tensors", "GPU"])
def elsewhere(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where arrays are torch's."""
    if request.param == "GPU" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    device_graphs._known().clear()
    yield "cuda" if request.param == "GPU" else "cpu:0"
    device_graphs._known().clear()


def video(shape: Shape = SHAPE) -> np.ndarray:
    t, y, x = np.ogrid[: shape[0], : shape[1], : shape[2]]
    waves = [np.sin(x / (5 + c) + t / 9) + np.cos(y / (7 + c) - t / 13) for c in range(3)]
    return np.clip(128 + 50 * np.stack(waves, axis=-1), 0, 255).astype(np.uint8)


def released(mechanism: GaussianVideo, noise: Noise, where: str = "cpu") -> np.ndarray:
    token = devices._DEVICE_NAME.set(where)
    try:
        return np.asarray(mechanism.apply(video(), noise))
    finally:
        devices._DEVICE_NAME.reset(token)


@each_mechanism
def test_a_rehearsal_gives_the_same_film_everywhere(name: str, elsewhere: str) -> None:
    here = released(MECHANISMS[name], Noise(seed=1)).astype(int)
    there = released(MECHANISMS[name], Noise(seed=1), elsewhere).astype(int)
    other = released(MECHANISMS[name], Noise(seed=2), elsewhere).astype(int)
    apart = np.abs(here - there)
    assert apart.max() <= 3 and apart.mean() < 0.2  # a GPU rebuilds with TF32
    assert np.abs(here - other).mean() > 1


@each_mechanism
def test_the_stream_of_noise_is_used_alike(name: str, elsewhere: str) -> None:
    here, there = Noise(seed=3), Noise(seed=3)
    released(MECHANISMS[name], here)
    released(MECHANISMS[name], there, elsewhere)
    assert np.array_equal(here.draw_words(5), there.draw_words(5))


class Listening(Noise):
    """Remembers where numbers were drawn."""

    def __init__(self) -> None:
        super().__init__(seed=4)
        self.places: list[str] = []

    def sample_gaussian(self, *given: Any, **named: Any) -> np.ndarray:
        self.places.append("processor")
        return super().sample_gaussian(*given, **named)

    def sample_gaussian_on(self, device: str, *given: Any, **named: Any) -> Any:
        self.places.append(device)
        return super().sample_gaussian_on(device, *given, **named)


@pytest.mark.parametrize("name", ["pooled", "plain", "orthonormal"])
def test_noise_is_drawn_where_the_numbers_are(name: str, elsewhere: str) -> None:
    noise = Listening()
    released(MECHANISMS[name], noise, elsewhere)
    assert noise.places and "processor" not in noise.places


@each_mechanism
def test_a_film_in_pieces_is_released_alike(
    name: str, elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too large for one go, so that frames come in batches."""
    whole = released(MECHANISMS[name], Noise(seed=5), elsewhere).astype(int)
    few = {True: 16, False: 7}
    for module in ("gaussian_video", "video_dprp"):
        monkeypatch.setattr(
            f"masquerade.mechanisms.{module}.batch_frames", lambda *_: few[devices.is_cpu()]
        )
    monkeypatch.setattr(devices, "batch_frames", lambda *_: few[devices.is_cpu()])
    apart = np.abs(released(MECHANISMS[name], Noise(seed=5), elsewhere) - whole)
    assert apart.max() <= 3 and apart.mean() < 0.2  # a GPU rebuilds with TF32


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@each_mechanism
def test_a_captured_release_is_the_one_that_was_not(name: str) -> None:
    mechanism, noise = MECHANISMS[name], Noise(seed=6)
    device_graphs._known().clear()
    films = [released(mechanism, noise, "cuda").astype(int) for _ in range(5)]
    plain = Noise(seed=6)
    for film in films:
        apart = np.abs(released(mechanism, plain).astype(int) - film)
        assert apart.max() <= 3 and apart.mean() < 0.2  # a GPU rebuilds with TF32
    assert all(np.mean(a != b) > 0.1 for a, b in itertools.pairwise(films))
    captured = any(known.graph is not None for known in device_graphs._known().values())
    assert captured == (not mechanism.DRAWS)
