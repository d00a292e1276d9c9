"""The outline of a person over time: the gait energy image [han2006].

Masks come from the network that finds joints. Where it finds nobody, what moves before a still
background is taken for the person, since that is left even where every picture is hidden.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from masquerade._optional import require
from masquerade.attack.case import Recording
from masquerade.attack.people_seen import PoseSearch
from masquerade.errors import BadInput
from masquerade.recordings import Video

cv2 = require("cv2", extra="vision")

_SIZE = (32, 24)  # height and width of an image
_FRAMES = 32  # of a film that are looked at
_LEAST_SHARE, _MOST_SHARE = 0.004, 0.6  # of a frame that a person may cover
_CHANGE = 20  # of 255: what differs less from the background stands still
_STILL = 6.0  # times the usual change: what flickers everywhere is no motion
_LEAST_FRAMES = 4


@dataclass(frozen=True, kw_only=True)
class SilhouetteCue:
    """The mean outline of a person as one row.

    Args:
        is_told: whether outlines are the labels' masks.
    """

    NETWORKS: ClassVar[tuple[str, ...]] = ("pose_detection", "pose_landmark_full")
    VERSION: ClassVar[int] = 1

    is_told: bool
    search: PoseSearch = field(default_factory=PoseSearch)

    def __call__(self, recording: Recording) -> np.ndarray:
        """(1, D), or (0, D) where nobody is seen in enough frames."""
        if not isinstance(recording, Video) or len(recording.frames) < _LEAST_FRAMES:
            raise BadInput(
                f"Expected films of at least {_LEAST_FRAMES} frames where by=silhouette; use "
                "--by face or --by body for photos."
            )
        every = max(1, len(recording.frames) // _FRAMES)
        masks = self._told(recording, every) if self.is_told else self._found(recording, every)
        outlines = [one for mask in masks if (one := _outline(mask)) is not None]
        if len(outlines) < min(_LEAST_FRAMES, len(masks)):
            return np.zeros((0, _SIZE[0] * _SIZE[1]))
        return np.asarray(np.mean(outlines, axis=0).reshape(1, -1))

    def _told(self, film: Video, every: int) -> np.ndarray:
        if film.person_mask is None:
            raise BadInput(
                "Expected recordings with masks where joints=truth, got one without; use --joints "
                "estimated."
            )
        return film.person_mask[::every]

    def _found(self, film: Video, every: int) -> np.ndarray:
        frames = film.frames[::every]
        bodies = [self.search.nearest(frame) for frame in frames]
        if sum(body is not None for body in bodies) * 2 < len(frames):
            return moving(frames)
        return np.stack([body.mask > 0.5 for body in bodies if body is not None])


def moving(frames: np.ndarray) -> np.ndarray:
    """(T, H, W) bool: the largest thing in each frame that moves before a still background."""
    still = np.median(frames, axis=0)
    change = np.abs(frames - still).max(axis=3)  # (T, H, W)
    moves = change > max(_CHANGE, _STILL * float(np.median(change)))
    around = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5))
    return np.stack(
        [_largest(cv2.morphologyEx(np.uint8(each), cv2.MORPH_CLOSE, around)) for each in moves]
    )


def _largest(mask: np.ndarray) -> np.ndarray:
    """The largest part of a mask that hangs together."""
    count, parts, facts, _ = cv2.connectedComponentsWithStats(mask)
    if count < 2:
        return mask > 0
    return np.asarray(parts == 1 + int(np.argmax(facts[1:, cv2.CC_STAT_AREA])))


def _outline(mask: np.ndarray) -> np.ndarray | None:
    """The person of a mask, as high as an image and in its middle; None where nobody is."""
    if not _LEAST_SHARE <= mask.mean() <= _MOST_SHARE:
        return None
    rows, columns = np.nonzero(mask)
    top, bottom = int(rows.min()), int(rows.max()) + 1
    scale = _SIZE[0] / (bottom - top)
    shift = np.array([[scale, 0, _SIZE[1] / 2 - scale * columns.mean()], [0, scale, -scale * top]])
    return np.asarray(cv2.warpAffine(np.float32(mask), shift, _SIZE[::-1], flags=cv2.INTER_AREA))
