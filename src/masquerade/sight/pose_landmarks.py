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

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from masquerade import _check
from masquerade._optional import require
from masquerade.sight import network_file
from masquerade.sight.network_file import NetworkFile
from masquerade.sight.person_detector import PersonDetector
from masquerade.sight.tflite import LiteNetwork

cv2 = require("cv2", extra="vision")

NETWORKS = ("pose_detection", "pose_landmark_full")
NUM_JOINTS = 33
JOINTS = tuple(
    """nose left_eye_inner left_eye left_eye_outer right_eye_inner right_eye right_eye_outer
    left_ear right_ear mouth_left mouth_right left_shoulder right_shoulder left_elbow right_elbow
    left_wrist right_wrist left_pinky right_pinky left_index right_index left_thumb right_thumb
    left_hip right_hip left_knee right_knee left_ankle right_ankle left_heel right_heel
    left_foot_index right_foot_index""".split()
)
HIPS = (23, 24)
_SIZE_PX = 256  # of the picture that the network takes
_AROUND = 1.25  # of the circle around a body: what the network is shown
_POINTS = 39  # that it gives: the joints, two about the whole body, and four that are not used
_HUB, _RIM = 33, 34  # the middle of the hips, and a point on the circle around the body
_OUTPUTS = ((1, 5 * _POINTS), (1, 1), (1, 256, 256, 1), (1, 64, 64, _POINTS), (1, 3 * _POINTS))
_REACH = 3  # cells of the heatmap about a joint that say where it is
_CLEAR = 0.5  # and how likely the likeliest of them must be
_SAME = 0.15  # of the larger body's size: two whose hips are nearer are one,
_LIKE = 1.6  # if neither is larger than the other by more than this ratio
_LEAST_PX = 8  # a narrower frame shows nobody
_LEAST_SEEN = 5  # joints in the frame, likelier seen than not, of somebody who counts
_HIDDEN = 0.3  # how likely a pixel must be somebody's to be hidden with them
_HIDDEN_PX = 9  # of the square that is shown: how far around that, likewise
_ROUNDS = 4  # of hiding and searching, at most
_MOST_TIMES = 4  # as large is a picture first cut out that is then made smaller by means


