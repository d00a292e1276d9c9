"""A small data set of made-up people with sensors, and a student of it, for several tests."""

from __future__ import annotations

import os
import signal as signals
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from masquerade.collection import Collection, CountLine, DataSource, Labels, Medium
from masquerade.datasets import watch
from masquerade.events import event_from_json
from masquerade.guarantee import Unit, UnitName
from masquerade.ledger import Content, Ledger
from masquerade.ledger.filter import FilterName
from masquerade.networks.lstm import LstmNetwork
from masquerade.publish.models import teach_file, train_file
from masquerade.recordings import Signal
from masquerade.training.methods import Pate, Tempdiff

PERIODS = (20, 10, 5)  # samples, of each class


@dataclass(frozen=True, kw_only=True)
class FewSignals(Collection[Signal]):
    """Waves whose period and height tell the class, which changes every 40 samples.

    Args:
        subjects: who is wanted.
        records: recordings of each.
        length: samples of each.
        changed: somebody who did and measured something else, for just as long.
        classes: names.
        odd: fields of the first person's signals that are not the others'.
    """

    ABOUT: ClassVar[DataSource] = DataSource(
        title="Few signals", kind=Medium.SIGNALS, licence="none", home="", citation=""
    )

    subjects: tuple[str, ...] = tuple("abcdef")
    records: int = 1
    length: int = 240
    changed: str = ""
    classes: tuple[str, ...] = ("sit", "walk", "run")
    odd: Any = None

    @property
    def activities(self) -> tuple[str, ...]:
        return self.classes

    def check(self) -> tuple[CountLine, ...]:
        return ()

    def _find(self) -> list[Labels]:
        return [
            Labels(name=f"{who}{number}", subject=who)
            for who in self.subjects
            for number in range(self.records)
        ]

    def _load(self, index: int) -> Signal:
        who, number = self.labels[index].subject, index % self.records
        assert who is not None
        rng = np.random.default_rng((ord(who[0]), number))
        spans = rng.integers(0, len(PERIODS), -(-self.length // 40))
        spans[: len(PERIODS)] = rng.permutation(len(PERIODS))[: len(spans)]  # all of them
        spans = (spans + (who == self.changed)) % len(PERIODS)
        activity = np.repeat(spans, 40)[: self.length]
        signal = Signal(
            values=waves(activity, rng),
            rate_hz=20.0,
            activity=activity % len(self.classes),
            subject=who,
            channels=("x", "y"),
        )
        return replace(signal, **self.odd) if self.odd and who == self.subjects[0] else signal


def waves(activity: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(T, 2) float32 for classes (T,)."""
    time = np.arange(len(activity))
    wave = np.sin(2 * np.pi * time / np.array(PERIODS)[activity] + rng.uniform(0, 6))
    values = np.stack([5 + activity + wave, -2 * activity + wave], axis=1)
    return (values + rng.uniform(-0.1, 0.1, values.shape)).astype(np.float32)


class NearestMean:
    """Votes for the class whose rows are nearest on average."""

    def fit(self, rows: np.ndarray, classes: np.ndarray) -> None:
        self.known = np.unique(classes)
        self.means = np.stack([rows[classes == number].mean(axis=0) for number in self.known])

    def predict(self, rows: np.ndarray) -> np.ndarray:
        distance = np.square(rows[:, None] - self.means).sum(axis=2)
        return np.asarray(self.known[distance.argmin(axis=1)])


PRIVATE, PUBLIC = FewSignals(), FewSignals(subjects=tuple("xyz"))
TINY: dict[str, Any] = dict(
    epsilon=4.0, unit="subject", shards=2, queries=10, hidden=4, teacher_epochs=1, student_epochs=1
)


def tempdiff(**fields: Any) -> Tempdiff:
    return Tempdiff(**(TINY | {"windows": (10, 20)} | fields))


def pate(**fields: Any) -> Pate:
    return Pate(**(TINY | {"windows": (20,)} | fields))


def teaches(path: Path, method: Any = None, **other: Any) -> Any:
    private, public = other.pop("private", PRIVATE), other.pop("public", PUBLIC)
    return teach_file(private, public, path, method or tempdiff(), **other)


def wears(path: Path, method: Any, **other: Any) -> Any:
    """Train an LSTM on the signals themselves."""
    private, public = other.pop("private", PRIVATE), other.pop("public", PUBLIC)
    network = other.pop("network", LstmNetwork(window=20, hidden=4))
    return train_file(private, path, method, network, public=public, **other)


def enrolled(folder: Path, data: Any = PRIVATE, **other: Any) -> Ledger:
    ledger = Ledger(folder / "b.db")
    given: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-5, "rule": FilterName.GAUSSIAN} | other
    ledger.open_account("ward", Unit(name=UnitName.SUBJECT), **given)
    ledger.add_contents("ward", [(Content.from_value(found), found.subject) for found in data])
    return ledger


def charges(ledger: Ledger) -> list[dict[str, Any]]:
    """Holder to event, of each reservation."""
    return [
        {charge["holder"]: event_from_json(charge["event"]) for charge in entry.payload["charges"]}
        for entry in ledger.read_entries()
        if entry.kind == "reserve"
    ]


def teach_until(folder: Path, moment: str | None) -> Any:
    """Teach, or die without a word when the student is about to be written."""

    def tell(what: str, done: int, total: int) -> None:
        if what == moment and done == total:
            os.kill(os.getpid(), signals.SIGKILL)

    ledger = Ledger(folder / "b.db")
    return teaches(folder / "m.safetensors", pate(), ledger=ledger, progress=tell)


def write_watch(path: Path) -> None:
    """A file of smartwatch data of five people who did each exercise for 60 samples."""
    rng = np.random.default_rng(1)
    exercises = np.tile(np.arange(7), 5)
    held = {
        "X": np.array([*(rng.uniform(y, y + 1, (60, 6)) for y in exercises), None], object)[:-1],
        "y": exercises,
        "subject": np.repeat(np.arange(1, 6), 7),
        "side": np.zeros(35, np.int64),
        "X_labels": ["ax", "ay", "az", "wx", "wy", "wz"],
        "y_labels": list(watch.ACTIVITIES),
    }
    np.save(path, np.array([held], object), allow_pickle=True)
