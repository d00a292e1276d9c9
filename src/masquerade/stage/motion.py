"""What people do: each activity is a short function from time to joint angles.

Every person has a style of their own, and every take differs a little. The twelve daily ones are
here; those that only public people do are exercises.

What only public people do: none of it is one of the daily activities, nor looks like one.

A network that has learned these has seen people move, and has still to learn what is done in the
private recordings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from masquerade import _check
from masquerade.stage.act import (
    GRAVITY,
    ActivityTake,
    MotionStyle,
    add_strides,
    interpolate_least_jerk,
    stand_at_ease,
)
from masquerade.stage.skeleton import ANGLES, RATE_HZ, mirror_motion


def _stretch(act: ActivityTake) -> None:
    """Both arms overhead, bending to one side and to the other."""
    up, side = act.raise_within(0.5), 2 * act.make_beat(0.35) - 1
    act.move_towards("lr", up, arm=2.85, arm_side=1.1, arm_twist=-0.3, elbow=0.25)
    act.add_angles(spine_roll=0.45 * act.style.amplitude * side * up, pelvis_roll=0.08 * side * up)


def _squat(act: ActivityTake) -> None:
    """Knees bent deeply and straightened again, arms held out in front."""
    down = act.make_beat(0.55) * min(act.style.amplitude, 1.1)
    act.move_towards("lr", 1.0, arm=1.35, arm_side=0.15, arm_twist=0.0, elbow=0.1)
    act.add_both(hip=1.45 * down, knee=2.05 * down, hip_out=0.2)
    act.add_angles(pelvis_pitch=0.35 * down, spine_pitch=0.25 * down, head_pitch=-0.3 * down)


def _bow(act: ActivityTake) -> None:
    """The back bent forward over straight legs, hands behind it."""
    down = act.make_beat(0.45) ** 2
    act.move_towards("lr", 1.0, arm=-0.65, arm_side=-0.2, arm_twist=-1.1, elbow=1.0)
    act.add_angles(pelvis_pitch=1.0 * act.style.amplitude * down, spine_pitch=0.35 * down)
    act.add_both(hip=-0.12 * down)


def _lunge(act: ActivityTake) -> None:
    """One foot far in front of the other, going down and up; hands at the waist."""
    down = act.make_beat(0.5) * min(act.style.amplitude, 1.1)
    _at_waist(act)
    act.add_angles(hip_l=0.60 + 0.70 * down, knee_l=0.25 + 1.05 * down)
    act.add_angles(hip_r=-0.45 + 0.20 * down, knee_r=0.15 + 1.05 * down, flat_r=-1.0)
    act.add_angles(ankle_r=0.35 - 0.05 * down)


def _march(act: ActivityTake) -> None:
    """High knees on the spot, the arms against them."""
    for side, lead in (("l", 0.0), ("r", 0.5)):
        up = np.clip(np.sin(2 * np.pi * (_count_turns(act, 0.8) + lead)), 0, None) ** 1.5
        size = min(act.style.amplitude, 1.1) * up
        act.add_side(side, hip=1.5 * size, knee=1.6 * size, flat=-0.6 * up)
        other = "r" if side == "l" else "l"
        act.move_towards(other, 1.0, arm=-0.3, arm_side=0.1, arm_twist=-0.2, elbow=1.5)
        act.add_side(other, arm=1.4 * size)


def _turn(act: ActivityTake) -> None:
    """Round and round on the spot in small steps, the arms a little out."""
    step, way = _count_turns(act, 1.1), act.rng.choice([-1.0, 1.0])
    rate = 0.42 * act.style.tempo * act.style.amplitude
    act.add_angles(turn=way * 2 * np.pi * rate * act.time, head_yaw=0.35 * way)
    act.move_towards("lr", 1.0, arm=0.75, arm_side=1.4, elbow=0.3)
    for side, lead in (("l", 0.0), ("r", 0.5)):
        up = np.clip(np.sin(2 * np.pi * (step + lead)), 0, None)
        act.add_side(side, hip=0.25 * up, knee=0.5 * up)


def _throw(act: ActivityTake) -> None:
    """One arm winds up behind the head and flies forward over it."""
    turn, marks = _count_turns(act, 0.6) % 1, (0.0, 0.35, 0.55, 0.68, 1.0)
    wound = interpolate_least_jerk(turn, marks, (0.0, 1.0, 0.2, 0.0, 0.0))
    hurled = interpolate_least_jerk(turn, marks, (0.0, 0.0, 1.0, 0.8, 0.0))
    act.move_towards("r", wound, arm=1.9, arm_side=1.9, arm_twist=0.6, elbow=1.7)
    act.move_towards("r", hurled, arm=2.1, arm_side=0.1, arm_twist=0.0, elbow=0.15)
    act.move_towards("l", np.maximum(wound, 0.3), arm=1.3, arm_side=0.4, elbow=0.3)
    act.add_angles(spine_yaw=-0.55 * wound + 0.45 * hurled, pelvis_yaw=-0.3 * wound + 0.2 * hurled)
    act.add_angles(spine_pitch=-0.2 * wound + 0.35 * hurled, hip_l=0.45 * hurled + 0.15)
    act.add_angles(knee_l=0.45 * hurled + 0.1, hip_r=-0.25 - 0.15 * hurled, knee_r=0.2)


def _reach_up(act: ActivityTake) -> None:
    """On tiptoe after something high, one hand and then the other."""
    swing = 2 * act.make_beat(0.5) - 1
    for side, sign in (("l", 1.0), ("r", -1.0)):
        up = np.clip(0.5 + 1.2 * sign * swing, 0, 1)
        act.move_towards(side, up, arm=2.95, arm_side=0.25, arm_twist=0.0, elbow=0.1)
        act.move_towards(side, 1 - up, arm=1.9, arm_side=0.5, arm_twist=-0.4, elbow=1.7)
    tall = np.abs(swing)
    act.add_both(flat=-tall, ankle=-0.75 * tall, knee=-0.04 * tall)
    act.add_angles(spine_roll=0.16 * swing, head_pitch=-0.35, spine_pitch=-0.08)


def _side_step(act: ActivityTake) -> None:
    """Feet apart and together again, to one side and back; arms folded."""
    phase = 2 * np.pi * _count_turns(act, 0.75)
    apart = 0.5 - 0.5 * np.cos(2 * phase)
    act.add_both(hip_out=0.36 * act.style.amplitude * apart, knee=0.25 * (1 - apart))
    act.add_both(hip=0.12 * (1 - apart))
    lift = np.sin(2 * phase)
    for side, sign in (("l", 1.0), ("r", -1.0)):
        up = np.clip(sign * np.sign(np.sin(phase)) * lift, 0, None) * 0.25
        act.add_side(side, hip=up, knee=2 * up)
    act.add_angles(lean=-0.06 * np.sin(phase), spine_roll=-0.1 * np.sin(phase))
    _fold_arms(act)


def _disco(act: ActivityTake) -> None:
    """A dance: one arm points high to the side and low across, the hips swing."""
    up, hips = act.make_beat(1.0), np.sin(2 * np.pi * _count_turns(act, 1.0))
    act.move_towards(
        "r", 1.0, arm=0.7 + 1.9 * up, arm_side=-0.45 + 1.75 * up, arm_twist=0.0, elbow=0.1
    )
    act.move_towards("l", 1.0, arm=-0.4, arm_side=0.9, arm_twist=-1.2, elbow=1.6)
    act.add_angles(pelvis_roll=0.22 * hips, spine_roll=-0.25 * hips, spine_yaw=-0.25 + 0.5 * up)
    act.add_angles(hip_out_l=0.16 - 0.1 * hips, hip_out_r=0.16 + 0.1 * hips)
    act.add_angles(knee_l=0.2 + 0.2 * hips, knee_r=0.2 - 0.2 * hips, hip_l=0.1 + 0.1 * hips)
    act.add_angles(hip_r=0.1 - 0.1 * hips)


def _rock(act: ActivityTake) -> None:
    """A dance: knees bent, hips and shoulders twisting against each other, elbows out."""
    twist = np.sin(2 * np.pi * _count_turns(act, 1.15)) * act.style.amplitude
    low = 0.5 + 0.3 * np.sin(2 * np.pi * _count_turns(act, 0.3))
    act.add_angles(pelvis_yaw=0.45 * twist, spine_yaw=-0.9 * twist, head_yaw=0.4 * twist)
    act.add_both(hip=0.75 * low, knee=1.35 * low, hip_out=0.08)
    act.add_angles(hip_twist_l=0.55 * twist, hip_twist_r=-0.55 * twist, pelvis_pitch=0.15 * low)
    act.move_towards("lr", 1.0, arm=0.75, arm_side=1.25, arm_twist=-1.5, elbow=1.35)
    act.add_angles(arm_l=0.35 * twist, arm_r=-0.35 * twist)


def _crawl(act: ActivityTake) -> None:
    """On hands and knees, forward."""
    phase = 2 * np.pi * _count_turns(act, 0.75)
    act.add_angles(
        pelvis_pitch=1.38, spine_pitch=0.05, head_pitch=-0.85, spine_yaw=0.1 * np.cos(phase)
    )
    for side, lead in (("l", 0.0), ("r", np.pi)):
        swing = 0.32 * act.style.amplitude * -np.cos(phase + lead)
        up = np.clip(np.sin(phase + lead), 0, None)
        act.add_side(side, hip=swing + 0.05, knee=1.50 + swing + 0.16 * up)
        act.add_side(side, flat=-1.0, ankle=-0.95, hip_twist=-0.12)
        act.move_towards(side, 1.0, arm=1.5 + swing, arm_side=0.12, arm_twist=0.0, elbow=0.12)
        act.add_side(side, elbow=0.35 * np.clip(-np.sin(phase + lead), 0, None), hand=-1.1)


def _balance(act: ActivityTake) -> None:
    """On one leg, the other foot at its knee, the arms out and wobbling."""
    up, sway = act.raise_within(0.5), 2 * act.make_beat(0.8) - 1
    act.add_angles(hip_r=1.05 * up, knee_r=1.75 * up, hip_twist_r=0.5 * up, hip_out_r=0.25 * up)
    act.add_angles(flat_r=-up, ankle_r=-0.5 * up, lean=-0.05 * up, knee_l=0.04 * up)
    act.move_towards("lr", up, arm=1.5, arm_side=1.5, arm_twist=0.0, elbow=0.1)
    act.add_angles(arm_l=0.22 * sway * up, arm_r=-0.22 * sway * up, spine_roll=0.1 * sway * up)


def _star_jump(act: ActivityTake) -> None:
    """Feet apart and arms overhead with one hop, together again with the next."""
    turn = _count_turns(act, 0.9)
    wide = interpolate_least_jerk(turn % 1, (0.0, 0.28, 0.5, 0.78, 1.0), (0.0, 1.0, 1.0, 0.0, 0.0))
    within = (2 * turn) % 1
    flight = 0.28 / act.style.tempo  # seconds off the floor, half a turn apart
    aloft = np.clip(within * 0.5 / (0.9 * act.style.tempo), 0, flight)
    act.add_angles(hop=GRAVITY / 2 * aloft * (flight - aloft))
    bent = np.clip(np.cos(2 * np.pi * within), 0, None)
    act.add_both(hip_out=0.36 * wide, knee=0.35 * bent, hip=0.18 * bent)
    act.move_towards("lr", 1.0, arm=0.15 + 2.5 * wide, arm_side=1.4, arm_twist=0.0, elbow=0.2)


def _row(act: ActivityTake) -> None:
    """Sitting on the floor: pulling with legs, back and arms as in a boat."""
    turn = _count_turns(act, 0.5) % 1
    pulled = interpolate_least_jerk(turn, (0.0, 0.4, 0.5, 1.0), (0.0, 1.0, 1.0, 0.0))
    act.add_both(hip=2.0 - 0.42 * pulled, knee=0.95 - 0.85 * pulled, flat=-1.0)
    act.add_angles(pelvis_pitch=0.30 - 0.60 * pulled, spine_pitch=0.25 - 0.2 * pulled)
    act.move_towards("lr", 1.0, arm=1.35 - 1.3 * pulled, arm_side=0.1, arm_twist=-0.1, elbow=0.1)
    act.add_both(elbow=1.65 * pulled, arm_side=0.25 * pulled)


def _twist(act: ActivityTake) -> None:
    """The trunk turned to and fro, both arms straight out to the sides."""
    way = np.sin(2 * np.pi * _count_turns(act, 0.55)) * act.style.amplitude
    act.move_towards("lr", 1.0, arm=1.52, arm_side=1.5, arm_twist=0.0, elbow=0.08)
    act.add_angles(spine_yaw=0.85 * way, pelvis_yaw=0.25 * way, head_yaw=-0.2 * way)
    act.add_both(hip_out=0.18)


def _push_up(act: ActivityTake) -> None:
    """Face down on hands and toes, lowered and pushed up."""
    up = act.make_beat(0.55)
    act.add_angles(tilt=1.42 - 0.21 * up, head_pitch=-0.25)
    act.move_towards(
        "lr", 1.0, arm=0.30 + 1.10 * up, arm_side=0.35, arm_twist=0.0, elbow=1.30 - 1.15 * up
    )
    act.add_both(hand=-1.2, hip=-0.03, knee=-0.06)


def _sit_up(act: ActivityTake) -> None:
    """On the back with bent knees, the trunk raised and lowered."""
    up = act.make_beat(0.45) * min(act.style.amplitude, 1.1)
    act.add_angles(tilt=-1.55, pelvis_pitch=0.80 * up, spine_pitch=0.1 + 0.55 * up, head_pitch=0.25)
    act.add_both(hip=0.85, knee=1.65, flat=-1.0, ankle=-0.85)
    act.move_towards("lr", 1.0, arm=1.0 + 0.3 * up, arm_side=0.3, arm_twist=0.0, elbow=0.2)


def _swim(act: ActivityTake) -> None:
    """Standing, bent forward: arms shot ahead, swept outward and drawn in."""
    turn, marks = _count_turns(act, 0.7) % 1, (0.0, 0.3, 0.6, 0.8, 1.0)
    out = interpolate_least_jerk(turn, marks, (0.0, 0.0, 1.0, 0.4, 0.0))
    bent = interpolate_least_jerk(turn, marks, (1.0, 0.0, 0.1, 0.9, 1.0))
    act.add_angles(pelvis_pitch=0.75, spine_pitch=0.2, head_pitch=-0.6)
    act.move_towards(
        "lr", 1.0, arm=1.7 - 1.0 * bent, arm_side=0.1, arm_twist=-0.4 * bent, elbow=0.1
    )
    act.add_both(arm_side=1.35 * out, elbow=1.8 * bent, knee=0.3, hip=0.15)


def _flap(act: ActivityTake) -> None:
    """Both arms up and down at the sides, as wings."""
    up = act.make_beat(1.15) * min(act.style.amplitude, 1.15)
    act.move_towards("lr", 1.0, arm=0.25 + 1.75 * up, arm_side=1.5, arm_twist=0.0, elbow=0.35)
    act.add_both(knee=0.25 * (1 - up), hip=0.12 * (1 - up), elbow=-0.2 * up)


def _press(act: ActivityTake) -> None:
    """Something heavy from the shoulders to overhead with both hands, feet apart."""
    turn = _count_turns(act, 0.5) % 1
    up = interpolate_least_jerk(turn, (0.0, 0.3, 0.5, 0.8, 1.0), (0.0, 1.0, 1.0, 0.0, 0.0))
    act.move_towards(
        "lr", 1.0, arm=0.65 + 2.1 * up, arm_side=0.85, arm_twist=0.25, elbow=2.45 - 2.2 * up
    )
    give = np.clip(np.sin(2 * np.pi * turn - 4.5), 0, None)
    act.add_both(hip_out=0.16, knee=0.3 * give, hip=0.15 * give)
    act.add_angles(spine_pitch=-0.1 * up, head_pitch=-0.15 * up)


def _kneel(act: ActivityTake) -> None:
    """Down on one knee, and there the hands rest on the other."""
    down = act.play_once((0.0, 1.0 / act.style.tempo), (0.0, 1.0), early=0.35)
    lean = 4 * down * (1 - down)
    act.add_angles(hip_l=1.38 * down, knee_l=1.42 * down, hip_r=-0.08 * down, knee_r=1.55 * down)
    act.add_angles(flat_r=-np.clip(3 * down, 0, 1), ankle_r=0.1 * down, pelvis_pitch=0.2 * lean)
    act.move_towards("lr", down, arm=0.75, arm_side=-0.1, arm_twist=-0.5, elbow=0.95)
    act.add_angles(spine_pitch=0.15 * down, spine_yaw=0.15 * down)


def _sweep(act: ActivityTake) -> None:
    """Both hands at a broom's stick, swung low from side to side."""
    way = np.sin(2 * np.pi * _count_turns(act, 0.7)) * act.style.amplitude
    act.add_angles(pelvis_pitch=0.22, spine_pitch=0.42, spine_yaw=0.4 * way, pelvis_yaw=0.15 * way)
    act.move_towards("r", 1.0, arm=0.75, arm_side=-0.25, arm_twist=-0.5, elbow=0.25)
    act.move_towards("l", 1.0, arm=0.85, arm_side=0.15, arm_twist=-0.9, elbow=1.35)
    act.add_angles(arm_side_r=0.35 * way, arm_side_l=-0.25 * way, hip_l=0.3, knee_l=0.3)
    act.add_angles(hip_r=-0.1, knee_r=0.2, head_pitch=0.15)


