"""The contest behind spact and alf: each move does its part, and the recipe writes weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from masquerade.networks import small_networks, weight_files  # noqa: E402
from masquerade.networks.picture_crops import crop_person  # noqa: E402
from tools import anonymise, minimax  # noqa: E402
from tools.anonymise import Anonymise  # noqa: E402
from tools.minimax import Contest, PublicFilms, Task  # noqa: E402


def quiet(*_: Any) -> None:
    """Say nothing."""


def films(count: int = 24) -> PublicFilms:
    """A square that is bright for one look and moves for one activity, (N, 16, 16, 16, 3)."""
    rng = np.random.default_rng(0)
    activity, look = rng.integers(2, size=count), rng.integers(2, size=count)
    frames = rng.integers(0, 40, (count, 16, 16, 16, 3), dtype=np.uint8)
    boxes = np.empty((count, 16, 3), np.float32)
    for number, film in enumerate(frames):
        for moment, frame in enumerate(film):
            left = 2 + moment // 2 * int(activity[number])
            frame[4:12, left : left + 6] = 230 if look[number] else 120
            boxes[number, moment] = (left + 3) / 16, 0.5, 0.5
    return PublicFilms(
        frames=frames,
        activity=activity,
        looks=look[:, None],
        attributes={"shirt": ("grey", "white")},
        people=np.array([f"s{number % 12:03d}" for number in range(count)]),
        boxes=boxes,
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
    contest = Contest(task=task, steps=2, batch=4)
    one, other = (minimax.played(contest, films(), where="cpu", progress=quiet) for _ in range(2))
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-3)
    frame = films().frames[0, 0]
    assert not np.array_equal(small_networks.redraw_frame(one, frame, lines=16), frame)


@pytest.mark.parametrize("task", list(Task))
def test_every_move_moves_only_its_own_networks(task: Task, small: None) -> None:
    players = minimax._Players(Contest(task=task, steps=9, batch=4), films(), "cpu")
    drawing = [*players.unet.parameters(), *players.reader.parameters()]
    watching = list(players.watchers.parameters())

    def held() -> tuple[list[Any], ...]:
        return tuple([p.detach().clone() for p in some] for some in (drawing, watching))

    def differ(before: list[Any], after: list[Any]) -> bool:
        return any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))

    start = held()
    players.draw(is_warm=True)
    drawn = held()
    assert differ(start[0], drawn[0]) and not differ(start[1], drawn[1])
    players.look()
    looked = held()
    assert not differ(drawn[0], looked[0]) and differ(drawn[1], looked[1])


@pytest.mark.parametrize(("misread", "counts"), [(0.0, True), (40.0, False)])
def test_watchers_count_only_where_the_reader_reads(
    misread: float, counts: bool, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    contest = Contest(task=Task.ALF, steps=9, batch=4, bearable=9.0)
    players = minimax._Players(contest, films(), "cpu")
    asked, blindness = [], players._blindness
    monkeypatch.setattr(players, "_blindness", lambda drawn: asked.append(1) or blindness(drawn))
    players.misread = misread
    players.draw(is_warm=True)
    assert bool(asked) == counts


def test_a_crop_shows_what_is_in_the_box() -> None:
    frames = torch.zeros(2, 3, 20, 40)
    frames[0, :, 10:15, 20:30] = 1.0  # x, y and side in shares: an oblong, for frames that are one
    crops = crop_person(frames, torch.tensor([[0.625, 0.625, 0.25], [0.5, 0.5, 0.25]]))
    assert crops.shape == (2, 3, 64, 64)
    assert crops[0].mean() > 0.9 and crops[1].max() == 0


@pytest.mark.slow
def test_looks_that_show_are_told_and_hidden_ones_are_not() -> None:
    every = films(60)
    learned, unseen = every.part(np.arange(44)), every.part(np.arange(44, 60))
    study = anonymise.Study(epochs=1, looks_epochs=8, seeds=1, where="cpu")

    def told(redraw: anonymise.Redraw) -> anonymise.Told:
        parts = [anonymise.seen(part, redraw, where="cpu") for part in (learned, unseen)]
        return anonymise.told(*parts, study, progress=quiet)

    shown, hidden = told(lambda pictures: pictures), told(torch.zeros_like)
    assert shown.mean_looks.mean > 0.85 and shown.activity.tested == 16
    assert hidden.mean_looks.mean <= max(0.75, shown.guessed["shirt"])


def test_films_are_looked_at_as_bytes_of_the_right_people() -> None:
    seen = anonymise.seen(films(20), lambda pictures: pictures, where="cpu")
    assert seen.films.shape == (20, 3, 16, 64, 64) and seen.films.dtype == np.uint8
    bright = seen.crops.mean(axis=(1, 2, 3, 4)) > 120
    assert np.array_equal(bright, films(20).looks[:, 0] == 1)


def test_no_two_tenths_have_the_same_people() -> None:
    people = np.array([f"s{number % 30:03d}" for number in range(200)])
    one, other = anonymise.tenth(people, 8), anonymise.tenth(people, 9)
    assert len(set(people[one])) == len(set(people[other])) == 3
    assert not (one & other).any() and not set(people[other]) & set(people[~other])


@pytest.mark.slow
def test_the_recipe_draws_public_people_and_writes_weights(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anonymise, "public_films", lambda videos, device, progress: films())
    monkeypatch.setattr(anonymise, "_EPOCHS", 1)
    plan = Anonymise(task="alf", out=tmp_path / "alf.safetensors", steps=2, videos=48, runs=1)
    answer = plan.run()
    assert "nobody private was read" in answer.lines[0] and "| activity |" in answer.lines[-1]
    assert set(answer.data["after"]["looks"]) == {"shirt"}
    weight_files.load_weights(small_networks.UNet("alf"), plan.out, keep_head=True)


@pytest.mark.slow
def test_films_are_of_many_public_people_in_worlds_of_their_own() -> None:
    pytest.importorskip("numba")
    found = anonymise.public_films(24, "cpu", quiet)
    assert found.frames.shape == (24, 16, 96, 96, 3) and found.looks.shape == (24, 6)
    assert set(found.attributes) == {"skin_tone", "gender", "build", "hair", "clothing", "face"}
    assert set(found.activity) == set(range(24)) and len(set(found.people)) == 24
    assert all(name.startswith("1500/") for name in found.people)
    assert (found.boxes[..., 2] > 0.1).all() and (found.boxes[..., 2] < 2).all()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"videos": 3}, "videos from 48 to 648000, got videos=3"),
        ({"bearable": 0.0}, "bearable=0.0"),
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
