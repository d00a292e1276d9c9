"""Plain filters without a proof: blur, mosaic, random mask, extremely low resolution.

Extremely low resolution, with the random movement of inverse super resolution.

Gaussian blur of frames, whole or inside given masks.

Mosaic: blocks of pixels replaced by their mean.

Random mask: a random share of each frame replaced by mid-grey, or with noise on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module
from masquerade.mechanism import Frames, Heuristic, Shape, Value, arrays_of, as_video
from masquerade.mechanisms.given_masks import InsideMasks
from masquerade.noise import Noise
from masquerade.noise.source import sample_rough_gaussian

cv2 = lazy_module("cv2", extra="vision")


_WIDEST_BLUR = 4095  # pixels: more than a frame of a film is wide
_MIN_SIGMA = 0.5
_NO_CHANGE_REMARK = "Below, the video would come out as it went in."


@dataclass(frozen=True, kw_only=True)
class Blur(InsideMasks):
    """Blur every frame with a Gaussian.

    The defaults are those that [nken2025, Sec. 4.2] gives the boxes of faces; there the Gaussian is
    cut off at one sigma, so that the kernel is nearly a box. Borders are mirrored. With a sigma of
    a million it is the plain average, as in [ma2026], whose kernels are 5, 11, 21 and 31.

    Guarantee:
        none: a blur is a known linear filter without noise; sharpening undoes much of it, and
            networks recognise faces in blurred frames after training on such.

    Args:
        kernel: width and height of the filter, in pixels; odd, 3 to 4095.
        sigma: standard deviation of the Gaussian, in pixels; at least 0.5.
    """

    kernel: int = 21
    sigma: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.count(kernel=self.kernel)
        _check.at_least(3, _NO_CHANGE_REMARK, kernel=self.kernel)
        _check.at_most(_WIDEST_BLUR, kernel=self.kernel)
        if self.kernel % 2 == 0:
            raise ValueError(
                f"Expected kernel to be odd, so that it has a middle, got kernel={self.kernel}; "
                f"use {self.kernel - 1} or {self.kernel + 1}."
            )
        _check.positive(sigma=self.sigma)
        _check.at_least(_MIN_SIGMA, _NO_CHANGE_REMARK, sigma=self.sigma)
        _check.at_most(1e6, sigma=self.sigma)

    @property
    def hides(self) -> str:
        """Fine detail."""
        return f"detail finer than about {self.kernel} pixels, such as faces and writing"

    def compute_kernel(self) -> np.ndarray:
        """The filter along one axis, (kernel,) float64; it sums to 1.

        Example:
            >>> Blur(kernel=3, sigma=1.0).compute_kernel().round(3).tolist()
            [0.274, 0.452, 0.274]
        """
        away = np.arange(self.kernel) - self.kernel // 2
        bell = np.exp(-0.5 * np.square(away / self.sigma))
        return np.asarray(bell / bell.sum())

    def change_frames(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The blurred frames."""
        line = self.compute_kernel().astype(np.float32)
        for frame in frames:
            # Right to half a level; cv2.GaussianBlur rounds its weights and is off by up to four.
            yield cv2.sepFilter2D(np.ascontiguousarray(frame), cv2.CV_8U, line, line)