def _dribble(act: ActivityTake) -> None:
    """A ball bounced low with one hand, knees bent and feet apart, the other arm out."""
    down = act.make_beat(1.5)
    act.move_towards("r", 1.0, arm=0.35, arm_side=0.4, arm_twist=-0.2, elbow=1.75 - 0.85 * down)
    act.add_angles(arm_r=0.25 * down, hand_r=-0.7 + 0.5 * down)
    act.move_towards("l", 1.0, arm=1.05, arm_side=1.2, arm_twist=-0.6, elbow=0.8)
    act.add_both(hip=0.8, knee=1.15, hip_out=0.2)
    act.add_angles(pelvis_pitch=0.45, spine_pitch=0.25, head_pitch=-0.5)


def _count_turns(act: ActivityTake, rate: float) -> np.ndarray:
    """Turns done since some time before the take, ``rate`` a second at the usual tempo."""
    return np.asarray(rate * act.style.tempo * act.time + act.rng.random())


def _at_waist(act: ActivityTake) -> None:
    act.move_towards("lr", 1.0, arm=0.65, arm_side=2.0, arm_twist=-1.9, elbow=1.75)


def _fold_arms(act: ActivityTake) -> None:
    act.move_towards("lr", 1.0, arm=0.45, arm_side=0.1, arm_twist=-1.25, elbow=1.6)


