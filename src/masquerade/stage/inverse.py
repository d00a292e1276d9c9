"""From where joints are to how bones are turned: inverse kinematics in closed form.

The trunk and the head have three points each, which say how they are turned. An upper limb points
to the next joint, and the plane in which elbow or knee is bent says how it is twisted; where it is
straight, the twist is that of somebody standing at ease.

Convention: metres, z up; turns lead from the rest pose of a body, as in ``skeleton.Posed``.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from masquerade._optional import ndimage, spatial
from masquerade.joints import JOINTS
from masquerade.stage.bodies import BONES, Body, Model

POINTS = (
    *("nose", "left_ear", "right_ear", "left_shoulder", "right_shoulder"),
    *("left_elbow", "right_elbow", "left_wrist", "right_wrist", "left_hand", "right_hand"),
    *("left_hip", "right_hip", "left_knee", "right_knee", "left_ankle", "right_ankle"),
    *("left_heel", "right_heel", "left_toe", "right_toe"),
)
SPINE = ("spine05", "spine04", "spine03", "spine02", "spine01")
_SIDES = (("left", "L"), ("right", "R"))
_BENT = 0.25  # sine of the angle from which a joint says how its limb is twisted
_LOOK = 1.1  # radians by which a head is turned from the chest at most
_HAND = 0.7  # radians by which a hand is bent at most
_KNEE_OUT = 0.6  # how far a knee goes outward or inward, over how far it goes ahead
_FOOT_OUT = 0.35  # the same of toes
_FOOT_AHEAD = 0.35  # how much of a foot lies ahead of the shank at least
_DOWN = np.array([0.0, 0.0, -1.0])
_LEFT = np.array([1.0, 0.0, 0.0])
_AHEAD = np.array([0.0, -1.0, 0.0])


def upper_body(points: np.ndarray, model: Model, body: Body) -> np.ndarray:
    """(T, B, 3, 3) turns of trunk, head and arms for points (T, P, 3); legs are left as at rest."""
    at = {name: points[:, place] for place, name in enumerate(POINTS)}
    joints = model.joints(body)
    rest = {name: joints[JOINTS.index(name)] for name in POINTS if name in JOINTS}
    turns = np.tile(np.eye(3), (len(points), len(BONES), 1, 1))
    hips, chest = _trunk(at, rest, "hip"), _trunk(at, rest, "shoulder")
    turns[:, BONES.index("root")] = hips
    for place, bone in enumerate(SPINE):
        turns[:, BONES.index(bone)] = mixed(hips, chest, (place + 1) / len(SPINE))
    head = _within(chest, _head(at, rest), _LOOK)
    turns[:, BONES.index("neck01")] = mixed(chest, head, 0.5)
    turns[:, BONES.index("head")] = head
    for side, letter in _SIDES:
        _put_arm(turns, at, body, side, letter)
    return turns


def put_leg(
    turns: np.ndarray, body: Body, letter: str, way: tuple[np.ndarray, ...], toe: np.ndarray
) -> None:
    """Turn one leg, "L" or "R".

    Args:
        turns: (T, B, 3, 3), is changed; the hips are turned already.
        body: whose.
        letter: which side.
        way: hip, knee and ankle, each (T, 3).
        toe: (T, 3) to where the foot points.
    """
    hip, knee, ankle = way
    upper, lower, foot = (
        BONES.index(f"{b}.{letter}") for b in ("upperleg01", "lowerleg01", "foot")
    )
    root = turns[:, BONES.index("root")]
    thigh, shank = unit(knee - hip), unit(ankle - knee)
    ease = _carried(root @ _DOWN, thigh, root @ _LEFT)
    axis = _hinge(thigh, shank, ease)
    toe = _ahead_of(shank, axis, unit(toe))
    rest_thigh, rest_shank = _steps(body, upper, lower, foot)
    rest_axis = _LEFT
    turns[:, upper] = _turn(thigh, axis, rest_thigh, rest_axis)
    turns[:, lower] = _turn(shank, axis, rest_shank, rest_axis)
    turns[:, foot] = _turn(toe, axis, _AHEAD, rest_axis)


def bent(
    hip: np.ndarray, ankle: np.ndarray, knee: np.ndarray, ahead: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """(T, 3): the knee between hip and ankle, on the side of ``knee`` but never behind the leg.

    Args:
        hip: (T, 3).
        ankle: (T, 3); what is too far to be reached is reached for.
        knee: (T, 3) where it would be.
        ahead: (T, 3) unit vectors to the front.
        lengths: of thigh and shank.
    """
    upper, lower = lengths
    way = ankle - hip
    far = np.clip(np.linalg.norm(way, axis=1, keepdims=True), abs(upper - lower) + 1e-3, None)
    along = unit(way)
    far = np.minimum(far, (upper + lower) * 0.9999)
    ahead = unit(ahead - (ahead * along).sum(axis=1, keepdims=True) * along)
    side = knee - hip
    side = side - (side * along).sum(axis=1, keepdims=True) * along
    front = (side * ahead).sum(axis=1, keepdims=True)
    out = side - front * ahead
    front = np.maximum(front, 0.02)
    most = _KNEE_OUT * front / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-9)
    side = unit(front * ahead + np.minimum(most, 1.0) * out)
    foot = (upper**2 - lower**2 + far**2) / (2 * far)
    return np.asarray(hip + foot * along + np.sqrt(np.maximum(upper**2 - foot**2, 0.0)) * side)


def unit(vectors: np.ndarray) -> np.ndarray:
    """The directions of vectors (..., 3)."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9))


