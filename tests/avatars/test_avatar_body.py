"""Figures do what people do, stand where they stand, and are somebody else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("cv2")

import few_tracks as few
from masquerade.avatars import body, lift, pose
from masquerade.avatars.body import StandIn
from masquerade.joints import JOINTS
from masquerade.stage import bodies, figure
from masquerade.stage.raster import Camera
from masquerade.stage.skeleton import POINTS
from masquerade.vision.tracks import PersonTrack

HZ = few.RATE_HZ
NAMES = [name for name in POINTS if name in JOINTS]
HIPS = [JOINTS.index("left_hip"), JOINTS.index("right_hip")]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def filmed(
    activity: str, *, stature_m: float = 1.7, **settings: object
) -> tuple[PersonTrack, np.ndarray]:
    """What a finder says of a person who acts, and all joints (T, J, 3) in truth."""
    person = few.someone(1, stature_m)
    posed = few.played(activity, person, **settings)  # type: ignore[arg-type]
    (track,) = pose.mend_tracks([few.track_of(person, posed)], rate_hz=HZ)
    return track, figure.compute_world_joints(bodies.load_body_model(), person, posed)


def camera_of(*tracks: PersonTrack, eye_m: float | None = None) -> Camera:
    size = {"height": few.CAMERA.height, "width": few.CAMERA.width}
    return lift.estimate_camera(tracks, rate_hz=HZ, fov_deg=few.CAMERA.fov_deg, eye_m=eye_m, **size)


def joints_of(one: StandIn) -> np.ndarray:
    return figure.compute_world_joints(bodies.load_body_model(), one.person, one.posed)


def off_mm(found: np.ndarray, truth: np.ndarray) -> float:
    """Mean distance of joints about the hips, both in the picture's axes, at one scale."""
    rows = [JOINTS.index(name) for name in NAMES]
    ours, theirs = (
        each[:, rows] - each[:, HIPS].mean(axis=1, keepdims=True) for each in (found, truth)
    )
    ours = ours * ((ours * theirs).sum() / (ours * ours).sum())
    return float(np.linalg.norm(ours - theirs, axis=2).mean() * 1000)


def seen_by(joints: np.ndarray, camera: Camera) -> np.ndarray:
    return np.asarray((joints - np.asarray(camera.eye)) @ camera.view_axes.T)


@pytest.mark.parametrize(
    "activity, heading",
    [("walk", 1.2), ("wave", 0.3), ("sit_down", 0.8), ("fall", 1.5), ("pick_up", 5.5), ("kick", 1)],
)
def test_a_figure_moves_as_the_person_does(activity: str, heading: float) -> None:
    track, truth = filmed(activity, heading=heading)
    camera = camera_of(track)
    one = body.fit_figure(track, camera, rng(), rate_hz=HZ)
    assert (one.start, one.stop, len(one.posed.heads)) == (
        track.start,
        track.stop_frame,
        len(track),
    )
    assert np.isfinite(one.posed.turns).all() and np.isfinite(one.posed.heads).all()
    assert off_mm(seen_by(joints_of(one), camera), seen_by(truth, few.CAMERA)) < 75


def test_what_is_lifted_is_seen_where_the_finder_saw_it_and_keeps_its_bones() -> None:
    track, _ = filmed("walk", heading=1.2)
    rough = track.joints.copy()
    rough[..., :2] += rng().normal(0, 1.0, rough[..., :2].shape)
    track = replace(track, joints=rough)
    camera = camera_of(track)
    points = lift.lift_track(track, camera, rate_hz=HZ)
    pixels = points[..., :2] / points[..., 2:] * camera.focal_px
    pixels += [camera.width / 2, camera.height / 2]
    assert np.median(np.linalg.norm(pixels - lift.list_track_points(track)[0], axis=2)) < 2.0
    thigh = points[:, POINTS.index("left_knee")] - points[:, POINTS.index("left_hip")]
    long = np.linalg.norm(thigh, axis=1)
    assert np.ptp(long) < 0.04 * long.mean()


def test_a_long_track_is_lifted_in_parts_that_fit_together() -> None:
    track, _ = filmed("stand", seconds=14.0)
    points = lift.lift_track(track, camera_of(track), rate_hz=HZ)
    assert len(points) == 280
    assert np.abs(np.diff(points, axis=0)).max() < 0.05


def test_someone_who_turns_their_back_is_not_turned_round() -> None:
    track, _ = filmed("stand", heading=np.pi)
    one = body.fit_figure(track, camera_of(track), rng(), rate_hz=HZ)
    assert (one.posed.turns[:, 0] @ [0.0, -1.0, 0.0])[:, 1].min() > 0.8  # faces away


