"""Which of two findings is which person."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from masquerade.vision.poses import (
    NUM_JOINTS,
    PersonPose,
    SeenPose,
    add_new_people,
    compute_pixel_overlap,
    drop_twin_poses,
    is_same,
)


def found(
    left: float = 100.0, *, scale: float = 1.0, wide: int = 60, trust: float = 0.9
) -> PersonPose:
    """A body that stands in the middle of its square, whose corner lies at ``left``, 50."""
    likely = np.zeros((256, 256), np.float32)
    likely[30:230, 128 - wide // 2 : 128 + wide // 2] = 0.9
    joints = np.full((NUM_JOINTS, 4), trust)
    joints[:, 0] = left + scale * 128
    joints[:, 1] = 50 + scale * np.linspace(30, 230, NUM_JOINTS)
    way = np.array([[scale, 0.0, left], [0.0, scale, 50.0]])
    world = np.zeros((NUM_JOINTS, 3))
    return PersonPose(joints=joints, world=world, score=0.9, likely=likely, to_frame=way)


def bent(pose: PersonPose) -> PersonPose:
    """The same pixels taken for somebody half as large who stands on the head."""
    joints = pose.joints.copy()
    top, bottom = joints[:, 1].min(), joints[:, 1].max()
    joints[:, 1] = top + (bottom - joints[:, 1]) / 2
    return replace(pose, joints=joints)


def test_pixels_that_two_findings_share_are_counted_wherever_their_squares_lie() -> None:
    one = found()
    assert compute_pixel_overlap(one, one) == pytest.approx(1.0)
    assert compute_pixel_overlap(one, found(300.0)) == 0
    halfway = found(130.0)  # 60 wide, 30 apart: 30 of 90 columns
    assert compute_pixel_overlap(one, halfway) == pytest.approx(1 / 3, abs=0.02)
    larger = replace(found(scale=2.0), to_frame=np.array([[2.0, 0, -28.0], [0, 2.0, -78.0]]))
    assert compute_pixel_overlap(one, larger) == pytest.approx(1 / 4, abs=0.02)
    assert compute_pixel_overlap(larger, one) == pytest.approx(1 / 4, abs=0.02)


def test_who_seems_to_stand_on_the_head_in_the_same_pixels_is_no_second_person() -> None:
    one, other = found(), bent(found(101.0))
    assert np.linalg.norm(one.hip_centre - other.hip_centre) > 0.15 * one.box_side_px
    assert is_same(one, other) and not is_same(one, bent(found(180.0)))
    square = np.zeros((2, 3))
    known, new = SeenPose(pose=one, square=square), SeenPose(pose=other, square=square)
    assert add_new_people([known], [new]) == [known]
    doubtful = SeenPose(pose=bent(found(trust=0.5)), square=square)
    assert drop_twin_poses([doubtful, known]) == [known]


def test_poses_without_pixels_share_none() -> None:
    light = replace(found(), likely=np.zeros((0, 0), np.float32))
    assert compute_pixel_overlap(light, found()) == 0 == compute_pixel_overlap(found(), light)
