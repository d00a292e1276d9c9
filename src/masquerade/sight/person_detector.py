"""Find people in a frame with MediaPipe's pose detector, in squares of several sizes.

The network sees 224 x 224 pixels and finds people who fill at least a fifth of that, so a frame is
searched in squares that overlap by half: some as wide as its shorter side, some half as wide. It
gives the middle of the hips and a point on the circle around the whole body, above the head of who
stands upright.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from masquerade._optional import require
from masquerade.sight.tflite import LiteNetwork

cv2 = require("cv2", extra="vision")

_GRIDS = ((28, 2), (14, 2), (7, 6))  # cells a side, and anchors a cell, of the network's outputs
_SAME = 0.5  # of the larger radius: two people whose hips are nearer are one
_AT_EDGE = (
    0.2  # of the radius: below half of _SAME, so that nobody is found beside their mirror image
)
_LARGER = 1.5  # a square over an edge, beside one inside
_CUT = 100.0  # beyond it a score is 0 or 1, and its exponential still a number


def squares(rows: int, columns: int, *, parts: int) -> Iterator[tuple[int, int, int]]:
    """Top, left and side of squares over a frame: a part of its shorter side, half overlapping.

    Example:
        >>> list(squares(100, 150, parts=1)), len(list(squares(100, 100, parts=2)))
        ([(0, 0, 100), (0, 50, 100)], 9)
    """
    side = max(1, min(rows, columns) // parts)
    for top in _starts(rows, side):
        for left in _starts(columns, side):
            yield top, left, side


def mirrored(frame: np.ndarray, *, parts: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """Top, left and pixels of squares over both edges, half of each in a mirror that stands there.

    They are larger than `squares`, and black above and below the frame: so who fills it is found.

    Example:
        >>> [(top, left) for top, left, _ in mirrored(np.zeros((100, 150, 3)), parts=1)]
        [(-25, -75), (-25, 75)]
    """
    rows, columns = frame.shape[:2]
    half = max(1, min(round(_LARGER / 2 * min(rows, columns) / parts), columns - 1))
    above = max(0, 2 * half - rows) // 2
    below = max(0, 2 * half - rows) - above
    for top in _starts(max(rows, 2 * half), 2 * half):
        for left, start in ((-half, 0), (columns - half, columns - half)):
            band = np.pad(frame[:, start : start + half], ((above, below), (0, 0), (0, 0)))
            inside = band[top : top + 2 * half]
            both = (inside[:, ::-1], inside) if left < 0 else (inside, inside[:, ::-1])
            yield top - above, left, np.hstack(both)


def _starts(length: int, side: int) -> list[int]:
    count = 1 + -(-(length - side) // max(1, side // 2))
    return [round(place) for place in np.linspace(0, length - side, count)]


class PersonDetector:
    """Finds people.

    Args:
        path: pose_detection.tflite.
        thresh: the least score of a person.
        parts: the sides of squares, as parts of the frame's shorter side: 1 is all of it.
    """

    def __init__(self, path: Path, *, thresh: float, parts: tuple[int, ...]) -> None:
        anchors = _anchors()
        self._run = LiteNetwork(path, outputs=((1, len(anchors), 12), (1, len(anchors), 1)))
        self._anchors, self._thresh, self._parts = anchors, thresh, parts

    def __call__(self, frame: np.ndarray) -> np.ndarray:
        """(N, 4): x, y of the hips, radius of the whole body, score; best first, in pixels."""
        return self.with_turns(frame)[:, :4]

    def with_turns(
        self, frame: np.ndarray, *, where: np.ndarray | None = None, beyond: bool = False
    ) -> np.ndarray:
        """(N, 5): the same, and by which angle the body is turned clockwise from upright.

        Args:
            frame: (H, W, 3) uint8.
            where: (H, W) bool; only squares that hold some of it are searched. All if not given.
            beyond: also look over the left and the right edge, into a mirror that stands there: who
                is half out of the picture is whole in it.
        """
        found = [np.zeros((0, 5))]
        for parts in self._parts:
            for top, left, side in squares(*frame.shape[:2], parts=parts):
                if where is not None and not where[top : top + side, left : left + side].any():
                    continue
                people = self._in_square(frame[top : top + side, left : left + side])
                found.append(people + np.array([left, top, 0.0, 0.0, 0.0]))
            if beyond and where is None:
                found.extend(self._over_edges(frame, parts))
        return without_twins(np.vstack(found))

    def _over_edges(self, frame: np.ndarray, parts: int) -> Iterator[np.ndarray]:
        """Whoever has the hips about at the left or the right edge."""
        for top, left, picture in mirrored(frame, parts=parts):
            people = self._in_square(picture) + np.array([left, top, 0.0, 0.0, 0.0])
            edge = 0 if left < 0 else frame.shape[1]
            yield people[np.abs(people[:, 0] - edge) < _AT_EDGE * people[:, 2]]

    def _in_square(self, picture: np.ndarray) -> np.ndarray:
        side, of = len(picture), self._run.size
        small = cv2.resize(picture, of[::-1], interpolation=cv2.INTER_AREA)
        boxes, scores = self._run(small / 127.5 - 1.0)
        score = 1.0 / (1.0 + np.exp(-np.clip(scores[:, 0].astype(float), -_CUT, _CUT)))
        sure = score >= self._thresh
        hips, rim = (boxes[sure, at : at + 2] / of[0] + self._anchors[sure] for at in (4, 6))
        right, down = (rim - hips).T
        radius, turn = np.hypot(right, down), np.arctan2(right, -down)
        return np.column_stack([hips * side, radius * side, score[sure], turn])


def without_twins(people: np.ndarray) -> np.ndarray:
    """The best of each person, best first."""
    people, kept = people[np.argsort(-people[:, 3], kind="stable")], list[np.ndarray]()
    for one in people:
        if all(np.hypot(*(one - k)[:2]) > _SAME * max(one[2], k[2]) for k in kept):
            kept.append(one)
    return np.array(kept).reshape(-1, people.shape[1])


def _anchors() -> np.ndarray:
    """(N, 2): where the network measures from, as shares of the picture."""
    found = []
    for cells, each in _GRIDS:
        y, x = np.mgrid[:cells, :cells]
        found.append(np.repeat(np.stack([x, y], axis=-1).reshape(-1, 2) + 0.5, each, 0) / cells)
    return np.concatenate(found)
