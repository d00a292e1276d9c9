"""TEMPDIFF's figures: teachers, noise, students, and what the labels really cost a person.

Ensembles are taught once a teaching; their votes are counted under many kinds of noise, and every
student is tested on the same people.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from experiments import membership, signals
from experiments.claims import (
    Cells,
    Claim,
    Runs,
    Word,
    compare_runs,
    format_percent,
    format_words,
    write_sentences,
)
from experiments.engine import Experiment, Preset, Run, Settings, check_settings, fill_settings
from experiments.pages import Page, make_curves, write_list, write_table
from experiments.signals import CountedVotes, Exam, LabelCost, Poll, SignalParts
from masquerade import _check, _formatting, catalog
from masquerade.attacks.membership import Membership
from masquerade.attacks.membership_scores import ShadowModels
from masquerade.collection import Collection
from masquerade.datasets.stage import Stage
from masquerade.noise import Noise
from masquerade.publish.collections import select_signals
from masquerade.report import plots
from masquerade.training import teachers
from masquerade.training.ensemble import Ensemble
from masquerade.training.methods import DpSgd, Pate, Tempdiff
from masquerade.training.partition import By

# --- presets and settings

TUNED_ON = 2000  # Stage's world on which all that could be chosen was
_PUBLISHED: Mapping[str, Any] = {
    **{"sizes": (10, 30, 50, 100), "gammas": (0.01, 0.1, 0.3, 0.5), "queries": (1000, 1600)},
    **{"by": "time", "overlap": 0.0, "delta": 1e-5, "batch": 32, "teacher_epochs": 30},
    **{"labelled": 1, "seeds": 3, "channels": "", "person_queries": 100},
}
PRESETS = {
    "stage": Preset(
        values={
            **_PUBLISHED,
            **{"windows": (64, 96), "teacher": "forest", "hidden": 32, "learning_rate": 1e-2},
            **{"student_epochs": 150, "student_steps": 400, "unlabelled": "forest"},
            "epsilons": (0.5, 1.0, 2.0, 8.0),
        },
        left_open=(
            "Teachers are forests unless --teacher says otherwise; the paper's are LSTMs.",
            "What could be chosen (the student's learning rate, epochs and steps, the number of "
            "queries for a person's epsilon, DP-SGD's learning rate) was, once, on Stage's world "
            f"{TUNED_ON}.",
        ),
    ),
    "paper": Preset(
        values={
            **_PUBLISHED,
            **{"windows": (100, 200), "teacher": "lstm", "hidden": 64, "learning_rate": 3e-3},
            **{"student_epochs": 40, "student_steps": 2000, "unlabelled": "none", "epsilons": ()},
        },
        left_open=(
            "Window lengths, how many, and which one PATE has are in an appendix that the preprint "
            "does not hold: 100 and 200 samples are taken, and the longest for PATE.",
            "So are the LSTM's width and how it learns: 64, Adam at 0.003, 32 windows in a step, "
            "30 epochs for teachers and 40 for students are taken.",
            "Who is private, public and tested is in it as well: --public-subjects and "
            "--test-subjects say it.",
            "By what channels are normalised is not said: by public signals.",
            "Whether the window lengths of a partition share its data is said in two ways; here "
            "each has a stretch of its own, so that the data behind one teacher move one vote.",
            "Figure 5 tests labels on a test set; here they are those of the queries, which are "
            "the ones that a student learns from.",
            "How many moments its accountant tried is not said: 8, at which its 1.4 is the least "
            "that can be printed.",
        ),
    ),
}
_QUICK = {"sizes": 2, "gammas": 2, "epsilons": 2, "queries": 1}  # how many are left
_WEARERS = {True: 180, False: 630}  # of Stage, if no number was given
_HALF = 0.5  # overlapping windows of one teacher cost nothing: where people are whole, they do
_LIMIT = 1e9  # no ensemble is told which epsilon: its votes are counted many times
# fields of an ensemble that are those of the settings
_SHARED = (
    *("delta", "teacher", "teacher_epochs", "student_epochs", "student_steps", "hidden", "batch"),
    *("learning_rate", "unlabelled"),
)
Settled: TypeAlias = Any
"""`TempdiffSettings` with nothing left open."""


@dataclass(frozen=True, kw_only=True)
class TempdiffSettings(Settings):
    """Teach ensembles, count their votes under noise, and test the students.

    As published: shards of time, windows that do not overlap, Laplace noise at each gamma, students
    of the labels alone; beside every number that the paper would print stands a proved one, for the
    data behind one teacher and for a person. Then, where there are epsilons: whole people in
    shards, and noise for that epsilon of a person. Every teaching deals people and trains teachers
    and students anew.

    For people who never lived, or who are public: it prints private statistics. A run that is
    stopped goes on where it was.
    """

    out: Path = Path("out/tempdiff")  # folder for the results; it is made
    setting: Literal["stage", "paper"] = "stage"  # fills in what is left out below
    sizes: tuple[int, ...] | None = None  # numbers of teachers as published; multiples of windows
    gammas: tuple[float, ...] | None = None  # of LNMax as published
    # public windows that are labelled, as published; other numbers than the first by the largest
    # ensembles alone
    queries: tuple[int, ...] | None = None
    windows: tuple[int, ...] | None = None  # of TEMPDIFF, in samples; PATE has the longest alone
    overlap: float | None = None  # share of a window that the next one repeats
    by: By | None = None  # what shards as published are made of
    delta: float | None = None  # of every epsilon
    teacher: Literal["forest", "lstm", "nearest"] | None = None  # lstm as published
    teacher_epochs: int | None = None  # passes of an LSTM teacher over its windows
    hidden: int | None = None  # width of LSTMs
    batch: int | None = None  # windows in a step of an LSTM
    learning_rate: float | None = None  # of LSTMs
    student_epochs: int | None = None  # passes of a student over its labelled windows
    student_steps: int | None = None  # the most steps it takes
    # who labels the other public windows for students that learn from these too; none for none
    unlabelled: Literal["forest", "self", "none"] | None = None
    # public windows of each class that somebody labelled by hand, for what public data alone can do
    labelled: int | None = None
    epsilons: tuple[float, ...] | None = None  # for one person; none without what is shipped
    person_queries: int | None = None  # public windows that are labelled there
    channels: str | None = None  # how the names of the channels begin that are used; empty for all
    seeds: int | None = None  # teachings
    public_subjects: str = ""  # where the data set has no public split
    test_subjects: str = ""  # likewise
    device: Literal["cpu", "cuda"] = "cpu"  # where LSTM teachers and DP-SGD learn
    num_processes: int = -1  # students at a time, as --jobs; -1 for all cores
    membership: int = 0  # shadow models for an attack on who was learned from; 0 for none

    def __post_init__(self) -> None:
        if fill_settings(self, PRESETS[self.setting].values) is not self:
            return  # with everything filled in it has checked itself
        plan: Settled = self
        check_settings(self, count=("seeds", "labelled", "person_queries"))
        if self.membership:
            Membership(shadows=self.membership)  # says so if it is odd
        for number in (*plan.sizes, *plan.queries):
            _check.count(size_or_queries=number)
        if not plan.windows or any(n % len(plan.windows) for n in plan.sizes):
            raise ValueError(
                f"Expected numbers of teachers that are multiples of {len(plan.windows)} windows, "
                f"got sizes={tuple(sorted(plan.sizes))}."
            )
        if not (plan.sizes and plan.gammas and plan.queries):
            raise ValueError("Expected at least one of --sizes, --gammas and --queries, got none.")
        for value in (*plan.gammas, *plan.epsilons):
            _check.positive(gamma_or_epsilon=value)
        self.build_method("tempdiff", max(plan.sizes), plan.by)  # checks the rest

    def settle(self, data: Collection[Any] | None = None) -> TempdiffSettings:
        """As they are run: what was left open filled in, sizes in order, or shortened."""
        full = fill_settings(self, PRESETS[self.setting].values)
        full = replace(full, sizes=tuple(sorted(full.sizes or ())))
        if not self.quick:
            return full
        few = {name: getattr(full, name)[-count:] for name, count in _QUICK.items()}
        return replace(full, seeds=1, **few)

    @property
    def left_open(self) -> tuple[str, ...]:
        """What the setting's source does not say, and what was taken."""
        return PRESETS[self.setting].left_open

    @property
    def processes(self) -> int:
        """Students at a time; 0 for one a core. They learn on the processor."""
        return self.jobs or max(0, self.num_processes)

    def build_method(self, who: str, size: int, by: str, *, seed: int = 0) -> Ensemble:
        """An ensemble of this many teachers, of settled settings."""
        plan: Settled = self
        kind: type[Ensemble] = Tempdiff if who == "tempdiff" else Pate
        windows = plan.windows if who == "tempdiff" else (max(plan.windows),)
        is_person = by == "subject"
        return kind(
            epsilon=_LIMIT,
            unit="subject" if is_person else "shard",
            shards=size // len(windows),
            windows=windows,
            overlap=max(plan.overlap, _HALF) if is_person else plan.overlap,
            by=by,  # type: ignore[arg-type]
            queries=plan.person_queries if is_person else plan.queries[0],
            public_seed=seed,
            **{name: getattr(plan, name) for name in _SHARED},
        )


