"""From joints in the picture to joints in metres, over a whole track at once.

What is looked for: points that are seen where the finder saw them, whose bones keep their length
and point where its metres point, and that move as masses do. It begins from the finder's own metres
put where they are seen, and goes down the sum of squares (L-BFGS with the exact gradient).

Convention: as the camera sees it, in metres: right, down, and away from the eye.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.optimize import fmin_l_bfgs_b

from masquerade.people.camera import Camera
from masquerade.people.inverse import POINTS
from masquerade.sight.person_tracks import Track
from masquerade.sight.poses import JOINTS

STATURE_M = 1.70  # of everybody, since a picture does not tell a tall person from a near one
_FROM = tuple(
    tuple(
        JOINTS.index(name.replace("hand", part).replace("toe", "foot_index"))
        for part in (("pinky", "index") if "hand" in name else ("",))
    )
    for name in POINTS
)
_AT = {name: place for place, name in enumerate(POINTS)}
_TO_CROWN = 1.09  # stature over the way from ankle by knee, hip and shoulder to the ear
_PICTURE_M = 0.012  # how far joints lie beside what the finder says,
_FAR_M = 0.06  # where it is rather mistaken,
_METRES_M, _DEPTH_M = 0.06, 0.10  # how far its bones point beside the truth, and in depth
_LENGTH_M, _TRUNK_M = 0.008, 0.03  # by how much bones change their length, and the trunk
_PUSH = 7.0  # m/s2: how hard joints are pushed
_DEPTH_S = 0.2  # seconds over which depth is steadied at first
_WINDOW, _OVER = 240, 24  # frames that are solved at once, and that two windows share
_STEPS = 120
_NEAR = 0.2  # metres: nobody is nearer to the eye
_LEAST = 0.02  # trust in what is not seen at all


def _edges() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


_PAIRS, _IS_RIGID, _IS_TRUNK = _edges()


@dataclass(frozen=True, kw_only=True, eq=False)
class _Seen:
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


def points_of(track: Track) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pixels (T, P, 2), trust (T, P) and metres (T, P, 3) about the hips of ``POINTS``."""
    joints = np.stack([track.joints[:, list(of)].mean(axis=1) for of in _FROM], axis=1)
    world = np.stack([track.world[:, list(of)].mean(axis=1) for of in _FROM], axis=1)
    scale = STATURE_M / _stature(world, joints[..., 2])
    return joints[..., :2], np.maximum(joints[..., 2], _LEAST), world * scale


def placed(track: Track, camera: Camera, *, rate_hz: float) -> np.ndarray:
    """(T, P, 3): the finder's own metres, at the place where they are seen as they are seen."""
    pixels, trust, world = points_of(track)
    rays = _rays(pixels, camera)
    return _placed(rays, trust, world, rate_hz)


def lifted(track: Track, camera: Camera, *, rate_hz: float) -> np.ndarray:
    """(T, P, 3) metres as the camera sees them, of somebody of usual stature."""
    pixels, trust, world = points_of(track)
    rays = _rays(pixels, camera)
    first = _placed(rays, trust, world, rate_hz)
    bones = world[:, _PAIRS[:, 1]] - world[:, _PAIRS[:, 0]]
    lengths = _lengths(bones, trust)
    out, weight = np.zeros_like(first), np.zeros((len(first), 1, 1))
    for start in range(0, max(len(first) - _OVER, 1), _WINDOW - _OVER):
        rows = slice(start, min(start + _WINDOW, len(first)))
        seen = _Seen(
            rays=rays[rows],
            trust=trust[rows],
            bones=bones[rows],
            lengths=lengths,
            depth=np.maximum(first[rows, :, 2].mean(axis=1), _NEAR),
            step_s=1 / rate_hz,
        )
        part = _fade(rows.stop - rows.start, at_start=start > 0, at_end=rows.stop < len(first))
        out[rows] += part * _solved(first[rows], seen)
        weight[rows] += part
    return np.asarray(out / weight)


def _fade(count: int, *, at_start: bool, at_end: bool) -> np.ndarray:
    part = np.ones(count)
    ramp = (np.arange(_OVER) + 1) / (_OVER + 1)
    if at_start:
        part[:_OVER] *= ramp[:count]
    if at_end:
        part[-_OVER:] *= ramp[::-1][-count:]
    return part[:, None, None]