ACTS: dict[str, Callable[[ActivityTake], None]] = {
    act.__name__.removeprefix("_"): act
    for act in (
        *(_stretch, _squat, _bow, _lunge, _march, _turn, _throw, _reach_up, _side_step, _disco),
        *(_rock, _crawl, _balance, _star_jump, _row, _twist, _push_up, _sit_up, _swim, _flap),
        *(_press, _kneel, _sweep, _dribble),
    )
}
PUBLIC_ACTIVITIES = tuple(ACTS)
ONE_SIDED_ACTS = ("lunge", "throw", "disco", "balance", "kneel", "sweep", "dribble")

Repertoire = Literal["daily", "public"]


def perform_activity(
    activity: str, style: MotionStyle, seconds: float, *, rng: np.random.Generator
) -> np.ndarray:
    """Joint angles (T, angles) at ``RATE_HZ`` of one take.

    What repeats begins anywhere in its cycle; what happens once happens early enough to be seen.
    """
    if activity not in (known := _DAILY | ACTS | {"stand": stand_at_ease}):
        raise ValueError(_check.describe_unknown("activity", activity, known))
    _check.positive(seconds=seconds)
    taken = replace(
        style,
        tempo=style.tempo * float(np.exp(rng.normal(0, 0.05))),
        amplitude=style.amplitude * float(np.exp(rng.normal(0, 0.06))),
    )
    time = np.arange(max(2, round(seconds * RATE_HZ))) / RATE_HZ
    pose = np.zeros((len(time), len(ANGLES)))
    act = ActivityTake(pose=pose, time=time, style=taken, rng=rng)
    stand_at_ease(act)
    if activity != "stand":
        known[activity](act)
    return (
        mirror_motion(pose) if taken.is_left_handed and activity in _ONE_SIDED_ACTIVITIES else pose
    )


