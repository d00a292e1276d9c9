"""Extremely low resolution, with the random movement of inverse super resolution."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade.mechanism import Frames, Heuristic, Shape, Value, arrays_of, as_video
from masquerade.mechanisms.mosaic import flat_cells
from masquerade.noise import Noise


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
        source = self._movement(height, width, noise)
        tops, lefts = _starts(height, self.rows), _starts(width, self.columns)
        for frame in frames:
            moved = np.take(frame.reshape(-1, 3), source, axis=0)  # (H, W, 3)
            yield flat_cells(moved, tops, lefts)

    def _movement(self, height: int, width: int, noise: Noise) -> np.ndarray:
        """For each pixel which pixel of the input it shows, (H, W), from one random draw."""
        turn, size, right, down = (2 * noise.uniform(4) - 1).tolist()
        angle, size = math.radians(self.rotation * turn), 1 + self.scale * size
        along, across = math.cos(angle) / size, math.sin(angle) / size
        middle_x, middle_y = (width - 1) / 2, (height - 1) / 2
        x = np.arange(width) - middle_x - self.shift * right * width / self.columns
        y = np.arange(height)[:, None] - middle_y - self.shift * down * height / self.rows
        from_x = np.rint(along * x + across * y + middle_x).clip(0, width - 1)
        from_y = np.rint(along * y - across * x + middle_y).clip(0, height - 1)
        return np.asarray(from_y * width + from_x).astype(np.intp)


def _starts(size: int, cells: int) -> np.ndarray:
    """Where each of ``cells`` near-equal cells begins; never more cells than pixels."""
    cells = min(cells, size)
    return np.arange(cells) * size // cells
