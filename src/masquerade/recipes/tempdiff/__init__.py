"""TEMPDIFF's figures: teachers, noise, students, and what the labels really cost a person."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from masquerade import _check, catalog
from masquerade.attacks.membership import Membership
from masquerade.collection import Collection
from masquerade.datasets.stage import Stage
from masquerade.publish.collections import signals_of
from masquerade.recipes import bench, preset
from masquerade.recipes.tempdiff import page as pages
from masquerade.recipes.tempdiff import run as runs
from masquerade.recipes.tempdiff.parts import SignalParts
from masquerade.recipes.tempdiff.settings import PRESETS
from masquerade.result import Answer
from masquerade.training.ensemble import Ensemble
from masquerade.training.partition import By
from masquerade.training.pate import Pate
from masquerade.training.tempdiff import Tempdiff

_HALF = 0.5  # overlapping windows of one teacher cost nothing: where people are whole, they do
_LIMIT = 1e9  # no ensemble is told which epsilon: its votes are counted many times


@dataclass(frozen=True, kw_only=True)
class TempdiffPlan:
    """What is measured, with nothing left open; `TempdiffTables` says what each field means."""

    sizes: tuple[int, ...]
    gammas: tuple[float, ...]
    queries: tuple[int, ...]
    windows: tuple[int, ...]
    overlap: float
    by: By
    delta: float
    teacher: Literal["forest", "lstm", "nearest"]
    teacher_epochs: int
    hidden: int
    batch: int
    learning_rate: float
    student_epochs: int
    student_steps: int
    unlabelled: Literal["forest", "self", "none"]
    labelled: int
    epsilons: tuple[float, ...]
    person_queries: int
    channels: str
    seeds: int
    device: Literal["cpu", "cuda"] = "cpu"
    num_processes: int = -1
    membership: int = 0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check.count(seeds=self.seeds, labelled=self.labelled, person_queries=self.person_queries)
        if self.membership:
            Membership(shadows=self.membership)  # says so if it is odd
        for number in (*self.sizes, *self.queries):
            _check.count(size_or_queries=number)
        if not self.windows or any(n % len(self.windows) for n in self.sizes):
            raise ValueError(
                f"Expected numbers of teachers that are multiples of {len(self.windows)} windows, "
                f"got sizes={self.sizes}."
            )
        if not (self.sizes and self.gammas and self.queries):
            raise ValueError("Expected at least one of --sizes, --gammas and --queries, got none.")
        for value in (*self.gammas, *self.epsilons):
            _check.positive(gamma_or_epsilon=value)
        self.method("tempdiff", self.sizes[-1], self.by)  # checks the rest

    def method(self, who: str, size: int, by: str, *, seed: int = 0) -> Ensemble:
        """An ensemble of this many teachers."""
        kind: type[Ensemble] = Tempdiff if who == "tempdiff" else Pate
        windows = self.windows if who == "tempdiff" else (max(self.windows),)
        return kind(
            epsilon=_LIMIT,
            delta=self.delta,
            unit="subject" if by == "subject" else "shard",
            shards=size // len(windows),
            windows=windows,
            overlap=max(self.overlap, _HALF) if by == "subject" else self.overlap,
            by=by,  # type: ignore[arg-type]
            queries=self.person_queries if by == "subject" else self.queries[0],
            teacher=self.teacher,
            teacher_epochs=self.teacher_epochs,
            student_epochs=self.student_epochs,
            student_steps=self.student_steps,
            hidden=self.hidden,
            batch=self.batch,
            learning_rate=self.learning_rate,
            unlabelled=self.unlabelled,
            public_seed=seed,
        )


@dataclass(frozen=True, kw_only=True)
class TempdiffTables:
    """Teach ensembles, count their votes under noise, and test the students.

    As published: shards of time, windows that do not overlap, Laplace noise at each gamma, students
    of the labels alone; beside every number that the paper would print stands a proved one, for the
    data behind one teacher and for a person. Then, where there are epsilons: whole people in
    shards, and noise for that epsilon of a person. Every teaching deals people and trains teachers
    and students anew.

    For people who never lived, or who are public: it prints private statistics. A run that is
    stopped goes on where it was.

    Args:
        out: folder for the results; it is made.
        page: page of the docs to which a section is added.
        setting: stage or paper: fills in what is left out below, and prints what it leaves open.
        sizes: numbers of teachers as published; each a multiple of the number of windows.
        gammas: of LNMax as published.
        queries: public windows that are labelled, as published; with the first number all
            ensembles, with others the largest alone.
        windows: of TEMPDIFF, in samples; PATE has the longest alone.
        overlap: share of a window that the next one repeats.
        by: what shards as published are made of: time, record or subject.
        delta: of every epsilon.
        teacher: forest, lstm (as published) or nearest.
        teacher_epochs: passes of an LSTM teacher over its windows.
        hidden: width of LSTMs.
        batch: windows in a step of an LSTM.
        learning_rate: of LSTMs.
        student_epochs: passes of a student over its labelled windows.
        student_steps: the most steps it takes.
        unlabelled: who labels the other public windows for students that learn from these too:
            forest, self, or none for no such students.
        labelled: public windows of each class that somebody labelled by hand, for what public data
            alone can do.
        epsilons: for one person; none without what is shipped.
        person_queries: public windows that are labelled there.
        channels: how the names of the channels begin that are used; empty for all.
        seeds: teachings.
        public_subjects: where the data set has no public split.
        test_subjects: likewise.
        device: where LSTM teachers and DP-SGD learn: cpu or cuda.
        num_processes: students at a time; -1 for all cores.
        membership: shadow models for an attack on who was learned from; 0 for none.
        quick: two numbers of teachers, two gammas, two epsilons, one teaching.
    """

    ENTRIES: ClassVar[tuple[tuple[str, ...], ...]] = (("data", "datasets", "stage"),)

    out: Path = Path("out/tempdiff")
    page: Path | None = None
    setting: Literal["stage", "paper"] = "stage"
    sizes: tuple[int, ...] | None = None
    gammas: tuple[float, ...] | None = None
    queries: tuple[int, ...] | None = None
    windows: tuple[int, ...] | None = None
    overlap: float | None = None
    by: By | None = None
    delta: float | None = None
    teacher: Literal["forest", "lstm", "nearest"] | None = None
    teacher_epochs: int | None = None
    hidden: int | None = None
    batch: int | None = None
    learning_rate: float | None = None
    student_epochs: int | None = None
    student_steps: int | None = None
    unlabelled: Literal["forest", "self", "none"] | None = None
    labelled: int | None = None
    epsilons: tuple[float, ...] | None = None
    person_queries: int | None = None
    channels: str | None = None
    seeds: int | None = None
    public_subjects: str = ""
    test_subjects: str = ""
    device: Literal["cpu", "cuda"] = "cpu"
    num_processes: int = -1
    membership: int = 0
    quick: bool = False

    def __post_init__(self) -> None:
        _ = self.plan  # checks the numbers

    @property
    def plan(self) -> TempdiffPlan:
        """What is measured: the setting, with what was replaced."""
        full = preset.settled(self, PRESETS)
        given: dict[str, Any] = {
            each.name: getattr(full, each.name)
            for each in fields(TempdiffPlan)
            if each.name != "notes"
        }
        given["sizes"] = tuple(sorted(given["sizes"]))
        if self.quick:
            few = {"sizes": 2, "gammas": 2, "epsilons": 2, "queries": 1}
            given |= {name: given[name][-count:] for name, count in few.items()}
            given["seeds"] = 1
        return TempdiffPlan(**given, notes=PRESETS[self.setting].left_open)

    def run(self, data: Collection[Any]) -> Answer:
        """Read once, teach each ensemble a few times, count its votes many times."""
        plan = self.plan
        if isinstance(data, Stage) and data.wearers is None:
            data = replace(data, wearers=180 if self.quick else 630)
        parts = signals_of(data, public=self.public_subjects, test=self.test_subjects)
        if "test" not in parts:
            raise ValueError("Expected --test-subjects to test the students on, got none.")
        journal = bench.Journal.of(self, data)
        with bench.telling() as told:
            if isinstance(data, Stage):
                parts["train"].make(progress=partial(told, "making"))  # type: ignore[attr-defined]
            world = SignalParts.of(parts, channels=plan.channels)
            found = runs.measure(plan, world, journal=journal, told=told)
        results = bench.Results(
            title=pages.title(found, plan.teacher, data.ABOUT.title),
            text=pages.markdown(found),
            data=found.plain() | {"sentences": pages.sentences(found)},
            plots=pages.plots(found, f"tempdiff_{catalog.name_of(data)}_{plan.teacher}"),
        )
        return results.publish(self, data, journal)


EXAMPLE = TempdiffTables()
