"""Signals as experiments see them: teachers who vote, labels by noisy votes, and their students.

Only for data sets whose people never lived, or that are public: accuracies against true labels and
the agreement of teachers are exact functions of private data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from experiments import membership
from experiments.engine import Journal, hide_progress
from masquerade._torch import torch
from masquerade.attacks.attack import ModelCase
from masquerade.collection import Collection, CountLine, DataSource, Labels, Medium
from masquerade.errors import BadInput
from masquerade.guarantee import Relation
from masquerade.networks.lstm import LstmNetwork
from masquerade.networks.network import compute_channel_scales
from masquerade.noise import Noise
from masquerade.recordings import Signal
from masquerade.training import learner, loop, student, teach, teachers, votes
from masquerade.training.ensemble import Ensemble
from masquerade.training.learner import MemorySettings
from masquerade.training.methods import DpSgd
from masquerade.training.partition import compute_window_features, step_of, windows_of
from masquerade.training.worn import cut_labelled_windows, public_windows, read_signals, signal_of

# --- signals in three parts


@dataclass(frozen=True, kw_only=True)
class ChosenSignals(Collection[Signal]):
    """Signals of a data set in another order, with some of their channels."""

    ABOUT: ClassVar[DataSource] = DataSource(
        title="Chosen signals", kind=Medium.SIGNALS, licence="its source's", home="", citation=""
    )

    whole: Collection[Any]  # the data set
    places: tuple[int, ...]  # of its recordings
    channels: str = ""  # how the names of the channels begin that are kept; empty for all

    @property
    def activities(self) -> tuple[str, ...]:
        """Those of the data set."""
        return self.whole.activities

    def check(self) -> tuple[CountLine, ...]:
        """That of the data set."""
        return self.whole.check()

    def _find(self) -> Sequence[Labels]:
        return [self.whole.labels[place] for place in self.places]

    def _load(self, index: int) -> Signal:
        return choose_channels(signal_of(self.whole[self.places[index]]), self.channels)


def choose_channels(signal: Signal, begins: str) -> Signal:
    """Only the channels whose names begin so.

    Raises:
        BadInput: if there are none.
    """
    if not begins:
        return signal
    names = signal.channels or ()
    kept = [place for place, name in enumerate(names) if name.startswith(begins)]
    if not kept:
        raise BadInput(
            f"Expected channels whose names begin with {begins}, got {', '.join(names) or 'none'}."
        )
    return replace(
        signal, values=signal.values[:, kept], channels=tuple(names[place] for place in kept)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class SignalParts:
    """What an experiment has: signals in three parts."""

    private: Collection[Any]  # the private part
    signals: Sequence[Signal]  # its recordings
    public: Sequence[Signal]  # recordings of the public part
    tested: Sequence[Signal]  # recordings of the test part
    classes: int  # there are

    @classmethod
    def of(cls, parts: Mapping[str, Collection[Any]], *, channels: str = "") -> SignalParts:
        """Read all three parts."""
        chosen = {
            name: ChosenSignals(whole=part, places=tuple(range(len(part))), channels=channels)
            for name, part in parts.items()
        }
        return cls(
            private=chosen["train"],
            signals=read_signals(chosen["train"]),
            public=read_signals(chosen["public"]),
            tested=read_signals(chosen["test"]),
            classes=len(chosen["train"].activities),
        )

    @property
    def people(self) -> int:
        """Who are private."""
        return len({signal.subject for signal in self.signals})

    def deal_people(self, seed: int) -> SignalParts:
        """The same with private people in another order, so that other teachers see them.

        A person's recordings stay together, in their order.
        """
        people = list(dict.fromkeys(signal.subject for signal in self.signals))
        turns = np.random.default_rng((seed, 3)).permutation(len(people)).tolist()
        turn = dict(zip(people, turns, strict=True))
        places = sorted(
            range(len(self.signals)), key=lambda place: turn[self.signals[place].subject]
        )
        private = ChosenSignals(whole=self.private, places=tuple(places))
        return replace(self, private=private, signals=[self.signals[place] for place in places])

    def draw_queries(
        self, window: int, count: int | None, *, seed: int, overlap: float = 0.5
    ) -> tuple[np.ndarray, np.ndarray]:
        """Public windows that one activity fills, in a public order, and that activity.

        ``count`` of them, or all where it is None.
        """
        found, truth = cut_labelled_windows(
            self.public, window, classes=self.classes, overlap=overlap
        )
        some = np.random.default_rng((seed, 2)).permutation(len(found))[:count]
        return found[some], truth[some]

    def draw_few(
        self, window: int, each: int, *, seed: int, overlap: float = 0.5
    ) -> tuple[np.ndarray, np.ndarray]:
        """Up to ``each`` public windows of every class, as somebody might label by hand."""
        found, truth = self.draw_queries(window, None, seed=seed, overlap=overlap)
        places = [np.flatnonzero(truth == number)[:each] for number in range(self.classes)]
        some = np.concatenate(places)
        return found[some], truth[some]


# --- teachers, and labels by their votes


@dataclass(frozen=True, kw_only=True, eq=False)
class Poll:
    """An ensemble's votes on queries, and the truth."""

    method: Ensemble  # of the ensemble
    reach: int  # teachers that one person's data reaches
    votes: np.ndarray  # (T, Q)
    queries: np.ndarray  # (Q, L, C)
    truth: np.ndarray  # (Q,)
    classes: int  # there are

    @property
    def counts(self) -> np.ndarray:
        """(Q, K) votes."""
        return teachers.counts_of(self.votes, self.classes)

    @property
    def moved(self) -> int:
        """Votes that the protected unit moves."""
        return self.reach if self.method.unit == "subject" else 1

    def keep_first(self, count: int) -> Poll:
        """Of fewer queries."""
        return replace(
            self,
            votes=self.votes[:, :count],
            queries=self.queries[:count],
            truth=self.truth[:count],
        )


