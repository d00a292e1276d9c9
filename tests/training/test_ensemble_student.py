"""The student: public windows, noisy answers, and what others say of the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from few_signals import PRIVATE, PUBLIC
from masquerade.errors import BadInput
from masquerade.networks.lstm import LstmNetwork
from masquerade.networks.network import compute_channel_scales
from masquerade.training import learner, student
from masquerade.training.methods import Pate
from masquerade.training.partition import compute_window_features
from masquerade.training.worn import cut_labelled_windows, public_windows

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

KNOWN = compute_channel_scales([signal.values for signal in PUBLIC])
WINDOWS, RIGHT = cut_labelled_windows(list(PUBLIC), 20, classes=3)
ROUNDS: dict[str, Any] = dict(hidden=8, student_epochs=200, unlabelled="none")


def test_public_windows_are_those_in_which_something_is_done_whatever_it_is() -> None:
    signal = PUBLIC[0]
    marked = np.full(len(signal.values), -1)
    marked[40:80] = np.arange(40) % 3
    some = public_windows([replace(signal, activity=marked)], 20)
    assert [*map(np.ndarray.tolist, some)] == [
        signal.values[start : start + 20].tolist() for start in (40, 50, 60)
    ]
    other = replace(signal, activity=np.where(marked >= 0, (marked + 1) % 3, -1))
    assert np.array_equal(public_windows([other], 20), some)
    whole = public_windows([replace(signal, activity=None)], 20)
    assert len(whole) == (len(signal.values) - 20) // 10 + 1
    with pytest.raises(BadInput, match="with 41 samples of activity in a row, got none"):
        public_windows([replace(signal, activity=np.full(len(marked), -1))], 41)


def learns(
    windows: np.ndarray, labels: np.ndarray, progress: Any = lambda *done: None, **fields: Any
) -> Any:
    return student.learn_student(
        windows,
        labels,
        replace(Pate(epsilon=2.0, unit="subject"), **(ROUNDS | fields)),
        classes=3,
        normalisation=KNOWN,
        progress=progress,
    )


def same(one: Any, other: Any) -> bool:
    held, beside = one.state_dict(), other.state_dict()
    return all(torch.equal(value, beside[name]) for name, value in held.items())


def test_a_student_learns_what_can_be_told_apart() -> None:
    net = learns(WINDOWS, RIGHT)
    chance = student.predict_probabilities(net, WINDOWS)
    assert chance.shape == (len(RIGHT), 3) and np.allclose(chance.sum(axis=1), 1, atol=1e-5)
    assert (chance.argmax(axis=1) == RIGHT).mean() > 0.9
    assert np.allclose(net.mean, KNOWN[0]) and np.allclose(net.scale, KNOWN[1])


def test_windows_without_a_label_are_not_learned_from() -> None:
    labels = np.where(np.arange(len(RIGHT)) % 2, RIGHT, -1)
    strange = np.where((labels < 0)[:, None, None], np.float32(77), WINDOWS)
    few = dict(student_epochs=3)
    net = learns(WINDOWS, labels, **few)
    assert same(net, learns(strange, labels, **few))
    assert same(net, learns(WINDOWS[labels >= 0], labels[labels >= 0], **few))
    assert not same(net, learns(WINDOWS, RIGHT, **few))


def test_without_any_label_nothing_can_be_learned() -> None:
    with pytest.raises(BadInput, match=r"got none: no vote was answered\. Lower the threshold"):
        learns(WINDOWS, np.full(len(WINDOWS), -1))


def test_only_sure_labels_of_other_windows_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []
    chance = np.array([[0.95, 0.05], [0.2, 0.8], [0.1, 0.9]])
    monkeypatch.setattr(student, "_fit_network", lambda windows, labels, *_: seen.append([*labels]))
    monkeypatch.setattr(student, "predict_probabilities", lambda net, windows: chance)
    monkeypatch.setattr(student, "_by_forest", lambda *_: chance)
    for who in ("none", "self", "forest"):
        student.learn_student(
            np.zeros((5, 4, 2)),
            np.array([-1, -1, -1, 1, 0]),
            replace(Pate(epsilon=2.0, unit="subject"), unlabelled=who, confidence=0.9),
            classes=2,
            normalisation=KNOWN,
        )
    first, later = [-1, -1, -1, 1, 0], [0, -1, 1, 1, 0]
    assert seen == [first, first, later, later]


@pytest.mark.parametrize("who", ["self", "forest"])
def test_what_is_learned_from_other_windows_hangs_on_public_windows_and_answers_alone(
    who: str,
) -> None:
    labels = np.where(np.arange(len(RIGHT)) % 5, -1, RIGHT)
    few = dict(student_epochs=5, unlabelled=who)
    net = learns(WINDOWS, labels, **few)
    assert same(net, learns(WINDOWS, labels, **few))
    assert not same(net, learns(WINDOWS, labels, student_epochs=5))
    assert not same(net, learns(WINDOWS, np.where(labels < 0, -1, (labels + 1) % 3), **few))


def test_a_forest_that_heard_of_two_classes_never_says_the_third() -> None:
    labels = np.where((np.arange(len(RIGHT)) % 3 == 0) & (RIGHT != 1), RIGHT, -1)
    rest = np.flatnonzero(labels < 0)
    found = student._by_forest(WINDOWS, labels, rest, KNOWN, 0)
    assert found.shape == (len(rest), 3) and not found[:, 1].any()
    assert np.allclose(found.sum(axis=1), 1)
    sure = found.argmax(axis=1)[RIGHT[rest] != 1]
    assert (sure == RIGHT[rest][RIGHT[rest] != 1]).mean() > 0.9


def test_a_window_of_nan_or_huge_numbers_becomes_finite_features_without_a_warning() -> None:
    strange = np.full((4, 16, 2), np.nan, np.float32)
    strange[1], strange[2], strange[3] = 3e38, -np.inf, 0
    assert np.isfinite(compute_window_features(strange)).all()


def test_a_saved_student_says_the_same_of_signals_as_they_were_recorded(tmp_path: Path) -> None:
    net = learns(WINDOWS, RIGHT, student_epochs=5)
    network, classes = LstmNetwork(window=20, hidden=8), ("a", "b", "c")
    path = tmp_path / "m.safetensors"
    net.rate_hz = 50.0
    path.write_bytes(learner.encode_model(net, network, classes, {}))
    found, read, activities, _ = learner.load_model(path)
    assert activities == classes and read == network and found.rate_hz == 50.0
    raw = public_windows(list(PRIVATE), 20)
    assert np.array_equal(
        student.predict_probabilities(found, raw), student.predict_probabilities(net, raw)
    )
    assert np.array_equal(found.mean, KNOWN[0]) and np.array_equal(found.scale, KNOWN[1])
    path.write_bytes(learner.encode_model(net, network, classes, {"rate_hz": None}))
    with pytest.raises(BadInput, match="a model of ours"):
        learner.load_model(path)
