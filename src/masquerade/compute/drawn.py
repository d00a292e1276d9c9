"""Noise where arrays are: on the processor, or on the GPU that was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from masquerade._optional import Later
from masquerade.compute.device import Array, chosen, is_cpu
from masquerade.noise import Noise, grid_for

if TYPE_CHECKING:
    from masquerade._torch import torch
else:
    torch = Later("torch", extra="train")


def gaussian(
    noise: Noise, sigma: float, shape: int | tuple[int, ...], *, grid: float | None = None
) -> Array:
    """Noise of ``noise`` on the chosen device, float64; it is the same on all."""
    if is_cpu():
        return noise.gaussian(sigma, shape, grid=grid)
    step = grid_for(sigma) if grid is None else grid
    return noise.gaussian_on(chosen(), sigma, shape, grid=step).to(torch.float64) * step
