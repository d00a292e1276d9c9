"""Avatars with bodies of a user's SMPL file: everything else is as it is with our own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("cv2")

from test_avatar_body import HZ, camera_of, filmed, off_mm, rng, seen_by
from test_avatar_film import crossing, masks_of, studied, world  # noqa: F401

import few_smpl
import few_tracks as few
from masquerade.avatars import body, render
from masquerade.avatars.avatar import Avatar
from masquerade.errors import BadInput
from masquerade.noise import Noise
from masquerade.stage import figure, smpl
from masquerade.stage.bodies import BONES
from masquerade.stage.takes import StagedFilm


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return few_smpl.file(tmp_path_factory.mktemp("smpl"))


@pytest.mark.parametrize(("activity", "heading"), [("walk", 1.2), ("wave", 0.3), ("sit_down", 0.8)])
def test_a_figure_of_a_users_model_does_what_the_person_does(
    file: Path, activity: str, heading: float
) -> None:
    track, truth = filmed(activity, heading=heading)
    camera, model = camera_of(track), smpl.load_smpl(file)
    for gait in ("own", "public"):
        one = body.fit_figure(track, camera, rng(), rate_hz=HZ, gait=gait, model=model)
        joints = figure.compute_world_joints(model, one.person, one.posed)
        assert gait == "public" or off_mm(seen_by(joints, camera), seen_by(truth, few.CAMERA)) < 75
        vertices, _ = figure.compute_skin(model, one.person, one.posed)
        lowest = vertices[..., 2].min(axis=1)
        assert abs(np.median(lowest)) < 0.03 and lowest.min() > -0.12
    assert np.ptp(one.person.body.vertices[:, 2]) == pytest.approx(one.shape.stature_m, abs=0.05)


def test_elbows_of_a_straight_arm_bend_forward(file: Path) -> None:
    """In a T-pose an arm does not say which way it bends; the palm looks down there."""
    track, _ = filmed("stand")
    one = body.fit_figure(track, camera_of(track), rng(), rate_hz=HZ, model=smpl.load_smpl(file))
    for letter, inward in (("L", -1.0), ("R", 1.0)):
        turn = one.posed.turns[:, BONES.index(f"wrist.{letter}")]
        chest = one.posed.turns[:, BONES.index("spine01")]
        palm = np.einsum("tji,tj->ti", chest, turn @ np.array([0.0, 0.0, -1.0]))
        assert inward * np.median(palm[:, 0]) > 0.6, "palms of hanging arms look at the thighs"


def test_who_a_figure_is_owes_nothing_to_the_person(file: Path) -> None:
    model = smpl.load_smpl(file)
    tracks = [filmed("stand", stature_m=height)[0] for height in (1.85, 1.5)]
    same = [body.fit_figure(one, camera_of(one), rng(0), rate_hz=HZ, model=model) for one in tracks]
    other = body.fit_figure(tracks[0], camera_of(tracks[0]), rng(1), rate_hz=HZ, model=model)
    assert same[0].shape == same[1].shape and same[0].look == same[1].look
    assert np.array_equal(same[0].person.body.vertices, same[1].person.body.vertices)
    assert same[0].shape.betas != other.shape.betas


def test_figures_of_two_models_are_drawn_together_and_refined(file: Path) -> None:
    track, _ = filmed("wave")
    camera = camera_of(track)
    both = [
        body.fit_figure(track, camera, rng(0), rate_hz=HZ, model=model)
        for model in (smpl.load_smpl(file), None)
    ]
    place = np.full((camera.height, camera.width, 3), 90, np.uint8)
    alone = [render.render_figures([one], 5, place, camera=camera, light=few.LIGHT) for one in both]
    whole = render.render_figures(both, 5, place, camera=camera, light=few.LIGHT)
    assert ((whole.alpha > 0) == ((alone[0].alpha > 0) | (alone[1].alpha > 0))).all()
    assert set(np.unique(whole.owner)) == {-1, 0, 1}
    joints = figure.compute_world_joints(both[0].person.model, both[0].person, both[0].posed)
    assert np.isfinite(render.make_tubelet(camera.project_points(joints), place.shape[:2])).all()


def test_a_film_is_released_with_a_users_bodies(crossing: StagedFilm, file: Path) -> None:  # noqa: F811
    frames, true = crossing.frames[:6], crossing.owner[:6] >= 0
    study, out = studied(Avatar(body_model=str(file)), frames)
    other, _ = studied(Avatar(), frames)
    with closing(study), closing(other):
        masks, usual = (masks_of(each, frames.shape) for each in (study, other))
    assert np.array_equal(masks["q"], usual["q"]), "who is taken out does not depend on who comes"
    assert (true & ~masks["q"]).sum() < 0.005 * true.sum()
    touched = masks["q"] | masks["r"]
    assert np.array_equal(out[~touched], frames[~touched])
    assert masks["eroded_r"].any() and not (masks["eroded_r"] & ~masks["r"]).any()
    assert 0.4 < masks["r"].sum() / usual["r"].sum() < 2.5


def test_a_file_that_cannot_be_used_is_refused_before_a_frame_is_read(tmp_path: Path) -> None:
    def frames() -> Iterator[np.ndarray]:
        pytest.fail("a frame was read")
        yield np.zeros((8, 8, 3), np.uint8)

    for name in ("none.npz", "model.pkl"):
        avatar = Avatar(body_model=str(tmp_path / name))
        with pytest.raises(BadInput, match=name):
            avatar.first_pass(frames(), (2, 64, 64, 3), rate_hz=25.0, noise=Noise(seed=1))


def test_a_receipt_names_the_file_without_its_folder() -> None:
    assert Avatar(body_model="/home/me/models/ada.npz").encode_fields()["body_model"] == "ada.npz"
