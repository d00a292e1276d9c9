"""Teachers, the student, and what an ensemble promises."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from few_signals import PRIVATE, PUBLIC, FewSignals, NearestMean, pate, tempdiff, waves
from masquerade import catalog
from masquerade.accounting import compute_epsilon
from masquerade.accounting.votes import VoteTerms
from masquerade.errors import BadInput
from masquerade.guarantee import Relation
from masquerade.networks.lstm_stack import StackSchedule
from masquerade.networks.network import compute_channel_scales
from masquerade.noise import Noise
from masquerade.publish.models import make_method
from masquerade.publish.receipts import check_receipt
from masquerade.receipt import SUFFIX, write_receipt
from masquerade.training import teachers
from masquerade.training.ensemble import Ensemble
from masquerade.training.teach import partition_of
from masquerade.training.worn import public_windows
from masquerade.wording import explain

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

QUERIES = public_windows(list(PUBLIC), 20)
KNOWN = compute_channel_scales([signal.values for signal in PUBLIC])
COURSE = StackSchedule(hidden=8, epochs=12, batch=8)


def lessons_of(method: Ensemble, data: Any = PRIVATE, public: Any = KNOWN) -> list[Any]:
    signals = list(data)
    split = partition_of(data, signals, method)
    return teachers.lessons_of(signals, split, classes=3, public=public)


def by_lstm(lessons: list[Any], course: StackSchedule = COURSE, told: Any = None) -> np.ndarray:
    tell = (lambda *done: None) if told is None else (lambda *done: told.append(done))
    return teachers.votes_by_lstm(lessons, QUERIES, classes=3, schedule=course, progress=tell)


def by_estimators(lessons: list[Any], make: Any, num_processes: int = 1, **other: Any) -> Any:
    given: dict[str, Any] = {"queries": QUERIES, "progress": lambda *done: None} | other
    return teachers.votes_by_estimators(
        lessons, given.pop("queries"), make=make, num_processes=num_processes, **given
    )


class Commonest:
    """Votes for what it heard most often, whatever it is asked."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, rows: np.ndarray, classes: np.ndarray) -> None:
        self.width, self.said = rows.shape[1], np.bincount(classes).argmax()

    def predict(self, rows: np.ndarray) -> list[int]:
        assert rows.shape[1] == self.width
        return [int(self.said)] * len(rows)


def times(count: int, lesson: teachers.Lesson) -> teachers.Lesson:
    values, classes = np.tile(lesson.values, (count, 1, 1)), np.tile(lesson.classes, count)
    return replace(lesson, values=values, classes=classes)


def test_a_teacher_without_windows_votes_and_is_counted_as_one_that_failed() -> None:
    silent = FewSignals(odd={"activity": np.full(240, -1)})
    lessons = lessons_of(pate(shards=6), silent)
    assert lessons[0].values.shape == (0, 20, 2)
    own = lessons_of(pate(shards=6), silent, public=None)[0]
    assert own.mean.tolist() == [0, 0] and own.scale.tolist() == [1, 1]
    for votes in (by_lstm(lessons), by_estimators(lessons, lambda number: NearestMean())):
        assert votes.shape == (6, len(QUERIES)) and len(set(votes[0].tolist())) == 1
        found = teachers.private_statistics(votes, 3)
        assert found.failed == 1
        assert (teachers.counts_of(votes, 3).sum(axis=1) == 6).all()


def test_lstm_votes_are_the_same_again_and_hang_on_no_other_teacher() -> None:
    lessons, told = lessons_of(tempdiff(shards=3)), list[tuple[int, int]]()
    votes = by_lstm(lessons, told=told)
    assert told == [(3, 6), (6, 6)], "a window length at a time"
    torch.manual_seed(99)
    assert np.array_equal(by_lstm(lessons), votes)
    assert not np.array_equal(by_lstm(lessons, replace(COURSE, seed=1)), votes)
    none, many = ([times(count, lesson) for lesson in lessons] for count in (0, 3))
    for one, two, five in ((none[1], many[0], none[5]), (many[1], none[2], many[3])):
        found = by_lstm([lessons[0], one, two, *lessons[3:5], five])
        same = (found == votes).all(axis=1)
        assert same[[0, 3, 4]].all() and not same[[1, 2, 5]].all()
    assert len({tuple(row) for row in votes.tolist()}) > 2, "they learned different things"


