"""Who was learned from? The membership attack on students of noisy votes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from masquerade._torch import torch
from masquerade.attacks.attack import ModelCase
from masquerade.attacks.membership import Membership
from masquerade.attacks.membership_scores import Shadows
from masquerade.guarantee import Relation
from masquerade.noise import Noise
from masquerade.recipes import bench, membership
from masquerade.recipes.membership import AttackedRow, MembersFound
from masquerade.recipes.tempdiff import exam as exams
from masquerade.recipes.tempdiff.exam import Exam, Taught
from masquerade.recipes.tempdiff.parts import SignalParts
from masquerade.training import student, teach, votes
from masquerade.training.partition import step_of, windows_of

if TYPE_CHECKING:
    from masquerade.recipes.tempdiff import TempdiffPlan


_EACH = 12  # windows of a teacher's people that the student is asked for
GAMMA = 0.1  # that the paper finds good with the most teachers
Ensembles: TypeAlias = Mapping[tuple[str, str, int], Taught]
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
        ballot: how votes are counted; None for no noise.
    """

    held: Taught
    exam: Exam
    asked: AskedWindows
    ballot: votes.Ballot | None

    def __call__(self, members: np.ndarray, seed: int) -> np.ndarray:
        """Outputs of a student of these teachers."""
        return self.asked.outputs(self.student(members))

    def student(self, members: np.ndarray) -> object:
        """A student of these teachers."""
        chosen = self.held.votes[self.asked.teachers[members]]
        some = replace(self.held, votes=chosen).first(self.held.method.queries)
        if self.ballot is None:
            labels = some.counts.argmax(axis=1)
        else:
            labels = self.ballot.answers(some.counts, Noise())
        return _taught(self.exam, some.queries, labels)

    def test(self, members: np.ndarray, seed: int) -> float:
        """Top-1 of such a student."""
        return self.exam.share(self.student(members))


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


@dataclass(frozen=True, kw_only=True, eq=False)
class CountedVotes:
    """An ensemble whose students are attacked, and how its votes are counted.

    Args:
        name: of the row.
        held: its votes.
        ballot: how they are counted; None for no noise.
        protected: what the unit is.
        of: what units are.
    """

    name: str
    held: Taught
    ballot: votes.Ballot | None
    protected: str
    of: str

    @property
    def epsilon(self) -> float | None:
        """That is true, of the unit; None without noise."""
        return None if self.ballot is None else self.ballot.epsilon(self.held.method.delta)

    @property
    def allowed(self) -> membership.Allowed | None:
        """What the noise allows."""
        if self.ballot is None or self.epsilon is None:
            return None
        relation = Relation.REPLACE_ONE
        return membership.allowed_by(
            self.ballot.event(relation),
            epsilon=self.epsilon,
            delta=self.held.method.delta,
            relation=relation,
        )

    def attacked(self, world: SignalParts, exam: Exam) -> AttackedRow:
        """With whose windows students are asked for, and what they are tested on."""
        asked = AskedWindows.of(world, self.held, window=exam.tested.shape[1])
        training = StudentTraining(held=self.held, exam=exam, asked=asked, ballot=self.ballot)
        case = ModelCase(
            targets=asked.targets,
            whose=asked.whose,
            learn=training,
            overfit=OpenTraining(exam=exam, asked=asked),
            allowed=self.allowed,
            of=self.of,
        )
        return AttackedRow(
            name=self.name,
            epsilon=self.epsilon,
            protected=self.protected,
            case=case,
            test=training.test,
            tested=len(exam.truth),
        )


def measured(
    plan: TempdiffPlan,
    world: SignalParts,
    held: Ensembles,
    exam: Exam,
    *,
    journal: bench.Journal,
    told: bench.Told = bench.quiet,
) -> tuple[MembersFound, ...]:
    """Students of whole people at a few epsilons, and those as published."""
    attack = Membership(shadows=plan.membership, jobs=max(0, plan.num_processes))
    found: list[MembersFound] = []
    ceilings: dict[str, Callable[[], Shadows]] = {}  # one for all students of an ensemble
    for row in (*_shipped(plan, world, held), *_published(plan, held)):
        attacked = row.attacked(world, exam)
        leaky = ceilings.setdefault(row.of, cache(partial(attack.leaky, attacked.case, told=told)))
        work = partial(membership.found_in, attacked, attack=attack, leaky=leaky, told=told)
        name = f"members, {row.name}, epsilon {row.epsilon}"
        found += membership.read(journal.measured(name, work))
    return tuple(found)


def _largest(held: Ensembles, by: str) -> Taught | None:
    known = [one for (who, shards, _), one in held.items() if (who, shards) == ("tempdiff", by)]
    return max(known, key=lambda each: len(each.votes), default=None)


def _shipped(plan: TempdiffPlan, world: SignalParts, held: Ensembles) -> list[CountedVotes]:
    """The largest ensemble of whole people, for a person's epsilon."""
    one = _largest(held, "subject")
    if one is None or not plan.epsilons:
        return []
    ballots = [
        None
        if epsilon == math.inf
        else votes.calibrated(
            "gnmax",
            epsilon=epsilon,
            delta=one.method.delta,
            queries=one.method.queries,
            teachers_per_subject=one.moved,
        )
        for epsilon in membership.columns(plan.epsilons)
    ]
    people = "people" if len(one.votes) == world.people else "teachers' people"
    return [
        CountedVotes(name="TEMPDIFF", held=one, ballot=ballot, protected="one person", of=people)
        for ballot in ballots
    ]


def _published(plan: TempdiffPlan, held: Ensembles) -> list[CountedVotes]:
    """The largest ensemble as published, with as much noise as the paper likes best there."""
    one = None if plan.by == "subject" else _largest(held, plan.by)
    if one is None:
        return []
    gamma = min(plan.gammas, key=lambda each: abs(each - GAMMA))
    return [
        CountedVotes(
            name="as published",
            held=one,
            ballot=exams.published(one, gamma),
            protected=f"one teacher's data, gamma {gamma:g}",
            of="teachers' data",
        )
    ]
