"""Small convolutional networks over time, pictures or films, for two cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from masquerade._torch import Tensor, nn, torch

_CONV: dict[int, Callable[..., nn.Module]] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_NEAR = 2  # cells around the hottest one that decide where a joint is
_HILL = 1.0  # cells; how wide a joint's hill is
_TOGETHER = 8  # channels that are normalised as one group


def classifier(
    *, axes: int, channels: int, classes: int, widths: Sequence[int] = (16, 32, 64, 128)
) -> nn.Sequential:
    """A stack of convolutions that halves every axis at each step, then a mean, then classes.

    Groups of channels are normalised within a record, never over records, so that the same
    network can be trained privately.

    Args:
        axes: 1 for signals (N, C, T), 2 for pictures (N, C, H, W), 3 for films (N, C, T, H, W).
        channels: of the input.
        classes: numbers that come out.
        widths: channels after each step; a film keeps its frames at the first two.
    """
    layers: list[nn.Module] = []
    for step, width in enumerate(widths):
        stride = (1, 2, 2) if axes == 3 and step < 2 else 2
        layers += [*block(axes, channels, width, stride), *block(axes, width, width, 1)]
        channels = width
    return nn.Sequential(*layers, _Mean(), nn.Dropout(0.2), nn.Linear(channels, classes))


def block(axes: int, channels: int, width: int, stride: int | tuple[int, ...]) -> list[nn.Module]:
    """A convolution of three cells along each axis, normalised within a record, and bent."""
    convolution = _CONV[axes](channels, width, 3, stride=stride, padding=1, bias=False)
    return [convolution, nn.GroupNorm(max(1, width // _TOGETHER), width), nn.ReLU(inplace=True)]


class _Mean(nn.Module):
    """The mean over all axes but record and channel."""

    def forward(self, values: Tensor) -> Tensor:
        """(N, C, ...) to (N, C)."""
        return values.flatten(2).mean(dim=2)


class PoseNet(nn.Module):
    """Joints of the person in a picture: a small hourglass that gives a heat map for each.

    Args:
        joints: how many.
        widths: channels on the way down; the maps have half the picture's size.
    """

    def __init__(self, joints: int, *, widths: Sequence[int] = (24, 48, 96, 128)) -> None:
        super().__init__()
        sizes = [3, *widths]
        self.down = nn.ModuleList(
            nn.Sequential(*block(2, a, b, 2), *block(2, b, b, 1))
            for a, b in zip(sizes, widths, strict=False)
        )
        steps = list(zip(widths[::-1], widths[-2::-1], strict=False))
        self.up = nn.ModuleList(nn.Sequential(*block(2, a + b, b, 1)) for a, b in steps)
        self.out = nn.Conv2d(widths[0], joints, 1)

    def forward(self, pictures: Tensor) -> Tensor:
        """Pictures (N, 3, H, W) to heat maps (N, J, H/2, W/2)."""
        kept = []
        for step in self.down:
            pictures = step(pictures)
            kept.append(pictures)
        for step, beside in zip(self.up, kept[-2::-1], strict=True):
            larger = nn.functional.interpolate(pictures, size=beside.shape[2:], mode="nearest")
            pictures = step(torch.cat([larger, beside], dim=1))
        maps: Tensor = self.out(pictures)
        return maps


def joints_of(maps: Tensor) -> Tensor:
    """Where heat maps (N, J, H, W) are hottest: x and y from 0 to 1, (N, J, 2).

    The hottest cell and its neighbours are averaged by their heat, so a second hot place far away
    does not pull the joint towards the middle.
    """
    height, width = maps.shape[2:]
    flat = maps.flatten(2)
    best = flat.argmax(dim=2, keepdim=True)
    rows = torch.arange(height, device=maps.device).repeat_interleave(width)
    columns = torch.arange(width, device=maps.device).repeat(height)
    near = (rows - best // width).abs().le(_NEAR) & (columns - best % width).abs().le(_NEAR)
    share = flat.masked_fill(~near, -torch.inf).softmax(dim=2)
    x, y = ((share * (at + 0.5)).sum(dim=2) for at in (columns, rows))
    return torch.stack([x / width, y / height], dim=2)


def heat_loss(maps: Tensor, joints: Tensor) -> Tensor:
    """How far heat maps are from a small hill at each joint that lies inside the picture.

    Args:
        maps: (N, J, H, W).
        joints: (N, J, 2), x and y from 0 to 1.
    """
    height, width = maps.shape[2:]
    y = (torch.arange(height, device=maps.device) + 0.5)[:, None]
    x = torch.arange(width, device=maps.device) + 0.5
    across, down = (joints[..., k, None, None] * size for k, size in ((0, width), (1, height)))
    hill = -((x - across).square() + (y - down).square()) / (2 * _HILL**2)
    inside = ((joints >= 0) & (joints <= 1)).all(dim=2)
    wanted = hill.flatten(2).softmax(dim=2)
    each = -(wanted * maps.flatten(2).log_softmax(dim=2)).sum(dim=2)
    return each[inside].mean()