def test_lstm_teachers_learn() -> None:
    right = np.array([0, 1, 2, 1])
    rng = np.random.default_rng(0)
    asked = np.stack([waves(np.full(20, number), rng) for number in right])
    votes = teachers.votes_by_lstm(
        lessons_of(tempdiff()),
        asked,
        classes=3,
        schedule=StackSchedule(hidden=16, epochs=60),
        progress=lambda *done: None,
    )
    assert (votes == right).mean() > 0.9


def test_votes_of_estimators_do_not_hang_on_the_number_of_processes() -> None:
    forests = pytest.importorskip("sklearn.ensemble")

    def make(seed: int) -> Any:
        return forests.RandomForestClassifier(n_estimators=5, random_state=seed)

    lessons, told = lessons_of(tempdiff()), list[tuple[int, int]]()
    one = by_estimators(lessons, make, progress=lambda *done: told.append(done))
    assert told == [(number, 4) for number in (1, 2, 3, 4)]
    assert np.array_equal(one, by_estimators(lessons, make, num_processes=2))
    assert one.shape == (4, len(QUERIES)) and teachers.private_statistics(one, 3).failed == 0
    assert (teachers.counts_of(one, 3).sum(axis=1) == 4).all()


def test_ones_own_class_can_be_a_teacher_and_is_told_its_public_number() -> None:
    seeds = []

    def make(number: int) -> Commonest:
        seeds.append(number)
        return Commonest(number)

    lessons = lessons_of(tempdiff())
    votes = by_estimators(lessons, make)
    assert seeds == [0, 1, 2, 3]
    heard = [int(np.bincount(lesson.classes).argmax()) for lesson in lessons]
    assert np.array_equal(votes, np.repeat(heard, len(QUERIES)).reshape(4, -1))
    assert teachers.private_statistics(votes, 3).failed == 4


def test_a_teacher_of_short_windows_hears_all_of_them_in_a_query() -> None:
    class Loud:
        """Says 1 for a window with something loud in it."""

        def fit(self, rows: np.ndarray, classes: np.ndarray) -> None: ...

        def predict(self, rows: np.ndarray) -> np.ndarray:
            return np.asarray((rows.max(axis=1) > 5).astype(int))

    lesson = teachers.Lesson(
        values=np.zeros((1, 4, 2)), classes=np.zeros(1, int), mean=np.zeros(2), scale=np.ones(2)
    )
    asked = np.zeros((3, 14, 2))  # three windows of four, one sample left over at either end
    asked[1, [2, 6], 0], asked[2, [0, 9, 13], 0] = 9, 9
    votes = by_estimators([lesson], lambda number: Loud(), queries=asked)
    assert votes.tolist() == [[0, 1, 0]], "none, two of three, and one"


def test_features_are_as_many_for_every_window_and_finite() -> None:
    rng = np.random.default_rng(1)
    for window in (2, 3, 7, 8, 16, 33, 64, 200):
        found = teachers.compute_window_features(rng.uniform(size=(5, window, 3)))
        assert found.shape == (5, 13 * 3) and np.isfinite(found).all()
    wave = np.sin(2 * np.pi * 3 * np.arange(64) / 64)[None, :, None]
    mean, deviation, low, high, change, *bands = teachers.compute_window_features(wave)[0]
    assert (abs(mean) < 1e-12) and deviation == pytest.approx(math.sqrt(0.5))
    assert (low, high) == (pytest.approx(-1, abs=1e-2), pytest.approx(1, abs=1e-2)) and change > 0
    assert int(np.argmax(bands)) == 0 and bands[0] == pytest.approx(32 / 4)