# --- which students there are to teach

AGGREGATORS = ("gnmax", "gumbel", "lnmax", "confident")
COMPARED = ("nearest mean of few labels", "few labels", "true labels", "no privacy")
FEWER_AT = 2.0  # the epsilon at which fewer teachers, and DP-SGD, are tried
Ensembles: TypeAlias = Mapping[tuple[str, str, int], Poll]
"""The votes of one teaching, by method, what shards are made of, and number of teachers."""


@dataclass(frozen=True, kw_only=True)
class Students:
    """Students of one kind of labels, or what they are compared with."""

    # tempdiff, pate, dp_sgd; true labels (of the same queries), few labels (that somebody gave
    # public windows by hand), nearest mean of few labels, no privacy
    who: str
    by: str = ""  # what shards are made of
    teachers: int = 0  # there are; 0 where none
    queries: int = 0  # labels that were asked for
    aggregator: str = ""  # how votes were counted
    gamma: float | None = None  # of LNMax as published
    epsilon: float | None = None  # that was aimed at, for one person
    # whether it learned from labelled windows alone; else from the other public ones too
    is_alone: bool = True

    @property
    def ensemble(self) -> tuple[str, str, int]:
        """Whose votes its labels are."""
        return self.who, self.by, self.teachers

    def name_cell(self, seed: int) -> str:
        """Under which a teaching is noted."""
        words = [f"{name}={value}" for name, value in asdict(self).items() if value]
        return f"{' '.join(words)}, teaching {seed}"


