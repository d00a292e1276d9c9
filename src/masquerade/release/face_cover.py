"""Paint over faces: an ellipse of blur, black or tiles.

A wide blur is a narrow one of a small picture: the face's surroundings are shrunk until the given
kernel is as wide as the face, blurred, and enlarged again. That takes little time whatever the
face's size, and what shrinking drops cannot come back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from masquerade._optional import Later

cv2 = Later("cv2", extra="vision")

_TILES = 4  # at most so many tiles of a scaled mosaic lie across a face


class CoverStyle(StrEnum):
    """What a face is replaced with."""

    BLUR = "blur"
    SOLID = "solid"
    MOSAIC = "mosaic"


class Strength(StrEnum):
    """Whether the kernel grows with the face or is as a paper gives it."""

    SCALED = "scaled"
    PAPER = "paper"


@dataclass(frozen=True, kw_only=True)
class Cover:
    """How faces are painted over.

    Args:
        style: with what.
        strength: whether the kernel grows with the face.
        kernel: width of the blur's kernel or of a tile, in pixels.
        sigma: standard deviation of the blur, in pixels.
        margin: what the ellipse's box has more than the face's on each side, in face sizes.
    """

    style: CoverStyle
    strength: Strength
    kernel: int
    sigma: float
    margin: float

    def over(self, frame: np.ndarray, boxes: np.ndarray) -> np.ndarray:
        """A copy of ``frame`` with the faces in ``boxes`` (N, 4) covered."""
        painted = frame.copy()
        for box in boxes:
            size = box[2:] - box[:2]
            columns, rows = (
                _span(box[axis], box[axis + 2], size[axis] * self.margin, end=frame.shape[1 - axis])
                for axis in (0, 1)
            )
            part = painted[rows, columns]
            if part.size:
                radius = size * (0.5 + self.margin)
                inside = _ellipse(rows, columns, centre=(box[:2] + box[2:]) / 2, radius=radius)
                part[inside] = self._hidden(part, face=float(max(size)))[inside]
        return painted

    def _hidden(self, part: np.ndarray, *, face: float) -> np.ndarray:
        """What stands in the place of ``part``, which holds a face of that many pixels."""
        if self.style is CoverStyle.SOLID:
            return np.zeros_like(part)
        is_scaled = self.strength is Strength.SCALED
        if self.style is CoverStyle.MOSAIC:
            tile = max(self.kernel, face / _TILES) if is_scaled else self.kernel
            return _enlarged(_shrunk(part, tile), part.shape, cv2.INTER_NEAREST)
        small = _shrunk(part, max(1.0, face / self.kernel) if is_scaled else 1.0)
        width = (self.kernel, self.kernel)
        blurred = cv2.GaussianBlur(small, width, self.sigma, borderType=cv2.BORDER_REPLICATE)
        return _enlarged(blurred, part.shape, cv2.INTER_LINEAR)


def _span(low: float, high: float, margin: float, *, end: int) -> slice:
    """The pixels from ``low`` to ``high`` and a margin around, inside the frame."""
    return slice(
        min(end, max(0, math.floor(low - margin))), max(0, min(end, math.ceil(high + margin)))
    )


def _ellipse(rows: slice, columns: slice, *, centre: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Which pixels of the part lie in the ellipse, by their centres."""
    across, down = (
        (np.arange(span.start, span.stop) + 0.5 - middle) / max(length, 0.5)
        for span, middle, length in zip((columns, rows), centre, radius, strict=True)
    )
    return np.asarray(across[None, :] ** 2 + down[:, None] ** 2 <= 1.0)


def _shrunk(part: np.ndarray, factor: float) -> np.ndarray:
    tall, wide = (max(1, round(side / factor)) for side in part.shape[:2])
    return (
        part
        if factor == 1
        else np.asarray(cv2.resize(part, (wide, tall), interpolation=cv2.INTER_AREA))
    )


def _enlarged(small: np.ndarray, shape: tuple[int, ...], interpolation: int) -> np.ndarray:
    return np.asarray(cv2.resize(small, shape[1::-1], interpolation=interpolation))
