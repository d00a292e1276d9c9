"""Find everybody in a film, follow them and mend what the finder gets wrong.

The networks look at one frame after the other, so what they say shakes, mistakes left for right,
takes one person for two, and misses joints. Here the whole film is known: each track is put right
with what came before *and* after. Only joints are held, about 3 kB for a person in a frame, so
memory does not grow with the size of the picture.

Convention: the third number of a joint is how far it is to be trusted, from 0 to 1; it falls with
the time since the joint was seen.

One track a person: what lies over another or goes on from it is joined, what is unsure goes.

A finder that looks at each frame alone sees the same person twice now and then, loses somebody who
passes behind another, and takes a coat for a person for a frame or two. A figure would be drawn for
each of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from masquerade import _check, _optional
from masquerade._optional import ndimage
from masquerade.errors import BadInput
from masquerade.vision.poses import JOINTS, NUM_JOINTS, PersonPose, PoseLandmarks
from masquerade.vision.tracks import PersonTrack, track_poses

_MAX_SAME_DISTANCE = 0.22  # body sizes between mean joints of two tracks of one person
_MAX_NOSE_DISTANCE = 0.04  # and between their noses
_MAX_OVERLAY_DISTANCE = (
    0.09  # mean of the way to the other's nearest joint, if one is made of the other's parts
)
_TRUST_MARGIN = 0.1  # by how much less it is trusted then
_MAX_ABSENCE_S = 1.0  # seconds after which somebody may be found again where they went
_MAX_RETURN_DISTANCE = 0.5  # body sizes from the place where they were to be
_MAX_SIZE_RATIO = 1.8  # ratio of sizes above which two are not one
_MIN_SECONDS = 0.25  # seconds for which a person must be seen,
_MIN_FRAMES = 3  # and frames, unless the film is shorter
_MIN_FOUND_SHARE = 0.35  # of the frames from the first to the last
_MAX_TEARING = 0.036  # body sizes by which a person's joints in pixels and in metres differ
_MIN_SURE_TRUST = 0.91  # mean of how likely the best half of the joints are seen


def estimate_body_sizes(track: PersonTrack) -> np.ndarray:
    """(T,) how large the body is in the picture, in pixels: a median over near frames."""
    boxes = track.boxes
    each = np.maximum(boxes[:, 2:] - boxes[:, :2], 1.0).max(axis=1)
    reach = np.arange(-7, 8)
    near = np.clip(np.arange(len(each))[:, None] + reach, 0, len(each) - 1)
    return np.asarray(np.median(each[near], axis=1))


def drop_false_bodies(poses: Sequence[PersonPose]) -> tuple[PersonPose, ...]:
    """The people of one frame without bodies that are made of another's parts, or have its face."""
    by_trust = sorted(poses, key=lambda pose: -_estimate_trust(pose.joints))
    kept: list[PersonPose] = []
    for pose in by_trust:
        places = pose.joints[:, :2]
        for other in kept:
            apart = np.linalg.norm(places[:, None] - other.joints[None, :, :2], axis=2)
            apart /= max(*(np.ptp(each.joints[:, :2], axis=0).max() for each in (pose, other)), 1.0)
            is_part = apart.min(axis=1).mean() < _MAX_OVERLAY_DISTANCE
            is_part &= (
                _estimate_trust(pose.joints) < _estimate_trust(other.joints) - _TRUST_MARGIN / 2
            )
            if is_part or apart[0, 0] < _MAX_NOSE_DISTANCE:
                break
        else:
            kept.append(pose)
    return tuple(kept)


def select_people(
    tracks: list[PersonTrack], *, rate_hz: float, num_frames: int | None
) -> list[PersonTrack]:
    """The people among some tracks, those first who come first."""
    held = [track for track in tracks if _is_sure(track)]
    joined = True
    while joined:
        joined = False
        held.sort(key=lambda track: (-int(track.is_seen.sum()), track.start))
        for first in range(len(held)):
            for second in range(first + 1, len(held)):
                one = _join_if_same(held[first], held[second], rate_hz)
                if one is not None:
                    held[first] = one
                    del held[second]
                    joined = True
                    break
            if joined:
                break
    last = (
        num_frames if num_frames is not None else max((each.stop_frame for each in held), default=0)
    )
    least = min(max(_MIN_FRAMES, round(_MIN_SECONDS * rate_hz)), max(last, 1))
    held = [
        track for track in held if track.is_seen.sum() >= max(least, _MIN_FOUND_SHARE * len(track))
    ]
    return sorted(held, key=lambda track: (track.start, -len(track)))


