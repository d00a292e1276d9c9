"""Small convolutional networks over time, pictures or films, for two cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from masquerade._optional import require

torch = require("torch", extra="train")
nn = torch.nn
Module: Any = nn.Module
Tensor = Any  # torch.Tensor
Network = Any  # torch.nn.Module

_CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_TOGETHER = 8  # channels that are normalised as one group


def classifier(
    *, axes: int, channels: int, classes: int, widths: Sequence[int] = (16, 32, 64, 128)
) -> Network:
    """A stack of convolutions that halves every axis at each step, then a mean, then classes.

    Groups of channels are normalised within a record, never over records, so that the same
    network can be trained privately.

    Args:
        axes: 1 for signals (N, C, T), 2 for pictures (N, C, H, W), 3 for films (N, C, T, H, W).
        channels: of the input.
        classes: numbers that come out.
        widths: channels after each step; a film keeps its frames at the first two.
    """
    layers: list[Any] = []
    for step, width in enumerate(widths):
        stride = (1, 2, 2) if axes == 3 and step < 2 else 2
        layers += [*_block(axes, channels, width, stride), *_block(axes, width, width, 1)]
        channels = width
    return nn.Sequential(*layers, _Mean(), nn.Dropout(0.2), nn.Linear(channels, classes))


def _block(axes: int, channels: int, width: int, stride: Any) -> list[Any]:
    convolution = _CONV[axes](channels, width, 3, stride=stride, padding=1, bias=False)
    return [convolution, nn.GroupNorm(max(1, width // _TOGETHER), width), nn.ReLU(inplace=True)]


class _Mean(Module):  # type: ignore[misc]  # the checker does not see torch
    """The mean over all axes but record and channel."""

    def forward(self, values: Tensor) -> Tensor:
        """(N, C, ...) to (N, C)."""
        return values.flatten(2).mean(dim=2)


class PoseNet(Module):  # type: ignore[misc]  # the checker does not see torch
    """Joints of the person in a picture: a small hourglass whose heat maps give their mean place.

    Args:
        joints: how many.
        widths: channels on the way down; the maps have half the picture's size.
    """

    def __init__(self, joints: int, *, widths: Sequence[int] = (24, 48, 96, 128)) -> None:
        super().__init__()
        sizes = [3, *widths]
        self.down = nn.ModuleList(
            nn.Sequential(*_block(2, a, b, 2), *_block(2, b, b, 1))
            for a, b in zip(sizes, widths, strict=False)
        )
        steps = list(zip(widths[::-1], widths[-2::-1], strict=False))
        self.up = nn.ModuleList(nn.Sequential(*_block(2, a + b, b, 1)) for a, b in steps)
        self.out = nn.Conv2d(widths[0], joints, 1)

    def forward(self, pictures: Tensor) -> Tensor:
        """Pictures (N, 3, H, W) to joints (N, J, 2), x and y from 0 to 1 across the picture."""
        kept = []
        for step in self.down:
            pictures = step(pictures)
            kept.append(pictures)
        for step, beside in zip(self.up, kept[-2::-1], strict=True):
            larger = nn.functional.interpolate(pictures, size=beside.shape[2:], mode="nearest")
            pictures = step(torch.cat([larger, beside], dim=1))
        maps = self.out(pictures)
        height, width = maps.shape[2:]
        share = maps.flatten(2).softmax(dim=2).unflatten(2, (height, width))
        x = (torch.arange(width, device=maps.device) + 0.5) / width
        y = (torch.arange(height, device=maps.device) + 0.5) / height
        return torch.stack([(share.sum(2) * x).sum(2), (share.sum(3) * y).sum(2)], dim=2)
