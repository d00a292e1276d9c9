"""Stage from near by: a camera's angle is part of a world, and its faces can be found."""

from __future__ import annotations

import numpy as np
import pytest
from test_stage import tiny

from masquerade.datasets.stage import PRESETS, Stage
from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.stage import bodies, plan, store
from masquerade.stage.takes import StagedFilm

FACE = [bodies.JOINTS.index(name) for name in ("nose", "left_eye", "right_eye")]
TOWARDS = 0.1  # between the eyes, of the head's height: a profile has less
KEPT = {kind: store.FIELDS[kind] for kind in store.FIELDS}


def test_the_usual_angle_is_no_part_of_a_name_and_another_is_of_videos_only() -> None:
    usual, near = tiny().world, tiny(angle_share=0.5).world
    assert tiny(angle_share=plan.USUAL_ANGLE).world == usual
    differ = {kind for kind in KEPT if _name(near, kind) != _name(usual, kind)}
    assert differ == {"videos"}
    assert _name(tiny(angle_share=0.4).world, "videos") != _name(near, "videos")


def test_a_smaller_angle_shows_the_same_take_from_nearer() -> None:
    usual, near = tiny().make_staged_film(0), tiny(angle_share=0.36).make_staged_film(0)
    assert np.array_equal(near.joints_3d, usual.joints_3d)  # nothing else is drawn by chance
    tall = [film.head_box[0, :, 3].mean() for film in (usual, near)]
    assert 1.9 < tall[1] / tall[0] < 2.3  # half the angle


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, float("nan")])
def test_an_angle_that_is_no_share_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="Expected angle_share above 0 and up to 1"):
        Stage(angle_share=share)


def test_the_preset_for_faces_is_balanced_and_nearer() -> None:
    world = PRESETS["faces"]
    assert world.angle_share < plan.USUAL_ANGLE and world.height == world.width == 320
    assert all(len(plan.list_split_members(split, world.videos)) % 12 == 0 for split in plan.SPLITS)


@pytest.mark.slow
def test_a_detector_finds_the_faces_of_the_preset_for_faces() -> None:
    from masquerade.mechanisms.face_blur import FaceBlur

    try:
        downloads.fetch_asset("centerface")
    except (OSError, BadInput) as error:
        pytest.skip(f"the detector cannot be had: {error}")
    detect = FaceBlur()._load_detector()
    stage, found = Stage(preset="faces"), list[bool]()
    for index in range(0, len(stage), 5):  # all activities
        film = stage.make_staged_film(index)
        for time in (0, 5, 10, 15):
            found += _is_found(film, time, detect(film.frames[time]))
    assert len(found) > 80 and np.mean(found) >= 0.9, (len(found), np.mean(found))


def _is_found(film: StagedFilm, time: int, boxes: np.ndarray) -> list[bool]:
    """For each person who looks here with nose and eyes visible: whether a box holds the nose."""
    left, right = (film.joints[:, time, eye] for eye in FACE[1:])
    apart = np.linalg.norm(left - right, axis=-1) / film.head_box[:, time, 3]
    seen = film.visible[:, time, FACE].all(axis=-1) & (apart >= TOWARDS)
    noses = film.joints[seen, time, FACE[0]][:, None]  # (people, 1, 2)
    held = (noses >= boxes[:, :2]) & (noses <= boxes[:, 2:4])
    return held.all(axis=-1).any(axis=-1).tolist()


def _name(world: plan.WorldPlan, kind: str) -> str:
    return world.compute_fingerprint(kind, KEPT[kind])
