"""One track a person: what lies over another or goes on from it is joined, what is unsure goes.

A finder that looks at each frame alone sees the same person twice now and then, loses somebody who
passes behind another, and takes a coat for a person for a frame or two. A figure would be drawn for
each of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from masquerade.vision.person_tracks import Track
from masquerade.vision.poses import Pose

_SAME = 0.22  # body sizes between mean joints of two tracks of one person
_SAME_NOSE = 0.04  # and between their noses
_ON = 0.09  # mean of the way to the other's nearest joint, if one is made of the other's parts
_DOUBT = 0.1  # by how much less it is trusted then
_AGAIN_S = 1.0  # seconds after which somebody may be found again where they went
_AGAIN = 0.5  # body sizes from the place where they were to be
_LIKE = 1.8  # ratio of sizes above which two are not one
_LEAST_S = 0.25  # seconds for which a person must be seen,
_LEAST = 3  # and frames, unless the film is shorter
_OFTEN = 0.35  # of the frames from the first to the last
_TORN = 0.036  # body sizes by which a person's joints in pixels and in metres differ
_SURE = 0.91  # mean of how likely the best half of the joints are seen


def sizes(track: Track) -> np.ndarray:
    """(T,) how large the body is in the picture, in pixels: a median over near frames."""
    boxes = track.boxes
    each = np.maximum(boxes[:, 2:] - boxes[:, :2], 1.0).max(axis=1)
    reach = np.arange(-7, 8)
    near = np.clip(np.arange(len(each))[:, None] + reach, 0, len(each) - 1)
    return np.asarray(np.median(each[near], axis=1))


def in_frame(poses: Sequence[Pose]) -> tuple[Pose, ...]:
    """The people of one frame without bodies that are made of another's parts, or have its face."""
    by_trust = sorted(poses, key=lambda pose: -_trust(pose.joints))
    kept: list[Pose] = []
    for pose in by_trust:
        places = pose.joints[:, :2]
        for other in kept:
            apart = np.linalg.norm(places[:, None] - other.joints[None, :, :2], axis=2)
            apart /= max(*(np.ptp(each.joints[:, :2], axis=0).max() for each in (pose, other)), 1.0)
            is_part = apart.min(axis=1).mean() < _ON
            is_part &= _trust(pose.joints) < _trust(other.joints) - _DOUBT / 2
            if is_part or apart[0, 0] < _SAME_NOSE:
                break
        else:
            kept.append(pose)
    return tuple(kept)


def only(tracks: list[Track], *, rate_hz: float, num_frames: int | None) -> list[Track]:
    """The people among some tracks, those first who come first."""
    held = [track for track in tracks if _is_sure(track)]
    joined = True
    while joined:
        joined = False
        held.sort(key=lambda track: (-int(track.is_seen.sum()), track.start))
        for first in range(len(held)):
            for second in range(first + 1, len(held)):
                one = _one(held[first], held[second], rate_hz)
                if one is not None:
                    held[first] = one
                    del held[second]
                    joined = True
                    break
            if joined:
                break
    last = num_frames if num_frames is not None else max((each.stop for each in held), default=0)
    least = min(max(_LEAST, round(_LEAST_S * rate_hz)), max(last, 1))
    held = [track for track in held if track.is_seen.sum() >= max(least, _OFTEN * len(track))]
    return sorted(held, key=lambda track: (track.start, -len(track)))