def mixed(first: np.ndarray, second: np.ndarray, part: float | np.ndarray) -> np.ndarray:
    """Turns (..., 3, 3) on the way from one to another."""
    between = spatial.transform.Rotation.from_matrix(
        np.swapaxes(first, -1, -2) @ second
    ).as_rotvec()
    return np.asarray(first @ spatial.transform.Rotation.from_rotvec(part * between).as_matrix())


def steadied(turns: np.ndarray, width: float) -> np.ndarray:
    """Turns (T, ..., 3, 3) without what is faster than ``width`` frames."""
    if len(turns) < 2 or width <= 0:
        return turns
    mean = ndimage.gaussian_filter1d(turns, width, axis=0, mode="nearest")
    u, _, v = np.linalg.svd(mean)
    flip = np.linalg.det(u @ v) < 0
    u[flip, :, -1] *= -1
    return np.asarray(u @ v)


def _trunk(at: dict[str, np.ndarray], rest: dict[str, np.ndarray], across: str) -> np.ndarray:
    """How hips or chest are turned: the trunk points up, and ``across`` to the left."""

    def directions(of: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        top, low = ((of[f"left_{part}"] + of[f"right_{part}"]) / 2 for part in ("shoulder", "hip"))
        return top - low, of[f"left_{across}"] - of[f"right_{across}"]

    return _turn(*directions(at), *directions(rest))


def _head(at: dict[str, np.ndarray], rest: dict[str, np.ndarray]) -> np.ndarray:
    def directions(of: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        ears = of["left_ear"], of["right_ear"]
        return of["nose"] - (ears[0] + ears[1]) / 2, ears[0] - ears[1]

    return _turn(*directions(at), *directions(rest))


def _put_arm(
    turns: np.ndarray, at: dict[str, np.ndarray], body: Body, side: str, letter: str
) -> None:
    collar, upper, lower, hand = (
        BONES.index(f"{bone}.{letter}")
        for bone in ("clavicle", "upperarm01", "lowerarm01", "wrist")
    )
    chest = turns[:, BONES.index("spine01")]
    shoulder, elbow, wrist = (at[f"{side}_{part}"] for part in ("shoulder", "elbow", "wrist"))
    above, below = unit(elbow - shoulder), unit(wrist - elbow)
    down = chest @ _DOWN
    axis = _hinge(above, below, _carried(down, above, chest @ -_LEFT))
    rest_above, rest_below = _steps(body, upper, lower, hand)
    ahead = np.cross(rest_above, _AHEAD)  # about this a straight elbow bends
    rest_axis = _hinge(*(each[None] for each in (rest_above, rest_below, ahead)))[0]
    turns[:, upper] = _turn(above, axis, rest_above, rest_axis)
    turns[:, lower] = _turn(below, axis, rest_below, rest_axis)
    lift = np.arccos(np.clip((above * down).sum(axis=1), -1, 1))
    lift = 0.28 * np.clip(lift - 0.9, 0, None)  # the collar bone follows a high arm
    sign = -1.0 if letter == "L" else 1.0
    about = (sign * lift)[:, None] * (chest @ -_AHEAD)
    turns[:, collar] = spatial.transform.Rotation.from_rotvec(about).as_matrix() @ chest
    points = unit(at[f"{side}_hand"] - wrist)
    bend = _within(np.tile(np.eye(3), (len(chest), 1, 1)), swing(below, points), _HAND)
    turns[:, hand] = bend @ turns[:, lower]


def _ahead_of(shank: np.ndarray, axis: np.ndarray, toe: np.ndarray) -> np.ndarray:
    """(T, 3) where toes point, as far as an ankle lets them."""
    front = unit(np.cross(shank, axis))
    along, out, ahead = (
        (toe * each).sum(axis=1, keepdims=True) for each in (shank, unit(axis), front)
    )
    ahead = np.maximum(ahead, _FOOT_AHEAD)
    out = np.clip(out, -_FOOT_OUT * ahead, _FOOT_OUT * ahead)
    return unit(along * shank + out * unit(axis) + ahead * front)


def _steps(body: Body, *bones: int) -> list[np.ndarray]:
    """Directions from each bone to the next, at rest."""
    return [unit(body.heads[b] - body.heads[a]) for a, b in pairwise(bones)]


def _turn(
    first: np.ndarray, second: np.ndarray, rest_first: np.ndarray, rest_second: np.ndarray
) -> np.ndarray:
    """(T, 3, 3): takes one pair of directions to another; the first of them exactly."""
    return np.asarray(_frame(first, second) @ _frame(rest_first, rest_second).T)


def _frame(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    along = unit(first)
    third = unit(np.cross(along, second))
    return np.stack([along, np.cross(third, along), third], axis=-1)


def _hinge(above: np.ndarray, below: np.ndarray, ease: np.ndarray) -> np.ndarray:
    """(T, 3) the axis about which a limb is bent; at ease where it is straight."""
    axis = np.cross(above, below)
    size = np.linalg.norm(axis, axis=1, keepdims=True)
    part = np.clip(size / _BENT, 0, 1) ** 2
    part = np.where((axis * ease).sum(axis=1, keepdims=True) < 0, part * 0.5, part)
    found = part * axis / np.maximum(size, 1e-9) + (1 - part) * ease
    if len(found) > 1:
        found = ndimage.gaussian_filter1d(found, 1.5, axis=0, mode="nearest")
    return unit(found)


def swing(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(T, 3, 3): the smallest turn from one direction to another."""
    axis = np.cross(first, second)
    sine = np.linalg.norm(axis, axis=1)
    angle = np.arctan2(sine, (first * second).sum(axis=1))
    about = axis / np.maximum(sine, 1e-9)[:, None] * angle[:, None]
    return np.asarray(spatial.transform.Rotation.from_rotvec(about).as_matrix())


def _carried(first: np.ndarray, second: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """(T, 3) vectors as they are after the smallest turn from one direction to another."""
    return np.asarray((swing(first, second) @ vector[..., None])[..., 0])


def _within(base: np.ndarray, turned: np.ndarray, most: float) -> np.ndarray:
    """Turns no farther than ``most`` radians from others."""
    way = spatial.transform.Rotation.from_matrix(np.swapaxes(base, -1, -2) @ turned).as_rotvec()
    size = np.linalg.norm(way, axis=-1, keepdims=True)
    way = way * np.minimum(1.0, most / np.maximum(size, 1e-9))
    return np.asarray(base @ spatial.transform.Rotation.from_rotvec(way).as_matrix())
