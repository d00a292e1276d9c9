"""Frames from planes: mixed, rounded to even and clipped, the same in one pass."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from masquerade.io import devices
from masquerade.vision.transforms import make_plain_mix, paint_frames

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

MIX = ((0.5, 1.0, 0.25, 127.5), (1.0, -2.0, 0.0, 3.0), (0.0, 0.0, 4.0, 77.0))


def planes(shape: tuple[int, ...] = (3, 5, 7)) -> list[np.ndarray]:
    """Whole numbers, so that every sum is exact and halves are really halves."""
    rng = np.random.default_rng(1)
    return [rng.integers(-150, 300, shape).astype(np.float32) for _ in range(3)]


def expected(given: list[np.ndarray], mix: Any) -> np.ndarray:
    weights = np.array(mix)
    mixed = np.stack(given, axis=-1).astype(np.float64) @ weights[:, :3].T + weights[:, 3]
    return np.clip(np.rint(mixed), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("mix", [MIX, make_plain_mix(127.5), make_plain_mix(0.0)])
@pytest.mark.parametrize("where", ["cpu", "cpu:0", "cuda"])
def test_planes_are_mixed_rounded_and_clipped(mix: Any, where: str) -> None:
    if where == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    token = devices._DEVICE_NAME.set(where)
    try:
        for shape in [(3, 5, 7), (1, 1, 1), (2, 9, 2050)]:
            given = planes(shape)
            before = [plane.copy() for plane in given]
            turned = [devices.send_array(p.swapaxes(0, 1).copy()).swapaxes(0, 1) for p in given]
            for sent in ([devices.send_array(plane) for plane in given], turned):
                assert np.array_equal(
                    devices.fetch_array(paint_frames(sent, mix)), expected(given, mix)
                )
            assert all(np.array_equal(a, b) for a, b in zip(given, before, strict=True))
    finally:
        devices._DEVICE_NAME.reset(token)


KERNEL = """
import contextlib, sys, torch
sys.path.insert(0, "tests/compute")
from masquerade.vision import transforms_kernel as frames_kernel
from test_gpu_frames import MIX, expected, planes
torch.cuda.device = lambda device: contextlib.nullcontext()
for shape in ((3, 5, 7), (1, 1, 1), (1, 2, 1030)):
    given = planes(shape)
    tensors = [torch.from_numpy(plane) for plane in given]
    tensors[1] = tensors[1].transpose(0, 1).contiguous().transpose(0, 1)
    found = frames_kernel.paint_frames(tensors, torch.tensor(MIX, dtype=torch.float32))
    print((found.numpy() == expected(given, MIX)).all())
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_the_kernel_paints_the_same_in_tritons_interpreter() -> None:
    run = subprocess.run(
        [sys.executable, "-c", KERNEL],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == ["True"] * 3
