"""The colours of a whole body from head to foot, an eye that needs no training.

Histograms of hue and of brightness in stripes [farenzena2010]. Rows have unit length, so that a
product is a likeness: 1 for the same colours at the same heights, 0 for none in common.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade._optional import Later

cv2 = Later("cv2", extra="vision")

_NUM_HUES, _NUM_SHADES = 12, 8
_GREY = 32  # of 255: less colourful pixels have no hue to speak of


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
        for number, place in enumerate(places(frame, boxes)):
            weights = np.ones(frame[place].shape[:2]) if masks is None else masks[number][place]
            rows.append(self._row(frame[place], weights))
        return np.array(rows, np.float32).reshape(-1, self.stripes * (_NUM_HUES + _NUM_SHADES))

    def _row(self, picture: np.ndarray, weights: np.ndarray) -> np.ndarray:
        hue, colour, shade = np.moveaxis(cv2.cvtColor(picture, cv2.COLOR_RGB2HSV), 2, 0)
        stripe = np.arange(len(picture))[:, None] * self.stripes // len(picture)
        is_grey = colour < _GREY
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


def places(frame: np.ndarray, boxes: np.ndarray) -> list[tuple[slice, slice]]:
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
