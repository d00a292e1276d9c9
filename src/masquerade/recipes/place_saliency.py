"""Where public networks look when they tell places apart, and a small network that learns it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from masquerade._torch import Tensor, nn, torch
from masquerade.networks.place_networks import PlaceSensitivity
from masquerade.recipes.place_teachers import Galleries, Teacher, as_pictures, margins
from masquerade.recipes.place_worlds import Progress

SMALL = (64, 107)  # what the mechanism makes of 192 x 320
_CELL_PX = 12  # of the frame, over which gradients are gathered
_JITTER = 6.0  # shades: gradients are means over frames that differ by this much
_SAMPLES = 2
_TINY = 1e-9
_functional = nn.functional


def where_looked(
    teacher: Teacher, frames: np.ndarray, gallery: Tensor, own: np.ndarray
) -> np.ndarray:
    """(N, h, w) float32: how much a network's choice of place hangs on each part of the frame.

    The gradient of the margin by which the own place is ahead, its size gathered over cells, as a
    logarithm; each map has mean 0 and spread 1.

    Args:
        teacher: the network.
        frames: (N, H, W, 3) uint8.
        gallery: (M, D) its features of one picture a place.
        own: (N,) the place of each frame.
    """
    found = []
    for start in range(0, len(frames), 32):
        part = as_pictures(frames[start : start + 32], teacher.where)
        places = torch.from_numpy(own[start : start + 32]).to(teacher.where)
        power = torch.zeros_like(part[:, :1])
        for sample in range(_SAMPLES):
            maker = torch.Generator().manual_seed(start + sample)
            given = part + _JITTER * torch.normal(0.0, 1.0, size=part.shape, generator=maker).to(
                part.device
            )
            given.requires_grad_(True)
            total = margins(teacher.features(given), gallery, places).sum()
            (slope,) = torch.autograd.grad(total, given)
            power += slope.square().sum(dim=1, keepdim=True)
        found.append(_standard(_gathered(power)).cpu().numpy())
    return np.concatenate(found)[:, 0]


def _gathered(power: Tensor) -> Tensor:
    near = _functional.avg_pool2d(power, _CELL_PX + 1, stride=1, padding=_CELL_PX // 2)
    small = _functional.interpolate(near, size=SMALL, mode="area")
    return torch.log(small / (small.mean(dim=(1, 2, 3), keepdim=True) + _TINY) + 1e-3)


def _standard(maps: Tensor) -> Tensor:
    """Maps (N, 1, h, w) of mean 0 and spread 1 each."""
    middle, spread = maps.mean(dim=(2, 3), keepdim=True), maps.std(dim=(2, 3), keepdim=True)
    return (maps - middle) / (spread + _TINY)


def agreement(one: np.ndarray, other: np.ndarray) -> float:
    """The mean correlation of maps (N, h, w) with others, frame by frame."""
    pairs = zip(one.reshape(len(one), -1), other.reshape(len(other), -1), strict=True)
    return float(np.mean([np.corrcoef(*pair)[0, 1] for pair in pairs]))


@dataclass(frozen=True, kw_only=True)
class SaliencyCourse:
    """How the small network learns.

    Args:
        steps: of Adam.
        batch: frames in one.
        rate: of learning, at first.
    """

    steps: int = 1_500
    batch: int = 32
    rate: float = 3e-3


def sensitivity(
    frames: np.ndarray,
    maps: np.ndarray,
    course: SaliencyCourse,
    *,
    where: str,
    progress: Progress = lambda done, total: None,
) -> PlaceSensitivity:
    """The network that gives maps (N, h, w) for frames (N, H, W, 3) uint8."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    net = PlaceSensitivity().to(where)
    small = shrunk(frames).to(where)
    wanted = torch.from_numpy(maps)[:, None].to(where)
    optimiser = torch.optim.Adam(net.parameters(), lr=course.rate)
    for step in range(course.steps):
        for group in optimiser.param_groups:
            group["lr"] = course.rate * 0.5 * (1 + math.cos(math.pi * step / course.steps))
        chosen = torch.from_numpy(rng.integers(len(frames), size=course.batch)).to(where)
        given, target = small[chosen], wanted[chosen]
        if rng.random() < 0.5:
            given, target = given.flip(3), target.flip(3)
        loss = (_standard(net(given)) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        progress(step + 1, course.steps)
    return net.cpu().eval()


def shrunk(frames: np.ndarray) -> Tensor:
    """Pictures (N, 3, h, w) from -1 to 1 as the network takes them."""
    parts = [
        _functional.interpolate(as_pictures(frames[start : start + 64], "cpu"), SMALL, mode="area")
        for start in range(0, len(frames), 64)
    ]
    return torch.cat(parts) / 127.5 - 1


def predicted(net: PlaceSensitivity, frames: np.ndarray) -> np.ndarray:
    """(N, h, w): the network's maps."""
    with torch.inference_mode():
        found: np.ndarray = net(shrunk(frames))[:, 0].numpy()
    return found


def taught(
    teachers: Mapping[str, Teacher], galleries: Galleries, frames: np.ndarray, own: np.ndarray
) -> dict[str, np.ndarray]:
    """Where each of several networks looks."""
    return {
        name: where_looked(teacher, frames, galleries[name], own)
        for name, teacher in teachers.items()
    }
