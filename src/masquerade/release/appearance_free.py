"""Appearance-free video: noise that moves as the picture moves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade.mechanism import Frames, Heuristic, Shape, as_video
from masquerade.noise import Noise
from masquerade.sight.flow import FlowPreset, OpticalFlow

_GOLDEN = np.array([0.7548776662466927, 0.5698402909980532])  # 1/p and 1/p^2 with p^3 = p + 1


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
                offset = ((0.5 + number * _GOLDEN) % 1).astype(np.float32) % 1  # never 1
                image = _carried(image, back + offset, noise)
            before = frame
            yield image


def _carried(image: np.ndarray, back: np.ndarray, noise: Noise) -> np.ndarray:
    """The next noise frame: pixel x shows what was at x + floor(back), or something new.

    Which pixel goes where depends on ``back`` alone, and no pixel goes to two places: if
    ``image`` is uniform noise given the video, so is the result.
    """
    height, width, _ = back.shape
    count = height * width
    step_x, step_y = (np.floor(back[..., axis]).astype(np.int32) for axis in (0, 1))
    x, y = step_x + _range(width), step_y + _range(height)[:, None]
    outside = (x < 0) | (x >= width) | (y < 0) | (y >= height)
    source = np.multiply(y, width, dtype=np.intp) + x
    source[outside] = count  # nobody's place
    source = source.ravel()
    taker = np.empty(count + 1, np.int32)
    taker[source] = _range(count)  # of several that want a pixel, one gets it
    is_new = (np.take(taker, source) != _range(count)) | outside.ravel()
    carried: np.ndarray = np.take(image.reshape(-1, 3), source, axis=0, mode="clip")
    carried[is_new] = _grains(int(np.count_nonzero(is_new)), noise)
    return carried.reshape(height, width, 3)


def _range(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int32)


def _grains(count: int, noise: Noise) -> np.ndarray:
    """``count`` random colours, (count, 3) uint8; a secret word is eight uniform bytes."""
    octets = noise.words(-(-3 * count // 8)).view(np.uint8)
    return np.array(octets[: 3 * count]).reshape(count, 3)


EXAMPLE = AppearanceFree()
