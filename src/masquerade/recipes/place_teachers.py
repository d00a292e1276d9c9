"""Public networks that tell places apart, and through which gradients pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np

from masquerade._torch import Tensor, nn, torch
from masquerade.vision.backbones import Backbone
from masquerade.vision.place_features import PlaceFeatures, backbone_of

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

    backbone: Backbone
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
            found = self.backbone.seen(squares, net=self.net)
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
        net = backbone.load(PlaceFeatures(backbone=name).path)
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
