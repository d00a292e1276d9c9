"""People and faces followed over frames, by their joints and by their boxes.

Follow faces over frames, so that one that is missed for a moment stays covered.

Boxes are linked to the track whose constant velocity foretells them best; the linking looks back
only. What is covered in frame t is read off the tracks when the frames up to t + reach are known:
a box that was found, one between two that were found, or the first or last of a track, moved
along with it. Those are held for one frame less than the face was found in, at most ``hold``, and
for fewer where the detector was not sure: what flashes up once is seldom a face. Between two finds
at one place all is covered, whatever tracks they belong to. A box may grow by what its neighbours
say, never shrink.

A box is left, top, right, bottom, in pixels.

Boxes: how far two are apart, how much of them is shared, where one is in between.

A box is left, top, right, bottom, in pixels; what else stands in its row is left alone.

Cover what lies between two finds at one place, whatever they were linked to.

Linking gives each find to one track, and may give it to the wrong one: where two faces meet, or
where something else is found for a frame beside a face that is missed. Then no track leads from
the face before to the face after. Here every find is joined with the one that overlaps it most in
each later frame in reach, and what is between the two is covered unless a track does so already.

Frames with the boxes of all faces to be covered in them, each when enough is known.

Follow people over frames by their joints, so that one person's movement can be had.

In each frame the people found are given to the tracks whose joints are nearest, where they were
last or where their velocity leads; all at once, so that the sum of distances is least. What is too
far from every track begins a new one. Frames in which somebody was missed are filled in between; a
track that was missed for longer ends where it was last seen.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from masquerade import _check
from masquerade._optional import optimize
from masquerade.vision.poses import PersonPose

_FAR_PERSON_TRACKS = (
    0.35  # body sizes between foretold joints and found ones, above which they are not one's,
)
_FARTHER_PERSON_TRACKS = 0.05  # and what is added for each frame in which the person was missed
_MAX_GAP_DISTANCE = 1.0  # at most
_MAX_SIZE_RATIO = 2.0  # ratio of sizes above which two bodies differ
_BOXES_PER_ESTIMATE = 5  # frames that say how fast somebody moves


@dataclass(frozen=True, kw_only=True, eq=False)
class PersonTrack:
    """One person over T frames that follow each other.

    Args:
        start: the first frame.
        joints: (T, 33, 4) as in ``PersonPose``; where the person was missed, what is in between.
        world: (T, 33, 3) metres, as in ``PersonPose``.
        is_seen: (T,) whether the person was found there.
    """

    start: int
    joints: np.ndarray
    world: np.ndarray
    is_seen: np.ndarray

    def __len__(self) -> int:
        return len(self.joints)

    @property
    def stop_frame(self) -> int:
        """The frame after the last."""
        return self.start + len(self.joints)

    @property
    def boxes(self) -> np.ndarray:
        """(T, 4) left, top, right, bottom of all joints, in pixels."""
        places = self.joints[..., :2]
        return np.concatenate([places.min(axis=1), places.max(axis=1)], axis=1)


@dataclass(kw_only=True, eq=False)
class _GrowingTrack:
    """A track that grows: the frames in which somebody was found, and how."""

    frames: list[int] = field(default_factory=list)
    poses: list[PersonPose] = field(default_factory=list)

    def predict_joints(self, frame: int) -> np.ndarray:
        """(33, 2): where the last joints are in ``frame`` if they go on as fast as before."""
        times = np.array(self.frames[-_BOXES_PER_ESTIMATE:], float)
        hips = np.array([pose.hip_centre for pose in self.poses[-_BOXES_PER_ESTIMATE:]])
        since = times - times.mean()
        spread = float(since @ since)
        velocity = since @ hips / spread if spread else np.zeros(2)
        return np.asarray(self.poses[-1].joints[:, :2] + velocity * (frame - times[-1]))


def track_poses(
    poses_per_frame: Iterable[Sequence[PersonPose]], *, gap: int = 15, min_finds: int = 2
) -> tuple[PersonTrack, ...]:
    """The people of a film, each over the frames from the first to the last find.

    Args:
        poses_per_frame: everybody in each frame, as ``PoseLandmarks.find_poses`` finds them.
        gap: the most frames in a row in which somebody may be missed.
        min_finds: finds that a track must have; fewer are seldom a person.
    """
    _check.not_negative(gap=gap)
    _check.count(least=min_finds)
    live: list[_GrowingTrack] = []
    ended: list[_GrowingTrack] = []
    for frame, poses in enumerate(poses_per_frame):
        ended += [one for one in live if frame - one.frames[-1] > gap + 1]
        live = [one for one in live if frame - one.frames[-1] <= gap + 1]
        pairs = _best_pairs_person_tracks(live, poses, frame)
        for number, pose in enumerate(poses):
            if number in pairs:
                one = live[pairs[number]]
            else:
                live.append(one := _GrowingTrack())
            one.frames.append(frame)
            one.poses.append(pose)
    found = [_fill_gaps(one) for one in ended + live if len(one.frames) >= min_finds]
    return tuple(sorted(found, key=lambda track: (track.start, -len(track))))


def _best_pairs_person_tracks(
    live: list[_GrowingTrack], poses: Sequence[PersonPose], frame: int
) -> dict[int, int]:
    """Which pose goes with which track: the pairs whose distances have the least sum."""
    if not live or not poses:
        return {}
    foretold = np.array([one.predict_joints(frame) for one in live])  # (M, 33, 2)
    last = np.array([one.poses[-1].joints[:, :2] for one in live])
    found = np.array([pose.joints[:, :2] for pose in poses])  # (N, 33, 2)
    sizes, others = (
        _compute_body_sizes(last)[:, None],
        _compute_body_sizes(found)[None],
    )  # (M, 1), (1, N)
    apart = np.minimum(
        _compute_body_distances(foretold, found), _compute_body_distances(last, found)
    ) / np.maximum(sizes, others)
    missed = np.array([frame - one.frames[-1] - 1 for one in live])
    may_be = np.maximum(sizes, others) <= _MAX_SIZE_RATIO * np.minimum(sizes, others)
    may_be &= (
        apart
        <= np.minimum(_FAR_PERSON_TRACKS + _FARTHER_PERSON_TRACKS * missed, _MAX_GAP_DISTANCE)[
            :, None
        ]
    )
    never = 1e3  # so many pairs as possible, then the nearest
    rows, columns = optimize.linear_sum_assignment(np.where(may_be, apart, never))
    return {int(n): int(m) for m, n in zip(rows, columns, strict=True) if may_be[m, n]}


def _compute_body_distances(joints: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(M, N): how far bodies (M, 33, 2) and (N, 33, 2) are apart, in the mean over joints."""
    return np.asarray(np.linalg.norm(joints[:, None] - others[None], axis=3).mean(axis=2))


