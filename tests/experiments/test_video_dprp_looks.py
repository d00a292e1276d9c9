"""What attackers tell of the people in Video-DPRP's releases: measured, and shown."""

from __future__ import annotations

import re
import runpy
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from experiments import video_dprp, video_dprp_rows
from experiments import video_dprp_page as pages
from experiments.claims import write_sentences
from experiments.engine import Journal, Run
from experiments.video_dprp import VideoDprpSettings
from experiments.video_dprp_rows import Looks, ResultRow, RowPromise, Spec
from masquerade.datasets.stage import Stage
from masquerade.mechanisms.filters import Mosaic
from masquerade.scores import AttackResult, MeasuredRate
from video_dprp_rows import find, made_up

DOCS = Path(__file__).parents[2] / "docs"


def figure(value: float, measure: str = "cMAP") -> MeasuredRate:
    return MeasuredRate(
        measure=measure, value=value, low=value - 0.02, high=value + 0.02, count=140, of="people"
    )


def told(naive: float, adaptive: float, ceiling: float = 0.7) -> Looks:
    return Looks(
        attacks=tuple(
            AttackResult(
                attack="attribute_inference",
                attacker=who,
                published=(figure(value), figure(value / 2, "F1")),
                ceiling=(figure(ceiling), figure(0.6, "F1")),
                floor=(figure(0.3), figure(0.1, "F1")),
                notes=("2 labels: gender, face.",),
            )
            for who, value in (("raw", naive), ("adaptive", adaptive))
        )
    )


def row(name: str, looks: Looks | None, *, table: int = 1, block: int = 12) -> ResultRow:
    made = made_up(name, 8.0, 0.5)
    spec = Spec(table=table, name=name, mechanism="mosaic", fields={"block": block}, at=8.0)
    return replace(made, spec=spec, looks=looks)


def say_looks(rows: list[ResultRow]) -> list[str]:
    return list(write_sentences(find(*rows), [pages.write_looks]))


def test_every_release_stands_once_between_raw_and_random() -> None:
    hides, leaks = told(0.3, 0.31), told(0.35, 0.6)
    rows = [row("mosaic", leaks), row("noise", hides, block=2), row("again", leaks)]
    rows.append(row("model", None, block=3))
    _, words, table = pages.write_looks_section(rows)
    lines = [line.split(" | ") for line in table.splitlines()]
    assert [line[0].removeprefix("| ") for line in lines[2:]] == [
        *("raw recordings", "mosaic", "noise", "random data")
    ]
    assert "140 people" in words and "2 labels: gender, face" in words
    assert lines[3][1:5] == [
        *("35.0 (33.0 to 37.0)", "60.0 (58.0 to 62.0)"),
        *("17.5 (15.5 to 19.5)", "30.0 (28.0 to 32.0)"),
    ]
    [said] = say_looks(rows)
    assert "Not told apart from random data: `noise`" in said and "not stopped: `mosaic`" in said
    rows += [row(f"k = {k}", hides, table=3, block=k) for k in (4, 5)]  # alike, and two releases
    [said] = say_looks(rows)
    assert "`noise`, 2 of the 2 further releases of k and b" in said


def test_each_table_has_a_plot_whose_names_have_the_true_epsilon() -> None:
    claimed = RowPromise(nominal=8.0, really=9.1201e13, claim="8: CLAIMED, NOT VALID")
    rows = [row("noise", told(0.3, 0.31)), row("model", None, block=3)]
    rows.append(replace(row("k = 4, published", told(0.3, 0.4), table=3), promise=claimed))
    drawn = pages.draw_looks(rows)
    assert set(drawn) == {"video_dprp_looks", "video_dprp_looks_3"}
    assert "eps 8, video" in drawn["video_dprp_looks"] and "frontier" in drawn["video_dprp_looks"]
    assert "eps 9.13e+13, claims 8" in drawn["video_dprp_looks_3"]  # rounded up
    assert "model" not in "".join(drawn.values())


def test_the_plots_that_stand_show_the_tables_that_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        video_dprp_rows, "state_release", lambda mechanism, shapes: RowPromise()
    )  # slow
    page = tmp_path / "video_dprp.md"
    page.write_bytes((DOCS / "results/video_dprp.md").read_bytes())
    runpy.run_path(str(DOCS.parent / "benchmarks/looks_plots.py"))["main"](page)
    drawn = {path.name: _kept(path) for path in tmp_path.glob("*.svg")}
    assert len(drawn) == 4
    for name, kept in drawn.items():
        assert _kept(DOCS / "results" / name) == kept, "run python benchmarks/looks_plots.py"
        assert f"]({name})" in page.read_text()


def _kept(path: Path) -> list[str]:
    """What each dot says, without its name."""
    return re.findall(r": (\S+ given away, \S+ kept)<", path.read_text())


def test_an_attack_that_fails_on_raw_recordings_is_said_to_tell_nothing() -> None:
    [said] = say_looks([row("mosaic", told(0.3, 0.3, ceiling=0.31))])
    assert "too weak to say anything" in said
    assert pages.write_looks_section([row("model", None)]) == say_looks([]) == []


def test_each_release_is_attacked_and_noted(
    in_world: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    few = {"subjects": 12, "videos": 24, "bystanders": 0.0, "seed": 3_000}
    monkeypatch.setattr(video_dprp, "_WORLD", few)
    monkeypatch.setattr(video_dprp, "_FEW", {})
    monkeypatch.setattr(video_dprp, "_QUICK_STEPS", 2)
    plan = VideoDprpSettings(quick=True, jobs=1)
    journal = Journal(path=tmp_path / "cells.json")
    run = Run(settings=plan, data=Stage(), journal=journal)
    kinds = [Mosaic(block=2), Mosaic(block=16)]
    shape = (2, 32, 32, 3)
    found = video_dprp.measure_looks(run, kinds, shape)
    assert set(found) == {repr(kind) for kind in kinds}
    for each in found.values():
        naive, adaptive = each.attacks
        assert [one.measure for one in naive.published] == ["cMAP", "F1"]
        assert naive.ceiling == adaptive.ceiling and naive.published[0].of == "people"
    monkeypatch.setattr(video_dprp, "film_people", None)  # a second run has it all in its journal
    again = video_dprp.measure_looks(run, kinds, shape)
    assert again == found
    run = replace(run, settings=replace(plan, looks=False))
    assert video_dprp.measure_looks(run, kinds, shape) == {}
