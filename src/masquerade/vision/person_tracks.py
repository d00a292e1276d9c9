"""Follow people over frames by their joints, so that one person's movement can be had.

In each frame the people found are given to the tracks whose joints are nearest, where they were
last or where their velocity leads; all at once, so that the sum of distances is least. What is too
far from every track begins a new one. Frames in which somebody was missed are filled in between; a
track that was missed for longer ends where it was last seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from masquerade import _check
from masquerade._optional import optimize
from masquerade.vision.poses import Pose

_FAR = 0.35  # body sizes between foretold joints and found ones, above which they are not one's,
_FARTHER = 0.05  # and what is added for each frame in which the person was missed
_FARTHEST = 1.0  # at most
_LIKE = 2.0  # ratio of sizes above which two bodies differ
_MEMORY = 5  # frames that say how fast somebody moves


@dataclass(frozen=True, kw_only=True, eq=False)
class Track:
    """One person over T frames that follow each other.

    Args:
        start: the first frame.
        joints: (T, 33, 4) as in ``Pose``; where the person was missed, what is in between.
        world: (T, 33, 3) metres, as in ``Pose``.
        is_seen: (T,) whether the person was found there.
    """

    start: int
    joints: np.ndarray
    world: np.ndarray
    is_seen: np.ndarray

    def __len__(self) -> int:
        return len(self.joints)

    @property
    def stop(self) -> int:
        """The frame after the last."""
        return self.start + len(self.joints)

    @property
    def boxes(self) -> np.ndarray:
        """(T, 4) left, top, right, bottom of all joints, in pixels."""
        places = self.joints[..., :2]
        return np.concatenate([places.min(axis=1), places.max(axis=1)], axis=1)


@dataclass(kw_only=True, eq=False)
class _Followed:
    """A track that grows: the frames in which somebody was found, and how."""

    frames: list[int] = field(default_factory=list)
    poses: list[Pose] = field(default_factory=list)

    def foretold(self, frame: int) -> np.ndarray:
        """(33, 2): where the last joints are in ``frame`` if they go on as fast as before."""
        times = np.array(self.frames[-_MEMORY:], float)
        hips = np.array([pose.hips for pose in self.poses[-_MEMORY:]])
        since = times - times.mean()
        spread = float(since @ since)
        velocity = since @ hips / spread if spread else np.zeros(2)
        return np.asarray(self.poses[-1].joints[:, :2] + velocity * (frame - times[-1]))


def tracked(
    poses_per_frame: Iterable[Sequence[Pose]], *, gap: int = 15, least: int = 2
) -> tuple[Track, ...]:
    """The people of a film, each over the frames from the first to the last find.

    Args:
        poses_per_frame: everybody in each frame, as ``PoseLandmarks.people`` finds them.
        gap: the most frames in a row in which somebody may be missed.
        least: finds that a track must have; fewer are seldom a person.
    """
    _check.not_negative(gap=gap)
    _check.count(least=least)
    live: list[_Followed] = []
    ended: list[_Followed] = []
    for frame, poses in enumerate(poses_per_frame):
        ended += [one for one in live if frame - one.frames[-1] > gap + 1]
        live = [one for one in live if frame - one.frames[-1] <= gap + 1]
        pairs = _best_pairs(live, poses, frame)
        for number, pose in enumerate(poses):
            if number in pairs:
                one = live[pairs[number]]
            else:
                live.append(one := _Followed())
            one.frames.append(frame)
            one.poses.append(pose)
    found = [_filled(one) for one in ended + live if len(one.frames) >= least]
    return tuple(sorted(found, key=lambda track: (track.start, -len(track))))


def _best_pairs(live: list[_Followed], poses: Sequence[Pose], frame: int) -> dict[int, int]:
    """Which pose goes with which track: the pairs whose distances have the least sum."""
    if not live or not poses:
        return {}
    foretold = np.array([one.foretold(frame) for one in live])  # (M, 33, 2)
    last = np.array([one.poses[-1].joints[:, :2] for one in live])
    found = np.array([pose.joints[:, :2] for pose in poses])  # (N, 33, 2)
    sizes, others = _sizes(last)[:, None], _sizes(found)[None]  # (M, 1), (1, N)
    apart = np.minimum(_apart(foretold, found), _apart(last, found)) / np.maximum(sizes, others)
    missed = np.array([frame - one.frames[-1] - 1 for one in live])
    may_be = np.maximum(sizes, others) <= _LIKE * np.minimum(sizes, others)
    may_be &= apart <= np.minimum(_FAR + _FARTHER * missed, _FARTHEST)[:, None]
    never = 1e3  # so many pairs as possible, then the nearest
    rows, columns = optimize.linear_sum_assignment(np.where(may_be, apart, never))
    return {int(n): int(m) for m, n in zip(rows, columns, strict=True) if may_be[m, n]}


def _apart(joints: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(M, N): how far bodies (M, 33, 2) and (N, 33, 2) are apart, in the mean over joints."""
    return np.asarray(np.linalg.norm(joints[:, None] - others[None], axis=3).mean(axis=2))


def _sizes(joints: np.ndarray) -> np.ndarray:
    """The larger of height and width of each body (N, 33, 2), above zero."""
    return np.asarray(np.maximum(np.ptp(joints, axis=1).max(axis=1), 1.0))


def _filled(one: _Followed) -> Track:
    """The track with what lies between two finds."""
    frames = np.arange(one.frames[0], one.frames[-1] + 1)
    return Track(
        start=one.frames[0],
        joints=_between(frames, one.frames, np.array([pose.joints for pose in one.poses])),
        world=_between(frames, one.frames, np.array([pose.world for pose in one.poses])),
        is_seen=np.isin(frames, one.frames),
    )


def _between(frames: np.ndarray, known: list[int], values: np.ndarray) -> np.ndarray:
    """Values (K, ...) of known frames at all of ``frames``, in straight lines."""
    after = np.clip(np.searchsorted(known, frames), 1, max(len(known) - 1, 1))
    if len(known) == 1:
        return np.repeat(values, len(frames), axis=0)
    times = np.array(known, float)
    share = (frames - times[after - 1]) / (times[after] - times[after - 1])
    share = share.reshape(-1, *[1] * (values.ndim - 1))
    return np.asarray(values[after - 1] + share * (values[after] - values[after - 1]))
