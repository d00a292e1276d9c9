"""Sums over blocks of a video: whole numbers, so exact, and quick."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from masquerade.compute import device
from masquerade.compute.device import Array
from masquerade.release.prior import Size


def grid(size: Sequence[int], steps: Size) -> Size:
    """Blocks along time, height and width; those at the far ends may be short."""
    t, h, w = (math.ceil(n / step) for n, step in zip(size[:3], steps, strict=True))
    return t, h, w


@lru_cache(maxsize=16)
def inside(size: Size, steps: Size, times: int = 1) -> np.ndarray:
    """How many sites of each block lie inside the video, (t, h, w, 1), times a number."""
    t, h, w = (
        np.minimum(step, extent - step * np.arange(math.ceil(extent / step)))
        for extent, step in zip(size, steps, strict=True)
    )
    return np.asarray((t[:, None, None] * h[:, None] * w)[..., None] * times)


def sums(frames: Array, steps: Size, *, most: int = 255) -> Array:
    """Sums over blocks of (T, H, W, 3), in whole numbers; short ones at the far ends.

    Args:
        frames: numbers from 0 to ``most``.
        steps: sides of a block along time, height and width.
        most: the largest of the numbers.
    """
    total = frames
    for axis, step in enumerate(steps):
        reach = min(step, total.shape[axis])
        if reach == 1:
            continue
        most *= reach
        total = _summed(total, axis, step, reach, _kind(most))
    return total


def gathered(frames: list[Array], steps: Size) -> Array:
    """The same of uint8 frames (H, W, 3) that came one by one."""
    if not device.is_cpu():
        return sums(device.gather(frames), steps)
    small = np.stack([sums(frame[None], (1, *steps[1:]))[0] for frame in frames])
    return sums(small, (steps[0], 1, 1), most=255 * steps[1] * steps[2])


def _summed(wide: Array, axis: int, step: int, reach: int, kind: type[np.integer]) -> Array:
    """Along one axis; ``reach`` is the longest block."""
    if not isinstance(wide, np.ndarray):
        return device.block_sums(wide, axis, step, kind)
    before = (slice(None),) * axis
    total = device.cast(wide[(*before, slice(0, None, step))], kind)
    if total.dtype == wide.dtype:
        total = total + 0  # a view otherwise
    for offset in range(1, reach):
        part = wide[(*before, slice(offset, None, step))]
        total[(*before, slice(part.shape[axis]))] += part
    return total


def _kind(most: int) -> type[np.integer]:
    """The narrowest numbers that hold sums up to ``most``: they are the quick ones."""
    narrow = np.int16 if most < 1 << 15 else np.int32
    return narrow if most < 1 << 31 else np.int64
