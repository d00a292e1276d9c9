"""A public walk keeps path and phase, hides whose walk it is, and leaves all else alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("cv2")

import few_tracks as few
from masquerade.avatars import body, lift, pose
from masquerade.stage.act import MotionStyle
from masquerade.stage.skeleton import POINTS
from masquerade.vision.tracks import PersonTrack

HZ = few.RATE_HZ
CAMERA = replace(few.CAMERA, eye=(0.0, -7.0, 1.8), fov_deg=50.0)
STYLES = (
    MotionStyle(tempo=0.85, amplitude=0.85, asymmetry=-0.14, stoop=0.2, swing=0.5, bounce=0.7),
    MotionStyle(tempo=1.15, amplitude=1.15, asymmetry=0.14, stoop=0.0, swing=1.5, bounce=1.3),
)


def walker(style: MotionStyle, activity: str = "walk") -> PersonTrack:
    person = few.someone(1)
    posed = few.played(activity, person, seconds=3.0, heading=np.pi / 2, style=style)
    (track,) = pose.mend_tracks([few.track_of(person, posed, camera=CAMERA)], rate_hz=HZ)
    return track


def points_of(track: PersonTrack) -> tuple[np.ndarray, np.ndarray]:
    size = {"height": CAMERA.height, "width": CAMERA.width}
    camera = lift.estimate_camera([track], rate_hz=HZ, fov_deg=CAMERA.fov_deg, **size)
    points = lift.lift_track(track, camera, rate_hz=HZ)
    stands = lift.find_standing_feet(track, points, rate_hz=HZ)
    return body.move_to_floor(points, stands, camera), stands


def way(points: np.ndarray, one: str, other: str) -> np.ndarray:
    return np.asarray(points[:, POINTS.index(one)] - points[:, POINTS.index(other)])


def swings(points: np.ndarray) -> np.ndarray:
    """How far arms and trunk go: what differs between people."""
    across = (way(points, f"{s}_wrist", f"{s}_shoulder")[4:-4] for s in ("left", "right"))
    lean = way(points, "left_shoulder", "left_hip")[:, 0].mean()
    return np.array([*(each[:, 0].std() for each in across), lean])


def beat(points: np.ndarray) -> float:
    """Strides a second."""
    ahead = way(points, "left_ankle", "right_ankle")[:, 0]
    turns = np.flatnonzero(np.diff(np.sign(ahead)))
    return float((len(turns) - 1) / 2 / (turns[-1] - turns[0]) * HZ)


def test_path_and_phase_are_kept_and_manner_is_not() -> None:
    own = [points_of(walker(style)) for style in STYLES]
    public = [body.make_gait_public(*each, rate_hz=HZ) for each in own]
    uniform = [body.make_gait_public(*each, rate_hz=HZ, is_uniform=True) for each in own]
    beats = [[beat(each) for each, _ in both] for both in (public, uniform)]
    assert abs(np.subtract(*beats[0])) > 0.15 > 0.05 > abs(np.subtract(*beats[1]))
    for (before, _), (after, _) in zip(own, public, strict=True):
        hips = [each[:, POINTS.index("left_hip"), :2] for each in (before, after)]
        assert np.linalg.norm(hips[0] - hips[1], axis=1).mean() < 0.12
        feet = [way(each, "left_ankle", "right_ankle")[:, 0] for each in (before, after)]
        assert np.corrcoef(*feet)[0, 1] > 0.85
    apart = [
        np.abs(swings(pair[0]) - swings(pair[1])).max()
        for pair in ([each for each, _ in own], [each for each, _ in public])
    ]
    assert apart[0] > 0.1 and apart[1] < 0.4 * apart[0]


def test_who_does_not_walk_moves_as_before() -> None:
    for activity in ("wave", "sit_down"):
        points, stands = points_of(walker(MotionStyle(), activity))
        after, still = body.make_gait_public(points, stands, rate_hz=HZ)
        assert np.array_equal(points, after) and np.array_equal(stands, still)


def test_a_figure_with_a_public_walk_stands_on_its_feet() -> None:
    track = walker(STYLES[1])
    size = {"height": CAMERA.height, "width": CAMERA.width}
    camera = lift.estimate_camera([track], rate_hz=HZ, fov_deg=CAMERA.fov_deg, **size)
    rng = np.random.default_rng(0)
    one = body.fit_figure(track, camera, rng, rate_hz=HZ, gait="public")
    assert np.isfinite(one.posed.heads).all()
    feet = one.posed.heads[:, [few.BONES.index("foot.L"), few.BONES.index("foot.R")]]
    speed = np.linalg.norm(np.diff(feet, axis=0), axis=2) * HZ
    assert np.mean(speed.min(axis=1) < 0.1) > 0.6