def _walk(act: ActivityTake) -> None:
    add_strides(act, rate=0.95, reach=0.36, lift=1.0, swing=0.42, elbow=0.15)
    act.add_angles(pelvis_pitch=0.03, tilt=0.02)


def _run(act: ActivityTake) -> None:
    phase = add_strides(act, rate=1.4, reach=0.42, lift=1.75, swing=0.60, elbow=1.30)
    act.add_angles(pelvis_pitch=0.10, spine_pitch=0.08, tilt=0.06)
    act.add_angles(hop=0.055 * act.style.bounce * (1 - np.cos(2 * phase + 0.6)))


def _jump(act: ActivityTake) -> None:
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
        act.add_both(
            **{name: interpolate_least_jerk(within, times, [size * pose[name] for pose in poses])}
        )
    bent = interpolate_least_jerk(within, times, [pose["knee"] for pose in poses])
    act.add_angles(spine_pitch=0.28 * size * bent, pelvis_pitch=0.15 * size * bent, hop=hop)
    airborne = np.clip(hop / 0.03, 0, 1)
    act.add_both(flat=-airborne, ankle=-0.5 * airborne)


def _wave(act: ActivityTake) -> None:
    beat, up = act.make_beat(1.7), act.raise_within(0.45)
    wide = beat * min(act.style.amplitude, 1.2)
    lift = act.rng.uniform(-0.35, 0.15)
    act.move_towards("r", up, arm=1.85 + lift - 0.22 * wide, elbow=1.65 - 0.65 * wide)
    act.move_towards("r", up, arm_side=0.9 + 0.2 * wide, arm_twist=-0.45 + 0.6 * wide)
    act.add_angles(spine_roll=-0.05 * up, head_yaw=-0.1 * up)


