"""People of whom the left or the right border leaves a strip, which no detector takes for anybody.

The segmenter is shown the border with a mirror behind it, as large as half the frame and as all of
it. What it is sure of both times, touches the border, and is as slim and as tall as a person who is
not far away, is somebody. Walls, curtains and trees are wider, or lower.
"""

from __future__ import annotations

import numpy as np

from masquerade._optional import Later
from masquerade.release.avatar.outline import together
from masquerade.sight.person_segmenter import PersonSegmenter

cv2 = Later("cv2", extra="vision")

_SIZES = 0.4, 0.24  # radii of what is looked at, of the frame's height,
_PLACES = 0.35, 0.55, 0.75  # and where: down from its upper edge
_SURE = 0.7  # how likely a pixel must be a person's, both times
_TALL, _SLIM = 0.5, 3.5  # of the frame's height at least, and times as tall as wide
_STRIP_PX = 3  # that must be touched


def at_borders(frame: np.ndarray, segmenter: PersonSegmenter) -> tuple[np.ndarray, ...]:
    """(H, W) bool each: people at the left and at the right border of a frame (H, W, 3) uint8."""
    height, width = frame.shape[:2]
    found = []
    for side, strip in ((0, np.s_[:, :_STRIP_PX]), (width, np.s_[:, -_STRIP_PX:])):
        border = np.zeros((height, width), bool)
        border[strip] = True
        sure = np.logical_and.reduce(
            [_seen(frame, segmenter, side, size * height) for size in _SIZES]
        )
        body = together(sure, border & sure)
        found += [body] if _is_somebody(body) else []
    return tuple(found)


def _seen(frame: np.ndarray, segmenter: PersonSegmenter, side: int, radius: float) -> np.ndarray:
    places = [[side, place * len(frame), radius] for place in _PLACES]
    return np.asarray(segmenter.near(frame, np.array(places)) > _SURE)


def _is_somebody(body: np.ndarray) -> bool:
    _, _, wide, tall = cv2.boundingRect(body.view(np.uint8))
    return bool(tall >= _TALL * len(body) and tall >= _SLIM * wide > 0)
