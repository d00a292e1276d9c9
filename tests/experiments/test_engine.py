"""What experiments share: no path in a command, honest spreads, splits, and a journal."""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from experiments import engine
from experiments.claims import format_percent, spread_of
from experiments.engine import Journal, load_experiment, parse_command, split_data, write_command
from experiments.pages import make_bars, make_curves
from few_films import Few
from masquerade import catalog
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput

pytest.importorskip("torch")
EXPERIMENTS = engine.list_experiments()
TABLES = [name for name in EXPERIMENTS if not isinstance(load_experiment(name), engine.Task)]


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


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("data", catalog.list_entries("datasets"))
def test_no_command_names_a_path_of_the_users(name: str, data: str) -> None:
    plan = with_paths(load_experiment(name).settings())
    given = with_paths(catalog.make_example("datasets", data))
    said = write_command(plan, given)
    assert "somebody" not in said and "/" not in said
    assert said.startswith(f"python -m experiments {name}") and ("PATH" in said or data == "stage")
    assert ("--data" in said) is (data != "stage")


def test_a_command_can_be_typed_again() -> None:
    kind = load_experiment("mask_dp").settings
    plan = kind(correlations=(0.0, 0.9), private="person", taught=7, quick=True)  # type: ignore[call-arg]
    said = write_command(plan, Stage(seed=3, shares_subjects=True))
    assert said == (
        "python -m experiments mask_dp --seed 3 --shares-subjects --taught 7 --private person "
        "--correlations 0.0 0.9 --quick"
    )
    _, settings, data = parse_command(shlex.split(said)[3:])
    assert settings == plan and data == Stage(seed=3, shares_subjects=True)
    kind = load_experiment("tempdiff").settings
    plan = kind(sizes=(10, 30), queries=(7,), public_subjects="8, 9", quick=True)  # type: ignore[call-arg]
    said = write_command(plan, Stage(seed=3, shares_subjects=True))
    assert said == (
        "python -m experiments tempdiff --seed 3 --shares-subjects --sizes 10 30 --queries 7 "
        "--public-subjects '8, 9' --quick"
    )
    _, settings, data = parse_command(shlex.split(said)[3:])
    assert settings == plan and data == Stage(seed=3, shares_subjects=True)
    _, settings, _ = parse_command(["mask_dp", "--preset", "paper"])
    assert settings.setting == "paper"


def test_a_spread_divides_by_one_less_than_there_are_and_one_run_has_none() -> None:
    shares = (0.5, 0.52, 0.57)
    assert spread_of(shares) == pytest.approx(np.std(shares) * math.sqrt(3 / 2))
    assert math.isnan(spread_of((0.5,))) and format_percent((0.5,)) == "50.0"
    assert math.isnan(make_bars("a", [(0.5,)]).spreads[0])


def test_splits_are_two_and_one_part_is_refused() -> None:
    train, test = split_data(Split())
    assert (train.split, test.split) == ("train", "test")  # type: ignore[attr-defined]
    for one in (Few(), Split(split="test")):
        with pytest.raises(BadInput, match=r"got one part of .*; leave out --split"):
            split_data(one)
    with pytest.raises(BadInput, match="data set of videos"):
        split_data(Stage(kind="signals"))  # type: ignore[arg-type]


def test_curves_keep_the_order_of_names_and_run_from_left_to_right() -> None:
    found = make_curves([("b", 2.0, 1.0), ("a", 0.0, 0.0), ("b", 1.0, 5.0)])
    assert [line.name for line in found] == ["b", "a"]
    assert found[0].x.tolist() == [1, 2] and found[0].y.tolist() == [5, 1]


def test_a_journal_is_of_one_recipe_one_data_set_and_one_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = with_paths(load_experiment("mask_dp").settings())
    plan = dataclasses.replace(plan, out=tmp_path)
    journal = Journal.open(plan, Stage())
    assert journal.measure_once("a", lambda: (1, math.inf)) == [1, math.inf]
    again = Journal.open(dataclasses.replace(plan, page=None), Stage())
    assert (
        again.measure_once("a", lambda: 1 / 0) == [1, math.inf] and again.seconds > again.before > 0
    )
    text = (tmp_path / "cells.json").read_text()
    kept = {"run", "seconds", "machine", "cells"}
    assert "somebody" not in text and set(json.loads(text)) == kept
    assert not Journal.open(dataclasses.replace(plan, batch=9), Stage()).held
    assert not Journal.open(plan, Stage(seed=1)).held
    monkeypatch.setattr(engine, "__version__", "another")
    assert not Journal.open(plan, Stage()).held
    journal.remove()
    assert not list(tmp_path.iterdir())


def test_every_experiment_is_found_and_described() -> None:
    assert "mask_dp" in EXPERIMENTS
    for name in EXPERIMENTS:
        assert load_experiment(name).settings.__doc__
    with pytest.raises(ValueError, match=r"experiment 'mask_dq' .*; choose from"):
        load_experiment("mask_dq")
