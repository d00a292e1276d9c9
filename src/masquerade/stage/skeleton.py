"""From joint angles to where every bone is: forward kinematics and contact with the floor.

A pose is a row of named angles, so that motions can be cut, mixed and joined as plain arrays.
Angles are zero when a person stands upright with the arms hanging down. Legs are given in the
frame of the heading, arms in the frame of the chest, so that bending the back does not move the
feet.

Convention: radians; right-handed; x to the person's left, y backward, z up. Positive hip and arm
lift forward, positive knee and elbow bend, positive pitch bends forward, positive yaw turns left.

From where joints are to how bones are turned: inverse kinematics in closed form.

The trunk and the head have three points each, which say how they are turned. An upper limb points
to the next joint, and the plane in which elbow or knee is bent says how it is twisted; where it is
straight, the twist is that of somebody standing at ease.

Convention: metres, z up; turns lead from the rest pose of a body, as in ``skeleton.BodyMotion``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from masquerade._optional import ndimage, spatial
from masquerade.joints import JOINTS
from masquerade.stage.bodies import BONES, PARENTS, Body, BodyModel

RATE_HZ = 100.0  # of every motion before it is sampled for a camera or a sensor

_WHOLE = ("tilt", "lean", "turn", "hop")
_TRUNK = (
    *("pelvis_pitch", "pelvis_roll", "pelvis_yaw", "spine_pitch", "spine_roll", "spine_yaw"),
    *("head_pitch", "head_yaw"),
)
_SIGN_FLIPS = ("lean", "turn", "pelvis_roll", "pelvis_yaw", "spine_roll", "spine_yaw", "head_yaw")
_LEG = ("hip", "hip_out", "hip_twist", "knee", "ankle", "flat")
_ARM = ("arm", "arm_side", "arm_twist", "elbow", "hand")
ANGLES = (
    *_WHOLE,
    *_TRUNK,
    *(f"{name}_{side}" for side in "lr" for name in (*_LEG, *_ARM)),
)
_COLUMN = {name: place for place, name in enumerate(ANGLES)}
_Angles = dict[str, np.ndarray]
_SIGN = {"l": 1.0, "r": -1.0}  # left is towards +x

_SPINE = ("spine05", "spine04", "spine03", "spine02", "spine01")
# What can touch the floor, beside the feet: a bone and how thick the body is around its head.
_TOUCH = {"root": 0.10, "spine02": 0.11, "spine01": 0.11, "head": 0.10}
_LIMBS = {"lowerleg01": 0.06, "wrist": 0.04, "lowerarm01": 0.05, "upperleg01": 0.09}
_TOUCH |= {f"{bone}.{side}": thick for bone, thick in _LIMBS.items() for side in "LR"}


@dataclass(frozen=True, kw_only=True, eq=False)
class BodyMotion:
    """A person in motion.

    Args:
        turns: (T, B, 3, 3), how each bone is turned from its rest pose.
        heads: (T, B, 3), where each bone begins, in metres.
    """

    turns: np.ndarray
    heads: np.ndarray

    def select_times(self, rows: np.ndarray) -> BodyMotion:
        """Some of the times."""
        return BodyMotion(turns=self.turns[rows], heads=self.heads[rows])

    def carry_points(self, points: np.ndarray, rest: np.ndarray, bones: np.ndarray) -> np.ndarray:
        """Where points (N, 3) go, (T, N, 3), that are fixed to ``bones`` (N,) at rest."""
        turned = np.einsum("tnij,nj->tni", self.turns[:, bones], points - rest[bones])
        return np.asarray(turned + self.heads[:, bones])


def select_angle(pose: np.ndarray, name: str) -> np.ndarray:
    """One angle of a pose (T, angles), as a view."""
    return pose[:, _COLUMN[name]]


def mirror_motion(pose: np.ndarray) -> np.ndarray:
    """The same motion with left and right exchanged."""
    out = pose.copy()
    for name in (*_LEG, *_ARM):
        left, right = _COLUMN[f"{name}_l"], _COLUMN[f"{name}_r"]
        out[:, [left, right]] = pose[:, [right, left]]
    for name in _SIGN_FLIPS:
        out[:, _COLUMN[name]] *= -1
    return out


def solve_motion(
    pose: np.ndarray, body: Body, *, heading: float = 0.0, drift: float = 0.0
) -> BodyMotion:
    """Put a motion on the floor: the lowest point touches it, the standing foot stays.

    Args:
        pose: (T, angles) at ``RATE_HZ``.
        body: whose.
        heading: where the person faces at first, in radians from -y, to the left.
        drift: how fast the path turns to the left, in radians a second.
    """
    along = heading + drift * np.arange(len(pose)) / RATE_HZ + select_angle(pose, "turn")
    turns = compute_bone_turns(pose, body, along)
    heads = compute_bone_heads(turns, body)
    feet, others = compute_contacts(turns, heads, body)
    height = select_angle(pose, "hop") - np.minimum(
        feet[..., 2].min(axis=(1, 2)), others.min(axis=1)
    )
    path = _anchor_feet(feet)
    root = np.concatenate([path, _smooth_values(height, 0.05)[:, None]], axis=1)
    return BodyMotion(turns=turns, heads=heads + root[:, None])


def compute_bone_turns(pose: np.ndarray, body: Body, along: np.ndarray) -> np.ndarray:
    """(T, B, 3, 3) how bones are turned in a pose (T, angles) that faces ``along`` (T,)."""
    get = {name: pose[:, place] for name, place in _COLUMN.items()}
    times = len(pose)
    out = np.empty((times, len(BONES), 3, 3))
    frame = _rz(along) @ _ry(get["lean"]) @ _rx(get["tilt"])  # heading, and the whole body's fall

    def put_turn(bone: str, turn: np.ndarray) -> None:
        out[:, BONES.index(bone)] = turn

    trunk = frame @ _rz(get["pelvis_yaw"]) @ _ry(get["pelvis_roll"]) @ _rx(get["pelvis_pitch"])
    put_turn("root", trunk)
    share = 1 / len(_SPINE)
    bend = _rz(share * get["spine_yaw"]) @ _ry(share * get["spine_roll"])
    bend = bend @ _rx(share * get["spine_pitch"])
    for bone in _SPINE:
        trunk = trunk @ bend
        put_turn(bone, trunk)
    nod = _rz(get["head_yaw"] / 2) @ _rx(get["head_pitch"] / 2)
    put_turn("neck01", trunk @ nod)
    put_turn("head", trunk @ nod @ nod)
    for side in "lr":
        _put_leg(out, frame, get, body, side)
        _put_arm_skeleton(out, trunk, get, body, side)
    return out


def _put_leg(out: np.ndarray, frame: np.ndarray, get: _Angles, body: Body, side: str) -> None:
    sign = _SIGN[side]
    upper, lower, foot = (
        BONES.index(f"{bone}.{side.upper()}") for bone in ("upperleg01", "lowerleg01", "foot")
    )
    hip = _ry(-sign * get[f"hip_out_{side}"]) @ _rx(-get[f"hip_{side}"])
    hip = frame @ hip @ _rz(sign * get[f"hip_twist_{side}"])
    knee = hip @ _rx(get[f"knee_{side}"])
    out[:, upper] = hip @ _make_hanging_turn(body.heads[lower] - body.heads[upper])
    out[:, lower] = knee @ _make_hanging_turn(body.heads[foot] - body.heads[lower])
    bent = knee @ _rx(-get[f"ankle_{side}"])
    level = frame @ _rz(sign * get[f"hip_twist_{side}"])
    out[:, foot] = _mix_turns(bent, level, get[f"flat_{side}"])


def _put_arm_skeleton(
    out: np.ndarray, trunk: np.ndarray, get: _Angles, body: Body, side: str
) -> None:
    sign = _SIGN[side]
    collar, upper, lower, hand = (
        BONES.index(f"{bone}.{side.upper()}")
        for bone in ("clavicle", "upperarm01", "lowerarm01", "wrist")
    )
    lift = np.clip(get[f"arm_{side}"] - 0.9, 0, None) * 0.28  # the collar bone follows a high arm
    out[:, collar] = trunk @ _ry(-sign * lift)
    arm = trunk @ _rz(sign * get[f"arm_side_{side}"]) @ _rx(-get[f"arm_{side}"])
    arm = arm @ _rz(sign * get[f"arm_twist_{side}"])
    elbow = arm @ _rx(-get[f"elbow_{side}"])
    out[:, upper] = arm @ _make_hanging_turn(body.heads[lower] - body.heads[upper])
    straight = _make_hanging_turn(body.heads[hand] - body.heads[lower])
    out[:, lower] = elbow @ straight
    out[:, hand] = elbow @ _rx(-get[f"hand_{side}"]) @ straight


def compute_bone_heads(turns: np.ndarray, body: Body) -> np.ndarray:
    """Bone heads (T, B, 3) of turns (T, B, 3, 3), with the root at the origin."""
    heads = np.zeros(turns.shape[:3])
    for bone, parent in enumerate(PARENTS):
        if parent >= 0:
            step = body.heads[bone] - body.heads[parent]
            heads[:, bone] = heads[:, parent] + turns[:, parent] @ step
    return heads


def compute_contacts(
    turns: np.ndarray, heads: np.ndarray, body: Body
) -> tuple[np.ndarray, np.ndarray]:
    """Soles (T, 2, 3 points, 3) and the lowest of other parts (T, n)."""
    floor = body.vertices[:, 2].min()
    soles = []
    for side in "LR":
        bone = BONES.index(f"foot.{side}")
        ankle = body.heads[bone]
        length = ankle[2] - floor
        shifts = np.array([[0, 0.05, -length], [0, -0.12, -length], [0, -0.19, 0.015 - length]])
        soles.append(heads[:, None, bone] + np.einsum("tij,nj->tni", turns[:, bone], shifts))
    others = [heads[:, BONES.index(bone), 2] - thick for bone, thick in _TOUCH.items()]
    return np.stack(soles, axis=1), np.stack(others, axis=1)


def _anchor_feet(feet: np.ndarray) -> np.ndarray:
    """The root's path on the floor (T, 2) on which the lower foot stands still."""
    middle = feet.mean(axis=2)
    lowest = feet[..., 2].min(axis=2)
    left = 1 / (1 + np.exp(np.clip((lowest[:, 0] - lowest[:, 1]) / 0.02, -40, 40)))
    speed = -np.gradient(middle[..., :2], axis=0)
    along = left[:, None] * speed[:, 0] + (1 - left)[:, None] * speed[:, 1]
    return np.cumsum(_smooth_values(along, 0.10), axis=0)


