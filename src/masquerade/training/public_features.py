"""Public pictures alone: the lambda term of feature_dp, no private pixel read; to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from masquerade.training.featured import Featured


@dataclass(frozen=True, kw_only=True)
class PublicFeatures(Featured):
    """Learn from psi of every picture only, without noise.

    Guarantee:
        none: only psi of private pictures is read, so nothing is promised beyond what is public.
    """

    HAS_PRIVATE: ClassVar[bool] = False