def _clap(act: ActivityTake) -> None:
    beat, up = act.make_beat(1.9), act.raise_within(0.4)
    gap = beat * act.style.amplitude  # 0 is palm on palm
    lift = act.rng.uniform(-0.05, 0.25)
    act.move_towards("lr", up, arm=0.62 + lift - 0.05 * gap, elbow=1.38 + 0.22 * gap)
    act.move_towards("lr", up, arm_side=0.41 + 0.65 * gap, arm_twist=-1.17 - 0.2 * gap)
    act.add_angles(head_pitch=0.05 * up, spine_pitch=0.03 * up * gap)


def _punch(act: ActivityTake) -> None:
    turn = (act.time / (0.95 / act.style.tempo) + act.rng.random()) % 1
    ready = act.raise_within(0.35)
    hit = (
        interpolate_least_jerk(turn, (0.0, 0.25, 0.50, 0.58, 1.0), (0.0, 0.0, 1.0, 1.0, 0.0))
        * ready
    )
    act.move_towards("lr", ready, arm=0.53, arm_side=0.29, arm_twist=-0.61, elbow=2.2)
    act.move_towards("r", hit, arm=1.5, arm_side=-0.12, arm_twist=-0.45, elbow=0.1)
    size = hit * act.style.amplitude
    act.add_angles(spine_yaw=-0.15 * ready + 0.60 * size, pelvis_yaw=-0.1 * ready + 0.25 * size)
    act.add_angles(hip_l=0.28 * ready + 0.12 * size, knee_l=0.30 * ready + 0.15 * size)
    act.add_angles(hip_r=-0.22 * ready, knee_r=0.22 * ready, spine_pitch=0.08 * ready + 0.10 * size)


