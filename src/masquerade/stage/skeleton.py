"""From joint angles to where every bone is: forward kinematics and contact with the floor.

A pose is a row of named angles, so that motions can be cut, mixed and joined as plain arrays.
Angles are zero when a person stands upright with the arms hanging down. Legs are given in the
frame of the heading, arms in the frame of the chest, so that bending the back does not move the
feet.

Convention: radians; right-handed; x to the person's left, y backward, z up. Positive hip and arm
lift forward, positive knee and elbow bend, positive pitch bends forward, positive yaw turns left.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from masquerade._optional import ndimage
from masquerade.stage.bodies import BONES, PARENTS, Body

RATE_HZ = 100.0  # of every motion before it is sampled for a camera or a sensor

_WHOLE = ("tilt", "lean", "turn", "hop")
_TRUNK = (
    *("pelvis_pitch", "pelvis_roll", "pelvis_yaw", "spine_pitch", "spine_roll", "spine_yaw"),
    *("head_pitch", "head_yaw"),
)
_MIRRORED = ("lean", "turn", "pelvis_roll", "pelvis_yaw", "spine_roll", "spine_yaw", "head_yaw")
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
class Posed:
    """A person in motion.

    Args:
        turns: (T, B, 3, 3), how each bone is turned from its rest pose.
        heads: (T, B, 3), where each bone begins, in metres.
    """

    turns: np.ndarray
    heads: np.ndarray

    def at(self, rows: np.ndarray) -> Posed:
        """Some of the times."""
        return Posed(turns=self.turns[rows], heads=self.heads[rows])

    def carry(self, points: np.ndarray, rest: np.ndarray, bones: np.ndarray) -> np.ndarray:
        """Where points (N, 3) go, (T, N, 3), that are fixed to ``bones`` (N,) at rest."""
        turned = np.einsum("tnij,nj->tni", self.turns[:, bones], points - rest[bones])
        return np.asarray(turned + self.heads[:, bones])


def column(pose: np.ndarray, name: str) -> np.ndarray:
    """One angle of a pose (T, angles), as a view."""
    return pose[:, _COLUMN[name]]


def mirrored(pose: np.ndarray) -> np.ndarray:
    """The same motion with left and right exchanged."""
    out = pose.copy()
    for name in (*_LEG, *_ARM):
        left, right = _COLUMN[f"{name}_l"], _COLUMN[f"{name}_r"]
        out[:, [left, right]] = pose[:, [right, left]]
    for name in _MIRRORED:
        out[:, _COLUMN[name]] *= -1
    return out


def solve(pose: np.ndarray, body: Body, *, heading: float = 0.0, drift: float = 0.0) -> Posed:
    """Put a motion on the floor: the lowest point touches it, the standing foot stays.

    Args:
        pose: (T, angles) at ``RATE_HZ``.
        body: whose.
        heading: where the person faces at first, in radians from -y, to the left.
        drift: how fast the path turns to the left, in radians a second.
    """
    along = heading + drift * np.arange(len(pose)) / RATE_HZ + column(pose, "turn")
    turns = turns_of(pose, body, along)
    heads = chain(turns, body)
    feet, others = contacts(turns, heads, body)
    height = column(pose, "hop") - np.minimum(feet[..., 2].min(axis=(1, 2)), others.min(axis=1))
    path = _anchored(feet)
    root = np.concatenate([path, _smooth(height, 0.05)[:, None]], axis=1)
    return Posed(turns=turns, heads=heads + root[:, None])


def turns_of(pose: np.ndarray, body: Body, along: np.ndarray) -> np.ndarray:
    """(T, B, 3, 3) how bones are turned in a pose (T, angles) that faces ``along`` (T,)."""
    get = {name: pose[:, place] for name, place in _COLUMN.items()}
    times = len(pose)
    out = np.empty((times, len(BONES), 3, 3))
    frame = _rz(along) @ _ry(get["lean"]) @ _rx(get["tilt"])  # heading, and the whole body's fall

    def put(bone: str, turn: np.ndarray) -> None:
        out[:, BONES.index(bone)] = turn

    trunk = frame @ _rz(get["pelvis_yaw"]) @ _ry(get["pelvis_roll"]) @ _rx(get["pelvis_pitch"])
    put("root", trunk)
    share = 1 / len(_SPINE)
    bend = _rz(share * get["spine_yaw"]) @ _ry(share * get["spine_roll"])
    bend = bend @ _rx(share * get["spine_pitch"])
    for bone in _SPINE:
        trunk = trunk @ bend
        put(bone, trunk)
    nod = _rz(get["head_yaw"] / 2) @ _rx(get["head_pitch"] / 2)
    put("neck01", trunk @ nod)
    put("head", trunk @ nod @ nod)
    for side in "lr":
        _put_leg(out, frame, get, body, side)
        _put_arm(out, trunk, get, body, side)
    return out


def _put_leg(out: np.ndarray, frame: np.ndarray, get: _Angles, body: Body, side: str) -> None:
    sign = _SIGN[side]
    upper, lower, foot = (
        BONES.index(f"{bone}.{side.upper()}") for bone in ("upperleg01", "lowerleg01", "foot")
    )
    hip = _ry(-sign * get[f"hip_out_{side}"]) @ _rx(-get[f"hip_{side}"])
    hip = frame @ hip @ _rz(sign * get[f"hip_twist_{side}"])
    knee = hip @ _rx(get[f"knee_{side}"])
    out[:, upper] = hip @ _to_hang(body.heads[lower] - body.heads[upper])
    out[:, lower] = knee @ _to_hang(body.heads[foot] - body.heads[lower])
    bent = knee @ _rx(-get[f"ankle_{side}"])
    level = frame @ _rz(sign * get[f"hip_twist_{side}"])
    out[:, foot] = _between(bent, level, get[f"flat_{side}"])


def _put_arm(out: np.ndarray, trunk: np.ndarray, get: _Angles, body: Body, side: str) -> None:
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
    out[:, upper] = arm @ _to_hang(body.heads[lower] - body.heads[upper])
    straight = _to_hang(body.heads[hand] - body.heads[lower])
    out[:, lower] = elbow @ straight
    out[:, hand] = elbow @ _rx(-get[f"hand_{side}"]) @ straight


def chain(turns: np.ndarray, body: Body) -> np.ndarray:
    """Bone heads (T, B, 3) of turns (T, B, 3, 3), with the root at the origin."""
    heads = np.zeros(turns.shape[:3])
    for bone, parent in enumerate(PARENTS):
        if parent >= 0:
            step = body.heads[bone] - body.heads[parent]
            heads[:, bone] = heads[:, parent] + turns[:, parent] @ step
    return heads


def contacts(turns: np.ndarray, heads: np.ndarray, body: Body) -> tuple[np.ndarray, np.ndarray]:
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


def _anchored(feet: np.ndarray) -> np.ndarray:
    """The root's path on the floor (T, 2) on which the lower foot stands still."""
    middle = feet.mean(axis=2)
    lowest = feet[..., 2].min(axis=2)
    left = 1 / (1 + np.exp(np.clip((lowest[:, 0] - lowest[:, 1]) / 0.02, -40, 40)))
    speed = -np.gradient(middle[..., :2], axis=0)
    along = left[:, None] * speed[:, 0] + (1 - left)[:, None] * speed[:, 1]
    return np.cumsum(_smooth(along, 0.10), axis=0)


