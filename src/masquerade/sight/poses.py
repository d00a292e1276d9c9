"""People in one frame, as BlazePose gives them: joints, pixels, and who of two is the same."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from masquerade import _check
from masquerade._optional import Later

cv2 = Later("cv2", extra="vision")

NUM_JOINTS = 33
JOINTS = tuple(
    """nose left_eye_inner left_eye left_eye_outer right_eye_inner right_eye right_eye_outer
    left_ear right_ear mouth_left mouth_right left_shoulder right_shoulder left_elbow right_elbow
    left_wrist right_wrist left_pinky right_pinky left_index right_index left_thumb right_thumb
    left_hip right_hip left_knee right_knee left_ankle right_ankle left_heel right_heel
    left_foot_index right_foot_index""".split()
)
HIPS = (23, 24)
_MIRRORED = 0.8  # of what is trusted in a body that is half a mirror's
_SAME = 0.15  # of the larger body's size: two whose hips are nearer are one,
_LIKE = 1.6  # if neither is larger than the other by more than this ratio,
_SHARED = 0.6  # or two that share so many of their pixels
_HIDDEN = 0.3  # how likely a pixel must be somebody's to be hidden with them
_HIDDEN_PX = 9  # of the square that is shown: how far around that, likewise


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
    def size(self) -> float:
        """Of the box's longer side, in pixels."""
        left, top, right, bottom = self.box
        return float(max(right - left, bottom - top))

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
class SeenPose:
    """Somebody, and the square (2, 3) in which to look for them next."""

    pose: Pose
    square: np.ndarray


def num_seen(pose: Pose, frame: np.ndarray) -> int:
    """How many joints lie in the frame and are likelier seen than not."""
    return int(np.sum(_is_inside(pose, frame) & (pose.joints[:, 2] > 0.5)))


def half_trusted(pose: Pose, frame: np.ndarray) -> Pose:
    """The same, seen with a mirror at the edge: what lies there is not, and the rest a guess."""
    joints = pose.joints.copy()
    joints[:, 2] *= np.where(_is_inside(pose, frame), _MIRRORED, 0.0)
    return replace(pose, joints=joints)


def _is_inside(pose: Pose, frame: np.ndarray) -> np.ndarray:
    """(33,) bool: which joints lie in the frame."""
    height, width = frame.shape[:2]
    places = pose.joints[:, :2]
    return np.asarray(np.all((places >= 0) & (places < (width, height)), axis=1))


def without_twins(sights: list[SeenPose]) -> list[SeenPose]:
    """The surest of each person, the surest first."""
    kept: list[SeenPose] = []
    for one in sorted(sights, key=lambda sight: -_surety(sight.pose)):
        if all(not is_same(one.pose, other.pose) for other in kept):
            kept.append(one)
    return kept


def joined(sights: list[SeenPose], more: list[SeenPose]) -> list[SeenPose]:
    """Those, and whoever of ``more`` is none of them."""
    return sights + [
        one for one in more if not any(is_same(one.pose, other.pose) for other in sights)
    ]


def pixels(sights: list[SeenPose], frame: np.ndarray) -> np.ndarray:
    """(H, W) bool: the pixels of some people, and a little around."""
    rows, columns = frame.shape[:2]
    hidden = np.zeros((rows, columns), bool)
    side = np.ones((2 * _HIDDEN_PX + 1,) * 2, np.uint8)
    for one in sights:
        wide = cv2.dilate((one.pose.likely > _HIDDEN).astype(np.float32), side)
        hidden |= replace(one.pose, likely=wide).mask(rows, columns) > 0.5
    return hidden


def without(frame: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """The frame, plain grey where ``hidden`` (H, W) bool."""
    out = frame.copy()
    out[hidden] = np.rint(cv2.mean(frame)[:3])
    return out


def is_same(one: Pose, other: Pose) -> bool:
    """Whether hips and sizes agree, or most pixels; left and right may have been mistaken.

    A body that bends is taken for one that stands on its head, too: hips and sizes differ then.
    """
    smaller, larger = sorted([one.size, other.size])
    is_near = np.linalg.norm(one.hips - other.hips) <= _SAME * larger
    return bool(is_near and larger <= _LIKE * smaller) or shared(one, other) > _SHARED


def shared(one: Pose, other: Pose) -> float:
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


def _surety(pose: Pose) -> float:
    return pose.score + float(pose.joints[:, 2].mean())