@pytest.mark.parametrize("is_public", [True, False])
@pytest.mark.parametrize("number", [1e30, 3e38])
def test_of_numbers_without_measure_no_warning_speaks(number: float, is_public: bool) -> None:
    values = np.resize(np.array([number, -number], np.float32), (240, 2))  # warnings are errors
    data = FewSignals(odd={"values": values})
    known = (KNOWN[0], KNOWN[1] / 100) if is_public else None
    lessons = lessons_of(tempdiff(), data, public=known)
    assert by_estimators(lessons, lambda number: NearestMean()).shape == (4, len(QUERIES))
    assert by_lstm(lessons, replace(COURSE, epochs=1)).shape == (4, len(QUERIES))


def test_a_query_shorter_than_a_window_is_refused() -> None:
    lessons, short = lessons_of(tempdiff()), QUERIES[:, :19]
    with pytest.raises(ValueError, match="at least 20 samples, got 19"):
        by_estimators(lessons, Commonest, queries=short)
    with pytest.raises(ValueError, match="at least 20 samples, got 19"):
        teachers.votes_by_lstm(
            lessons, short, classes=3, schedule=COURSE, progress=lambda *done: None
        )


def test_private_statistics_are_those_of_the_votes() -> None:
    votes = np.array([[0, 1, 2, 2, 2], [0, 1, 1, 0, 2], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]])
    assert teachers.counts_of(votes, 4).tolist() == [
        [3, 1, 0, 0],
        [1, 3, 0, 0],
        [1, 2, 1, 0],
        [2, 1, 1, 0],
        [1, 1, 2, 0],
    ]
    found = teachers.private_statistics(votes, 4)
    assert found.agreement == pytest.approx((3 + 3 + 2 + 2 + 2) / 20) and found.failed == 2
    assert teachers.private_statistics(votes[:, :1], 4).failed == 0, "one query tells nothing"
    with pytest.raises(ValueError, match="votes"):
        teachers.counts_of(votes[0], 4)


each_kind = pytest.mark.parametrize("method", [tempdiff(), pate()], ids=lambda m: m.name)
WORDS: dict[str, Any] = dict(threshold=30.0, threshold_std=400.0, cap=5)


@each_kind
def test_an_ensemble_is_a_frozen_dataclass_named_by_its_file(method: Ensemble) -> None:
    example = catalog.make_example("training", method.name)
    assert type(example) is type(method) and example.unit == "subject"
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.epsilon = 1.0  # type: ignore[misc]
    block = (type(method).__doc__ or "").partition("Guarantee:")[2]
    assert all(key in block for key in ("unit:", "relation:", "bound:", "numerics:"))
    fields = json.loads(json.dumps(method.encode_fields()))
    known = {field.name for field in dataclasses.fields(method)}
    assert known - set(method.LATER) <= set(fields) <= known
    again = make_method(method.name, **(fields | {"windows": tuple(fields["windows"])}))
    assert again == method and again.encode_fields() == fields
    assert method.num_teachers == 2 * len(method.windows)


@each_kind
def test_without_a_unit_the_units_are_listed_and_others_are_refused(method: Ensemble) -> None:
    with pytest.raises(ValueError, match=r"Expected a unit: [\s\S]*subject [\s\S]*shard "):
        replace(method, unit=None)
    with pytest.raises(ValueError, match=r"another unit than video here"):
        replace(method, unit="video")
    with pytest.raises(ValueError, match=r"[Cc]hoose|did you mean"):
        replace(method, unit="people")


@each_kind
@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        *(("epsilon", value) for value in (0.0, -1.0, math.inf, math.nan)),
        *(("delta", value) for value in (0.0, 1.0, math.nan)),
        *((name, value) for name in ("queries", "shards", "hidden") for value in (0, 1.5, True)),
        *((name, 0) for name in ("teacher_epochs", "student_epochs", "confidence")),
        *(("windows", value) for value in ((), (0,), (1,), (8, 1.5))),
        *((name, "other") for name in ("aggregator", "by", "teacher", "normalise", "unlabelled")),
        ("relation", "add_remove"),
        ("threshold", 3.0),
    ],
)
def test_a_wrong_field_is_refused_by_name(method: Ensemble, field: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=field[:6]):
        replace(method, **{field: wrong})