def _smooth_values(values: np.ndarray, seconds: float) -> np.ndarray:
    found: np.ndarray = ndimage.gaussian_filter1d(values, seconds * RATE_HZ, axis=0, mode="nearest")
    return found


def _mix_turns(first: np.ndarray, second: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Rotations mixed and made rotations again (they are less than half a turn apart)."""
    if not np.any(part):
        return first
    mixed = first + part[:, None, None] * (second - first)
    u, _, v = np.linalg.svd(mixed)
    return np.asarray(u @ v)


def _make_hanging_turn(direction: np.ndarray) -> np.ndarray:
    """The smallest rotation that turns ``direction`` straight down."""
    unit = direction / np.linalg.norm(direction)
    x, y, cosine = unit[0], unit[1], -unit[2]
    skew = np.array([[0, 0, x], [0, 0, y], [-x, -y, 0]])  # of the axis, (-y, x, 0)
    found: np.ndarray = np.eye(3) + skew + skew @ skew / (1 + cosine)
    return found


def _make_rotation(angle: np.ndarray, *, first: int, second: int) -> np.ndarray:
    out = np.zeros((len(angle), 3, 3))
    out[:] = np.eye(3)
    cosine, sine = np.cos(angle), np.sin(angle)
    out[:, first, first] = out[:, second, second] = cosine
    out[:, first, second], out[:, second, first] = -sine, sine
    return out


_rx = partial(_make_rotation, first=1, second=2)
_ry = partial(_make_rotation, first=2, second=0)
_rz = partial(_make_rotation, first=0, second=1)

POINTS = (
    *("nose", "left_ear", "right_ear", "left_shoulder", "right_shoulder"),
    *("left_elbow", "right_elbow", "left_wrist", "right_wrist", "left_hand", "right_hand"),
    *("left_hip", "right_hip", "left_knee", "right_knee", "left_ankle", "right_ankle"),
    *("left_heel", "right_heel", "left_toe", "right_toe"),
)
SPINE = ("spine05", "spine04", "spine03", "spine02", "spine01")
_SIDES = (("left", "L"), ("right", "R"))
_MIN_BEND_SINE = 0.25  # sine of the angle from which a joint says how its limb is twisted
_MAX_HEAD_TURN = 1.1  # radians by which a head is turned from the chest at most
_MAX_HAND_BEND = 0.7  # radians by which a hand is bent at most
_KNEE_OUT = 0.6  # how far a knee goes outward or inward, over how far it goes ahead
_FOOT_OUT = 0.35  # the same of toes
_FOOT_AHEAD = 0.35  # how much of a foot lies ahead of the shank at least
_DOWN = np.array([0.0, 0.0, -1.0])
_LEFT = np.array([1.0, 0.0, 0.0])
_AHEAD = np.array([0.0, -1.0, 0.0])


def compute_upper_body_turns(points: np.ndarray, model: BodyModel, body: Body) -> np.ndarray:
    """(T, B, 3, 3) turns of trunk, head and arms for points (T, P, 3); legs are left as at rest."""
    at = {name: points[:, place] for place, name in enumerate(POINTS)}
    joints = model.compute_rest_joints(body)
    rest = {name: joints[JOINTS.index(name)] for name in POINTS if name in JOINTS}
    turns = np.tile(np.eye(3), (len(points), len(BONES), 1, 1))
    hips, chest = _compute_trunk_turns(at, rest, "hip"), _compute_trunk_turns(at, rest, "shoulder")
    turns[:, BONES.index("root")] = hips
    for place, bone in enumerate(SPINE):
        turns[:, BONES.index(bone)] = mix_rotations(hips, chest, (place + 1) / len(SPINE))
    head = _limit_turns(chest, _compute_head_turns(at, rest), _MAX_HEAD_TURN)
    turns[:, BONES.index("neck01")] = mix_rotations(chest, head, 0.5)
    turns[:, BONES.index("head")] = head
    for side, letter in _SIDES:
        _put_arm_inverse(turns, at, body, side, letter)
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
    thigh, shank = normalise_vectors(knee - hip), normalise_vectors(ankle - knee)
    ease = _carry_vectors(root @ _DOWN, thigh, root @ _LEFT)
    axis = _find_hinge_axis(thigh, shank, ease)
    toe = _compute_toe_direction(shank, axis, normalise_vectors(toe))
    rest_thigh, rest_shank = _list_bone_directions(body, upper, lower, foot)
    rest_axis = _LEFT
    turns[:, upper] = _compute_pair_turn(thigh, axis, rest_thigh, rest_axis)
    turns[:, lower] = _compute_pair_turn(shank, axis, rest_shank, rest_axis)
    turns[:, foot] = _compute_pair_turn(toe, axis, _AHEAD, rest_axis)


def bend_knee(
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
    along = normalise_vectors(way)
    far = np.minimum(far, (upper + lower) * 0.9999)
    ahead = normalise_vectors(ahead - (ahead * along).sum(axis=1, keepdims=True) * along)
    side = knee - hip
    side = side - (side * along).sum(axis=1, keepdims=True) * along
    front = (side * ahead).sum(axis=1, keepdims=True)
    out = side - front * ahead
    front = np.maximum(front, 0.02)
    most = _KNEE_OUT * front / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-9)
    side = normalise_vectors(front * ahead + np.minimum(most, 1.0) * out)
    foot = (upper**2 - lower**2 + far**2) / (2 * far)
    return np.asarray(hip + foot * along + np.sqrt(np.maximum(upper**2 - foot**2, 0.0)) * side)


def normalise_vectors(vectors: np.ndarray) -> np.ndarray:
    """The directions of vectors (..., 3)."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9))


def mix_rotations(first: np.ndarray, second: np.ndarray, part: float | np.ndarray) -> np.ndarray:
    """Turns (..., 3, 3) on the way from one to another."""
    between = spatial.transform.Rotation.from_matrix(
        np.swapaxes(first, -1, -2) @ second
    ).as_rotvec()
    return np.asarray(first @ spatial.transform.Rotation.from_rotvec(part * between).as_matrix())


def steady_turns(turns: np.ndarray, width: float) -> np.ndarray:
    """Turns (T, ..., 3, 3) without what is faster than ``width`` frames."""
    if len(turns) < 2 or width <= 0:
        return turns
    mean = ndimage.gaussian_filter1d(turns, width, axis=0, mode="nearest")
    u, _, v = np.linalg.svd(mean)
    flip = np.linalg.det(u @ v) < 0
    u[flip, :, -1] *= -1
    return np.asarray(u @ v)


def _compute_trunk_turns(
    at: dict[str, np.ndarray], rest: dict[str, np.ndarray], across: str
) -> np.ndarray:
    """How hips or chest are turned: the trunk points up, and ``across`` to the left."""

    def list_directions(of: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        top, low = ((of[f"left_{part}"] + of[f"right_{part}"]) / 2 for part in ("shoulder", "hip"))
        return top - low, of[f"left_{across}"] - of[f"right_{across}"]

    return _compute_pair_turn(*list_directions(at), *list_directions(rest))


def _compute_head_turns(at: dict[str, np.ndarray], rest: dict[str, np.ndarray]) -> np.ndarray:
    def list_directions(of: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        ears = of["left_ear"], of["right_ear"]
        return of["nose"] - (ears[0] + ears[1]) / 2, ears[0] - ears[1]

    return _compute_pair_turn(*list_directions(at), *list_directions(rest))


def _put_arm_inverse(
    turns: np.ndarray, at: dict[str, np.ndarray], body: Body, side: str, letter: str
) -> None:
    collar, upper, lower, hand = (
        BONES.index(f"{bone}.{letter}")
        for bone in ("clavicle", "upperarm01", "lowerarm01", "wrist")
    )
    chest = turns[:, BONES.index("spine01")]
    shoulder, elbow, wrist = (at[f"{side}_{part}"] for part in ("shoulder", "elbow", "wrist"))
    above, below = normalise_vectors(elbow - shoulder), normalise_vectors(wrist - elbow)
    down = chest @ _DOWN
    axis = _find_hinge_axis(above, below, _carry_vectors(down, above, chest @ -_LEFT))
    rest_above, rest_below = _list_bone_directions(body, upper, lower, hand)
    ahead = np.cross(rest_above, _AHEAD)  # about this a straight elbow bends
    rest_axis = _find_hinge_axis(*(each[None] for each in (rest_above, rest_below, ahead)))[0]
    turns[:, upper] = _compute_pair_turn(above, axis, rest_above, rest_axis)
    turns[:, lower] = _compute_pair_turn(below, axis, rest_below, rest_axis)
    lift = np.arccos(np.clip((above * down).sum(axis=1), -1, 1))
    lift = 0.28 * np.clip(lift - 0.9, 0, None)  # the collar bone follows a high arm
    sign = -1.0 if letter == "L" else 1.0
    about = (sign * lift)[:, None] * (chest @ -_AHEAD)
    turns[:, collar] = spatial.transform.Rotation.from_rotvec(about).as_matrix() @ chest
    points = normalise_vectors(at[f"{side}_hand"] - wrist)
    bend = _limit_turns(
        np.tile(np.eye(3), (len(chest), 1, 1)), compute_smallest_turn(below, points), _MAX_HAND_BEND
    )
    turns[:, hand] = bend @ turns[:, lower]


def _compute_toe_direction(shank: np.ndarray, axis: np.ndarray, toe: np.ndarray) -> np.ndarray:
    """(T, 3) where toes point, as far as an ankle lets them."""
    front = normalise_vectors(np.cross(shank, axis))
    along, out, ahead = (
        (toe * each).sum(axis=1, keepdims=True) for each in (shank, normalise_vectors(axis), front)
    )
    ahead = np.maximum(ahead, _FOOT_AHEAD)
    out = np.clip(out, -_FOOT_OUT * ahead, _FOOT_OUT * ahead)
    return normalise_vectors(along * shank + out * normalise_vectors(axis) + ahead * front)


def _list_bone_directions(body: Body, *bones: int) -> list[np.ndarray]:
    """Directions from each bone to the next, at rest."""
    return [normalise_vectors(body.heads[b] - body.heads[a]) for a, b in pairwise(bones)]


def _compute_pair_turn(
    first: np.ndarray, second: np.ndarray, rest_first: np.ndarray, rest_second: np.ndarray
) -> np.ndarray:
    """(T, 3, 3): takes one pair of directions to another; the first of them exactly."""
    return np.asarray(
        _make_direction_frame(first, second) @ _make_direction_frame(rest_first, rest_second).T
    )


def _make_direction_frame(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    along = normalise_vectors(first)
    third = normalise_vectors(np.cross(along, second))
    return np.stack([along, np.cross(third, along), third], axis=-1)


def _find_hinge_axis(above: np.ndarray, below: np.ndarray, ease: np.ndarray) -> np.ndarray:
    """(T, 3) the axis about which a limb is bent; at ease where it is straight."""
    axis = np.cross(above, below)
    size = np.linalg.norm(axis, axis=1, keepdims=True)
    part = np.clip(size / _MIN_BEND_SINE, 0, 1) ** 2
    part = np.where((axis * ease).sum(axis=1, keepdims=True) < 0, part * 0.5, part)
    found = part * axis / np.maximum(size, 1e-9) + (1 - part) * ease
    if len(found) > 1:
        found = ndimage.gaussian_filter1d(found, 1.5, axis=0, mode="nearest")
    return normalise_vectors(found)


def compute_smallest_turn(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(T, 3, 3): the smallest turn from one direction to another."""
    axis = np.cross(first, second)
    sine = np.linalg.norm(axis, axis=1)
    angle = np.arctan2(sine, (first * second).sum(axis=1))
    about = axis / np.maximum(sine, 1e-9)[:, None] * angle[:, None]
    return np.asarray(spatial.transform.Rotation.from_rotvec(about).as_matrix())


def _carry_vectors(first: np.ndarray, second: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """(T, 3) vectors as they are after the smallest turn from one direction to another."""
    return np.asarray((compute_smallest_turn(first, second) @ vector[..., None])[..., 0])


def _limit_turns(base: np.ndarray, turned: np.ndarray, most: float) -> np.ndarray:
    """Turns no farther than ``most`` radians from others."""
    way = spatial.transform.Rotation.from_matrix(np.swapaxes(base, -1, -2) @ turned).as_rotvec()
    size = np.linalg.norm(way, axis=-1, keepdims=True)
    way = way * np.minimum(1.0, most / np.maximum(size, 1e-9))
    return np.asarray(base @ spatial.transform.Rotation.from_rotvec(way).as_matrix())
