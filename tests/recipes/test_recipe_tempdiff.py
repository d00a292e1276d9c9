"""TEMPDIFF's figures: what is said is computed, and a tiny run goes through."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from few_signals import PRIVATE, PUBLIC, FewSignals, tempdiff
from masquerade.data.watch import Watch
from masquerade.data.wisdm import Wisdm
from masquerade.errors import BadInput
from masquerade.recipes import bench
from masquerade.recipes.demo import sensor_model
from masquerade.recipes.tempdiff import TempdiffTables
from masquerade.recipes.tempdiff import exam as exams
from masquerade.recipes.tempdiff import run as runs
from masquerade.recipes.tempdiff.exam import (
    Claimed,
    Exam,
    SignalParts,
    Taught,
    claimed,
    labels_of,
    taught,
)
from masquerade.recipes.tempdiff.page import markdown, plots, sentences
from masquerade.recipes.tempdiff.rows import Examined, Students
from masquerade.train.ensemble.teachers import Statistics
from masquerade.train.tempdiff import Tempdiff

pytest.importorskip("torch").set_num_threads(1)


def found(*, near: float = 0.80, truth: float = 0.82, pate: float = 0.6) -> Examined:
    scores = [
        Students(
            who="tempdiff",
            teachers=10,
            aggregator=name,
            epsilon=epsilon,
            right=(0.9,),
            top_1=(near, near),
        )
        for name in ("gnmax", "gumbel", "lnmax")
        for epsilon in (1.0, 2.0)
    ]
    plain = Students(who="true labels", teachers=0, aggregator="no noise", epsilon=None)
    scores += [
        replace(plain, right=(1.0,), top_1=(truth,)),
        replace(plain, who="true labels alone", top_1=(0.5,)),
        replace(plain, who="dp_sgd", aggregator="none", epsilon=2.0, top_1=(0.25,)),
    ]
    return Examined(
        ensembles={
            ("tempdiff", 10): (1, 0.5, Statistics(agreement=0.7, failed=0)),
            ("pate", 10): (1, 0.5, Statistics(agreement=pate, failed=2)),
        },
        noise={("tempdiff", 10): (0.1, 0.9), ("pate", 10): (0.1, 0.8)},
        gammas=(0.01, 0.1),
        scores=tuple(scores),
        estimates={0.1: Claimed(teacher=27.701, person=55.4, figure=1.2, at_8_moments=1.439)},
        queries=50,
        people=40,
        unit="subject",
    )


@pytest.mark.parametrize(("near", "word"), [(0.80, "Yes"), (0.70, "No")])
def test_whether_the_student_is_near_is_computed(near: float, word: str) -> None:
    said = " ".join(sentences(found(near=near)))
    assert f"of the same queries? {word}: {100 * near:.1f} against 82.0" in said
    assert "over PATE's? Yes: 70.0 against 60.0 with 10 teachers" in said
    assert "over PATE's? No: 70.0 against 75.0" in " ".join(sentences(found(pate=0.75)))
    assert f"the public data alone? Yes: {100 * near:.1f} against 50.0" in said
    assert "at epsilon 2: 25.0, votes" in said


def test_the_papers_figure_is_never_called_a_guarantee() -> None:
    shown = markdown(found())
    assert "| 0.1 | 27.71 | 55.4 | 1.2, an estimate | 1.439, an estimate |" in shown
    assert "it is private itself and no guarantee" in shown
    assert "| dp_sgd | - | 25.0 | - |" in shown
    assert json.loads(json.dumps(found().plain()))["people"] == 40
    assert set(plots(found(), "a")) == {"a_noise", "a_votes", "a_teachers"}


def test_numbers_of_teachers_must_fit_the_windows() -> None:
    with pytest.raises(ValueError, match="multiples of 2 windows"):
        TempdiffTables(sizes=(9,))


def test_the_papers_numbers_of_teachers_are_kept_up_to_one_a_person() -> None:
    plan = TempdiffTables()
    assert plan.chosen(210) == (10, 30, 50, 100, 210)
    assert plan.chosen(41) == (10, 30, 40)
    assert replace(plan, by="time").chosen(7) == (10, 30, 50, 100)
    assert replace(plan, quick=True).chosen(210) == (100, 210)
    assert replace(plan, sizes=(8, 4)).chosen(3) == (4, 8)
    three = replace(plan, windows=(64, 96, 128))
    for by, sizes in (("time", (9, 30, 48, 99)), ("subject", (6,))):
        found = replace(three, by=by).chosen(7)
        assert found == sizes and all(three.method(n, Tempdiff).teachers == n for n in found)
    with pytest.raises(ValueError, match="at least 3 private people, one for each window, got 2"):
        three.chosen(2)


def test_the_command_that_is_printed_gives_the_same_plan() -> None:
    plan = TempdiffTables(sizes=(10, 30), by="record", unit="shard", public_subjects="8,9")
    said = bench.command(plan, Watch())
    assert said == (
        "masquerade recipe tempdiff --data watch --sizes 10 30 --by record --unit shard "
        "--public-subjects 8,9"
    )
    data = Wisdm(root=Path("here"), worn="watch", on_grid=True)
    said = bench.command(replace(plan, device="cuda", quick=True), data)
    assert "--data wisdm --root PATH --worn watch --on-grid --sizes" in said
    assert said.endswith("--device cuda --quick") and "here" not in said


def held(data: FewSignals = PRIVATE, queries: int = 10) -> Taught:
    method = tempdiff(teacher="nearest", queries=queries)
    return taught(world_of(data), method, queries=2 * queries)


def world_of(data: FewSignals) -> SignalParts:
    public = list(PUBLIC)
    return SignalParts(private=data, signals=list(data), public=public, tested=public, classes=3)


def test_fewer_windows_than_are_to_be_asked_are_refused() -> None:
    assert held(queries=57).votes.shape[1] == 57, "confident has no more to ask"
    with pytest.raises(BadInput, match="at least 58 public windows of one activity to ask, got 57"):
        held(queries=58)


@pytest.mark.parametrize(("records", "windows"), [(1, 32), (3, 11), (40, 1)])
def test_dp_sgd_hears_all_recordings_of_a_person(records: int, windows: int) -> None:
    data, plan = (
        FewSignals(records=records, length=60),
        TempdiffTables(queries=10, windows=(10, 20)),
    )
    one, world = held(data), world_of(data)
    case = Students(who="dp_sgd", teachers=0, aggregator="none", epsilon=2.0)
    (_, given, _), _ = runs.call(plan, case, world, one, Exam.of(world, one.method), 0)
    assert (given[3].recordings, given[3].segments) == (records, windows)


def test_a_confident_vote_asks_all_queries_and_answers_no_more_than_the_others() -> None:
    one = held()
    counts = np.tile(np.array([[1000, 0, 0]]), (20, 1))
    sure = replace(one, votes=np.zeros((1000, 20), np.int64))
    assert np.array_equal(sure.counts, counts)
    found = labels_of(sure, "confident", 8.0)
    assert len(found) == 20 and (found >= 0).sum() == 10 and set(found) == {-1, 0}
    for name in ("gnmax", "gumbel", "lnmax"):
        assert labels_of(sure, name, 8.0).tolist() == [0] * 10


def test_a_person_who_reaches_more_teachers_pays_more_and_the_papers_figure_does_not_see_it() -> (
    None
):
    one, far = claimed(held(), 0.1), claimed(replace(held(), reach=3), 0.1)
    assert one.teacher == far.teacher and far.person > one.person >= one.teacher
    assert one.figure == far.figure <= one.at_8_moments


@pytest.fixture(scope="module", autouse=True)
def _world(world_cache: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASQUERADE_CACHE", str(world_cache))
        yield


def test_a_tiny_run_writes_its_tables(command: Any, tmp_path: Path) -> None:
    words = ("--wearers", "18", "--sizes", "2", "4", "--queries", "20", "--teacher", "nearest")
    words += ("--quick", "--windows", "96", "128", "--out", tmp_path, "--page", tmp_path / "p.md")
    done = command(
        "recipe", "tempdiff", *words, "--num-processes", "1", "--student-epochs", "1", "--json"
    )
    assert done.code == 0, done.err
    assert {one["method"] for one in done.json["ensembles"]} == {"tempdiff", "pate"}
    who = [one["who"] for one in done.json["scores"]]
    assert who.count("tempdiff") == 11 and who.count("dp_sgd") == 2 and "no privacy" in who
    assert done.json["people"] == 6
    page = (tmp_path / "p.md").read_text()
    assert "TEMPDIFF with nearest neighbours: Stage" in page
    assert "tempdiff --wearers 18 --sizes 2 4 --queries 20" in page


def test_a_stopped_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = TempdiffTables(
        out=tmp_path,
        sizes=(2, 4),
        queries=10,
        windows=(10, 20),
        teacher="nearest",
        quick=True,
        num_processes=1,
        student_epochs=1,
    )
    world, real, learned = world_of(PRIVATE), exams.teach.School.votes, exams.student_accuracy
    asked: list[int] = []
    monkeypatch.setattr(exams, "private_accuracy", lambda *given, device: 0.5)
    monkeypatch.setattr(exams.teach.School, "votes", lambda one: asked.append(1) or real(one))

    def stopped(*given: Any, seed: int, is_alone: bool = False) -> float:
        asked.append(2)
        if asked.count(2) == 4:
            raise KeyboardInterrupt
        return learned(*given, seed=seed, is_alone=is_alone)

    monkeypatch.setattr(exams, "student_accuracy", stopped)
    with pytest.raises(KeyboardInterrupt):
        runs.measure(plan, world, journal=bench.Journal.of(plan, PRIVATE))
    journal = bench.Journal.of(plan, PRIVATE)
    assert len(journal.held) == 4 + 3, "votes of four ensembles, three students"
    known = {name: one["top_1"] for name, one in list(journal.held.items())[4:]}
    found = runs.measure(plan, world, journal=journal)
    assert asked.count(1) == 4, "no ensemble is taught twice"
    assert asked.count(2) == 4 + 16 - 3, "students that were finished are not taught again"
    assert [one.top_1[0] for one in found.scores[:3]] == list(known.values())


def test_the_demos_table_says_what_each_unit_pays() -> None:
    line = sensor_model.Labelling(
        data="a",
        people=7,
        teachers=20,
        agreement=0.5,
        labels="gnmax",
        right=0.25,
        top_1=0.4,
        teacher_epsilon=2.0,
        person_epsilon=43.0301,
        figure=7.84,
    )
    (row,) = sensor_model.rows([line])
    assert row[-3:] == ("2", "43.04", "7.84 (ESTIMATE, NO GUARANTEE)")
    truth = replace(line, teacher_epsilon=None, person_epsilon=None, figure=None)
    assert sensor_model.rows([truth])[0][-3:] == ("-", "-", "-")
    said = " ".join(sensor_model.sentences([line, line, truth, line, line, truth]))
    assert "epsilon 2 for the data behind one teacher gives 43.04 for a person" in said