def poll_teachers(
    world: SignalParts,
    method: Ensemble,
    *,
    queries: int,
    overlap: float | None = None,
    device: str = "cpu",
    journal: Journal | None = None,
) -> Poll:
    """Train the teachers of a method and ask them, unless the journal has their votes.

    Queries overlap as teachers' windows do, unless ``overlap`` says otherwise.
    """
    split = teach.partition_of(world.private, world.signals, method)
    apart = method.overlap if overlap is None else overlap
    window, seed = max(method.windows), method.public_seed
    asked, truth = world.draw_queries(window, queries, seed=seed, overlap=apart)
    if len(truth) < method.queries:
        raise BadInput(
            f"Expected at least {method.queries} public windows of one activity to ask, got "
            f"{len(truth)}; lower --queries or name more public subjects."
        )
    school = teach.EnsembleRun(
        method=replace(method, normalise="public"),
        signals=world.signals,
        known=world.public,
        units=(),
        partition=split,
        windows=asked,
        asked=np.arange(len(asked)),
        classes=world.classes,
        device=device,
        tell=hide_progress,
    )
    name = f"votes of {method.name} by {method.by}, {method.num_teachers} teachers, teaching {seed}"
    found = (journal or Journal()).measure_once(name, lambda: school.collect_votes().tolist())
    return Poll(
        method=method,
        reach=split.max_teachers_per_subject,
        votes=np.array(found),
        queries=asked,
        truth=truth,
        classes=world.classes,
    )


def calibrate_ballot(poll: Poll, aggregator: Any, epsilon: float, **fields: Any) -> votes.Ballot:
    """A way to count votes that has an epsilon for the unit of the method."""
    given = {"queries": poll.method.queries, "teachers_per_subject": poll.moved} | fields
    return votes.calibrate_ballot(aggregator, epsilon=epsilon, delta=poll.method.delta, **given)


def draw_labels(poll: Poll, aggregator: str, epsilon: float) -> np.ndarray:
    """Noisy labels of the method's queries at a target epsilon for its unit; -1 for no answer.

    ``confident`` asks all queries that there are and answers no more than the others do, where the
    winner seems to have half the votes.
    """
    fields: dict[str, Any] = {}
    if aggregator == "confident":
        spread = 3 * calibrate_ballot(poll, "gnmax", epsilon).scale
        fields = {"threshold": len(poll.votes) / 2, "threshold_std": spread}
        fields |= {"cap": poll.method.queries, "queries": len(poll.queries)}
    ballot = calibrate_ballot(poll, aggregator, epsilon, **fields)
    return ballot.sample_answers(poll.keep_first(ballot.queries).counts, Noise())


def make_published_ballot(poll: Poll, gamma: float, queries: int | None = None) -> votes.Ballot:
    """LNMax, as papers have it."""
    count = poll.method.queries if queries is None else queries
    return votes.Ballot(aggregator="lnmax", queries=count, scale=1 / gamma)


