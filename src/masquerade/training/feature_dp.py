"""Feature DP: noise for the picture itself; its coarse public picture teaches without any."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade.training.featured import Featured


@dataclass(frozen=True, kw_only=True)
class FeatureDp(Featured):
    """Learn from psi of every picture without noise, and with it from the picture [sivangi2025].

    Guarantee:
        unit: one recording, or one person's, among all with the same psi and labels.
        relation: replace_one; zero_out (the private gradient is absent) is printed beside it.
        bound: norm C after clipping; Poisson-sampled Gaussians by PLD, or revealed batches exactly.
        numerics: clipped below C, summed on a grid, exact Gaussian, ChaCha20.
    """
