"""The one equation: a public mean and a private sum with noise become one gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from masquerade._optional import require
from masquerade.noise import Noise
from masquerade.train.plan import Plan

torch = require("torch", extra="train")
Tensors: TypeAlias = dict[str, Any]
Projection: TypeAlias = Callable[[Tensors], Tensors]


def noisy(
    cells: Tensors, plan: Plan, noise: Noise, *, project: Projection | None = None
) -> Tensors:
    """(1/b) Proj[sum + N(0, (z C)^2)] as float32.

    Args:
        cells: the sum of clipped contributions, in cells of the plan's grid.
        plan: how much noise, and b.
        noise: where it comes from.
        project: what is done to the noisy sum; after the noise anything is allowed.
    """
    found = {}
    for name, held in cells.items():
        total = held
        if plan.noise_multiplier > 0:
            drawn = noise.gaussian(plan.sigma, tuple(held.shape), grid=plan.grid) / plan.grid
            total = held + torch.from_numpy(np.asarray(np.rint(drawn), np.int64)).to(held.device)
        found[name] = (total.double() * (plan.grid / plan.sampler.expected)).float()
    return found if project is None else project(found)


def combined(private: Tensors | None, public: Tensors | None, *, weight: float) -> Tensors:
    """lambda times the public part plus the private part; either may be missing."""
    if private is None and public is None:
        raise ValueError("Expected a private or a public part, got neither.")
    if public is None:
        return dict(private or {})
    if private is None:
        return {name: weight * gradient for name, gradient in public.items()}
    return {name: weight * public[name] + gradient for name, gradient in private.items()}
