"""Walk as nobody walks: a public way of walking in place of the person's own.

Kept are when each foot goes ahead, the path and the speed, so that the film still shows the same
walk; how far each joint swings, its asymmetry, the sway of the trunk and the arms are of a walk
that is the same for everybody, and of the head only where it looks is kept. How fast steps follow
each other tells people apart as well: a uniform gait has a public rate too, and keeps path and
speed alone. Only stretches in which somebody walks are replaced.

Convention: metres, z up, the floor at z = 0; points as in ``inverse.POINTS``.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache

import numpy as np

from masquerade._optional import ndimage, scipy, spatial
from masquerade.joints import JOINTS
from masquerade.stage import act, bodies, skeleton
from masquerade.stage.bodies import BONES, Body, Shape
from masquerade.stage.inverse import POINTS, unit
from masquerade.stage.skeleton import Posed

_AT = {name: place for place, name in enumerate(POINTS)}
_APART_M = 0.12  # between feet, ahead and behind, by which a step is told
_STEP_S = (0.28, 1.0)  # how long a step takes
_PATH_S = 0.4  # seconds over which heading and steps are smoothed,
_SWAY_S = 2.2  # and the path: two strides, so that no sway of one's own is left
_FADE_S = 0.12  # in which one's own way goes over into the public one
_REACH = (0.12, 0.6)  # radians by which a thigh swings
_STRIDE_HZ = 0.95  # the public rate of strides
_SLOW = 0.3  # m/s: slower than this, steps say how far, as on a treadmill
_HEAD = [_AT[name] for name in ("nose", "left_ear", "right_ear")]
_WHICH = {"shoulder": "upperarm01", "elbow": "lowerarm01", "wrist": "wrist", "hip": "upperleg01"}
_WHICH |= {"knee": "lowerleg01", "ankle": "foot"}


class Gait(StrEnum):
    """Whose way of walking a figure has."""

    OWN = "own"
    PUBLIC = "public"
    UNIFORM = "uniform"


def public(
    world: np.ndarray, stands: np.ndarray, *, rate_hz: float, is_uniform: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Points (T, P, 3) and which feet stand (T, 2), with walking made public; others as they are.

    Args:
        world: points (T, P, 3) over the floor.
        stands: (T, 2) which foot stands.
        rate_hz: frames a second.
        is_uniform: whether steps come at a public rate too, and only the first is kept.
    """
    heading = _heading(world, rate_hz)
    found = _phase(world, heading, rate_hz)
    if found is None:
        return world, stands
    phase, is_walk = found
    if is_uniform:
        phase = _paced(phase, is_walk, rate_hz)
    part = ndimage.gaussian_filter1d(is_walk.astype(float), _FADE_S * rate_hz, mode="nearest")[
        :, None, None
    ]
    other = _walked(world, heading, phase, rate_hz)
    steps = _stance(phase)
    return (
        np.asarray(world + part * (other - world)),
        np.where(is_walk[:, None], steps, stands),
    )


def _heading(world: np.ndarray, rate_hz: float) -> np.ndarray:
    """(T, 2) where hips and shoulders face, smoothed."""
    across = sum(
        world[:, _AT[f"left_{part}"], :2] - world[:, _AT[f"right_{part}"], :2]
        for part in ("hip", "shoulder")
    )
    ahead = np.stack([across[:, 1], -across[:, 0]], axis=1)  # left turned right by a quarter
    return _unit2(ndimage.gaussian_filter1d(ahead, _PATH_S * rate_hz, axis=0, mode="nearest"))


def _unit2(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9))


