"""Releasing a video on a GPU: the paper's algorithm as it is written, and ours, noise included.

186 frames of 320 x 240, k = 3072, and full HD, the video already on the device and the result left
there; beside it from memory to memory. First the GPU is compared with the processor. Steps are
replayed from captured graphs where that is possible ("graphs": how many of the two). Needs a GPU
with 16 GiB and torch; skips politely without. About three minutes.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from masquerade.io import device_graphs, devices
from masquerade.mechanisms.cosine_gaussian import CosineGaussian
from masquerade.mechanisms.gaussian_video import GaussianVideo
from masquerade.mechanisms.pooled_gaussian import PooledGaussian
from masquerade.mechanisms.video_dprp import VideoDprp
from masquerade.noise import Noise

SHAPE = (186, 240, 320, 3)
FULL_HD = (128, 1080, 1920, 3)
COLUMNS = 3072
TARGETS = {
    "gaussian, fresh R": 35,
    "orthonormal": 4,
    "pooled": 1,
    "cosine, plain": 5,
    "cosine, local": 12,
}
TARGET_FRAMES = 1000  # a second, in full HD
TARGET: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-4, "unit": "pixels", "pixels": 16}
FORM: dict[str, Any] = {**TARGET, "columns": COLUMNS}
CASES: dict[str, GaussianVideo] = {
    "gaussian, fresh R": VideoDprp(**FORM, form="gaussian"),
    "orthonormal": VideoDprp(**FORM),
    "pooled": PooledGaussian(**TARGET),
    "cosine, plain": CosineGaussian(**TARGET, denoise="plain"),
    "cosine, local": CosineGaussian(**TARGET),
    "cosine, 1 site, local": CosineGaussian(**{**TARGET, "pixels": 1}),
}


def video(shape: tuple[int, ...]) -> np.ndarray:
    """Smooth moving shades: what is in it does not matter for speed."""
    t, y, x = (np.arange(n, dtype=np.float32) for n in shape[:3])
    out = np.empty(shape, np.uint8)
    for c in range(3):
        across = np.sin(x / (17 + 5 * c) + t[:, None] / 9)[:, None, :]
        down = np.cos(y / (23 + 3 * c) - t[:, None] / 13)[:, :, None]
        out[..., c] = 128 + 50 * (across + down)
    return out


def timed(work: Callable[[], object], repeats: int = 7, warm: int = 4) -> tuple[float, float]:
    """Median milliseconds and peak GiB; the first calls compile and capture."""
    import torch

    for _ in range(warm):
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


def as_written(frames: Any) -> Callable[[], object]:
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


def released(mechanism: GaussianVideo, frames: Any, noise: Noise) -> Iterator[Any]:
    """Blocks of frames that stay on the device: measured, with noise, rebuilt."""
    for chunk in mechanism._list_seeded_chunks(tuple(frames.shape), noise):
        part = frames[chunk.start : chunk.start + chunk.length]
        yield from mechanism.release_chunk(part, chunk, noise)


def all_of(blocks: Iterator[Any]) -> int:
    """So many frames; each block is dropped when the next one comes."""
    return sum(len(block) for block in blocks)


def num_graphs(mechanism: GaussianVideo, shape: tuple[int, ...]) -> int:
    chunk = mechanism.list_chunks(shape)[0]
    return sum(
        device_graphs.is_captured((name, mechanism, chunk)) for name in ("measure", "rebuild")
    )


def drawing(mechanism: GaussianVideo, frames: Any) -> float:
    """Milliseconds of them that the noise takes."""
    chunk = mechanism.list_chunks(tuple(frames.shape))[0]
    exact = mechanism.measure_chunk(iter(frames[: chunk.length]), chunk)
    noise = Noise()
    return timed(lambda: mechanism.add_grid_noise(exact, tuple(frames.shape), noise))[0]


def check(name: str, mechanism: GaussianVideo) -> None:
    """Rehearsals here and there, also when they are replayed; noise that is never the same."""
    small, plain, there = video((40, 60, 80, 3)), Noise(seed=1), Noise(seed=1)
    chunk = mechanism.list_chunks(small.shape)[0]
    here = mechanism.measure_chunk(iter(small), chunk)
    with devices.use_device("cuda"):
        exact = devices.fetch_array(mechanism.measure_chunk(iter(small), chunk))
    off, grid = float(np.abs(here - exact).max()), mechanism.compute_scale(small.shape).grid
    shades, films = [], []
    for _ in range(5):
        film = np.asarray(mechanism.apply(small, plain)).astype(int)
        with devices.use_device("cuda"):
            films.append(np.asarray(mechanism.apply(small, there)).astype(int))
        shades.append(int(np.abs(film - films[-1]).max()))
    differ = min(float(np.mean(a != b)) for a, b in itertools.pairwise(films))
    print(
        f"{name}: vectors {off:.2g} apart (grid {grid:.2g}), films {max(shades)} shades; "
        f"two rehearsals in a row differ in {100 * differ:.0f} % of pixels"
    )
    if not name.startswith("gaussian") and max(shades) > 4:  # whose R a GPU draws differently
        raise SystemExit(f"{name}: the GPU's film is not the processor's.")
    if differ < 0.1:
        raise SystemExit(f"{name}: noise was repeated.")


def clip_table(frames: Any) -> None:
    peer, memory = timed(as_written(frames), repeats=2, warm=1)
    print(f"\n{SHAPE[0]} frames of {SHAPE[2]} x {SHAPE[1]}, noise included; median of 7")
    print(f"{'':24}{'ms':>8}{'GiB':>7}{'faster':>9}{'graphs':>8}{'noise ms':>10}  target")
    print(f"{'as written':24}{peer:8.1f}{memory:7.1f}{1.0:8.1f}x")
    for name, mechanism in CASES.items():
        noise = Noise()
        took, memory = timed(lambda m=mechanism, n=noise: all_of(released(m, frames, n)))
        goal = TARGETS.get(name)
        verdict = "" if goal is None else f"<= {goal} ms: {'pass' if took <= goal else 'miss'}"
        graphs = num_graphs(mechanism, SHAPE)
        own = drawing(mechanism, frames)
        print(
            f"{name:24}{took:8.2f}{memory:7.1f}{peer / took:8.0f}x{graphs:8d}{own:10.2f}  {verdict}"
        )


def full_hd_table() -> None:
    print(f"\nframes a second of {FULL_HD[2]} x {FULL_HD[1]}, noise included, before any codec")
    print(f"{'':24}{'on device':>11}{'GiB':>7}{'graphs':>8}{'memory to memory':>18}  target")
    there = devices.send_array(video(FULL_HD))
    here = devices.fetch_array(there)
    for name in ("orthonormal", "pooled", "cosine, plain", "cosine, local"):
        mechanism, noise = CASES[name], Noise()
        if name == "orthonormal":
            mechanism = VideoDprp(**TARGET)
        took, memory = timed(
            lambda m=mechanism, n=noise: all_of(released(m, there, n)), repeats=3, warm=3
        )
        graphs = num_graphs(mechanism, FULL_HD)
        whole, _ = timed(
            lambda m=mechanism, n=noise: sum(1 for _ in m.stream(iter(here), FULL_HD, n)),
            repeats=2,
            warm=1,
        )
        fast, slow = (FULL_HD[0] / ms * 1e3 for ms in (took, whole))
        verdict = f">= {TARGET_FRAMES}: {'pass' if fast >= TARGET_FRAMES else 'miss'}"
        print(f"{name:24}{fast:11,.0f}{memory:7.1f}{graphs:8d}{slow:18,.0f}  {verdict}")


def main() -> None:
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        print("No GPU here: nothing is measured.")
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for name, mechanism in CASES.items():
        check(name, mechanism)
    with devices.use_device("cuda"):
        clip_table(devices.send_array(video(SHAPE)))
        full_hd_table()


if __name__ == "__main__":
    main()
