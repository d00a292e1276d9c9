"""`masquerade recipe ppedcrf` and the training of its networks, with toy networks that look."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade.collection import About, Collection, Count, Labels, Medium
from masquerade.errors import BadInput
from masquerade.recipes import bench, place_saliency, place_training, place_worlds
from masquerade.recipes import place_fooling as fooling
from masquerade.recipes.place_teachers import Teacher, as_pictures, margins
from masquerade.recipes.ppedcrf import (
    PpedcrfTables,
    aims,
    figures,
    oracle,
    page,
    panels,
    scenes,
    variants,
)
from masquerade.recipes.ppedcrf import activities as acting
from masquerade.recipes.ppedcrf import joints as joints_of
from masquerade.recipes.ppedcrf.findings import (
    Activities,
    Adapted,
    MapSummary,
    Oracle,
    PlaceFindings,
)
from masquerade.recipes.ppedcrf.measured import PlaceCell, PlaceRoom
from masquerade.recipes.ppedcrf.run import measure
from masquerade.recordings import Video
from masquerade.vision.backbones import Backbone

torch = pytest.importorskip("torch")
pytest.importorskip("cv2")
torch.set_num_threads(1)


PLACES = 8
REAL_ORACLE = oracle.told


class Eye:
    """A network that sees the colours of 6 x 10 parts."""

    def __init__(self, name: str) -> None:
        self.fingerprint = f"toy {name}"

    def embed(self, frames: np.ndarray) -> np.ndarray:
        small = frames.reshape(len(frames), 6, 16, 10, 16, 3).mean(axis=(2, 4))
        rows = small.reshape(len(frames), -1) - 128
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


@dataclass(frozen=True, kw_only=True)
class Rooms(Collection[Video]):
    """Two films of each of a few places."""

    ABOUT = About(title="Rooms", kind=Medium.VIDEOS, licence="none", home="", citation="")

    @property
    def activities(self) -> tuple[str, ...]:
        return ("walk",)

    def check(self) -> tuple[Count, ...]:
        return ()

    def _find(self) -> list[Labels]:
        return [Labels(name=str(n), place=f"room_{n // 2:02}") for n in range(2 * PLACES)]

    def _load(self, index: int) -> Video:
        walls = np.random.default_rng(index // 2).integers(60, 200, (12, 20, 3))
        changed = walls + np.random.default_rng([9, index]).integers(-9, 9, walls.shape)
        frame = changed.astype(np.uint8).repeat(8, 0).repeat(8, 1)
        frame[::2] -= 9
        mask = np.zeros((2, 96, 160), bool)
        mask[:, 40:75, 75:90] = True
        return Video(frames=np.stack([frame] * 2), rate_hz=10, person_mask=mask)


def _acted(name: str, lost: int = 0, of: int = 400) -> Activities:
    after = tuple(float(n >= lost) for n in range(of))
    return Activities(before=(1.0,) * of, after={name: after}, psnr=33.0, learned=9)


def _own(network: str, psnr: float) -> Oracle:
    return Oracle(
        network=network, psnr=psnr, by_map=(0.5,), by_map_patterns=(0.25,), by_steps=(0.0,)
    )


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    """Films are of 96 x 160 pixels, and three ways to blur and to grid are one each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scenes, "SIZE", (96, 160))
        patch.setattr(variants, "BLURS", variants.BLURS[:1])
        patch.setattr(variants, "MOSAICS", variants.MOSAICS[:1])
        patch.setattr(joints_of, "moved_px", lambda room, variant: 0.25)
        patch.setattr(acting, "named", lambda plan, rows, psnr: _acted(rows[0].name))
        patch.setattr(oracle, "told", lambda room, network, psnr, seeds, size: _own(network, psnr))
        yield


@pytest.fixture(scope="module")
def room(small: None) -> PlaceRoom:
    wanted = scenes.Wanted(candidates=8, pairs=2, gallery=5, frames=2, learning=3)
    found = scenes.found(Rooms(), wanted, Eye("anchor").embed, bench.quiet)
    networks: Any = {name: Eye(name) for name in ("unmet", "met")}
    return PlaceRoom(scenes=found, networks=networks, sizes=(2, 5))


@pytest.fixture(scope="module")
def found(room: PlaceRoom) -> PlaceFindings:
    plan = PpedcrfTables(
        pairs=2,
        galleries=(2, 5),
        seeds=1,
        sigmas=(8.0,),
        psnrs=(33.0,),
        networks=("unmet",),
        taught=("met",),
        averaged=(2,),
    )
    return measure(plan, room, journal=bench.Journal(), told=bench.quiet)


