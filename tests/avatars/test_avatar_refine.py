"""Figures are refined in sets of frames that overlap, and only inside of what was drawn."""

from __future__ import annotations

import shutil
import sys
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("cv2")

import few_tracks as few
import tiny_diffusion as tiny
from masquerade.avatars import diffusion, render
from masquerade.avatars.avatar import Avatar
from masquerade.avatars.body import StandIn
from masquerade.avatars.diffusion import average_sets, compute_frame_shares, list_frame_sets
from masquerade.avatars.segment import merge_avatars
from masquerade.errors import BadInput, MissingExtra
from masquerade.joints import JOINTS
from masquerade.noise import Noise
from masquerade.stage.bodies import BodyShape
from masquerade.stage.look import sample_appearance

CAMERA = replace(few.CAMERA, height=120, width=160)
PLACE = np.random.default_rng(0).integers(0, 256, (120, 160, 3), np.uint8)
COUNTS = [1, 2, 7, 15, 16, 17, 32, 33, 100, 257]


def made(*, seconds: float = 0.3, start: int = 0, at: tuple[float, float] = (0, 0)) -> StandIn:
    person = few.someone(1)
    posed = few.played("walk", person, seconds=seconds, at=at)
    return StandIn(
        start=start,
        stop=start + len(posed.heads),
        shape=BodyShape(),
        look=sample_appearance(is_feminine=True, age=0.2, rng=np.random.default_rng(1)),
        person=person,
        posed=posed,
        trust=np.ones(len(posed.heads)),
    )


def drawn(figures: list[StandIn], number: int, place: np.ndarray = PLACE) -> render.RenderedFrame:
    return render.render_figures(
        figures, number, place, camera=CAMERA, light=few.LIGHT, shadow=True
    )


# Sets of frames.


@pytest.mark.parametrize("count", COUNTS)
def test_every_frame_is_in_a_set_of_each_stride_and_no_set_is_too_long(count: int) -> None:
    sets = list_frame_sets(count, length=16)
    for one in sets:
        assert 1 <= len(one) <= 16 and one.min() >= 0 and one.max() < count
        assert len(set(np.diff(one).tolist())) <= 1
    used = {int(one[1] - one[0]) for one in sets if len(one) > 1}
    assert used == {stride for stride in (1, 2, 4) if count > 16 * stride // 2 or stride == 1} - (
        {1} if count == 1 else set()
    )
    for stride in used:
        of_it = [one for one in sets if len(one) > 1 and one[1] - one[0] == stride]
        assert set(np.concatenate(of_it).tolist()) == set(range(count))


@pytest.mark.parametrize("count", COUNTS)
def test_what_sets_say_of_a_frame_counts_for_one_in_all(count: int) -> None:
    sets = list_frame_sets(count, length=16)
    total = np.zeros(count)
    for one, share in zip(sets, compute_frame_shares(sets, count), strict=True):
        assert (share > 0).all()
        total[one] += share
    assert np.allclose(total, 1)


def test_sets_that_agree_give_what_they_say_and_others_a_mean_between() -> None:
    film = np.random.default_rng(1).normal(size=(50, 2, 3)).astype(np.float32)
    sets = list_frame_sets(50, length=8)
    same = average_sets((film[one] for one in sets), sets, 50)
    assert same.dtype == np.float32 and np.allclose(same, film, atol=1e-6)
    mixed = average_sets((np.full((len(one), 1), at) for at, one in enumerate(sets)), sets, 50)
    for number, value in enumerate(mixed[:, 0]):
        of_it = [at for at, one in enumerate(sets) if number in one]
        assert min(of_it) < value < max(of_it)


def test_neighbours_share_sets_so_that_no_seam_is_seen() -> None:
    sets = [set(one.tolist()) for one in list_frame_sets(200, length=16)]
    assert all(any({a, b} <= one for one in sets) for a, b in pairwise(range(200)))


def test_sets_are_refused_that_leave_a_frame_out() -> None:
    with pytest.raises(ValueError, match="in none"):
        compute_frame_shares([np.array([0, 1])], 3)
    with pytest.raises(ValueError, match="begin with 1"):
        list_frame_sets(9, length=4, strides=(2, 4))
    with pytest.raises(ValueError, match="count"):
        list_frame_sets(0, length=4)


# Crops and what guides them.


def test_a_crop_moves_smoothly_and_holds_all_joints() -> None:
    rng = np.random.default_rng(2)
    way = np.cumsum(rng.normal(0, 6, (80, 1, 2)), axis=0) + 400
    seen = np.concatenate([way + rng.normal(0, 60, (80, 17, 2)), np.full((80, 17, 1), 4.0)], axis=2)
    boxes = render.make_tubelet(seen, (800, 800))
    low, high = boxes[:, None, :2], boxes[:, None, :2] + boxes[:, None, 2:]
    assert ((seen[..., :2] > low) & (seen[..., :2] < high)).all()
    tight = np.abs(np.diff(np.ptp(seen[..., :2], axis=1).max(axis=1))).mean()
    assert np.abs(np.diff(boxes[:, 2])).mean() < 0.3 * tight


def test_a_crop_exists_of_somebody_behind_the_camera_or_seen_for_one_frame() -> None:
    seen = np.full((1, len(JOINTS), 3), (50.0, 60.0, -1.0))
    assert np.isfinite(render.make_tubelet(seen, (100, 200))).all()
    seen[..., :] = 1e7, -1e7, 3.0
    left, top, side = render.make_tubelet(seen, (100, 200))[0]
    assert np.abs([left, top]).max() < 500 and side >= 32


