"""Legs behind a desk are not drawn before it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from few_avatars import masks_of, staged, studied
from masquerade.avatars import study
from masquerade.avatars.avatar import Avatar
from masquerade.avatars.segment import find_legs_behind, select_visible_faces
from masquerade.datasets.stage import Stage
from masquerade.stage.bodies import BONES, BodyModel
from masquerade.vision.poses import JOINTS
from masquerade.vision.tracks import PersonTrack

HZ = 10.0
SIZE = (120, 100)


def stands(*, trust: float, count: int = 30) -> PersonTrack:
    """Somebody whose left leg is trusted so much; the right one is seen."""
    joints = np.full((count, 33, 4), 0.95)
    joints[..., 0], joints[..., 1] = 50.0, 20.0
    for number, part in enumerate(("hip", "knee", "ankle")):
        for side, across in (("left", 55.0), ("right", 45.0)):
            joints[:, JOINTS.index(f"{side}_{part}"), :2] = across, 60.0 + 20 * number
    for part in ("knee", "ankle"):
        joints[:, JOINTS.index(f"left_{part}"), 2] = trust
    world, is_seen = np.zeros((count, 33, 3)), np.ones(count, bool)
    return PersonTrack(start=0, joints=joints, world=world, is_seen=is_seen)


def upper(bottom: int) -> np.ndarray:
    mask = np.zeros(SIZE, bool)
    mask[15:bottom, 35:65] = True
    return mask


@pytest.mark.parametrize(
    ("trust", "bottom", "is_hidden"),
    [(0.2, 65, True), (0.9, 65, False), (0.2, 110, False)],
    ids=["behind_a_desk", "surely_seen", "where_people_are"],
)
def test_a_leg_is_hidden_that_is_not_trusted_and_lies_where_nobody_is(
    trust: float, bottom: int, is_hidden: bool
) -> None:
    found = find_legs_behind(stands(trust=trust), lambda number: upper(bottom), rate_hz=HZ)
    assert found.shape == (30, 2) and not found[:, 1].any()
    assert (found[:, 0] == is_hidden).all()


def test_a_leg_beyond_the_border_is_not_hidden_but_out_of_the_picture() -> None:
    track = stands(trust=0.2)
    masks = [upper(65)[:75]] * 30  # the picture ends above the knees
    assert not find_legs_behind(track, masks.__getitem__, rate_hz=HZ).any()


def test_of_a_hidden_leg_only_those_triangles_remain_that_lie_on_the_person() -> None:
    bones = ["spine01", "spine01", "spine01", "lowerleg01.L", "lowerleg01.L", "lowerleg01.L"]
    bones += ["lowerleg01.R", "lowerleg01.R", "lowerleg01.R"]
    weights = np.eye(len(BONES))[[BONES.index(each) for each in bones]]
    model = cast(BodyModel, SimpleNamespace(weights=weights, faces=np.arange(9).reshape(3, 3)))
    places = np.repeat([[50.0, 40.0], [55.0, 90.0], [45.0, 90.0]], 3, axis=0)
    people, none = upper(65), np.zeros(2, bool)
    people[80:100, 40:60] = True  # a spot beside: it does not hang together with the trunk
    assert np.array_equal(select_visible_faces(model, places, none, people), model.faces)
    left = select_visible_faces(model, places, np.array([True, False]), people)
    assert np.array_equal(left, [[0, 1, 2], [3, 3, 3], [6, 7, 8]])
    people[60:85, 50:60] = True  # now it does
    assert np.array_equal(
        select_visible_faces(model, places, np.ones(2, bool), people), model.faces
    )


def with_desk(stage: Stage, number: int) -> tuple[np.ndarray, np.ndarray]:
    """A film in which a desk stands before somebody from the hips down, and where."""
    film = stage.make_staged_film(number)
    rows, columns = np.nonzero((film.owner == 0).any(axis=0))
    heights = [np.nonzero(mask.any(axis=1))[0][[0, -1]] for mask in film.owner == 0]
    top, bottom = np.median(heights, axis=0).astype(int)
    desk = np.zeros(film.frames.shape[1:3], bool)
    upper_edge = int(top + 0.55 * (bottom - top))
    desk[upper_edge : bottom + 8, max(0, columns.min() - 30) : columns.max() + 30] = True
    wood = np.array([120, 85, 50]) + np.random.default_rng(number).normal(0, 4, (*desk.shape, 1))
    frames = np.where(desk[..., None], wood.clip(0, 255).astype(np.uint8), film.frames)
    assert rows.max() > upper_edge
    return frames.astype(np.uint8), desk


def test_a_figure_behind_a_desk_does_not_hang_its_legs_before_it(
    world_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size: dict[str, Any] = {"height": 360, "width": 480, "videos": 64, "bystanders": 0.5}
    shares = []
    with staged(world_cache, seed=4, **size) as stage:
        frames, desk = with_desk(stage, 16)
        for is_asked in (True, False):
            if not is_asked:
                monkeypatch.setattr(
                    study,
                    "find_legs_behind",
                    lambda track, *_, **__: np.zeros((len(track), 2), bool),
                )
            found, _ = studied(Avatar(), frames)
            with closing(found):
                r = masks_of(found, frames.shape)["r"]
            shares.append(r[:, desk].mean())
        plain, _ = studied(Avatar(), stage.make_staged_film(16).frames)
        with closing(plain):
            assert not any(plain._figures[0].find_hidden_legs(number).any() for number in range(16))
    assert shares[0] < 0.5 * shares[1]