@dataclass(frozen=True, kw_only=True, eq=False)
class Pose:
    """One person in one frame.

    Args:
        joints: (33, 4) x, y in pixels of the frame, how likely each is seen, and how likely it is
            inside what the network was shown.
        world: (33, 3) metres about the middle of the hips: right, down, and away from the camera.
        score: how likely somebody is there.
        likely: (256, 256) how likely each pixel of the square that was shown is the person's.
        to_frame: (2, 3) leads from pixels of that square to pixels of the frame.
    """

    joints: np.ndarray
    world: np.ndarray
    score: float
    likely: np.ndarray
    to_frame: np.ndarray

    @property
    def box(self) -> np.ndarray:
        """(4,) left, top, right, bottom of all joints, in pixels; it may reach out of the frame."""
        return np.concatenate([self.joints[:, :2].min(axis=0), self.joints[:, :2].max(axis=0)])

    @property
    def hips(self) -> np.ndarray:
        """(2,) their middle, in pixels."""
        return np.asarray(self.joints[HIPS, :2].mean(axis=0))

    def mask(self, rows: int, columns: int) -> np.ndarray:
        """(H, W) float32: how likely each pixel of the frame is this person's."""
        _check.count(rows=rows, columns=columns)
        return np.asarray(
            cv2.warpAffine(self.likely, self.to_frame, (columns, rows), flags=cv2.INTER_LINEAR)
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Sight:
    """Somebody, and the square (2, 3) in which to look for them next."""

    pose: Pose
    square: np.ndarray


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
        before: list[_Sight] = []
        for number, frame in enumerate(frames):
            _check_frame(frame)
            before = self._followed(frame, [sight.square for sight in before])
            if number % every == 0:
                before, found = self._with_others(frame, before)
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
        self, frame: np.ndarray, where: np.ndarray | None = None, *, beyond: bool = False
    ) -> np.ndarray:
        """(N, 5): whom the detector finds."""
        if min(frame.shape[:2]) < _LEAST_PX:
            return np.zeros((0, 5))
        return self._detect.with_turns(frame, where=where, beyond=beyond)

    def _followed(self, frame: np.ndarray, squares: list[np.ndarray]) -> list[_Sight]:
        """Those who were there before; who is lost beside another is sought without the other."""
        seen = [self._sight(frame, square) for square in squares]
        kept = _without_twins([one for one in seen if self._is_somebody(one.pose, frame)])
        lost = [each for each, one in zip(squares, seen, strict=True) if one not in kept]
        if not (kept and lost):
            return kept
        hidden = _where(kept, frame)
        near = [square for square in lost if hidden[_reach(square, hidden.shape)].any()]
        return _joined(kept, self._sights(_without(frame, hidden), near))

    def _with_others(
        self, frame: np.ndarray, known: list[_Sight]
    ) -> tuple[list[_Sight], np.ndarray]:
        """Everybody, where some are known already; and (N, 5) whom the detector finds."""
        found = [self._searched(frame, beyond=True)]
        sights = _without_twins(known + self._sights(frame, self._squares(frame, found[0])))
        new, shown = sights, frame
        for _ in range(_ROUNDS):
            if not new:
                break
            hidden = _where(new, frame)
            shown = _without(shown, hidden)
            found.append(self._searched(shown, hidden))
            more = self._sights(shown, self._squares(shown, found[-1]))
            new = _joined(sights, more)[len(sights) :]
            sights = sights + new
        return sights, np.vstack(found)

    def _squares(self, frame: np.ndarray, found: np.ndarray) -> list[np.ndarray]:
        """Where the detector thinks that somebody is; seen once, each is put right."""
        squares: list[np.ndarray] = []
        for x, y, radius, _, turn in found:
            sight = self._sight(frame, _square(x, y, radius, turn))
            if self._is_somebody(sight.pose, frame):
                squares.append(sight.square)
        return squares

    def _sights(self, frame: np.ndarray, squares: list[np.ndarray]) -> list[_Sight]:
        sights = [self._sight(frame, square) for square in squares]
        return _without_twins([one for one in sights if self._is_somebody(one.pose, frame)])

    def _is_somebody(self, pose: Pose, frame: np.ndarray) -> bool:
        return pose.score >= self.thresh and _num_seen(pose, frame) >= _LEAST_SEEN

    def _sight(self, frame: np.ndarray, square: np.ndarray) -> _Sight:
        """What is in a square of the frame."""
        raw, score, mask, heat, world = self._look(_shown(frame, square) / 255.0)
        points = _sharpened(raw.reshape(_POINTS, 5), heat)
        places = points[:, :2] @ square[:, :2].T + square[:, 2]
        turned = square[:, :2] / np.sqrt(np.linalg.det(square[:, :2]))
        metres = world.reshape(_POINTS, 3)[:NUM_JOINTS].astype(float)
        metres[:, :2] = metres[:, :2] @ turned.T
        (x, y), (right, down) = places[_HUB], places[_RIM] - places[_HUB]
        again = _square(x, y, np.hypot(right, down), np.arctan2(right, -down))
        pose = Pose(
            joints=np.column_stack([places, _sigmoid(points[:, 3:])])[:NUM_JOINTS],
            world=metres,
            score=float(score[0]),
            likely=_sigmoid(mask[..., 0]).astype(np.float32),
            to_frame=square,
        )
        return _Sight(pose=pose, square=again)

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


def _square(x: float, y: float, radius: float, turn: float) -> np.ndarray:
    """(2, 3): from pixels of the network's picture to pixels of the frame."""
    scale = 2 * max(_AROUND * radius, 1.0) / _SIZE_PX
    right, down = scale * np.cos(turn), scale * np.sin(turn)
    middle = _SIZE_PX / 2
    return np.array(
        [
            [right, -down, x - middle * (right - down)],
            [down, right, y - middle * (down + right)],
        ]
    )