def _compute_body_sizes(joints: np.ndarray) -> np.ndarray:
    """The larger of height and width of each body (N, 33, 2), above zero."""
    return np.asarray(np.maximum(np.ptp(joints, axis=1).max(axis=1), 1.0))


def _fill_gaps(one: _GrowingTrack) -> PersonTrack:
    """The track with what lies between two finds."""
    frames = np.arange(one.frames[0], one.frames[-1] + 1)
    return PersonTrack(
        start=one.frames[0],
        joints=_interpolate_values(
            frames, one.frames, np.array([pose.joints for pose in one.poses])
        ),
        world=_interpolate_values(frames, one.frames, np.array([pose.world for pose in one.poses])),
        is_seen=np.isin(frames, one.frames),
    )


def _interpolate_values(frames: np.ndarray, known: list[int], values: np.ndarray) -> np.ndarray:
    """Values (K, ...) of known frames at all of ``frames``, in straight lines."""
    after = np.clip(np.searchsorted(known, frames), 1, max(len(known) - 1, 1))
    if len(known) == 1:
        return np.repeat(values, len(frames), axis=0)
    times = np.array(known, float)
    share = (frames - times[after - 1]) / (times[after] - times[after - 1])
    share = share.reshape(-1, *[1] * (values.ndim - 1))
    return np.asarray(values[after - 1] + share * (values[after] - values[after - 1]))


