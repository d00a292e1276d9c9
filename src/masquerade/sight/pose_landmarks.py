"""Find the joints of everybody in a frame with MediaPipe's BlazePose [bazarevsky2020].

A detector gives the hips of each person, the size of the body and how it is turned. A square
around it, turned upright, is shown to a second network, which gives 33 joints in the picture, the
same joints in metres about the middle of the hips, which pixels are the person's, and a better
square: that is shown again, and whoever is not seen there either is nobody. In a film the square of
one frame is shown in the next, and the detector, which takes most of the time, looks now and then.

Both networks were made for one person: of two who are near each other they often see only the one
who stands out. So in a film those who were found are hidden, and the others are looked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from masquerade import _check
from masquerade._optional import Later
from masquerade.sight import network_file
from masquerade.sight.network_file import NetworkFile
from masquerade.sight.person_detector import PersonDetector
from masquerade.sight.pose_squares import (
    SHOWN_PX,
    is_alike,
    is_at_edge,
    reach,
    shown_in,
    square_about,
)
from masquerade.sight.poses import (
    NUM_JOINTS,
    Pose,
    SeenPose,
    half_trusted,
    joined,
    num_seen,
    pixels,
    without,
    without_twins,
)
from masquerade.sight.search_squares import SeenBefore
from masquerade.sight.tflite import LiteNetwork

cv2 = Later("cv2", extra="vision")

NETWORKS = ("pose_detection", "pose_landmark_full")
_POINTS = 39  # that it gives: the joints, two about the whole body, and four that are not used
_HUB, _RIM = 33, 34  # the middle of the hips, and a point on the circle around the body
_OUTPUTS = ((1, 5 * _POINTS), (1, 1), (1, 256, 256, 1), (1, 64, 64, _POINTS), (1, 3 * _POINTS))
_REACH = 3  # cells of the heatmap about a joint that say where it is
_CLEAR = 0.5  # and how likely the likeliest of them must be
_LEAST_PX = 8  # a narrower frame shows nobody
_LEAST_SEEN = 5  # joints in the frame, likelier seen than not, of somebody who counts
_ROUNDS = 4  # of hiding and searching, at most


@dataclass(frozen=True, kw_only=True)
class PoseLandmarks:
    """Finds people and their joints.

    Args:
        model: pose_landmark_full.tflite, or _lite or _heavy; None for the listed asset, full.
        thresh: the least score of a person, of the detector and of the network.
        parts: where to look: in squares as wide as the frame's shorter side over each of these.
    """

    model: Path | None = None
    thresh: float = 0.5
    parts: tuple[int, ...] = (1, 2)

    def __post_init__(self) -> None:
        _check.probability(thresh=self.thresh)
        for part in self.parts or (0,):
            _check.count(parts=part)

    def __getstate__(self) -> dict[str, object]:
        """The fields alone: another process loads the networks itself."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def ready(self) -> None:
        """Load both networks.

        Raises:
            BadInput: if one is not to be had, or is not what it should be.
            OSError: if no place that has it can be reached.
        """
        _ = self._detect, self._look

    def people(self, frame: np.ndarray) -> tuple[Pose, ...]:
        """Everybody in a frame (H, W, 3) uint8, the surest first; nobody is an empty tuple."""
        _check_frame(frame)
        squares = self._squares(frame, self._searched(frame))
        return tuple(sight.pose for sight in self._sights(frame, squares))

    def film(
        self,
        frames: Iterable[np.ndarray],
        *,
        every: int = 5,
        told: Callable[[np.ndarray], None] | None = None,
    ) -> Iterator[tuple[Pose, ...]]:
        """Everybody in each of some frames that follow each other, the surest first.

        Args:
            frames: each (H, W, 3) uint8, all of one size.
            every: of so many frames the detector searches one; in the others only those are
                looked for who were there before.
            told: given what the detector finds when it searches, (N, 4) as `PersonDetector`.
        """
        _check.count(every=every)
        before, seen = list[SeenPose](), SeenBefore()
        for number, frame in enumerate(frames):
            _check_frame(frame)
            before = self._followed(frame, [sight.square for sight in before])
            if number % every == 0:
                before, found = self._with_others(frame, before, seen)
                if told is not None:
                    told(found[:, :4])
            yield tuple(sight.pose for sight in before)

    def again(self, frame: np.ndarray, pose: Pose) -> Pose | None:
        """Somebody of another frame, looked for in this one near by; None if they are not there."""
        _check_frame(frame)
        found = self._sight(frame, pose.to_frame).pose
        return found if self._is_somebody(found, frame) else None

    @property
    def in_words(self) -> str:
        """What looked, for a report."""
        return network_file.in_words(*self._files)

    @property
    def _files(self) -> tuple[NetworkFile, NetworkFile]:
        detects, looks = NETWORKS
        return NetworkFile(detects), NetworkFile(looks, self.model)

    def _searched(
        self,
        frame: np.ndarray,
        *,
        where: Mapping[int, np.ndarray] | None = None,
        beyond: bool = False,
        seen: SeenBefore | None = None,
    ) -> np.ndarray:
        """(N, 5): whom the detector finds."""
        if min(frame.shape[:2]) < _LEAST_PX:
            return np.zeros((0, 5))
        return self._detect.with_turns(frame, where=where, beyond=beyond, seen=seen)

    def _followed(self, frame: np.ndarray, squares: list[np.ndarray]) -> list[SeenPose]:
        """Those who were there before; who is lost beside another is sought without the other."""
        seen = [self._sight(frame, square) for square in squares]
        kept = without_twins([one for one in seen if self._is_somebody(one.pose, frame)])
        lost = [each for each, one in zip(squares, seen, strict=True) if one not in kept]
        if not (kept and lost):
            return kept
        hidden = pixels(kept, frame)
        near = [square for square in lost if hidden[reach(square, hidden.shape)].any()]
        return joined(kept, self._sights(without(frame, hidden), near))

    def _with_others(
        self, frame: np.ndarray, known: list[SeenPose], seen: SeenBefore
    ) -> tuple[list[SeenPose], np.ndarray]:
        """Everybody, where some are known already; and (N, 5) whom the detector finds."""
        found = [self._searched(frame, beyond=True, seen=seen)]
        others = self._squares(frame, found[0], besides=known)
        sights = joined(known, self._sights(frame, others))
        new, shown = sights, frame
        for _ in range(_ROUNDS):
            if not new:
                break
            shown = without(shown, pixels(new, frame))
            found.append(self._searched(shown, where=self._beside(new, frame)))
            more = self._sights(shown, self._squares(shown, found[-1]))
            new = joined(sights, more)[len(sights) :]
            sights = sights + new
        return sights, np.vstack(found)

    def _beside(self, people: list[SeenPose], frame: np.ndarray) -> dict[int, np.ndarray]:
        """(H, W) bool by parts: people who fit into a square of those, and may outshine others."""
        side = min(frame.shape[:2])
        return {
            parts: pixels([one for one in people if parts * one.pose.size <= side], frame)
            if parts > 1
            else pixels(people, frame)
            for parts in self.parts
        }

    def _squares(
        self, frame: np.ndarray, found: np.ndarray, *, besides: Sequence[SeenPose] = ()
    ) -> list[np.ndarray]:
        """Where the detector thinks that somebody is; seen once, each is put right."""
        squares: list[np.ndarray] = []
        for x, y, radius, _, turn in found:
            square = square_about(x, y, radius, turn)
            if not any(is_alike(square, one.square) for one in besides):
                sight = self._sight(frame, square)
                if self._is_somebody(sight.pose, frame):
                    squares.append(sight.square)
        return squares

    def _sights(self, frame: np.ndarray, squares: list[np.ndarray]) -> list[SeenPose]:
        sights = [self._sight(frame, square) for square in squares]
        return without_twins([one for one in sights if self._is_somebody(one.pose, frame)])

    def _is_somebody(self, pose: Pose, frame: np.ndarray) -> bool:
        return pose.score >= self.thresh and num_seen(pose, frame) >= _LEAST_SEEN

    def _sight(self, frame: np.ndarray, square: np.ndarray) -> SeenPose:
        """What is in a square of the frame; half a body at its edge is shown with a mirror, too."""
        sight = self._shown(frame, square)
        if not is_at_edge(square, frame) or self._is_somebody(sight.pose, frame):
            return sight
        half = self._shown(frame, square, is_mirrored=True)
        return replace(half, pose=half_trusted(half.pose, frame))

    def _shown(
        self, frame: np.ndarray, square: np.ndarray, *, is_mirrored: bool = False
    ) -> SeenPose:
        """What the network says of a square, shown black or a mirror beyond the frame."""
        beyond = cv2.BORDER_REFLECT if is_mirrored else cv2.BORDER_CONSTANT
        raw, score, mask, heat, world = self._look(shown_in(frame, square, beyond) / 255.0)
        points = _sharpened(raw.reshape(_POINTS, 5), heat)
        places = points[:, :2] @ square[:, :2].T + square[:, 2]
        turned = square[:, :2] / np.sqrt(np.linalg.det(square[:, :2]))
        metres = world.reshape(_POINTS, 3)[:NUM_JOINTS].astype(float)
        metres[:, :2] = metres[:, :2] @ turned.T
        (x, y), (right, down) = places[_HUB], places[_RIM] - places[_HUB]
        again = square_about(x, y, np.hypot(right, down), np.arctan2(right, -down))
        pose = Pose(
            joints=np.column_stack([places, _sigmoid(points[:, 3:])])[:NUM_JOINTS],
            world=metres,
            score=float(score[0]),
            likely=_sigmoid(mask[..., 0]).astype(np.float32),
            to_frame=square,
        )
        return SeenPose(pose=pose, square=again)

    @cached_property
    def _detect(self) -> PersonDetector:
        return PersonDetector(self._files[0].path(), thresh=self.thresh, parts=self.parts)

    @cached_property
    def _look(self) -> LiteNetwork:
        return LiteNetwork(self._files[1].path(), outputs=_OUTPUTS)


def _check_frame(frame: np.ndarray) -> None:
    _check.shape("H W 3", frame=frame)
    if frame.dtype != np.uint8 or not frame.size:
        raise ValueError(f"Expected frame as uint8 pixels, got {frame.shape} {frame.dtype}.")


def _sharpened(points: np.ndarray, heat: np.ndarray) -> np.ndarray:
    """Points (39, 5) moved to the weighted mean of the heatmap (64, 64, 39) near each, if clear."""
    cells = len(heat)
    moved, likely = points.astype(float), _sigmoid(heat)
    for number, (x, y) in enumerate(points[:, :2] * cells / SHOWN_PX):
        if not (0 <= x < cells and 0 <= y < cells):
            continue
        rows = slice(max(int(y) - _REACH, 0), int(y) + _REACH + 1)
        columns = slice(max(int(x) - _REACH, 0), int(x) + _REACH + 1)
        near = likely[rows, columns, number]
        if near.max() < _CLEAR:
            continue
        at = np.indices(near.shape).reshape(2, -1) @ near.ravel() / near.sum()
        place = np.array([columns.start + at[1], rows.start + at[0]])
        moved[number, :2] = place * SHOWN_PX / cells
    return moved


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * values.astype(float)))
