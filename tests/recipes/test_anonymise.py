"""The contest behind spact and alf: each move does its part, and the recipe writes weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from masquerade.nets import unet, weight_files  # noqa: E402
from masquerade.recipes import anonymise, attributes, minimax  # noqa: E402
from masquerade.recipes.anonymise import Anonymise  # noqa: E402
from masquerade.recipes.minimax import Contest, PublicFilms, Task  # noqa: E402


def quiet(*_: Any) -> None:
    """Say nothing."""


def films(count: int = 24) -> PublicFilms:
    """A square that is bright for one look and moves for one activity, (N, 4, 16, 16, 3)."""
    rng = np.random.default_rng(0)
    activity, look = rng.integers(2, size=count), rng.integers(2, size=count)
    frames = rng.integers(0, 40, (count, 4, 16, 16, 3), dtype=np.uint8)
    for film, moves, is_bright in zip(frames, activity, look, strict=True):
        for number, frame in enumerate(film):
            left = 2 + 2 * number * moves
            frame[4:12, left : left + 6] = 230 if is_bright else 120
    return PublicFilms(
        frames=frames,
        activity=activity,
        looks=look[:, None],
        attributes={"shirt": ("grey", "white")},
        people=np.array([f"s{number % 12:03d}" for number in range(count)]),
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minimax, "_SIDES", (16,))


def test_contrast_is_small_for_pairs_and_large_for_strangers() -> None:
    torch.manual_seed(0)
    one = torch.randn(16, 8)
    assert minimax.contrast(one, one) < 0.2 < minimax.contrast(one, one.roll(1, 0))


def test_doubt_is_none_for_the_sure_and_one_for_the_undecided() -> None:
    sure = torch.tensor([[50.0, 0.0, 0.0, 50.0, 0.0]])
    assert minimax.doubt(sure, (2, 3)) < 1e-6
    assert minimax.doubt(torch.zeros(1, 5), (2, 3)) == pytest.approx(1.0)


@pytest.mark.parametrize("task", list(Task))
def test_a_contest_changes_the_pictures_and_repeats_itself(task: Task, small: None) -> None:
    contest = Contest(task=task, steps=5, batch=4)
    one, other = (minimax.played(contest, films(), where="cpu", progress=quiet) for _ in range(2))
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-4)
    frame = films().frames[0, 0]
    assert not np.array_equal(unet.redrawn(one, frame, lines=16), frame)


@pytest.mark.parametrize("task", list(Task))
def test_every_move_moves_only_its_own_networks(task: Task, small: None) -> None:
    players = minimax._Players(Contest(task=task, steps=1, batch=4), films(), "cpu")
    lookers = [*players.reader.parameters(), *players.watchers.parameters()]

    def held() -> tuple[list[Any], list[Any]]:
        return tuple(
            [p.detach().clone() for p in some] for some in (players.unet.parameters(), lookers)
        )

    def differ(before: list[Any], after: list[Any]) -> bool:
        return any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))

    start = held()
    players.draw()
    drawn = held()
    assert differ(start[0], drawn[0]) and not differ(start[1], drawn[1])
    players.look()
    looked = held()
    assert not differ(drawn[0], looked[0]) and differ(drawn[1], looked[1])


def test_looks_that_show_are_told_and_hidden_ones_are_not() -> None:
    every = films(60)
    learned, unseen = every.part(np.arange(44)), every.part(np.arange(44, 60))
    study = attributes.Study(epochs=6, seeds=1, where="cpu")
    told = attributes.told(learned, unseen, study, progress=quiet)
    assert told.mean_looks.mean > 0.85 and told.activity.tested == 16
    blank = [replace(part, frames=np.zeros_like(part.frames)) for part in (learned, unseen)]
    hidden = attributes.told(blank[0], blank[1], study, progress=quiet)
    assert hidden.mean_looks.mean <= max(0.75, told.guessed["shirt"])


def test_nobody_who_is_learned_from_is_held_out() -> None:
    people = np.array([f"s{number % 30:03d}" for number in range(200)])
    is_held = anonymise.held_out(people)
    assert len(set(people[is_held])) == 3
    assert not set(people[is_held]) & set(people[~is_held])
    assert anonymise.held_out(np.array(["a", "b"])).tolist() == [False, True]


def test_the_recipe_draws_public_people_and_writes_weights(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anonymise, "public_films", lambda videos, progress: films())
    plan = Anonymise(task="alf", out=tmp_path / "alf.safetensors", steps=2, videos=48, runs=1)
    answer = plan.run()
    assert "nobody private was read" in answer.lines[0] and "| activity |" in answer.lines[-1]
    assert set(answer.data["after"]["looks"]) == {"shirt"}
    weight_files.load_weights(unet.UNet("alf"), plan.out, keep_head=True)


@pytest.mark.slow
def test_films_are_of_the_public_half_of_a_world_of_their_own() -> None:
    pytest.importorskip("numba")
    found = anonymise.public_films(2, quiet)
    assert found.frames.shape == (2, 8, 96, 96, 3) and found.looks.shape == (2, 6)
    assert set(found.attributes) == {"skin_tone", "gender", "build", "hair", "clothing", "face"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"videos": 3}, "videos >= 48, got videos=3"),
        ({"steps": 0}, "steps=0"),
        ({"runs": -1}, "runs=-1"),
    ],
)
def test_bad_fields_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Anonymise(**fields)


def test_a_folder_that_is_not_there_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="make it first"):
        Anonymise(out=tmp_path / "nowhere" / "a.safetensors").run()
