"""TEMPDIFF's figures: what is said is computed, and a tiny run goes through."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import signals, tempdiff
from experiments.claims import Cells
from experiments.engine import Journal, Run, main, write_command
from experiments.signals import (
    ChosenSignals,
    Exam,
    LabelCost,
    Poll,
    SignalParts,
    choose_channels,
    compute_cost,
    draw_labels,
    poll_teachers,
)
from experiments.tempdiff import (
    PRESETS,
    EnsembleCell,
    Students,
    StudentsCell,
    TempdiffFound,
    TempdiffSettings,
    write_page,
)
from few_signals import PRIVATE, PUBLIC, FewSignals
from few_signals import tempdiff as make_tempdiff
from masquerade.datasets.watch import Watch
from masquerade.datasets.wisdm import Wisdm
from masquerade.errors import BadInput
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


def found(*, votes: float = 0.80, lnmax: float = 0.6, pate: float = 0.6) -> TempdiffFound:
    cost = LabelCost(teacher=134.66, person=397.51, figure=1.2, at_8_moments=1.439)
    published = StudentsCell(
        **{"who": "tempdiff", "by": "time", "teachers": 50, "queries": 1000, "gamma": 0.3},
        **{"right": around(0.9), "top_1": around(0.7), "claims": (cost,) * 3, "tested": 3000},
    )
    person = StudentsCell(
        **{"who": "tempdiff", "by": "subject", "teachers": 210, "queries": 100, "epsilon": 2.0},
        **{"aggregator": "gnmax", "right": around(0.9), "top_1": around(0.6), "tested": 3000},
    )
    helped = replace(person, is_alone=False)

    def other(share: float, **fields: Any) -> StudentsCell:
        return StudentsCell(top_1=around(share), tested=3000, **fields)

    cells = [
        published,
        replace(published, who="pate", right=around(0.8)),
        person,
        replace(helped, top_1=around(votes)),
        replace(helped, aggregator="lnmax", right=(), top_1=around(lnmax)),
        other(0.25, who="dp_sgd", epsilon=2.0),
        other(0.75, who="true labels", queries=1000),
        other(0.4, who="nearest mean of few labels"),
    ]
    for alone in (True, False):
        cells.append(other(0.3, who="few labels", is_alone=alone))
        cells.append(other(0.9, who="no privacy", is_alone=alone))
    facts = EnsembleCell(
        **{"method": "tempdiff", "by": "time", "teachers": 50, "reach": (2, 2, 3)},
        **{"teacher": THREE, "agreement": around(0.7), "failed": (0, 0, 0)},
    )
    plan = TempdiffSettings(setting="paper", queries=(1000,), teacher="forest", seeds=3)
    return TempdiffFound(
        ensembles=Cells([facts, replace(facts, method="pate", agreement=around(pate))]),
        cells=Cells(cells),
        settings=plan.settle(),
        data=("a", "A"),
        tested=3000,
        people=210,
    )


def sentences(one: TempdiffFound) -> list[str]:
    return list(write_page(one).data["sentences"])


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
    (low,) = both.cells.find_all(aggregator="lnmax")
    (high,) = both.cells.find_all(aggregator="gnmax", is_alone=False)
    more = [
        replace(cell, epsilon=8.0, top_1=around(share)) for cell, share in ((low, 0.9), (high, 0.8))
    ]
    said = " ".join(sentences(replace(both, cells=Cells([*both.cells, *more]))))
    assert "against lnmax, ahead at 2, behind at 8" in said


def test_a_page_is_short_enough_to_be_read() -> None:
    assert len(sentences(found())) <= 12
    assert len(write_page(found()).text.splitlines()) <= 60


def test_an_upper_bound_for_each_unit_stands_beside_the_printed_one() -> None:
    shown = write_page(found()).text
    row = "| tempdiff | 1000 | 50 | 0.3 | 1.4, an estimate | 134.7 | 397.6 | 70.5 ± 0.5 | 75.5"
    assert row in shown, "true ones are rounded up"
    assert "| epsilon at most, one teacher's data |  |  |  | 134.7 |" in shown
    assert "| epsilon at most, one person |  |  |  | 397.6 |" in shown
    assert "depends on the votes: it is private itself, and no guarantee" in shown
    assert "epsilon for one teacher's data and for one person" in shown
    assert "| dp_sgd | 25.5 ± 0.5 | - |" in shown
    for sentence in PRESETS["paper"].left_open:
        assert sentence in shown
    assert json.loads(json.dumps(write_page(found()).data))["people"] == 210
    assert set(write_page(found()).plots) == {
        "tempdiff_a_forest_published",
        "tempdiff_a_forest_person",
    }


def test_the_papers_setting_has_the_papers_numbers_and_says_what_it_leaves_open() -> None:
    plan = TempdiffSettings(setting="paper").settle()
    assert plan.sizes == (10, 30, 50, 100) and plan.gammas == (0.01, 0.1, 0.3, 0.5)
    assert plan.queries == (1000, 1600) and plan.delta == 1e-5
    assert (plan.by, plan.overlap, plan.teacher, plan.unlabelled) == ("time", 0.0, "lstm", "none")
    assert (
        plan.seeds >= 3 and plan.left_open == PRESETS["paper"].left_open and len(plan.left_open) > 3
    )
    for name in PRESETS["paper"].values:
        assert hasattr(TempdiffSettings(), name), "every number is a flag"
    other = TempdiffSettings(
        setting="paper", gammas=(0.2,), learning_rate=0.5, overlap=0.25
    ).settle()
    method = other.build_method("tempdiff", 10, "time")
    assert other.gammas == (0.2,) and (method.learning_rate, method.overlap) == (0.5, 0.25)
    assert not tempdiff.list_shipped(replace(other, epsilons=()), 50)


def test_every_cell_of_the_papers_figures_is_there() -> None:
    plan = TempdiffSettings().settle()
    cell_list = tempdiff.list_published(plan)
    first = [cell for cell in cell_list if cell.queries == 1000]
    assert len(first) == 2 * 4 * 4 and len(set(cell_list)) == len(cell_list)
    assert {cell.teachers for cell in cell_list if cell.queries == 1600} == {100}
    shipped = tempdiff.list_shipped(plan, 211)
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
        TempdiffSettings(**wrong)


def test_the_command_that_is_printed_gives_the_same_plan() -> None:
    plan = TempdiffSettings(sizes=(10, 30), by="record", public_subjects="8,9")
    said = write_command(plan, Watch())
    assert said == (
        "python -m experiments tempdiff --data watch --sizes 10 30 --by record "
        "--public-subjects 8,9"
    )
    data = Wisdm(root=Path("here"), worn="watch", on_grid=True)
    said = write_command(replace(plan, setting="paper", device="cuda", quick=True), data)
    assert "--data wisdm --root PATH --worn watch --on-grid --setting paper --sizes" in said
    assert said.endswith("--device cuda --quick") and "here" not in said


def held(data: FewSignals = PRIVATE, queries: int = 10) -> Poll:
    method = make_tempdiff(teacher="nearest", queries=queries)
    return poll_teachers(world_of(data), method, queries=2 * queries)


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
        dealt = world.deal_people(seed)
        names = [signal.subject for signal in dealt.signals]
        assert sorted(map(str, names)) == sorted("aabbccddeeff"), "nobody is lost"
        assert names[::2] == names[1::2], "a person's recordings stay together"
        assert [labels.subject for labels in dealt.private.labels] == names
        orders.append(tuple(names))
        one = next(signal for signal in dealt.private if signal.subject == "b")
        assert np.array_equal(one.values, world.private[2].values)
    assert len(set(orders)) > 1 and world.deal_people(0).people == 6


def test_only_the_channels_that_are_asked_for_are_kept() -> None:
    chosen = ChosenSignals(whole=PRIVATE, places=(1, 0), channels="y")
    assert chosen[0].channels == ("y",) and chosen[0].subject == "b"
    assert np.array_equal(chosen[1].values[:, 0], PRIVATE[0].values[:, 1])
    with pytest.raises(BadInput, match="begin with z, got x, y"):
        choose_channels(PRIVATE[0], "z")


def test_few_labels_are_as_many_of_each_class_as_were_asked_for() -> None:
    windows, truth = world_of(PRIVATE).draw_few(20, 2, seed=0, overlap=0.0)
    assert np.bincount(truth).tolist() == [2, 2, 2] and windows.shape == (6, 20, 2)


@pytest.mark.parametrize(("records", "windows"), [(1, 8), (3, 3), (40, 1)])
def test_dp_sgd_hears_all_recordings_of_a_person(records: int, windows: int) -> None:
    data = FewSignals(records=records, length=60)
    method = tempdiff.build_dp_sgd(Students(who="dp_sgd", epsilon=2.0), world_of(data), 0)
    assert (method.recordings, method.segments, method.epsilon) == (records, windows, 2.0)


def test_a_confident_vote_asks_all_queries_and_answers_no_more_than_the_others() -> None:
    one = held()
    counts = np.tile(np.array([[1000, 0, 0]]), (20, 1))
    sure = replace(one, votes=np.zeros((1000, 20), np.int64))
    assert np.array_equal(sure.counts, counts)
    answers = draw_labels(sure, "confident", 8.0)
    assert len(answers) == 20 and (answers >= 0).sum() == 10 and set(answers) == {-1, 0}
    for name in ("gnmax", "gumbel", "lnmax"):
        assert draw_labels(sure, name, 8.0).tolist() == [0] * 10


def test_a_person_who_reaches_more_teachers_pays_more_and_the_papers_figure_does_not_see_it() -> (
    None
):
    one, far = compute_cost(held(), 0.1), compute_cost(replace(held(), reach=3), 0.1)
    assert one.teacher == far.teacher and far.person > one.person >= one.teacher
    assert one.figure == far.figure <= one.at_8_moments
    fewer = compute_cost(held(), 0.1, 5)
    assert fewer.teacher < one.teacher, "fewer labels cost less"


def test_labels_as_published_have_the_gamma_of_their_cell() -> None:
    votes = np.zeros((10, 20), np.int64)
    one = {("tempdiff", "time", 4): replace(held(), votes=votes)}
    cell = Students(who="tempdiff", by="time", teachers=4, queries=20, gamma=20.0)
    assert (tempdiff.label_queries(cell, one)[1] == 0).all()
    noisy = [tempdiff.label_queries(replace(cell, gamma=1e-4), one)[1] for _ in range(10)]
    assert (np.concatenate(noisy) == 0).mean() < 0.6


def test_the_nearest_mean_of_labelled_windows_knows_what_can_be_told_apart() -> None:
    world = world_of(PRIVATE)
    exam = Exam.of(world, make_tempdiff())
    windows, truth = world.draw_few(20, 5, seed=0)
    right = signals.score_nearest(exam, windows, truth)
    assert right > 0.8 > signals.score_nearest(exam, windows, np.roll(truth, 5))


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


def test_a_tiny_run_writes_its_tables(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = flags(**TINY | {"windows": (64, 96), "out": tmp_path, "page": tmp_path / "p.md"})
    assert main(["tempdiff", "--wearers", "18", *words, "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert {one["method"] for one in done["ensembles"]} == {"tempdiff", "pate"}
    assert {one["by"] for one in done["ensembles"]} == {"time", "subject"}
    who = [one["who"] for one in done["scores"]]
    assert who.count("dp_sgd") == 1 and "no privacy" in who and done["people"] == 6
    assert all(one["claims"][0]["person"] > 0 for one in done["scores"] if one["gamma"])
    page = (tmp_path / "p.md").read_text()
    assert "TEMPDIFF with nearest neighbours: Stage" in page and "not known from one run" in page
    assert "epsilon for one teacher's data, and one person" in page


def test_a_stopped_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, world = TempdiffSettings(out=tmp_path, **TINY).settle(), world_of(PRIVATE)
    real, learned = teach.EnsembleRun.collect_votes, signals.score_student
    asked: list[int] = []
    monkeypatch.setattr(signals, "score_dp_sgd", lambda *given, device: 0.5)
    monkeypatch.setattr(
        teach.EnsembleRun, "collect_votes", lambda one: asked.append(1) or real(one)
    )

    def stopped(*given: Any, seed: int, is_alone: bool = False) -> float:
        asked.append(2)
        if asked.count(2) == 4:
            raise KeyboardInterrupt
        return learned(*given, seed=seed, is_alone=is_alone)

    monkeypatch.setattr(signals, "score_student", stopped)
    run = Run(settings=plan, journal=Journal.open(plan, None))
    with pytest.raises(KeyboardInterrupt):
        tempdiff.measure_world(run, world)
    journal = Journal.open(plan, None)
    ensembles = [name for name in journal.held if name.startswith("votes of")]
    assert len(journal.held) == len(ensembles) + 3 == asked.count(1) + 3
    known = {name: one["top_1"] for name, one in list(journal.held.items())[len(ensembles) :]}
    measured = tempdiff.measure_world(replace(run, journal=journal), world)
    assert asked.count(1) == len(ensembles), "no ensemble is taught twice"
    assert [one.top_1[0] for one in measured.cells[:3]] == list(known.values())
