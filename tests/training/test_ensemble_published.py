"""An ensemble as published: gamma, windows that do not overlap, time, and what it truly costs."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from few_signals import PRIVATE, PUBLIC, FewSignals, pate, tempdiff
from masquerade.accounting.published import TempdiffClaim
from masquerade.errors import BadInput
from masquerade.networks import lstm_stack
from masquerade.noise import Noise
from masquerade.publish.receipts import check_receipt
from masquerade.receipt import SUFFIX, write_receipt
from masquerade.recordings import Signal
from masquerade.training import teach, teachers
from masquerade.training.partition import step_of
from masquerade.training.worn import cut_labelled_windows, public_windows

pytest.importorskip("torch").set_num_threads(1)

PUBLISHED: dict[str, Any] = dict(
    aggregator="lnmax", gamma=0.3, by="time", unit="shard", overlap=0.0, epsilon=1e6
)


@pytest.mark.parametrize("gamma", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("aggregator", ["lnmax", "gumbel"])
def test_the_gamma_that_was_asked_for_is_the_one_that_is_used(
    gamma: float, aggregator: str
) -> None:
    method = tempdiff(**PUBLISHED | {"gamma": gamma, "aggregator": aggregator})
    assert method.make_ballot(3).scale == 1 / gamma
    assert replace(method, epsilon=1e8).make_ballot(3) == method.make_ballot(3), (
        "epsilon is a limit alone"
    )


def test_labels_are_drawn_with_that_gamma() -> None:
    """At a small one they are nearly random, at a large one those of the most votes."""
    method = tempdiff(**PUBLISHED | {"queries": 36})
    votes = np.zeros((10, 36), np.int64)
    right = {}
    for gamma in (1e-3, 20.0):
        school = teach.read_ensemble(
            PRIVATE, PUBLIC, replace(method, gamma=gamma, windows=(10, 20))
        )
        right[gamma] = (school.sample_labels(votes, Noise()) == 0).mean()
    assert right[20.0] == 1.0 and right[1e-3] < 0.75


def test_the_cost_is_the_true_epsilon_of_the_paper_and_not_what_it_printed() -> None:
    claim = TempdiffClaim()
    method = tempdiff(**PUBLISHED | {"queries": claim.queries, "gamma": claim.gamma})
    person = replace(method, unit="subject")
    shard = method.make_ballot(claim.shards_per_subject).compute_epsilon(claim.delta)
    assert shard == pytest.approx(134.66, abs=0.01) and shard > 90 * claim.printed
    assert person.make_ballot(2).compute_epsilon(claim.delta) == pytest.approx(397.51, abs=0.01)


def test_a_gamma_whose_labels_cost_more_than_they_may_is_refused_with_what_they_cost() -> None:
    method = tempdiff(**PUBLISHED | {"queries": 1000, "epsilon": 1.4})
    with pytest.raises(ValueError, match=r"at least 134\.6\d+, which 1000 labels at gamma=0\.3"):
        method.make_ballot(1)
    cost = replace(method, epsilon=1e6).make_ballot(1).compute_epsilon(1e-5)
    assert replace(method, epsilon=cost).make_ballot(1).compute_epsilon(1e-5) == cost


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"aggregator": "gnmax"}, "lnmax or gumbel with --gamma, got gnmax"),
        ({"gamma": 0.0}, "gamma"),
        ({"gamma": -0.1}, "gamma"),
        ({"overlap": 1.0}, "overlap from 0 to below 1"),
        ({"overlap": -0.1}, "overlap"),
        ({"batch": 0}, "batch"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"student_steps": 0}, "student_steps"),
    ],
)
def test_wrong_numbers_are_refused_by_name(wrong: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        tempdiff(**PUBLISHED | wrong)


def test_a_receipt_of_a_gamma_is_checked_by_it(tmp_path: Path) -> None:
    method, path = tempdiff(**PUBLISHED), tmp_path / "m.safetensors"
    path.write_bytes(b"a student")
    digest = hashlib.sha256(b"a student").hexdigest()
    shapes = ((method.num_teachers, 2),)
    plan = method.plan(shapes)
    receipt = write_receipt(method, plan, shapes=shapes, noise=Noise(), output_sha256=digest)
    beside = path.with_name(path.name + SUFFIX)
    beside.write_text(receipt.to_json())
    assert check_receipt(path).guarantee == method.guarantee(2)
    told = json.loads(beside.read_text())
    beside.write_text(json.dumps(told | {"fields": told["fields"] | {"gamma": 0.6}}))
    with pytest.raises(BadInput, match="states another one"):
        check_receipt(path)


def marked(signals: list[Signal]) -> list[Signal]:
    """Every sample has a number of its own, so that windows tell which they hold."""
    found, begun = [], 0
    for signal in signals:
        numbers = begun + np.arange(len(signal.values), dtype=np.float32)
        found.append(replace(signal, values=np.stack([numbers, numbers], axis=1)))
        begun += len(numbers)
    return found


@pytest.mark.parametrize(("overlap", "most"), [(0.0, 1), (0.5, 2), (0.8, 5)])
@pytest.mark.parametrize("kind", [tempdiff, pate])
def test_windows_overlap_no_more_than_is_said_and_no_two_teachers_share_a_sample(
    kind: Any, overlap: float, most: int
) -> None:
    data = FewSignals(length=240)
    method = kind(**PUBLISHED | {"shards": 3, "overlap": overlap})
    signals = marked(list(data))
    split = teach.partition_of(data, signals, method)
    plain = (np.zeros(2, np.float32), np.ones(2, np.float32))
    lessons = teachers.lessons_of(signals, split, classes=3, public=plain, overlap=overlap)
    held = [Counter(lesson.values[:, :, 0].ravel().tolist()) for lesson in lessons]
    assert all(held), "everybody has a window"
    assert max(times for each in held for times in each.values()) == most
    for number, one in enumerate(held):
        assert not any(one.keys() & other.keys() for other in held[number + 1 :])


def test_public_windows_overlap_as_much_as_those_of_teachers() -> None:
    signals = list(PUBLIC)
    for window in (20, 21):
        for overlap in (0.0, 0.5):
            starts = range(0, 240 - window + 1, step_of(window, overlap))
            found = public_windows(signals, window, overlap=overlap)
            assert len(found) == len(signals) * len(starts)
    assert len(cut_labelled_windows(signals, 20, classes=3, overlap=0.0)[0]) == 36
    method = tempdiff(**PUBLISHED)
    assert len(teach.read_ensemble(PRIVATE, PUBLIC, method).windows) == 36
    assert len(teach.read_ensemble(PRIVATE, PUBLIC, replace(method, overlap=0.5)).windows) > 60


def test_how_an_lstm_learns_is_as_the_method_says(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = lstm_stack.train_new_stack

    def learned(*given: Any, **more: Any) -> Any:
        seen.append(given[2])
        return real(*given, **more)

    monkeypatch.setattr(lstm_stack, "train_new_stack", learned)
    method = tempdiff(batch=7, learning_rate=0.02, teacher="lstm", student_steps=2)
    school = teach.read_ensemble(
        PRIVATE, PUBLIC, replace(method, student_epochs=9, unlabelled="none")
    )
    labels = school.sample_labels(school.collect_votes(), Noise())
    assert {(one.batch, one.rate) for one in seen} == {(7, 0.02)}
    seen.clear()
    school.train_student(labels)
    (one,) = seen
    assert (one.batch, one.rate, one.epochs) == (7, 0.02, 2), "10 labels, 7 a step, 2 steps"
