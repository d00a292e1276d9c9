"""Teach a student by noisy votes in plain sequence: read, vote, draw the labels, learn from them.

Whoever publishes the student reserves the budget after `read_ensemble`, and keeps the labels: noise
is drawn once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from masquerade._optional import lazy_module, require_extra, torch
from masquerade.collection import Collection
from masquerade.errors import BadInput
from masquerade.mechanism import Shapes
from masquerade.networks.lstm import LstmNetwork
from masquerade.networks.network import compute_channel_scales
from masquerade.noise import Noise
from masquerade.recordings import Signal
from masquerade.training import student, teachers, worn
from masquerade.training.ensemble import Ensemble
from masquerade.training.learner import ProgressCallback
from masquerade.training.partition import Extent, Partition, partition_recordings
from masquerade.training.units import classes_of, owner_of, units_of

if TYPE_CHECKING:
    from masquerade.networks import lstm_stack
    from masquerade.networks import lstm_stack as lstm_gradients
else:
    lstm_gradients = lazy_module("masquerade.networks.lstm_stack", extra="train")
    lstm_stack = lazy_module("masquerade.networks.lstm_stack", extra="train")


MakeTeacher: TypeAlias = Callable[[int], teachers.Estimator]  # for a public seed


@dataclass(frozen=True, kw_only=True, eq=False)
class EnsembleRun:
    """Signals that were read, and who will teach whom.

    Args:
        method: how.
        signals: the private ones.
        known: the public ones.
        units: the person of each private signal.
        partition: which teacher sees what.
        windows: (N, L, C) of public signals.
        asked: (Q,) those that are labelled.
        classes: there are.
        device: where teachers and student learn.
        tell: is told how far they are.
    """

    method: Ensemble
    signals: Sequence[Signal]
    known: Sequence[Signal]
    units: tuple[int, ...]
    partition: Partition
    windows: np.ndarray
    asked: np.ndarray
    classes: int
    device: str
    tell: ProgressCallback

    @property
    def reach(self) -> int:
        """Teachers that one person's data reaches; public."""
        return self.partition.max_teachers_per_subject

    @property
    def shapes(self) -> Shapes:
        """The public numbers of teachers, and of those that a person reaches."""
        return ((self.method.num_teachers, self.reach),)

    @property
    def promise(self) -> Ensemble:
        """What the receipt is made from."""
        return self.method

    @property
    def queries(self) -> np.ndarray:
        """(Q, L, C) public windows that are labelled."""
        found: np.ndarray = self.windows[self.asked]
        return found

    @property
    def network(self) -> LstmNetwork:
        """What the student is."""
        return LstmNetwork(window=self.windows.shape[1], hidden=self.method.hidden)

    @cached_property
    def query_normalisation(self) -> tuple[np.ndarray, np.ndarray]:
        """The public normalisation."""
        return compute_channel_scales([signal.values for signal in self.known])

    def collect_votes(self, make_teacher: MakeTeacher | None = None) -> np.ndarray:
        """(T, Q) of teachers that have learned. Private.

        Args:
            make_teacher: a new estimator for a public seed, instead of the method's own kind.
        """
        lessons = teachers.lessons_of(
            self.signals,
            self.partition,
            classes=self.classes,
            public=self.query_normalisation if self.method.normalise == "public" else None,
            overlap=self.method.overlap,
        )

        def report_progress(done: int, total: int) -> None:
            self.tell("teachers", done, total)

        if make_teacher is None and self.method.teacher == "lstm":
            return teachers.votes_by_lstm(
                lessons,
                self.queries,
                classes=self.classes,
                schedule=lstm_stack.StackSchedule(
                    hidden=self.method.hidden,
                    epochs=self.method.teacher_epochs,
                    batch=self.method.batch,
                    rate=self.method.learning_rate,
                    seed=self.method.public_seed,
                    device=self.device,
                ),
                progress=report_progress,
            )
        make = make_teacher or _make_estimator(self.method)
        return teachers.votes_by_estimators(
            lessons, self.queries, make=make, progress=report_progress
        )

    def sample_labels(self, votes: np.ndarray, noise: Noise) -> np.ndarray:
        """(Q,) that the noisy votes give; to be drawn once."""
        counts = teachers.counts_of(votes, self.classes)
        return self.method.make_ballot(self.reach).sample_answers(counts, noise)

    def train_student(self, labels: np.ndarray) -> lstm_gradients.LSTM:
        """A network that learned the labels, and nothing else of private signals."""
        given = np.full(len(self.windows), -1)
        given[self.asked] = labels
        net = student.learn_student(
            self.windows,
            given,
            self.method,
            classes=self.classes,
            normalisation=self.query_normalisation,
            device=self.device,
            progress=lambda done, total: self.tell("student", done, total),
        )
        net.rate_hz = self.known[0].rate_hz
        return net