def _is_sure(track: Track) -> bool:
    seen = np.sort(track.joints[track.is_seen][..., 2:].prod(axis=2), axis=1)
    is_seen = len(seen) and seen[:, seen.shape[1] // 2 :].mean() >= _SURE
    return bool(is_seen and np.median(_torn(track)) <= _TORN)


def _torn(track: Track) -> np.ndarray:
    """(T,) how far joints in the picture and in metres are from each other, in body sizes.

    A network that takes a wheel for a person puts joints on it that no body has. Whoever lies
    along the view is larger where they are nearer; that, and from where they are seen, is allowed.
    """
    pixels, metres = track.joints[track.is_seen][..., :2], track.world[track.is_seen]
    size = np.maximum(np.ptp(pixels, axis=1).max(axis=1), 1.0)
    pixels, metres = (each - each.mean(axis=1, keepdims=True) for each in (pixels, metres))
    flat, away = metres[..., :2], metres[..., 2:]
    ways = [flat, flat * away, away * [1.0, 0.0], away * [0.0, 1.0]]
    ways = [each - each.mean(axis=1, keepdims=True) for each in ways]
    of = np.stack([each.reshape(len(each), -1) for each in ways], axis=2)  # (T, 66, 4)
    squares = np.swapaxes(of, 1, 2) @ of + 1e-9 * np.eye(len(ways))
    wanted = np.swapaxes(of, 1, 2) @ pixels.reshape(len(pixels), -1, 1)
    found = (of @ np.linalg.solve(squares, wanted)).reshape(pixels.shape)
    return np.asarray(np.linalg.norm(pixels - found, axis=2).mean(axis=1) / size)


def _one(first: Track, second: Track, rate_hz: float) -> Track | None:
    """Both as one track if they are one person's, else None."""
    start, stop = max(first.start, second.start), min(first.stop, second.stop)
    if start < stop:
        return _joined(first, second) if _is_over(first, second, rate_hz) else None
    early, late = (first, second) if first.start < second.start else (second, first)
    missed = late.start - early.stop
    if missed > _AGAIN_S * rate_hz:
        return None
    size, other = sizes(early)[-1], sizes(late)[0]
    if max(size, other) > _LIKE * min(size, other):
        return None
    there = early.joints[-1, :, :2].mean(axis=0) + _velocity(early) * (missed + 1)
    now = late.joints[0, :, :2].mean(axis=0)
    stood = early.joints[-1, :, :2].mean(axis=0)
    apart = min(np.linalg.norm(now - there), np.linalg.norm(now - stood))
    return _joined(early, late) if apart <= _AGAIN * max(size, other) else None


def _velocity(track: Track) -> np.ndarray:
    """(2,) pixels a frame at the end of a track."""
    last = track.joints[-6:, :, :2].mean(axis=1)
    return np.asarray((last[-1] - last[0]) / max(len(last) - 1, 1))


def _is_over(first: Track, second: Track, rate_hz: float) -> bool:
    """Whether two tracks lie on each other in most of the frames that both have.

    They have the same joints, or the same face, or one is a doubtful body made of the other's parts
    (a child before its parent is seen as surely as the parent, and for longer).
    """
    start, stop = max(first.start, second.start), min(first.stop, second.stop)
    both = [track.joints[start - track.start : stop - track.start] for track in (first, second)]
    places = [each[..., :2] for each in both]
    size = np.maximum(*(np.maximum(np.ptp(each, axis=1).max(axis=1), 1.0) for each in places))
    apart = np.linalg.norm(places[0][:, :, None] - places[1][:, None], axis=3)  # (T, 33, 33)
    apart /= size[:, None, None]
    beside = np.diagonal(apart, axis1=1, axis2=2).mean(axis=1)
    is_same = beside < _SAME
    is_same |= apart[:, 0, 0] < _SAME_NOSE
    found = [t.is_seen[start - t.start : stop - t.start] for t in (first, second)]
    is_same |= (beside < 2 * _SAME) & (found[0] ^ found[1]) & (min(map(np.mean, found)) < 0.5)
    for sure, other in ((0, 1), (1, 0)):
        seen = [int(track.is_seen.sum()) for track in (first, second)]
        is_short = seen[other] < min(rate_hz, seen[sure])
        if is_short or _trust(both[other]) < _trust(both[sure]) - _DOUBT:
            is_same |= apart.min(axis=1 + sure).mean(axis=1) < _ON
    return bool(np.mean(is_same) > 0.5)


def _trust(joints: np.ndarray) -> float:
    return float(joints[..., 2].mean())


def _joined(first: Track, second: Track) -> Track:
    """Where both are, the one that was seen; between them, straight lines."""
    start, stop = min(first.start, second.start), max(first.stop, second.stop)
    shape = stop - start, *first.joints.shape[1:]
    joints, world = np.zeros(shape), np.zeros((*shape[:2], 3))
    is_seen, has = np.zeros(shape[0], bool), np.zeros(shape[0], bool)
    for track, is_first in ((second, False), (first, True)):
        rows = np.arange(len(track)) + track.start - start
        better = track.is_seen | ~has[rows]
        better &= is_first | ~is_seen[rows]
        rows, own = rows[better], np.flatnonzero(better)
        joints[rows], world[rows] = track.joints[own], track.world[own]
        is_seen[rows], has[rows] = track.is_seen[own], True
    known, at = np.flatnonzero(has), np.arange(shape[0])
    if len(known) < shape[0]:
        for values in (joints, world):
            flat = values.reshape(shape[0], -1)
            for column in flat.T:
                column[:] = np.interp(at, known, column[known])
    return replace(first, start=start, joints=joints, world=world, is_seen=is_seen)