def compute_overlap(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Intersection over union of one box with each of ``boxes``; front axes are broadcast.

    Example:
        >>> boxes = np.array([[0, 0, 2, 2], [1, 0, 3, 2], [5, 5, 6, 6]])
        >>> compute_overlap(np.array([0, 0, 2, 2]), boxes)
        array([1.        , 0.33333333, 0.        ])
    """
    both = _compute_intersection(box, boxes)
    whole = _compute_areas(box) + _compute_areas(boxes) - both
    return np.asarray(both / np.maximum(whole, np.finfo(float).tiny))


def share_inside(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """How much of one box lies in each of ``boxes``, 0 to 1; axes in front are broadcast.

    Example:
        >>> share_inside(np.array([0, 0, 2, 2]), np.array([[1, 0, 9, 9], [5, 5, 6, 6]]))
        array([0.5, 0. ])
    """
    return np.asarray(
        _compute_intersection(box, boxes) / np.maximum(_compute_areas(box), np.finfo(float).tiny)
    )


def compute_box_centres(boxes: np.ndarray) -> np.ndarray:
    """The middle of each box, (N, 2)."""
    return np.asarray(boxes[:, :2] + boxes[:, 2:4]) / 2


def mean_sides(boxes: np.ndarray) -> np.ndarray:
    """Mean of width and height of each box, above zero."""
    return np.asarray(np.maximum(np.mean(boxes[:, 2:4] - boxes[:, :2], axis=1), 1e-6))


def grow_to_size(box: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The box, grown about its centre to ``size`` (width, height) where it is smaller."""
    lack = np.maximum(size - (box[2:] - box[:2]), 0.0) / 2
    return np.concatenate([box[:2] - lack, box[2:] + lack])


def _compute_intersection(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Area of the intersection."""
    least = np.minimum(box[..., 2:4], boxes[..., 2:4])
    most = np.maximum(box[..., :2], boxes[..., :2])
    return np.asarray(np.prod(np.maximum(least - most, 0.0), axis=-1))


def _compute_areas(boxes: np.ndarray) -> np.ndarray:
    return np.asarray(np.prod(boxes[..., 2:4] - boxes[..., :2], axis=-1))


MIN_SAME_OVERLAP = 0.3  # overlap from which on two finds are taken for one face
MIN_COVERED_SHARE = (
    0.5  # share of a box that lies in another, from which on it needs no cover of its own
)
_MAX_BRIDGE_FRAMES = 8  # with finds, that are joined with a new one; longer ways are for tracks


@dataclass(frozen=True, kw_only=True, eq=False)
class BoxBridge:
    """Two finds of one place: the frame and the box (4,) of each."""

    start: int
    stop: int
    first: np.ndarray
    last: np.ndarray

    def interpolate_box(self, frame: int) -> np.ndarray:
        """The box in a frame between the two."""
        share = (frame - self.start) / (self.stop - self.start)
        return np.asarray(self.first + (self.last - self.first) * share)


class BoxBridges:
    """All that lies between finds of a video.

    Args:
        reach: the most frames between two finds.
    """

    def __init__(self, *, reach: int) -> None:
        self.reach = reach
        self._recent: deque[tuple[int, np.ndarray]] = deque(maxlen=_MAX_BRIDGE_FRAMES)
        self._bridges: list[BoxBridge] = []

    def add_finds(self, frame: int, faces: np.ndarray) -> None:
        """Join the faces (N, 5) found in ``frame`` with earlier ones; frames come in order."""
        if not len(faces):
            return
        for before, earlier in self._recent:
            if 1 < frame - before <= self.reach + 1:
                self._bridges += _join_boxes(before, earlier, frame, faces[:, :4])
        self._recent.append((frame, faces[:, :4]))

    def find_missing_boxes(self, boxes: np.ndarray, *, frame: int) -> np.ndarray:
        """The boxes (N, 4) that ``frame`` needs besides these; frames are asked for in order."""
        self._bridges = [bridge for bridge in self._bridges if bridge.stop > frame]
        between = [
            bridge.interpolate_box(frame) for bridge in self._bridges if bridge.start < frame
        ]
        is_bare = ~np.any(
            share_inside(_stack_boxes(between)[:, None], boxes) >= MIN_COVERED_SHARE, axis=1
        )
        needed: list[np.ndarray] = []
        for box in _stack_boxes(between)[is_bare]:
            if not np.any(share_inside(box, _stack_boxes(needed)) >= MIN_COVERED_SHARE):
                needed.append(box)
        return _stack_boxes(needed)


def _join_boxes(start: int, earlier: np.ndarray, stop: int, later: np.ndarray) -> list[BoxBridge]:
    """A bridge from each of the earlier boxes to the later one that overlaps it most, if any."""
    shared = compute_overlap(earlier[:, None], later)  # (M, N)
    return [
        BoxBridge(start=start, stop=stop, first=first, last=later[best])
        for first, best, most in zip(
            earlier, np.argmax(shared, axis=1), np.max(shared, axis=1), strict=True
        )
        if most >= MIN_SAME_OVERLAP
    ]


def _stack_boxes(boxes: list[np.ndarray]) -> np.ndarray:
    return np.array(boxes).reshape(-1, 4)


_FAR_FACE_TRACKS = (
    1.0  # face sizes between a foretold centre and a found one, above which they differ,
)
_FARTHER_FACE_TRACKS = 0.25  # and what is added for each frame in which the face was missed
_SURE_SCORE = 0.5  # score from which on a find counts whole, and below it less


@dataclass(kw_only=True, eq=False)
class FaceTrack:
    """One face: the frames in which it was found, and its box and score there."""

    frames: list[int] = field(default_factory=list)
    faces: list[np.ndarray] = field(default_factory=list)

    def estimate_box(self, frame: int, *, reach: int) -> np.ndarray:
        """Where the face is in ``frame``, as far as the frames up to ``frame + reach`` tell."""
        after = bisect_left(self.frames, frame)
        window = slice(
            max(0, after - _BOXES_PER_ESTIMATE), bisect_right(self.frames, frame + reach)
        )
        times = np.array(self.frames[window])
        boxes = np.array(self.faces[window])[:, :4]
        if frame < times[0] or frame > times[-1]:
            box = _extrapolate_box(times, boxes, frame)
        else:
            box = np.array([np.interp(frame, times, side) for side in boxes.T])
        close = boxes[np.argsort(np.abs(times - frame), kind="stable")[:_BOXES_PER_ESTIMATE]]
        return grow_to_size(box, np.median(close[:, 2:] - close[:, :2], axis=0))

    def is_seen(self, frame: int, *, hold: int, reach: int) -> bool:
        """Whether the face is to be covered in ``frame``, as far as ``frame + reach`` tells."""
        known = bisect_right(self.frames, frame + reach)
        sure = math.floor(sum(min(1.0, face[4] / _SURE_SCORE) for face in self.faces[:known]))
        away = max(self.frames[0] - frame, frame - self.frames[-1], 0)
        return bool(away <= min(hold, sure, max(known - 1, 0)))


class FaceTracks:
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
        self._bridges = BoxBridges(reach=self.reach)

    def link_faces(self, frame: int, faces: np.ndarray) -> None:
        """Link the faces (N, 5) found in ``frame``; frames come in order."""
        open_tracks = [track for track in self.live if frame - track.frames[-1] <= self.reach + 1]
        foretold = [track.estimate_box(frame, reach=self.reach) for track in open_tracks]
        missed = np.array([frame - track.frames[-1] - 1 for track in open_tracks])
        taken: set[int] = set()
        for number, face in _best_pairs_face_tracks(
            np.array(foretold).reshape(-1, 4), faces, missed
        ):
            open_tracks[number].frames.append(frame)
            open_tracks[number].faces.append(faces[face])
            taken.add(face)
        for face in set(range(len(faces))) - taken:
            self.live.append(FaceTrack(frames=[frame], faces=[faces[face]]))
        self._bridges.add_finds(frame, faces)

    def list_boxes(self, frame: int) -> np.ndarray:
        """The boxes (N, 4) to cover in ``frame``.

        Every frame up to ``frame + reach`` must have been added; frames are asked for in order.
        """
        over = [track for track in self.live if track.frames[-1] + self.reach < frame]
        self.ended += over
        self.live = [track for track in self.live if track not in over]
        boxes = [
            track.estimate_box(frame, reach=self.reach)
            for track in self.live
            if track.is_seen(frame, hold=self.hold, reach=self.reach)
        ]
        covered = np.array(boxes).reshape(-1, 4)
        return np.vstack([covered, self._bridges.find_missing_boxes(covered, frame=frame)])


def _best_pairs_face_tracks(
    foretold: np.ndarray, faces: np.ndarray, missed: np.ndarray
) -> list[tuple[int, int]]:
    """Which track goes with which face: the nearest pair first, each used once."""
    sizes, found = mean_sides(foretold)[:, None], mean_sides(faces)[None]  # (M, 1), (1, N)
    apart = np.linalg.norm(
        compute_box_centres(foretold)[:, None] - compute_box_centres(faces)[None], axis=2
    )
    apart /= np.maximum(sizes, found)
    may_be = np.maximum(sizes, found) <= _MAX_SIZE_RATIO * np.minimum(sizes, found)
    may_be &= apart <= _FAR_FACE_TRACKS + _FARTHER_FACE_TRACKS * missed[:, None]
    pairs: list[tuple[int, int]] = []
    order = np.argsort(apart[may_be], kind="stable")
    for number, face in np.argwhere(may_be)[order].tolist():
        if all(number != other and face != taken for other, taken in pairs):
            pairs.append((number, face))
    return pairs


def _extrapolate_box(times: np.ndarray, boxes: np.ndarray, frame: int) -> np.ndarray:
    """The box at the near end of a track, moved to ``frame`` with the velocity there."""
    end = 0 if frame < times[0] else len(times) - 1
    near = slice(0, _BOXES_PER_ESTIMATE) if end == 0 else slice(-_BOXES_PER_ESTIMATE, None)
    since = times[near] - np.mean(times[near])
    spread = float(since @ since)
    velocity = since @ compute_box_centres(boxes[near]) / spread if spread else np.zeros(2)
    return np.asarray(boxes[end] + np.tile(velocity * (frame - times[end]), 2))


def follow_faces(
    found: Iterator[tuple[np.ndarray, np.ndarray]], tracks: FaceTracks
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each frame with its boxes (N, 4); it waits for as many more as the tracks reach.

    Args:
        found: each frame with the faces (N, 5) that were found in it.
        tracks: empty; they hold all faces in the end.
    """
    waiting: deque[tuple[int, np.ndarray]] = deque()
    for number, (newest, faces) in enumerate(found):
        tracks.link_faces(number, faces)
        waiting.append((number, newest))
        if len(waiting) > tracks.reach:
            oldest, frame = waiting.popleft()
            yield frame, tracks.list_boxes(oldest)
    for oldest, frame in waiting:
        yield frame, tracks.list_boxes(oldest)
