"""How a take is played: a person's style, and angles that are filled in while time goes by.

Keyframes are joined by curves of least jerk, whose acceleration does not jump, because a worn
sensor would feel it.

How people walk and run, as joint angles over the phase of a stride.

Convention: phase in radians; at 0 the left thigh is farthest back, at pi farthest ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.stage.skeleton import ANGLES, select_angle


@dataclass(frozen=True, kw_only=True)
class WalkingManner:
    """What is someone's own in walking; 1 or 0 is usual, see Stage's ``MotionStyle``."""

    amplitude: float = 1.0
    asymmetry: float = 0.0
    swing: float = 1.0
    bounce: float = 1.0


USUAL = WalkingManner()
# Standing at ease, and the lean of a walker, on which the usual walk is put.
_EASE = {"spine_pitch": 0.05, "head_pitch": -0.02, "pelvis_pitch": 0.03, "tilt": 0.02}
_EASE_SIDES = {
    **{"hip_out": 0.06, "hip_twist": 0.12, "knee": 0.06, "hip": 0.03, "flat": 1.0},
    **{"arm": 0.10, "arm_side": 0.9, "elbow": 0.25, "arm_twist": -0.6},
}


def compute_stride_angles(
    phase: np.ndarray,
    manner: WalkingManner = USUAL,
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


def compute_usual_walk(phase: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """(T, angles): the walk that is nobody's own, at phases (T,) and with steps of reach (T,)."""
    pose = np.zeros((len(phase), len(ANGLES)))
    ease = _EASE | {f"{name}_{side}": v for name, v in _EASE_SIDES.items() for side in "lr"}
    walk = compute_stride_angles(phase, reach=reach, lift=1.0, swing=0.42, elbow=0.15)
    for name, value in [*ease.items(), *walk.items()]:
        pose[:, ANGLES.index(name)] += value
    return pose


GRAVITY = 9.81
Values = np.ndarray | float


@dataclass(frozen=True, kw_only=True)
class MotionStyle:
    """How a person moves.

    Args:
        tempo: 1 is the usual speed.
        amplitude: 1 is the usual size of a movement.
        asymmetry: how much more the left side does than the right, from -0.2 to 0.2.
        stoop: how far the back is bent, in radians.
        swing: how much the arms swing in walking; 1 is usual.
        bounce: how springy the step is; 1 is usual.
        width: how far apart the feet stand; 1 is usual.
        is_left_handed: which hand waves, drinks and strikes.
    """

    tempo: float = 1.0
    amplitude: float = 1.0
    asymmetry: float = 0.0
    stoop: float = 0.05
    swing: float = 1.0
    bounce: float = 1.0
    width: float = 1.0
    is_left_handed: bool = False


