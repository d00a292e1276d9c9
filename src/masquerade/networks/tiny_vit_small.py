"""TinyViT in five blocks, with a head for joints: learns on two cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from masquerade.networks.pose_network import PoseNetwork


@dataclass(frozen=True, kw_only=True)
class TinyVitSmall(PoseNetwork):
    """TinyViT in five blocks, with a head for joints: learns on two cores."""

    HAS_WEIGHTS: ClassVar[bool] = True
