"""Worn sensors feel gravity, steps and turns as physics has them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d
from scipy.spatial.transform import Rotation

from masquerade.stage import bodies, takes
from masquerade.stage.act import MotionStyle
from masquerade.stage.bodies import BONES, Body, BodyShape
from masquerade.stage.motion import ACTIVITIES, perform_activity
from masquerade.stage.plan import WorldPlan
from masquerade.stage.skeleton import RATE_HZ, BodyMotion, select_angle, solve_motion
from masquerade.stage.takes import GRAVITY, SITES, SensorMount, sample_sensor_mount

pytestmark = pytest.mark.usefixtures("in_world")
NONE = ((0.0, 0.0, 0.0),) * 3
PLAIN = SensorMount(is_left=False, askew=NONE, bias=((0.0,) * 6,) * 3, jitter=(0.0, 0.0))
LIMBS = {"wrist": "lowerarm01.R", "ankle": "lowerleg01.R", "chest": "spine01"}
EDGE = 40  # rows of the motion before the first sample


@pytest.fixture(scope="module")
def body(world_cache: Path) -> Body:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASQUERADE_CACHE", str(world_cache))
        return bodies.load_body_model().make_body(BodyShape())


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def moved(
    body: Body, activity: str, seconds: float, *, seed: int = 0, tempo: float = 1.0
) -> BodyMotion:
    return solve_motion(
        perform_activity(activity, MotionStyle(tempo=tempo), seconds, rng=rng(seed)), body
    )


def frozen(body: Body, *, rows: int = 400) -> BodyMotion:
    """A person who does not even sway."""
    one = moved(body, "stand", 1.0)
    return BodyMotion(turns=one.turns[:1].repeat(rows, 0), heads=one.heads[:1].repeat(rows, 0))


def read(
    posed: BodyMotion, body: Body, mount: SensorMount = PLAIN, rate_hz: float = 50.0
) -> np.ndarray:
    return takes.simulate_sensors(posed, body, mount, rate_hz=rate_hz, rng=rng(1))


def felt(values: np.ndarray, site: str) -> np.ndarray:
    """Magnitude of what the accelerometer of a site reads."""
    first = 6 * list(SITES).index(site)
    return np.linalg.norm(values[:, first : first + 3], axis=1)


def spun(values: np.ndarray, site: str) -> np.ndarray:
    first = 6 * list(SITES).index(site) + 3
    return values[:, first : first + 3]


def frequency(values: np.ndarray, *, rate_hz: float) -> float:
    """Where the spectrum is highest, from 0.4 to 6 Hz."""
    waves = (values - values.mean()) * np.hanning(len(values))
    size, at = np.abs(np.fft.rfft(waves, 2**14)), np.fft.rfftfreq(2**14, 1 / rate_hz)
    return float(at[np.argmax(np.where((at > 0.4) & (at < 6), size, 0))])


@pytest.mark.parametrize("site", SITES)
def test_at_rest_a_sensor_reads_gravity_and_no_turning(body: Body, site: str) -> None:
    still = read(frozen(body), body)
    assert np.abs(felt(still, site) - GRAVITY).max() < 1e-4
    assert np.abs(spun(still, site)).max() < 1e-6
    mount = sample_sensor_mount(is_left=False, rng=rng(2))
    worn = read(frozen(body, rows=4000), body, mount)
    bias = np.array(mount.bias[list(SITES).index(site)])
    assert abs(felt(worn, site).mean() - GRAVITY) < np.linalg.norm(bias[:3]) + mount.jitter[0] / 10
    assert felt(worn, site).std() == pytest.approx(mount.jitter[0], rel=0.1)
    assert spun(worn, site).mean(axis=0) == pytest.approx(bias[3:], abs=mount.jitter[1] / 10)
    assert spun(worn, site).std(axis=0) == pytest.approx(mount.jitter[1], rel=0.1)


def test_at_rest_the_chest_feels_upward_and_the_world_turns_into_the_sensor(body: Body) -> None:
    still = read(frozen(body), body)[0]
    assert still[12:15] == pytest.approx([0, 0, GRAVITY], abs=1.0)
    upside = SensorMount(
        is_left=False, askew=((np.pi, 0.0, 0.0),) * 3, bias=PLAIN.bias, jitter=(0, 0)
    )
    assert read(frozen(body), body, upside)[0, 14] == pytest.approx(-still[14], abs=1e-4)


def test_gravity_is_read_in_the_sensors_own_axes(body: Body) -> None:
    # Bent forward, x stays and the chest's back (y) and crown (z) share the floor's push.
    bent = Rotation.from_euler("x", 0.6)
    still = frozen(body)
    posed = BodyMotion(
        turns=np.broadcast_to(bent.as_matrix(), still.turns.shape), heads=still.heads
    )
    wanted = GRAVITY * np.array([0, np.sin(0.6), np.cos(0.6)])
    assert read(posed, body)[0, 12:15] == pytest.approx(wanted, abs=1e-4)
    slipped = (0.3, -0.2, 0.9)
    askew = SensorMount(is_left=False, askew=(slipped,) * 3, bias=PLAIN.bias, jitter=(0.0, 0.0))
    turned = Rotation.from_rotvec(slipped).inv().apply(wanted)
    assert read(posed, body, askew)[0, 12:15] == pytest.approx(turned, abs=1e-4)


def test_who_stands_at_ease_sways_a_little_and_no_more(body: Body) -> None:
    values = read(moved(body, "stand", 10.0), body)
    for site in SITES:
        assert 0.001 < felt(values, site).std() < 0.2, site
        assert np.abs(spun(values, site)).max() < 0.4, site


@pytest.mark.parametrize("tempo", [0.85, 1.0, 1.2])
@pytest.mark.parametrize("site", ["wrist", "chest"])
def test_walking_beats_twice_a_stride(body: Body, site: str, tempo: float) -> None:
    posed = moved(body, "walk", 20.0, tempo=tempo)
    ankle = posed.heads[:, BONES.index("foot.R")] - posed.heads[:, 0]
    stride = frequency(ankle[:, 1], rate_hz=RATE_HZ)  # to and fro under the hips
    assert 0.6 < stride < 1.3
    beat = frequency(felt(read(posed, body), site), rate_hz=50.0)
    assert beat == pytest.approx(2 * stride, rel=0.02)


def test_a_jump_is_free_fall_for_a_while_and_a_blow_at_the_ends(body: Body) -> None:
    for seed in range(3):
        chest = felt(read(moved(body, "jump", 5.0, seed=seed), body), "chest")
        assert chest.min() < 1.5 < GRAVITY < 20 < chest.max()
    walking = felt(read(moved(body, "walk", 5.0), body), "chest")
    assert walking.min() > 3  # nobody flies in walking


def test_what_moves_more_is_felt_more(body: Body) -> None:
    spread = {
        activity: [felt(read(moved(body, activity, 6.0), body), site).std() for site in SITES]
        for activity in ("stand", "wave", "kick", "run", "walk")
    }
    assert spread["wave"][0] > 5 * spread["wave"][1]  # the wrist, not the ankle
    assert spread["kick"][1] > 2 * spread["kick"][2]  # the ankle more than the chest
    assert spread["run"][2] > 1.3 * spread["walk"][2] > 10 * spread["stand"][2]


@pytest.mark.parametrize("activity", ["walk", "drink", "wave"])
def test_20_and_50_hz_agree_below_2_hz(body: Body, activity: str) -> None:
    posed = moved(body, activity, 8.0)
    slow, fast = read(posed, body, rate_hz=20.0), read(posed, body, rate_hz=50.0)
    low = gaussian_filter1d(slow, 0.12 * 20, axis=0)
    high = gaussian_filter1d(fast, 0.12 * 50, axis=0)
    for k in range(18):
        there = np.interp(np.arange(len(slow)) / 20, np.arange(len(fast)) / 50, high[:, k])
        off = np.abs(there - low[:, k])[10:-10].max()
        assert off < 0.3, takes.list_channels()[k]
    assert np.abs(np.diff(high, axis=0)).max() > 0.3  # one sample late would be seen


@pytest.mark.parametrize("activity", ["walk", "punch", "jump", "wave"])
@pytest.mark.parametrize("site", SITES)
def test_the_gyroscope_adds_up_to_the_rotation(body: Body, activity: str, site: str) -> None:
    posed = moved(body, activity, 3.0)
    for rate_hz, tolerance_deg in ((100.0, 0.5), (50.0, 6.0)):
        turns = spun(read(posed, body, rate_hz=rate_hz), site)
        rows, count = EDGE + 30, round(rate_hz)
        found = Rotation.identity()
        first = round(0.3 * rate_hz)
        for turn in turns[first : first + count]:
            found = found * Rotation.from_rotvec(turn / rate_hz)
        limb = Rotation.from_matrix(posed.turns[:, BONES.index(LIMBS[site])])
        true = limb[rows].inv() * limb[rows + 100]
        assert np.degrees((true.inv() * found).magnitude()) < tolerance_deg
    path = limb[rows : rows + 100].inv() * limb[rows + 1 : rows + 101]
    assert np.degrees(path.magnitude().sum()) > 5 or site != "wrist"  # there was something to add


def test_a_mount_on_the_left_reads_the_left(body: Body) -> None:
    posed = moved(body, "wave", 4.0)
    left = SensorMount(is_left=True, askew=NONE, bias=PLAIN.bias, jitter=(0.0, 0.0))
    quiet, busy = (felt(read(posed, body, mount), "wrist").std() for mount in (left, PLAIN))
    assert busy > 5 * quiet  # a right-handed person waves


def test_bias_is_added_and_the_range_is_16_g(body: Body) -> None:
    bias = ((1000.0, -1000.0, 0.5, 0.25, 0.0, 0.0), (0.0,) * 6, (0.0,) * 6)
    off = SensorMount(is_left=False, askew=NONE, bias=bias, jitter=(0.0, 0.0))
    values, plain = read(frozen(body), body, off), read(frozen(body), body)
    assert values[0, :2] == pytest.approx([16 * GRAVITY, -16 * GRAVITY])
    assert values[0, 2:4] - plain[0, 2:4] == pytest.approx([0.5, 0.25], abs=1e-5)
    assert np.array_equal(values[:, 6:], plain[:, 6:])


def test_the_same_seed_gives_the_same_jitter_and_another_does_not(body: Body) -> None:
    mount, posed = sample_sensor_mount(is_left=False, rng=rng(4)), moved(body, "walk", 2.0)
    first, again, other = (
        takes.simulate_sensors(posed, body, mount, rate_hz=50.0, rng=rng(n)) for n in (1, 1, 2)
    )
    assert first.tobytes() == again.tobytes() != other.tobytes()
    assert (
        sample_sensor_mount(is_left=False, rng=rng(4))
        == mount
        != sample_sensor_mount(is_left=False, rng=rng(5))
    )


@pytest.mark.parametrize("rate_hz", [100.5, 1000.0, 0.0, -5.0, np.nan])
def test_a_rate_that_the_motion_has_not_is_refused(body: Body, rate_hz: float) -> None:
    with pytest.raises(ValueError, match="rate_hz"):
        read(frozen(body), body, rate_hz=rate_hz)


@pytest.mark.parametrize("rate_hz", [12.5, 20.0, 33.0, 50.0, 100.0])
def test_there_is_a_column_a_channel_and_a_row_a_sample(body: Body, rate_hz: float) -> None:
    names = takes.list_channels()
    assert len(names) == len(set(names)) == 18
    assert names[0] == "wrist_accelerometer_x" and names[-1] == "chest_gyroscope_z"
    values = read(frozen(body), body, rate_hz=rate_hz)
    assert values.dtype == np.float32 and values.shape[1] == 18
    rows = takes.list_sample_rows(400, rate_hz=rate_hz)
    assert len(rows) == len(values) == pytest.approx(3.2 * rate_hz, abs=1)
    assert rows[0] == EDGE and rows[-1] < 400 - EDGE
    assert np.abs(np.diff(rows) - RATE_HZ / rate_hz).max() < 1


@pytest.fixture(scope="module")
def session(world_cache: Path) -> tuple[np.ndarray, np.ndarray]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASQUERADE_CACHE", str(world_cache))
        return takes.simulate_session(WorldPlan(wearers=6), 2)


def test_a_session_has_all_activities_and_nothing_only_between(
    session: tuple[np.ndarray, np.ndarray],
) -> None:
    values, label = session
    assert len(values) == len(label) and np.isfinite(values).all()
    assert set(label.tolist()) == set(range(-1, len(ACTIVITIES)))
    starts = np.flatnonzero(np.diff(label, prepend=-2))
    runs = [(int(label[a]), b - a) for a, b in zip(starts, [*starts[1:], len(label)], strict=True)]
    assert runs[0][0] != -1 and runs[-1][0] != -1
    for (name, length), (after, _) in pairwise(runs):
        assert (name == -1) != (after == -1)  # by turns
        assert name != -1 or length == pytest.approx(0.6 * 50, abs=1)
    for number in range(len(ACTIVITIES)):
        assert (label == number).sum() >= 4.0 * 50, ACTIVITIES[number]


def test_labels_stand_where_the_activity_is(session: tuple[np.ndarray, np.ndarray]) -> None:
    values, label = session
    busy = {name: felt(values[label == k], "chest").std() for k, name in enumerate(ACTIVITIES)}
    assert min(busy["run"], busy["jump"]) > 3 * max(busy["clap"], busy["drink"], busy["wave"])


def test_another_rate_gives_another_length_of_the_same_session(
    session: tuple[np.ndarray, np.ndarray],
) -> None:
    values, label = takes.simulate_session(WorldPlan(wearers=6, signal_hz=20.0), 2)
    assert len(label) == pytest.approx(len(session[1]) * 20 / 50, abs=1)
    assert label[label >= 0][0] == session[1][0]
    assert (values[:, 14].mean() - session[0][:, 14].mean()) == pytest.approx(0, abs=0.2)


def test_nothing_jolts_where_one_activity_fades_into_the_next() -> None:
    worst = []
    for wearer in range(3):
        values, label = takes.simulate_session(WorldPlan(wearers=6), wearer)
        wrist, near = felt(values, "wrist"), np.zeros(len(label), bool)
        for seam in np.flatnonzero((label[1:] == -1) & (label[:-1] == ACTIVITIES.index("walk"))):
            near[seam - 3 : seam + 4] = True
        walking = (label == ACTIVITIES.index("walk")) & ~near
        worst.append(wrist[near].max() / np.percentile(wrist[walking], 99))
    assert max(worst) < 1.5


def test_a_stride_is_seen_in_the_hip_as_well(body: Body) -> None:
    pose = perform_activity("walk", MotionStyle(), 20.0, rng=rng())
    posed = solve_motion(pose, body)
    ankle = posed.heads[:, BONES.index("foot.R")] - posed.heads[:, 0]
    hip = frequency(select_angle(pose, "hip_r"), rate_hz=RATE_HZ)
    assert hip == pytest.approx(frequency(ankle[:, 1], rate_hz=RATE_HZ), rel=0.01)