@dataclass(frozen=True, kw_only=True)
class LabelCost:
    """What LNMax's labels cost, beside what papers print."""

    teacher: float  # epsilon for the data behind one teacher
    person: float  # epsilon for one person, with all teachers that they reach
    figure: float  # the papers' data-dependent one; an estimate
    at_8_moments: float  # the same with the few moments that papers try


def compute_cost(poll: Poll, gamma: float, queries: int | None = None) -> LabelCost:
    """For labels by LNMax at this gamma."""
    ballot, delta = make_published_ballot(poll, gamma, queries), poll.method.delta
    some = poll.keep_first(ballot.queries)
    person = replace(ballot, teachers_per_subject=poll.reach)
    printed = votes.data_dependent_epsilon(some.counts, ballot, delta=delta)
    return LabelCost(
        teacher=ballot.compute_epsilon(delta),
        person=person.compute_epsilon(delta),
        figure=float(printed.value),
        at_8_moments=float(printed.value_at_8_moments),
    )


# --- students, and what they are compared with

_LONGER = 4  # times as many steps where there is no privacy


@dataclass(frozen=True, kw_only=True, eq=False)
class Exam:
    """What every student has in common."""

    windows: np.ndarray  # (N, L, C) public ones, beside the queries
    normalisation: tuple[np.ndarray, np.ndarray]  # public
    tested: np.ndarray  # (T, L, C) of people whom nobody saw
    truth: np.ndarray  # (T,)
    classes: int  # there are
    method: Ensemble  # how students learn

    @classmethod
    def of(cls, world: SignalParts, method: Ensemble) -> Exam:
        """For students of one window length."""
        window, overlap = max(method.windows), method.overlap
        tested, truth = cut_labelled_windows(
            world.tested, window, classes=world.classes, overlap=overlap
        )
        return cls(
            windows=public_windows(world.public, window, overlap=overlap),
            normalisation=compute_channel_scales([signal.values for signal in world.public]),
            tested=tested,
            truth=truth,
            classes=world.classes,
            method=method,
        )

    def score_network(self, net: Any) -> float:
        """How often a network is right."""
        return float(
            (student.predict_probabilities(net, self.tested).argmax(axis=1) == self.truth).mean()
        )

    def teach_student(
        self, windows: np.ndarray, labels: np.ndarray, *, is_alone: bool = True
    ) -> Any:
        """A student of labelled windows; if not alone, of the other public ones too."""
        torch.set_num_threads(1)
        method = replace(self.method, unlabelled="none") if is_alone else self.method
        if not is_alone:
            windows = np.concatenate([windows, self.windows])
            labels = np.concatenate([labels, np.full(len(self.windows), -1)])
        return student.learn_student(
            windows, labels, method, classes=self.classes, normalisation=self.normalisation
        )


def score_student(
    exam: Exam, queries: np.ndarray, labels: np.ndarray, *, seed: int, is_alone: bool = False
) -> float:
    """A student of these labels, and unless it learns alone of the other public windows."""
    if not (labels >= 0).any():
        return float((exam.truth == 0).mean())  # nothing was answered: it says the first class
    again = replace(exam, method=replace(exam.method, public_seed=seed))
    return exam.score_network(again.teach_student(queries, labels, is_alone=is_alone))


def score_nearest(exam: Exam, windows: np.ndarray, labels: np.ndarray) -> float:
    """What the nearest class mean of a few labelled windows says."""
    mean, scale = exam.normalisation
    rows, tested = (
        compute_window_features((values - mean) / scale) for values in (windows, exam.tested)
    )
    spread = compute_window_features((exam.windows - mean) / scale).std(axis=0)
    known = np.unique(labels)
    means = np.stack([rows[labels == number].mean(axis=0) for number in known])
    apart = (tested[:, None] - means) / np.where(spread > 0, spread, 1.0)
    return float((known[np.square(apart).sum(axis=2).argmin(axis=1)] == exam.truth).mean())


def score_dp_sgd(
    exam: Exam, private: Collection[Any], public: Sequence[Signal], method: DpSgd, *, device: str
) -> float:
    """An LSTM that DP-SGD trained on the private signals themselves."""
    torch.set_num_threads(1)
    network = LstmNetwork(window=exam.tested.shape[1], hidden=exam.method.hidden)
    ways = learner.ComputeSettings(
        memory=MemorySettings(device=device), work=loop.Workload(physical=min(16, method.batch))
    )
    with learner.read_recordings(private, method, network, public=public, ways=ways) as reading:
        return exam.score_network(reading.learn(Noise()))


