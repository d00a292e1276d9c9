"""People in one frame, as BlazePose gives them: joints, pixels, and who of two is the same.

The square around a body that the pose network is shown: where it lies, and what is in it.

Find the joints of everybody in a frame with MediaPipe's BlazePose [bazarevsky2020].

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
from masquerade._optional import lazy_module
from masquerade.vision import network_files
from masquerade.vision.network_files import LiteNetwork, NetworkFile
from masquerade.vision.person_detector import PersonDetector, SearchMemory

cv2 = lazy_module("cv2", extra="vision")


NUM_JOINTS = 33
JOINTS = tuple(
    """nose left_eye_inner left_eye left_eye_outer right_eye_inner right_eye right_eye_outer
    left_ear right_ear mouth_left mouth_right left_shoulder right_shoulder left_elbow right_elbow
    left_wrist right_wrist left_pinky right_pinky left_index right_index left_thumb right_thumb
    left_hip right_hip left_knee right_knee left_ankle right_ankle left_heel right_heel
    left_foot_index right_foot_index""".split()
)
HIPS = (23, 24)
_MIRROR_TRUST = 0.8  # of what is trusted in a body that is half a mirror's
_MAX_HIP_DISTANCE = 0.15  # of the larger body's size: two whose hips are nearer are one,
_MAX_SIZE_RATIO = 1.6  # if neither is larger than the other by more than this ratio,
_MIN_SHARED_PIXELS = 0.6  # or two that share so many of their pixels
_MIN_HIDDEN_LIKELIHOOD = 0.3  # how likely a pixel must be somebody's to be hidden with them
_HIDDEN_MARGIN_PX = 9  # of the square that is shown: how far around that, likewise


@dataclass(frozen=True, kw_only=True, eq=False)
class PersonPose:
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
    def joint_box(self) -> np.ndarray:
        """(4,) left, top, right, bottom of all joints, in pixels; it may reach out of the frame."""
        return np.concatenate([self.joints[:, :2].min(axis=0), self.joints[:, :2].max(axis=0)])

    @property
    def box_side_px(self) -> float:
        """Of the box's longer side, in pixels."""
        left, top, right, bottom = self.joint_box
        return float(max(right - left, bottom - top))

    @property
    def hip_centre(self) -> np.ndarray:
        """(2,) their middle, in pixels."""
        return np.asarray(self.joints[HIPS, :2].mean(axis=0))

    def project_mask(self, rows: int, columns: int) -> np.ndarray:
        """(H, W) float32: how likely each pixel of the frame is this person's."""
        _check.count(rows=rows, columns=columns)
        return np.asarray(
            cv2.warpAffine(self.likely, self.to_frame, (columns, rows), flags=cv2.INTER_LINEAR)
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class SeenPose:
    """Somebody, and the square (2, 3) in which to look for them next."""

    pose: PersonPose
    square: np.ndarray


def count_visible_joints(pose: PersonPose, frame: np.ndarray) -> int:
    """How many joints lie in the frame and are likelier seen than not."""
    return int(np.sum(_is_inside(pose, frame) & (pose.joints[:, 2] > 0.5)))


def lower_mirror_trust(pose: PersonPose, frame: np.ndarray) -> PersonPose:
    """The same, seen with a mirror at the edge: what lies there is not, and the rest a guess."""
    joints = pose.joints.copy()
    joints[:, 2] *= np.where(_is_inside(pose, frame), _MIRROR_TRUST, 0.0)
    return replace(pose, joints=joints)


def _is_inside(pose: PersonPose, frame: np.ndarray) -> np.ndarray:
    """(33,) bool: which joints lie in the frame."""
    height, width = frame.shape[:2]
    places = pose.joints[:, :2]
    return np.asarray(np.all((places >= 0) & (places < (width, height)), axis=1))


def drop_twin_poses(sights: list[SeenPose]) -> list[SeenPose]:
    """The surest of each person, the surest first."""
    kept: list[SeenPose] = []
    for one in sorted(sights, key=lambda sight: -_compute_surety(sight.pose)):
        if all(not is_same(one.pose, other.pose) for other in kept):
            kept.append(one)
    return kept


def add_new_people(sights: list[SeenPose], more: list[SeenPose]) -> list[SeenPose]:
    """Those, and whoever of ``more`` is none of them."""
    return sights + [
        one for one in more if not any(is_same(one.pose, other.pose) for other in sights)
    ]


def find_people_pixels(sights: list[SeenPose], frame: np.ndarray) -> np.ndarray:
    """(H, W) bool: the pixels of some people, and a little around."""
    rows, columns = frame.shape[:2]
    hidden = np.zeros((rows, columns), bool)
    side = np.ones((2 * _HIDDEN_MARGIN_PX + 1,) * 2, np.uint8)
    for one in sights:
        wide = cv2.dilate((one.pose.likely > _MIN_HIDDEN_LIKELIHOOD).astype(np.float32), side)
        hidden |= replace(one.pose, likely=wide).project_mask(rows, columns) > 0.5
    return hidden


def paint_out(frame: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """The frame, plain grey where ``hidden`` (H, W) bool."""
    out = frame.copy()
    out[hidden] = np.rint(cv2.mean(frame)[:3])
    return out


def is_same(one: PersonPose, other: PersonPose) -> bool:
    """Whether hips and sizes agree, or most pixels; left and right may have been mistaken.

    A body that bends is taken for one that stands on its head, too: hips and sizes differ then.
    """
    smaller, larger = sorted([one.box_side_px, other.box_side_px])
    is_near = np.linalg.norm(one.hip_centre - other.hip_centre) <= _MAX_HIP_DISTANCE * larger
    return (
        bool(is_near and larger <= _MAX_SIZE_RATIO * smaller)
        or compute_pixel_overlap(one, other) > _MIN_SHARED_PIXELS
    )


def compute_pixel_overlap(one: PersonPose, other: PersonPose) -> float:
    """Of the pixels that are of either person, those that are of both."""
    if not (one.likely.size and other.likely.size):
        return 0.0
    back = cv2.invertAffineTransform(one.to_frame)
    way = back[:, :2] @ other.to_frame
    way[:, 2] += back[:, 2]
    moved = cv2.warpAffine(other.likely, way, one.likely.shape[::-1], flags=cv2.INTER_LINEAR)
    mine, theirs = one.likely > 0.5, other.likely > 0.5
    both = float((mine & (moved > 0.5)).sum())
    either = mine.sum() + abs(np.linalg.det(way[:, :2])) * theirs.sum() - both
    return both / max(float(either), 1.0)


def _compute_surety(pose: PersonPose) -> float:
    return pose.score + float(pose.joints[:, 2].mean())


SHOWN_PX = 256  # a side of the picture that the network takes
_AROUND = 1.25  # of the circle around a body: what the network is shown
_MAX_SQUARE_DISTANCE = 0.15  # of the side of a square: one that is so near shows the same person
_MAX_EDGE_DISTANCE = 0.3  # of half the side of a square: so near to an edge half a body may be out
_MAX_CUT_SCALE = 4  # as large is a picture first cut out that is then made smaller by means


def square_about(x: float, y: float, radius: float, turn: float) -> np.ndarray:
    """(2, 3): from pixels of the network's picture to pixels of the frame, around a body."""
    scale = 2 * max(_AROUND * radius, 1.0) / SHOWN_PX
    right, down = scale * np.cos(turn), scale * np.sin(turn)
    middle = SHOWN_PX / 2
    return np.array(
        [
            [right, -down, x - middle * (right - down)],
            [down, right, y - middle * (down + right)],
        ]
    )


def find_square_reach(square: np.ndarray, size: tuple[int, ...]) -> tuple[slice, slice]:
    """Rows and columns of a frame around what the network is shown."""
    places = compute_square_corners(square)
    (left, top), (right, bottom) = (
        np.clip(each, 0, size[::-1]).astype(int).tolist()
        for each in (places.min(axis=0), places.max(axis=0))
    )
    return slice(top, bottom), slice(left, right)


def compute_square_corners(square: np.ndarray) -> np.ndarray:
    """(4, 2) of a square (2, 3), in pixels of the frame."""
    far = float(SHOWN_PX)
    return np.asarray(np.array([[0, 0, 1], [far, 0, 1], [0, far, 1], [far, far, 1]]) @ square.T)


def is_alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two squares lie so near to each other that they show the same person."""
    apart = np.linalg.norm(
        compute_square_corners(one) - compute_square_corners(other), axis=1
    ).max()
    return bool(apart < _MAX_SQUARE_DISTANCE * SHOWN_PX * np.sqrt(np.linalg.det(one[:, :2])))


def is_at_edge(square: np.ndarray, frame: np.ndarray) -> bool:
    """Whether the middle of a square lies about at the left or the right edge of the frame."""
    places = compute_square_corners(square)
    middle, half = places[:, 0].mean(), np.ptp(places[:, 0]) / 2
    return bool(min(middle, frame.shape[1] - middle) < _MAX_EDGE_DISTANCE * half)


def cut_square(frame: np.ndarray, to_frame: np.ndarray, beyond: int) -> np.ndarray:
    """(256, 256, 3): the square, and what OpenCV calls ``beyond`` where it reaches out."""
    shrunk = np.sqrt(np.linalg.det(to_frame[:, :2]))
    times = int(np.clip(np.ceil(shrunk), 1, _MAX_CUT_SCALE))
    finer = to_frame / np.array([times, times, 1.0])
    cut = cv2.warpAffine(
        np.ascontiguousarray(frame),
        finer,
        (times * SHOWN_PX,) * 2,
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=beyond,
    )
    return np.asarray(cv2.resize(cut, (SHOWN_PX,) * 2, interpolation=cv2.INTER_AREA))


NETWORKS = ("pose_detection", "pose_landmark_full")
_POINTS = 39  # that it gives: the joints, two about the whole body, and four that are not used
_HUB, _RIM = 33, 34  # the middle of the hips, and a point on the circle around the body
_OUTPUTS = ((1, 5 * _POINTS), (1, 1), (1, 256, 256, 1), (1, 64, 64, _POINTS), (1, 3 * _POINTS))
_HEAT_REACH_CELLS = 3  # cells of the heatmap about a joint that say where it is
_MIN_HEAT = 0.5  # and how likely the likeliest of them must be
_MIN_FRAME_PX = 8  # a narrower frame shows nobody
_MIN_VISIBLE_JOINTS = 5  # joints in the frame, likelier seen than not, of somebody who counts
_MAX_SEARCH_ROUNDS = 4  # of hiding and searching, at most


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

    def load_networks(self) -> None:
        """Load both networks.

        Raises:
            BadInput: if one is not to be had, or is not what it should be.
            OSError: if no place that has it can be reached.
        """
        _ = self._person_detector, self._landmark_network

    def find_poses(self, frame: np.ndarray) -> tuple[PersonPose, ...]:
        """Everybody in a frame (H, W, 3) uint8, the surest first; nobody is an empty tuple."""
        _check_frame(frame)
        squares = self._refine_squares(frame, self._search_frame(frame))
        return tuple(sight.pose for sight in self._find_sights(frame, squares))

    def iter_film_poses(
        self,
        frames: Iterable[np.ndarray],
        *,
        every: int = 5,
        on_search: Callable[[np.ndarray], None] | None = None,
    ) -> Iterator[tuple[PersonPose, ...]]:
        """Everybody in each of some frames that follow each other, the surest first.

        Args:
            frames: each (H, W, 3) uint8, all of one size.
            every: of so many frames the detector searches one; in the others only those are
                looked for who were there before.
            on_search: given what the detector finds when it searches, (N, 4) as `PersonDetector`.
        """
        _check.count(every=every)
        before, seen = list[SeenPose](), SearchMemory()
        for number, frame in enumerate(frames):
            _check_frame(frame)
            before = self._follow_people(frame, [sight.square for sight in before])
            if number % every == 0:
                before, found = self._add_others(frame, before, seen)
                if on_search is not None:
                    on_search(found[:, :4])
            yield tuple(sight.pose for sight in before)

    def find_again(self, frame: np.ndarray, pose: PersonPose) -> PersonPose | None:
        """Somebody of another frame, looked for in this one near by; None if they are not there."""
        _check_frame(frame)
        found = self._find_sight(frame, pose.to_frame).pose
        return found if self._is_somebody(found, frame) else None

    @property
    def in_words(self) -> str:
        """What looked, for a report."""
        return network_files.describe_network_files(*self._network_files)

    @property
    def _network_files(self) -> tuple[NetworkFile, NetworkFile]:
        detects, looks = NETWORKS
        return NetworkFile(detects), NetworkFile(looks, self.model)

    def _search_frame(
        self,
        frame: np.ndarray,
        *,
        where: Mapping[int, np.ndarray] | None = None,
        beyond: bool = False,
        seen: SearchMemory | None = None,
    ) -> np.ndarray:
        """(N, 5): whom the detector finds."""
        if min(frame.shape[:2]) < _MIN_FRAME_PX:
            return np.zeros((0, 5))
        return self._person_detector.detect_with_turns(frame, where=where, beyond=beyond, seen=seen)

    def _follow_people(self, frame: np.ndarray, squares: list[np.ndarray]) -> list[SeenPose]:
        """Those who were there before; who is lost beside another is sought without the other."""
        seen = [self._find_sight(frame, square) for square in squares]
        kept = drop_twin_poses([one for one in seen if self._is_somebody(one.pose, frame)])
        lost = [each for each, one in zip(squares, seen, strict=True) if one not in kept]
        if not (kept and lost):
            return kept
        hidden = find_people_pixels(kept, frame)
        near = [square for square in lost if hidden[find_square_reach(square, hidden.shape)].any()]
        return add_new_people(kept, self._find_sights(paint_out(frame, hidden), near))

    def _add_others(
        self, frame: np.ndarray, known: list[SeenPose], seen: SearchMemory
    ) -> tuple[list[SeenPose], np.ndarray]:
        """Everybody, where some are known already; and (N, 5) whom the detector finds."""
        found = [self._search_frame(frame, beyond=True, seen=seen)]
        others = self._refine_squares(frame, found[0], besides=known)
        sights = add_new_people(known, self._find_sights(frame, others))
        new, shown = sights, frame
        for _ in range(_MAX_SEARCH_ROUNDS):
            if not new:
                break
            shown = paint_out(shown, find_people_pixels(new, frame))
            found.append(self._search_frame(shown, where=self._find_people_beside(new, frame)))
            more = self._find_sights(shown, self._refine_squares(shown, found[-1]))
            new = add_new_people(sights, more)[len(sights) :]
            sights = sights + new
        return sights, np.vstack(found)

    def _find_people_beside(
        self, people: list[SeenPose], frame: np.ndarray
    ) -> dict[int, np.ndarray]:
        """(H, W) bool by parts: people who fit into a square of those, and may outshine others."""
        side = min(frame.shape[:2])
        return {
            parts: find_people_pixels(
                [one for one in people if parts * one.pose.box_side_px <= side], frame
            )
            if parts > 1
            else find_people_pixels(people, frame)
            for parts in self.parts
        }

    def _refine_squares(
        self, frame: np.ndarray, found: np.ndarray, *, besides: Sequence[SeenPose] = ()
    ) -> list[np.ndarray]:
        """Where the detector thinks that somebody is; seen once, each is put right."""
        squares: list[np.ndarray] = []
        for x, y, radius, _, turn in found:
            square = square_about(x, y, radius, turn)
            if not any(is_alike(square, one.square) for one in besides):
                sight = self._find_sight(frame, square)
                if self._is_somebody(sight.pose, frame):
                    squares.append(sight.square)
        return squares

    def _find_sights(self, frame: np.ndarray, squares: list[np.ndarray]) -> list[SeenPose]:
        sights = [self._find_sight(frame, square) for square in squares]
        return drop_twin_poses([one for one in sights if self._is_somebody(one.pose, frame)])

    def _is_somebody(self, pose: PersonPose, frame: np.ndarray) -> bool:
        return (
            pose.score >= self.thresh and count_visible_joints(pose, frame) >= _MIN_VISIBLE_JOINTS
        )

    def _find_sight(self, frame: np.ndarray, square: np.ndarray) -> SeenPose:
        """What is in a square of the frame; half a body at its edge is shown with a mirror, too."""
        sight = self._run_on_square(frame, square)
        if not is_at_edge(square, frame) or self._is_somebody(sight.pose, frame):
            return sight
        half = self._run_on_square(frame, square, is_mirrored=True)
        return replace(half, pose=lower_mirror_trust(half.pose, frame))

    def _run_on_square(
        self, frame: np.ndarray, square: np.ndarray, *, is_mirrored: bool = False
    ) -> SeenPose:
        """What the network says of a square, shown black or a mirror beyond the frame."""
        beyond = cv2.BORDER_REFLECT if is_mirrored else cv2.BORDER_CONSTANT
        raw, score, mask, heat, world = self._landmark_network(
            cut_square(frame, square, beyond) / 255.0
        )
        points = _sharpen_points(raw.reshape(_POINTS, 5), heat)
        places = points[:, :2] @ square[:, :2].T + square[:, 2]
        turned = square[:, :2] / np.sqrt(np.linalg.det(square[:, :2]))
        metres = world.reshape(_POINTS, 3)[:NUM_JOINTS].astype(float)
        metres[:, :2] = metres[:, :2] @ turned.T
        (x, y), (right, down) = places[_HUB], places[_RIM] - places[_HUB]
        again = square_about(x, y, np.hypot(right, down), np.arctan2(right, -down))
        pose = PersonPose(
            joints=np.column_stack([places, _compute_sigmoid(points[:, 3:])])[:NUM_JOINTS],
            world=metres,
            score=float(score[0]),
            likely=_compute_sigmoid(mask[..., 0]).astype(np.float32),
            to_frame=square,
        )
        return SeenPose(pose=pose, square=again)

    @cached_property
    def _person_detector(self) -> PersonDetector:
        return PersonDetector(
            self._network_files[0].find_path(), thresh=self.thresh, parts=self.parts
        )

    @cached_property
    def _landmark_network(self) -> LiteNetwork:
        return LiteNetwork(self._network_files[1].find_path(), outputs=_OUTPUTS)


def _check_frame(frame: np.ndarray) -> None:
    _check.shape("H W 3", frame=frame)
    if frame.dtype != np.uint8 or not frame.size:
        raise ValueError(f"Expected frame as uint8 pixels, got {frame.shape} {frame.dtype}.")


def _sharpen_points(points: np.ndarray, heat: np.ndarray) -> np.ndarray:
    """Points (39, 5) moved to the weighted mean of the heatmap (64, 64, 39) near each, if clear."""
    cells = len(heat)
    moved, likely = points.astype(float), _compute_sigmoid(heat)
    for number, (x, y) in enumerate(points[:, :2] * cells / SHOWN_PX):
        if not (0 <= x < cells and 0 <= y < cells):
            continue
        rows = slice(max(int(y) - _HEAT_REACH_CELLS, 0), int(y) + _HEAT_REACH_CELLS + 1)
        columns = slice(max(int(x) - _HEAT_REACH_CELLS, 0), int(x) + _HEAT_REACH_CELLS + 1)
        near = likely[rows, columns, number]
        if near.max() < _MIN_HEAT:
            continue
        at = np.indices(near.shape).reshape(2, -1) @ near.ravel() / near.sum()
        place = np.array([columns.start + at[1], rows.start + at[0]])
        moved[number, :2] = place * SHOWN_PX / cells
    return moved


def _compute_sigmoid(values: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * values.astype(float)))
