"""From joints in the picture to joints in metres, over a whole track at once.

What is looked for: points that are seen where the finder saw them, whose bones keep their length
and point where its metres point, and that move as masses do. It begins from the finder's own metres
put where they are seen, and goes down the sum of squares (L-BFGS with the exact gradient).

Convention: as the camera sees it, in metres: right, down, and away from the eye.

Where the camera is, and the floor: one for the whole film, from how people stand in it.

People who stand are upright, so their mean direction says by how much the camera looks down; their
feet, as far away as people of usual stature are who look so large, say how high it hangs. A film
has no scale of its own: the height of the camera, if somebody knows it, is the only thing that
tells a tall person near by from a small one who is nearer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from masquerade import _check
from masquerade._optional import ndimage, optimize
from masquerade.stage.raster import Camera
from masquerade.stage.skeleton import POINTS
from masquerade.vision.poses import JOINTS
from masquerade.vision.tracks import PersonTrack

STATURE_M = 1.70  # of everybody, since a picture does not tell a tall person from a near one
_FROM = tuple(
    tuple(
        JOINTS.index(name.replace("hand", part).replace("toe", "foot_index"))
        for part in (("pinky", "index") if "hand" in name else ("",))
    )
    for name in POINTS
)
_AT = {name: place for place, name in enumerate(POINTS)}
_CROWN_RATIO = 1.09  # stature over the way from ankle by knee, hip and shoulder to the ear
_PICTURE_M = 0.012  # how far joints lie beside what the finder says,
_OUTLIER_M = 0.06  # where it is rather mistaken,
_METRES_M, _DEPTH_M = 0.06, 0.10  # how far its bones point beside the truth, and in depth
_LENGTH_M, _TRUNK_M = 0.008, 0.03  # by how much bones change their length, and the trunk
_PUSH = 7.0  # m/s2: how hard joints are pushed
_DEPTH_S = 0.2  # seconds over which depth is steadied at first
_WINDOW, _WINDOW_OVERLAP = 240, 24  # frames that are solved at once, and that two windows share
_STEPS = 120
_MIN_DEPTH_M = 0.2  # metres: nobody is nearer to the eye
_MIN_TRUST = 0.02  # trust in what is not seen at all


def _list_edges() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of points (E, 2), which of them keep their length, and which are of the trunk."""
    rigid: list[tuple[str, str]] = [("left_ear", "right_ear"), ("left_hip", "right_hip")]
    rigid += [("left_shoulder", "right_shoulder")]
    trunk, free = [], []
    for side, other in (("left", "right"), ("right", "left")):
        limbs = ("shoulder elbow wrist hand".split(), "hip knee ankle toe".split())
        for chain in limbs:
            rigid += [(f"{side}_{a}", f"{side}_{b}") for a, b in pairwise(chain)]
        rigid += [(f"{side}_ankle", f"{side}_heel"), (f"{side}_heel", f"{side}_toe")]
        rigid += [("nose", f"{side}_ear")]
        trunk += [(f"{side}_hip", f"{side}_shoulder"), (f"{side}_hip", f"{other}_shoulder")]
        free += [(f"{side}_shoulder", f"{side}_ear"), (f"{side}_shoulder", "nose")]
    pairs = [(_AT[a], _AT[b]) for a, b in (*rigid, *trunk, *free)]
    kind = np.repeat([0, 1, 2], [len(rigid), len(trunk), len(free)])
    return np.array(pairs), kind < 2, kind == 1


_PAIRS, _IS_RIGID, _IS_TRUNK = _list_edges()


@dataclass(frozen=True, kw_only=True, eq=False)
class _TrackStretch:
    """What is known of a stretch of a track.

    Args:
        rays: (T, P, 2) where each point is seen, over the focal length.
        trust: (T, P).
        bones: (T, E, 3) metres, as the finder has them.
        lengths: (E,) of bones.
        depth: (T,) metres to the body.
        step_s: between frames.
    """

    rays: np.ndarray
    trust: np.ndarray
    bones: np.ndarray
    lengths: np.ndarray
    depth: np.ndarray
    step_s: float


