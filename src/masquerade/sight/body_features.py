"""What a network makes of the picture of a whole body, so that clothes and build can be compared.

The network has seen ImageNet and nobody in particular; whoever wants to recognise people trains on
top of it. Rows have unit length, so that a product is a cosine.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np

from masquerade import assets
from masquerade._optional import require
from masquerade.sight import efficientnet_lite
from masquerade.sight.body_colours import places

cv2 = require("cv2", extra="vision")

_SIZE_PX = 224  # of a picture that the network takes


@dataclass(frozen=True, kw_only=True)
class BodyFeatures:
    """Features of a network that has seen ImageNet, EfficientNet-Lite0.

    Args:
        weights: its file; None for the listed asset.
    """

    weights: Path | None = None

    def __getstate__(self) -> dict[str, object]:
        """The fields alone: another process loads the network itself."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def embed(
        self, frame: np.ndarray, boxes: np.ndarray, masks: np.ndarray | None = None
    ) -> np.ndarray:
        """(N, 1280) float32, unit length; arguments as for ``ColourLayout``."""
        pictures = crops(frame, boxes, masks)
        if not len(pictures):
            return np.zeros((0, efficientnet_lite.NUM_FEATURES), np.float32)
        found = efficientnet_lite.embed(pictures, net=self._net)
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True).clip(1e-12))

    @cached_property
    def _net(self) -> efficientnet_lite.Network:
        path = assets.fetch("efficientnet_lite0") if self.weights is None else self.weights
        return efficientnet_lite.load(path)


def crops(frame: np.ndarray, boxes: np.ndarray, masks: np.ndarray | None = None) -> np.ndarray:
    """(N, 224, 224, 3) uint8: each body, stretched; what a mask leaves out is grey."""
    pictures = []
    for number, place in enumerate(places(frame, boxes)):
        picture = frame[place]
        if masks is not None:
            share = masks[number][place][..., None]
            picture = (share * picture + (1 - share) * 128).round().astype(np.uint8)
        is_smaller = picture.shape[0] * picture.shape[1] > _SIZE_PX**2
        how = cv2.INTER_AREA if is_smaller else cv2.INTER_LINEAR
        pictures.append(cv2.resize(picture, (_SIZE_PX,) * 2, interpolation=how))
    return np.array(pictures, np.uint8).reshape(-1, _SIZE_PX, _SIZE_PX, 3)
