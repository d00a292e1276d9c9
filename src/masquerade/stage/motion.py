"""What people do: each activity is a short function from time to joint angles.

Every person has a style of their own, and every take differs a little. The twelve daily ones are
here; those that only public people do are exercises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from masquerade import _check
from masquerade.stage import exercises
from masquerade.stage.act import GRAVITY, Act, MotionStyle, least_jerk, stand, stride
from masquerade.stage.skeleton import ANGLES, RATE_HZ, mirrored

Repertoire = Literal["daily", "public"]


def perform(
    activity: str, style: MotionStyle, seconds: float, *, rng: np.random.Generator
) -> np.ndarray:
    """Joint angles (T, angles) at ``RATE_HZ`` of one take.

    What repeats begins anywhere in its cycle; what happens once happens early enough to be seen.
    """
    if activity not in (known := _DAILY | exercises.ACTS | {"stand": stand}):
        raise ValueError(_check.unknown("activity", activity, known))
    _check.positive(seconds=seconds)
    taken = replace(
        style,
        tempo=style.tempo * float(np.exp(rng.normal(0, 0.05))),
        amplitude=style.amplitude * float(np.exp(rng.normal(0, 0.06))),
    )
    time = np.arange(max(2, round(seconds * RATE_HZ))) / RATE_HZ
    pose = np.zeros((len(time), len(ANGLES)))
    act = Act(pose=pose, time=time, style=taken, rng=rng)
    stand(act)
    if activity != "stand":
        known[activity](act)
    return mirrored(pose) if taken.is_left_handed and activity in _HANDED else pose


def _walk(act: Act) -> None:
    stride(act, rate=0.95, reach=0.36, lift=1.0, swing=0.42, elbow=0.15)
    act.add(pelvis_pitch=0.03, tilt=0.02)


def _run(act: Act) -> None:
    phase = stride(act, rate=1.4, reach=0.42, lift=1.75, swing=0.60, elbow=1.30)
    act.add(pelvis_pitch=0.10, spine_pitch=0.08, tilt=0.06)
    act.add(hop=0.055 * act.style.bounce * (1 - np.cos(2 * phase + 0.6)))


def _jump(act: Act) -> None:
    style, size = act.style, act.style.amplitude
    height = 0.22 * size * style.bounce**0.5
    flight = 2 * np.sqrt(2 * height / GRAVITY)  # a ball thrown up takes as long
    crouch, landing = 0.48 / style.tempo, 0.46 / style.tempo
    cycle = crouch + flight + landing
    within = (act.time + act.rng.random() * cycle) % cycle
    aloft = np.clip(within - crouch, 0, flight)
    hop = GRAVITY / 2 * aloft * (flight - aloft)
    low = {"hip": 0.80, "knee": 1.35, "arm": -0.2, "elbow": 0.3}
    high = {"hip": 0.05, "knee": 0.10, "arm": 1.35, "elbow": 0.5}
    mid = {"hip": 0.40, "knee": 0.70, "arm": 0.6, "elbow": 0.6}
    down = crouch + flight
    times = (0.0, 0.35 * crouch, crouch, crouch + 0.4 * flight, down, down + 0.5 * landing, cycle)
    poses = (mid, low, high, high, mid, low, mid)
    for name in low:
        act.add_both(**{name: least_jerk(within, times, [size * pose[name] for pose in poses])})
    bent = least_jerk(within, times, [pose["knee"] for pose in poses])
    act.add(spine_pitch=0.28 * size * bent, pelvis_pitch=0.15 * size * bent, hop=hop)
    airborne = np.clip(hop / 0.03, 0, 1)
    act.add_both(flat=-airborne, ankle=-0.5 * airborne)


def _wave(act: Act) -> None:
    beat, up = act.beat(1.7), act.raised(0.45)
    wide = beat * min(act.style.amplitude, 1.2)
    lift = act.rng.uniform(-0.35, 0.15)
    act.reach("r", up, arm=1.85 + lift - 0.22 * wide, elbow=1.65 - 0.65 * wide)
    act.reach("r", up, arm_side=0.9 + 0.2 * wide, arm_twist=-0.45 + 0.6 * wide)
    act.add(spine_roll=-0.05 * up, head_yaw=-0.1 * up)


def _clap(act: Act) -> None:
    beat, up = act.beat(1.9), act.raised(0.4)
    gap = beat * act.style.amplitude  # 0 is palm on palm
    lift = act.rng.uniform(-0.05, 0.25)
    act.reach("lr", up, arm=0.62 + lift - 0.05 * gap, elbow=1.38 + 0.22 * gap)
    act.reach("lr", up, arm_side=0.41 + 0.65 * gap, arm_twist=-1.17 - 0.2 * gap)
    act.add(head_pitch=0.05 * up, spine_pitch=0.03 * up * gap)


def _punch(act: Act) -> None:
    turn = (act.time / (0.95 / act.style.tempo) + act.rng.random()) % 1
    ready = act.raised(0.35)
    hit = least_jerk(turn, (0.0, 0.25, 0.50, 0.58, 1.0), (0.0, 0.0, 1.0, 1.0, 0.0)) * ready
    act.reach("lr", ready, arm=0.53, arm_side=0.29, arm_twist=-0.61, elbow=2.2)
    act.reach("r", hit, arm=1.5, arm_side=-0.12, arm_twist=-0.45, elbow=0.1)
    size = hit * act.style.amplitude
    act.add(spine_yaw=-0.15 * ready + 0.60 * size, pelvis_yaw=-0.1 * ready + 0.25 * size)
    act.add(hip_l=0.28 * ready + 0.12 * size, knee_l=0.30 * ready + 0.15 * size)
    act.add(hip_r=-0.22 * ready, knee_r=0.22 * ready, spine_pitch=0.08 * ready + 0.10 * size)


def _kick(act: Act) -> None:
    turn = (act.time / (1.3 / act.style.tempo) + act.rng.random()) % 1
    marks = (0.0, 0.20, 0.42, 0.52, 0.75, 1.0)
    hip = least_jerk(turn, marks, (0.0, -0.45, 1.25, 1.35, 0.2, 0.0))
    knee = least_jerk(turn, marks, (0.0, 1.25, 0.35, 0.05, 0.5, 0.0))
    lift, ahead = np.clip(np.abs(hip) + knee, 0, 1), np.clip(hip, 0, None)
    size = act.style.amplitude
    act.add(hip_r=size * hip, knee_r=size * knee, flat_r=-lift, ankle_r=-0.4 * lift)
    act.add(spine_pitch=-0.16 * ahead, pelvis_pitch=-0.10 * ahead)
    act.add(arm_l=0.55 * hip, arm_r=-0.5 * hip, elbow_l=0.3 * lift, elbow_r=0.3 * lift)
    act.add(arm_side_l=-0.1 * lift, knee_l=0.15 * lift, hip_l=0.05 * lift, spine_yaw=0.2 * hip)


def _drink(act: Act) -> None:
    tempo = act.style.tempo
    stops = (0.0, 0.6, 0.85, 1.5, 2.1, 2.5)
    cycle = stops[-1] / tempo
    turn = (act.time + act.rng.uniform(0, 0.75) * cycle) % cycle * tempo
    up = least_jerk(turn, stops, (0.0, 1.0, 1.0, 1.0, 0.0, 0.0))
    sip = least_jerk(turn, stops, (0.0, 0.1, 1.0, 1.0, 0.0, 0.0))
    act.reach("r", 1.0, arm=0.2, arm_side=1.0, arm_twist=-1.3, elbow=1.5)
    act.reach("r", up, arm=1.02 + 0.12 * sip, arm_side=0.16, arm_twist=-0.7, elbow=2.1)
    act.add(head_pitch=-0.28 * sip, spine_pitch=-0.05 * sip, hand_r=0.15 * sip)


def _sit_down(act: Act) -> None:
    _seat(act, _lowered(act))


def _stand_up(act: Act) -> None:
    _seat(act, 1 - _lowered(act))


def _lowered(act: Act) -> np.ndarray:
    return act.once((0.0, 1.15 / act.style.tempo), (0.0, 1.0), early=0.35)


def _seat(act: Act, down: np.ndarray) -> None:
    """From standing (0) to sitting on a seat behind (1); the trunk leans forward in between."""
    lean = 4 * down * (1 - down)
    act.add_both(hip=1.50 * down, knee=1.45 * down, hip_out=0.06 * down)
    act.add_both(arm=0.45 * down + 0.35 * lean, elbow=0.55 * down, arm_side=-0.45 * down)
    act.add(pelvis_pitch=0.45 * lean - 0.05 * down, spine_pitch=0.40 * lean + 0.05 * down)
    act.add(head_pitch=-0.25 * lean)


def _pick_up(act: Act) -> None:
    tempo = act.style.tempo
    stops = (0.0, 0.75, 0.95, 1.70, 2.0)
    cycle = stops[-1] / tempo
    turn = (act.time + act.rng.uniform(0, 0.45) * cycle) % cycle * tempo
    down = least_jerk(turn, stops, (0.0, 1.0, 1.0, 0.0, 0.0))
    knees = act.rng.uniform(0.55, 1.25)  # some bend the knees, some the back
    size = min(act.style.amplitude, 1.1)
    act.add(pelvis_pitch=size * (0.95 - 0.2 * knees) * down, spine_pitch=0.65 * size * down)
    act.add_both(hip=knees * 0.85 * down, knee=knees * 1.25 * down)
    act.add(arm_r=size * 0.75 * down, arm_side_r=-0.6 * down, elbow_r=-0.15 * down)
    act.add(arm_l=0.25 * down, elbow_l=0.25 * down, spine_yaw=0.15 * down, head_pitch=0.1 * down)


def _fall(act: Act) -> None:
    down = act.once((0.0, 0.35, 0.95), (0.0, 0.12, 1.0), early=0.45)
    give = np.clip(4 * down * (1 - down), 0, 1)
    way = int(act.rng.integers(3)) - 1
    if way == 0:  # forward, onto the hands
        act.add(tilt=1.45 * down)
        act.reach("lr", np.maximum(give, down), arm=2.3, elbow=0.9, arm_side=0.5)
    else:  # on the back, to one side
        act.add(tilt=-1.52 * down, lean=0.3 * way * down, head_pitch=0.25 * down)
        act.add_both(arm=0.5 * give + 0.1 * down, elbow=0.4 * give)
    for side, more in (("l", 1.0), ("r", 0.6)):
        act.add_side(side, hip=more * (0.70 * give + 0.15 * down), flat=-down)
        act.add_side(side, knee=more * (1.25 * give + 0.3 * down))
    act.add(spine_pitch=0.2 * give, spine_yaw=0.3 * way * give)


_DAILY: dict[str, Callable[[Act], None]] = {
    act.__name__.removeprefix("_"): act
    for act in (
        *(_walk, _run, _jump, _wave, _clap, _sit_down, _stand_up),
        *(_pick_up, _punch, _kick, _drink, _fall),
    )
}
ACTIVITIES = tuple(_DAILY)
REPERTOIRES: Mapping[str, tuple[str, ...]] = {
    "daily": ACTIVITIES,
    "public": exercises.ACTIVITIES,
}
_HANDED = ("wave", "punch", "kick", "drink", "pick_up", *exercises.HANDED)
