"""Find the faces of every frame, and search only some of the frames whole.

Every n-th frame is searched whole. The frames between two of those wait for the second and are then
searched near what both hold, which takes a fraction of the time and finds where a face moved, when
it came and when it went. What is not quite a face in a frame searched whole is looked at as well,
since it may be one in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from masquerade.mechanism import Frames
from masquerade.sight.face_detector import Detector

DOUBT = 0.5  # of the threshold: the least score of what is looked at again
SLACK = 0.95  # of the threshold: the least score in a part, which is a few hundredths off


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
        return self._sure(self.detect.near(frame, around[:, :4]), slack=SLACK)

    def _sure(self, faces: np.ndarray, *, slack: float = 1.0) -> np.ndarray:
        return np.asarray(faces[faces[:, 4] >= slack * self.thresh])


def least_score(thresh: float, *, every: int) -> float:
    """The threshold of the detector for a search: doubtful faces are of use only in between."""
    return thresh * DOUBT if every > 1 else thresh