def list_track_points(track: PersonTrack) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pixels (T, P, 2), trust (T, P) and metres (T, P, 3) about the hips of ``POINTS``."""
    joints = np.stack([track.joints[:, list(of)].mean(axis=1) for of in _FROM], axis=1)
    world = np.stack([track.world[:, list(of)].mean(axis=1) for of in _FROM], axis=1)
    scale = STATURE_M / _estimate_stature(world, joints[..., 2])
    return joints[..., :2], np.maximum(joints[..., 2], _MIN_TRUST), world * scale


def place_track(track: PersonTrack, camera: Camera, *, rate_hz: float) -> np.ndarray:
    """(T, P, 3): the finder's own metres, at the place where they are seen as they are seen."""
    pixels, trust, world = list_track_points(track)
    rays = _compute_rays(pixels, camera)
    return _place_metres(rays, trust, world, rate_hz)


def lift_track(track: PersonTrack, camera: Camera, *, rate_hz: float) -> np.ndarray:
    """(T, P, 3) metres as the camera sees them, of somebody of usual stature."""
    pixels, trust, world = list_track_points(track)
    rays = _compute_rays(pixels, camera)
    first = _place_metres(rays, trust, world, rate_hz)
    bones = world[:, _PAIRS[:, 1]] - world[:, _PAIRS[:, 0]]
    lengths = _estimate_bone_lengths(bones, trust)
    out, weight = np.zeros_like(first), np.zeros((len(first), 1, 1))
    for start in range(0, max(len(first) - _WINDOW_OVERLAP, 1), _WINDOW - _WINDOW_OVERLAP):
        rows = slice(start, min(start + _WINDOW, len(first)))
        seen = _TrackStretch(
            rays=rays[rows],
            trust=trust[rows],
            bones=bones[rows],
            lengths=lengths,
            depth=np.maximum(first[rows, :, 2].mean(axis=1), _MIN_DEPTH_M),
            step_s=1 / rate_hz,
        )
        part = _make_fade(rows.stop - rows.start, at_start=start > 0, at_end=rows.stop < len(first))
        out[rows] += part * _solve_points(first[rows], seen)
        weight[rows] += part
    return np.asarray(out / weight)


def _make_fade(count: int, *, at_start: bool, at_end: bool) -> np.ndarray:
    part = np.ones(count)
    ramp = (np.arange(_WINDOW_OVERLAP) + 1) / (_WINDOW_OVERLAP + 1)
    if at_start:
        part[:_WINDOW_OVERLAP] *= ramp[:count]
    if at_end:
        part[-_WINDOW_OVERLAP:] *= ramp[::-1][-count:]
    return part[:, None, None]


def _compute_rays(pixels: np.ndarray, camera: Camera) -> np.ndarray:
    return np.asarray((pixels - [camera.width / 2, camera.height / 2]) / camera.focal_px)


def _estimate_stature(world: np.ndarray, trust: np.ndarray) -> float:
    """What the finder's metres say; only to make all people equally tall."""

    def compute_joint_way(one: str, other: str) -> np.ndarray:
        found = [
            np.linalg.norm(
                world[:, _AT[f"{side}_{one}"]] - world[:, _AT[f"{side}_{other}"]], axis=1
            )
            for side in ("left", "right")
        ]
        return np.asarray(np.mean(found, axis=0))

    sums = (
        compute_joint_way("ankle", "knee")
        + compute_joint_way("knee", "hip")
        + compute_joint_way("hip", "shoulder")
    )
    sums = sums + compute_joint_way("shoulder", "ear")
    sure = trust.mean(axis=1)
    return _CROWN_RATIO * max(float(np.median(sums[sure >= np.median(sure)])), 0.3)


def _estimate_bone_lengths(bones: np.ndarray, trust: np.ndarray) -> np.ndarray:
    """(E,): the median of each bone over frames that show it, left and right alike."""
    long = np.linalg.norm(bones, axis=2)
    sure = np.minimum(trust[:, _PAIRS[:, 0]], trust[:, _PAIRS[:, 1]])
    known = np.where(sure >= np.median(sure, axis=0), long, np.nan)
    found = np.nanmedian(known, axis=0)
    names = [tuple(POINTS[k].replace("left", "right") for k in pair) for pair in _PAIRS]
    groups = {name: [k for k, other in enumerate(names) if other == name] for name in names}
    return np.array([found[groups[name]].mean() for name in names])