def list_published(plan: Settled) -> list[Students]:
    """As published: LNMax at each gamma, both methods, each number of teachers.

    With the first number of queries, as in Figures 5 and 6; with others the largest ensembles
    alone, which the paper finds best there (Figure 7).
    """
    return [
        Students(
            who=who, by=plan.by, teachers=size, queries=queries, aggregator="lnmax", gamma=gamma
        )
        for queries in plan.queries
        for who in ("tempdiff", "pate")
        for size in (plan.sizes if queries == plan.queries[0] else plan.sizes[-1:])
        for gamma in plan.gammas
    ]


def list_shipped(plan: Settled, people: int) -> list[Students]:
    """For a person's epsilon: whole people in shards, as many teachers as there are people."""
    most = people - people % len(plan.windows)
    shards = {"by": "subject", "teachers": most, "queries": plan.person_queries}
    is_alone = plan.unlabelled == "none"
    one = Students(who="tempdiff", **shards, aggregator="gnmax", is_alone=is_alone)
    kinds = [replace(one, is_alone=is_alone) for is_alone in dict.fromkeys((True, one.is_alone))]
    kinds += [replace(one, aggregator=name) for name in AGGREGATORS[1:]]
    kinds += [replace(one, who="pate")]
    found = [replace(kind, epsilon=epsilon) for kind in kinds for epsilon in plan.epsilons]
    fewer = [size for size in plan.sizes if size < most][-2:] if FEWER_AT in plan.epsilons else []
    found += [replace(one, teachers=size, epsilon=FEWER_AT) for size in fewer]
    heard = sorted({e for e in plan.epsilons if e == FEWER_AT} | set(plan.epsilons[-1:]))
    return found + [Students(who="dp_sgd", epsilon=epsilon) for epsilon in heard]


def list_compared(plan: Settled) -> list[Students]:
    """What students are compared with: public data alone, true labels, and no privacy."""
    kinds = [True] if plan.unlabelled == "none" else [True, False]
    queries = [*plan.queries, *([plan.person_queries] if plan.epsilons else [])]
    found = [Students(who="nearest mean of few labels")]
    for is_alone in kinds:
        asked = queries if is_alone else queries[-1:]
        found += [Students(who="true labels", queries=one, is_alone=is_alone) for one in asked]
        found += [Students(who=who, is_alone=is_alone) for who in ("few labels", "no privacy")]
    return found


# --- what is measured

_ASKED = 2  # times as many queries as are answered, for confident
_WINDOWS = 8  # of one person in a step of DP-SGD, spread over their recordings
GAMMA = 0.1  # that the paper finds good with the most teachers: of the attacked


@dataclass(frozen=True, kw_only=True)
class StudentsCell(Students):
    """What one teaching after the other gave."""

    right: tuple[float, ...] = ()  # share of labels that are true
    top_1: tuple[float, ...] = ()  # of the students, on people whom nobody saw
    claims: tuple[LabelCost, ...] = ()  # as published alone: what the labels cost
    tested: int  # windows that every student was tested on

    @property
    def runs(self) -> Runs:
        """Top-1."""
        return Runs(self.top_1, self.tested)

    @property
    def row(self) -> str:
        """Its line in the table of what is shipped."""
        words = [self.who, str(self.teachers) if self.teachers else "", self.aggregator]
        return ", ".join(filter(None, words)) + ("" if self.is_alone else " + other public windows")


@dataclass(frozen=True, kw_only=True)
class EnsembleCell:
    """Of an ensemble, one after the other teaching; private statistics."""

    method: str  # tempdiff or pate
    by: str  # what shards are made of
    teachers: int  # there are
    reach: tuple[int, ...]  # teachers that one person's data reaches
    teacher: tuple[float, ...]  # share of queries that one teacher has right, on average
    agreement: tuple[float, ...]  # the winner's share of the votes, on average
    failed: tuple[int, ...]  # teachers that always say the same


@dataclass(frozen=True, kw_only=True)
class TempdiffFound:
    """All that was measured."""

    ensembles: Cells[EnsembleCell]
    cells: Cells[StudentsCell]
    settings: Settled  # that they share
    data: tuple[str, str]  # the name of the data set, and its title
    tested: int  # windows that every student was tested on
    people: int  # who are private
    # what an attacker found of who was learned from, if one tried
    members: tuple[membership.MembersFound, ...] = ()

    def find_runs(self, **wanted: Any) -> Runs | None:
        """The students with these fields; of the most teachers, if there are several."""
        some = self.cells.find_all(**wanted)
        return max(some, key=lambda cell: cell.teachers).runs if some else None

    def find_public(self, *, is_alone: bool) -> Runs | None:
        """The best that was made of a few labelled public windows, without any private data."""
        few = self.find_runs(who="few labels", is_alone=is_alone)
        known = (few, self.find_runs(who="nearest mean of few labels"))
        return max((one for one in known if one), key=lambda one: one.mean, default=None)

    @property
    def is_alone(self) -> bool:
        """How students learned whose votes were counted in several ways."""
        return not self.cells.find_all(is_alone=False)

    def choose_votes(self, **fields: Any) -> dict[str, Any]:
        """The fields of students of votes."""
        usual = {"who": "tempdiff", "aggregator": "gnmax", "is_alone": self.is_alone}
        return usual | {"gamma": None} | fields

    @property
    def epsilons(self) -> list[float]:
        """From small to large."""
        return sorted({cell.epsilon for cell in self.cells if cell.epsilon is not None})

    @property
    def published(self) -> list[StudentsCell]:
        """LNMax at each gamma."""
        return [cell for cell in self.cells if cell.gamma is not None]

    def list_operating(self) -> list[StudentsCell]:
        """The cells of Table I: for each number of queries the paper's best, both methods."""
        cells = []
        for queries, (size, gamma) in zip(self.settings.queries, _BEST, strict=False):
            here = [cell for cell in self.published if cell.queries == queries]
            near = min({cell.teachers for cell in here}, key=lambda one: abs(one - size))
            soft = min({cell.gamma or 0.0 for cell in here}, key=lambda one: abs(one - gamma))
            cells += [cell for cell in here if (cell.teachers, cell.gamma) == (near, soft)]
        return cells