def score_open(exam: Exam, world: SignalParts, *, seed: int, is_alone: bool = True) -> float:
    """One that learned all private windows with their true labels: no privacy.

    There are many more of them than queries, so it takes more steps.
    """
    windows, truth = cut_labelled_windows(
        world.signals, exam.tested.shape[1], classes=world.classes, overlap=exam.method.overlap
    )
    longer = replace(exam.method, student_steps=_LONGER * exam.method.student_steps)
    return score_student(replace(exam, method=longer), windows, truth, seed=seed, is_alone=is_alone)


# --- who was learned from: students of noisy votes are attacked

_EACH = 12  # windows of a teacher's people that the student is asked for
_LEAST = 1e-12  # chance, so that its logarithm is finite


@dataclass(frozen=True, kw_only=True, eq=False)
class MemberWindows:
    """Windows of private people that a model is asked for; a unit is a teacher's people."""

    windows: np.ndarray  # (R, L, C)
    targets: np.ndarray  # (R,)
    whose: np.ndarray  # (R,) the number of the unit
    teachers: np.ndarray  # (U,) the teacher of each unit

    @classmethod
    def of(cls, world: SignalParts, poll: Poll, *, window: int) -> MemberWindows:
        """The first windows of every teacher's people."""
        split = teach.partition_of(world.private, world.signals, poll.method)
        step = step_of(window, poll.method.overlap)
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

    def choose_rows(self, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """People's own windows and labels: no privacy at all."""
        rows = members[self.whose]
        return self.windows[rows], self.targets[rows]


@dataclass(frozen=True, kw_only=True, eq=False)
class StudentTraining:
    """Teaches students of some units."""

    exam: Exam  # how students learn
    asked: MemberWindows  # what they are asked for
    choose: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # windows and labels of units

    def __call__(self, members: np.ndarray, seed: int) -> np.ndarray:
        """(R, K): logarithms of the chances that a student of these units gives."""
        chances = student.predict_probabilities(self._teach(members), self.asked.windows)
        return np.asarray(np.log(np.maximum(chances, _LEAST)))

    def test_student(self, members: np.ndarray, seed: int) -> float:
        """Top-1 of such a student."""
        return self.exam.score_network(self._teach(members))

    def _teach(self, members: np.ndarray) -> Any:
        return self.exam.teach_student(*self.choose(members))


@dataclass(frozen=True, kw_only=True, eq=False)
class CountedVotes:
    """An ensemble whose students are attacked, and how its votes are counted."""

    name: str  # of the row
    poll: Poll  # its votes
    ballot: votes.Ballot | None = None  # how they are counted; None for no noise
    protected: str  # what the unit is
    of: str  # what units are

    @property
    def epsilon(self) -> float | None:
        """That is true, of the unit; None without noise."""
        return None if self.ballot is None else self.ballot.compute_epsilon(self.poll.method.delta)

    def label_queries(
        self, known: np.ndarray, members: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The queries, and labels by votes of units, whose teachers are ``known``."""
        chosen = replace(self.poll, votes=self.poll.votes[known[members]])
        some = chosen.keep_first(self.poll.method.queries)
        if self.ballot is None:
            return some.queries, some.counts.argmax(axis=1)
        return some.queries, self.ballot.sample_answers(some.counts, Noise())

    def build_row(self, world: SignalParts, exam: Exam) -> membership.AttackedRow:
        """With whose windows students are asked for, and what they are tested on."""
        asked = MemberWindows.of(world, self.poll, window=exam.tested.shape[1])
        choose = partial(self.label_queries, asked.teachers)
        training = StudentTraining(exam=exam, asked=asked, choose=choose)
        relation, allowed = Relation.REPLACE_ONE, None
        if self.ballot is not None:
            given = {"epsilon": self.epsilon or 0.0, "delta": self.poll.method.delta}
            event = self.ballot.event(relation)
            allowed = membership.bound_hits(event, relation=relation, **given)
        case = ModelCase(
            targets=asked.targets,
            whose=asked.whose,
            learn=training,
            overfit=replace(training, choose=asked.choose_rows),
            allowed=allowed,
            of=self.of,
        )
        return membership.AttackedRow(
            name=self.name,
            epsilon=self.epsilon,
            protected=self.protected,
            case=case,
            test=training.test_student,
            tested=len(exam.truth),
        )
