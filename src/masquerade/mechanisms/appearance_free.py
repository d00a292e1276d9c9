"""Appearance-free video: noise that moves as the picture moves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from masquerade import _check
from masquerade.mechanism import Frames, Heuristic, Shape, as_video
from masquerade.mechanisms.carried import carried, steps_of
from masquerade.noise import Noise
from masquerade.vision.flow import FlowPreset, OpticalFlow


@dataclass(frozen=True, kw_only=True)
class AppearanceFree(Heuristic):
    """Show noise that is carried along by the motion of the video.

    The first frame is random; each further one takes its pixels from the frame before, along the
    optical flow, as in the baseline "appearance free" of [nken2025, Sec. 4.2]. Pixels move by
    whole steps and never into two places; what is uncovered or comes in over the border is drawn
    anew. So every single frame is uniform noise, independent of the input, and its texture never
    fades. Flows are rounded with an offset that changes from frame to frame, so that motion by a
    part of a pixel is right on average over time.

    Guarantee:
        none: the frames together show the motion: outlines of what moves, gait, gestures and the
            activity can be read from it, and people are recognised by their gait.

    Args:
        preset: how carefully the optical flow is estimated: medium, or fast (three to six times
            faster, with rougher outlines, and small things move too little).
    """

    preset: str = "medium"

    def __post_init__(self) -> None:
        _check.choice(FlowPreset, preset=self.preset)

    @property
    def hides(self) -> str:
        """All but motion."""
        return "how things and people look, and everything that stands still"

    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """Noise frames with the motion of ``frames``."""
        _, height, width, _ = as_video(shape)
        flow = OpticalFlow(preset=self.preset)
        image, before = _grains(height * width, noise).reshape(height, width, 3), None
        for number, frame in enumerate(frames):
            if before is not None:
                back = flow.back(frame, before)  # frame(x) = before(x + back)
                image = carried(image, steps_of(back, number), partial(_grains, noise=noise))
            before = frame
            yield image


def _grains(count: int, noise: Noise) -> np.ndarray:
    """``count`` random colours, (count, 3) uint8; a secret word is eight uniform bytes."""
    octets = noise.words(-(-3 * count // 8)).view(np.uint8)
    return np.array(octets[: 3 * count]).reshape(count, 3)