def read_ensemble(
    private: Collection[Any],
    public: Collection[Any],
    method: Ensemble,
    *,
    device: str = "cpu",
    tell: ProgressCallback = lambda what, done, total: None,
) -> EnsembleRun:
    """Read all signals, and decide who teaches whom by public numbers.

    Args:
        private: the recordings to protect.
        public: recordings of other people, whose windows are asked and learned from; of labels
            only whether there is any is looked at.
        method: how.
        device: where teachers and student learn.
        tell: called with what is done, how far, and of how much.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("Expected a GPU for device=cuda, found none; use device=cpu.")
    classes = len(classes_of(private))
    signals = worn.read_signals(
        private, is_private=True, progress=lambda done, total: tell("reading", done, total)
    )
    known = worn.read_signals(
        public, progress=lambda done, total: tell("reading public", done, total)
    )
    worn.check_alike(signals, known)
    shares = partition_of(private, signals, method)
    windows = worn.public_windows(known, max(method.windows), overlap=method.overlap)
    if len(windows) < method.queries:
        raise BadInput(
            f"Expected at least {method.queries} public windows to ask, got {len(windows)}; give "
            f"--queries {len(windows)}, or more public signals."
        )
    owners = [
        owner_of(signal, index, "subject", private.labels[index].name)
        for index, signal in enumerate(signals)
    ]
    rng = np.random.default_rng((method.public_seed, 2))
    return EnsembleRun(
        method=method,
        signals=signals,
        known=known,
        units=units_of(owners),
        partition=shares,
        windows=windows,
        asked=np.sort(rng.permutation(len(windows))[: method.queries]),
        classes=classes,
        device=device,
        tell=tell,
    )


def partition_of(
    collection: Collection[Any], signals: Sequence[Signal], method: Ensemble
) -> Partition:
    """Which teacher sees what; decided by public numbers alone."""
    extents = []
    for labels, signal in zip(collection.labels, signals, strict=True):
        if signal.subject is None:
            raise BadInput(
                f"Expected to know whose {labels.name} is, got nobody; list the recordings in a "
                "manifest with a column subject."
            )
        extents.append(Extent(length=len(signal.values), subject=signal.subject))
    return partition_recordings(extents, shards=method.shards, windows=method.windows, by=method.by)


def reach_of(private: Collection[Any], method: Ensemble) -> int:
    """Teachers that one person's data reaches; recordings are read for their lengths alone."""
    signals = worn.read_signals(private, is_private=True)
    return partition_of(private, signals, method).max_teachers_per_subject


def _make_estimator(method: Ensemble) -> MakeTeacher:
    if method.teacher == "forest":
        forests = require_extra("sklearn.ensemble", extra="train")
        return lambda number: forests.RandomForestClassifier(
            n_estimators=50, random_state=method.public_seed + number
        )
    near = require_extra("sklearn.neighbors", extra="train")
    return lambda number: near.KNeighborsClassifier(n_neighbors=1)
