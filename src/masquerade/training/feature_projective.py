"""Feature-projective DP: public pictures teach, and the noisy part stays in a public subspace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from masquerade.training.featured import Featured
from masquerade.training.projecting import Projecting


@dataclass(frozen=True, kw_only=True)
class FeatureProjective(Featured, Projecting):
    """Both of feature_dp and projected [sivangi2025, Alg. 1].

    Guarantee:
        unit: one recording, or one person's, among all with the same psi and labels.
        relation: replace_one; zero_out (the private gradient is absent) is printed beside it.
        bound: norm C after clipping, of k numbers or of all; Poisson-sampled Gaussians by PLD, or
            revealed batches exactly. The subspace looks at public records and weights alone.
        numerics: clipped below C, summed on a grid, exact Gaussian, ChaCha20.
    """

    MARKS: ClassVar[tuple[str, ...]] = (*Featured.MARKS, *Projecting.MARKS)