def _kick(act: ActivityTake) -> None:
    turn = (act.time / (1.3 / act.style.tempo) + act.rng.random()) % 1
    marks = (0.0, 0.20, 0.42, 0.52, 0.75, 1.0)
    hip = interpolate_least_jerk(turn, marks, (0.0, -0.45, 1.25, 1.35, 0.2, 0.0))
    knee = interpolate_least_jerk(turn, marks, (0.0, 1.25, 0.35, 0.05, 0.5, 0.0))
    lift, ahead = np.clip(np.abs(hip) + knee, 0, 1), np.clip(hip, 0, None)
    size = act.style.amplitude
    act.add_angles(hip_r=size * hip, knee_r=size * knee, flat_r=-lift, ankle_r=-0.4 * lift)
    act.add_angles(spine_pitch=-0.16 * ahead, pelvis_pitch=-0.10 * ahead)
    act.add_angles(arm_l=0.55 * hip, arm_r=-0.5 * hip, elbow_l=0.3 * lift, elbow_r=0.3 * lift)
    act.add_angles(
        arm_side_l=-0.1 * lift, knee_l=0.15 * lift, hip_l=0.05 * lift, spine_yaw=0.2 * hip
    )


def _drink(act: ActivityTake) -> None:
    tempo = act.style.tempo
    stops = (0.0, 0.6, 0.85, 1.5, 2.1, 2.5)
    cycle = stops[-1] / tempo
    turn = (act.time + act.rng.uniform(0, 0.75) * cycle) % cycle * tempo
    up = interpolate_least_jerk(turn, stops, (0.0, 1.0, 1.0, 1.0, 0.0, 0.0))
    sip = interpolate_least_jerk(turn, stops, (0.0, 0.1, 1.0, 1.0, 0.0, 0.0))
    act.move_towards("r", 1.0, arm=0.2, arm_side=1.0, arm_twist=-1.3, elbow=1.5)
    act.move_towards("r", up, arm=1.02 + 0.12 * sip, arm_side=0.16, arm_twist=-0.7, elbow=2.1)
    act.add_angles(head_pitch=-0.28 * sip, spine_pitch=-0.05 * sip, hand_r=0.15 * sip)


