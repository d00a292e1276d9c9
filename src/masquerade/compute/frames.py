"""Planes of colour to 8-bit frames: the last step of a release, in one pass on a GPU."""

from __future__ import annotations

from functools import lru_cache
from types import ModuleType
from typing import TypeAlias

import numpy as np

from masquerade.compute import device
from masquerade.compute.device import Array

Mix: TypeAlias = tuple[tuple[float, float, float, float], ...]


def plain(middle: float) -> Mix:
    """The mix of planes that are red, green and blue already, about a middle."""
    return (1.0, 0.0, 0.0, middle), (0.0, 1.0, 0.0, middle), (0.0, 0.0, 1.0, middle)


def painted(planes: list[Array], mix: Mix) -> Array:
    """Frames (T, H, W, 3) in 8 bits, rounded and clipped, of three planes (T, H, W) in float32.

    Args:
        planes: that are mixed.
        mix: for red, green and blue the weight of each plane, not all zero, and what is added.

    Example:
        >>> grey = [np.full((1, 1, 1), value, np.float32) for value in (-300, 0, 0.6)]
        >>> painted(grey, plain(127.0)).tolist()
        [[[[0, 127, 128]]]]
    """
    if not device.is_cpu() and planes[0].is_cuda and _kernels().is_usable():
        made: Array = _kernels().painted(planes, device.constant(_weights(mix)))
        return made
    return device.to_bytes(mixed(planes, mix))


def mixed(planes: list[Array], mix: Mix) -> Array:
    """The same before it is rounded and clipped: (T, H, W, 3) in float32."""
    return device.stack([_channel(planes, row) for row in mix])


def _channel(planes: list[Array], row: tuple[float, ...]) -> Array:
    total: Array = row[3]
    for plane, weight in zip(planes, row, strict=False):
        if weight:
            total = total + (plane if weight == 1 else plane * weight)
    return total


@lru_cache(maxsize=16)
def _weights(mix: Mix) -> np.ndarray:
    return np.array(mix, np.float32)


def _kernels() -> ModuleType:
    from masquerade.compute import frames_kernel  # importing Triton takes a second

    return frames_kernel