def _phase(
    world: np.ndarray, heading: np.ndarray, rate_hz: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """The phase of the stride (T,), and in which frames somebody walks; None if nowhere."""
    from scipy.signal import find_peaks  # half a second, which those who walk as they do can spare

    apart = world[:, _AT["left_ankle"], :2] - world[:, _AT["right_ankle"], :2]
    ahead = ndimage.gaussian_filter1d((apart * heading).sum(axis=1), 0.05 * rate_hz, mode="nearest")
    least = max(1, round(_STEP_S[0] * rate_hz))
    tops, _ = find_peaks(ahead, prominence=_APART_M, distance=least)
    lows, _ = find_peaks(-ahead, prominence=_APART_M, distance=least)
    turns = sorted([(int(t), 1) for t in tops] + [(int(t), 0) for t in lows])
    turns = [each for k, each in enumerate(turns) if k == 0 or each[1] != turns[k - 1][1]]
    if len(turns) < 3:
        return None
    times = np.array([at for at, _ in turns], float)
    marks = np.pi * (np.arange(len(turns)) + turns[0][1])  # the left foot is ahead at odd ones
    gaps = np.diff(times)
    is_step = (gaps >= _STEP_S[0] * rate_hz) & (gaps <= _STEP_S[1] * rate_hz)
    is_walk = np.zeros(len(world), bool)
    for number, good in enumerate(is_step):
        if good:
            is_walk[int(times[number]) : int(times[number + 1]) + 1] = True
    if not is_walk.any():
        return None
    usual = float(np.median(gaps[is_step]))
    for edge, way in ((times[0], -1), (times[-1], 1)):  # a step more at both ends
        if is_step[0 if way < 0 else -1]:
            end = edge + way * 1.5 * usual
            is_cut = not 0 <= end < len(world)  # they walk out of the film
            rows = np.clip([edge, end if is_cut else edge + way * usual], 0, len(world) - 1)
            is_walk[int(rows.min()) : int(rows.max()) + 1] = True
    times = np.concatenate([times[:1] - 2 * usual, times, times[-1:] + 2 * usual])
    marks = np.concatenate([marks[:1] - 2 * np.pi, marks, marks[-1:] + 2 * np.pi])
    at = np.clip(np.arange(len(world)), times[0], times[-1])
    return np.asarray(scipy.interpolate.PchipInterpolator(times, marks)(at)), is_walk


def _paced(phase: np.ndarray, is_walk: np.ndarray, rate_hz: float) -> np.ndarray:
    """The phase (T,) as it goes on from the beginning of each walk at a public rate."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], is_walk.astype(int), [0]])))
    found = phase.copy()
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        found[start:stop] = (
            phase[start] + _STRIDE_HZ * 2 * np.pi * np.arange(stop - start) / rate_hz
        )
    return found


def _stance(phase: np.ndarray) -> np.ndarray:
    """(T, 2) which foot stands in the public walk: while its thigh goes back."""
    turns = np.stack([phase, phase + np.pi], axis=1) % (2 * np.pi)
    return np.asarray((turns > np.pi - 0.1) & (turns < 2 * np.pi - 0.1))


@cache
def _walker() -> tuple[Body, float]:
    """The body whose walk is the public one, and the length of its legs."""
    body = bodies.model().body(Shape())
    hip, foot = (body.heads[BONES.index(f"{bone}.L")] for bone in ("upperleg01", "foot"))
    return body, float(np.linalg.norm(hip - foot))


def _walked(
    world: np.ndarray, heading: np.ndarray, phase: np.ndarray, rate_hz: float
) -> np.ndarray:
    """Points of the public walk on the path of a person, at the person's scale."""
    body, leg = _walker()
    at = {name: world[:, place] for place, name in enumerate(POINTS)}
    own = np.median(
        np.linalg.norm(at["left_hip"] - at["left_knee"], axis=1)
        + np.linalg.norm(at["left_knee"] - at["left_ankle"], axis=1)
    )
    scale = float(own) / leg
    hips = (at["left_hip"] + at["right_hip"]) / 2
    path = _followed(hips[:, :2], rate_hz)
    reach = _reach(at, path, heading, phase, float(own), rate_hz)
    along = np.unwrap(np.arctan2(heading[:, 0], -heading[:, 1]))
    turns = skeleton.turns_of(act.usual(phase, reach), body, along)
    heads = skeleton.chain(turns, body)
    feet, _ = skeleton.contacts(turns, heads, body)
    height = ndimage.gaussian_filter1d(
        -feet[..., 2].min(axis=(1, 2)), 0.05 * rate_hz, mode="nearest"
    )
    middle = heads[:, [BONES.index("upperleg01.L"), BONES.index("upperleg01.R")]].mean(axis=1)
    root = np.column_stack([path / scale - middle[:, :2], height])[:, None]
    found = np.empty_like(world)
    for number, (side, letter) in enumerate((("left", "L"), ("right", "R"))):
        for part, bone in _WHICH.items():
            found[:, _AT[f"{side}_{part}"]] = heads[:, BONES.index(f"{bone}.{letter}")]
        found[:, _AT[f"{side}_heel"]] = feet[:, number, 0]
        found[:, _AT[f"{side}_toe"]] = feet[:, number, 2]
        elbow, wrist = (found[:, _AT[f"{side}_{part}"]] for part in ("elbow", "wrist"))
        found[:, _AT[f"{side}_hand"]] = wrist + 0.09 * unit(wrist - elbow)
    found = (found + root) * scale
    found[:, _HEAD] = _head(world, heading, Posed(turns=turns, heads=heads + root), rate_hz) * scale
    return np.asarray(found)


def _head(world: np.ndarray, heading: np.ndarray, posed: Posed, rate_hz: float) -> np.ndarray:
    """(T, 3, 3) the public head, turned to where the person looks: that is not gait."""
    model, (body, _) = bodies.model(), _walker()
    names = [JOINTS.index(POINTS[place]) for place in _HEAD]
    bones = np.array([bone for bone, _ in model.joint_places])
    put = posed.carry(model.joints(body), body.heads, bones)[:, names]
    nose, left, right = (world[:, place, :2] for place in _HEAD)
    look = nose - (left + right) / 2
    aside = np.arctan2(look[:, 1], look[:, 0]) - np.arctan2(heading[:, 1], heading[:, 0])
    aside = ndimage.gaussian_filter1d(np.unwrap(aside), _PATH_S * rate_hz, mode="nearest")
    middle = put[:, 1:].mean(axis=1, keepdims=True)
    turn = spatial.transform.Rotation.from_rotvec(np.outer(aside, [0.0, 0.0, 1.0])).as_matrix()
    return np.asarray(middle + (put - middle) @ np.swapaxes(turn, 1, 2))


def _followed(path: np.ndarray, rate_hz: float) -> np.ndarray:
    """A path (T, 2) without the sway of steps; neither late nor short at its ends."""
    from scipy.signal import savgol_filter  # late, as above

    width = min(round(_SWAY_S * rate_hz) // 2 * 2 + 1, (len(path) - 1) // 2 * 2 + 1)
    return np.asarray(savgol_filter(path, width, 2, axis=0)) if width > 3 else path


def _reach(
    at: dict[str, np.ndarray],
    path: np.ndarray,
    heading: np.ndarray,
    phase: np.ndarray,
    leg: float,
    rate_hz: float,
) -> np.ndarray:
    """(T,) how far thighs swing so that the feet go as far as the hips do."""
    speed = np.linalg.norm(np.gradient(path, axis=0), axis=1) * rate_hz
    stride_s = 2 * np.pi / np.maximum(np.gradient(phase) * rate_hz, 1.0)
    stride_s = ndimage.gaussian_filter1d(stride_s, _PATH_S * rate_hz, mode="nearest")
    apart = ((at["left_ankle"] - at["right_ankle"])[:, :2] * heading).sum(axis=1)
    step = np.sqrt(2 * ndimage.gaussian_filter1d(apart**2, 2 * _PATH_S * rate_hz, mode="nearest"))
    way = np.where(speed > _SLOW, speed * stride_s / 2, step)
    found = np.arcsin(np.clip(way / (2 * leg), 0, 0.9))
    smooth = ndimage.gaussian_filter1d(found, _PATH_S * rate_hz, mode="nearest")
    return np.asarray(np.clip(smooth, *_REACH))