def test_a_camera_is_found_by_how_people_stand() -> None:
    track, _ = filmed("walk", heading=1.2)
    camera = camera_of(track)
    down = few.CAMERA.view_axes[2, 2]
    assert abs(np.degrees(np.arcsin(camera.view_axes[2, 2]) - np.arcsin(down))) < 4
    assert abs(camera.eye[2] - few.CAMERA.eye[2]) < 0.25
    assert camera_of(track, eye_m=2.5).eye[2] == 2.5
    assert camera_of().eye[2] == 1.5
    rolled = replace(few.CAMERA, roll_deg=20.0)
    person = few.someone(1)
    tilted = few.track_of(person, few.played("stand", person), camera=rolled)
    assert abs(camera_of(tilted).roll_deg - 20) < 4


def test_feet_that_stand_do_not_swim_and_are_on_the_floor() -> None:
    track, _ = filmed("walk", heading=1.2)
    one = body.fit_figure(track, camera_of(track), rng(), rate_hz=HZ)
    lowest = one.person.body.vertices[:, 2].min()
    high = bodies.BONES.index("foot.L"), bodies.BONES.index("foot.R")
    ankle = one.posed.heads[:, high]
    sole = one.person.body.heads[high[0], 2] - lowest
    speed = np.linalg.norm(np.diff(ankle, axis=0), axis=2) * HZ
    slow = speed.min(axis=1)
    assert np.mean(slow < 0.05) > 0.7  # nearly always one foot stands still
    down = ankle[..., 2].min(axis=1) - sole
    assert np.abs(down).max() < 0.08 and abs(np.median(down)) < 0.02


def test_who_is_cut_by_the_border_is_fitted_all_the_same() -> None:
    person = few.someone(1)
    near = Camera(eye=(0.0, -1.6, 1.6), target=(0, 0, 1.4), fov_deg=40.0, height=240, width=320)
    track = few.track_of(person, few.played("wave", person), camera=near)
    assert (track.joints[:, 27:33, 2] < 0.1).all()  # no feet
    (track,) = pose.mend_tracks([track], rate_hz=HZ)
    one = body.fit_figure(track, camera_of(track), rng(), rate_hz=HZ)
    camera = camera_of(track)
    seen = camera.project_points(joints_of(one))[:, JOINTS.index("nose"), :2]
    assert np.abs(seen - track.joints[:, 0, :2]).max() < 0.25 * few.CAMERA.height


def test_one_frame_is_enough() -> None:
    track, _ = filmed("wave")
    single = replace(
        track, joints=track.joints[:1], world=track.world[:1], is_seen=track.is_seen[:1]
    )
    (single,) = pose.mend_tracks([single], rate_hz=HZ, num_frames=1)
    for gait in ("own", "public"):
        one = body.fit_figure(single, camera_of(single), rng(), rate_hz=HZ, gait=gait)
        assert one.posed.heads.shape[0] == 1 and np.isfinite(one.posed.heads).all()


def test_two_draws_give_two_people_and_nothing_is_taken_from_the_person() -> None:
    track, _ = filmed("wave")
    other, _ = filmed("wave", stature_m=1.5)
    camera = camera_of(track)
    first, second = (body.fit_figure(track, camera, rng(seed), rate_hz=HZ) for seed in (0, 1))
    assert first.shape != second.shape and first.look != second.look
    same = body.fit_figure(other, camera_of(other), rng(0), rate_hz=HZ)
    assert same.shape == first.shape and same.look == first.look


def test_the_height_of_a_figure_does_not_follow_the_persons() -> None:
    """With a known camera the size of a figure is its own; without, it is drawn."""

    def pixels(one: StandIn, camera: Camera) -> float:
        joints = camera.project_points(joints_of(one))[..., 1]
        return float(np.median(np.ptp(joints, axis=1)))

    tall, small = (filmed("stand", stature_m=height)[0] for height in (1.85, 1.5))
    own = [np.median(np.ptp(each.joints[..., 1], axis=1)) for each in (tall, small)]
    assert own[0] > 1.18 * own[1]
    sizes = [
        pixels(
            body.fit_figure(each, camera_of(each, eye_m=1.6), rng(0), rate_hz=HZ),
            camera_of(each, eye_m=1.6),
        )
        for each in (tall, small)
    ]
    assert abs(sizes[0] / sizes[1] - 1) < 0.05
    camera = camera_of(tall)
    drawn = [pixels(body.fit_figure(tall, camera, rng(k), rate_hz=HZ), camera) for k in range(6)]
    assert np.std(drawn) / np.mean(drawn) > 0.02


def test_a_gait_that_there_is_not_is_refused() -> None:
    track, _ = filmed("wave")
    with pytest.raises(ValueError, match="gait"):
        body.fit_figure(track, camera_of(track), rng(), rate_hz=HZ, gait="fast")