def sample_motion_style(rng: np.random.Generator) -> MotionStyle:
    """A person's style."""
    return MotionStyle(
        tempo=float(np.exp(rng.uniform(-0.2, 0.2))),
        amplitude=float(np.exp(rng.uniform(-0.22, 0.18))),
        asymmetry=float(rng.uniform(-0.15, 0.15)),
        stoop=float(rng.uniform(-0.02, 0.22)),
        swing=float(rng.uniform(0.5, 1.5)),
        bounce=float(rng.uniform(0.6, 1.4)),
        width=float(rng.uniform(0.6, 1.6)),
        is_left_handed=bool(rng.random() < 0.25),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ActivityTake:
    """One take while it is played: the angles, which are filled in, and all that shapes them."""

    pose: np.ndarray
    time: np.ndarray
    style: MotionStyle
    rng: np.random.Generator

    def add_angles(self, **angles: Values) -> None:
        """Add to angles, by name."""
        for name, value in angles.items():
            self.pose[:, ANGLES.index(name)] += value

    def add_side(self, side: str, **angles: Values) -> None:
        """Add to angles of one side, "l" or "r"."""
        self.add_angles(**{f"{name}_{side}": value for name, value in angles.items()})

    def add_both(self, **angles: Values) -> None:
        """Add to angles of both sides."""
        for side in "lr":
            self.add_side(side, **angles)

    def move_towards(self, sides: str, part: Values, **angles: Values) -> None:
        """Move angles of one or both sides towards given ones by ``part``, from 0 to 1."""
        for side in sides:
            for name, value in angles.items():
                held = select_angle(self.pose, f"{name}_{side}")
                held += part * (value - held)

    def play_once(
        self, times: Sequence[float], values: Sequence[float], *, early: float
    ) -> np.ndarray:
        """A change that happens once, in full if there is time, and begins ``early`` in it."""
        room = max(0.0, self.time[-1] - times[-1])
        begin = self.rng.uniform(-0.15, early * max(room, 0.3))
        return interpolate_least_jerk(self.time - begin, times, values)

    def raise_within(self, seconds: float) -> np.ndarray:
        """From 0 to 1 within so many seconds at the usual tempo, early on."""
        return self.play_once((0.0, seconds / self.style.tempo), (0.0, 1.0), early=0.3)

    def make_beat(self, rate: float) -> np.ndarray:
        """From 0 to 1 and back, ``rate`` times a second at the usual tempo."""
        turn = 2 * np.pi * (rate * self.style.tempo * self.time + self.rng.random())
        return np.asarray(0.5 + 0.5 * np.sin(turn))


def stand_at_ease(act: ActivityTake) -> None:
    """At ease, with the small sway that nobody can suppress."""

    def make_sway(size: float) -> np.ndarray:
        phases, rates = act.rng.uniform(0, 2 * np.pi, 3), act.rng.uniform(0.15, 0.7, 3)
        waves = np.sin(2 * np.pi * rates[:, None] * act.time + phases[:, None])
        return np.asarray(size * waves.sum(axis=0) / 2)

    stoop = act.style.stoop
    act.add_angles(spine_pitch=stoop, head_pitch=-0.4 * stoop)
    act.add_angles(
        spine_roll=make_sway(0.015), spine_yaw=make_sway(0.02), pelvis_roll=make_sway(0.012)
    )
    act.add_angles(
        head_yaw=make_sway(0.08),
        head_pitch=make_sway(0.03),
        tilt=make_sway(0.008),
        lean=make_sway(0.008),
    )
    act.add_both(hip_out=0.06 * act.style.width, hip_twist=0.12, knee=0.06, hip=0.03)
    for side in "lr":
        act.add_side(side, arm=0.10 + make_sway(0.03), arm_side=0.9, elbow=0.25 + make_sway(0.04))
    act.add_both(flat=1.0, arm_twist=-0.6)


def add_strides(
    act: ActivityTake, *, rate: float, reach: float, lift: float, swing: float, elbow: float
) -> np.ndarray:
    """Legs and arms of walking and running; gives the phase.

    ``rate`` is strides a second, ``reach`` how far the thigh swings, ``lift`` how high the knee;
    ``swing`` and ``elbow`` are of the arms.
    """
    style = act.style
    phase = 2 * np.pi * (rate * style.tempo * act.time + act.rng.random())
    manner = WalkingManner(
        amplitude=style.amplitude,
        asymmetry=style.asymmetry,
        swing=style.swing,
        bounce=style.bounce,
    )
    act.add_angles(
        **compute_stride_angles(phase, manner, reach=reach, lift=lift, swing=swing, elbow=elbow)
    )
    return np.asarray(phase)


def interpolate_least_jerk(
    at: np.ndarray, when: Sequence[float], what: Sequence[float]
) -> np.ndarray:
    """A curve through values ``what`` at times ``when`` that rests at each; constant outside."""
    times, values = np.array(when), np.array(what)
    place = np.clip(np.searchsorted(times, at, side="right") - 1, 0, len(times) - 2)
    s = np.clip((at - times[place]) / (times[place + 1] - times[place]), 0, 1)
    smooth = s**3 * (10 - 15 * s + 6 * s * s)
    found: np.ndarray = values[place] + (values[place + 1] - values[place]) * smooth
    return found