def test_pairs_are_of_one_place_and_distractors_of_others(room: PlaceRoom) -> None:
    shown = room.scenes
    assert len(shown.queries) == 2 and len(shown.gallery) == 5 and len(shown.others) == 3
    for number, film in enumerate(shown.queries):
        away = np.abs(film.frames[1].astype(int) - shown.gallery[number]).mean()
        others = [np.abs(film.frames[1].astype(int) - each).mean() for each in shown.gallery[2:]]
        assert away < 12 < min(others)
    assert shown.likeness[0] > shown.likeness[1]


@pytest.mark.usefixtures("small")
def test_too_few_places_are_refused_with_the_remedy() -> None:
    wanted = scenes.Wanted(candidates=8, pairs=7, gallery=8, frames=2, learning=4)
    with pytest.raises(BadInput, match=r"at least 9 places .* got 8; give more .*--pairs 6 "):
        scenes.found(Rooms(), wanted, Eye("anchor").embed, bench.quiet)


class Unmasked(Rooms):
    def _load(self, index: int) -> Video:
        return replace(super()._load(index), person_mask=None)


def test_films_without_masks_of_people_are_refused_before_anything_is_looked_at() -> None:
    wanted = scenes.Wanted(candidates=8, pairs=2, gallery=5, frames=2, learning=3)
    with pytest.raises(BadInput, match=r"mask of the people.*--data stage"):
        scenes.found(Unmasked(), wanted, Eye("anchor").embed, bench.quiet)


def test_every_table_is_made_of_what_was_measured(found: PlaceFindings) -> None:
    text = page.markdown(found)
    titles = [f"Table {number}" for number in range(3, 8)]
    for words in (*titles, "Attackers who do more", "Which noise, on which map", "own gradients"):
        assert words in text
    assert "without the penalty" in text and "mask is constant" in text
    assert "nan" not in text and json.loads(json.dumps(page.plain(found)))["moved_px"]
    assert all(drawn.startswith("<svg") for drawn in figures.plots(found).values())


def test_rows_of_one_panel_have_the_same_psnr(found: PlaceFindings) -> None:
    left = {cell.name: cell.psnr for cell in found.tables["33 dB"]}
    capped = left.pop("pooled_gaussian, blocks of 2")  # means of blocks are never so near
    assert len(left) == 9 + 1 + 2 and max(abs(one - 33) for one in left.values()) < 1.0
    assert capped < 33 and f"{capped:.2f}" in page.markdown(found)


def test_people_are_left_as_they_are(room: PlaceRoom) -> None:
    film = room.scenes.queries[0]
    made = variants.ours.at(30.0).released(film, 5)
    assert np.array_equal(made[film.person_mask], film.frames[film.person_mask])
    assert not np.array_equal(made, film.frames)


def _told(after: float, other: float, gain: float = 0.0, lost: int = 0) -> PlaceFindings:
    """Findings in which so many of 100 films are named."""

    def hits(share: float) -> dict[str, Any]:
        rows = tuple((float(n < 100 * share), 1.0, 1.0) for n in range(100))
        return {"unmet": {"48": rows}}

    def cells(name: str, share: float) -> list[PlaceCell]:
        values = {"sigma": 8.0, "psnr": 33.0, "ssim": 0.9, "flicker": 1.0, "stability": 0.1}
        return [PlaceCell(name=name, seed=seed, hits=hits(share), **values) for seed in range(3)]

    ways = {"one frame": after, "has learned from releases": after + gain}
    return PlaceFindings(
        plan=PpedcrfTables(networks=("unmet",), taught=(), psnrs=(33.0,)),
        sizes=(48,),
        likeness=(0.9, 0.8),
        raw=hits(0.9),
        tables={"33 dB": (*cells(variants.OURS, after), *cells(variants.GLOBAL, other))},
        maps=MapSummary(coverage=0.5, spread=0.0, entropy=1.0, overlap=1.0),
        adapted=tuple(
            Adapted(name=name, network="unmet", how=how, shares=(share,) * 3)
            for name in (variants.OURS, variants.GLOBAL)
            for how, share in ways.items()
        ),
        moved_px={variants.OURS: 3.0},
        activities=_acted(variants.OURS, lost),
    )


def test_aims_are_called_reached_and_missed() -> None:
    good, bad = (
        " ".join(aims.sentences(_told(*given))) for given in ((0.2, 0.6), (0.5, 0.6, 0.2, 40))
    )
    assert (
        "0.33 of it (" in good and "less is told" in good and "The aim of half is reached" in good
    )
    assert "1 point is reached" in good and "+10.0 points lost" in bad and "point is missed" in bad
    assert "The aim of half is missed by 0.33" in bad and "10 points more is missed" in bad
    assert "THE MASK IS CONSTANT" in good and "3.00 pixels" in good and "missed" in good


def test_the_six_panels_show_one_frame(room: PlaceRoom) -> None:
    text = panels.drawn(room.scenes.queries[0])
    assert text.count("<image") == 6 and "f crop" in text


