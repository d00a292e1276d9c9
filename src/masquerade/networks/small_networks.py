"""Small networks of our own for two cores: convolutions over time or pictures, and a U-Net.

A small U-Net from pictures to pictures, and how it redraws the frames of a film.

Down three times by two and up again, with what was seen on the way down laid beside. It has no
fixed size: a picture is continued at its edges until its sides can be halved three times. Groups
of channels are normalised within a picture, so frames do not touch each other. It begins as a
network that hardly changes anything: each pixel is mixed from what was there and what is painted
over it, and at first nearly all of it is what was there.

Small convolutional networks over time, pictures or films, for two cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from masquerade._torch import Tensor, nn, torch
from masquerade.errors import BadInput
from masquerade.io import atomic, devices
from masquerade.networks import weight_files

_CONV: dict[int, Callable[..., nn.Module]] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_HEAT_REACH_CELLS = 2  # cells around the hottest one that decide where a joint is
_HILL_WIDTH_CELLS = 1.0  # cells; how wide a joint's hill is
_CHANNELS_PER_GROUP = 8  # channels that are normalised as one group


def make_classifier(
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
        layers += [
            *make_conv_block(axes, channels, width, stride),
            *make_conv_block(axes, width, width, 1),
        ]
        channels = width
    return nn.Sequential(*layers, _GlobalMean(), nn.Dropout(0.2), nn.Linear(channels, classes))


def make_conv_block(
    axes: int, channels: int, width: int, stride: int | tuple[int, ...]
) -> list[nn.Module]:
    """A convolution of three cells along each axis, normalised within a record, and bent."""
    convolution = _CONV[axes](channels, width, 3, stride=stride, padding=1, bias=False)
    return [
        convolution,
        nn.GroupNorm(max(1, width // _CHANNELS_PER_GROUP), width),
        nn.ReLU(inplace=True),
    ]


class _GlobalMean(nn.Module):
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
            nn.Sequential(*make_conv_block(2, a, b, 2), *make_conv_block(2, b, b, 1))
            for a, b in zip(sizes, widths, strict=False)
        )
        steps = list(zip(widths[::-1], widths[-2::-1], strict=False))
        self.up = nn.ModuleList(nn.Sequential(*make_conv_block(2, a + b, b, 1)) for a, b in steps)
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


def find_hottest_joints(maps: Tensor) -> Tensor:
    """Where heat maps (N, J, H, W) are hottest: x and y from 0 to 1, (N, J, 2).

    The hottest cell and its neighbours are averaged by their heat, so a second hot place far away
    does not pull the joint towards the middle.
    """
    height, width = maps.shape[2:]
    flat = maps.flatten(2)
    best = flat.argmax(dim=2, keepdim=True)
    rows = torch.arange(height, device=maps.device).repeat_interleave(width)
    columns = torch.arange(width, device=maps.device).repeat(height)
    near = (rows - best // width).abs().le(_HEAT_REACH_CELLS) & (columns - best % width).abs().le(
        _HEAT_REACH_CELLS
    )
    share = flat.masked_fill(~near, -torch.inf).softmax(dim=2)
    x, y = ((share * (at + 0.5)).sum(dim=2) for at in (columns, rows))
    return torch.stack([x / width, y / height], dim=2)


def compute_heat_loss(maps: Tensor, joints: Tensor) -> Tensor:
    """How far heat maps are from a small hill at each joint that lies inside the picture.

    Args:
        maps: (N, J, H, W).
        joints: (N, J, 2), x and y from 0 to 1.
    """
    height, width = maps.shape[2:]
    y = (torch.arange(height, device=maps.device) + 0.5)[:, None]
    x = torch.arange(width, device=maps.device) + 0.5
    across, down = (joints[..., k, None, None] * size for k, size in ((0, width), (1, height)))
    hill = -((x - across).square() + (y - down).square()) / (2 * _HILL_WIDTH_CELLS**2)
    inside = ((joints >= 0) & (joints <= 1)).all(dim=2)
    wanted = hill.flatten(2).softmax(dim=2)
    each = -(wanted * maps.flatten(2).log_softmax(dim=2)).sum(dim=2)
    return each[inside].mean()


_WEIGHTS = Path(__file__).parent / "weights"
_WIDTHS = (24, 48, 96)
_FIRST_KEEP_LOGIT = 2.0  # log odds of what was there in a pixel, at first: 88 %
_functional = nn.functional


class UNet(nn.Module):
    """Redraws pictures.

    Args:
        name: what its weights are called.
        widths: channels on the way down; each step halves both sides.
    """

    def __init__(self, name: str = "unet", *, widths: Sequence[int] = _WIDTHS) -> None:
        super().__init__()
        self.name = name
        sizes = [3, *widths]
        self.step_px = 2 ** len(widths)
        self.down = nn.ModuleList(
            nn.Sequential(*make_conv_block(2, a, b, 2), *make_conv_block(2, b, b, 1))
            for a, b in zip(sizes, widths, strict=False)
        )
        steps = list(zip(widths[::-1], widths[-2::-1], strict=False))
        self.up = nn.ModuleList(nn.Sequential(*make_conv_block(2, a + b, b, 1)) for a, b in steps)
        self.out = nn.Conv2d(widths[0], 16, 3, padding=1)  # three colours and a share of 4 pixels
        nn.init.zeros_(self.out.weight)
        with torch.no_grad():
            self.out.bias.copy_(torch.tensor([0.0] * 12 + [_FIRST_KEEP_LOGIT] * 4))  # type: ignore[union-attr]

    def forward(self, pictures: Tensor) -> Tensor:
        """Pictures (N, 3, H, W) from -1 to 1 to others of the same size and range."""
        height, width = pictures.shape[2:]
        pictures = self._pad_pictures(pictures)
        seen, kept = pictures, []
        for step in self.down:
            seen = step(seen)
            kept.append(seen)
        for step, beside in zip(self.up, kept[-2::-1], strict=True):
            larger = _functional.interpolate(seen, scale_factor=2.0, mode="nearest")
            seen = step(torch.cat([larger, beside], dim=1))
        out = _functional.pixel_shuffle(self.out(seen), 2)  # (N, 4, H, W)
        painted, share = out[:, :3].tanh(), out[:, 3:].sigmoid()
        drawn = share * pictures + (1 - share) * painted
        return drawn[..., :height, :width]

    def _pad_pictures(self, pictures: Tensor) -> Tensor:
        """Pictures whose sides can be halved as often as is needed."""
        below, right = (-side % self.step_px for side in pictures.shape[2:])
        return _functional.pad(pictures, (0, right, 0, below), mode="replicate")


def load_pretrained_unet(name: str) -> UNet:
    """The U-Net with weights that come with this package, on the chosen device.

    Raises:
        BadInput: if there are none.
    """
    path = _WEIGHTS / f"{name}.safetensors"
    if not path.is_file():
        raise BadInput(
            f"Expected the weights of {name} in this package, got none; make them with "
            f"python tools/anonymise.py --task {name} --out {path}."
        )
    net = UNet(name)
    weight_files.load_weights(net, path, keep_head=True)
    return net.to(devices.device_name()).eval()


def save_unet(net: UNet, path: Path) -> None:
    """Write the weights in half precision, all or nothing, with the network's name."""
    halves = {
        key: value.detach().half().cpu().contiguous() for key, value in net.state_dict().items()
    }
    atomic.write_whole(path, weight_files.files.save(halves, metadata={"name": net.name}))