def _is_sure(track: PersonTrack) -> bool:
    seen = np.sort(track.joints[track.is_seen][..., 2:].prod(axis=2), axis=1)
    is_seen = len(seen) and seen[:, seen.shape[1] // 2 :].mean() >= _MIN_SURE_TRUST
    return bool(is_seen and np.median(_measure_tearing(track)) <= _MAX_TEARING)


def _measure_tearing(track: PersonTrack) -> np.ndarray:
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


def _join_if_same(first: PersonTrack, second: PersonTrack, rate_hz: float) -> PersonTrack | None:
    """Both as one track if they are one person's, else None."""
    start, stop = max(first.start, second.start), min(first.stop_frame, second.stop_frame)
    if start < stop:
        return _join_tracks(first, second) if _is_over(first, second, rate_hz) else None
    early, late = (first, second) if first.start < second.start else (second, first)
    missed = late.start - early.stop_frame
    if missed > _MAX_ABSENCE_S * rate_hz:
        return None
    size, other = estimate_body_sizes(early)[-1], estimate_body_sizes(late)[0]
    if max(size, other) > _MAX_SIZE_RATIO * min(size, other):
        return None
    there = early.joints[-1, :, :2].mean(axis=0) + _estimate_velocity(early) * (missed + 1)
    now = late.joints[0, :, :2].mean(axis=0)
    stood = early.joints[-1, :, :2].mean(axis=0)
    apart = min(np.linalg.norm(now - there), np.linalg.norm(now - stood))
    return _join_tracks(early, late) if apart <= _MAX_RETURN_DISTANCE * max(size, other) else None


def _estimate_velocity(track: PersonTrack) -> np.ndarray:
    """(2,) pixels a frame at the end of a track."""
    last = track.joints[-6:, :, :2].mean(axis=1)
    return np.asarray((last[-1] - last[0]) / max(len(last) - 1, 1))


def _is_over(first: PersonTrack, second: PersonTrack, rate_hz: float) -> bool:
    """Whether two tracks lie on each other in most of the frames that both have.

    They have the same joints, or the same face, or one is a doubtful body made of the other's parts
    (a child before its parent is seen as surely as the parent, and for longer).
    """
    start, stop = max(first.start, second.start), min(first.stop_frame, second.stop_frame)
    both = [track.joints[start - track.start : stop - track.start] for track in (first, second)]
    places = [each[..., :2] for each in both]
    size = np.maximum(*(np.maximum(np.ptp(each, axis=1).max(axis=1), 1.0) for each in places))
    apart = np.linalg.norm(places[0][:, :, None] - places[1][:, None], axis=3)  # (T, 33, 33)
    apart /= size[:, None, None]
    beside = np.diagonal(apart, axis1=1, axis2=2).mean(axis=1)
    is_same = beside < _MAX_SAME_DISTANCE
    is_same |= apart[:, 0, 0] < _MAX_NOSE_DISTANCE
    found = [t.is_seen[start - t.start : stop - t.start] for t in (first, second)]
    is_same |= (
        (beside < 2 * _MAX_SAME_DISTANCE) & (found[0] ^ found[1]) & (min(map(np.mean, found)) < 0.5)
    )
    for sure, other in ((0, 1), (1, 0)):
        seen = [int(track.is_seen.sum()) for track in (first, second)]
        is_short = seen[other] < min(rate_hz, seen[sure])
        if is_short or _estimate_trust(both[other]) < _estimate_trust(both[sure]) - _TRUST_MARGIN:
            is_same |= apart.min(axis=1 + sure).mean(axis=1) < _MAX_OVERLAY_DISTANCE
    return bool(np.mean(is_same) > 0.5)


def _estimate_trust(joints: np.ndarray) -> float:
    return float(joints[..., 2].mean())


def _join_tracks(first: PersonTrack, second: PersonTrack) -> PersonTrack:
    """Where both are, the one that was seen; between them, straight lines."""
    start, stop = min(first.start, second.start), max(first.stop_frame, second.stop_frame)
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


Watch = Callable[[int, np.ndarray, tuple[PersonPose, ...], np.ndarray | None], None]
Module = Callable[[Iterable[np.ndarray], float], Iterable[PersonTrack]]

_MIN_FAST_RATE_HZ = (
    20.0  # from so many frames a second on the detector searches one in ten, else in five
)
_LOST_S = 0.5  # seconds for which somebody may be missed
_FORGET_S = 0.25  # in which the trust in a joint that is not seen falls to a third
_SMOOTH_S = 0.035  # width of the filter in the picture,
_SMOOTH_WORLD_S = 0.06  # and in metres, where depth shakes more
_MAX_SPIKE = 0.12  # body sizes from the median over time, beyond which a joint is not believed,
_QUICK = 3.0  # or what somebody does in a frame who moves so many a second: a fist, a foot
_SHAKE, _SHAKE_M = 0.004, 0.012  # body sizes, and metres, by which the finder's joints shake
_SLOWER_S = 0.1, 0.25, 0.6  # seconds over which movement is taken apart
_MIN_JOINT_TRUST = 0.05  # trust below which a joint is as good as unknown
_EMPTY_PIXELS = np.zeros((0, 0), np.float32)
_ARMS = ("shoulder", "elbow", "wrist", "pinky", "index", "thumb")
_LEGS = ("hip", "knee", "ankle", "heel", "foot_index")
_SWAP_COST = 0.1  # body sizes a second: the finder is right unless more speaks against it
_SWAP_STEP = 0.03  # and for each change


def track_people(
    frames: Iterable[np.ndarray],
    *,
    rate_hz: float,
    landmarks: PoseLandmarks | None = None,
    watch: Watch | None = None,
    module: Path | None = None,
) -> tuple[PersonTrack, ...]:
    """Everybody in a film, one track a person, smoothed.

    Args:
        frames: (H, W, 3) uint8 each; read once.
        rate_hz: frames a second.
        landmarks: what finds people; ours if not given.
        watch: called with the number of each frame, the frame, who was found in it, and what the
            detector found, (N, 4), if it searched the frame.
        module: a file with another estimator, see ``from_module``.
    """
    if module is not None:
        return track_by_module(module, frames, rate_hz=rate_hz, watch=watch)
    eyes = landmarks or PoseLandmarks()
    return link_people(
        find_people_in_frames(frames, rate_hz=rate_hz, landmarks=eyes, watch=watch), rate_hz=rate_hz
    )


def find_people_in_frames(
    frames: Iterable[np.ndarray],
    *,
    rate_hz: float,
    landmarks: PoseLandmarks,
    watch: Watch | None = None,
) -> list[list[PersonPose]]:
    """Who is in each frame, as `track_people`; what only pixels need is forgotten."""
    _check.positive(rate_hz=rate_hz)
    last: list[np.ndarray] = []
    searched: list[np.ndarray] = []
    found: list[list[PersonPose]] = []

    def pass_frames() -> Iterator[np.ndarray]:
        for frame in frames:
            last[:] = [frame]
            yield frame

    every = choose_search_interval(rate_hz)
    for poses in landmarks.iter_film_poses(pass_frames(), every=every, on_search=searched.append):
        if watch is not None:
            watch(len(found), last[0], poses, searched[-1] if searched else None)
        searched.clear()
        found.append([without_pixels(pose) for pose in poses])
    return found


def without_pixels(pose: PersonPose) -> PersonPose:
    """A pose without its pixels."""
    return replace(pose, likely=_EMPTY_PIXELS)


def link_people(
    poses: Sequence[Sequence[PersonPose]], *, rate_hz: float
) -> tuple[PersonTrack, ...]:
    """Those who are in each frame, one track a person, smoothed."""
    lost = max(1, round(_LOST_S * rate_hz))
    found = track_poses(map(drop_false_bodies, poses), gap=lost, min_finds=1)
    return mend_tracks(found, rate_hz=rate_hz, num_frames=len(poses))


def track_by_module(
    module: Path, frames: Iterable[np.ndarray], *, rate_hz: float, watch: Watch | None = None
) -> tuple[PersonTrack, ...]:
    """Everybody as an estimator of the user tells, smoothed; ``watch`` is told of nobody."""
    _check.positive(rate_hz=rate_hz)
    count = [0]
    found = from_module(module)(_count_frames(frames, count, watch), rate_hz)
    return mend_tracks(found, rate_hz=rate_hz, num_frames=count[0])


def choose_search_interval(rate_hz: float) -> int:
    """Of how many frames one is searched whole for people; half a second at most lies between.

    Example:
        >>> choose_search_interval(10.0), choose_search_interval(25.0)
        (5, 10)
    """
    return 10 if rate_hz >= _MIN_FAST_RATE_HZ else 5


def from_module(path: Path) -> Module:
    """The estimator in a file of the user: ``def people(frames, rate_hz) -> Iterable[Track]``.

    ``frames`` gives (H, W, 3) uint8 arrays, once. Each ``PersonTrack`` (of
    ``masquerade.vision.tracks``) has the 33 joints of ``JOINTS``: in pixels with two numbers
    from 0 to 1, seen and inside, and in metres about the middle of the hips, right, down and away.

    Raises:
        BadInput: if the file cannot be run, or has no such function.
    """
    own = _optional.load_function(path, "people", signature="frames, rate_hz")

    def run_checked(frames: Iterable[np.ndarray], rate_hz: float) -> Iterable[PersonTrack]:
        return [_check_module_track(track, path) for track in own(frames, rate_hz)]

    return run_checked


def mend_tracks(
    tracks: Iterable[PersonTrack], *, rate_hz: float, num_frames: int | None = None
) -> tuple[PersonTrack, ...]:
    """One track a person, left and right in their places, without spikes, smoothed.

    Args:
        tracks: as they were found.
        rate_hz: frames a second.
        num_frames: of the film; in a short one short tracks count.
    """
    held = select_people(list(tracks), rate_hz=rate_hz, num_frames=num_frames)
    return tuple(_smooth_track(_unswap_sides(track, rate_hz), rate_hz) for track in held)


def _count_frames(
    frames: Iterable[np.ndarray], count: list[int], watch: Watch | None
) -> Iterator[np.ndarray]:
    for number, frame in enumerate(frames):
        count[0] = number + 1
        if watch is not None:
            watch(number, frame, (), None)
        yield frame


def _check_module_track(track: object, path: Path) -> PersonTrack:
    rule = "Expected tracks with start >= 0, joints (T, 33, 4), world (T, 33, 3), is_seen (T,)"
    if not isinstance(track, PersonTrack):
        raise BadInput(f"{rule}, of masquerade.vision.tracks; {path} gave {type(track)}.")
    shapes = [np.shape(each) for each in (track.joints, track.world, track.is_seen)]
    times = len(track.joints)
    wanted = [(times, NUM_JOINTS, 4), (times, NUM_JOINTS, 3), (times,)]
    if shapes != wanted or not times or track.start < 0:
        raise BadInput(f"{rule}; {path} gave start={track.start} and {shapes}.")
    if not (np.isfinite(track.joints).all() and np.isfinite(track.world).all()):
        raise BadInput(f"{rule}, all finite; {path} gave others: fill gaps, with trust 0.")
    return track


def _unswap_sides(track: PersonTrack, rate_hz: float) -> PersonTrack:
    """Left and right as they go on most smoothly: of nothing, arms, legs or both exchanged."""
    size = estimate_body_sizes(track)[:, None, None]
    places = np.concatenate([track.joints[..., :2] / size, track.world / 1.7], axis=2)
    orders = np.array(
        [
            _list_swap_order(()),
            _list_swap_order(_ARMS),
            _list_swap_order(_LEGS),
            _list_swap_order(_ARMS + _LEGS),
        ]
    )
    ways = np.stack([places[:, order] for order in orders], axis=1)  # (T, 4, 33, 5)
    other = np.array([0.0, 1.0, 1.0, 1.0]) * _SWAP_COST / rate_hz
    cost, came = other, []
    for before, after in pairwise(ways):
        step = np.linalg.norm(before[:, None] - after[None], axis=3).mean(axis=2)  # (from, to)
        total = cost[:, None] + step + _SWAP_STEP * (1 - np.eye(len(orders)))
        came.append(total.argmin(axis=0))
        cost = total.min(axis=0) + other
    best = [int(cost.argmin())]
    for each in reversed(came):
        best.append(int(each[best[-1]]))
    rows, order = np.arange(len(track))[:, None], orders[best[::-1]]
    return replace(track, joints=track.joints[rows, order], world=track.world[rows, order])


def _list_swap_order(parts: tuple[str, ...]) -> list[int]:
    """The joints with left and right exchanged where they belong to one of ``parts``."""
    turned = []
    for name in JOINTS:
        side, _, part = name.partition("_")
        other = {"left": "right", "right": "left"}.get(side, side)
        turned.append(JOINTS.index(f"{other}_{part}" if part in parts else name))
    return turned


def _smooth_track(track: PersonTrack, rate_hz: float) -> PersonTrack:
    """Spikes not believed, gaps carried over, everything filtered without delay."""
    size = estimate_body_sizes(track)
    places = track.joints[..., :2]
    width = min(5, len(track) - 1 + len(track) % 2) // 2 * 2 + 1
    middle = ndimage.median_filter(places, (width, 1, 1), mode="nearest")
    most = max(_MAX_SPIKE, _QUICK / rate_hz)
    is_spike = np.linalg.norm(places - middle, axis=2) > most * size[:, None]
    trust = track.joints[..., 2] * track.joints[..., 3] * track.is_seen[:, None]
    trust = np.where(is_spike, 0.0, trust)
    carried = _carry_trust(trust, rate_hz)
    joints = track.joints.copy()
    joints[..., :2] = _remove_shaking(
        _filter_in_time(places, trust, _SMOOTH_S * rate_hz),
        _SHAKE * float(np.median(size)),
        rate_hz,
    )
    joints[..., 2] = carried
    world = _filter_in_time(track.world, trust, _SMOOTH_WORLD_S * rate_hz)
    return replace(track, joints=joints, world=_remove_shaking(world, _SHAKE_M, rate_hz))


def _remove_shaking(values: np.ndarray, shake: float, rate_hz: float) -> np.ndarray:
    """Values (T, J, D) without what is not told apart from the finder's own shaking.

    Movement is taken apart by how quick it is. Of each part, that share is kept by which it is
    about its time stronger than what shakes by ``shake`` from frame to frame: somebody who stands
    is still, and a fist is as quick as it was.
    """
    found, left = np.zeros_like(values), values
    for seconds in _SLOWER_S:
        width = seconds * rate_hz
        slow = ndimage.gaussian_filter1d(left, width, axis=0, mode="nearest")
        quick, left = left - slow, slow
        power = ndimage.gaussian_filter1d((quick**2).mean(axis=2, keepdims=True), 2 * width, axis=0)
        found += quick * np.clip(1 - shake**2 / np.maximum(power, 1e-12), 0, 1)
    return np.asarray(found + left)


def _carry_trust(trust: np.ndarray, rate_hz: float) -> np.ndarray:
    """(T, J) the trust in each joint, from the time at which it was seen best."""
    fall = np.exp(-1.0 / (_FORGET_S * rate_hz))
    held = trust.copy()
    for rows in (range(1, len(held)), range(len(held) - 2, -1, -1)):
        for at in rows:
            before = at - 1 if rows.step > 0 else at + 1
            held[at] = np.maximum(held[at], fall * held[before])
    return held


def _filter_in_time(values: np.ndarray, trust: np.ndarray, width: float) -> np.ndarray:
    """Values (T, J, D) seen through a Gaussian in time, symmetric, weighted by trust (T, J)."""
    if len(values) < 2:
        return values
    weight = np.maximum(trust, _MIN_JOINT_TRUST * 1e-3)[..., None]
    known = np.maximum(trust.max(axis=0), 1e-9)[None, :, None]
    best = np.where(weight > _MIN_JOINT_TRUST * known, weight, weight * 1e-3)
    # A joint that is unknown for longer than the filter is wide is led by a wider one.
    wide, narrow = (
        ndimage.gaussian_filter1d(values * best, of, axis=0, mode="nearest", truncate=6)
        / ndimage.gaussian_filter1d(best, of, axis=0, mode="nearest", truncate=6)
        for of in (4 * width, width)
    )
    near = ndimage.gaussian_filter1d(best / known, width, axis=0, mode="nearest", truncate=6)
    part = np.clip(near / 0.2, 0, 1)
    return np.asarray(wide + part * (narrow - wide))
