"""A toy network that tells places apart, and through which gradients pass."""

from __future__ import annotations

from typing import Any

import pytest

from masquerade.vision.backbones import FeatureBackbone
from tools.place_teachers import Teacher

torch = pytest.importorskip("torch")


class Looks(torch.nn.Module):
    """Means of a few filters, squared."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 12, 5, stride=2)

    def forward(self, values: Any) -> Any:
        seen = torch.nn.functional.adaptive_avg_pool2d(self.conv(values).square(), 3)
        return seen.flatten(1)


def make_teacher() -> Teacher:
    backbone = FeatureBackbone(
        name="toy", make=Looks, read=lambda path: {}, published="", size_px=40
    )
    return Teacher(backbone=backbone, net=Looks().eval().requires_grad_(False))