def redraw_frame(net: UNet, frame: np.ndarray, *, lines: int) -> np.ndarray:
    """One frame as the network draws it.

    Args:
        net: on any device.
        frame: (H, W, 3) uint8.
        lines: of the picture that the network sees, its shorter side; larger frames are made
            smaller by means, and the drawing is enlarged again.

    Returns:
        (H, W, 3) uint8.
    """
    where = next(net.parameters()).device
    picture = torch.tensor(np.ascontiguousarray(frame), device=where).permute(2, 0, 1)[None]
    size = (picture.shape[2], picture.shape[3])
    with torch.inference_mode():
        drawn = net(_shrink_picture(picture.float() / 127.5 - 1, lines))
        if tuple(drawn.shape[2:]) != size:
            drawn = _functional.interpolate(drawn, size=size, mode="bilinear", align_corners=False)
        levels = convert_to_levels(drawn[0])
    found: np.ndarray = levels.permute(1, 2, 0).contiguous().cpu().numpy()
    return found


def convert_to_levels(pictures: Tensor) -> Tensor:
    """Values from -1 to 1 as bytes."""
    return ((pictures + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)


def _shrink_picture(picture: Tensor, lines: int) -> Tensor:
    """A picture (1, 3, H, W) with at most that many pixels along its shorter side."""
    scale = lines / min(picture.shape[2:])
    if scale >= 1:
        return picture
    size = tuple(max(1, round(side * scale)) for side in picture.shape[2:])
    return _functional.interpolate(picture, size=size, mode="area")
