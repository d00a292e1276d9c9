"""What a network makes of the picture of a whole body, so that clothes and build can be compared.

The network has seen ImageNet and nobody in particular; whoever wants to recognise people trains on
top of it. Rows have unit length, so that a product is a cosine.

The colours of a whole body from head to foot, an eye that needs no training.

Histograms of hue and of brightness in stripes [farenzena2010]. Rows have unit length, so that a
product is a likeness: 1 for the same colours at the same heights, 0 for none in common.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module
from masquerade.io import downloads

if TYPE_CHECKING:
    from masquerade.vision import convolutional
else:
    convolutional = lazy_module("masquerade.vision.convolutional", extra="train")

cv2 = lazy_module("cv2", extra="vision")

_NUM_HUES, _NUM_SHADES = 12, 8

_GREY_BODY_COLOURS = 32  # of 255: less colourful pixels have no hue to speak of


@dataclass(frozen=True, kw_only=True)
class ColourLayout:
    """Colours of a body in stripes from head to foot.

    Args:
        stripes: how many.
    """

    stripes: int = 6

    def __post_init__(self) -> None:
        _check.count(stripes=self.stripes)

    def embed(
        self, frame: np.ndarray, boxes: np.ndarray, masks: np.ndarray | None = None
    ) -> np.ndarray:
        """(N, stripes * 20) float32, unit length.

        Args:
            frame: (H, W, 3) uint8.
            boxes: (N, 4) or more columns: left, top, right, bottom of whole bodies, in pixels.
            masks: (N, H, W) how much each pixel counts for each person, 0 to 1; None: all alike.
        """
        rows = []
        check_masks(frame, boxes, masks)
        for number, place in enumerate(list_box_slices(frame, boxes)):
            weights = np.ones(frame[place].shape[:2]) if masks is None else masks[number][place]
            rows.append(self._compute_layout_row(frame[place], weights))
        return np.array(rows, np.float32).reshape(-1, self.stripes * (_NUM_HUES + _NUM_SHADES))

    def _compute_layout_row(self, picture: np.ndarray, weights: np.ndarray) -> np.ndarray:
        hue, colour, shade = np.moveaxis(cv2.cvtColor(picture, cv2.COLOR_RGB2HSV), 2, 0)
        stripe = np.arange(len(picture))[:, None] * self.stripes // len(picture)
        is_grey = colour < _GREY_BODY_COLOURS
        hues = stripe * _NUM_HUES + hue.astype(int) * _NUM_HUES // 180
        shades = stripe * _NUM_SHADES + shade.astype(int) * _NUM_SHADES // 256
        counts = [
            np.bincount(bins.ravel(), how.ravel(), minlength=self.stripes * size)
            for bins, how, size in (
                (hues, np.where(is_grey, 0.0, weights), _NUM_HUES),
                (shades, weights, _NUM_SHADES),
            )
        ]
        roots = np.sqrt(np.concatenate(counts))  # products are then Bhattacharyya's
        return np.asarray(roots / max(float(np.linalg.norm(roots)), 1e-12))


def list_box_slices(frame: np.ndarray, boxes: np.ndarray) -> list[tuple[slice, slice]]:
    """Which rows and columns of the frame each box covers, at least one of each."""
    _check.shape("H W 3", frame=frame)
    if frame.dtype != np.uint8 or not frame.size:
        raise ValueError(f"Expected frame as uint8 pixels, got {frame.shape} {frame.dtype}.")
    if boxes.ndim != 2 or boxes.shape[1] < 4 or not np.all(np.isfinite(boxes)):
        raise ValueError(f"Expected boxes as finite numbers (N, 4), got {boxes.tolist()}.")
    height, width = frame.shape[:2]
    found = []
    for left, top, right, bottom in boxes[:, :4]:
        if left >= min(right, width) or top >= min(bottom, height) or right <= 0 or bottom <= 0:
            raise ValueError(
                f"Expected boxes that show something of a frame of {height} x {width}, got "
                f"{[left, top, right, bottom]}; leave out those that lie outside."
            )
        rows = slice(max(int(top), 0), min(int(np.ceil(bottom)), height))
        columns = slice(max(int(left), 0), min(int(np.ceil(right)), width))
        found.append((rows, columns))
    return found


def check_masks(frame: np.ndarray, boxes: np.ndarray, masks: np.ndarray | None) -> None:
    """Refuse masks that do not belong to the boxes and the frame."""
    wanted = (len(boxes), *frame.shape[:2])
    if masks is not None and masks.shape != wanted:
        raise ValueError(f"Expected masks as (N, H, W) = {wanted}, got {masks.shape}.")


_SIZE_PX = 224  # of a picture that a network is given
_GREY_BODY_FEATURES = 128  # what a mask leaves out


class FeatureNetwork(Protocol):
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

    network: FeatureNetwork | None = None
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
        pictures = crop_bodies(frame, boxes, masks)
        if not len(pictures):
            blank = np.zeros((1, _SIZE_PX, _SIZE_PX, 3), np.uint8)
            return self._feature_network.embed(blank)[:0]
        found = self._feature_network.embed(pictures)
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True).clip(1e-12))

    @cached_property
    def _feature_network(self) -> FeatureNetwork:
        return self.network or _LiteFeatures(
            self.weights or downloads.fetch_asset("efficientnet_lite0")
        )


class _LiteFeatures:
    """EfficientNet-Lite0, which gives 1280 numbers."""

    def __init__(self, path: Path) -> None:
        self._net = convolutional.load_efficientnet_lite(path)

    def embed(self, frames: np.ndarray, /) -> np.ndarray:
        return convolutional.embed_images(frames, net=self._net)


def crop_bodies(
    frame: np.ndarray, boxes: np.ndarray, masks: np.ndarray | None = None
) -> np.ndarray:
    """(N, 224, 224, 3) uint8: each body, stretched; what a mask leaves out is grey."""
    check_masks(frame, boxes, masks)
    pictures = []
    for number, place in enumerate(list_box_slices(frame, boxes)):
        picture = frame[place]
        if masks is not None:
            share = masks[number][place][..., None]
            picture = (share * picture + (1 - share) * _GREY_BODY_FEATURES).round().astype(np.uint8)
        is_larger = picture.shape[0] * picture.shape[1] > _SIZE_PX**2
        how = cv2.INTER_AREA if is_larger else cv2.INTER_LINEAR
        pictures.append(cv2.resize(picture, (_SIZE_PX,) * 2, interpolation=how))
    return np.array(pictures, np.uint8).reshape(-1, _SIZE_PX, _SIZE_PX, 3)
