"""Releasing a video on a GPU: the paper's algorithm as it is written, and ours.

186 frames of 320 x 240, k = 3072, the video already on the device. Noise is drawn on the processor
and timed apart. Needs a GPU with 16 GiB and torch; skips politely without.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

import numpy as np

from masquerade.compute import device
from masquerade.noise import Noise
from masquerade.release.cosine_gaussian import CosineGaussian
from masquerade.release.gaussian_video import GaussianVideo
from masquerade.release.pooled_gaussian import PooledGaussian
from masquerade.release.video_dprp import VideoDprp

SHAPE = (186, 240, 320, 3)
COLUMNS = 3072
TARGETS = {"gaussian, fresh R": 35, "gaussian, shared R": 8, "orthonormal": 5, "pooled": 1}
TARGET = {"epsilon": 8.0, "delta": 1e-4, "unit": "pixels", "pixels": 16}


class Stored(Noise):
    """Noise that was drawn before, so that drawing it is not timed."""

    def gaussian(  # noqa: D102
        self, sigma: float, shape: int | tuple[int, ...], *, grid: float | None = None
    ) -> np.ndarray:
        if not hasattr(self, "_drawn"):
            self._drawn: dict[object, np.ndarray] = {}
        if shape not in self._drawn:
            self._drawn[shape] = super().gaussian(1.0, shape)
        return self._drawn[shape] * sigma


def video() -> np.ndarray:
    """Smooth moving shades: what is in it does not matter for speed."""
    t, y, x = np.ogrid[: SHAPE[0], : SHAPE[1], : SHAPE[2]]
    waves = [np.sin(x / (17 + 5 * c) + t / 9) + np.cos(y / (23 + 3 * c) - t / 13) for c in range(3)]
    return np.clip(128 + 50 * np.stack(waves, axis=-1), 0, 255).astype(np.uint8)


def timed(work: Callable[[], object], repeats: int = 7) -> tuple[float, float]:
    """Median milliseconds and peak GiB."""
    import torch

    work()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    took = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        took.append((time.perf_counter() - start) * 1e3)
    return statistics.median(took), torch.cuda.max_memory_allocated() / 2**30


def as_written(frames: object) -> Callable[[], object]:
    """Algorithm 1 with full decompositions and an explicit pseudoinverse."""
    import torch

    flat = frames.reshape(SHAPE[0], -1).float()

    def run() -> object:
        drawn = torch.randn(flat.shape[1], COLUMNS, device="cuda") / math.sqrt(COLUMNS)
        rows = flat @ drawn
        noisy = rows + 4.1891 * torch.randn_like(rows)
        covariance = rows.T @ rows
        covariance += 44.4545 * torch.randn_like(covariance)
        basis = torch.linalg.svd(covariance).Vh.T
        inverse = torch.linalg.pinv(drawn @ basis)
        return ((noisy @ basis) @ inverse).round().clamp(0, 255).to(torch.uint8)

    return run


def released(mechanism: GaussianVideo, frames: object) -> Callable[[], object]:
    """Measure and rebuild; the noisy vectors were made before, so that adding is not timed."""
    noise = Stored(seed=0)
    sigma, kept = mechanism.scale(SHAPE).sigma, {}

    def run() -> object:
        stream, out = iter(frames), []
        for chunk in mechanism._seeded(SHAPE, noise):
            exact = mechanism.measure((next(stream) for _ in range(chunk.length)), chunk)
            if chunk.start not in kept:
                drawn = noise.gaussian(sigma, tuple(exact.shape))
                kept[chunk.start] = exact + device.send(drawn)
            out += list(mechanism.rebuild(kept[chunk.start], chunk, sigma, noise))
        return out

    return run


def drawing(mechanism: GaussianVideo) -> float:
    """Milliseconds that the noise takes on the processor."""
    count = sum(
        len(mechanism.measure(iter(np.zeros((c.length, *SHAPE[1:]), np.uint8)), c))
        for c in mechanism.chunks(SHAPE)
    )
    count *= 2 if getattr(mechanism, "denoise", "") == "local" else 1
    noise, start = Noise(), time.perf_counter()
    noise.gaussian(1.0, count)
    return (time.perf_counter() - start) * 1e3


def check(mechanism: GaussianVideo) -> float:
    """How far the GPU's vector is from the processor's, over what the proof allows."""
    small = video()[:20, :60, :80]
    chunk = mechanism.chunks(small.shape)[0]
    here = mechanism.measure(iter(small), chunk)
    with device.on("cuda"):
        there = device.fetch(mechanism.measure(iter(small), chunk))
    return float(np.linalg.norm(here - there))


def main() -> None:
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        print("No GPU here: nothing is measured.")
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; median of 7")
    frames = torch.from_numpy(video()).cuda()
    peer, peer_memory = timed(as_written(frames), repeats=2)
    print(f"{'':28}{'ms':>10}{'GiB':>8}{'faster':>9}{'noise ms':>10}")
    print(f"{'as written':28}{peer:10.1f}{peer_memory:8.1f}{1.0:8.1f}x")
    form = {**TARGET, "columns": COLUMNS}
    cosine = CosineGaussian(**TARGET)
    cases: dict[str, GaussianVideo] = {
        "gaussian, fresh R": VideoDprp(**form, form="gaussian"),
        "gaussian, shared R": VideoDprp(**form, form="gaussian"),
        "orthonormal": VideoDprp(**form),
        "pooled": PooledGaussian(**TARGET),
        "cosine, plain": CosineGaussian(**TARGET, denoise="plain"),
        "cosine, local": cosine,
        "cosine, 1 site, local": CosineGaussian(**{**TARGET, "pixels": 1}),
    }
    with device.on("cuda"):
        for name, mechanism in cases.items():
            work = released(mechanism, frames)
            if "shared" in name:
                object.__setattr__(mechanism, "_seeded", lambda *_, m=mechanism: m.chunks(SHAPE))
            took, memory = timed(work)
            noise = 0.0 if "gaussian" in name or "ortho" in name else drawing(mechanism)
            print(f"{name:28}{took:10.2f}{memory:8.1f}{peer / took:8.0f}x{noise:10.1f}")
    for name in ("orthonormal", "pooled", "cosine, plain"):
        print(f"{name}: processor and GPU differ by {check(cases[name]):.2g} in norm")


if __name__ == "__main__":
    main()
