"""People leave a film, avatars come: each step where truth is known, then all of them on Stage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import ndimage

from few_avatars import masks_of, staged, studied
from masquerade.avatars import inpaint, segment
from masquerade.avatars.avatar import Avatar
from masquerade.avatars.inpaint import fill_holes
from masquerade.avatars.plates import BackgroundPlates, FrameAligner
from masquerade.avatars.scene import FilmedScene
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput, NotHidden
from masquerade.guarantee import GuaranteeKind
from masquerade.io.streams import MaskSpool, Spool
from masquerade.noise import Noise
from masquerade.stage.takes import StagedFilm

SIZE = (96, 128)


def ground(height: int = 96, width: int = 128, seed: int = 0) -> np.ndarray:
    rough = np.random.default_rng(seed).normal(size=(height, width, 3))
    smooth = ndimage.gaussian_filter(rough, (3, 3, 0)) * 12
    return np.clip(128 + 40 * smooth, 0, 255).astype(np.uint8)


def walking(place: np.ndarray, count: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """A red block that walks through a place, and where it is."""
    frames = np.repeat(place[None], count, axis=0)
    masks = np.zeros(frames.shape[:3], bool)
    for number, mask in enumerate(masks):
        mask[30:70, 8 * number + 4 : 8 * number + 18] = True
    frames[masks] = (200, 20, 20)
    return frames, masks


def box(top: int, bottom: int, left: int, right: int, size: tuple[int, int] = SIZE) -> np.ndarray:
    mask = np.zeros(size, bool)
    mask[top:bottom, left:right] = True
    return mask


def spooled(masks: np.ndarray) -> MaskSpool:
    held = MaskSpool(*masks.shape[1:])
    for mask in masks:
        held.add_mask(mask)
    return held


# Masks.


def test_masks_wait_on_disk_and_come_back_as_they_were() -> None:
    masks = np.random.default_rng(0).random((5, 7, 13)) < 0.5
    with closing(spooled(masks)) as held:
        held.replace_mask(2, masks[4])
        assert len(held) == 5 and np.array_equal(held[1], masks[1])
        assert np.array_equal(held[2], masks[4])
        with pytest.raises(ValueError, match="Expected a mask of"):
            held.add_mask(masks[0].astype(np.uint8))
    with Spool() as pieces, pytest.raises(IndexError):
        pieces[0]


def test_a_pixel_that_is_a_persons_before_and_after_is_a_persons() -> None:
    masks = np.zeros((9, 4, 4), bool)
    masks[[1, 2, 5, 6], 1, 1] = True
    with closing(spooled(masks)) as held:
        found = [segment.steady_mask(held, number, reach=3)[1, 1] for number in range(9)]
        assert found == [True] * 8 + [False]
        assert not any(segment.steady_mask(held, number, reach=3)[0, 0] for number in range(9))


@pytest.mark.parametrize("blend", [0, 1, 3])
def test_a_mask_is_soft_only_outside_of_what_it_grew_to(blend: int) -> None:
    mask = box(40, 50, 60, 70)
    soft = segment.make_soft_edge(mask, grow_px=2, blend_px=blend)
    assert (soft.alpha[segment.grow_mask(mask, 2)] == 1).all()
    assert np.array_equal(soft.q, segment.grow_mask(mask, 2 + 2 * blend))
    assert (soft.alpha[~soft.q] == 0).all() and (soft.alpha >= 0).all()


def test_what_differs_from_the_place_and_touches_somebody_is_theirs() -> None:
    place = ground()
    frame = place.copy()
    leg, bird = box(60, 80, 40, 48), box(5, 15, 100, 110)
    frame[leg | bird] = (250, 10, 10)
    found = segment.find_touching_changes(
        box(30, 60, 38, 50), frame, place, np.full(SIZE, 9, np.uint8), by_px=1
    )
    assert found[61:79, 41:47].all() and not found[bird].any()
    unknown = segment.find_touching_changes(
        box(30, 60, 38, 50), frame, place, np.zeros(SIZE), by_px=1
    )
    assert not unknown.any(), "the place is not known"


# The place behind.


def emptied(frames: np.ndarray, masks: np.ndarray) -> np.ndarray:
    aligner, plates, placed = FrameAligner(), BackgroundPlates(*masks.shape[1:]), []
    for frame, mask in zip(frames, masks, strict=True):
        placed.append(aligner.place_frame(frame, mask))
        plates.add_view(frame, mask, placed[-1])
    plates.finish_plates()
    with closing(plates):
        soft = [segment.make_soft_edge(mask, grow_px=1, blend_px=1) for mask in masks]
        places = [plates.view_place(at)[0].copy() for at in placed]
        return np.stack(list(map(inpaint.remove_people, frames, places, soft)))


def test_behind_somebody_stands_what_other_frames_saw() -> None:
    place = ground()
    frames, masks = walking(place)
    out = emptied(frames, masks)
    assert np.abs(out.astype(int) - place).max() <= 3
    grown = np.stack([segment.grow_mask(mask, 3) for mask in masks])
    assert np.array_equal(out[~grown], frames[~grown])


def test_light_that_changes_over_the_film_is_taken_along() -> None:
    place = ground()
    frames, masks = walking(place)
    bright = frames.astype(int) + 2 * np.arange(len(frames))[:, None, None, None]
    out = emptied(bright.clip(0, 255).astype(np.uint8), masks)
    wanted = place + 2 * np.arange(len(frames))[:, None, None, None]
    assert np.abs(out.astype(int) - wanted).mean() < 2


def test_a_camera_that_turns_sees_the_same_place() -> None:
    wide = ground(140, 330, seed=3)
    frames = np.stack([wide[20 : 20 + 96, 8 + 4 * k : 8 + 4 * k + 128] for k in range(24)])
    truth, masks = frames.copy(), np.zeros(frames.shape[:3], bool)
    for number, mask in enumerate(masks):
        mask[30:70, 100 - 4 * number : 116 - 4 * number] = number < 22
    frames[masks] = (200, 20, 20)
    out = emptied(frames, masks)
    apart = np.abs(out.astype(int) - truth)[masks]
    assert apart.mean() < 12 and np.median(apart) < 8  # it was red: 60 shades away


def test_after_a_cut_another_place_is_behind() -> None:
    first, second = ground(seed=1), 255 - ground(seed=2)
    one, masks = walking(first)
    two, _ = walking(second)
    out = emptied(np.concatenate([one, two]), np.concatenate([masks, masks]))
    assert np.abs(out[:12].astype(int) - first).mean() < 1
    assert np.abs(out[12:].astype(int) - second).mean() < 1


def test_what_nobody_saw_is_painted_like_its_surroundings() -> None:
    rows = np.mgrid[:96, :128][0]
    stripes = np.where((rows // 8) % 2, 60, 180)[..., None].repeat(3, 2).astype(np.uint8)
    hole = box(20, 70, 50, 70)
    out = fill_holes(np.where(hole[..., None], 0, stripes).astype(np.uint8), hole)
    assert np.abs(out.astype(int) - stripes)[hole].mean() < 8
    assert np.array_equal(out[~hole], stripes[~hole])
    assert (fill_holes(stripes, np.ones(SIZE, bool)) == 128).all()


# A network of the user's.


def test_a_long_film_goes_through_a_users_network_in_windows_that_meet(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(
        "import numpy as np\nSIZES = []\n"
        "def inpaint(frames, people):\n"
        "    SIZES.append(len(frames))\n"
        "    return np.where(people[..., None], 7, frames).astype(np.uint8)\n"
    )
    frames = np.random.default_rng(0).integers(0, 256, (100, 6, 8, 3), dtype=np.uint8)
    masks = np.random.default_rng(1).random((100, 6, 8)) < 0.3
    made = inpaint.run_in_windows(inpaint.from_module(path), zip(frames, masks, strict=True))
    assert np.array_equal(np.stack(list(made)), np.where(masks[..., None], 7, frames))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def other(): pass", "inpaint"),
        ("1 / 0", "ZeroDivisionError"),
        ("def inpaint(frames, people): return frames[:1]", "uint8 from inpaint"),
    ],
)
def test_a_users_network_that_does_not_do_is_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(text)
    frames = np.zeros((3, 4, 5, 3), np.uint8)
    with pytest.raises(BadInput, match=said):
        inpaint.from_module(path)(frames, np.zeros((3, 4, 5), bool))


# Merging.


def test_nothing_outside_of_what_was_drawn_changes_and_the_sure_part_is_the_drawing() -> None:
    behind, drawn = ground(seed=4), np.full((*SIZE, 3), 250, np.uint8)
    alpha = np.zeros(SIZE, np.float32)
    alpha[20:60, 30:50], alpha[60:62, 30:50] = 1, 0.4
    image = np.where(alpha[..., None] > 0, drawn, behind)
    done = segment.merge_avatars(behind, image, alpha, blend_px=2)
    assert np.array_equal(done.image[~done.r], behind[~done.r]) and done.r.sum() == 42 * 20
    assert (done.image[done.eroded_r] == 250).all()
    assert np.array_equal(done.eroded_r, box(22, 58, 32, 48))
    nobody = segment.merge_avatars(behind, behind, np.zeros(SIZE, np.float32), blend_px=2)
    assert np.array_equal(nobody.image, behind) and not nobody.r.any()


# All of it, on Stage.


@pytest.fixture(scope="module")
def world(world_cache: Path) -> Iterator[Stage]:
    with staged(world_cache) as stage:
        yield stage


@pytest.fixture(scope="module")
def crossing(world: Stage) -> StagedFilm:
    """Somebody runs past another."""
    film = world.make_staged_film(1)
    assert len(np.unique(film.owner)) == 3
    return film


def test_on_stage_nobody_is_left_and_nothing_else_changes(crossing: StagedFilm) -> None:
    study, out = studied(Avatar(), crossing.frames)
    with closing(study):
        masks, true = masks_of(study, out.shape), crossing.owner >= 0
    touched = masks["q"] | masks["r"]
    assert np.array_equal(out[~touched], crossing.frames[~touched])
    left = (true & ~masks["q"]).sum(axis=(1, 2)) / true.sum(axis=(1, 2))
    assert left.mean() < 0.005 and left.max() < 0.05
    assert masks["r"].any() and not (masks["eroded_r"] & ~masks["r"]).any()
    was, now = (film[true].astype(float).ravel() for film in (crossing.frames, out))
    assert abs(np.corrcoef(was, now)[0, 1]) < 0.5
    assert study.receipt_counts["frames_blurred"] <= len(out)


def test_two_runs_give_other_avatars_and_one_keeps_its_own(crossing: StagedFilm) -> None:
    frames = crossing.frames[:3]
    first, one = studied(Avatar(), frames, seed=1)
    again, same = studied(Avatar(), frames, seed=1)
    other, two = studied(Avatar(), frames, seed=2)
    for study in (first, again, other):
        study.close()
    assert np.array_equal(one, same) and not np.array_equal(one, two)


def test_nobody_in_a_film_leaves_it_as_it_is(world: Stage) -> None:
    frames = np.repeat(ground(240, 320, seed=7)[None], 3, axis=0)
    study, out = studied(Avatar(), frames)
    with closing(study):
        assert np.array_equal(out, frames) and not any(study.receipt_counts.values())
        assert not any(mask.any() for mask in masks_of(study, frames.shape).values())


def test_what_moves_and_is_nobodys_leaves_the_film_if_that_is_asked_for(world: Stage) -> None:
    place = ground(240, 320, seed=7)
    frames, masks = walking(place, count=20)
    study, out = studied(Avatar(), frames)
    study.close()
    assert np.array_equal(out, frames)  # a red block is nobody
    study, out = studied(Avatar(remove_moving=True), frames)
    with closing(study):
        q = masks_of(study, frames.shape)["q"]
    assert (q | ~masks).all() and q.mean() < 3 * masks.mean()
    assert np.abs(out.astype(int) - place)[masks].mean() < 3
    assert np.array_equal(out[~q], frames[~q])


def test_a_crowd_is_replaced_all_of_it(world: Stage) -> None:
    films = [world.make_staged_film(number) for number in (0, 2, 3)]
    middle = [np.s_[:2, :, 60:260]] * 3
    frames = np.concatenate([film.frames[at] for film, at in zip(films, middle, strict=True)], 2)
    true = np.concatenate([film.owner[at] >= 0 for film, at in zip(films, middle, strict=True)], 2)
    study, _ = studied(Avatar(), np.ascontiguousarray(frames))
    with closing(study):
        q = masks_of(study, frames.shape)["q"]
    assert (true & ~q).sum() < 0.01 * true.sum()


def test_strict_publishes_nothing_where_somebody_is_missed(
    crossing: StagedFilm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(self: object, frame: np.ndarray, poses: object) -> np.ndarray:
        return np.zeros(frame.shape[:2], bool)

    monkeypatch.setattr(segment.PersonMasks, "mask_poses", nobody)
    monkeypatch.setattr(FilmedScene, "find_people_mask", lambda self, number: self._people[number])
    frames = crossing.frames[:3]
    with pytest.raises(NotHidden, match="as --strict asks"):
        Avatar(strict=True).first_pass(
            iter(frames), frames.shape, rate_hz=10.0, noise=Noise(seed=1)
        )
    study, out = studied(Avatar(), frames)
    with closing(study):
        assert study.receipt_counts["frames_blurred"] == 3
        q = masks_of(study, frames.shape)["q"]
    assert not np.array_equal(out[q], frames[q])


def test_a_users_network_removes_people(crossing: StagedFilm, tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text("def inpaint(frames, people):\n    return frames * 0 + 9\n")
    frames = crossing.frames[:3]
    study, out = studied(Avatar(inpaint_module=str(path)), frames)
    with closing(study):
        masks = masks_of(study, frames.shape)
    core = segment.shrink_mask((masks["q"] & ~masks["r"])[0], 6)
    assert core.any() and (out[0][core] == 9).mean() > 0.9


def test_nothing_is_promised_and_what_is_kept_is_named() -> None:
    guarantee = Avatar().guarantee((4, 20, 30, 3))
    assert guarantee.kind is GuaranteeKind.HEURISTIC and guarantee.epsilon is None
    said = " ".join(guarantee.not_protected)
    assert all(word in said for word in ("pose", "gait", "timing", "place", "outline", "counted"))
    assert "phase" in " ".join(Avatar(gait="public").guarantee((4, 20, 30, 3)).not_protected)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"gait": "silly"}, "gait"),
        ({"grow": -1.0}, "grow"),
        ({"blend": 0.5}, "blend"),
        ({"watch_every": 0}, "watch_every"),
        ({"remove_moving": True, "inpaint_module": "mine.py"}, "remove_moving or inpaint_module"),
        ({"steady": 1.5}, "steady"),
        ({"field_of_view": 3.0}, "field_of_view"),
        ({"eye_height": 0.0}, "eye_height"),
    ],
)
def test_fields_that_make_no_sense_are_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Avatar(**fields)  # type: ignore[arg-type]


def test_refined_figures_stand_where_eroded_r_says_and_nowhere_else(
    crossing: StagedFilm, monkeypatch: pytest.MonkeyPatch
) -> None:
    pink, frames = np.full((64, 64, 3), (250, 0, 250), np.uint8), crossing.frames[:6]
    nets = SimpleNamespace(side=64, refine_figure=lambda count, look, rng: [pink] * count)
    monkeypatch.setattr("masquerade.avatars.diffusion.FigureDiffusion", lambda folder: nets)
    study, out = studied(Avatar(refine="networks"), frames)
    with closing(study):
        masks, is_pink = masks_of(study, out.shape), (out == pink[0, 0]).all(axis=-1)
    assert is_pink[masks["eroded_r"]].mean() > 0.95 and not is_pink[~masks["r"]].any()
    kept = ~(masks["q"] | masks["r"])
    assert np.array_equal(out[kept], frames[kept])


def test_a_receipt_names_own_networks_without_their_folders() -> None:
    own = {"pose_module": "/home/me/poses.py", "inpaint_module": "/home/me/fill.py"}
    fields = Avatar(
        **own, refine="/srv/private/nets", export="/home/me/tracks.json"
    ).encode_fields()
    assert fields["pose_module"] == "poses.py" and fields["inpaint_module"] == "fill.py"
    assert fields["refine"] == "nets" and fields["export"] is None
