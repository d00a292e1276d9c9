"""The public part alone: the lambda term of MaskDP, no private pixel read; to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from masquerade.training.masked import Masked


@dataclass(frozen=True, kw_only=True)
class PublicPart(Masked):
    """Learn from public pixels only, without noise.

    Guarantee:
        none: nothing private is read, so nothing is promised beyond what is public already.
    """

    HAS_PRIVATE: ClassVar[bool] = False
