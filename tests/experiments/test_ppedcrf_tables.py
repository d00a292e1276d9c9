"""PPEDCRF's tables, with toy networks that look."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("cv2")

from experiments import ppedcrf_attackers as attackers
from experiments import ppedcrf_films as films
from experiments.claims import Cells, write_sentences
from experiments.engine import Run, hide_progress
from experiments.ppedcrf import (
    CLAIMS,
    Adapted,
    MapSummary,
    PlaceFound,
    PpedcrfSettings,
    measure_attacks,
    write_page,
)
from experiments.ppedcrf_attackers import Activities, Attackers, Oracle, PlaceCell
from masquerade._torch import torch
from masquerade.collection import Collection, CountLine, DataSource, Labels, Medium
from masquerade.errors import BadInput
from masquerade.recordings import Video
from toy_places import make_teacher

torch.set_num_threads(1)


PLACES = 8
REAL_ORACLE = attackers.measure_oracle


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

    ABOUT = DataSource(title="Rooms", kind=Medium.VIDEOS, licence="none", home="", citation="")

    @property
    def activities(self) -> tuple[str, ...]:
        return ("walk",)

    def check(self) -> tuple[CountLine, ...]:
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
        patch.setattr(films, "SIZE", (96, 160))
        patch.setattr(films, "BLURS", films.BLURS[:1])
        patch.setattr(films, "MOSAICS", films.MOSAICS[:1])
        patch.setattr(attackers, "measure_moves", lambda films, variant: 0.25)
        patch.setattr(attackers, "name_activities", lambda plan, rows, psnr: _acted(rows[0].name))
        patch.setattr(
            attackers,
            "measure_oracle",
            lambda room, network, psnr, seeds, size: _own(network, psnr),
        )
        yield


@pytest.fixture(scope="module")
def room(small: None) -> Attackers:
    wanted = films.Wanted(candidates=8, pairs=2, gallery=5, frames=2, learning=3)
    found = films.pair_places(Rooms(), wanted, Eye("anchor").embed, hide_progress)
    networks: Any = {name: Eye(name) for name in ("unmet", "met")}
    return Attackers(scenes=found, networks=networks, sizes=(2, 5))


@pytest.fixture(scope="module")
def found(room: Attackers) -> PlaceFound:
    plan = PpedcrfSettings(
        pairs=2,
        galleries=(2, 5),
        seeds=1,
        sigmas=(8.0,),
        psnrs=(33.0,),
        networks=("unmet",),
        taught=("met",),
        averaged=(2,),
    )
    return measure_attacks(Run(settings=plan), room)


def test_pairs_are_of_one_place_and_distractors_of_others(room: Attackers) -> None:
    shown = room.scenes
    assert len(shown.queries) == 2 and len(shown.gallery) == 5 and len(shown.others) == 3
    for number, film in enumerate(shown.queries):
        away = np.abs(film.frames[1].astype(int) - shown.gallery[number]).mean()
        others = [np.abs(film.frames[1].astype(int) - each).mean() for each in shown.gallery[2:]]
        assert away < 12 < min(others)
    assert shown.likeness[0] > shown.likeness[1]


@pytest.mark.usefixtures("small")
def test_too_few_places_are_refused_with_the_remedy() -> None:
    wanted = films.Wanted(candidates=8, pairs=7, gallery=8, frames=2, learning=4)
    with pytest.raises(BadInput, match=r"at least 9 places .* got 8; give more .*--pairs 6 "):
        films.pair_places(Rooms(), wanted, Eye("anchor").embed, hide_progress)


class Unmasked(Rooms):
    def _load(self, index: int) -> Video:
        return replace(super()._load(index), person_mask=None)


def test_films_without_masks_of_people_are_refused_before_anything_is_looked_at() -> None:
    wanted = films.Wanted(candidates=8, pairs=2, gallery=5, frames=2, learning=3)
    with pytest.raises(BadInput, match=r"mask of the people.*--data stage"):
        films.pair_places(Unmasked(), wanted, Eye("anchor").embed, hide_progress)


def test_every_table_is_made_of_what_was_measured(found: PlaceFound) -> None:
    text = write_page(found).text
    titles = [f"Table {number}" for number in range(3, 8)]
    for words in (*titles, "Attackers who do more", "Which noise, on which map", "own gradients"):
        assert words in text
    assert "without the penalty" in text and "mask is constant" in text
    assert "nan" not in text and json.loads(json.dumps(dict(write_page(found).data)))["moved_px"]
    assert all(drawn.startswith("<svg") for drawn in write_page(found).plots.values())


def test_rows_of_one_panel_have_the_same_psnr(found: PlaceFound) -> None:
    left = {cell.name: cell.psnr for cell in found.tables["33 dB"]}
    capped = left.pop("pooled_gaussian, blocks of 2")  # means of blocks are never so near
    assert len(left) == 9 + 1 + 2 and max(abs(one - 33) for one in left.values()) < 1.0
    assert capped < 33 and f"{capped:.2f}" in write_page(found).text


def test_people_are_left_as_they_are(room: Attackers) -> None:
    film = room.scenes.queries[0]
    made = films.OUR_ROW.with_sigma(30.0).release(film, 5)
    assert np.array_equal(made[film.person_mask], film.frames[film.person_mask])
    assert not np.array_equal(made, film.frames)


def _told(after: float, other: float, gain: float = 0.0, lost: int = 0) -> PlaceFound:
    """Findings in which so many of 100 films are named."""

    def hits(share: float) -> dict[str, Any]:
        rows = tuple((float(n < 100 * share), 1.0, 1.0) for n in range(100))
        return {"unmet": {"48": rows}}

    def cells(name: str, share: float) -> list[PlaceCell]:
        values = {"sigma": 8.0, "psnr": 33.0, "ssim": 0.9, "flicker": 1.0, "stability": 0.1}
        return [PlaceCell(name=name, seed=seed, hits=hits(share), **values) for seed in range(3)]

    ways = {"one frame": after, "has learned from releases": after + gain}
    return PlaceFound(
        settings=PpedcrfSettings(networks=("unmet",), taught=(), psnrs=(33.0,)),
        sizes=(48,),
        likeness=(0.9, 0.8),
        raw=hits(0.9),
        tables={"33 dB": Cells([*cells(films.OURS, after), *cells(films.GLOBAL, other)])},
        maps=MapSummary(coverage=0.5, spread=0.0, entropy=1.0, overlap=1.0),
        adapted=Cells(
            Adapted(name=name, network="unmet", how=how, shares=(share,) * 3)
            for name in (films.OURS, films.GLOBAL)
            for how, share in ways.items()
        ),
        moved_px={films.OURS: 3.0},
        activities=_acted(films.OURS, lost),
    )


def test_aims_are_called_reached_and_missed() -> None:
    good, bad = (
        " ".join(write_sentences(_told(*given), CLAIMS))
        for given in ((0.2, 0.6), (0.5, 0.6, 0.2, 40))
    )
    assert (
        "0.33 of it (" in good and "less is told" in good and "The aim of half is reached" in good
    )
    assert "1 point is reached" in good and "+10.0 points lost" in bad and "point is missed" in bad
    assert "The aim of half is missed by 0.33" in bad and "10 points more is missed" in bad
    assert "THE MASK IS CONSTANT" in good and "3.00 pixels" in good and "missed" in good


def test_the_six_panels_show_one_frame(room: Attackers) -> None:
    text = films.draw_panels(room.scenes.queries[0])
    assert text.count("<image") == 6 and "f crop" in text


def test_noise_by_the_attackers_own_gradients_hides_more_than_noise_by_its_map(
    room: Attackers, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = make_teacher()
    monkeypatch.setattr(attackers, "teachers", lambda names, where: {names[0]: teacher})

    class Own:
        def embed(self, frames: np.ndarray) -> np.ndarray:
            return np.asarray(teacher.all_features(frames))

        fingerprint = "toy own"

    networks: Any = {"own": Own()}
    own = Attackers(scenes=room.scenes, networks=networks, sizes=(5,))
    found = REAL_ORACLE(own, "own", 24.0, 2, 5)
    assert len(found.by_map) == len(found.by_map_patterns) == 2
    assert found.by_steps[0] <= min(found.by_map) and found.by_steps[0] == 0.0


def test_points_lost_are_counted_recording_by_recording() -> None:
    found = _acted("x", lost=8)
    lost, error = found.find_loss(found.after["x"])
    assert lost == pytest.approx(2.0) and error == pytest.approx(0.7, abs=0.05)


def test_a_gallery_smaller_than_what_is_asked_for_is_refused() -> None:
    with pytest.raises(ValueError, match="A gallery holds all that is asked for"):
        PpedcrfSettings(galleries=(6,))
    assert PpedcrfSettings(quick=True).settle().pairs == 4
