"""Mosaic: blocks of pixels replaced by their mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade.mechanism import Frames, Shape, as_video
from masquerade.mechanisms.given_masks import InsideMasks
from masquerade.noise import Noise

_WIDEST = 65535  # pixels: no frame is wider


@dataclass(frozen=True, kw_only=True)
class Mosaic(InsideMasks):
    """Replace every block of pixels by its mean.

    Blocks start at the top left; those cut off by the right and lower border are averaged over the
    pixels that they have. The default block is that of [ma2026].

    Guarantee:
        none: the means are exact, without noise; networks trained on mosaics recognise faces in
            them, and a moving camera or person shows the same detail on many grids.

    Args:
        block: width and height of a block, in pixels; at least 2.
    """

    block: int = 12

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.count(block=self.block)
        _check.at_least(2, "Below, the video would come out as it went in.", block=self.block)
        _check.at_most(_WIDEST, block=self.block)

    @property
    def hides(self) -> str:
        """What is smaller than a block."""
        return f"detail inside blocks of {self.block} x {self.block} pixels"

    def changed(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The frames in blocks."""
        _, height, width, _ = as_video(shape)
        tops, lefts = np.arange(0, height, self.block), np.arange(0, width, self.block)
        for frame in frames:
            yield flat_cells(frame, tops, lefts)


def flat_cells(frame: np.ndarray, tops: np.ndarray, lefts: np.ndarray) -> np.ndarray:
    """A new frame in which every cell has its mean, halves rounded up.

    Args:
        frame: (H, W, 3) uint8.
        tops: the first row of each row of cells; rising from 0.
        lefts: the first column of each column of cells; rising from 0.

    Example:
        >>> frame = np.array([[[0, 0, 8], [1, 0, 8], [9, 9, 9]]], dtype=np.uint8)
        >>> flat_cells(frame, np.array([0]), np.array([0, 2])).tolist()
        [[[1, 0, 8], [1, 0, 8], [9, 9, 9]]]
    """
    height, width, channels = frame.shape
    tall, wide = np.diff(tops, append=height), np.diff(lefts, append=width)
    strips = np.empty((len(tops), width, channels), np.uint32)
    for strip, top, rows in zip(strips, tops, tall, strict=True):
        np.sum(frame[top : top + rows], axis=0, dtype=np.uint32, out=strip)
    sums = np.add.reduceat(strips, lefts, axis=1, dtype=np.int64)  # (rows, columns, 3)
    count = np.multiply.outer(tall, wide)[..., None]
    means = ((2 * sums + count) // (2 * count)).astype(np.uint8)
    return np.repeat(np.repeat(means, wide, axis=1), tall, axis=0)
