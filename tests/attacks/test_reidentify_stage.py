"""People who never lived, recognised in films: each cue between its ceiling and its floor."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from masquerade.attacks.attack import Case, Recording, ignore_progress
from masquerade.attacks.cues import describe_gait, find_moving_mask
from masquerade.attacks.known_people import PoseSearch, read_true_body
from masquerade.attacks.reidentify import Reidentify, cue_for
from masquerade.datasets.stage import Stage
from masquerade.recordings import Video
from masquerade.scores import AttackResult

pytestmark = pytest.mark.usefixtures("private_features")

WALK = (1.0, *[0.0] * 11)


def films(stage: Stage, *, people: int, known: int, probes: int) -> Case:
    """The first takes of each of some people are known, the next are published."""
    own: dict[str, list[int]] = {}
    for number, labels in enumerate(stage.labels):
        own.setdefault(str(labels.subject), []).append(number)
    chosen = [numbers[: known + probes] for numbers in list(own.values())[:people]]
    assert len(chosen) == people and all(len(each) == known + probes for each in chosen)
    taken = [[stage[number] for number in each] for each in chosen]
    targets = [film for each in taken for film in each[known:]]
    return Case(
        known=[film for each in taken for film in each[:known]], targets=targets, raw=targets
    )


def attacked(case: Case, **fields: object) -> AttackResult:
    (found,) = Reidentify(**fields).run(case, told=ignore_progress)  # type: ignore[arg-type]
    return found


def blacked(recording: Recording) -> Recording:
    film = cast(Video, recording)
    return replace(film, frames=np.zeros_like(film.frames))


def walkers(**changes: int) -> Stage:
    return Stage(split="train", videos=504, class_share=WALK, bystanders=0.0, **changes)  # type: ignore[arg-type]


def test_true_joints_tell_people_apart_and_the_floor_has_none() -> None:
    case = films(walkers(height=48, width=48), people=6, known=2, probes=1)
    found = attacked(case, by="gait", joints="truth")
    assert found.is_telling and found.ceiling[0].value > 0.9
    assert found.floor[0].value < 0.4
    assert any("upper bound" in note for note in found.notes)


def test_gait_is_the_same_whichever_way_the_camera_looks() -> None:
    joints = np.random.default_rng(0).uniform(-1, 1, (20, 13, 3))
    turn = np.array([[0.6, 0.0, 0.8], [0.0, 1.0, 0.0], [-0.8, 0.0, 0.6]])  # about the vertical
    assert np.allclose(describe_gait(joints, 10.0), describe_gait(joints @ turn.T + 3.0, 10.0))


def test_what_moves_before_a_still_ground_is_found_and_flicker_is_not() -> None:
    rng = np.random.default_rng(0)
    frames = np.repeat(rng.integers(0, 256, (1, 40, 60, 3), np.uint8), 9, axis=0)
    for number in range(9):
        frames[number, 10:30, 5 * number : 5 * number + 6] = rng.integers(0, 256, (20, 6, 3))
    found = find_moving_mask(frames)
    truth = np.zeros(found.shape, bool)
    for number in range(9):
        truth[number, 10:30, 5 * number : 5 * number + 6] = True
    assert (found & truth).sum() > 0.9 * truth.sum() and (found & ~truth).sum() < 0.1 * truth.sum()
    assert not find_moving_mask(rng.integers(0, 256, (9, 40, 60, 3), np.uint8)).any()


def test_a_body_is_found_where_it_is() -> None:
    film = cast(Video, Stage(split="test", height=160, width=160)[0])
    found, truth = PoseSearch().find_nearest(film.frames[0]), read_true_body(film, 0)
    assert found is not None and truth is not None and film.person_mask is not None
    assert np.abs(found.box - truth.box).max() < 16
    mask = found.mask > 0.5
    assert (mask & film.person_mask[0]).sum() > 0.7 * (mask | film.person_mask[0]).sum()


@pytest.mark.slow
def test_people_are_recognised_by_their_clothes_until_all_is_black() -> None:
    stage = Stage(split="train", bystanders=0.0)
    case = films(stage, people=14, known=3, probes=2)
    case = replace(case, targets=[blacked(each) for each in case.raw], release=blacked)
    found = attacked(case, by="body", joints="truth", gallery="released")
    assert found.is_telling and found.ceiling[0].value > 0.4
    assert found.verdict.startswith("Not told apart from random")


@pytest.mark.slow
@pytest.mark.parametrize("by", ["body", "silhouette"])
def test_a_cue_that_eyes_find_themselves_is_telling(by: str) -> None:
    stage = walkers() if by == "silhouette" else Stage(split="train", bystanders=0.0)
    case = films(stage, people=14, known=2 if by == "body" else 5, probes=2)
    found = attacked(case, by=by)
    assert found.is_telling and found.floor[0].value < 0.2


@pytest.mark.slow
def test_faces_from_near_by_are_told_apart() -> None:
    near = [Stage(preset="faces", places=places) for places in (48, 47, 46)]
    shots = [[replace(stage.render_portrait(who)) for stage in near] for who in range(14)]
    targets = [each[2] for each in shots]
    known = [film for each in shots for film in each[:2]]
    found = attacked(Case(known=known, targets=targets, raw=targets), by="face")
    assert found.is_telling


@pytest.mark.parametrize("by", ["face", "body", "silhouette"])
def test_nobody_seen_is_no_row(by: str) -> None:
    film = Video(frames=np.zeros((4, 40, 40, 3), np.uint8), rate_hz=4, subject="a")
    assert len(cue_for(by, is_told=False)(film)) == 0  # type: ignore[arg-type]
