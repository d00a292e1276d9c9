"""Public networks that tell places apart; where they look, and a small network that learns it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np

from masquerade._torch import Tensor, nn, torch
from masquerade.networks.place_networks import PlaceSensitivity
from masquerade.vision.backbones import FeatureBackbone
from masquerade.vision.place_features import PlaceFeatures, backbone_of
from tools.place_worlds import Progress

Where: TypeAlias = Literal["cpu", "cuda"]
_AT_ONCE = 64  # pictures
_NOBODY = -9.0  # below every cosine


@dataclass(frozen=True, kw_only=True, eq=False)
class Teacher:
    """A network and what it takes.

    Args:
        backbone: which.
        net: with its weights, on its device.
    """

    backbone: FeatureBackbone
    net: nn.Module

    @property
    def where(self) -> Where:
        """Its device."""
        return "cuda" if next(self.net.parameters()).is_cuda else "cpu"

    def features(self, pictures: Tensor) -> Tensor:
        """(N, D) of unit length, of pictures (N, 3, H, W) of 0 to 255; gradients pass through."""
        side = self.backbone.size_px
        down, right = (_resizing(length, side).to(pictures.device) for length in pictures.shape[2:])
        squares = (down @ pictures @ right.T).contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.where, dtype=torch.bfloat16, enabled=self.where == "cuda"):
            found = self.backbone.embed_pictures(squares, net=self.net)
        return nn.functional.normalize(found.float(), dim=1)

    def all_features(self, frames: np.ndarray) -> Tensor:
        """(N, D) of frames (N, H, W, 3) uint8, without gradients."""
        with torch.no_grad():
            parts = [
                self.features(as_pictures(frames[start : start + _AT_ONCE], self.where))
                for start in range(0, len(frames), _AT_ONCE)
            ]
        return torch.cat(parts)


@lru_cache(maxsize=32)
def _resizing(length: int, side: int) -> Tensor:
    """(side, length): what the stretching of pictures does along one axis.

    Two products are far quicker than the gradient of torch's own stretching.
    """
    lines = torch.eye(length)[None, None]  # each a line of one pixel
    return stretched_lines(lines, side)[0, 0]


def stretched_lines(lines: Tensor, side: int) -> Tensor:
    """(1, 1, side, K) of K lines, each a column (1, 1, length, K)."""
    size = (side, lines.shape[3])
    return nn.functional.interpolate(
        lines, size=size, mode="bilinear", align_corners=False, antialias=True
    )


def teachers(names: tuple[str, ...], where: Where) -> dict[str, Teacher]:
    """Networks with their published weights, which are fetched where they are not there yet."""
    found = {}
    for name in names:
        backbone = backbone_of(name)
        net = backbone.load_net(PlaceFeatures(backbone=name).path)
        found[name] = Teacher(backbone=backbone, net=net.to(where))
    return found


def as_pictures(frames: np.ndarray, where: Where) -> Tensor:
    """(N, 3, H, W) of 0 to 255 for frames (N, H, W, 3) uint8."""
    given = torch.from_numpy(np.ascontiguousarray(frames)).to(where)
    return given.permute(0, 3, 1, 2).float()


def margins(features: Tensor, gallery: Tensor, own: Tensor, *, warmth: float = 0.05) -> Tensor:
    """(N,): by how much each place's own picture is liker than the others of a gallery.

    Args:
        features: (N, D) of unit length.
        gallery: (M, D) of unit length, one picture a place.
        own: (N,) the place of each.
        warmth: how far below the likest others others still count.
    """
    cosines = features @ gallery.T
    right = cosines.gather(1, own[:, None])[:, 0]
    others = cosines.scatter(1, own[:, None], _NOBODY)
    return right - warmth * torch.logsumexp(others / warmth, dim=1)


Galleries: TypeAlias = Mapping[str, Tensor]


# --- where they look

_functional = nn.functional
SMALL = (64, 107)  # what the mechanism makes of 192 x 320
_CELL_PX = 12  # of the frame, over which gradients are gathered
_JITTER = 6.0  # shades: gradients are means over frames that differ by this much
_SAMPLES = 2
_TINY = 1e-9


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