def _place_metres(
    rays: np.ndarray, trust: np.ndarray, world: np.ndarray, rate_hz: float
) -> np.ndarray:
    """Metres moved, frame by frame, to where least squares of what is seen puts them."""
    weight = trust / trust.sum(axis=1, keepdims=True)
    u, v = rays[..., 0], rays[..., 1]
    right, down = u * world[..., 2] - world[..., 0], v * world[..., 2] - world[..., 1]

    def average_trusted(values: np.ndarray) -> np.ndarray:
        return np.asarray((weight * values).sum(axis=1))

    u0, v0, r0, d0 = (
        average_trusted(u),
        average_trusted(v),
        average_trusted(right),
        average_trusted(down),
    )
    spread = average_trusted((u - u0[:, None]) ** 2 + (v - v0[:, None]) ** 2)
    held = average_trusted((u - u0[:, None]) * right + (v - v0[:, None]) * down)
    depth = np.clip(-held / np.maximum(spread, 1e-9), 0.4, 200.0)
    if len(depth) > 1:
        width = max(_DEPTH_S * rate_hz, 0.5)
        depth = np.exp(ndimage.gaussian_filter1d(np.log(depth), width, mode="nearest"))
    step = np.stack([r0 + u0 * depth, d0 + v0 * depth, depth], axis=1)
    found = world + step[:, None]
    found[..., 2] = np.maximum(found[..., 2], _MIN_DEPTH_M)
    return np.asarray(found)


