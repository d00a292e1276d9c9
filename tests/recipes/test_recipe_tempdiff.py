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
from masquerade.datasets.watch import Watch
from masquerade.datasets.wisdm import Wisdm
from masquerade.errors import BadInput
from masquerade.recipes import bench
from masquerade.recipes.demo import sensor_model
from masquerade.recipes.tempdiff import TempdiffTables, cells
from masquerade.recipes.tempdiff import exam as exams
from masquerade.recipes.tempdiff import run as runs
from masquerade.recipes.tempdiff.exam import Claimed, Exam, Taught, claimed, labels_of, taught
from masquerade.recipes.tempdiff.page import markdown, plots
from masquerade.recipes.tempdiff.parts import ChosenSignals, SignalParts, narrowed
from masquerade.recipes.tempdiff.rows import Examined, Facts, Marks, Pupils
from masquerade.recipes.tempdiff.says import sentences
from masquerade.recipes.tempdiff.settings import PAPER, PRESETS
from masquerade.training import teach

pytest.importorskip("torch").set_num_threads(1)

THREE = (0.0, 0.005, 0.01)  # a spread
TINY: dict[str, Any] = dict(
    sizes=(2, 4),
    gammas=(0.5,),
    queries=(20,),
    person_queries=10,
    epsilons=(2.0,),
    windows=(10, 20),
    teacher="nearest",
    hidden=4,
    seeds=1,
    num_processes=1,
    student_epochs=1,
)


def around(share: float) -> tuple[float, ...]:
    return tuple(share + each for each in THREE)


def found(*, votes: float = 0.80, lnmax: float = 0.6, pate: float = 0.6) -> Examined:
    claim = Claimed(teacher=134.66, person=397.51, figure=1.2, at_8_moments=1.439)
    published = Pupils(who="tempdiff", by="time", teachers=50, queries=1000, gamma=0.3)
    person = Pupils(who="tempdiff", by="subject", teachers=210, queries=100, epsilon=2.0)
    gnmax = replace(person, aggregator="gnmax")
    helped = {"is_alone": False}
    scores = {
        published: Marks(right=around(0.9), top_1=around(0.7), claims=(claim,) * 3),
        replace(published, who="pate"): Marks(
            right=around(0.8), top_1=around(0.7), claims=(claim,) * 3
        ),
        gnmax: Marks(right=around(0.9), top_1=around(0.6)),
        replace(gnmax, **helped): Marks(right=around(0.9), top_1=around(votes)),
        replace(person, aggregator="lnmax", **helped): Marks(top_1=around(lnmax)),
        Pupils(who="dp_sgd", epsilon=2.0): Marks(top_1=around(0.25)),
        Pupils(who="true labels", queries=1000): Marks(top_1=around(0.75)),
        Pupils(who="nearest mean of few labels"): Marks(top_1=around(0.4)),
    }
    for alone in (True, False):
        scores[Pupils(who="few labels", is_alone=alone)] = Marks(top_1=around(0.3))
        scores[Pupils(who="no privacy", is_alone=alone)] = Marks(top_1=around(0.9))
    facts = Facts(reach=(2, 2, 3), teacher=THREE, agreement=around(0.7), failed=(0, 0, 0))
    return Examined(
        ensembles={
            ("tempdiff", "time", 50): facts,
            ("pate", "time", 50): replace(facts, agreement=around(pate)),
        },
        scores=scores,
        tested=3000,
        people=210,
        queries=(1000,),
        person_queries=100,
        labelled=1,
        delta=1e-5,
        seeds=3,
        notes=PAPER.left_open,
    )


@pytest.mark.parametrize(
    ("lnmax", "word"), [(0.6, "ahead"), (0.8, "not told apart"), (0.9, "behind")]
)
def test_whether_one_aggregator_is_ahead_is_computed_from_students_alike(
    lnmax: float, word: str
) -> None:
    said = sentences(found(lnmax=lnmax))
    how = "students that learned from other public windows too"
    assert f"gnmax, {how}: against lnmax, {word} at 2." in said


