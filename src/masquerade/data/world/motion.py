"""What people do: each activity is a short function from time to joint angles.

Every person has a style of their own, and every take differs a little. Keyframes are joined by
curves of least jerk, whose acceleration does not jump, because a worn sensor would feel it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from masquerade import _check
from masquerade.people.skeleton import ANGLES, RATE_HZ, column, mirrored

_GRAVITY = 9.81
Keys = Sequence[tuple[float, Mapping[str, float]]]


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


def any_style(rng: np.random.Generator) -> MotionStyle:
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


def perform(
    activity: str, style: MotionStyle, seconds: float, *, rng: np.random.Generator
) -> np.ndarray:
    """Joint angles (T, angles) at ``RATE_HZ`` of one take.

    What repeats begins anywhere in its cycle; what happens once happens early enough to be seen.
    """
    if activity not in _ACTS:
        raise ValueError(_check.unknown("activity", activity, _ACTS))
    _check.positive(seconds=seconds)
    taken = replace(
        style,
        tempo=style.tempo * float(np.exp(rng.normal(0, 0.05))),
        amplitude=style.amplitude * float(np.exp(rng.normal(0, 0.06))),
    )
    time = np.arange(max(2, round(seconds * RATE_HZ))) / RATE_HZ
    pose = _standing(time, taken, rng)
    _ACTS[activity](pose, time, taken, rng)
    return mirrored(pose) if taken.is_left_handed and activity in _HANDED else pose


def _standing(time: np.ndarray, style: MotionStyle, rng: np.random.Generator) -> np.ndarray:
    """At ease, with the small sway that nobody can suppress."""
    pose = np.zeros((len(time), len(ANGLES)))

    def sway(size: float) -> np.ndarray:
        phases, rates = rng.uniform(0, 2 * np.pi, 3), rng.uniform(0.15, 0.7, 3)
        waves = np.sin(2 * np.pi * rates[:, None] * time + phases[:, None])
        return np.asarray(size * waves.sum(axis=0) / 2)

    _add(pose, spine_pitch=style.stoop, head_pitch=-0.4 * style.stoop)
    _add(pose, spine_roll=sway(0.015), spine_yaw=sway(0.02), pelvis_roll=sway(0.012))
    _add(pose, head_yaw=sway(0.08), head_pitch=sway(0.03), tilt=sway(0.008), lean=sway(0.008))
    for side in "lr":
        _add_side(pose, side, hip_out=0.06 * style.width, hip_twist=0.12, knee=0.06, hip=0.03)
        _add_side(pose, side, arm=0.10 + sway(0.03), arm_side=0.9, elbow=0.25 + sway(0.04))
        _add_side(pose, side, flat=1.0, arm_twist=-0.6)
    return pose


def _walk(pose: np.ndarray, time: np.ndarray, style: MotionStyle, rng: np.random.Generator) -> None:
    rate = 0.95 * style.tempo
    gait = _Gait(rate=rate, reach=0.36, lift=1.0, swing=0.42, elbow=0.15)
    _stride(pose, time, style, gait, rng=rng)
    _add(pose, pelvis_pitch=0.03, tilt=0.02)


def _run(pose: np.ndarray, time: np.ndarray, style: MotionStyle, rng: np.random.Generator) -> None:
    rate = 1.4 * style.tempo
    gait = _Gait(rate=rate, reach=0.42, lift=1.75, swing=0.60, elbow=1.30)
    _stride(pose, time, style, gait, rng=rng)
    _add(pose, pelvis_pitch=0.10, spine_pitch=0.08, tilt=0.06)
    phase = column(pose, "hop").copy()  # _stride leaves the step's phase there
    pose[:, ANGLES.index("hop")] = 0.055 * style.bounce * (1 - np.cos(phase))


@dataclass(frozen=True, kw_only=True)
class _Gait:
    """Strides a second; how far the thigh swings, how high the knee, how the arms are held."""

    rate: float
    reach: float
    lift: float
    swing: float
    elbow: float


def _stride(
    pose: np.ndarray, time: np.ndarray, style: MotionStyle, gait: _Gait, *, rng: np.random.Generator
) -> None:
    """Legs and arms of walking and running; leaves twice the phase in ``hop`` for a run."""
    phase = 2 * np.pi * (gait.rate * time + rng.random())
    size, lift = style.amplitude, gait.lift
    for side, lead, sign in (("l", 0.0, 1.0), ("r", np.pi, -1.0)):
        turn = phase + lead
        more = 1 + sign * style.asymmetry
        # The thigh swings; the knee bends while the leg comes forward and gives under load.
        bend = np.clip(np.sin(turn + 0.35), 0, None) ** 2
        load = np.clip(-np.sin(turn - 0.9), 0, None) ** 4
        _add_side(pose, side, hip=size * more * gait.reach * (-np.cos(turn)) + 0.10 * lift)
        _add_side(pose, side, knee=lift * (1.05 * bend + 0.14 * size * load), flat=-1.0)
        _add_side(pose, side, ankle=0.16 * size * np.sin(turn - 0.4) + 0.12 * bend)
        reached = gait.swing * style.swing * size * (1 - sign * style.asymmetry)
        _add_side(pose, side, arm=reached * np.cos(turn) + 0.04, arm_side=-0.75, arm_twist=0.4)
        _add_side(pose, side, elbow=gait.elbow + 0.3 * reached * (1 + np.cos(turn)))
    _add(pose, pelvis_yaw=0.10 * size * np.cos(phase), spine_yaw=-0.20 * size * np.cos(phase))
    _add(pose, pelvis_roll=0.05 * size * style.bounce * np.sin(phase))
    if lift > 1.2:
        pose[:, ANGLES.index("hop")] = 2 * phase + 0.6


def _jump(pose: np.ndarray, time: np.ndarray, style: MotionStyle, rng: np.random.Generator) -> None:
    height = 0.22 * style.amplitude * style.bounce**0.5
    flight = 2 * np.sqrt(2 * height / _GRAVITY)  # a ball thrown up takes as long
    crouch, landing = 0.48 / style.tempo, 0.46 / style.tempo
    cycle = crouch + flight + landing
    within = (time + rng.random() * cycle) % cycle
    aloft = np.clip(within - crouch, 0, flight)
    pose[:, ANGLES.index("hop")] = _GRAVITY / 2 * aloft * (flight - aloft)
    low = {"hip": 0.80, "knee": 1.35, "arm": -0.2, "elbow": 0.3}
    high = {"hip": 0.05, "knee": 0.10, "arm": 1.35, "elbow": 0.5}
    mid = {"hip": 0.40, "knee": 0.70, "arm": 0.6, "elbow": 0.6}
    down = crouch + flight
    times = (0.0, 0.35 * crouch, crouch, crouch + 0.4 * flight, down, down + 0.5 * landing, cycle)
    poses = (mid, low, high, high, mid, low, mid)
    size = style.amplitude
    for name in low:
        curve = _least_jerk(
            within, [(t, size * p[name]) for t, p in zip(times, poses, strict=True)]
        )
        for side in "lr":
            _add_side(pose, side, **{name: curve})
    bent = _least_jerk(within, [(t, p["knee"]) for t, p in zip(times, poses, strict=True)])
    _add(pose, spine_pitch=0.28 * size * bent, pelvis_pitch=0.15 * size * bent)
    for side in "lr":
        airborne = np.clip(pose[:, ANGLES.index("hop")] / 0.03, 0, 1)
        _add_side(pose, side, flat=-airborne, ankle=-0.5 * airborne)


def _wave(pose: np.ndarray, time: np.ndarray, style: MotionStyle, rng: np.random.Generator) -> None:
    beat = 0.5 + 0.5 * np.sin(2 * np.pi * (1.7 * style.tempo * time + rng.random()))
    up = _once(time, rng, [(0.0, 0.0), (0.45 / style.tempo, 1.0)], early=0.3)
    wide = beat * min(style.amplitude, 1.2)
    lift = rng.uniform(-0.35, 0.15)
    _reach(pose, "r", up, arm=1.85 + lift - 0.22 * wide, elbow=1.65 - 0.65 * wide)
    _reach(pose, "r", up, arm_side=0.9 + 0.2 * wide, arm_twist=-0.45 + 0.6 * wide)
    _add(pose, spine_roll=-0.05 * up, head_yaw=-0.1 * up)


def _clap(pose: np.ndarray, time: np.ndarray, style: MotionStyle, rng: np.random.Generator) -> None:
    beat = 0.5 + 0.5 * np.sin(2 * np.pi * (1.9 * style.tempo * time + rng.random()))
    up = _once(time, rng, [(0.0, 0.0), (0.4 / style.tempo, 1.0)], early=0.3)
    gap = beat * style.amplitude  # 0 is palm on palm
    lift = rng.uniform(-0.05, 0.25)
    for side in "lr":
        _reach(pose, side, up, arm=0.62 + lift - 0.05 * gap, elbow=1.38 + 0.22 * gap)
        _reach(pose, side, up, arm_side=0.41 + 0.65 * gap, arm_twist=-1.17 - 0.2 * gap)
    _add(pose, head_pitch=0.05 * up, spine_pitch=0.03 * up * gap)


def _punch(
    pose: np.ndarray, time: np.ndarray, style: MotionStyle, rng: np.random.Generator
) -> None:
    cycle = 0.95 / style.tempo
    turn = (time / cycle + rng.random()) % 1
    hit = _least_jerk(turn, [(0.0, 0.0), (0.25, 0.0), (0.50, 1.0), (0.58, 1.0), (1.0, 0.0)])
    ready = _once(time, rng, [(0.0, 0.0), (0.35 / style.tempo, 1.0)], early=0.3)
    hit = hit * ready
    for side in "lr":
        _reach(pose, side, ready, arm=0.53, arm_side=0.29, arm_twist=-0.61, elbow=2.2)
    _reach(pose, "r", hit, arm=1.5, arm_side=-0.12, arm_twist=-0.45, elbow=0.1)
    size = hit * style.amplitude
    _add(pose, spine_yaw=-0.15 * ready + 0.60 * size, pelvis_yaw=-0.1 * ready + 0.25 * size)
    _add(pose, hip_l=0.28 * ready + 0.12 * size, knee_l=0.30 * ready + 0.15 * size)
    _add(pose, hip_r=-0.22 * ready, knee_r=0.22 * ready, spine_pitch=0.08 * ready + 0.10 * size)


def _kick(pose: np.ndarray, time: np.ndarray, style: MotionStyle, rng: np.random.Generator) -> None:
    cycle = 1.3 / style.tempo
    turn = (time / cycle + rng.random()) % 1
    marks = (0.0, 0.20, 0.42, 0.52, 0.75, 1.0)
    hip = _least_jerk(turn, list(zip(marks, (0.0, -0.45, 1.25, 1.35, 0.2, 0.0), strict=True)))
    knee = _least_jerk(turn, list(zip(marks, (0.0, 1.25, 0.35, 0.05, 0.5, 0.0), strict=True)))
    lift = np.clip(np.abs(hip) + knee, 0, 1)
    size = style.amplitude
    _add(pose, hip_r=size * hip, knee_r=size * knee, flat_r=-lift, ankle_r=-0.4 * lift)
    _add(
        pose, spine_pitch=-0.16 * np.clip(hip, 0, None), pelvis_pitch=-0.10 * np.clip(hip, 0, None)
    )
    _add(pose, arm_l=0.55 * hip, arm_r=-0.5 * hip, elbow_l=0.3 * lift, elbow_r=0.3 * lift)
    _add(pose, arm_side_l=-0.1 * lift, knee_l=0.15 * lift, hip_l=0.05 * lift, spine_yaw=0.2 * hip)


def _drink(
    pose: np.ndarray, time: np.ndarray, style: MotionStyle, rng: np.random.Generator
) -> None:
    tempo = style.tempo
    stops = (0.0, 0.6, 0.85, 1.5, 2.1, 2.5)
    cycle = stops[-1] / tempo
    turn = (time + rng.uniform(0, 0.75) * cycle) % cycle * tempo
    up = _least_jerk(turn, list(zip(stops, (0.0, 1.0, 1.0, 1.0, 0.0, 0.0), strict=True)))
    sip = _least_jerk(turn, list(zip(stops, (0.0, 0.1, 1.0, 1.0, 0.0, 0.0), strict=True)))
    _reach(pose, "r", np.ones_like(up), arm=0.2, arm_side=1.0, arm_twist=-1.3, elbow=1.5)
    _reach(pose, "r", up, arm=1.02 + 0.12 * sip, arm_side=0.16, arm_twist=-0.7, elbow=2.1)
    _add(pose, head_pitch=-0.28 * sip, spine_pitch=-0.05 * sip, hand_r=0.15 * sip)


def _sit_keys(tempo: float) -> tuple[tuple[float, float], ...]:
    return ((0.0, 0.0), (1.15 / tempo, 1.0))


def _sit_down(
    pose: np.ndarray, time: np.ndarray, style: MotionStyle, rng: np.random.Generator
) -> None:
    _seat(pose, _once(time, rng, _sit_keys(style.tempo), early=0.35), rng)


def _stand_up(
    pose: np.ndarray, time: np.ndarray, style: MotionStyle, rng: np.random.Generator
) -> None:
    _seat(pose, 1 - _once(time, rng, _sit_keys(style.tempo), early=0.35), rng)


def _seat(pose: np.ndarray, down: np.ndarray, rng: np.random.Generator) -> None:
    """From standing (0) to sitting on a seat behind (1); the trunk leans forward in between."""
    lean = 4 * down * (1 - down)
    for side in "lr":
        _add_side(pose, side, hip=1.50 * down, knee=1.45 * down, hip_out=0.06 * down)
        _add_side(pose, side, arm=0.45 * down + 0.35 * lean, elbow=0.55 * down)
        _add_side(pose, side, arm_side=-0.45 * down)
    _add(pose, pelvis_pitch=0.45 * lean - 0.05 * down, spine_pitch=0.40 * lean + 0.05 * down)
    _add(pose, head_pitch=-0.25 * lean)


def _pick_up(
    pose: np.ndarray, time: np.ndarray, style: MotionStyle, rng: np.random.Generator
) -> None:
    tempo = style.tempo
    stops = (0.0, 0.75, 0.95, 1.70, 2.0)
    cycle = stops[-1] / tempo
    start = rng.uniform(0, 0.45) * cycle
    turn = (time + start) % cycle * tempo
    down = _least_jerk(turn, list(zip(stops, (0.0, 1.0, 1.0, 0.0, 0.0), strict=True)))
    knees = rng.uniform(0.55, 1.25)  # some bend the knees, some the back
    size = min(style.amplitude, 1.1)
    _add(pose, pelvis_pitch=size * (0.95 - 0.2 * knees) * down, spine_pitch=0.65 * size * down)
    for side in "lr":
        _add_side(pose, side, hip=knees * 0.85 * down, knee=knees * 1.25 * down)
    _add(pose, arm_r=size * 0.75 * down, arm_side_r=-0.6 * down, elbow_r=-0.15 * down)
    _add(pose, arm_l=0.25 * down, elbow_l=0.25 * down, spine_yaw=0.15 * down, head_pitch=0.1 * down)


def _fall(pose: np.ndarray, time: np.ndarray, style: MotionStyle, rng: np.random.Generator) -> None:
    down = _once(time, rng, [(0.0, 0.0), (0.35, 0.12), (0.95, 1.0)], early=0.45)
    give = np.clip(4 * down * (1 - down), 0, 1)
    way = int(rng.integers(3)) - 1
    if way == 0:  # forward, onto the hands
        _add(pose, tilt=1.45 * down)
        for side in "lr":
            _reach(pose, side, np.maximum(give, down), arm=2.3, elbow=0.9, arm_side=0.5)
    else:  # on the back, to one side
        _add(pose, tilt=-1.52 * down, lean=0.3 * way * down, head_pitch=0.25 * down)
        for side in "lr":
            _add_side(pose, side, arm=0.5 * give + 0.1 * down, elbow=0.4 * give)
    for side, more in (("l", 1.0), ("r", 0.6)):
        _add_side(pose, side, hip=more * (0.70 * give + 0.15 * down), flat=-down)
        _add_side(pose, side, knee=more * (1.25 * give + 0.3 * down))
    _add(pose, spine_pitch=0.2 * give, spine_yaw=0.3 * way * give)


def _stand(
    pose: np.ndarray, time: np.ndarray, style: MotionStyle, rng: np.random.Generator
) -> None:
    """Nothing but the sway."""


_ACTS: dict[str, Callable[[np.ndarray, np.ndarray, MotionStyle, np.random.Generator], None]] = {
    "walk": _walk,
    "run": _run,
    "jump": _jump,
    "wave": _wave,
    "clap": _clap,
    "sit_down": _sit_down,
    "stand_up": _stand_up,
    "pick_up": _pick_up,
    "punch": _punch,
    "kick": _kick,
    "drink": _drink,
    "fall": _fall,
    "stand": _stand,
}
ACTIVITIES = tuple(name for name in _ACTS if name != "stand")
_HANDED = ("wave", "punch", "kick", "drink", "pick_up")


def _add(pose: np.ndarray, **angles: np.ndarray | float) -> None:
    for name, value in angles.items():
        pose[:, ANGLES.index(name)] += value


def _add_side(pose: np.ndarray, side: str, **angles: np.ndarray | float) -> None:
    _add(pose, **{f"{name}_{side}": value for name, value in angles.items()})


def _reach(pose: np.ndarray, side: str, part: np.ndarray, **angles: np.ndarray | float) -> None:
    """Move angles of an arm towards given ones by ``part``, from 0 to 1."""
    for name, value in angles.items():
        held = column(pose, f"{name}_{side}")
        held += part * (value - held)


def _once(
    time: np.ndarray, rng: np.random.Generator, keys: Sequence[tuple[float, float]], *, early: float
) -> np.ndarray:
    """A change that happens once, in full if there is time; it begins within ``early`` of it."""
    room = max(0.0, time[-1] - keys[-1][0])
    begin = rng.uniform(-0.15, early * max(room, 0.3))
    return _least_jerk(time - begin, keys)


def _least_jerk(at: np.ndarray, keys: Sequence[tuple[float, float]]) -> np.ndarray:
    """A curve through (time, value) pairs that rests at each; constant before and after."""
    times, values = np.array(keys).T
    place = np.clip(np.searchsorted(times, at, side="right") - 1, 0, len(times) - 2)
    s = np.clip((at - times[place]) / (times[place + 1] - times[place]), 0, 1)
    smooth = s**3 * (10 - 15 * s + 6 * s * s)
    found: np.ndarray = values[place] + (values[place + 1] - values[place]) * smooth
    return found
