"""DP-SGD: every unit's gradient is clipped, and the sum of a secret batch gets noise."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade.training.method import Method


@dataclass(frozen=True, kw_only=True)
class DpSgd(Method):
    """Learn from whole recordings with clipped, noised gradients of Poisson batches.

    Guarantee:
        unit: one recording, or one person with up to ``recordings`` of theirs.
        relation: zero_out (the unit's gradient is absent); the others are printed beside it.
        bound: norm C after clipping [abadi2016, Alg. 1]; Poisson-sampled Gaussians, by PLD.
        numerics: clipped below C, summed on a grid, exact Gaussian, ChaCha20.
    """