def _rays(pixels: np.ndarray, camera: Camera) -> np.ndarray:
    return np.asarray((pixels - [camera.width / 2, camera.height / 2]) / camera.focal_px)


def _stature(world: np.ndarray, trust: np.ndarray) -> float:
    """What the finder's metres say; only to make all people equally tall."""

    def way(one: str, other: str) -> np.ndarray:
        found = [
            np.linalg.norm(
                world[:, _AT[f"{side}_{one}"]] - world[:, _AT[f"{side}_{other}"]], axis=1
            )
            for side in ("left", "right")
        ]
        return np.asarray(np.mean(found, axis=0))

    sums = way("ankle", "knee") + way("knee", "hip") + way("hip", "shoulder")
    sums = sums + way("shoulder", "ear")
    sure = trust.mean(axis=1)
    return _TO_CROWN * max(float(np.median(sums[sure >= np.median(sure)])), 0.3)


def _lengths(bones: np.ndarray, trust: np.ndarray) -> np.ndarray:
    """(E,): the median of each bone over frames that show it, left and right alike."""
    long = np.linalg.norm(bones, axis=2)
    sure = np.minimum(trust[:, _PAIRS[:, 0]], trust[:, _PAIRS[:, 1]])
    known = np.where(sure >= np.median(sure, axis=0), long, np.nan)
    found = np.nanmedian(known, axis=0)
    names = [tuple(POINTS[k].replace("left", "right") for k in pair) for pair in _PAIRS]
    groups = {name: [k for k, other in enumerate(names) if other == name] for name in names}
    return np.array([found[groups[name]].mean() for name in names])


def _placed(rays: np.ndarray, trust: np.ndarray, world: np.ndarray, rate_hz: float) -> np.ndarray:
    """Metres moved, frame by frame, to where least squares of what is seen puts them."""
    weight = trust / trust.sum(axis=1, keepdims=True)
    u, v = rays[..., 0], rays[..., 1]
    right, down = u * world[..., 2] - world[..., 0], v * world[..., 2] - world[..., 1]

    def mean(values: np.ndarray) -> np.ndarray:
        return np.asarray((weight * values).sum(axis=1))

    u0, v0, r0, d0 = mean(u), mean(v), mean(right), mean(down)
    spread = mean((u - u0[:, None]) ** 2 + (v - v0[:, None]) ** 2)
    held = mean((u - u0[:, None]) * right + (v - v0[:, None]) * down)
    depth = np.clip(-held / np.maximum(spread, 1e-9), 0.4, 200.0)
    if len(depth) > 1:
        width = max(_DEPTH_S * rate_hz, 0.5)
        depth = np.exp(gaussian_filter1d(np.log(depth), width, mode="nearest"))
    step = np.stack([r0 + u0 * depth, d0 + v0 * depth, depth], axis=1)
    found = world + step[:, None]
    found[..., 2] = np.maximum(found[..., 2], _NEAR)
    return np.asarray(found)


def _solved(first: np.ndarray, seen: _Seen) -> np.ndarray:
    """The least sum of squares."""

    def cost(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = _cost(flat.reshape(first.shape), seen)
        return value, slope.ravel()

    found, _, _ = fmin_l_bfgs_b(cost, first.ravel(), m=12, factr=1e9, maxiter=_STEPS)
    return np.asarray(found.reshape(first.shape))


def _cost(points: np.ndarray, seen: _Seen) -> tuple[float, np.ndarray]:
    """The sum of squares and its gradient (T, P, 3)."""
    slope = np.zeros_like(points)
    depth = np.maximum(points[..., 2:], _NEAR)
    # Beside what is seen, in metres there; what is far beside counts less and less.
    beside = (points[..., :2] / depth - seen.rays) * seen.depth[:, None, None]
    square = (beside**2).sum(axis=2) / _FAR_M**2
    root = np.sqrt(1 + square)
    scale = seen.trust * _FAR_M**2 / _PICTURE_M**2
    value = 2 * float((scale * (root - 1)).sum())
    pull = (2 * scale / root / _FAR_M**2)[..., None] * beside * seen.depth[:, None, None] / depth
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
