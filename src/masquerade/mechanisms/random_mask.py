"""Random mask: a random share of each frame replaced by mid-grey, or with noise on it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from masquerade import _check
from masquerade.mechanism import Frames, Shape, as_video
from masquerade.mechanisms.given_masks import InsideMasks
from masquerade.noise import Noise
from masquerade.noise.source import rough_gaussian

_GREY = 128
_LEAST = 0.01


class Redraw(StrEnum):
    """When a new mask is drawn."""

    FRAME = "frame"
    VIDEO = "video"


class Fill(StrEnum):
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
        _check.at_least(_LEAST, "Below, the video would come out as it went in.", share=self.share)
        _check.count(block=self.block)
        _check.at_most(65535, block=self.block)
        _check.choice(Redraw, redraw=self.redraw)
        _check.choice(Fill, fill=self.fill)
        _check.positive(sigma=self.sigma)
        _check.at_most(255.0, sigma=self.sigma)

    @property
    def hides(self) -> str:
        """The covered blocks."""
        where = "each frame" if self.redraw == Redraw.FRAME else "the picture, the same throughout"
        return f"a random share of {self.share:g} of {where}"

    def changed(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The frames with their masks on."""
        _, height, width, _ = as_video(shape)
        mask = self._mask(height, width, noise)
        for number, frame in enumerate(frames):
            if number and self.redraw == Redraw.FRAME:
                mask = self._mask(height, width, noise)
            masked = np.array(frame, order="C")
            np.putmask(masked, mask, self._filling(frame, noise))
            yield masked

    def _filling(self, frame: np.ndarray, noise: Noise) -> np.ndarray | int:
        if self.fill == Fill.GREY:
            return _GREY
        noisy = frame + self.sigma * rough_gaussian(frame.shape, noise)
        return np.asarray(np.clip(np.rint(noisy), 0, 255), np.uint8)

    def _mask(self, height: int, width: int, noise: Noise) -> np.ndarray:
        """Which numbers are covered, (H, W * 3) bool; the three of a pixel together."""
        down, right = np.arange(height) // self.block, np.arange(width) // self.block
        covered = noise.uniform((int(down[-1]) + 1, int(right[-1]) + 1)) < self.share
        return np.take(np.take(covered, np.repeat(right, 3), axis=1), down, axis=0)