@pytest.mark.parametrize(
    ("pate", "word"), [(0.68, "ahead"), (0.7, "not told apart"), (0.72, "behind")]
)
def test_whether_temporal_partitioning_helps_is_computed_from_several_teachings(
    pate: float, word: str
) -> None:
    asked = "Agreement of TEMPDIFF's teachers against PATE's (n = 3 teachings)"
    assert f"{asked}: by time, {word} at 50 teachers." in sentences(found(pate=pate))


def test_students_are_compared_with_those_that_learned_in_the_same_way() -> None:
    said = " ".join(sentences(found()))
    assert "DP-SGD on the signals, both without other public windows: ahead at 2." in said
    assert "against students of the true labels of their queries, behind at 1000 queries" in said
    assert "against public data alone, ahead at 1000 queries" in said
    assert "their nearest mean 40.5 ± 0.5; students that learned the labels alone 30.5" in said
    assert "without privacy 90.5 ± 0.5, 50.0 points more" in said
    assert "of 1 pairs not told apart in 1" in said
    assert "3000 windows of other people tested" in said and "over 3 teachings" in said


def test_what_differs_between_epsilons_is_said_of_each() -> None:
    """One word for all of them would hide that one is ahead at some and behind at others."""
    both = found()
    (low,) = both.find(aggregator="lnmax")
    (high,) = both.find(aggregator="gnmax", is_alone=False)
    more = {replace(low, epsilon=8.0): 0.9, replace(high, epsilon=8.0): 0.8}
    marks = {cell: Marks(top_1=around(share)) for cell, share in more.items()}
    said = " ".join(sentences(replace(both, scores={**both.scores, **marks})))
    assert "against lnmax, ahead at 2, behind at 8" in said


def test_a_page_is_short_enough_to_be_read() -> None:
    assert len(sentences(found())) <= 12
    assert len(markdown(found()).splitlines()) <= 60


def test_an_upper_bound_for_each_unit_stands_beside_the_printed_one() -> None:
    shown = markdown(found())
    row = "| tempdiff | 1000 | 50 | 0.3 | 1.4, an estimate | 134.7 | 397.6 | 70.5 ± 0.5 | 75.5"
    assert row in shown, "true ones are rounded up"
    assert "| epsilon at most, one teacher's data |  |  |  | 134.7 |" in shown
    assert "| epsilon at most, one person |  |  |  | 397.6 |" in shown
    assert "depends on the votes: it is private itself, and no guarantee" in shown
    assert "epsilon for one teacher's data and for one person" in shown
    assert "| dp_sgd | 25.5 ± 0.5 | - |" in shown
    for sentence in PAPER.left_open:
        assert sentence in shown
    assert json.loads(json.dumps(found().plain()))["people"] == 210
    assert set(plots(found(), "a")) == {"a_published", "a_person"}


def test_the_papers_setting_has_the_papers_numbers_and_says_what_it_leaves_open() -> None:
    plan = TempdiffTables(setting="paper").plan
    assert plan.sizes == (10, 30, 50, 100) and plan.gammas == (0.01, 0.1, 0.3, 0.5)
    assert plan.queries == (1000, 1600) and plan.delta == 1e-5
    assert (plan.by, plan.overlap, plan.teacher, plan.unlabelled) == ("time", 0.0, "lstm", "none")
    assert plan.seeds >= 3 and plan.notes == PAPER.left_open and len(plan.notes) > 3
    for name in PRESETS["paper"].values:
        assert hasattr(TempdiffTables(), name), "every number is a flag"
    other = TempdiffTables(setting="paper", gammas=(0.2,), learning_rate=0.5, overlap=0.25).plan
    method = other.method("tempdiff", 10, "time")
    assert other.gammas == (0.2,) and (method.learning_rate, method.overlap) == (0.5, 0.25)
    assert not cells.shipped(replace(other, epsilons=()), 50)


