"""TEMPDIFF's experiments: ensembles taught once, their votes counted under many kinds of noise.

Only for data sets whose people never lived, or that are public: accuracies against true labels and
the agreement of teachers are exact functions of private data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from masquerade.collection import Collection
from masquerade.doors import teaching
from masquerade.doors.signals import labelled_windows, public_windows, read
from masquerade.noise import Noise
from masquerade.recordings import Signal
from masquerade.train.ensemble import student, teachers, votes
from masquerade.train.ensemble.method import Ensemble
from masquerade.train.ensemble.partition import Stretch, windows_of

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """What an experiment has: signals in three parts, and the public windows with their truth.

    Args:
        private: collection of the private part.
        signals: its recordings.
        public: recordings of the public part.
        tested: windows and classes of the test part.
        classes: there are.
    """

    private: Collection[Any]
    signals: Sequence[Signal]
    public: Sequence[Signal]
    tested: Sequence[Signal]
    classes: int

    @classmethod
    def of(cls, parts: dict[str, Collection[Any]]) -> World:
        """Read all three parts."""
        return cls(
            private=parts["train"],
            signals=read(parts["train"]),
            public=read(parts["public"]),
            tested=read(parts["test"]),
            classes=len(parts["train"].activities),
        )

    def asked(self, window: int, count: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Public windows that one activity fills, chosen by a public seed, and that activity."""
        whole = [Stretch(n, 0, len(signal.values)) for n, signal in enumerate(self.public)]
        found, truth = windows_of(
            self.public, whole, window=window, step=window // 2, classes=self.classes
        )
        rng = np.random.default_rng((seed, 2))
        some = np.sort(rng.permutation(len(found))[:count])
        return found[some], truth[some]


@dataclass(frozen=True, kw_only=True, eq=False)
class Taught:
    """An ensemble's votes on queries, and the truth.

    Args:
        method: of the ensemble.
        reach: teachers that one person's data reaches.
        votes: (T, Q).
        queries: (Q, L, C).
        truth: (Q,).
    """

    method: Ensemble
    reach: int
    votes: np.ndarray
    queries: np.ndarray
    truth: np.ndarray

    @property
    def teacher_accuracy(self) -> float:
        """Of one teacher, on average."""
        return float((self.votes == self.truth).mean())


def taught(world: World, method: Ensemble, *, progress: Progress) -> Taught:
    """Train the teachers of a method and ask them."""
    split = teaching.split_of_signals(world.private, world.signals, method)
    queries, truth = world.asked(max(method.windows), method.queries, seed=method.public_seed)
    lessons = teachers.lessons_of(world.signals, split, classes=world.classes, public=_scale(world))
    found = teaching.votes_of(
        lessons, queries, method, world.classes, device="cpu", progress=progress
    )
    return Taught(
        method=method,
        reach=split.max_teachers_per_subject,
        votes=found,
        queries=queries,
        truth=truth,
    )


def labels_of(held: Taught, aggregator: str, epsilon: float, classes: int) -> np.ndarray:
    """Noisy labels at a target epsilon for one person."""
    ballot = votes.calibrated(
        aggregator,  # type: ignore[arg-type]
        epsilon=epsilon,
        delta=held.method.delta,
        queries=len(held.queries),
        teachers_per_subject=held.reach,
    )
    return ballot.answers(teachers.counts_of(held.votes, classes), Noise())


def student_accuracy(
    world: World, queries: np.ndarray, labels: np.ndarray, method: Ensemble, *, seed: int
) -> float:
    """A student of these labels, tested on people whom nobody saw."""
    window = queries.shape[1]
    more = public_windows(world.public, window)
    windows = np.concatenate([queries, more])
    given = np.concatenate([labels, np.full(len(more), -1)])
    net = student.learn(
        windows,
        given,
        classes=world.classes,
        normalisation=_scale(world),
        course=replace(teaching.course_of(method), seed=seed),
        progress=lambda done, total: None,
    )
    tested, truth = labelled_windows(world.tested, window)
    return float((student.probabilities(net, tested).argmax(axis=1) == truth).mean())


def _scale(world: World) -> tuple[np.ndarray, np.ndarray]:
    return teachers.normalisation([signal.values for signal in world.public])


def noisy_accuracy(held: Taught, gamma: float, classes: int) -> float:
    """How often LNMax's label is the true one."""
    ballot = votes.Ballot(
        aggregator="lnmax",
        queries=len(held.queries),
        scale=1 / gamma,
        teachers_per_subject=held.reach,
    )
    labels = ballot.answers(teachers.counts_of(held.votes, classes), Noise())
    return float((labels == held.truth).mean())


def estimates(
    held: Taught, gammas: Sequence[float], classes: int
) -> dict[float, tuple[float, float, float]]:
    """For each gamma: epsilon for a person, and the papers' figure with 512 and with 8 moments."""
    found = {}
    for gamma in gammas:
        ballot = votes.Ballot(
            aggregator="lnmax",
            queries=len(held.queries),
            scale=1 / gamma,
            teachers_per_subject=held.reach,
        )
        counts = teachers.counts_of(held.votes, classes)
        told = votes.data_dependent_epsilon(counts, ballot, delta=held.method.delta)
        found[gamma] = (
            ballot.epsilon(held.method.delta),
            float(told.value),
            float(told.value_at_8_moments),
        )
    return found
