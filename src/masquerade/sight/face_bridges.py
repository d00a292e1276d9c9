"""Cover what lies between two finds at one place, whatever they were linked to.

Linking gives each find to one track, and may give it to the wrong one: where two faces meet, or
where something else is found for a frame beside a face that is missed. Then no track leads from
the face before to the face after. Here every find is joined with the one that overlaps it most in
each later frame in reach, and what is between the two is covered unless a track does so already.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from masquerade.sight.face_boxes import overlap, share_inside

SAME_PLACE = 0.3  # overlap from which on two finds are taken for one face
COVERED = 0.5  # share of a box that lies in another, from which on it needs no cover of its own
_FRAMES = 8  # with finds, that are joined with a new one; longer ways are for tracks


@dataclass(frozen=True, kw_only=True, eq=False)
class Bridge:
    """Two finds of one place: the frame and the box (4,) of each."""

    start: int
    stop: int
    first: np.ndarray
    last: np.ndarray

    def box(self, frame: int) -> np.ndarray:
        """The box in a frame between the two."""
        share = (frame - self.start) / (self.stop - self.start)
        return np.asarray(self.first + (self.last - self.first) * share)


class Bridges:
    """All that lies between finds of a video.

    Args:
        reach: the most frames between two finds.
    """

    def __init__(self, *, reach: int) -> None:
        self.reach = reach
        self._recent: deque[tuple[int, np.ndarray]] = deque(maxlen=_FRAMES)
        self._bridges: list[Bridge] = []

    def add(self, frame: int, faces: np.ndarray) -> None:
        """Join the faces (N, 5) found in ``frame`` with earlier ones; frames come in order."""
        if not len(faces):
            return
        for before, earlier in self._recent:
            if 1 < frame - before <= self.reach + 1:
                self._bridges += _joined(before, earlier, frame, faces[:, :4])
        self._recent.append((frame, faces[:, :4]))

    def beside(self, boxes: np.ndarray, *, frame: int) -> np.ndarray:
        """The boxes (N, 4) that ``frame`` needs besides these; frames are asked for in order."""
        self._bridges = [bridge for bridge in self._bridges if bridge.stop > frame]
        between = [bridge.box(frame) for bridge in self._bridges if bridge.start < frame]
        is_bare = ~np.any(share_inside(_rows(between)[:, None], boxes) >= COVERED, axis=1)
        needed: list[np.ndarray] = []
        for box in _rows(between)[is_bare]:
            if not np.any(share_inside(box, _rows(needed)) >= COVERED):
                needed.append(box)
        return _rows(needed)


def _joined(start: int, earlier: np.ndarray, stop: int, later: np.ndarray) -> list[Bridge]:
    """A bridge from each of the earlier boxes to the later one that overlaps it most, if any."""
    shared = overlap(earlier[:, None], later)  # (M, N)
    return [
        Bridge(start=start, stop=stop, first=first, last=later[best])
        for first, best, most in zip(
            earlier, np.argmax(shared, axis=1), np.max(shared, axis=1), strict=True
        )
        if most >= SAME_PLACE
    ]


def _rows(boxes: list[np.ndarray]) -> np.ndarray:
    return np.array(boxes).reshape(-1, 4)