def _solve_points(first: np.ndarray, seen: _TrackStretch) -> np.ndarray:
    """The least sum of squares."""

    def compute_flat_cost(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = _compute_lift_cost(flat.reshape(first.shape), seen)
        return value, slope.ravel()

    found, _, _ = optimize.fmin_l_bfgs_b(
        compute_flat_cost, first.ravel(), m=12, factr=1e9, maxiter=_STEPS
    )
    return np.asarray(found.reshape(first.shape))


def _compute_lift_cost(points: np.ndarray, seen: _TrackStretch) -> tuple[float, np.ndarray]:
    """The sum of squares and its gradient (T, P, 3)."""
    slope = np.zeros_like(points)
    depth = np.maximum(points[..., 2:], _MIN_DEPTH_M)
    # Beside what is seen, in metres there; what is far beside counts less and less.
    beside = (points[..., :2] / depth - seen.rays) * seen.depth[:, None, None]
    square = (beside**2).sum(axis=2) / _OUTLIER_M**2
    root = np.sqrt(1 + square)
    scale = seen.trust * _OUTLIER_M**2 / _PICTURE_M**2
    value = 2 * float((scale * (root - 1)).sum())
    pull = (
        (2 * scale / root / _OUTLIER_M**2)[..., None] * beside * seen.depth[:, None, None] / depth
    )
    slope[..., :2] += pull
    slope[..., 2] -= (pull * points[..., :2] / depth).sum(axis=2)
    # Bones that point elsewhere, or have another length.
    bones = points[:, _PAIRS[:, 1]] - points[:, _PAIRS[:, 0]]
    wrong = (bones - seen.bones) / [_METRES_M, _METRES_M, _DEPTH_M]
    pulls = 2 * wrong / [_METRES_M, _METRES_M, _DEPTH_M]
    long = np.maximum(np.linalg.norm(bones, axis=2), 1e-6)
    strict = np.where(_IS_RIGID, np.where(_IS_TRUNK, _TRUNK_M, _LENGTH_M), np.inf)
    longer = (long - seen.lengths) / strict
    pulls += (2 * longer / strict / long)[..., None] * bones
    value += float((wrong**2).sum() + (longer**2).sum())
    for edge, (one, other) in enumerate(_PAIRS):
        slope[:, other] += pulls[:, edge]
        slope[:, one] -= pulls[:, edge]
    if len(points) > 2:
        size = _PUSH * seen.step_s**2
        push = (points[2:] - 2 * points[1:-1] + points[:-2]) / size
        value += float((push**2).sum())
        pulls = 2 * push / size
        slope[2:] += pulls
        slope[1:-1] -= 2 * pulls
        slope[:-2] += pulls
    return value, slope


FOV_DEG = 50.0  # between the upper and the lower edge, if nobody knows
_EYE_M = 1.5  # the height of a camera that sees nobody's feet
_USUAL_DEG = 8.0  # by which a camera looks down that sees nobody stand
_SURE_S = 0.5  # seconds of standing after which people say more than what is usual
_LEVEL_DEG, _MAX_LEAN_DEG = -20.0, 60.0  # down from the horizon
_LEANS = 0.07  # radians by which people lean
_SURE_DEG = 3.0  # how well people who stand say where down is
_FLOOR_SPREAD_M = 0.12  # how far feet lie beside the floor
_MIN_UPRIGHT_SHARE = 0.88  # of the length of a straight body
_MAX_STANDING_SPEEDS = 0.35, 0.9  # m/s: a foot that stands is slower than one of these,
_MAX_STANDING_SHARE = 0.2  # in between, than this share of the fastest foot in the same stride
_STRIDE_S = 0.5  # seconds before and after
_MIN_FOOT_TRUST = 0.3  # trust from which feet count
_FEET = [[_AT[f"{side}_{part}"] for part in ("ankle", "heel", "toe")] for side in ("left", "right")]


def estimate_camera(
    tracks: Sequence[PersonTrack],
    *,
    height: int,
    width: int,
    rate_hz: float = 25.0,
    fov_deg: float = FOV_DEG,
    eye_m: float | None = None,
) -> Camera:
    """The camera of a film, over a floor at z = 0.

    Args:
        tracks: everybody in it.
        height: of a frame, in pixels.
        width: of a frame, in pixels.
        rate_hz: frames a second.
        fov_deg: the angle between the upper and the lower edge.
        eye_m: how high the camera is over the floor, if that is known.
    """
    _check.count(height=height, width=width)
    if eye_m is not None:
        _check.positive(eye_m=eye_m)
    level = _make_leaning_camera((0.0, 0.0), _EYE_M, fov_deg, height, width)
    points = [place_track(track, level, rate_hz=rate_hz) for track in tracks]
    lean = _estimate_camera_lean(points, [list_track_points(track)[1] for track in tracks], rate_hz)
    feet = [find_standing_feet(*each, rate_hz=rate_hz) for each in zip(tracks, points, strict=True)]
    soles = [_compute_soles(each)[stand] for each, stand in zip(points, feet, strict=True)]
    if not sum(map(len, soles)):
        return _make_leaning_camera(lean, eye_m or _EYE_M, fov_deg, height, width)
    lean, eye = _estimate_floor(np.concatenate(soles), lean)
    return _make_leaning_camera(lean, eye_m or eye, fov_deg, height, width)


def find_standing_feet(track: PersonTrack, points: np.ndarray, *, rate_hz: float) -> np.ndarray:
    """(T, 2) bool: which foot stands, of points (T, P, 3) in metres; an unseen one does not."""
    _, trust, _ = list_track_points(track)
    found = np.stack([trust[:, foot].mean(axis=1) for foot in _FEET], axis=1) > _MIN_FOOT_TRUST
    if len(points) > 1:
        middle = np.stack([points[:, foot].mean(axis=1) for foot in _FEET], axis=1)
        middle = ndimage.gaussian_filter1d(middle, max(0.03 * rate_hz, 0.5), axis=0, mode="nearest")
        # In the picture's plane: how far away somebody is shakes too much.
        speed = np.linalg.norm(np.gradient(middle[..., :2], axis=0), axis=2) * rate_hz
        near = 2 * round(_STRIDE_S * rate_hz) + 1
        fastest = ndimage.maximum_filter1d(speed.max(axis=1), near, mode="nearest")[:, None]
        found &= speed < np.clip(_MAX_STANDING_SHARE * fastest, *_MAX_STANDING_SPEEDS)
    for foot in range(2):  # neither for a moment, nor not for a moment
        gone = ~_keep_long_runs(~found[:, foot], max(1, round(0.12 * rate_hz)))
        found[:, foot] = _keep_long_runs(gone, max(1, round(0.1 * rate_hz)))
    return np.asarray(found)


def _keep_long_runs(flags: np.ndarray, least: int) -> np.ndarray:
    """Only runs of at least so many."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(int), [0]])))
    out = np.zeros(len(flags), bool)
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        out[start:stop] = stop - start >= min(least, len(flags))
    return out


def _compute_soles(points: np.ndarray) -> np.ndarray:
    """(T, 2, 3): the middle between heel and toe."""
    return np.stack([points[:, foot[1:]].mean(axis=1) for foot in _FEET], axis=1)


def _estimate_camera_lean(
    points: list[np.ndarray], trust: list[np.ndarray], rate_hz: float
) -> tuple[float, float]:
    """Radians by which the camera looks down and is rolled, from people who stand."""
    ups = []
    for each, sure in zip(points, trust, strict=True):
        ankle, knee, hip, shoulder = (
            (each[:, _AT[f"left_{part}"]] + each[:, _AT[f"right_{part}"]]) / 2
            for part in ("ankle", "knee", "hip", "shoulder")
        )
        way = shoulder - ankle
        parts = ((ankle, knee), (knee, hip), (hip, shoulder))
        whole = np.sum([np.linalg.norm(b - a, axis=1) for a, b in parts], axis=0)
        is_up = np.linalg.norm(way, axis=1) > _MIN_UPRIGHT_SHARE * whole
        is_up &= sure[:, [foot[0] for foot in _FEET]].mean(axis=1) > _MIN_FOOT_TRUST
        is_up &= -way[:, 1] > 0.5 * np.linalg.norm(way, axis=1)
        ups.append(way[is_up] / np.linalg.norm(way[is_up], axis=1, keepdims=True))
    held = np.concatenate(ups) if ups else np.zeros((0, 3))
    if not len(held):
        return math.radians(_USUAL_DEG), 0.0
    right, down, away = -np.median(held, axis=0)
    tilt = np.clip(
        math.atan2(away, math.hypot(right, down)), *np.radians([_LEVEL_DEG, _MAX_LEAN_DEG])
    )
    known = len(held) / (len(held) + _SURE_S * rate_hz)
    tilt = known * tilt + (1 - known) * math.radians(_USUAL_DEG)
    roll = math.atan2(right, down)  # a little is rather somebody who leans
    roll *= float(np.clip((abs(roll) - _LEANS) / _LEANS, 0, 1))
    return float(tilt), roll


def _estimate_floor(
    soles: np.ndarray, lean: tuple[float, float]
) -> tuple[tuple[float, float], float]:
    """How the camera leans, and its height over a floor under these soles (N, 3)."""
    tilt, roll = lean
    best = math.inf, tilt, _EYE_M
    for angle in tilt + np.radians(np.linspace(-8, 8, 33)):
        down = [math.sin(roll) * np.cos(angle), math.cos(roll) * np.cos(angle), np.sin(angle)]
        below = soles @ np.array(down)
        eye = float(np.median(below))
        off = np.sqrt(1 + ((below - eye) / _FLOOR_SPREAD_M) ** 2).mean() - 1
        cost = off * 8 + (np.degrees(angle - tilt) / _SURE_DEG) ** 2 / 2
        if cost < best[0] and eye > 0.1:
            best = float(cost), float(angle), eye
    return (best[1], roll), float(np.clip(best[2], 0.2, 50.0))


def _make_leaning_camera(
    lean: tuple[float, float], eye: float, fov_deg: float, height: int, width: int
) -> Camera:
    tilt, roll = lean
    return Camera(
        eye=(0.0, 0.0, eye),
        target=(0.0, math.cos(tilt), eye - math.sin(tilt)),
        fov_deg=fov_deg,
        height=height,
        width=width,
        roll_deg=math.degrees(roll),
    )
