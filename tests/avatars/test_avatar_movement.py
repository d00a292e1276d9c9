"""Movement reaches the figure: what is quick stays quick, who stands is still, nobody is late."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("cv2")

import few_tracks as few
from masquerade.avatars import body, lift, pose
from masquerade.stage.bodies import BONES
from masquerade.stage.raster import Camera
from masquerade.vision.poses import JOINTS
from masquerade.vision.tracks import PersonTrack

SLOW_HZ = 10.0
WRIST = JOINTS.index("right_wrist")


def acted(activity: str, *, heading: float = 0.4, camera: Camera = few.CAMERA) -> PersonTrack:
    """Somebody who is filmed at ``SLOW_HZ``."""
    person = few.someone(1)
    posed = few.played(activity, person, seconds=3.0, heading=heading)
    track = few.track_of(person, posed, camera=camera)
    return PersonTrack(
        start=0, joints=track.joints[::2], world=track.world[::2], is_seen=track.is_seen[::2]
    )


def shaken(track: PersonTrack, *, seed: int = 0) -> PersonTrack:
    """The same as a finder sees it whose joints shake."""
    rng, size = np.random.default_rng(seed), float(np.ptp(track.joints[0, :, 1]))
    joints = track.joints.copy()
    joints[..., :2] += rng.normal(0, 0.004 * size, joints[..., :2].shape)
    return replace(track, joints=joints, world=track.world + rng.normal(0, 0.01, track.world.shape))


def above_soles(track: PersonTrack) -> PersonTrack:
    """The same as finders see feet: heels and toes in the foot and not under it."""
    joints, world = track.joints.copy(), track.world.copy()
    for side in ("left", "right"):
        ankle = JOINTS.index(f"{side}_ankle")
        for part in ("heel", "foot_index"):
            at = JOINTS.index(f"{side}_{part}")
            joints[:, at, :2] += 0.5 * (joints[:, ankle, :2] - joints[:, at, :2])
            world[:, at] += 0.5 * (world[:, ankle] - world[:, at])
    return replace(track, joints=joints, world=world)


def shake_of(values: np.ndarray) -> float:
    return float(np.abs(np.diff(values, 2, axis=0)).mean())


@pytest.mark.parametrize("activity", ["jump", "punch", "clap"])
def test_what_is_quick_stays_quick_at_ten_frames_a_second(activity: str) -> None:
    track = acted(activity)
    (found,) = pose.mend_tracks([track], rate_hz=SLOW_HZ)
    truth, ours = (each.joints[:, WRIST, :2] for each in (track, found))
    moved = ((truth - truth.mean(axis=0)) ** 2).sum()
    assert ((ours - truth) ** 2).sum() < 0.05 * moved


def test_who_stands_is_still_though_the_finder_shakes() -> None:
    track = shaken(acted("wave"))
    (found,) = pose.mend_tracks([track], rate_hz=SLOW_HZ)
    legs = [
        JOINTS.index(f"{side}_{part}") for side in ("left", "right") for part in ("hip", "knee")
    ]
    assert shake_of(found.joints[:, legs, :2]) < 0.3 * shake_of(track.joints[:, legs, :2])
    assert shake_of(found.world[:, legs]) < 0.3 * shake_of(track.world[:, legs])


def knees_of(track: PersonTrack) -> np.ndarray:
    """(T, 2) degrees by which the figure's knees are bent."""
    size = {"height": few.CAMERA.height, "width": few.CAMERA.width}
    camera = lift.estimate_camera([track], rate_hz=SLOW_HZ, fov_deg=few.CAMERA.fov_deg, **size)
    one = body.fit_figure(track, camera, np.random.default_rng(3), rate_hz=SLOW_HZ)
    turns = one.posed.turns.astype(float)
    bends = []
    for letter in "LR":
        upper, lower = (
            turns[:, BONES.index(f"{b}.{letter}")] for b in ("upperleg01", "lowerleg01")
        )
        between = np.swapaxes(upper, 1, 2) @ lower
        bends.append(np.arccos(np.clip((np.trace(between, axis1=1, axis2=2) - 1) / 2, -1, 1)))
    return np.degrees(np.stack(bends, axis=1))


def test_who_stands_has_straight_knees_and_who_sits_has_not() -> None:
    (stands,) = pose.mend_tracks([above_soles(shaken(acted("wave")))], rate_hz=SLOW_HZ)
    (sits,) = pose.mend_tracks(
        [above_soles(shaken(acted("sit_down", heading=1.2)))], rate_hz=SLOW_HZ
    )
    assert knees_of(stands).mean() < 10
    assert knees_of(sits)[-5:].mean() > 50


def test_who_lies_along_the_view_is_somebody() -> None:
    near = replace(few.CAMERA, eye=(0.0, -3.0, 1.6), fov_deg=60.0)
    for heading in (0.0, np.pi):
        track = acted("fall", heading=heading, camera=near)
        assert len(pose.mend_tracks([track], rate_hz=SLOW_HZ)) == 1
