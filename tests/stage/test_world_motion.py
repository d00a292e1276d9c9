"""Motion: finite, on the floor, everybody's own, and jumps that fall as fast as things fall."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import binary_erosion

from masquerade.stage import bodies, motion, plan, skeleton
from masquerade.stage.act import MotionStyle, sample_motion_style
from masquerade.stage.bodies import BONES, Body, BodyModel, BodyShape
from masquerade.stage.motion import ACTIVITIES, perform_activity
from masquerade.stage.skeleton import (
    ANGLES,
    RATE_HZ,
    BodyMotion,
    mirror_motion,
    select_angle,
    solve_motion,
)

ALL = (*ACTIVITIES, *motion.PUBLIC_ACTIVITIES, "stand")
EDGE = 30  # rows at either end that smoothing spoils
LOWEST = {"jump": 0.05, "kick": 0.05}  # metres below the floor: push-off and landing are smoothed
HIGHEST = {"march": 0.08, "sit_up": 0.08}  # between two steps; the back is thicker than 4 cm
NEVER_DOWN = ("run", "jump", "star_jump")  # they fly, by turns
RANGES = {  # radians, wider than a healthy person can at one end only
    "knee": (-0.1, 2.6),
    "hip": (-1.3, 2.2),
    "elbow": (-0.1, 2.7),
    "arm": (-1.6, 3.1),
    "hip_out": (-0.3, 0.6),
    "ankle": (-1.2, 0.7),
}


@pytest.fixture(scope="module")
def model(world_cache: Path) -> BodyModel:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASQUERADE_CACHE", str(world_cache))
        return bodies.load_body_model()


@pytest.fixture(scope="module")
def body(model: BodyModel) -> Body:
    return model.make_body(BodyShape())


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def played(
    model: BodyModel, number: int, activity: str, seconds: float = 4.0
) -> tuple[np.ndarray, BodyMotion, Body]:
    subject = plan.make_subject(number, seed=0)
    own = model.make_body(subject.shape)
    pose = perform_activity(activity, subject.style, seconds, rng=rng(number))
    return pose, solve_motion(pose, own), own


def soles(posed: BodyMotion, body: Body) -> np.ndarray:
    """Heel, ball and toe of both feet as they touch the floor at rest, (T, 2, 3, 3)."""
    floor = body.vertices[:, 2].min()
    found = []
    for side in "LR":
        bone = BONES.index(f"foot.{side}")
        below = body.heads[bone] + np.array([[0, 0.05, 0], [0, -0.12, 0], [0, -0.18, 0]])
        below[:, 2] = floor + np.array([0, 0, 0.015])
        found.append(posed.carry_points(below, body.heads, np.full(3, bone)))
    return np.stack(found, axis=1)


def lowest(posed: BodyMotion, body: Body) -> np.ndarray:
    """Height of the lowest of the soles and of the joints, each joint 4 cm thick."""
    return np.minimum(
        soles(posed, body)[..., 2].min(axis=(1, 2)), posed.heads[..., 2].min(axis=1) - 0.04
    )


def frequency(values: np.ndarray, *, rate_hz: float = RATE_HZ) -> float:
    """Where the spectrum is highest, above 0.3 Hz."""
    waves = (values - values.mean()) * np.hanning(len(values))
    size, at = np.abs(np.fft.rfft(waves, 2**14)), np.fft.rfftfreq(2**14, 1 / rate_hz)
    return float(at[np.argmax(np.where(at > 0.3, size, 0))])


@pytest.mark.parametrize("activity", ALL)
def test_angles_are_finite_and_such_as_people_have(activity: str) -> None:
    for seed in range(20):
        pose = perform_activity(activity, sample_motion_style(rng(seed)), 3.0, rng=rng(seed))
        assert pose.shape == (300, len(ANGLES)) and np.isfinite(pose).all()
        for name, (least, most) in RANGES.items():
            for side in "lr":
                angle = select_angle(pose, f"{name}_{side}")
                assert least <= angle.min() and angle.max() <= most, (name, side, seed)


@pytest.mark.parametrize("activity", ALL)
def test_bones_keep_their_lengths_and_turns_are_rotations(model: BodyModel, activity: str) -> None:
    _, posed, own = played(model, 2, activity, 1.5)
    assert np.abs(posed.turns @ posed.turns.swapaxes(-1, -2) - np.eye(3)).max() < 1e-9
    assert np.abs(np.linalg.det(posed.turns) - 1).max() < 1e-9
    for child, parent in enumerate(bodies.PARENTS[1:], 1):
        apart = np.linalg.norm(posed.heads[:, child] - posed.heads[:, parent], axis=1)
        rest = np.linalg.norm(own.heads[child] - own.heads[parent])
        assert np.abs(apart - rest).max() < 1e-9, BONES[child]


@pytest.mark.parametrize("activity", ALL)
def test_the_same_seed_gives_the_same_bytes_and_another_does_not(activity: str) -> None:
    first, again, other = (
        perform_activity(activity, MotionStyle(), 2.0, rng=rng(n)) for n in (7, 7, 8)
    )
    assert first.tobytes() == again.tobytes()
    assert np.abs(first - other).max() > 1e-3


@pytest.mark.parametrize("activity", ALL)
def test_nobody_sinks_into_the_floor_or_floats_over_it(model: BodyModel, activity: str) -> None:
    for number in range(8):
        _, posed, own = played(model, number, activity)
        height = lowest(posed, own)[EDGE:-EDGE]
        assert height.min() > -LOWEST.get(activity, 0.04), number
        # At any time somebody who does not fly is within 5 cm of the floor; a flyer comes down.
        highest = height.min() if activity in NEVER_DOWN else height.max()
        assert highest < HIGHEST.get(activity, 0.05), number


def test_people_stand_with_both_soles_on_the_floor(model: BodyModel) -> None:
    for number in range(8):
        _, posed, own = played(model, number, "stand")
        assert np.abs(soles(posed, own)[..., 2]).max() < 0.03


@pytest.mark.parametrize("heading", [0.0, 1.2, -2.5])
def test_a_walk_goes_where_the_person_faces(body: Body, heading: float) -> None:
    for activity, least, most in (("walk", 0.7, 2.0), ("run", 1.6, 4.0)):
        pose = perform_activity(activity, MotionStyle(), 5.0, rng=rng(1))
        root = solve_motion(pose, body, heading=heading).heads[:, 0]
        way = (root[-50] - root[50])[:2] / 4.0
        facing = np.array([np.sin(heading), -np.cos(heading)])  # 0 looks along -y
        assert least < way @ facing < most
        assert abs(way @ [-facing[1], facing[0]]) < 0.15


def test_a_walk_with_drift_goes_round_to_the_left(body: Body) -> None:
    pose = perform_activity("walk", MotionStyle(), 6.0, rng=rng(1))
    root = solve_motion(pose, body, drift=0.5).heads[:, 0, :2]
    (ax, ay), (bx, by) = np.diff(root[50:-50:50], axis=0)[[0, -1]]
    assert np.arctan2(ax * by - ay * bx, ax * bx + ay * by) == pytest.approx(0.5 * 4.0, abs=0.4)


def feet_speeds(posed: BodyMotion, body: Body) -> tuple[float, float]:
    """Mean speed on the floor of the lower foot and of the other, in m/s."""
    feet = soles(posed, body)
    speed = np.linalg.norm(np.gradient(feet.mean(axis=2)[..., :2], 1 / RATE_HZ, axis=0), axis=-1)
    lower = np.argmin(feet[..., 2].min(axis=2), axis=1)
    rows = np.arange(len(speed))[EDGE:-EDGE]
    return float(speed[rows, lower[rows]].mean()), float(speed[rows, 1 - lower[rows]].mean())


@pytest.mark.parametrize("activity", ["walk", "run"])
def test_the_standing_foot_slides_far_less_than_the_other_moves(body: Body, activity: str) -> None:
    # The root's path is smoothed, because sensors would feel its kinks, so a foot slides a little.
    for seed in range(4):
        standing, swinging = feet_speeds(
            solve_motion(perform_activity(activity, MotionStyle(), 5.0, rng=rng(seed)), body), body
        )
        assert standing < 0.45 * swinging and standing < 1.4


def test_a_person_who_stands_does_not_wander(model: BodyModel) -> None:
    for activity in ("stand", "clap", "drink", "wave"):
        _, posed, _ = played(model, 1, activity)
        assert np.ptp(posed.heads[:, 0, :2], axis=0).max() < 0.15, activity


def test_everybody_walks_at_the_speed_of_people(model: BodyModel) -> None:
    for number in range(14):
        _, posed, _ = played(model, number, "walk", 6.0)
        speed = np.linalg.norm(posed.heads[-50, 0] - posed.heads[50, 0]) / 5.0
        assert 0.7 < speed < 2.5, number


@pytest.mark.parametrize("seed", range(4))
def test_a_jump_falls_as_fast_as_things_fall(body: Body, seed: int) -> None:
    pose = perform_activity("jump", MotionStyle(), 5.0, rng=rng(seed))
    aloft = select_angle(pose, "hop") > 0
    # Height is smoothed over 0.05 s, so only what is 0.12 s from take-off and landing is asked.
    core = binary_erosion(aloft, iterations=12)
    assert core.sum() > 30
    step = 1 / RATE_HZ
    clear = np.gradient(np.gradient(select_angle(pose, "hop"), step), step)
    assert np.abs(clear[core] + 9.81).max() < 0.01  # how high the soles are, before smoothing
    height = solve_motion(pose, body).heads[:, 0, 2]
    pull = np.gradient(np.gradient(height, step), step)
    # The hips also come nearer to the soles while the knees bend: up to 4 m/s2 for a while.
    assert -13.0 < pull[core].mean() < -8.5
    assert pull[core].max() < -7
    assert pull[~aloft].max() > 10  # and pushes off harder than its weight


def test_who_sits_down_gets_lower_and_who_stands_up_gets_higher(model: BodyModel) -> None:
    for number in range(6):
        heights = [
            played(model, number, activity, 3.0)[1].heads[:, 0, 2]
            for activity in ("sit_down", "stand_up")
        ]
        down, up = ((height[-1] - height[0]) for height in heights)
        assert down < -0.25 and up > 0.25
        # One backward in time is the other, up to when it begins: the same heights are passed.
        assert np.abs(np.sort(heights[0])[[0, -1]] - np.sort(heights[1])[[0, -1]]).max() < 0.03
        assert np.diff(heights[0]).max() < 0.003 and np.diff(heights[1]).min() > -0.003


def test_a_fall_begins_upright_and_ends_low(model: BodyModel) -> None:
    for number in range(8):
        _, posed, own = played(model, number, "fall", 3.0)
        head = posed.heads[:, BONES.index("head"), 2]
        tall = np.ptp(own.vertices[:, 2])
        assert head[-1] < 0.35 * tall and posed.heads[-1, 0, 2] < 0.25 * tall
        assert head.max() > 0.7 * tall


@pytest.mark.parametrize("activity", ALL)
def test_mirrored_twice_is_the_same_and_once_exchanges_left_and_right(
    body: Body, activity: str
) -> None:
    pose = perform_activity(activity, MotionStyle(asymmetry=0.1), 1.5, rng=rng(3))
    before = pose.copy()
    other = mirror_motion(pose)
    assert np.array_equal(mirror_motion(other), pose) and np.array_equal(pose, before)
    even = replace_sides(body)
    a, b = solve_motion(pose, even).heads, solve_motion(other, even).heads
    swap = [BONES.index(bone.translate(str.maketrans("LR", "RL"))) for bone in BONES]
    assert np.abs(a[:, swap] * [-1, 1, 1] - b).max() < 1e-6
    assert np.abs(a - b).max() > 1e-3


def replace_sides(body: Body) -> Body:
    """The body with exactly equal halves."""
    swap = [BONES.index(bone.translate(str.maketrans("LR", "RL"))) for bone in BONES]
    return replace(body, heads=(body.heads + body.heads[swap] * [-1, 1, 1]) / 2)


def test_the_left_handed_wave_with_the_left(body: Body) -> None:
    for is_left, up, down in ((True, "wrist.L", "wrist.R"), (False, "wrist.R", "wrist.L")):
        pose = perform_activity("wave", MotionStyle(is_left_handed=is_left), 3.0, rng=rng(0))
        heads = solve_motion(pose, body).heads[-1]
        assert heads[BONES.index(up), 2] > heads[BONES.index(down), 2] + 0.3


def test_hands_are_where_the_activity_has_them(body: Body) -> None:
    def at(activity: str, bone: str) -> np.ndarray:
        heads = solve_motion(perform_activity(activity, MotionStyle(), 5.0, rng=rng(2)), body).heads
        return heads[200:, BONES.index(bone)] - heads[200:, BONES.index("head")]

    apart = np.linalg.norm(at("clap", "wrist.L") - at("clap", "wrist.R"), axis=1)
    assert apart.min() < 0.20 and np.ptp(apart) > 0.10
    assert np.linalg.norm(at("drink", "wrist.R"), axis=1).min() < 0.30  # at the mouth
    assert at("punch", "wrist.R")[:, 1].min() < -0.4  # far in front
    assert at("pick_up", "wrist.R")[:, 2].min() < -0.3  # below the head, which is low as well


def test_tempo_sets_the_frequency_of_steps() -> None:
    found = []
    for tempo in (0.8, 1.0, 1.25):
        pose = perform_activity("walk", MotionStyle(tempo=tempo), 20.0, rng=rng(5))
        found.append(frequency(select_angle(pose, "hip_l")))
    assert found[0] / found[1] == pytest.approx(0.8, rel=0.02)
    assert found[2] / found[1] == pytest.approx(1.25, rel=0.02)


def test_amplitude_sets_the_size_of_steps() -> None:
    small, large = (
        np.ptp(
            select_angle(
                perform_activity("walk", MotionStyle(amplitude=size), 4.0, rng=rng(5)), "hip_l"
            )
        )
        for size in (0.8, 1.2)
    )
    assert large / small == pytest.approx(1.5, rel=0.01)


def test_people_have_styles_of_their_own() -> None:
    styles = [sample_motion_style(rng(seed)) for seed in range(40)]
    assert len({style.tempo for style in styles}) == 40
    assert 0 < sum(style.is_left_handed for style in styles) < 25
    assert sample_motion_style(rng(3)) == styles[3]


def test_an_unknown_activity_is_refused_with_the_list() -> None:
    with pytest.raises(ValueError, match=r"Unknown activity 'wlak' \(did you mean walk\?\).*drink"):
        perform_activity("wlak", MotionStyle(), 1.0, rng=rng())


@pytest.mark.parametrize("seconds", [0.0, -1.0, np.nan, np.inf])
def test_a_length_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="Expected seconds to be finite and > 0"):
        perform_activity("walk", MotionStyle(), seconds, rng=rng())


@pytest.mark.parametrize("activity", ALL)
def test_a_very_short_take_works(body: Body, activity: str) -> None:
    posed = solve_motion(perform_activity(activity, MotionStyle(), 0.001, rng=rng()), body)
    assert len(posed.heads) == 2 and np.isfinite(posed.heads).all()


def test_subjects_are_adults_and_the_others_do_not_matter() -> None:
    people = [plan.make_subject(number, seed=0) for number in range(60)]
    assert plan.make_subject(17, seed=0) == people[17] != plan.make_subject(17, seed=1)
    assert len({person.shape for person in people}) == 60
    assert all(1.45 <= person.shape.stature_m <= 1.98 for person in people)
    for name in ("skin_tone", "gender", "build", "clothing", "handedness"):
        assert len({person.attributes[name] for person in people}) >= 2, name
    assert not any(person.look.has_beard for person in people if person.is_feminine)
    assert len(ACTIVITIES) == 12
    assert skeleton.RATE_HZ == 100


def described(activity: str, number: int) -> np.ndarray:
    """How somebody's joints lie on average and how they move, whatever the phase."""
    pose = perform_activity(activity, plan.make_subject(number, seed=0).style, 3.0, rng=rng(number))
    if plan.make_subject(number, seed=0).style.is_left_handed:
        pose = mirror_motion(pose)
    kept = pose[:, [place for place, name in enumerate(ANGLES) if name not in ("turn", "hop")]]
    return np.concatenate([kept.mean(axis=0), 2 * kept.std(axis=0)])


def test_nothing_that_only_public_people_do_is_one_of_the_daily_activities() -> None:
    assert len(motion.PUBLIC_ACTIVITIES) >= 16 and not set(motion.PUBLIC_ACTIVITIES) & set(
        ACTIVITIES
    )
    assert motion.REPERTOIRES == {"daily": ACTIVITIES, "public": motion.PUBLIC_ACTIVITIES}
    names = (*ACTIVITIES, *motion.PUBLIC_ACTIVITIES)
    taken = {name: np.stack([described(name, number) for number in range(10)]) for name in names}
    middles = np.stack([taken[name].mean(axis=0) for name in names])
    for place, name in enumerate(names):
        far = np.linalg.norm(taken[name][:, None] - middles, axis=-1)
        is_daily = far.argmin(axis=1) < len(ACTIVITIES)
        assert (is_daily == (place < len(ACTIVITIES))).mean() >= 0.9, name
