"""People whom an attacker knows, and how near recordings of somebody are to each of them.

Who is seen in a film, as an attacker finds them, or as the labels have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from masquerade.attacks.attack import Recording
from masquerade.attacks.rates import Discriminants, Metric
from masquerade.errors import BadInput
from masquerade.recordings import Photo, Video
from masquerade.vision.poses import PersonPose, PoseLandmarks

_DETECTOR_SIDE_PX = 224  # as much as the detector sees; parts of smaller frames show no more
_BODY_MARGIN = 0.1  # of a body's height: how far it reaches beyond its joints


@dataclass(frozen=True, kw_only=True, eq=False)
class SeenBody:
    """One person in one frame.

    Args:
        box: (4,) left, top, right, bottom of the body, in pixels.
        mask: (H, W) how likely each pixel is theirs, 0 to 1.
    """

    box: np.ndarray
    mask: np.ndarray


class PoseSearch:
    """Looks for people in the whole frame, and in parts of a large one where nobody is found."""

    def find_people(self, frame: np.ndarray) -> tuple[PersonPose, ...]:
        """Everybody in a frame (H, W, 3), the surest first."""
        found = self._frame_landmarks.find_poses(frame)
        return (
            found
            if found or min(frame.shape[:2]) < _DETECTOR_SIDE_PX
            else self._crop_landmarks.find_poses(frame)
        )

    def find_nearest(self, frame: np.ndarray) -> SeenBody | None:
        """The largest person in a frame, if there is anybody."""
        found = [
            body
            for pose in self.find_people(frame)
            if (body := _make_seen_body(pose, frame)) is not None
        ]
        return max(
            found, key=lambda body: float(np.prod(body.box[2:] - body.box[:2])), default=None
        )

    @cached_property
    def _frame_landmarks(self) -> PoseLandmarks:
        return PoseLandmarks(parts=(1,))

    @cached_property
    def _crop_landmarks(self) -> PoseLandmarks:
        return PoseLandmarks(parts=(2,))


def frames_of(recording: Recording, *, by: str) -> np.ndarray:
    """(T, H, W, 3) of a film, or one frame of a photo.

    Raises:
        BadInput: for a signal.
    """
    if isinstance(recording, Video):
        return recording.frames
    if isinstance(recording, Photo):
        return recording.image[None]
    raise BadInput(f"Expected films or photos where by={by}, got a signal; use --by worn.")


def some_of(count: int, *, most: int) -> list[int]:
    """Up to ``most`` of the numbers below ``count``, evenly spread.

    Example:
        >>> some_of(16, most=4), some_of(3, most=4)
        ([2, 6, 10, 14], [0, 1, 2])
    """
    if count <= most:
        return list(range(count))
    return [int((number + 0.5) * count / most) for number in range(most)]


def read_true_joints(recording: Recording) -> np.ndarray:
    """(T, J, 2): where the labels have the joints.

    Raises:
        BadInput: if there are none.
    """
    joints = recording.joints if isinstance(recording, Video | Photo) else None
    if joints is None:
        raise BadInput(
            "Expected recordings with joints among their labels where joints=truth, got one "
            "without; use --joints estimated."
        )
    return joints if joints.ndim == 3 else joints[None]


def read_true_body(recording: Recording, number: int) -> SeenBody | None:
    """The person in one frame as the labels have them; None where they are out of sight."""
    joints = read_true_joints(recording)[number]
    height, width = frames_of(recording, by="body").shape[1:3]
    box = _clip_box(_enclose_joints(joints), height, width)
    if box is None:
        return None
    return SeenBody(box=box, mask=np.ones((height, width)))  # a true outline would tell by itself


def _make_seen_body(pose: PersonPose, frame: np.ndarray) -> SeenBody | None:
    height, width = frame.shape[:2]
    box = _clip_box(_enclose_joints(pose.joints[:, :2]), height, width)
    return None if box is None else SeenBody(box=box, mask=pose.project_mask(height, width))


def _enclose_joints(joints: np.ndarray) -> np.ndarray:
    """A box about joints (J, 2) and a little more; NaN where none is known."""
    known = joints[np.all(np.isfinite(joints), axis=1)]
    if not len(known):
        return np.full(4, np.nan)
    low, high = known.min(axis=0), known.max(axis=0)
    more = _BODY_MARGIN * (high[1] - low[1])
    return np.concatenate([low - more, high + more])


def _clip_box(box: np.ndarray, height: int, width: int) -> np.ndarray | None:
    """What of a box lies in the frame; None for less than a pixel."""
    inside = np.clip(box, 0, [width, height, width, height])
    is_there = bool(np.all(np.isfinite(box))) and np.all(inside[2:] - inside[:2] >= 1)
    return inside if is_there else None


_MIN_NORM = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class Appearance:
    """What was seen in some recordings.

    Args:
        rows: of each recording (K, D), one row a look; K is 0 where nobody was seen.
        subjects: who is in each.
    """

    rows: Sequence[np.ndarray]
    subjects: tuple[str, ...]

    @property
    def is_seen(self) -> np.ndarray:
        """(N,) bool: in which recordings somebody was seen."""
        return np.array([len(rows) > 0 for rows in self.rows])


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownPeople:
    """Known people.

    Args:
        people: their names, sorted.
        metric: in which they are compared.
        middles: (P, K) where each lies in it, of unit length; NaN for who was never seen.
    """

    people: tuple[str, ...]
    metric: Metric
    middles: np.ndarray

    def measure_distances(self, looks: Appearance) -> np.ndarray:
        """(N, P) from 0 to 2, one minus a cosine; infinite where one of both was never seen."""
        found = np.full((len(looks.rows), len(self.people)), np.inf)
        for number in np.flatnonzero(looks.is_seen).tolist():
            found[number] = 1.0 - self.middles @ _average_direction(self.metric(looks.rows[number]))
        return np.where(np.isnan(found), np.inf, found)

    def find_columns(self, subjects: Sequence[str]) -> np.ndarray:
        """(N,) the place of each name among the people.

        Raises:
            BadInput: if somebody is not among them.
        """
        missing = sorted(set(subjects) - set(self.people))
        if missing:
            raise BadInput(
                f"Expected known recordings of everybody who is published, got none of "
                f"{', '.join(missing)}; add some, or leave out what is published of them."
            )
        return np.array([self.people.index(each) for each in subjects])


def enrol_people(looks: Appearance) -> KnownPeople:
    """Learn how people differ, and where each of them lies.

    Raises:
        BadInput: if there are fewer than two people who are seen.
    """
    people = tuple(sorted(set(looks.subjects)))
    whose = np.array([people.index(each) for each in looks.subjects], int)
    seen = np.flatnonzero(looks.is_seen).tolist()
    if len(set(whose[seen].tolist())) < 2:
        raise BadInput(
            f"Expected recordings of at least two known people in which they are seen, got "
            f"{len(looks.rows)} of {len(people)} people, and {len(seen)} in which somebody is."
        )
    rows = np.concatenate([looks.rows[n] for n in seen])
    metric = Discriminants().learn_metric(
        rows, np.concatenate([[whose[n]] * len(looks.rows[n]) for n in seen])
    )
    middles = np.full((len(people), metric.matrix.shape[1]), np.nan)
    for number in set(whose[seen].tolist()):
        own = [_average_direction(metric(looks.rows[n])) for n in seen if whose[n] == number]
        middles[number] = _average_direction(np.array(own))
    return KnownPeople(people=people, metric=metric, middles=middles)


def _average_direction(rows: np.ndarray) -> np.ndarray:
    """The mean of rows (N, K), of unit length."""
    mean = rows.mean(axis=0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), _MIN_NORM))
