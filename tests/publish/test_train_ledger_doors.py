"""A budget on recordings, a run that is charged to it, and a grid, from the command line."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import video_files as maker
from masquerade.datasets.stage import Stage
from masquerade.ledger import Ledger
from masquerade.publish.models import make_method
from masquerade.training.units import methods_of

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

TINY = ("--data", "stage", "--subjects", "6", "--places", "4", "--videos", "36", "--frames", "16")
TINY += ("--height", "64", "--width", "64")
RUN = ("--method", "dp_sgd", "--epsilon", "2", "--unit", "video")
RUN += ("--part", "head", "--batch", "4", "--epochs", "2", "--from-scratch")
OPEN = ("--epsilon", "20", "--delta", "1e-5", "--filter", "renyi")


@pytest.fixture(autouse=True, scope="module")
def _world(world_cache: Path) -> Iterator[None]:
    """The tests' own cache; every recording is made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASQUERADE_CACHE", str(world_cache))
        patch.setattr(Stage, "_load", cache(Stage._load))
        yield


@pytest.fixture
def book(tmp_path: Path, command: Any) -> Path:
    """A ledger with the twelve private recordings of a small Stage."""
    path = tmp_path / "b.db"
    assert command("ledger", "open", "ward", "--ledger", path, *OPEN, "--unit", "video").code == 0
    done = command("ledger", "enroll", "ward", "--ledger", path, *TINY)
    assert done.code == 0, done.err
    assert "12 recordings of the split train" in done.out
    return path


def test_a_run_is_charged_and_shown(book: Path, command: Any, tmp_path: Path) -> None:
    target = tmp_path / "m.safetensors"
    dry = command("train", target, *RUN, *TINY, "--ledger", book, "--dry-run")
    assert dry.code == 0 and "The ledger affords it" in dry.out and not target.exists()
    done = command("train", target, *RUN, *TINY, "--ledger", book, "--json")
    assert done.code == 0, done.err
    assert done.json["ledger_sequence"] == 14
    said = command("ledger", "show", "--ledger", book).out
    assert "12 holders" in said and "more releases like the last one" in said
    assert command("ledger", "verify", "--ledger", book, "--receipts", tmp_path).code == 0
    assert command("receipt", "check", target).code == 0
    assert "dp_sgd charged to ward" in command("ledger", "history", "--ledger", book).out


def test_a_grid_is_paid_for_or_not_begun(book: Path, command: Any, tmp_path: Path) -> None:
    target = tmp_path / "m.safetensors"
    grid = ("--grid", "learning_rate=0.1,0.5")
    refused = command("train", target, *RUN, *TINY, *grid)
    assert refused.code == 2 and "Expected --ledger with --grid" in refused.err
    many = ("--grid", "epsilon=2,40")
    assert command("train", target, *RUN, *TINY, *many, "--ledger", book).code == 3
    assert not list(tmp_path.glob("m*")) and len(Ledger(book).read_entries()) == 13
    done = command("train", target, *RUN, *TINY, *grid, "--ledger", book, "--json")
    assert done.code == 0, done.err
    assert [run["fields"] for run in done.json["runs"]] == [
        {"learning_rate": 0.1},
        {"learning_rate": 0.5},
    ]
    assert {path.name for path in tmp_path.glob("m*.safetensors")} == {
        "m-1.safetensors",
        "m-2.safetensors",
    }
    assert [entry.kind for entry in Ledger(book).read_entries()[13:]] == ["reserve", "settle"] * 2
    (tmp_path / "m-2.safetensors").unlink()
    again = command("train", target, *RUN, *TINY, *grid, "--ledger", book, "--json")
    assert again.code == 0, again.err
    assert [run["ledger_sequence"] for run in again.json["runs"]] == [14, 18], (
        "only what is missing"
    )


def test_enrolling_needs_an_account_and_people_where_they_are_the_unit(
    book: Path, command: Any, tmp_path: Path
) -> None:
    assert command("ledger", "enroll", "nobody", "--ledger", book, *TINY).code == 2
    command("ledger", "open", "people", "--ledger", book, *OPEN, "--unit", "subject")
    assert command("ledger", "enroll", "people", "--ledger", book, *TINY).code == 0
    held = Ledger(book).read_book().holders
    assert len({who for (name, _), found in held.items() if name == "people" for who in found}) == 2


def test_a_file_that_was_added_is_known_when_it_is_learned_from(
    command: Any, tmp_path: Path
) -> None:
    films = tmp_path / "films"
    for number, activity in enumerate(("walk", "walk", "run", "run")):
        (films / activity).mkdir(parents=True, exist_ok=True)
        frames = maker.moving(16, 64, 64, seed=number)
        maker.make(films / activity / f"{number}.mkv", frames, maker.KINDS["h264.mkv"])
    book = tmp_path / "b.db"
    command("ledger", "open", "ward", "--ledger", book, *OPEN, "--unit", "video")
    files = sorted(films.rglob("*.mkv"))
    assert command("ledger", "add", "ward", *files, "--ledger", book).code == 0
    words = ("train", tmp_path / "m.safetensors", *RUN, "--data", "folder", "--root", films)
    done = command(*words, "--ledger", book, "--batch", "2")
    assert done.code == 0, done.err
    assert len(Ledger(book).read_entries()[5].payload["charges"]) == 4


def test_a_grid_has_every_combination_and_keeps_one_promise() -> None:
    method = make_method("dp_sgd", epsilon=1.0, unit="video")
    found = methods_of(method, "learning_rate=0.1,0.5 batch=8,16")
    assert [each.batch for _, each in found] == [8, 16, 8, 16]
    assert {each.learning_rate for _, each in found} == {0.1, 0.5}
    for wrong in ("", "unit=video", "batch=a", "batch", "batch=8,8", "batch=8 batch=9", "x=1"):
        with pytest.raises(ValueError, match=r"Expected|field"):
            methods_of(method, wrong)
    with pytest.raises(ValueError, match="at most 64"):
        methods_of(method, "batch=" + ",".join(map(str, range(1, 66))))