def _smooth(values: np.ndarray, seconds: float) -> np.ndarray:
    found: np.ndarray = ndimage.gaussian_filter1d(values, seconds * RATE_HZ, axis=0, mode="nearest")
    return found


def _between(first: np.ndarray, second: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Rotations mixed and made rotations again (they are less than half a turn apart)."""
    if not np.any(part):
        return first
    mixed = first + part[:, None, None] * (second - first)
    u, _, v = np.linalg.svd(mixed)
    return np.asarray(u @ v)


def _to_hang(direction: np.ndarray) -> np.ndarray:
    """The smallest rotation that turns ``direction`` straight down."""
    unit = direction / np.linalg.norm(direction)
    x, y, cosine = unit[0], unit[1], -unit[2]
    skew = np.array([[0, 0, x], [0, 0, y], [-x, -y, 0]])  # of the axis, (-y, x, 0)
    found: np.ndarray = np.eye(3) + skew + skew @ skew / (1 + cosine)
    return found


def _rotation(angle: np.ndarray, *, first: int, second: int) -> np.ndarray:
    out = np.zeros((len(angle), 3, 3))
    out[:] = np.eye(3)
    cosine, sine = np.cos(angle), np.sin(angle)
    out[:, first, first] = out[:, second, second] = cosine
    out[:, first, second], out[:, second, first] = -sine, sine
    return out


_rx = partial(_rotation, first=1, second=2)
_ry = partial(_rotation, first=2, second=0)
_rz = partial(_rotation, first=0, second=1)
