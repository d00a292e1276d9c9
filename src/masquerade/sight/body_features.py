"""What a network makes of the picture of a whole body, so that clothes and build can be compared.

The network has seen ImageNet and nobody in particular; whoever wants to recognise people trains on
top of it. Rows have unit length, so that a product is a cosine.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from masquerade import assets
from masquerade._optional import Later
from masquerade.sight import efficientnet_lite
from masquerade.sight.body_colours import check_masks, places

cv2 = Later("cv2", extra="vision")

_SIZE_PX = 224  # of a picture that a network is given
_GREY = 128  # what a mask leaves out


class Onlooker(Protocol):
    """What turns pictures into features."""

    def embed(self, frames: np.ndarray, /) -> np.ndarray:
        """(N, D) float32 of (N, H, W, 3) uint8."""


@dataclass(frozen=True, kw_only=True)
class BodyFeatures:
    """Features of bodies.

    Args:
        network: which; EfficientNet-Lite0 if not given. ``PlaceFeatures`` is one for each of its
            networks, MobileNetV2 among them.
        weights: the file of EfficientNet-Lite0's; the listed asset if not given.
    """

    network: Onlooker | None = None
    weights: Path | None = None

    def __post_init__(self) -> None:
        if self.network is not None and self.weights is not None:
            raise ValueError(
                f"Expected weights={self.weights} with no other network, got "
                f"{type(self.network).__name__}; give that its own weights."
            )

    def __getstate__(self) -> dict[str, object]:
        """The fields alone: another process loads the network itself."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def embed(
        self, frame: np.ndarray, boxes: np.ndarray, masks: np.ndarray | None = None
    ) -> np.ndarray:
        """(N, D) float32, unit length; arguments as for ``ColourLayout``."""
        pictures = crops(frame, boxes, masks)
        if not len(pictures):
            blank = np.zeros((1, _SIZE_PX, _SIZE_PX, 3), np.uint8)
            return self._network.embed(blank)[:0]
        found = self._network.embed(pictures)
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True).clip(1e-12))

    @cached_property
    def _network(self) -> Onlooker:
        return self.network or _Lite(self.weights or assets.fetch("efficientnet_lite0"))


class _Lite:
    """EfficientNet-Lite0, which gives 1280 numbers."""

    def __init__(self, path: Path) -> None:
        self._net = efficientnet_lite.load(path)

    def embed(self, frames: np.ndarray, /) -> np.ndarray:
        return efficientnet_lite.embed(frames, net=self._net)


def crops(frame: np.ndarray, boxes: np.ndarray, masks: np.ndarray | None = None) -> np.ndarray:
    """(N, 224, 224, 3) uint8: each body, stretched; what a mask leaves out is grey."""
    check_masks(frame, boxes, masks)
    pictures = []
    for number, place in enumerate(places(frame, boxes)):
        picture = frame[place]
        if masks is not None:
            share = masks[number][place][..., None]
            picture = (share * picture + (1 - share) * _GREY).round().astype(np.uint8)
        is_larger = picture.shape[0] * picture.shape[1] > _SIZE_PX**2
        how = cv2.INTER_AREA if is_larger else cv2.INTER_LINEAR
        pictures.append(cv2.resize(picture, (_SIZE_PX,) * 2, interpolation=how))
    return np.array(pictures, np.uint8).reshape(-1, _SIZE_PX, _SIZE_PX, 3)
