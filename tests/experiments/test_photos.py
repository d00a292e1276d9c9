"""What an attacker reads from public pictures, and how the frontier of psi is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("cv2")

from experiments import photos as albums
from experiments.photos import PersonAlbum
from masquerade.training.views import Psi
from masquerade.vision.body_features import ColourLayout

LOOKS = {"colours": ColourLayout().embed}


def dressed(people: int = 8, photos: int = 4, *, fine: bool = False) -> PersonAlbum:
    """People in clothes of one colour, or in fine stripes of which the mean is always grey."""
    rng = np.random.default_rng(0)
    crops, subjects = [], []
    for person in range(people):
        colour = rng.integers(40, 215, 3)
        stripes = rng.integers(0, 2, (256, 192, 1))
        for _ in range(photos):
            crop = np.full((256, 192, 3), 128) + rng.integers(-3, 4, (256, 192, 3))
            if fine:
                crop = 96 + np.where(stripes, 1, -1) * (colour - 128)
            else:
                crop[60:200, 60:130] = colour
            crops.append(np.clip(crop, 0, 255).astype(np.uint8))
            subjects.append(f"s{person}")
    targets = np.zeros((len(crops), 2, 3), np.float32)
    targets[:] = [[60, 60, 1], [130, 200, 1]]
    return PersonAlbum(
        crops=np.stack(crops),
        targets=targets,
        joints=targets[..., :2],
        head_px=np.full(len(crops), 20.0),
        regions=(),
        names=("left_hip", "right_hip"),
        prints=(),
        subjects=tuple(subjects),
    )


def test_colours_name_people_through_coarse_blocks() -> None:
    album = dressed()
    for psi in (None, Psi(block=16)):
        found = albums.name_people(album, psi, attackers=LOOKS)
        assert found.value > 0.8 and found.chance == 1 / 8 and found.count == 8


def test_what_blocks_average_away_names_nobody() -> None:
    album = dressed(fine=True)
    assert albums.name_people(album, None, attackers=LOOKS).value > 0.8
    hidden = albums.name_people(album, Psi(block=32, bits=2), attackers=LOOKS)
    assert hidden.value < 0.5


def test_one_photo_of_each_is_no_attack() -> None:
    with pytest.raises(ValueError, match="two photos of somebody"):
        albums.name_people(dressed(photos=1), None, attackers=LOOKS)


def test_a_photo_without_joints_is_looked_at_whole() -> None:
    album = dressed(people=2)
    album.targets[:, :, 2] = 0
    found = albums.name_people(album, None, attackers=LOOKS)
    assert 0 <= found.value <= 1


def test_the_best_attacker_counts() -> None:
    def blind(*seen: np.ndarray) -> np.ndarray:
        return np.ones((1, 3))

    looks: dict[str, Any] = {"blind": blind} | LOOKS
    assert albums.name_people(dressed(), None, attackers=looks).value > 0.8
    assert albums.name_people(dressed(), None, attackers={"blind": blind}).value == pytest.approx(
        1 / 8
    )