_WIDEST_MOSAIC = 65535  # pixels: no frame is wider


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
        _check.at_most(_WIDEST_MOSAIC, block=self.block)

    @property
    def hides(self) -> str:
        """What is smaller than a block."""
        return f"detail inside blocks of {self.block} x {self.block} pixels"

    def change_frames(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
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


_GREY_LEVEL = 128
_MIN_SHARE = 0.01


class RedrawRule(StrEnum):
    """When a new mask is drawn."""

    FRAME = "frame"
    VIDEO = "video"


class MaskFill(StrEnum):
    """What a mask does to what it covers."""

    GREY = "grey"
    NOISE = "noise"


@dataclass(frozen=True, kw_only=True)
class RandomMask(InsideMasks):
    """Cover blocks chosen at random with mid-grey, or put noise on them.

    Each block is covered with the same probability, on its own. As in the baseline of [ma2026,
    Tab. 3] half is covered and the mask is fresh in every frame; there noise is put on what the
    mask covers, here grey hides it by default, so that nothing below it shows through.

    Guarantee:
        none: what is not covered is the input itself; with a fresh mask in every frame, whatever
            stands still is seen in full after a few frames, and neighbours tell of small holes.

    Args:
        share: the probability with which a block is covered; at least 0.01.
        block: width and height of a block, in pixels.
        redraw: when a new mask is drawn: frame (every frame) or video (one for all frames).
        fill: grey, or noise (Gaussian and fresh in every frame, on the picture).
        sigma: of the noise, in shades of 255.
    """

    share: float = 0.5
    block: int = 8
    redraw: str = "frame"
    fill: str = "grey"
    sigma: float = 16.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.probability(share=self.share)
        _check.at_least(
            _MIN_SHARE, "Below, the video would come out as it went in.", share=self.share
        )
        _check.count(block=self.block)
        _check.at_most(65535, block=self.block)
        _check.parse_choice(RedrawRule, redraw=self.redraw)
        _check.parse_choice(MaskFill, fill=self.fill)
        _check.positive(sigma=self.sigma)
        _check.at_most(255.0, sigma=self.sigma)

    @property
    def hides(self) -> str:
        """The covered blocks."""
        where = (
            "each frame" if self.redraw == RedrawRule.FRAME else "the picture, the same throughout"
        )
        return f"a random share of {self.share:g} of {where}"

    def change_frames(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The frames with their masks on."""
        _, height, width, _ = as_video(shape)
        mask = self._sample_block_mask(height, width, noise)
        for number, frame in enumerate(frames):
            if number and self.redraw == RedrawRule.FRAME:
                mask = self._sample_block_mask(height, width, noise)
            masked = np.array(frame, order="C")
            np.putmask(masked, mask, self._sample_filling(frame, noise))
            yield masked

    def _sample_filling(self, frame: np.ndarray, noise: Noise) -> np.ndarray | int:
        if self.fill == MaskFill.GREY:
            return _GREY_LEVEL
        noisy = frame + self.sigma * sample_rough_gaussian(frame.shape, noise)
        return np.asarray(np.clip(np.rint(noisy), 0, 255), np.uint8)

    def _sample_block_mask(self, height: int, width: int, noise: Noise) -> np.ndarray:
        """Which numbers are covered, (H, W * 3) bool; the three of a pixel together."""
        down, right = np.arange(height) // self.block, np.arange(width) // self.block
        covered = noise.sample_uniform((int(down[-1]) + 1, int(right[-1]) + 1)) < self.share
        return np.take(np.take(covered, np.repeat(right, 3), axis=1), down, axis=0)


@dataclass(frozen=True, kw_only=True)
class LowResolution(Heuristic):
    """Move the picture a little at random, average it down to a few cells, blow it up again.

    The baseline ISR of [nken2025, Sec. 4.2], with 32 x 24 and 16 x 12 cells; the paper does not
    say how far it shifts, scales and rotates, so the ranges here are ours. The movement is drawn
    once for the whole video. The paper averages first; here the movement comes first, as in super
    resolution, where a shift by a part of a cell changes what each cell sees. Past the border the
    last pixel is repeated. Back at full size the cells stay flat squares: interpolation would add
    no detail and would make it hard to see how little is left. A frame with fewer pixels than
    cells is only moved.

    Guarantee:
        none: the cells are exact means, without noise; many frames, or several releases of one
            video, can be merged into a sharper picture (super resolution).

    Args:
        columns: how many cells lie side by side.
        rows: how many cells lie one above the other.
        shift: the furthest shift along each axis, in cells.
        scale: the largest change in size, as a share: 0.1 is 0.9 to 1.1 times.
        rotation: the largest turn to either side, in degrees.
    """

    columns: int = 32
    rows: int = 24
    shift: float = 1.0
    scale: float = 0.1
    rotation: float = 5.0

    def __post_init__(self) -> None:
        _check.count(columns=self.columns, rows=self.rows)
        _check.at_most(65535, columns=self.columns, rows=self.rows)
        _check.not_negative(shift=self.shift, scale=self.scale, rotation=self.rotation)
        if self.shift > min(self.columns, self.rows):
            raise ValueError(
                f"Expected shift to be at most the {min(self.columns, self.rows)} cells of the "
                f"shorter side, got shift={self.shift}; beyond, nothing of the picture is left."
            )
        if self.scale >= 1:
            raise ValueError(
                f"Expected scale to be below 1, a share of the size, got scale={self.scale}."
            )
        if self.rotation > 180:
            raise ValueError(
                f"Expected rotation to be at most 180 degrees, got rotation={self.rotation}."
            )

    def check(self, value: Value) -> None:
        """Also refuse a frame of which every pixel would come out as it went in."""
        super().check(value)
        for array in arrays_of(value):
            has_cells = self.rows < array.shape[1] or self.columns < array.shape[2]
            if not has_cells and self.shift == self.scale == self.rotation == 0:
                raise ValueError(
                    f"Expected fewer cells than pixels, got {self.columns} x {self.rows} cells for "
                    f"{array.shape[2]} x {array.shape[1]} pixels; the video would come out as it "
                    "went in."
                )

    @property
    def hides(self) -> str:
        """What a cell averages away."""
        return f"all but {self.columns} x {self.rows} cells of each frame"

    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The frames, all moved alike, in flat cells."""
        _, height, width, _ = as_video(shape)
        source = self._sample_shift_map(height, width, noise)
        tops, lefts = (
            _compute_cell_starts(height, self.rows),
            _compute_cell_starts(width, self.columns),
        )
        for frame in frames:
            moved = np.take(frame.reshape(-1, 3), source, axis=0)  # (H, W, 3)
            yield flat_cells(moved, tops, lefts)

    def _sample_shift_map(self, height: int, width: int, noise: Noise) -> np.ndarray:
        """For each pixel which pixel of the input it shows, (H, W), from one random draw."""
        turn, size, right, down = (2 * noise.sample_uniform(4) - 1).tolist()
        angle, size = math.radians(self.rotation * turn), 1 + self.scale * size
        along, across = math.cos(angle) / size, math.sin(angle) / size
        middle_x, middle_y = (width - 1) / 2, (height - 1) / 2
        x = np.arange(width) - middle_x - self.shift * right * width / self.columns
        y = np.arange(height)[:, None] - middle_y - self.shift * down * height / self.rows
        from_x = np.rint(along * x + across * y + middle_x).clip(0, width - 1)
        from_y = np.rint(along * y - across * x + middle_y).clip(0, height - 1)
        return np.asarray(from_y * width + from_x).astype(np.intp)


def _compute_cell_starts(size: int, cells: int) -> np.ndarray:
    """Where each of ``cells`` near-equal cells begins; never more cells than pixels."""
    cells = min(cells, size)
    return np.arange(cells) * size // cells