def measure_tempdiff(run: Run) -> TempdiffFound:
    """Read once, teach each ensemble a few times, count its votes many times."""
    plan, data = run.settings, run.data
    if isinstance(data, Stage) and data.wearers is None:
        data = replace(data, wearers=_WEARERS[plan.quick])
    parts = select_signals(data, public=plan.public_subjects, test=plan.test_subjects)
    if "test" not in parts:
        raise ValueError("Expected --test-subjects to test the students on, got none.")
    if isinstance(data, Stage):
        parts["train"].make_recordings(progress=partial(run.progress, "making"))  # type: ignore[attr-defined]
    return measure_world(run, SignalParts.of(parts, channels=plan.channels))


def measure_world(run: Run, world: SignalParts) -> TempdiffFound:
    """All ensembles, labels and students, but for those that the journal has."""
    plan: Settled = run.settings
    wanted = [*list_published(plan), *list_compared(plan)]
    wanted += list_shipped(plan, world.people) if plan.epsilons else []
    polls = [poll_ensembles(run, world.deal_people(s), s, wanted) for s in range(plan.seeds)]
    exam = Exam.of(world, plan.build_method("tempdiff", plan.sizes[-1], plan.by))
    teach_students(run, world, polls, wanted, exam)
    members = measure_members(run, world.deal_people(0), polls[0], exam) if plan.membership else ()
    return TempdiffFound(
        ensembles=Cells(describe_ensemble([each[name] for each in polls]) for name in polls[0]),
        cells=Cells(read_cell(run, one, polls, len(exam.truth)) for one in wanted),
        settings=plan,
        data=("", "")
        if run.data is None
        else (catalog.find_entry_name(run.data), run.data.ABOUT.title),
        tested=len(exam.truth),
        people=world.people,
        members=members,
    )


def poll_ensembles(
    run: Run, world: SignalParts, seed: int, wanted: Sequence[Students]
) -> dict[tuple[str, str, int], Poll]:
    """Every ensemble of one teaching: people are dealt anew, teachers and queries drawn anew."""
    plan: Settled = run.settings
    names = dict.fromkeys(one.ensemble for one in wanted if one.teachers)
    found = {}
    for who, by, size in names:
        method = plan.build_method(who, size, by, seed=seed)
        found[who, by, size] = signals.poll_teachers(
            world,
            method,
            queries=_ASKED * method.queries if by == "subject" else max(plan.queries),
            overlap=plan.overlap,
            device=plan.device,
            journal=run.journal,
        )
        run.progress(f"teaching {seed + 1}", len(found), len(names))
    return found


def describe_ensemble(polls: Sequence[Poll]) -> EnsembleCell:
    """One ensemble in all teachings."""
    private = [teachers.private_statistics(one.votes, one.classes) for one in polls]
    method = polls[0].method
    return EnsembleCell(
        method=method.name,
        by=method.by,
        teachers=method.num_teachers,
        reach=tuple(one.reach for one in polls),
        teacher=tuple(float((one.votes == one.truth).mean()) for one in polls),
        agreement=tuple(one.agreement for one in private),
        failed=tuple(one.failed for one in private),
    )


def teach_students(
    run: Run, world: SignalParts, polls: Sequence[Ensembles], wanted: Sequence[Students], exam: Exam
) -> None:
    """Students of noisy labels, and all that they are compared with, into the journal."""
    cells = {one.name_cell(seed): (one, seed) for seed in range(len(polls)) for one in wanted}
    tasks, right = {}, {}
    for name in run.find_missing(cells):
        one, seed = cells[name]
        tasks[name], right[name] = make_task(run.settings, one, world, polls[seed], exam, seed)
    run.measure_cells(
        "students",
        tasks,
        jobs=run.settings.processes,
        finish=lambda name, share: {"right": right[name], "top_1": share},
    )


def make_task(
    plan: Settled, one: Students, world: SignalParts, polls: Ensembles, exam: Exam, seed: int
) -> tuple[Callable[[], float], float | None]:
    """Work to be done, and the share of its labels that are true where it has some."""
    learn: dict[str, Any] = {"seed": seed, "is_alone": one.is_alone}
    if one.who == "dp_sgd":
        given = exam, world.private, world.public, build_dp_sgd(one, world, seed)
        return partial(signals.score_dp_sgd, *given, device=plan.device), None
    if one.who == "no privacy":
        return partial(signals.score_open, exam, world, **learn), None
    if one.who.endswith("few labels"):
        few = world.draw_few(exam.tested.shape[1], plan.labelled, seed=seed, overlap=plan.overlap)
        if one.who == "few labels":
            return partial(signals.score_student, exam, *few, **learn), None
        return partial(signals.score_nearest, exam, *few), None
    poll, labels = label_queries(one, polls)
    is_known = labels >= 0
    right = float((labels == poll.truth)[is_known].mean()) if is_known.any() else None
    return partial(signals.score_student, exam, poll.queries, labels, **learn), right


