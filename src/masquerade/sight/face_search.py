"""Find the faces of every frame, and search only some of the frames whole.

Every n-th frame is searched whole. The frames between two of those wait for the second and are then
searched near what both hold, which takes a fraction of the time and finds where a face moved, when
it came and when it went. There a face may be less sure: it is known from the frames around. What is
not quite a face in the frames searched whole is looked at as well, since it may be one in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from masquerade.mechanism import Frames
from masquerade.sight.face_boxes import overlap
from masquerade.sight.face_detector import Detector

DOUBT = 0.75  # of the threshold: the least score of what is looked at again
_SAME_FACE = 0.3  # overlap from which on a doubtful face is the one that is known


@dataclass(frozen=True, kw_only=True)
class Search:
    """How the frames of a video are searched.

    Args:
        detect: what finds faces; its threshold is ``least_score``.
        thresh: the least score of a face.
        every: of so many frames one is searched whole.
    """

    detect: Detector
    thresh: float
    every: int

    def over(self, frames: Frames, *, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Each frame with its faces (N, 5), in order; ``count`` says which one is the last."""
        before = np.zeros((0, 5))
        waiting: list[np.ndarray] = []
        for number, frame in enumerate(frames):
            if number % self.every and number != count - 1:
                waiting.append(frame)
                continue
            after = self.detect(frame)
            for between in waiting:
                yield between, self._near(between, np.vstack([before, after]))
            yield frame, self._sure(after)
            before, waiting = after, []
        for frame in waiting:  # the video ends sooner than it said
            yield frame, self._sure(self.detect(frame))

    def _near(self, frame: np.ndarray, around: np.ndarray) -> np.ndarray:
        """The faces of a frame near those of the frames around it."""
        if not len(around):
            return around
        found = self.detect.near(frame, around[:, :4])
        is_known = overlap(found[:, None], self._sure(around)) >= _SAME_FACE
        return np.asarray(found[(found[:, 4] >= self.thresh) | np.any(is_known, axis=1)])

    def _sure(self, faces: np.ndarray) -> np.ndarray:
        return np.asarray(faces[faces[:, 4] >= self.thresh])


def least_score(thresh: float, *, every: int) -> float:
    """The threshold of the detector for a search: doubtful faces are of use only in between."""
    return thresh * DOUBT if every > 1 else thresh
