"""The pictures of a recording that an attacker matches: which frames, averaged and cleaned how."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from masquerade import _check
from masquerade._optional import require
from masquerade.attack.case import Recording
from masquerade.errors import BadInput
from masquerade.recordings import Photo, Video
from masquerade.sight.flow import OpticalFlow, warped

cv2 = require("cv2", extra="vision")

Rule: TypeAlias = Literal["middle", "spread"]
Motion: TypeAlias = Literal["flow", "still"]

_SPREAD = 4  # frames
_SMOOTH_PX = 2.0  # sigma of the blur before flow is estimated, so that noise does not lead it
_SHARPEST = 3  # pixels a side below which nothing is cleaned
_LAPLACE = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float32)
_LEAST_NOISE = 1.0  # levels below which nothing is cleaned
_STRENGTH = 0.35  # of non-local means, in spreads of the noise


@dataclass(frozen=True, kw_only=True)
class Looking:
    """How pictures are made of what was published.

    Args:
        rule: the frame in the middle, or four spread over the recording.
        frames: how many around each are averaged.
        motion: whether they are moved onto it along the optical flow first, or taken as they are,
            as from a camera that stands still.
        denoise: whether noise is taken out afterwards, by non-local means.
    """

    rule: Rule = "middle"
    frames: int = 1
    motion: Motion = "flow"
    denoise: bool = False

    def pictures(self, recording: Recording) -> np.ndarray:
        """(P, H, W, 3) uint8.

        Raises:
            BadInput: if the recording is not one of pictures.
        """
        shown = shown_frames(recording)
        found = []
        for place in chosen_frames(len(shown), self.rule):
            picture = averaged(shown, place, count=self.frames, motion=self.motion)
            found.append(denoised(picture) if self.denoise else picture)
        return np.stack(found)


def shown_frames(recording: Recording) -> np.ndarray:
    """(T, H, W, 3) uint8 of a video or photo."""
    match recording:
        case Video():
            return recording.frames
        case Photo():
            return recording.image[None]
    raise BadInput("Expected videos or photos to find places in, got signals; choose others.")


def chosen_frames(count: int, rule: Rule) -> list[int]:
    """Which of ``count`` frames are looked at.

    Example:
        >>> chosen_frames(16, "middle"), chosen_frames(16, "spread"), chosen_frames(2, "spread")
        ([8], [2, 6, 10, 14], [0, 1])
    """
    _check.count(count=count)
    if rule == "middle":
        return [count // 2]
    number = min(_SPREAD, count)
    return [int((place + 0.5) * count / number) for place in range(number)]


def averaged(frames: np.ndarray, place: int, *, count: int, motion: Motion) -> np.ndarray:
    """The mean of ``count`` frames around ``place``, (H, W, 3) uint8, as that frame shows things.

    Independent noise shrinks by the root of ``count``. What moves otherwise than the flow says
    is smeared.
    """
    first = max(0, min(place - count // 2, len(frames) - count))
    around = range(first, min(first + count, len(frames)))
    now = frames[place]
    if len(around) < 2:
        return np.asarray(now)
    total = np.zeros(now.shape, np.float32)
    for other in around:
        total += frames[other] if other == place else _moved(frames[other], now, motion)
    return np.asarray(np.rint(total / len(around)), np.uint8)


def _moved(other: np.ndarray, now: np.ndarray, motion: Motion) -> np.ndarray:
    if motion == "still":
        return other
    smooth = (cv2.GaussianBlur(each, (0, 0), _SMOOTH_PX) for each in (now, other))
    return warped(other, OpticalFlow().back(*smooth))


def noise_level(picture: np.ndarray) -> float:
    """The spread of independent noise in a picture, in levels, from what no smooth picture has.

    The mean absolute value after a filter that is blind to planes, over that of unit noise.
    """
    if min(picture.shape[:2]) < _SHARPEST:
        return 0.0
    grey = picture.astype(np.float32).mean(axis=2)
    rough = cv2.filter2D(grey, -1, _LAPLACE)[1:-1, 1:-1]
    # Unit noise has spread 6 behind the filter, and sqrt(3) less in a mean of three colours.
    return float(math.sqrt(3) * math.sqrt(math.pi / 2) * np.abs(rough).mean() / 6)


def denoised(picture: np.ndarray) -> np.ndarray:
    """The picture with its noise taken out by non-local means, as much as there seems to be."""
    level = noise_level(picture)
    if level < _LEAST_NOISE:
        return picture
    strength = _STRENGTH * level
    cleaned = cv2.fastNlMeansDenoisingColored(
        np.ascontiguousarray(picture), None, strength, strength, 7, 21
    )
    return np.asarray(cleaned)
