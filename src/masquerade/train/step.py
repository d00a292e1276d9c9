"""The one equation: a public mean and a private sum with noise become one gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from masquerade._torch import Tensor, torch
from masquerade.noise import Noise
from masquerade.train.plan import Plan

Tensors: TypeAlias = dict[str, Tensor]
Projection: TypeAlias = Callable[[Tensors], Tensors]


def noisy(
    cells: Tensors,
    plan: Plan,
    noise: Noise,
    *,
    among: int | None = None,
    project: Projection | None = None,
) -> Tensors:
    """(1/b) Proj[sum + N(0, (z C)^2)] as float32.

    Args:
        cells: the sum of clipped contributions, in cells of the plan's grid.
        plan: how much noise.
        noise: where it comes from.
        among: b; the expected size of a batch if None. The size of a secret batch is secret too.
        project: what is done to the noisy sum; after the noise anything is allowed.
    """
    if not cells:
        raise ValueError("Expected sums to add noise to, got none.")
    total = torch.cat([held.reshape(-1) for held in cells.values()])
    if plan.noise_multiplier > 0:
        total += _drawn(plan, noise, total)
    flat = (total.double() * (plan.grid / (among or plan.sampler.expected))).float()
    parts = flat.split([held.numel() for held in cells.values()])
    found = {
        name: part.reshape(held.shape)
        for (name, held), part in zip(cells.items(), parts, strict=True)
    }
    return found if project is None else project(found)


def _drawn(plan: Plan, noise: Noise, like: Tensor) -> Tensor:
    """Noise for all weights at once, in cells, where they lie: the same numbers on any device."""
    if like.device.type == "cuda":
        return noise.gaussian_on(str(like.device), plan.sigma, len(like), grid=plan.grid)
    drawn = noise.gaussian(plan.sigma, len(like), grid=plan.grid) / plan.grid
    return torch.from_numpy(np.rint(drawn).astype(np.int64))


def combined(private: Tensors | None, public: Tensors | None, *, weight: float) -> Tensors:
    """lambda times the public part plus the private part; either may be missing."""
    if private is None and public is None:
        raise ValueError("Expected a private or a public part, got neither.")
    if public is None:
        return dict(private or {})
    if private is None:
        return {name: weight * gradient for name, gradient in public.items()}
    return {name: weight * public[name] + gradient for name, gradient in private.items()}
