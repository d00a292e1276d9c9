"""What recipes share: no path in a command, honest spreads, splits, and a journal."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from few_films import Few
from masquerade import catalog
from masquerade.cli.recipe import COMMANDS
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.recipes import bench

pytest.importorskip("torch")
RECIPES = ("mask_dp", "pose", "tempdiff", "video_dprp")


@dataclass(frozen=True, kw_only=True)
class Split(Few):
    """Films with a choice of splits."""

    split: Literal["train", "test"] | None = None


def with_paths(options: Any) -> Any:
    """The same, with a path of somebody's wherever one fits."""
    paths = {
        each.name: Path(f"/home/somebody/{each.name}")
        for each in dataclasses.fields(options)
        if "Path" in str(each.type)
    }
    return dataclasses.replace(options, **paths)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("data", catalog.names("datasets"))
def test_no_command_names_a_path_of_the_users(recipe: str, data: str) -> None:
    plan, given = (
        with_paths(catalog.example(*one)) for one in (("recipes", recipe), ("data", data))
    )
    said = bench.command(plan, given)
    assert "somebody" not in said and "/" not in said
    assert said.startswith(f"masquerade recipe {recipe}") and ("PATH" in said or data == "stage")
    assert ("--data" in said) is (data != "stage")


def test_a_command_can_be_typed_again(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type(catalog.example("recipes", "tempdiff"))
    plan = kind(sizes=(10, 30), queries=(7,), public_subjects="8, 9", quick=True)
    said = bench.command(plan, Stage(seed=3, shares_subjects=True))
    assert said == (
        "masquerade recipe tempdiff --seed 3 --shares-subjects --sizes 10 30 --queries 7 "
        "--public-subjects '8, 9' --quick"
    )
    import shlex

    given: list[Any] = []
    monkeypatch.setattr(kind, "run", lambda plan, data: given.extend((plan, data)) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        command(*shlex.split(said)[1:])
    assert given == [plan, Stage(seed=3, shares_subjects=True)]


def test_a_spread_divides_by_one_less_than_there_are_and_one_run_has_none() -> None:
    shares = (0.5, 0.52, 0.57)
    assert bench.spread(shares) == pytest.approx(np.std(shares) * math.sqrt(3 / 2))
    assert math.isnan(bench.spread((0.5,))) and bench.percent((0.5,)) == "50.0"
    assert math.isnan(bench.bars_of("a", [(0.5,)]).spreads[0])


def test_splits_are_two_and_one_part_is_refused() -> None:
    train, test = bench.parts(Split())
    assert (train.split, test.split) == ("train", "test")  # type: ignore[attr-defined]
    for one in (Few(), Split(split="test")):
        with pytest.raises(BadInput, match=r"got one part of .*; leave out --split"):
            bench.parts(one)
    with pytest.raises(BadInput, match="data set of videos"):
        bench.parts(Stage(kind="signals"))  # type: ignore[arg-type]


def test_curves_keep_the_order_of_names_and_run_from_left_to_right() -> None:
    found = bench.curves([("b", 2.0, 1.0), ("a", 0.0, 0.0), ("b", 1.0, 5.0)])
    assert [line.name for line in found] == ["b", "a"]
    assert found[0].x.tolist() == [1, 2] and found[0].y.tolist() == [5, 1]


def test_a_journal_is_of_one_recipe_one_data_set_and_one_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = with_paths(catalog.example("recipes", "mask_dp"))
    plan = dataclasses.replace(plan, out=tmp_path)
    journal = bench.Journal.of(plan, Stage())
    assert journal.measured("a", lambda: (1, math.inf)) == [1, math.inf]
    again = bench.Journal.of(dataclasses.replace(plan, page=None), Stage())
    assert again.measured("a", lambda: 1 / 0) == [1, math.inf] and again.seconds > again.before > 0
    text = (tmp_path / "cells.json").read_text()
    kept = {"run", "seconds", "machine", "cells"}
    assert "somebody" not in text and set(json.loads(text)) == kept
    assert not bench.Journal.of(dataclasses.replace(plan, batch=9), Stage()).held
    assert not bench.Journal.of(plan, Stage(seed=1)).held
    monkeypatch.setattr(bench, "__version__", "another")
    assert not bench.Journal.of(plan, Stage()).held
    journal.end()
    assert not list(tmp_path.iterdir())


def test_every_recipe_is_found_and_described() -> None:
    assert set(COMMANDS) == {
        *("anonymise", "audits", "demo", "figures", "gallery", "mask_dp", "papers"),
        *("place_training", "pose", "ppedcrf", "pretrain", "tempdiff", "video_dprp", "world"),
    }
    assert list(COMMANDS) == sorted(COMMANDS) and len(COMMANDS) == 14
    for name, recipe in COMMANDS.items():
        assert recipe.__module__.endswith(f".{name}") and recipe.__doc__
    with pytest.raises(ValueError, match="python -m experiments avatar in the project"):
        COMMANDS["avatar"]
    with pytest.raises(ValueError, match="entry 'fims'; choose from anonymise, audits"):
        COMMANDS["fims"]
