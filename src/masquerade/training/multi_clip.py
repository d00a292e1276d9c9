"""MultiClip: gradients of several stretches of a video are averaged before they are clipped."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade.training.method import Method


@dataclass(frozen=True, kw_only=True)
class MultiClip(Method):
    """DP-SGD whose unit contributes the mean over several segments [luo2024].

    Guarantee:
        unit: one recording, or one person with up to ``recordings`` of theirs.
        relation: zero_out (the unit's gradient is absent); the others are printed beside it.
        bound: the mean of a unit's gradients is clipped to C; Poisson-sampled Gaussians, by PLD.
        numerics: clipped below C, summed on a grid, exact Gaussian, ChaCha20.
    """

    segments: int = 3