def label_queries(one: Students, polls: Ensembles) -> tuple[Poll, np.ndarray]:
    """The queries of a cell, and the labels that its student is given."""
    if one.who == "true labels":
        poll = next(each for each in polls.values() if len(each.truth) >= one.queries)
        some = poll.keep_first(one.queries)
        return some, some.truth
    poll = polls[one.ensemble]
    if one.gamma is not None:
        some = poll.keep_first(one.queries)
        ballot = signals.make_published_ballot(poll, one.gamma, one.queries)
        return some, ballot.sample_answers(some.counts, Noise())
    if one.epsilon is None:
        raise ValueError(f"Expected labels of {one.who} with a gamma or an epsilon, got neither.")
    labels = signals.draw_labels(poll, one.aggregator, one.epsilon)
    return poll.keep_first(len(labels)), labels


def read_cell(run: Run, one: Students, polls: Sequence[Ensembles], tested: int) -> StudentsCell:
    """A cell from the journal; what labels as published cost is computed once."""
    names = [one.name_cell(seed) for seed in range(len(polls))]
    held, claims = [run.journal.held[name] for name in names], []
    if one.gamma is not None:
        for name, each in zip(names, polls, strict=True):
            cost = partial(signals.compute_cost, each[one.ensemble], one.gamma, one.queries)
            claims.append(LabelCost(**run.journal.measure_once(f"cost of {name}", cost)))
    return StudentsCell(
        **vars(one),
        right=tuple(each["right"] for each in held if each["right"] is not None),
        top_1=tuple(each["top_1"] for each in held),
        claims=tuple(claims),
        tested=tested,
    )