def _sit_down(act: ActivityTake) -> None:
    _sit_on_seat(act, _lower_body(act))


def _stand_up(act: ActivityTake) -> None:
    _sit_on_seat(act, 1 - _lower_body(act))


def _lower_body(act: ActivityTake) -> np.ndarray:
    return act.play_once((0.0, 1.15 / act.style.tempo), (0.0, 1.0), early=0.35)


def _sit_on_seat(act: ActivityTake, down: np.ndarray) -> None:
    """From standing (0) to sitting on a seat behind (1); the trunk leans forward in between."""
    lean = 4 * down * (1 - down)
    act.add_both(hip=1.50 * down, knee=1.45 * down, hip_out=0.06 * down)
    act.add_both(arm=0.45 * down + 0.35 * lean, elbow=0.55 * down, arm_side=-0.45 * down)
    act.add_angles(pelvis_pitch=0.45 * lean - 0.05 * down, spine_pitch=0.40 * lean + 0.05 * down)
    act.add_angles(head_pitch=-0.25 * lean)


def _pick_up(act: ActivityTake) -> None:
    tempo = act.style.tempo
    stops = (0.0, 0.75, 0.95, 1.70, 2.0)
    cycle = stops[-1] / tempo
    turn = (act.time + act.rng.uniform(0, 0.45) * cycle) % cycle * tempo
    down = interpolate_least_jerk(turn, stops, (0.0, 1.0, 1.0, 0.0, 0.0))
    knees = act.rng.uniform(0.55, 1.25)  # some bend the knees, some the back
    size = min(act.style.amplitude, 1.1)
    act.add_angles(pelvis_pitch=size * (0.95 - 0.2 * knees) * down, spine_pitch=0.65 * size * down)
    act.add_both(hip=knees * 0.85 * down, knee=knees * 1.25 * down)
    act.add_angles(arm_r=size * 0.75 * down, arm_side_r=-0.6 * down, elbow_r=-0.15 * down)
    act.add_angles(
        arm_l=0.25 * down, elbow_l=0.25 * down, spine_yaw=0.15 * down, head_pitch=0.1 * down
    )


def _fall(act: ActivityTake) -> None:
    down = act.play_once((0.0, 0.35, 0.95), (0.0, 0.12, 1.0), early=0.45)
    give = np.clip(4 * down * (1 - down), 0, 1)
    way = int(act.rng.integers(3)) - 1
    if way == 0:  # forward, onto the hands
        act.add_angles(tilt=1.45 * down)
        act.move_towards("lr", np.maximum(give, down), arm=2.3, elbow=0.9, arm_side=0.5)
    else:  # on the back, to one side
        act.add_angles(tilt=-1.52 * down, lean=0.3 * way * down, head_pitch=0.25 * down)
        act.add_both(arm=0.5 * give + 0.1 * down, elbow=0.4 * give)
    for side, more in (("l", 1.0), ("r", 0.6)):
        act.add_side(side, hip=more * (0.70 * give + 0.15 * down), flat=-down)
        act.add_side(side, knee=more * (1.25 * give + 0.3 * down))
    act.add_angles(spine_pitch=0.2 * give, spine_yaw=0.3 * way * give)


_DAILY: dict[str, Callable[[ActivityTake], None]] = {
    act.__name__.removeprefix("_"): act
    for act in (
        *(_walk, _run, _jump, _wave, _clap, _sit_down, _stand_up),
        *(_pick_up, _punch, _kick, _drink, _fall),
    )
}
ACTIVITIES = tuple(_DAILY)
REPERTOIRES: Mapping[str, tuple[str, ...]] = {
    "daily": ACTIVITIES,
    "public": PUBLIC_ACTIVITIES,
}
_ONE_SIDED_ACTIVITIES = ("wave", "punch", "kick", "drink", "pick_up", *ONE_SIDED_ACTS)