def test_every_cell_of_the_papers_figures_is_there() -> None:
    plan = TempdiffTables().plan
    cell_list = cells.published(plan)
    first = [cell for cell in cell_list if cell.queries == 1000]
    assert len(first) == 2 * 4 * 4 and len(set(cell_list)) == len(cell_list)
    assert {cell.teachers for cell in cell_list if cell.queries == 1600} == {100}
    shipped = cells.shipped(plan, 211)
    assert {cell.teachers for cell in shipped} == {210, 100, 50, 0}, "a multiple of the windows"


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"sizes": (9,)}, "multiples of 2 windows"),
        ({"gammas": ()}, "--gammas"),
        ({"gammas": (0.0,)}, "gamma"),
        ({"queries": (0,)}, "queries"),
        ({"seeds": 0}, "seeds"),
        ({"overlap": 1.0}, "overlap"),
    ],
)
def test_wrong_numbers_are_refused(wrong: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        TempdiffTables(**wrong)


def test_the_command_that_is_printed_gives_the_same_plan() -> None:
    plan = TempdiffTables(sizes=(10, 30), by="record", public_subjects="8,9")
    said = bench.command(plan, Watch())
    assert said == (
        "masquerade recipe tempdiff --data watch --sizes 10 30 --by record --public-subjects 8,9"
    )
    data = Wisdm(root=Path("here"), worn="watch", on_grid=True)
    said = bench.command(replace(plan, setting="paper", device="cuda", quick=True), data)
    assert "--data wisdm --root PATH --worn watch --on-grid --setting paper --sizes" in said
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


def test_another_teaching_deals_the_same_people_to_other_teachers() -> None:
    world = world_of(FewSignals(records=2))
    orders = []
    for seed in range(4):
        dealt = world.dealt(seed)
        names = [signal.subject for signal in dealt.signals]
        assert sorted(map(str, names)) == sorted("aabbccddeeff"), "nobody is lost"
        assert names[::2] == names[1::2], "a person's recordings stay together"
        assert [labels.subject for labels in dealt.private.labels] == names
        orders.append(tuple(names))
        one = next(signal for signal in dealt.private if signal.subject == "b")
        assert np.array_equal(one.values, world.private[2].values)
    assert len(set(orders)) > 1 and world.dealt(0).people == 6


def test_only_the_channels_that_are_asked_for_are_kept() -> None:
    chosen = ChosenSignals(whole=PRIVATE, places=(1, 0), channels="y")
    assert chosen[0].channels == ("y",) and chosen[0].subject == "b"
    assert np.array_equal(chosen[1].values[:, 0], PRIVATE[0].values[:, 1])
    with pytest.raises(BadInput, match="begin with z, got x, y"):
        narrowed(PRIVATE[0], "z")


def test_few_labels_are_as_many_of_each_class_as_were_asked_for() -> None:
    windows, truth = world_of(PRIVATE).few(20, 2, seed=0, overlap=0.0)
    assert np.bincount(truth).tolist() == [2, 2, 2] and windows.shape == (6, 20, 2)


@pytest.mark.parametrize(("records", "windows"), [(1, 8), (3, 3), (40, 1)])
def test_dp_sgd_hears_all_recordings_of_a_person(records: int, windows: int) -> None:
    data = FewSignals(records=records, length=60)
    method = runs.dp_sgd(Pupils(who="dp_sgd", epsilon=2.0), world_of(data), 0)
    assert (method.recordings, method.segments, method.epsilon) == (records, windows, 2.0)


def test_a_confident_vote_asks_all_queries_and_answers_no_more_than_the_others() -> None:
    one = held()
    counts = np.tile(np.array([[1000, 0, 0]]), (20, 1))
    sure = replace(one, votes=np.zeros((1000, 20), np.int64))
    assert np.array_equal(sure.counts, counts)
    answers = labels_of(sure, "confident", 8.0)
    assert len(answers) == 20 and (answers >= 0).sum() == 10 and set(answers) == {-1, 0}
    for name in ("gnmax", "gumbel", "lnmax"):
        assert labels_of(sure, name, 8.0).tolist() == [0] * 10


def test_a_person_who_reaches_more_teachers_pays_more_and_the_papers_figure_does_not_see_it() -> (
    None
):
    one, far = claimed(held(), 0.1), claimed(replace(held(), reach=3), 0.1)
    assert one.teacher == far.teacher and far.person > one.person >= one.teacher
    assert one.figure == far.figure <= one.at_8_moments
    fewer = claimed(held(), 0.1, 5)
    assert fewer.teacher < one.teacher, "fewer labels cost less"


def test_labels_as_published_have_the_gamma_of_their_cell() -> None:
    votes = np.zeros((10, 20), np.int64)
    one = {("tempdiff", "time", 4): replace(held(), votes=votes)}
    cell = Pupils(who="tempdiff", by="time", teachers=4, queries=20, gamma=20.0)
    assert (runs.answered(cell, one)[1] == 0).all()
    noisy = [runs.answered(replace(cell, gamma=1e-4), one)[1] for _ in range(10)]
    assert (np.concatenate(noisy) == 0).mean() < 0.6


def test_the_nearest_mean_of_labelled_windows_knows_what_can_be_told_apart() -> None:
    world = world_of(PRIVATE)
    exam = Exam.of(world, tempdiff())
    windows, truth = world.few(20, 5, seed=0)
    right = exams.nearest_accuracy(exam, windows, truth)
    assert right > 0.8 > exams.nearest_accuracy(exam, windows, np.roll(truth, 5))


@pytest.fixture(scope="module", autouse=True)
def _world(world_cache: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASQUERADE_CACHE", str(world_cache))
        yield


def flags(**fields: Any) -> tuple[str, ...]:
    """The words of a command for these fields."""
    words: list[str] = []
    for name, value in fields.items():
        many = value if isinstance(value, tuple) else (value,)
        words += [f"--{name.replace('_', '-')}", *map(str, many)]
    return tuple(words)


def test_a_tiny_run_writes_its_tables(command: Any, tmp_path: Path) -> None:
    words = flags(**TINY | {"windows": (64, 96), "out": tmp_path, "page": tmp_path / "p.md"})
    done = command("recipe", "tempdiff", "--wearers", "18", *words, "--json")
    assert done.code == 0, done.err
    assert {one["method"] for one in done.json["ensembles"]} == {"tempdiff", "pate"}
    assert {one["by"] for one in done.json["ensembles"]} == {"time", "subject"}
    who = [one["who"] for one in done.json["scores"]]
    assert who.count("dp_sgd") == 1 and "no privacy" in who and done.json["people"] == 6
    assert all(one["claims"][0]["person"] > 0 for one in done.json["scores"] if one["gamma"])
    page = (tmp_path / "p.md").read_text()
    assert "TEMPDIFF with nearest neighbours: Stage" in page and "not known from one run" in page
    assert "epsilon for one teacher's data, and one person" in page


def test_a_stopped_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = TempdiffTables(out=tmp_path, **TINY)
    plan, world = recipe.plan, world_of(PRIVATE)
    real, learned = teach.School.votes, exams.student_accuracy
    asked: list[int] = []
    monkeypatch.setattr(exams, "private_accuracy", lambda *given, device: 0.5)
    monkeypatch.setattr(teach.School, "votes", lambda one: asked.append(1) or real(one))

    def stopped(*given: Any, seed: int, is_alone: bool = False) -> float:
        asked.append(2)
        if asked.count(2) == 4:
            raise KeyboardInterrupt
        return learned(*given, seed=seed, is_alone=is_alone)

    monkeypatch.setattr(exams, "student_accuracy", stopped)
    with pytest.raises(KeyboardInterrupt):
        runs.measure(plan, world, journal=bench.Journal.of(recipe, PRIVATE))
    journal = bench.Journal.of(recipe, PRIVATE)
    ensembles = [name for name in journal.held if name.startswith("votes of")]
    assert len(journal.held) == len(ensembles) + 3 == asked.count(1) + 3
    known = {name: one["top_1"] for name, one in list(journal.held.items())[len(ensembles) :]}
    measured = runs.measure(plan, world, journal=journal)
    assert asked.count(1) == len(ensembles), "no ensemble is taught twice"
    assert [one.top_1[0] for one in list(measured.scores.values())[:3]] == list(known.values())


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
