"""TEMPDIFF's experiments: ensembles taught once, their votes counted under many kinds of noise.

Only for data sets whose people never lived, or that are public: accuracies against true labels and
the agreement of teachers are exact functions of private data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from masquerade._torch import torch
from masquerade.collection import Collection
from masquerade.errors import BadInput
from masquerade.networks.lstm import LstmNetwork
from masquerade.noise import Noise
from masquerade.recipes import bench
from masquerade.recipes.tempdiff.parts import SignalParts
from masquerade.recordings import Signal
from masquerade.training import learner, loop, student, teach, teachers, votes
from masquerade.training.dp_sgd import DpSgd
from masquerade.training.ensemble import Ensemble
from masquerade.training.learner import Memory
from masquerade.training.partition import features
from masquerade.training.worn import labelled_windows, public_windows

_LONGER = 4  # times as many steps where there is no privacy


@dataclass(frozen=True, kw_only=True, eq=False)
class Taught:
    """An ensemble's votes on queries, and the truth.

    Args:
        method: of the ensemble.
        reach: teachers that one person's data reaches.
        votes: (T, Q).
        queries: (Q, L, C).
        truth: (Q,).
        classes: there are.
    """

    method: Ensemble
    reach: int
    votes: np.ndarray
    queries: np.ndarray
    truth: np.ndarray
    classes: int

    @property
    def teacher_accuracy(self) -> float:
        """Of one teacher, on average."""
        return float((self.votes == self.truth).mean())

    @property
    def counts(self) -> np.ndarray:
        """(Q, K) votes."""
        return teachers.counts_of(self.votes, self.classes)

    @property
    def moved(self) -> int:
        """Votes that the protected unit moves."""
        return self.reach if self.method.unit == "subject" else 1

    def first(self, count: int) -> Taught:
        """Of fewer queries."""
        return replace(
            self,
            votes=self.votes[:, :count],
            queries=self.queries[:count],
            truth=self.truth[:count],
        )


def taught(
    world: SignalParts,
    method: Ensemble,
    *,
    queries: int,
    overlap: float | None = None,
    device: str = "cpu",
    journal: bench.Journal | None = None,
) -> Taught:
    """Train the teachers of a method and ask them, unless the journal has their votes.

    Queries overlap as teachers' windows do, unless ``overlap`` says otherwise.
    """
    split = teach.partition_of(world.private, world.signals, method)
    apart = method.overlap if overlap is None else overlap
    asked, truth = world.asked(max(method.windows), queries, seed=method.public_seed, overlap=apart)
    if len(truth) < method.queries:
        raise BadInput(
            f"Expected at least {method.queries} public windows of one activity to ask, got "
            f"{len(truth)}; lower --queries or name more public subjects."
        )
    school = teach.School(
        method=replace(method, normalise="public"),
        signals=world.signals,
        known=world.public,
        units=(),
        partition=split,
        windows=asked,
        asked=np.arange(len(asked)),
        classes=world.classes,
        device=device,
        tell=bench.quiet,
    )
    name = (
        f"votes of {method.name} by {method.by}, {method.teachers} teachers, teaching "
        f"{method.public_seed}"
    )
    found = (journal or bench.Journal()).measured(name, lambda: school.votes().tolist())
    return Taught(
        method=method,
        reach=split.max_teachers_per_subject,
        votes=np.array(found),
        queries=asked,
        truth=truth,
        classes=world.classes,
    )


def labels_of(held: Taught, aggregator: str, epsilon: float) -> np.ndarray:
    """Noisy labels of the method's queries at a target epsilon for its unit; -1 for no answer.

    ``confident`` asks all queries that there are and answers no more than the others do, where the
    winner seems to have half the votes.
    """
    given: dict[str, Any] = {"delta": held.method.delta, "teachers_per_subject": held.moved}
    plain = votes.calibrated("gnmax", epsilon=epsilon, queries=held.method.queries, **given)
    if aggregator == "gnmax":
        return plain.answers(held.first(held.method.queries).counts, Noise())
    if aggregator == "confident":
        asked = len(held.queries)
        given |= {"threshold": len(held.votes) / 2, "threshold_std": 3 * plain.scale}
        given |= {"cap": held.method.queries}
    else:
        asked = held.method.queries
    ballot = votes.calibrated(
        aggregator,  # type: ignore[arg-type]
        epsilon=epsilon,
        queries=asked,
        **given,
    )
    return ballot.answers(held.first(asked).counts, Noise())


@dataclass(frozen=True, kw_only=True, eq=False)
class Exam:
    """What every student has in common.

    Args:
        windows: (N, L, C) public ones, beside the queries.
        normalisation: public.
        tested: (T, L, C) of people whom nobody saw.
        truth: (T,).
        classes: there are.
        method: how students learn.
    """

    windows: np.ndarray
    normalisation: tuple[np.ndarray, np.ndarray]
    tested: np.ndarray
    truth: np.ndarray
    classes: int
    method: Ensemble

    @classmethod
    def of(cls, world: SignalParts, method: Ensemble) -> Exam:
        """For students of one window length."""
        window, overlap = max(method.windows), method.overlap
        tested, truth = labelled_windows(
            world.tested, window, classes=world.classes, overlap=overlap
        )
        return cls(
            windows=public_windows(world.public, window, overlap=overlap),
            normalisation=world.scale,
            tested=tested,
            truth=truth,
            classes=world.classes,
            method=method,
        )

    def share(self, net: Any) -> float:
        """How often a network is right."""
        return float((student.probabilities(net, self.tested).argmax(axis=1) == self.truth).mean())


def student_accuracy(
    exam: Exam, queries: np.ndarray, labels: np.ndarray, *, seed: int, is_alone: bool = False
) -> float:
    """A student of these labels, and unless it learns alone of the other public windows."""
    if not (labels >= 0).any():
        return float((exam.truth == 0).mean())  # nothing was answered: it says the first class
    torch.set_num_threads(1)
    method = replace(exam.method, public_seed=seed)
    if is_alone:
        windows, given, method = queries, labels, replace(method, unlabelled="none")
    else:
        windows = np.concatenate([queries, exam.windows])
        given = np.concatenate([labels, np.full(len(exam.windows), -1)])
    net = student.learn(
        windows,
        given,
        method,
        classes=exam.classes,
        normalisation=exam.normalisation,
    )
    return exam.share(net)


def nearest_accuracy(exam: Exam, windows: np.ndarray, labels: np.ndarray) -> float:
    """What the nearest class mean of a few labelled windows says."""
    mean, scale = exam.normalisation
    rows, tested = (features((values - mean) / scale) for values in (windows, exam.tested))
    spread = features((exam.windows - mean) / scale).std(axis=0)
    known = np.unique(labels)
    means = np.stack([rows[labels == number].mean(axis=0) for number in known])
    apart = (tested[:, None] - means) / np.where(spread > 0, spread, 1.0)
    return float((known[np.square(apart).sum(axis=2).argmin(axis=1)] == exam.truth).mean())


def private_accuracy(
    exam: Exam, private: Collection[Any], public: Sequence[Signal], method: DpSgd, *, device: str
) -> float:
    """An LSTM that DP-SGD trained on the private signals themselves."""
    torch.set_num_threads(1)
    network = LstmNetwork(window=exam.tested.shape[1], hidden=exam.method.hidden)
    ways = learner.Ways(
        memory=Memory(device=device), work=loop.Workload(physical=min(16, method.batch))
    )
    with learner.read(private, method, network, public=public, ways=ways) as reading:
        return exam.share(reading.learn(Noise()))


def open_accuracy(exam: Exam, world: SignalParts, *, seed: int, is_alone: bool = True) -> float:
    """One that learned all private windows with their true labels: no privacy.

    There are many more of them than queries, so it takes more steps.
    """
    windows, truth = labelled_windows(
        world.signals,
        exam.tested.shape[1],
        classes=world.classes,
        overlap=exam.method.overlap,
    )
    longer = replace(exam.method, student_steps=_LONGER * exam.method.student_steps)
    exam = replace(exam, method=longer)
    return student_accuracy(exam, windows, truth, seed=seed, is_alone=is_alone)


def published(held: Taught, gamma: float, queries: int | None = None) -> votes.Ballot:
    """LNMax, as papers have it."""
    count = held.method.queries if queries is None else queries
    return votes.Ballot(aggregator="lnmax", queries=count, scale=1 / gamma)


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """What LNMax's labels cost, beside what papers print.

    Args:
        teacher: epsilon for the data behind one teacher.
        person: epsilon for one person, with all teachers that they reach.
        figure: the papers' data-dependent one; an estimate.
        at_8_moments: the same with the few moments that papers try.
    """

    teacher: float
    person: float
    figure: float
    at_8_moments: float


def claimed(held: Taught, gamma: float, queries: int | None = None) -> Claimed:
    """For labels by LNMax at this gamma."""
    ballot = published(held, gamma, queries)
    some = held.first(ballot.queries)
    person = replace(ballot, teachers_per_subject=held.reach)
    told = votes.data_dependent_epsilon(some.counts, ballot, delta=held.method.delta)
    return Claimed(
        teacher=ballot.epsilon(held.method.delta),
        person=person.epsilon(held.method.delta),
        figure=float(told.value),
        at_8_moments=float(told.value_at_8_moments),
    )
