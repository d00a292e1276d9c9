"""How people walk and run, as joint angles over the phase of a stride.

Convention: phase in radians; at 0 the left thigh is farthest back, at pi farthest ahead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade.people.skeleton import ANGLES


@dataclass(frozen=True, kw_only=True)
class Manner:
    """What is someone's own in walking; 1 or 0 is usual, see Stage's ``MotionStyle``."""

    amplitude: float = 1.0
    asymmetry: float = 0.0
    swing: float = 1.0
    bounce: float = 1.0


USUAL = Manner()
# Standing at ease, and the lean of a walker, on which the usual walk is put.
_EASE = {"spine_pitch": 0.05, "head_pitch": -0.02, "pelvis_pitch": 0.03, "tilt": 0.02}
_EASE_SIDES = {
    **{"hip_out": 0.06, "hip_twist": 0.12, "knee": 0.06, "hip": 0.03, "flat": 1.0},
    **{"arm": 0.10, "arm_side": 0.9, "elbow": 0.25, "arm_twist": -0.6},
}


def strides(
    phase: np.ndarray,
    manner: Manner = USUAL,
    *,
    reach: float | np.ndarray,
    lift: float,
    swing: float,
    elbow: float,
) -> dict[str, np.ndarray | float]:
    """What walking and running add to the angles of legs, arms and trunk, by name.

    Args:
        phase: (T,) of the stride.
        manner: whose.
        reach: how far the thigh swings.
        lift: how high the knee comes.
        swing: of the arms.
        elbow: how far it is bent.
    """
    size, found = manner.amplitude, dict[str, np.ndarray | float]()
    for side, lead, sign in (("l", 0.0, 1.0), ("r", np.pi, -1.0)):
        turn = phase + lead
        more = 1 + sign * manner.asymmetry
        # The thigh swings; the knee bends while the leg comes forward and gives under load.
        bend = np.clip(np.sin(turn + 0.35), 0, None) ** 2
        load = np.clip(-np.sin(turn - 0.9), 0, None) ** 4
        reached = swing * manner.swing * size * (1 - sign * manner.asymmetry)
        of_side: dict[str, np.ndarray | float] = {
            "hip": size * more * reach * (-np.cos(turn)) + 0.10 * lift,
            "knee": lift * (1.05 * bend + 0.14 * size * load),
            "flat": -1.0,
            "ankle": 0.16 * size * np.sin(turn - 0.4) + 0.12 * bend,
            "arm": reached * np.cos(turn) + 0.04,
            "arm_side": -0.75,
            "arm_twist": 0.4,
            "elbow": elbow + 0.3 * reached * (1 + np.cos(turn)),
        }
        found |= {f"{name}_{side}": value for name, value in of_side.items()}
    found["pelvis_yaw"] = 0.10 * size * np.cos(phase)
    found["spine_yaw"] = -0.20 * size * np.cos(phase)
    found["pelvis_roll"] = 0.05 * size * manner.bounce * np.sin(phase)
    return found


def usual(phase: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """(T, angles): the walk that is nobody's own, at phases (T,) and with steps of reach (T,)."""
    pose = np.zeros((len(phase), len(ANGLES)))
    ease = _EASE | {f"{name}_{side}": v for name, v in _EASE_SIDES.items() for side in "lr"}
    walk = strides(phase, reach=reach, lift=1.0, swing=0.42, elbow=0.15)
    for name, value in [*ease.items(), *walk.items()]:
        pose[:, ANGLES.index(name)] += value
    return pose