def _shown(frame: np.ndarray, to_frame: np.ndarray) -> np.ndarray:
    """(256, 256, 3): the square, black where it reaches out of the frame."""
    shrunk = np.sqrt(np.linalg.det(to_frame[:, :2]))
    times = int(np.clip(np.ceil(shrunk), 1, _MOST_TIMES))
    finer = to_frame / np.array([times, times, 1.0])
    cut = cv2.warpAffine(
        np.ascontiguousarray(frame),
        finer,
        (times * _SIZE_PX,) * 2,
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
    )
    return np.asarray(cv2.resize(cut, (_SIZE_PX,) * 2, interpolation=cv2.INTER_AREA))


def _sharpened(points: np.ndarray, heat: np.ndarray) -> np.ndarray:
    """Points (39, 5) moved to the weighted mean of the heatmap (64, 64, 39) near each, if clear."""
    cells = len(heat)
    moved, likely = points.astype(float), _sigmoid(heat)
    for number, (x, y) in enumerate(points[:, :2] * cells / _SIZE_PX):
        if not (0 <= x < cells and 0 <= y < cells):
            continue
        rows = slice(max(int(y) - _REACH, 0), int(y) + _REACH + 1)
        columns = slice(max(int(x) - _REACH, 0), int(x) + _REACH + 1)
        near = likely[rows, columns, number]
        if near.max() < _CLEAR:
            continue
        at = np.indices(near.shape).reshape(2, -1) @ near.ravel() / near.sum()
        place = np.array([columns.start + at[1], rows.start + at[0]])
        moved[number, :2] = place * _SIZE_PX / cells
    return moved


def _num_seen(pose: Pose, frame: np.ndarray) -> int:
    height, width = frame.shape[:2]
    places, seen = pose.joints[:, :2], pose.joints[:, 2]
    is_inside = np.all((places >= 0) & (places < (width, height)), axis=1)
    return int(np.sum(is_inside & (seen > 0.5)))


def _without_twins(sights: list[_Sight]) -> list[_Sight]:
    """The surest of each person, the surest first."""
    kept: list[_Sight] = []
    for one in sorted(sights, key=lambda sight: -sight.pose.score):
        if all(not _is_same(one.pose, other.pose) for other in kept):
            kept.append(one)
    return kept


def _joined(sights: list[_Sight], more: list[_Sight]) -> list[_Sight]:
    """Those, and whoever of ``more`` is none of them."""
    return sights + [
        one for one in more if not any(_is_same(one.pose, other.pose) for other in sights)
    ]


def _where(sights: list[_Sight], frame: np.ndarray) -> np.ndarray:
    """(H, W) bool: the pixels of some people, and a little around."""
    rows, columns = frame.shape[:2]
    hidden = np.zeros((rows, columns), bool)
    side = np.ones((2 * _HIDDEN_PX + 1,) * 2, np.uint8)
    for one in sights:
        wide = cv2.dilate((one.pose.likely > _HIDDEN).astype(np.float32), side)
        hidden |= replace(one.pose, likely=wide).mask(rows, columns) > 0.5
    return hidden


def _without(frame: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """The frame, plain grey where ``hidden`` (H, W) bool."""
    out = frame.copy()
    out[hidden] = np.rint(frame.mean(axis=(0, 1)))
    return out


def _reach(square: np.ndarray, size: tuple[int, ...]) -> tuple[slice, slice]:
    """Rows and columns of a frame around what the network is shown."""
    corners = np.array([[0, 0, 1], [_SIZE_PX, 0, 1], [0, _SIZE_PX, 1], [_SIZE_PX, _SIZE_PX, 1.0]])
    places = corners @ square.T
    (left, top), (right, bottom) = (
        np.clip(each, 0, size[::-1]).astype(int).tolist()
        for each in (places.min(axis=0), places.max(axis=0))
    )
    return slice(top, bottom), slice(left, right)


def _is_same(one: Pose, other: Pose) -> bool:
    """Whether hips and sizes agree; left and right may have been mistaken for each other."""
    sizes = [np.ptp(each.joints[:, :2], axis=0).max() for each in (one, other)]
    is_near = np.linalg.norm(one.hips - other.hips) <= _SAME * max(sizes)
    return bool(is_near and max(sizes) <= _LIKE * min(sizes))


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * values.astype(float)))
