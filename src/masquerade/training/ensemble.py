"""What a teacher ensemble must say: its public fields and its promise."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal

from masquerade import _check
from masquerade._formatting import format_rounded_up
from masquerade.accounting.power import compute_event_power
from masquerade.events import DpEvent
from masquerade.guarantee import Guarantee, GuaranteeKind, Relation, Unit, UnitName
from masquerade.mechanism import Plan, Shapes
from masquerade.training import votes
from masquerade.training.method import TrainingPromise, check_seed
from masquerade.training.partition import By
from masquerade.training.votes import Ballot
from masquerade.wording import delta_caveat

_NUMERICS = (
    "votes are whole numbers; noise exactly sampled, from ChaCha20 keyed by the operating system "
    "(so the guarantee is computational); only the winning class leaves"
)


@dataclass(frozen=True, kw_only=True)
class Ensemble(TrainingPromise):
    """How teachers learn from private signals and a student from their noisy votes.

    Args:
        epsilon: of all labels together; with gamma the most that they may have.
        delta: with it.
        unit: what is protected: subject, everything one person recorded, or shard, the data behind
            one teacher.
        relation: replace_one or zero_out; the number is the same.
        queries: public windows that are labelled.
        aggregator: noise on the votes: gnmax, lnmax (as published), gumbel or confident.
        gamma: lnmax and gumbel alone: one over the scale of the noise, as papers state it; if left
            out, what epsilon needs.
        shards: M, of the private data.
        windows: w_1 .. w_N in samples; a shard has a teacher for each.
        overlap: share of a window that the next one of the same teacher, or public one, repeats; 0
            as published.
        by: what a shard is made of: whole people, whole recordings, or stretches of time.
        teacher: what a teacher is: lstm, forest or nearest.
        hidden: width of an LSTM, of teachers and student.
        batch: windows in a step of an LSTM.
        learning_rate: of an LSTM.
        teacher_epochs: passes of a teacher over its windows.
        normalise: by public signals, or by each shard's own.
        threshold: confident alone: votes that the winner must have, noise included.
        threshold_std: confident alone: of the noise in that test.
        cap: confident alone: the most queries that are answered; public.
        student_epochs: passes of the student over its labelled windows.
        student_steps: the most steps it takes, however many passes that is.
        unlabelled: who labels the other public windows: a forest that learned the answers, the
            student itself (self), or none.
        confidence: that the forest, or the student, must have in such a label.
        public_seed: of public randomness: first weights, orders, which windows are asked.
    """

    UNITS: ClassVar[tuple[UnitName, ...]] = (UnitName.SUBJECT, UnitName.SHARD)
    LATER: ClassVar[tuple[str, ...]] = (
        *("gamma", "overlap", "batch", "learning_rate", "student_steps"),
    )

    relation: Literal["replace_one", "zero_out"] = "replace_one"
    queries: int = 200
    aggregator: Literal["gnmax", "lnmax", "gumbel", "confident"] = "gnmax"
    gamma: float | None = None
    shards: int = 50
    windows: tuple[int, ...] = (128,)
    overlap: float = 0.5
    by: By = "subject"
    teacher: Literal["lstm", "forest", "nearest"] = "lstm"
    hidden: int = 64
    batch: int = 32
    learning_rate: float = 3e-3
    teacher_epochs: int = 30
    normalise: Literal["public", "shard"] = "public"
    threshold: float | None = None
    threshold_std: float | None = None
    cap: int | None = None
    student_epochs: int = 40
    student_steps: int = 1500
    unlabelled: Literal["forest", "self", "none"] = "forest"
    confidence: float = 0.4
    public_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.finite(epsilon=self.epsilon)
        _check.count(queries=self.queries, shards=self.shards, hidden=self.hidden)
        _check.count(teacher_epochs=self.teacher_epochs, student_epochs=self.student_epochs)
        _check.count(batch=self.batch, student_steps=self.student_steps)
        _check.positive(learning_rate=self.learning_rate)
        check_seed(self.public_seed)
        if not 0 < self.confidence <= 1:
            raise ValueError(f"Expected confidence in (0, 1], got {self.confidence}.")
        self._check_windows()
        self._check_gamma()
        is_confident = self.aggregator == "confident"
        if (self.threshold is not None) != is_confident:
            raise ValueError(
                "Expected --threshold exactly with --aggregator confident, got "
                f"aggregator={self.aggregator} and threshold={self.threshold}."
            )

    def _check_gamma(self) -> None:
        if self.gamma is None:
            return
        _check.positive(gamma=self.gamma)
        if self.aggregator not in ("lnmax", "gumbel"):
            raise ValueError(
                f"Expected --aggregator lnmax or gumbel with --gamma, got {self.aggregator}."
            )

    def _check_windows(self) -> None:
        object.__setattr__(self, "windows", tuple(self.windows))
        for number, window in enumerate(self.windows):
            _check.count(**{f"windows[{number}]": window})
        if not self.windows or min(self.windows) < 2:
            raise ValueError(
                f"Expected window lengths of at least 2 samples, got windows={self.windows}."
            )
        if not 0 <= self.overlap < 1:
            raise ValueError(f"Expected overlap from 0 to below 1, got overlap={self.overlap}.")

    @property
    def num_teachers(self) -> int:
        """M x N."""
        return self.shards * len(self.windows)

    def make_ballot(self, reach: int) -> Ballot:
        """How votes are counted, with the noise that the promise needs.

        Args:
            reach: teachers that one person's data reaches; public.
        """
        return _make_cached_ballot(self, reach)

    def event(self, reach: int, relation: Relation) -> DpEvent:
        """All labels, for an accountant that reads it under ``relation``."""
        return self.make_ballot(reach).event(relation)

    def plan(self, shapes: Shapes) -> Plan:
        """What a receipt with these public shapes, teachers and reach, must say."""
        teachers, reach = shapes[0]
        if teachers != self.num_teachers:
            raise ValueError(f"it has {self.num_teachers} teachers, not {teachers}")
        return Plan(guarantee=self.guarantee(reach), event=self.event(reach, self.target_relation))

    def guarantee(self, reach: int) -> Guarantee:
        """What is promised for the labels, and so for the student."""
        ballot, relation = self.make_ballot(reach), self.target_relation
        epsilon = ballot.compute_epsilon(self.delta)
        return Guarantee(
            kind=GuaranteeKind.FORMAL,
            unit=Unit(name=UnitName(str(self.unit)), shards_per_subject=reach),
            relation=relation,
            released="the noisy labels of public windows, and the student that learned from them",
            epsilon=epsilon,
            delta=self.delta,
            accountant=ballot.find_accountant(self.delta),
            numerics=_NUMERICS,
            composition=f"{self.queries} queries of this run; other runs, and tuning on the same "
            "data, are not included",
            assumed_public=(
                f"that there are {self.num_teachers} teachers, who is in which recording, and "
                "that one "
                f"person reaches at most {reach} of them",
                "the lengths of recordings, the list of classes and the sensors' rate",
                "the signals whose windows are labelled, and of whom they are",
            ),
            not_protected=self._not_protected(),
            caveats=self._list_caveats(reach),
            power=compute_event_power(
                ballot.event(relation), relation=relation, epsilon=epsilon, delta=self.delta
            ),
        )

    def _not_protected(self) -> tuple[str, ...]:
        public = "people whose signals were taken as public"
        if self.unit == "subject":
            return (public,)
        return ("a person whose data reaches several teachers: choose --unit subject", public)

    def _list_caveats(self, reach: int) -> tuple[str, ...]:
        said = [
            "The epsilon holds whatever the teachers voted, and is the same number under "
            "replace_one and zero_out."
        ]
        if self.unit == "shard" and reach > 1:
            person = dataclasses.replace(self.make_ballot(reach), teachers_per_subject=reach)
            said.append(
                f"For a person, whose data reaches {reach} teachers, the same labels have epsilon "
                f"{format_rounded_up(person.compute_epsilon(self.delta))}."
            )
        return (*said, *delta_caveat(self.delta, self.shards))


@cache
def _make_cached_ballot(method: Ensemble, reach: int) -> Ballot:
    _check.count(reach=reach)
    moved = reach if method.unit == "subject" else 1
    if method.gamma is not None:
        return _at_gamma(method, method.gamma, moved)
    return votes.calibrate_ballot(
        method.aggregator,
        epsilon=method.epsilon,
        delta=method.delta,
        queries=method.queries,
        teachers_per_subject=moved,
        threshold=method.threshold,
        threshold_std=method.threshold_std,
        cap=method.cap,
    )


def _at_gamma(method: Ensemble, gamma: float, moved: int) -> Ballot:
    """Noise as it was asked for, if its labels cost no more than they may."""
    found = Ballot(
        aggregator=method.aggregator,
        queries=method.queries,
        scale=1 / gamma,
        teachers_per_subject=moved,
    )
    cost = found.compute_epsilon(method.delta)
    if cost > method.epsilon:
        raise ValueError(
            f"Expected epsilon of at least {format_rounded_up(cost)}, which {method.queries} "
            "labels at "
            f"gamma={gamma:g} have for one {method.unit}, got epsilon={method.epsilon:g}; lower "
            "gamma, or raise epsilon."
        )
    return found
