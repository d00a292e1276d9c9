"""Projected DP-SGD: the noisy sum moves weights only as public records would."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade.training.projecting import Projecting


@dataclass(frozen=True, kw_only=True)
class Projected(Projecting):
    """DP-SGD in a subspace that public records span [sivangi2025, Sec. 3.3].

    Guarantee:
        unit: one recording, or one person with up to ``recordings`` of theirs.
        relation: zero_out (the unit's gradient is absent); the others are printed beside it.
        bound: norm C after clipping, of k numbers or of all; Poisson-sampled Gaussians, by PLD.
            The subspace looks at public records and published weights alone.
        numerics: clipped below C, summed on a grid, exact Gaussian, ChaCha20.
    """