@pytest.mark.parametrize("wrong", [{"public_seed": -1}, {"public_seed": 1.5}])
def test_a_seed_that_is_no_whole_number_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        tempdiff(**wrong)


@pytest.mark.parametrize("aggregator", ["gnmax", "lnmax", "gumbel", "confident"])
@pytest.mark.parametrize("reach", [1, 3])
def test_the_noise_is_that_of_all_teachers_that_a_person_reaches(
    aggregator: str, reach: int
) -> None:
    fields = {"aggregator": aggregator} | (WORDS if aggregator == "confident" else {})
    people, shards = tempdiff(**fields), tempdiff(unit="shard", **fields)
    alone = people.make_ballot(1)
    assert shards.make_ballot(reach) == alone
    factor = people.make_ballot(reach).scale / alone.scale
    assert factor == pytest.approx(reach, rel=2e-3), "the threshold's noise is wide enough for all"
    for method in (people, shards):
        promise = method.guarantee(reach)
        assert promise.epsilon is not None and 3.99 < promise.epsilon <= method.epsilon == 4.0
        assert promise.unit.shards_per_subject == reach and promise.delta == 1e-5
        for relation in (Relation.ZERO_OUT, Relation.REPLACE_ONE):
            found = compute_epsilon(method.event(reach, relation), delta=1e-5, relation=relation)
            assert found == pytest.approx(promise.epsilon, abs=2e-4)
    said = [word for word in shards.guarantee(reach).caveats if "For a person" in word]
    assert len(said) == (reach > 1) and not any("For a person" in w for w in _said(people, reach))


def _said(method: Ensemble, reach: int) -> list[str]:
    return explain(method.guarantee(reach))


def test_a_shards_promise_says_what_a_person_has() -> None:
    method = pate(unit="shard")
    terms = VoteTerms(aggregator="gnmax", queries=10, shards_per_subject=3)
    person = terms.vote_epsilon(method.make_ballot(1).scale, delta=1e-5)
    shown = math.ceil(person * 1e4) / 1e4
    said = "\n".join(_said(method, 3))
    assert f"reaches 3 teachers, the same labels have epsilon {shown:g}." in said
    assert "choose --unit subject" in said and person > 3 * 4.0


@each_kind
def test_what_is_said_of_a_promise_names_the_teachers(method: Ensemble) -> None:
    said = "\n".join(_said(method, 2))
    assert f"{method.num_teachers} teachers" in said and "reaches at most 2 of them" in said
    assert "everything that one person contributed" in said and "10 queries" in said
    other = "\n".join(_said(replace(method, unit="shard"), 2))
    assert "the data behind one teacher" in other


@each_kind
@pytest.mark.parametrize("unit", ["subject", "shard"])
def test_a_receipt_states_what_the_method_does_and_no_other_reach(
    method: Ensemble, unit: str, tmp_path: Path
) -> None:
    method, path = replace(method, unit=unit), tmp_path / "m.safetensors"
    shapes = ((method.num_teachers, 3),)
    said = method.plan(shapes)
    assert (said.guarantee, said.event) == (
        method.guarantee(3),
        method.event(3, method.target_relation),
    )
    path.write_bytes(b"a student")
    digest = hashlib.sha256(b"a student").hexdigest()
    plan = method.plan(shapes)
    receipt = write_receipt(method, plan, shapes=shapes, noise=Noise(), output_sha256=digest)
    path.with_name(path.name + SUFFIX).write_text(receipt.to_json())
    assert check_receipt(path).guarantee == method.guarantee(3)
    beside = path.with_name(path.name + SUFFIX)
    told = json.loads(beside.read_text())
    for change in ({"shapes": [[method.num_teachers, 1]]}, {"shapes": [[9, 3]]}, {"shapes": []}):
        beside.write_text(json.dumps(told | change))
        with pytest.raises(BadInput):
            check_receipt(path)
    less = told["fields"] | {"queries": 9}
    beside.write_text(json.dumps(told | {"fields": less}))
    with pytest.raises(BadInput, match="states another one"):
        check_receipt(path)
    with pytest.raises(ValueError, match="teachers"):
        method.plan(((99, 1),))