def build_dp_sgd(one: Students, world: SignalParts, seed: int) -> DpSgd:
    """DP-SGD on the signals themselves, which hears all recordings of a person."""
    epsilon = float(one.epsilon or 0.0)
    recordings = max(Counter(signal.subject for signal in world.signals).values())
    fields: dict[str, Any] = {"unit": "subject", "relation": "replace_one", "part": "all"}
    fields |= {"epochs": 40.0, "clip_norm": 0.5, "batch": max(1, world.people // 3)}
    return DpSgd(
        **fields,
        epsilon=epsilon,
        learning_rate=0.03 * epsilon,  # the best of 0.01, 0.03 and 0.1 on another world
        segments=-(-_WINDOWS // recordings),
        recordings=recordings,
        public_seed=seed,
    )


def measure_members(
    run: Run, world: SignalParts, polls: Ensembles, exam: Exam
) -> tuple[membership.MembersFound, ...]:
    """Students of whole people at a few epsilons, and those as published, are attacked."""
    plan = run.settings
    attack = Membership(shadows=plan.membership, jobs=plan.processes)
    found: list[membership.MembersFound] = []
    ceilings: dict[str, Callable[[], ShadowModels]] = {}  # one for all students of an ensemble
    for row in list_attacked(plan, world, polls):
        attacked = row.build_row(world, exam)
        ceiling = cache(partial(attack.train_leaky_models, attacked.case, told=run.progress))
        leaky = ceilings.setdefault(row.of, ceiling)
        work = partial(
            membership.attack_row, attacked, attack=attack, leaky=leaky, progress=run.progress
        )
        name = f"members, {row.name}, epsilon {row.epsilon}"
        found += membership.read_found(run.journal.measure_once(name, work))
    return tuple(found)


def list_attacked(plan: Settled, world: SignalParts, polls: Ensembles) -> Iterator[CountedVotes]:
    """The largest ensemble of whole people at a person's epsilons, and the largest as published,
    with as much noise as the paper likes best there.
    """
    one = _find_largest(polls, "subject")
    if one is not None and plan.epsilons:
        people = "people" if len(one.votes) == world.people else "teachers' people"
        row = CountedVotes(name="TEMPDIFF", poll=one, protected="one person", of=people)
        for epsilon in membership.choose_columns(plan.epsilons):
            is_free = epsilon == math.inf
            yield (
                row
                if is_free
                else replace(row, ballot=signals.calibrate_ballot(one, "gnmax", epsilon))
            )
    one = None if plan.by == "subject" else _find_largest(polls, plan.by)
    if one is not None:
        gamma = min(plan.gammas, key=lambda each: abs(each - GAMMA))
        yield CountedVotes(
            name="as published",
            poll=one,
            ballot=signals.make_published_ballot(one, gamma),
            protected=f"one teacher's data, gamma {gamma:g}",
            of="teachers' data",
        )


def _find_largest(polls: Ensembles, by: str) -> Poll | None:
    known = [one for (who, shards, _), one in polls.items() if (who, shards) == ("tempdiff", by)]
    return max(known, key=lambda each: len(each.votes), default=None)


# --- what is said: students are compared with those that learned in the same way

_BEST = ((50, 0.3), (100, 0.1))  # teachers and gamma that the paper finds good, by data set
_HOW = {True: "that learned the labels alone", False: "that learned from other public windows too"}
Pairs: TypeAlias = Mapping[str, tuple[Runs | None, Runs | None]]  # by what each is called
Side: TypeAlias = Runs | Mapping[str, Any] | None  # runs, or the fields of a cell at each epsilon


def compare_pairs(pairs: Pairs) -> str:
    """Where the first is ahead of the second."""
    words: dict[str, Word] = {
        name: compare_runs(one, other) for name, (one, other) in pairs.items() if one and other
    }
    return format_words(words)


def compare_epsilons(found: TempdiffFound, one: Side, other: Side) -> str:
    """The same at each epsilon that both have."""

    def find(side: Side, epsilon: float) -> Runs | None:
        return found.find_runs(**side, epsilon=epsilon) if isinstance(side, Mapping) else side

    return compare_pairs({f"{e:g}": (find(one, e), find(other, e)) for e in found.epsilons})


def join_parts(parts: Mapping[str, str], end: str = "") -> str:
    """What is said, after each name; what says nothing is left out."""
    return "; ".join(f"{name}, {said}{end}" for name, said in parts.items() if said)


def tell_agreement(found: TempdiffFound) -> str:
    """By the spread over teachings alone: each drew its queries, and shares of votes are no counts.

    A share of votes scatters less from query to query than right and wrong do, so an error by the
    number of queries, as for students, would ask for more than is needed.
    """
    by_shards: dict[str, dict[str, tuple[Runs, Runs]]] = {}
    for one in found.ensembles.find_all(method="tempdiff"):
        other = found.ensembles.find(method="pate", by=one.by, teachers=one.teachers)
        if other is not None:
            first, second = (Runs(each.agreement, tested=math.inf) for each in (one, other))
            by_shards.setdefault(one.by, {})[str(one.teachers)] = first, second
    return join_parts({f"by {by}": compare_pairs(pairs) for by, pairs in by_shards.items()})


def tell_students(found: TempdiffFound) -> str:
    """One count for all cells, as the figures have many; each of them is in the JSON."""
    words: Counter[str] = Counter()
    for one in found.published:
        fields = {name: getattr(one, name) for name in ("teachers", "queries", "gamma")}
        other = found.find_runs(who="pate", **fields)
        if one.who == "tempdiff" and other is not None:
            words[compare_runs(one.runs, other)] += 1
    shown = ", ".join(f"{word} in {times}" for word, times in words.most_common())
    return f"{words.total()} pairs {shown}"


def tell_figure_8(found: TempdiffFound) -> str:
    """Students as published against those of true labels, and public data alone."""
    truth, public = {}, {}
    for cell in found.list_operating():
        if cell.who == "tempdiff":
            true = found.find_runs(who="true labels", queries=cell.queries, is_alone=True)
            truth[str(cell.queries)] = cell.runs, true
            public[str(cell.queries)] = cell.runs, found.find_public(is_alone=True)
    parts = {
        "against students of the true labels of their queries": compare_pairs(truth),
        "against public data alone": compare_pairs(public),
    }
    return join_parts(parts, " queries")


def format_range(epsilons: Sequence[float]) -> str:
    """The smallest and the largest to one decimal, never less than they are."""
    ends = (f"{_formatting.round_up_decimals(e, 1):.1f}" for e in (min(epsilons), max(epsilons)))
    return " to ".join(dict.fromkeys(ends))


def tell_claims(found: TempdiffFound) -> str:
    """What the paper would print for the labels of Table I, and what is true."""
    costs = [cost for cell in found.list_operating() for cost in cell.claims]
    printed = [cost.at_8_moments for cost in costs]
    teacher, person = (
        format_range([getattr(c, of) for c in costs]) for of in ("teacher", "person")
    )
    return (
        f"What the paper would print, in one teaching {min(printed):.1f} to {max(printed):.1f}, "
        f"depends on the votes: it is private itself, and no guarantee. True: {teacher} for one "
        f"teacher's data, {person} for one person."
    )


def tell_aggregators(found: TempdiffFound) -> str:
    """GNMax against the others."""
    mine, names = found.choose_votes(), ("lnmax", "gumbel", "confident")
    others = {f"against {name}": found.choose_votes(aggregator=name) for name in names}
    return join_parts({n: compare_epsilons(found, mine, other) for n, other in others.items()})


def tell_private_data(found: TempdiffFound) -> str:
    """Students of votes against what public data alone can do."""
    sides = {
        _HOW[alone]: (found.choose_votes(is_alone=alone), found.find_public(is_alone=alone))
        for alone in (True, False)
    }
    parts = {f"students {how}": compare_epsilons(found, *both) for how, both in sides.items()}
    return join_parts(parts)


def tell_fewer(found: TempdiffFound) -> str:
    """The most teachers against fewer."""
    mine = found.choose_votes()
    cells = found.cells.find_all(**mine)
    most = max((cell.teachers for cell in cells), default=0)
    pairs = {}
    for cell in cells:
        if cell.teachers < most:
            name = f"epsilon {cell.epsilon:g} against {cell.teachers}"
            pairs[name] = found.find_runs(**mine, epsilon=cell.epsilon), cell.runs
    said = compare_pairs(pairs)
    return said and f"{most} teachers against fewer: {said}."


def tell_public_data(found: TempdiffFound) -> str:
    """Students of a few labels in both ways, their nearest mean, and no privacy."""
    shown = []
    for alone in (True, False):
        few, best = (found.find_runs(who=w, is_alone=alone) for w in ("few labels", "no privacy"))
        public = found.find_public(is_alone=alone)
        if few is not None and best is not None and public is not None:
            gap = 100 * (best.mean - public.mean)
            shown.append(
                f"students {_HOW[alone]} {few}; all private windows without privacy {best}, "
                f"{gap:.1f} points more than the better one"
            )
    return "; ".join(shown)


def tell_spread(found: TempdiffFound) -> str:
    """What the numbers behind a mean are."""
    if found.settings.seeds == 1:
        return "one teaching, so no spread is known"
    return (
        f"± is the standard deviation over {found.settings.seeds} teachings, in each of which "
        "people are dealt, queries drawn and teachers and students trained anew"
    )


def make_claim(text: str, **values: Callable[[TempdiffFound], Any]) -> Claim:
    """A sentence and what it names."""
    return Claim(text=text, values=values)


CLAIMS = (
    make_claim(
        "Agreement of TEMPDIFF's teachers against PATE's (n = {s.seeds} teachings): {shown} "
        "teachers.",
        shown=tell_agreement,
    ),
    make_claim(
        "Students as published against PATE's, at the same gamma, teachers and queries: of "
        "{shown}.",
        shown=tell_students,
    ),
    make_claim("Figure 8, students as published: {shown}.", shown=tell_figure_8),
    make_claim("{said}", said=tell_claims),
    make_claim(
        "gnmax, students {how}: {shown}.",
        how=lambda found: _HOW[found.is_alone],
        shown=tell_aggregators,
    ),
    make_claim(
        "TEMPDIFF against PATE, both by whole people: {shown}.",
        shown=lambda found: compare_epsilons(
            found, found.choose_votes(), found.choose_votes(who="pate")
        ),
    ),
    make_claim(
        "Students with the other public windows against students without: {shown}.",
        shown=lambda found: compare_epsilons(
            found, found.choose_votes(is_alone=False), found.choose_votes(is_alone=True)
        ),
    ),
    make_claim("Votes against public data alone: {shown}.", shown=tell_private_data),
    make_claim(
        "Votes against DP-SGD on the signals, both without other public windows: {shown}.",
        shown=lambda found: compare_epsilons(
            found, found.choose_votes(is_alone=True), {"who": "dp_sgd"}
        ),
    ),
    make_claim("{said}", said=tell_fewer),
    make_claim(
        "Public data alone, {s.labelled} labelled by hand in each class: their nearest mean "
        "{nearest}; {shown}.",
        nearest=lambda found: str(found.find_runs(who="nearest mean of few labels")),
        shown=tell_public_data,
    ),
    make_claim(
        "{f.people} private people, {f.tested} windows of other people tested, delta {s.delta:g}; "
        "every epsilon is of one run alone; {spread}. Ahead is what is beyond twice the standard "
        "error, of teachings and of tested windows (of agreement, of teachings alone: each asks "
        "other windows). {left_open}",
        spread=tell_spread,
        left_open=lambda found: " ".join(found.settings.left_open),
    ),
)


# --- tables, plots and the page

KINDS = {"forest": "forests", "lstm": "LSTMs", "nearest": "nearest neighbours"}


def write_page(found: TempdiffFound) -> Page:
    """What was found, for machines and for people."""
    plan, (name, title) = found.settings, found.data
    sentences = list(write_sentences(found, CLAIMS))
    cells = [asdict(cell) for cell in found.cells]
    for cell in cells:
        del cell["tested"]  # the same for all
    return Page(
        title=f"TEMPDIFF with {KINDS[plan.teacher]}: {title}; epsilon for one teacher's data, and "
        "one person",
        text=write_text(found, sentences),
        data={
            "ensembles": [asdict(one) for one in found.ensembles],
            "scores": cells,
            "tested": found.tested,
            "people": found.people,
            "queries": list(plan.queries),
            "person_queries": plan.person_queries,
            "labelled": plan.labelled,
            "delta": plan.delta,
            "seeds": plan.seeds,
            "members": [asdict(one) for one in found.members],
            "sentences": sentences,
        },
        plots=draw_plots(found, f"tempdiff_{name}_{plan.teacher}"),
    )


def write_text(found: TempdiffFound, sentences: Sequence[str]) -> str:
    """Tables, then what they show."""
    first = found.settings.queries[0]
    parts = [
        f"### As published: {first} queries, epsilon for one teacher's data and for one person",
        "Figures 5 and 6: labels that are true after noise, then students of these labels, in per "
        "cent; the epsilons are upper bounds, whatever the votes were.",
        write_noise(found, first),
        "### Table I and Figure 8: what the paper would print, and what holds",
        write_table_1(found),
    ]
    if found.epsilons:
        parts += [
            f"### Shards of whole people: {found.settings.person_queries} queries, epsilon for one "
            "person",
            write_shipped(found),
        ]
    parts += ["### What they show", write_list(sentences)]
    parts += membership.write_section(found.members)
    return "\n\n".join(parts) + "\n"


def _format_mean(shares: Sequence[float]) -> str:
    return f"{100 * np.mean(shares):.1f}"


def write_noise(found: TempdiffFound, queries: int) -> str:
    """Figures 5 and 6: a row an ensemble, a column a gamma, and what that costs at most."""
    cells = Cells(cell for cell in found.published if cell.queries == queries)
    gammas = cells.list_values("gamma")
    heading = ["ensemble", "one person reaches", "a teacher is right", "agreement"]
    heading += [f"gamma {gamma:g}" for gamma in gammas]
    rows = []
    for who, by, size in dict.fromkeys(cell.ensemble for cell in cells):
        (facts,) = found.ensembles.find_all(method=who, by=by, teachers=size)
        reach = " to ".join(dict.fromkeys(str(end(facts.reach)) for end in (min, max)))
        row = [f"{who}, {size}, by {by}", reach, _format_mean(facts.teacher)]
        own = cells.find_all(who=who, teachers=size)
        words = [f"{_format_mean(cell.right)}, {cell.runs}" for cell in own]
        rows.append([*row, format_percent(facts.agreement), *words])
    for unit, name in (("teacher", "one teacher's data"), ("person", "one person")):
        costs = [
            [getattr(one, unit) for cell in cells.find_all(gamma=gamma) for one in cell.claims]
            for gamma in gammas
        ]
        rows.append([f"epsilon at most, {name}", "", "", "", *map(format_range, costs)])
    return write_table(heading, rows)


def write_table_1(found: TempdiffFound) -> str:
    """What the paper would print beside what holds, where the paper finds it best."""
    heading = ["method", "queries", "teachers", "gamma", "the paper would print"]
    heading += ["epsilon at most, one teacher's data", "epsilon at most, one person", "student"]
    heading += ["student of the true labels"]
    rows = []
    for cell in found.list_operating():
        truth = found.find_runs(who="true labels", queries=cell.queries, is_alone=True)
        row = [cell.who, *(f"{v:g}" for v in (cell.queries, cell.teachers, cell.gamma or 0.0))]
        row.append(f"{np.mean([cost.at_8_moments for cost in cell.claims]):.1f}, an estimate")
        for unit in ("teacher", "person"):
            row.append(format_range([getattr(cost, unit) for cost in cell.claims]))
        rows.append([*row, str(cell.runs), str(truth)])
    return write_table(heading, rows)


def list_beside(found: TempdiffFound) -> list[StudentsCell]:
    """What belongs to the table for a person's epsilon."""
    queries = found.settings.person_queries
    cells = [cell for cell in found.cells if cell.gamma is None]
    return [cell for cell in cells if cell.who != "true labels" or cell.queries == queries]


def write_shipped(found: TempdiffFound) -> str:
    """A row a kind of students, a column an epsilon for one person."""
    epsilons = found.epsilons
    heading = ["students", *(f"epsilon {e:g}" for e in epsilons), "no noise"]
    rows: dict[str, list[str]] = {}
    for cell in list_beside(found):
        column = epsilons.index(cell.epsilon) if cell.epsilon else len(epsilons)
        rows.setdefault(cell.row, ["-"] * len(heading[1:]))[column] = str(cell.runs)
    return write_table(heading, [[name, *words] for name, words in rows.items()])


def draw_plots(found: TempdiffFound, stem: str) -> dict[str, str]:
    """Students as published against gamma; students for a person's epsilon against it."""
    drawn = {f"{stem}_published": draw_published(found)}
    if found.epsilons and (person := draw_person(found)):
        drawn[f"{stem}_person"] = person
    if found.members:
        drawn[f"{stem}_members"] = membership.draw_curves(found.members)
        drawn[f"{stem}_frontier"] = membership.draw_frontier(found.members)
    return drawn


def draw_published(found: TempdiffFound) -> str:
    """Top-1 over gamma with the first number of queries; PATE is faint."""
    queries = found.settings.queries[0]
    sizes = sorted({cell.teachers for cell in found.published})
    lines = make_curves(
        (f"{cell.who}, {cell.teachers}", math.log10(cell.gamma or 1), 100 * cell.runs.mean)
        for cell in found.published
        if cell.queries == queries
    )
    for place, (who, size) in enumerate(line.name.split(", ") for line in lines):
        is_faint, colour = who == "pate", sizes.index(int(size))
        lines[place] = replace(lines[place], is_faint=is_faint, colour=colour)
    title = f"Students as published, {queries} queries"
    return plots.draw_lines(
        lines, plots.PlotAxes(title=title, x_label="log10 gamma", y_label="Top-1")
    )


def draw_person(found: TempdiffFound) -> str:
    """What students are compared with as lines from side to side; one epsilon makes no curve."""
    kinds = Counter(_name_kind(cell) for cell in found.cells)
    lines = make_curves(
        (cell.row, math.log10(cell.epsilon), 100 * cell.runs.mean)
        for cell in found.cells
        if cell.epsilon is not None and kinds[_name_kind(cell)] > 1
    )
    ends = np.log10(np.array([found.epsilons[0], found.epsilons[-1]]))
    for cell in list_beside(found):
        if cell.who in COMPARED and not cell.is_alone:
            level = np.full(2, 100 * cell.runs.mean)
            name = f"{cell.who} + other public windows"
            lines.append(plots.PlotLine(name=name, x=ends, y=level, is_faint=True))
    axes = plots.PlotAxes(
        title="Students for a person's epsilon",
        x_label="log10 epsilon for one person",
        y_label="Top-1",
    )
    return plots.draw_lines(lines, axes) if lines else ""


def _name_kind(cell: StudentsCell) -> tuple[Any, ...]:
    """All cells of a curve have the same."""
    return cell.who, cell.teachers, cell.aggregator, cell.is_alone, cell.gamma is None


EXPERIMENT = Experiment(settings=TempdiffSettings, measure=measure_tempdiff, write_page=write_page)
