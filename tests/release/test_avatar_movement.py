"""Movement reaches the figure: what is quick stays quick, who stands is still, nobody is late."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("cv2")

import few_tracks as few
from masquerade.people.camera import Camera
from masquerade.release.avatar import pose
from masquerade.sight.person_tracks import Track
from masquerade.sight.pose_landmarks import JOINTS

SLOW_HZ = 10.0
WRIST = JOINTS.index("right_wrist")


def acted(activity: str, *, heading: float = 0.4, camera: Camera = few.CAMERA) -> Track:
    """Somebody who is filmed at ``SLOW_HZ``."""
    person = few.someone(1)
    posed = few.played(activity, person, seconds=3.0, heading=heading)
    track = few.track_of(person, posed, camera=camera)
    return Track(
        start=0, joints=track.joints[::2], world=track.world[::2], is_seen=track.is_seen[::2]
    )


def shaken(track: Track, *, seed: int = 0) -> Track:
    """The same as a finder sees it whose joints shake."""
    rng, size = np.random.default_rng(seed), float(np.ptp(track.joints[0, :, 1]))
    joints = track.joints.copy()
    joints[..., :2] += rng.normal(0, 0.004 * size, joints[..., :2].shape)
    return replace(track, joints=joints, world=track.world + rng.normal(0, 0.01, track.world.shape))


def shake_of(values: np.ndarray) -> float:
    return float(np.abs(np.diff(values, 2, axis=0)).mean())


@pytest.mark.parametrize("activity", ["jump", "punch", "clap"])
def test_what_is_quick_stays_quick_at_ten_frames_a_second(activity: str) -> None:
    track = acted(activity)
    (found,) = pose.mended([track], rate_hz=SLOW_HZ)
    truth, ours = (each.joints[:, WRIST, :2] for each in (track, found))
    moved = ((truth - truth.mean(axis=0)) ** 2).sum()
    assert ((ours - truth) ** 2).sum() < 0.05 * moved


def test_who_stands_is_still_though_the_finder_shakes() -> None:
    track = shaken(acted("wave"))
    (found,) = pose.mended([track], rate_hz=SLOW_HZ)
    legs = [
        JOINTS.index(f"{side}_{part}") for side in ("left", "right") for part in ("hip", "knee")
    ]
    assert shake_of(found.joints[:, legs, :2]) < 0.3 * shake_of(track.joints[:, legs, :2])
    assert shake_of(found.world[:, legs]) < 0.3 * shake_of(track.world[:, legs])
