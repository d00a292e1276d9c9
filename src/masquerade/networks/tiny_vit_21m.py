"""TinyViT of 21 million weights, as published, with a head for joints."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade.networks.pose_network import PoseNetwork


@dataclass(frozen=True, kw_only=True)
class TinyVit21M(PoseNetwork):
    """TinyViT of 21 million weights, as published, with a head for joints."""
