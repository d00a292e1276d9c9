"""The training of PPEDCRF's networks, with a toy network that looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tools import place_teachers, place_training, place_worlds
from tools.place_teachers import as_pictures, margins
from toy_places import make_teacher

torch = pytest.importorskip("torch")
pytest.importorskip("cv2")
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def lesson() -> place_training.PlaceLesson:
    people = place_worlds.PublicPeople(
        pictures=np.full((2, 48, 64, 3), 90, np.uint8), masks=np.zeros((2, 48, 64), bool)
    )
    people.masks[:, 20:40, 30:40] = True
    return place_training.draw_lesson(place_training.PlaceTraining(places=16, tested=16), people)


def test_places_are_drawn_again_from_nearly_the_same_spot(lesson: Any) -> None:
    assert lesson.places.shape == (16, 3, 48, 64, 3)
    same = np.abs(lesson.places[:, 1].astype(int) - lesson.places[:, 2]).mean()
    other = np.abs(lesson.places[:, 1].astype(int) - lesson.places[::-1, 2]).mean()
    assert same < other
    assert not np.array_equal(lesson.places[:, 1], lesson.places[:, 2])


def test_a_teacher_sees_what_the_attacker_sees(lesson: Any) -> None:
    teacher = make_teacher()
    pictures = as_pictures(lesson.places[:3, 0], "cpu")
    usual = torch.nn.functional.normalize(
        teacher.backbone.embed_pictures(pictures, net=teacher.net), dim=1
    )
    assert torch.allclose(teacher.features(pictures), usual, atol=1e-4)


def test_a_margin_is_positive_where_the_own_place_is_likest() -> None:
    gallery = torch.eye(3)
    found = margins(gallery, gallery, torch.tensor([0, 1, 0]), warmth=0.01)
    assert found[0] > 0.9 and found[1] > 0.9 and found[2] < -0.9


@pytest.mark.parametrize("task", ["texture", "sensitivity"])
def test_both_networks_are_trained_written_and_tried(
    task: Any, lesson: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_teachers, "SMALL", (16, 21))
    plan = place_training.PlaceTraining(
        task=task,
        out=tmp_path / "w.safetensors",
        places=16,
        steps=2,
        networks=("toy",),
        unmet=(),
    )
    found = place_training.train(plan, {"toy": make_teacher()}, lesson)
    assert plan.out.stat().st_size < 1_000_000 and found["learned"] == 16
    assert "toy" in found["lines"][0] and "--steps 2" in plan.command


def test_a_texture_costs_the_decibels_that_it_may(lesson: Any) -> None:
    pictures = torch.full((2, 3, 48, 64), 128.0)
    behind = torch.ones(2, 1, 48, 64)
    behind[:, :, :, :32] = 0
    made = place_training.released(
        pictures, torch.randn(2, 3, 48, 64), behind, torch.full((2,), 30.0)
    )
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