def test_a_face_is_drawn_unless_it_is_turned_away() -> None:
    joints = np.full((len(JOINTS), 3), (32.0, 32.0, 4.0))
    ears = [JOINTS.index("left_ear"), JOINTS.index("right_ear")]
    joints[ears, 2] = 4.1
    assert all(picture.any() for picture in render.render_guides(joints, 64))
    joints[ears, 2] = 3.9
    pose, face = render.render_guides(joints, 64)
    assert pose.any() and not face.any()


class Fixed:
    """Answers in one colour, and keeps what it was shown."""

    side = 64

    def __init__(self) -> None:
        self.shown: list[diffusion.FigureCrop] = []

    def refine_figure(self, count: int, look: diffusion.Look, rng: object) -> list[np.ndarray]:
        self.shown = [look(number) for number in range(count)]
        return [np.full((64, 64, 3), (250, 0, 250), np.uint8)] * count


def refined(nets: object, figures: list[StandIn]) -> render.RefinedFigures:
    rng = np.random.default_rng(3)
    return render.RefinedFigures(nets, figures, camera=CAMERA, light=few.LIGHT, rng=rng)  # type: ignore[arg-type]


def test_nothing_changes_but_pixels_that_are_wholly_a_figures() -> None:
    one, other = made(), made(start=1, at=(0.4, 0.6))
    with closing(refined(Fixed(), [one, other])) as found:
        before = drawn([one, other], 2)
        after = found.draw_over(before, 2)
        is_new = (after.image != before.image).any(axis=2)
        assert not is_new[before.alpha < 1].any() and not is_new[before.owner < 0].any()
        assert (after.image[is_new] == (250, 0, 250)).all()
        assert is_new.sum() > 0.95 * ((before.alpha == 1) & (before.owner >= 0)).sum()
        done = merge_avatars(PLACE, after.image, after.alpha, blend_px=1)
        old = merge_avatars(PLACE, before.image, before.alpha, blend_px=1)
        assert np.array_equal(done.eroded_r, old.eroded_r) and np.array_equal(done.r, old.r)
        assert np.array_equal(done.image[~done.r], PLACE[~done.r])
        nobody = drawn([one, other], 99)
        assert np.array_equal(found.draw_over(nobody, 99).image, PLACE)


def test_networks_are_shown_the_figure_before_grey_with_depth_pose_and_face() -> None:
    nets = Fixed()
    refined(nets, [made()]).close()
    assert len(nets.shown) == 6
    for crop in nets.shown:
        assert (crop.image[:2] == 127).all(), "no place is behind the figure"
        is_figure = (crop.image != 127).any(axis=2)
        depth, pose, _ = crop.controls
        assert 0.03 < is_figure.mean() < 0.7
        assert ((depth[..., 0] > 0) == is_figure).mean() > 0.97
        lines = pose.any(axis=2)
        assert lines.any() and is_figure[lines].mean() > 0.8


# The folder, and all of it.


def test_a_folder_that_lacks_a_part_is_refused_and_the_part_is_named(tmp_path: Path) -> None:
    for part in ("base/unet", "base/vae", "base/text_encoder", "motion", "depth", "pose"):
        (tmp_path / part).mkdir(parents=True)
        (tmp_path / part / "config.json").write_text("{}")
    (tmp_path / "base/scheduler").mkdir()
    (tmp_path / "base/scheduler/scheduler_config.json").write_text("{}")
    with pytest.raises(BadInput, match=r"missing there: face, base/tokenizer\."):
        diffusion.FigureDiffusion(tmp_path)
    with pytest.raises(BadInput, match="missing there: base/unet"):
        avatar = Avatar(refine=str(tmp_path / "none"))
        avatar.first_pass(iter([]), (2, 64, 64, 3), rate_hz=25.0, noise=Noise(seed=1))


def test_without_diffusers_the_line_that_installs_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diffusion, "_check_parts", lambda folder: None)
    monkeypatch.setattr(diffusion, "torch", SimpleNamespace(__version__="2"))
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(MissingExtra, match=r"masquerade\[refine\]"):
        diffusion.FigureDiffusion(tmp_path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for name in ("torch", "diffusers", "transformers"):
        pytest.importorskip(name, reason=f"{name} is not installed: masquerade[refine]")
    return tiny.built(tmp_path_factory.mktemp("nets"))


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.05, 0.3, 1.0])
def test_a_tiny_random_pipeline_refines_figures_of_any_length(
    folder: Path, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diffusion, "_STEPS", 4)
    one = made(seconds=seconds)
    nets = diffusion.FigureDiffusion(folder)
    assert nets.side == 32
    with closing(refined(nets, [one])) as found, closing(refined(nets, [one])) as again:
        for number in (0, one.stop - 1):
            before, after = drawn([one], number), found.draw_over(drawn([one], number), number)
            is_new = (after.image != before.image).any(axis=2)
            assert is_new.any() and (before.alpha[is_new] == 1).all()
            assert (
                np.abs(again.draw_over(before, number).image.astype(int) - after.image).max() <= 1
            )
            other = found.draw_over(drawn([one], number, 255 - PLACE), number)
            assert np.array_equal(other.image[is_new], after.image[is_new]), "the place is not seen"


@pytest.mark.slow
def test_weights_that_cannot_be_read_are_named(folder: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(folder, tmp_path / "nets")
    next((broken / "pose").glob("*.safetensors")).write_bytes(b"none")
    with pytest.raises(BadInput, match="part pose that diffusers can read"):
        diffusion.FigureDiffusion(broken)
    next((broken / "pose").glob("*.safetensors")).unlink()
    with pytest.raises(BadInput, match="part pose that diffusers can read"):
        diffusion.FigureDiffusion(broken)
