"""Follow faces over frames, so that one that is missed for a moment stays covered.

Boxes are linked to the track whose constant velocity foretells them best; the linking looks back
only. What is covered in frame t is read off the tracks when the frames up to t + reach are known:
a box that was found, one between two that were found, or the first or last of a track, moved
along with it. Those are held for one frame less than the face was found in, at most ``hold``, and
for fewer where the detector was not sure: what flashes up once is seldom a face. Between two finds
at one place all is covered, whatever tracks they belong to. A box may grow by what its neighbours
say, never shrink.

A box is left, top, right, bottom, in pixels.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

import numpy as np

from masquerade.sight.face_boxes import at_least, centres, mean_sides
from masquerade.sight.face_bridges import Bridges

_FAR = 1.0  # face sizes between a foretold centre and a found one, above which they differ,
_FARTHER = 0.25  # and what is added for each frame in which the face was missed
_LIKE = 2.0  # ratio of sizes above which two faces differ
_MEMORY = 5  # boxes that say how fast and how big a face is
_SURE = 0.5  # score from which on a find counts whole, and below it less


@dataclass(kw_only=True, eq=False)
class FaceTrack:
    """One face: the frames in which it was found, and its box and score there."""

    frames: list[int] = field(default_factory=list)
    faces: list[np.ndarray] = field(default_factory=list)

    def box(self, frame: int, *, reach: int) -> np.ndarray:
        """Where the face is in ``frame``, as far as the frames up to ``frame + reach`` tell."""
        after = bisect_left(self.frames, frame)
        window = slice(max(0, after - _MEMORY), bisect_right(self.frames, frame + reach))
        times = np.array(self.frames[window])
        boxes = np.array(self.faces[window])[:, :4]
        if frame < times[0] or frame > times[-1]:
            box = _moved(times, boxes, frame)
        else:
            box = np.array([np.interp(frame, times, side) for side in boxes.T])
        close = boxes[np.argsort(np.abs(times - frame), kind="stable")[:_MEMORY]]
        return at_least(box, np.median(close[:, 2:] - close[:, :2], axis=0))

    def is_seen(self, frame: int, *, hold: int, reach: int) -> bool:
        """Whether the face is to be covered in ``frame``, as far as ``frame + reach`` tells."""
        known = bisect_right(self.frames, frame + reach)
        sure = math.floor(sum(min(1.0, face[4] / _SURE) for face in self.faces[:known]))
        away = max(self.frames[0] - frame, frame - self.frames[-1], 0)
        return bool(away <= min(hold, sure, max(known - 1, 0)))


class Tracks:
    """All faces of a video.

    Args:
        hold: the most frames for which a face stays covered where it is missed.
        every: of so many frames one is searched whole, so that finds may be farther apart.
    """

    def __init__(self, *, hold: int, every: int = 1) -> None:
        self.reach = hold + every - 1
        self.hold = hold
        self.ended: list[FaceTrack] = []
        self.live: list[FaceTrack] = []
        self._bridges = Bridges(reach=self.reach)

    def add(self, frame: int, faces: np.ndarray) -> None:
        """Link the faces (N, 5) found in ``frame``; frames come in order."""
        open_tracks = [track for track in self.live if frame - track.frames[-1] <= self.reach + 1]
        foretold = [track.box(frame, reach=self.reach) for track in open_tracks]
        missed = np.array([frame - track.frames[-1] - 1 for track in open_tracks])
        taken: set[int] = set()
        for number, face in _best_pairs(np.array(foretold).reshape(-1, 4), faces, missed):
            open_tracks[number].frames.append(frame)
            open_tracks[number].faces.append(faces[face])
            taken.add(face)
        for face in set(range(len(faces))) - taken:
            self.live.append(FaceTrack(frames=[frame], faces=[faces[face]]))
        self._bridges.add(frame, faces)

    def at(self, frame: int) -> np.ndarray:
        """The boxes (N, 4) to cover in ``frame``.

        Every frame up to ``frame + reach`` must have been added; frames are asked for in order.
        """
        over = [track for track in self.live if track.frames[-1] + self.reach < frame]
        self.ended += over
        self.live = [track for track in self.live if track not in over]
        boxes = [
            track.box(frame, reach=self.reach)
            for track in self.live
            if track.is_seen(frame, hold=self.hold, reach=self.reach)
        ]
        covered = np.array(boxes).reshape(-1, 4)
        return np.vstack([covered, self._bridges.beside(covered, frame=frame)])


def _best_pairs(
    foretold: np.ndarray, faces: np.ndarray, missed: np.ndarray
) -> list[tuple[int, int]]:
    """Which track goes with which face: the nearest pair first, each used once."""
    sizes, found = mean_sides(foretold)[:, None], mean_sides(faces)[None]  # (M, 1), (1, N)
    apart = np.linalg.norm(centres(foretold)[:, None] - centres(faces)[None], axis=2)
    apart /= np.maximum(sizes, found)
    may_be = np.maximum(sizes, found) <= _LIKE * np.minimum(sizes, found)
    may_be &= apart <= _FAR + _FARTHER * missed[:, None]
    pairs: list[tuple[int, int]] = []
    order = np.argsort(apart[may_be], kind="stable")
    for number, face in np.argwhere(may_be)[order].tolist():
        if all(number != other and face != taken for other, taken in pairs):
            pairs.append((number, face))
    return pairs


def _moved(times: np.ndarray, boxes: np.ndarray, frame: int) -> np.ndarray:
    """The box at the near end of a track, moved to ``frame`` with the velocity there."""
    end = 0 if frame < times[0] else len(times) - 1
    near = slice(0, _MEMORY) if end == 0 else slice(-_MEMORY, None)
    since = times[near] - np.mean(times[near])
    spread = float(since @ since)
    velocity = since @ centres(boxes[near]) / spread if spread else np.zeros(2)
    return np.asarray(boxes[end] + np.tile(velocity * (frame - times[end]), 2))
