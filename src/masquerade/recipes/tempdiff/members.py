"""Who was learned from? The membership attack on students of noisy votes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from masquerade._torch import torch
from masquerade.attack.case_model import ModelCase
from masquerade.attack.membership import Membership
from masquerade.guarantee import Relation
from masquerade.recipes import bench, membership
from masquerade.recipes.membership import MembersFound
from masquerade.recipes.tempdiff import exam as exams
from masquerade.recipes.tempdiff.exam import Exam, Taught
from masquerade.recipes.tempdiff.parts import SignalParts
from masquerade.train.ensemble import student, teach, votes
from masquerade.train.ensemble.partition import step_of, windows_of

if TYPE_CHECKING:
    from masquerade.recipes.tempdiff import TempdiffPlan

_EACH = 12  # windows of a teacher's people that the student is asked for
_LEAST = 1e-12  # chance, so that its logarithm is finite


@dataclass(frozen=True, kw_only=True, eq=False)
class AskedWindows:
    """Windows of private people that a model is asked for: rows of units, a teacher's people each.

    Args:
        windows: (R, L, C).
        targets: (R,).
        whose: (R,) the number of the unit.
        teachers: (U,) the teacher of each unit.
    """

    windows: np.ndarray
    targets: np.ndarray
    whose: np.ndarray
    teachers: np.ndarray

    @classmethod
    def of(cls, world: SignalParts, held: Taught, *, window: int) -> AskedWindows:
        """The first windows of every teacher's people."""
        split = teach.partition_of(world.private, world.signals, held.method)
        step = step_of(window, held.method.overlap)
        found = []
        for number, stretches in enumerate(split.teachers):
            values, classes = windows_of(
                world.signals, stretches, window=window, step=step, classes=world.classes
            )
            some = np.linspace(0, len(classes) - 1, min(_EACH, len(classes))).astype(int)
            found.append((values[some], classes[some], np.full(len(some), number)))
        values, classes, whose = (np.concatenate(each) for each in zip(*found, strict=True))
        known, numbers = np.unique(whose, return_inverse=True)  # a teacher may have no window
        return cls(windows=values, targets=classes, whose=numbers, teachers=known)

    def outputs(self, net: object) -> np.ndarray:
        """(R, K): logarithms of a network's chances."""
        chances = student.probabilities(net, self.windows)  # type: ignore[arg-type]
        return np.asarray(np.log(np.maximum(chances, _LEAST)))


@dataclass(frozen=True, kw_only=True, eq=False)
class StudentTraining:
    """Counts the votes of some teachers, and teaches a student the labels.

    Args:
        held: all teachers' votes.
        exam: how students learn.
        asked: what they are asked for.
        epsilon: of one person; None for votes that are counted without noise.
    """

    held: Taught
    exam: Exam
    asked: AskedWindows
    epsilon: float | None

    def __call__(self, members: np.ndarray, seed: int) -> np.ndarray:
        """Outputs of a student of these teachers."""
        one = replace(self.held, votes=self.held.votes[self.asked.teachers[members]])
        some = one.first(one.method.queries)
        if self.epsilon is None:
            labels = some.counts.argmax(axis=1)
        else:
            labels = exams.labels_of(one, "gnmax", self.epsilon)
        return self.asked.outputs(_taught(self.exam, some.queries, labels))


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenTraining:
    """Teaches a network people's own windows and labels: no privacy at all."""

    exam: Exam
    asked: AskedWindows

    def __call__(self, members: np.ndarray, seed: int) -> np.ndarray:
        """Outputs of a network that learned from these units themselves."""
        rows = members[self.asked.whose]
        net = _taught(self.exam, self.asked.windows[rows], self.asked.targets[rows])
        return self.asked.outputs(net)


def _taught(exam: Exam, windows: np.ndarray, labels: np.ndarray) -> object:
    torch.set_num_threads(1)
    return student.learn(
        windows,
        labels,
        replace(exam.method, unlabelled="none"),
        classes=exam.classes,
        normalisation=exam.normalisation,
    )


def measured(
    plan: TempdiffPlan,
    world: SignalParts,
    held: Mapping[tuple[str, str, int], Taught],
    exam: Exam,
    *,
    journal: bench.Journal,
    told: bench.Told = bench.quiet,
) -> tuple[MembersFound, ...]:
    """Students of the largest ensemble of whole people, at a few epsilons."""
    known = [one for (who, by, _), one in held.items() if (who, by) == ("tempdiff", "subject")]
    if not known:
        return ()
    one = max(known, key=lambda each: len(each.votes))
    asked = AskedWindows.of(world, one, window=exam.tested.shape[1])
    attack = Membership(shadows=plan.membership, jobs=max(0, plan.num_processes))
    people = "people" if len(one.votes) == world.people else "teachers' people"
    found: list[MembersFound] = []
    for column in membership.columns(plan.epsilons):
        epsilon = None if column == float("inf") else column
        case = ModelCase(
            targets=asked.targets,
            whose=asked.whose,
            learn=StudentTraining(held=one, exam=exam, asked=asked, epsilon=epsilon),
            overfit=OpenTraining(exam=exam, asked=asked),
            allowed=_allowed(one, epsilon),
            of=people,
        )
        work = partial(
            membership.found_in,
            case,
            row="TEMPDIFF's students",
            epsilon=epsilon,
            attack=attack,
            protected="one person",
            told=told,
        )
        found += membership.read(journal.measured(f"members, epsilon {column:g}", work))
    return tuple(found)


def _allowed(held: Taught, epsilon: float | None) -> membership.Allowed | None:
    if epsilon is None:
        return None
    ballot = votes.calibrated(
        "gnmax",
        epsilon=epsilon,
        delta=held.method.delta,
        queries=held.method.queries,
        teachers_per_subject=held.moved,
    )
    relation = Relation.REPLACE_ONE
    event = ballot.event(relation)
    return membership.allowed_by(event, epsilon=epsilon, delta=held.method.delta, relation=relation)