def test_noise_by_the_attackers_own_gradients_hides_more_than_noise_by_its_map(
    room: PlaceRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = _teacher()
    monkeypatch.setattr(oracle, "teachers", lambda names, where: {names[0]: teacher})

    class Own:
        def embed(self, frames: np.ndarray) -> np.ndarray:
            return np.asarray(teacher.all_features(frames))

        fingerprint = "toy own"

    networks: Any = {"own": Own()}
    own = PlaceRoom(scenes=room.scenes, networks=networks, sizes=(5,))
    found = REAL_ORACLE(own, "own", 24.0, 2, 5)
    assert len(found.by_map) == len(found.by_map_patterns) == 2
    assert found.by_steps[0] <= min(found.by_map) and found.by_steps[0] == 0.0


def test_points_lost_are_counted_recording_by_recording() -> None:
    found = _acted("x", lost=8)
    lost, error = acting.difference(found, found.after["x"])
    assert lost == pytest.approx(2.0) and error == pytest.approx(0.7, abs=0.05)


def test_a_gallery_smaller_than_what_is_asked_for_is_refused() -> None:
    with pytest.raises(ValueError, match="A gallery holds all that is asked for"):
        PpedcrfTables(galleries=(6,))
    assert PpedcrfTables(quick=True).settled().pairs == 4


class Looks(torch.nn.Module):
    """Means of a few filters, squared."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 12, 5, stride=2)

    def forward(self, values: Any) -> Any:
        seen = torch.nn.functional.adaptive_avg_pool2d(self.conv(values).square(), 3)
        return seen.flatten(1)


def _teacher() -> Teacher:
    backbone = Backbone(name="toy", make=Looks, read=lambda path: {}, published="", size_px=40)
    return Teacher(backbone=backbone, net=Looks().eval().requires_grad_(False))


@pytest.fixture(scope="module")
def lesson() -> place_training.PlaceLesson:
    people = place_worlds.PublicPeople(
        pictures=np.full((2, 48, 64, 3), 90, np.uint8), masks=np.zeros((2, 48, 64), bool)
    )
    people.masks[:, 20:40, 30:40] = True
    return place_training.drawn(place_training.PlaceTraining(places=16, tested=16), people)


def test_places_are_drawn_again_from_nearly_the_same_spot(lesson: Any) -> None:
    assert lesson.places.shape == (16, 3, 48, 64, 3)
    same = np.abs(lesson.places[:, 1].astype(int) - lesson.places[:, 2]).mean()
    other = np.abs(lesson.places[:, 1].astype(int) - lesson.places[::-1, 2]).mean()
    assert same < other
    assert not np.array_equal(lesson.places[:, 1], lesson.places[:, 2])


def test_a_teacher_sees_what_the_attacker_sees(lesson: Any) -> None:
    teacher = _teacher()
    pictures = as_pictures(lesson.places[:3, 0], "cpu")
    usual = torch.nn.functional.normalize(teacher.backbone.seen(pictures, net=teacher.net), dim=1)
    assert torch.allclose(teacher.features(pictures), usual, atol=1e-4)


def test_a_margin_is_positive_where_the_own_place_is_likest() -> None:
    gallery = torch.eye(3)
    found = margins(gallery, gallery, torch.tensor([0, 1, 0]), warmth=0.01)
    assert found[0] > 0.9 and found[1] > 0.9 and found[2] < -0.9


@pytest.mark.parametrize("task", ["texture", "sensitivity"])
def test_both_networks_are_trained_written_and_tried(
    task: Any, lesson: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_saliency, "SMALL", (16, 21))
    plan = place_training.PlaceTraining(
        task=task,
        out=tmp_path / "w.safetensors",
        places=16,
        steps=2,
        networks=("toy",),
        unmet=(),
    )
    found = place_training.train(plan, {"toy": _teacher()}, lesson)
    assert plan.out.stat().st_size < 1_000_000 and found["learned"] == 16
    assert "toy" in found["lines"][0] and "--steps 2" in plan.command


def test_a_texture_costs_the_decibels_that_it_may(lesson: Any) -> None:
    pictures = torch.full((2, 3, 48, 64), 128.0)
    behind = torch.ones(2, 1, 48, 64)
    behind[:, :, :, :32] = 0
    made = fooling.released(pictures, torch.randn(2, 3, 48, 64), behind, torch.full((2,), 30.0))
    error = (made - pictures).square().mean(dim=(1, 2, 3))
    assert torch.allclose(10 * torch.log10(255**2 / error), torch.full((2,), 30.0), atol=0.1)
    assert torch.equal(made[..., :32], pictures[..., :32])


def test_impossible_training_is_refused() -> None:
    for fields, said in (
        ({"places": 3}, "places from 16"),
        ({"seconds": 0.0}, "seconds above 0"),
        ({"networks": ()}, "at least one network"),
    ):
        with pytest.raises(ValueError, match=said):
            place_training.PlaceTraining(**fields)  # type: ignore[arg-type]
