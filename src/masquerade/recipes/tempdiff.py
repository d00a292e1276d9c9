"""TEMPDIFF's figures: teachers, noise, students, and what the labels really cost a person."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import joblib

from masquerade import _check, catalog
from masquerade.collection import Collection
from masquerade.compute.progress import bars, teller
from masquerade.data.stage import Stage
from masquerade.doors import Answer
from masquerade.doors.splits import signals_of
from masquerade.recipes import tempdiff_cells as cells
from masquerade.recipes import tempdiff_text as text
from masquerade.recipes.results import Results
from masquerade.recipes.tempdiff_cells import Exam, Taught, World
from masquerade.recipes.tempdiff_text import Found, Score
from masquerade.train.dp_sgd import DpSgd
from masquerade.train.ensemble import teachers
from masquerade.train.ensemble.method import Ensemble
from masquerade.train.ensemble.partition import By
from masquerade.train.pate import Pate
from masquerade.train.tempdiff import Tempdiff

GAMMAS = (0.01, 0.03, 0.1, 0.3, 0.5)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
AGGREGATORS = ("gnmax", "gumbel", "lnmax", "confident")
SIZES = (10, 30, 50, 100)  # of the paper
_ASKED = 2  # times as many queries as are answered, for confident
Told = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class TempdiffTables:
    """Teach ensembles, count their votes under noise, and test the students.

    For people who never lived, or who are public: it prints private statistics.

    Args:
        out: folder for the results; it is made.
        page: page of the docs to which a section is added.
        sizes: numbers of teachers; each a multiple of the number of windows. If left out the
            paper's, and where people are dealt out as many as there are people.
        queries: public windows that are labelled.
        windows: of TEMPDIFF, in samples; PATE has the longest alone.
        teacher: forest, lstm (as published) or nearest.
        by: what shards are made of: subject, record, or time (as published).
        unit: what an epsilon protects: subject, or shard, the data behind one teacher.
        seeds: students of each cell.
        student_epochs: passes of a student over its windows.
        public_subjects: where the data set has no public split.
        test_subjects: likewise.
        device: where LSTM teachers and DP-SGD learn: cpu or cuda.
        num_processes: students at a time; -1 for all cores.
        quick: two numbers of teachers, two epsilons, one student each.
    """

    ENTRIES: ClassVar[tuple[tuple[str, ...], ...]] = (("data", "data", "stage"),)

    out: Path = Path("out/tempdiff")
    page: Path | None = None
    sizes: tuple[int, ...] = ()
    queries: int = 100
    windows: tuple[int, ...] = (96, 128)
    teacher: Literal["forest", "lstm", "nearest"] = "forest"
    by: By = "subject"
    unit: Literal["subject", "shard"] = "subject"
    seeds: int = 3
    student_epochs: int = 40
    public_subjects: str = ""
    test_subjects: str = ""
    device: Literal["cpu", "cuda"] = "cpu"
    num_processes: int = -1
    quick: bool = False

    def __post_init__(self) -> None:
        _check.count(queries=self.queries, seeds=self.seeds, epochs=self.student_epochs)
        if not self.windows or any(n % len(self.windows) for n in self.sizes):
            raise ValueError(
                f"Expected numbers of teachers that are multiples of {len(self.windows)} windows, "
                f"got sizes={self.sizes}."
            )

    def run(self, data: Collection[Any]) -> Answer:
        """Read once, teach each ensemble once, count its votes many times."""
        if isinstance(data, Stage) and data.wearers is None:
            data = replace(data, wearers=180 if self.quick else 630)
        parts = signals_of(data, public=self.public_subjects, test=self.test_subjects)
        if "test" not in parts:
            raise ValueError("Expected --test-subjects to test the students on, got none.")
        with bars() as progress:
            told = teller(progress)
            if isinstance(data, Stage):
                parts["train"].make(progress=lambda done, total: told("making", done, total))  # type: ignore[attr-defined]
            found = measure(self, World.of(parts), told)
        results = Results(
            title=f"TEMPDIFF with {text.KINDS[self.teacher]}: {data.ABOUT.title}",
            command=self._command(data),
            text=text.markdown(found),
            data=found.plain(),
            seconds=found.seconds,
            plots=text.plots(found, f"tempdiff_{catalog.name_of(data)}_{self.teacher}"),
        )
        lines = results.write(self.out)
        if self.page is not None:
            results.append(self.page)
        return Answer(data=dict(results.data), lines=lines)

    def _command(self, data: Collection[Any]) -> str:
        """That gives the same again."""
        words = ["masquerade recipe tempdiff"]
        if isinstance(data, Stage):
            words += [f"--wearers {data.wearers}", *([f"--seed {data.seed}"] if data.seed else [])]
        else:
            words += [f"--data {catalog.name_of(data)}", *_flags(data, but=("root",))]
        return " ".join([*words, *_flags(self, but=("out", "page", "num_processes"))])

    def method(self, size: int, kind: type[Ensemble]) -> Ensemble:
        """An ensemble of this many teachers."""
        windows = self.windows if kind is Tempdiff else (max(self.windows),)
        return kind(
            epsilon=2.0,
            unit=self.unit,
            shards=size // len(windows),
            windows=windows,
            by=self.by,
            queries=self.queries,
            teacher=self.teacher,
            student_epochs=self.student_epochs,
            hidden=32,
        )

    def chosen(self, people: int) -> tuple[int, ...]:
        """Numbers of teachers, from small to large."""
        found = self.sizes
        if not found:
            most = people if self.by == "subject" else max(SIZES)
            if most < len(self.windows):
                raise ValueError(
                    f"Expected at least {len(self.windows)} private people, one for each window, "
                    f"got {people}; use fewer windows, or --by record."
                )
            *usual, most = (size - size % len(self.windows) for size in (*SIZES, most))
            found = tuple(sorted({*(size for size in usual if size < most), most}))
        return tuple(sorted(found)[-2:] if self.quick else sorted(found))


def _flags(given: Any, *, but: tuple[str, ...]) -> list[str]:
    """The fields that are not as usual, as they are typed."""
    found = []
    for field in fields(given):
        value = getattr(given, field.name)
        if field.name in but or value == field.default:
            continue
        shown = " ".join(map(str, value)) if isinstance(value, tuple) else value
        name = field.name.replace("_", "-")
        found.append(f"--{name}" if value is True else f"--{name} {shown}")
    return found


def measure(
    plan: TempdiffTables, world: World, told: Told = lambda what, done, total: None
) -> Found:
    """All ensembles, labels and students."""
    begun = time.perf_counter()
    sizes = plan.chosen(world.people)
    held: dict[tuple[str, int], Taught] = {}
    pairs = [(kind, size) for kind in (Tempdiff, Pate) for size in sizes]
    for place, (kind, size) in enumerate(pairs):
        method = plan.method(size, kind)
        held[method.name, size] = cells.taught(
            world,
            method,
            queries=_ASKED * plan.queries,
            device=plan.device,
            progress=lambda done, total: None,
        )
        told("ensembles", place + 1, len(pairs))
    return Found(
        ensembles={
            key: (
                one.reach,
                one.teacher_accuracy,
                teachers.private_statistics(one.votes, world.classes),
            )
            for key, one in held.items()
        },
        noise={
            key: tuple(cells.noisy_accuracy(one, g) for g in GAMMAS) for key, one in held.items()
        },
        gammas=GAMMAS,
        scores=_students(plan, world, held, told),
        estimates={g: cells.claimed(held["tempdiff", sizes[-1]], g) for g in GAMMAS},
        queries=plan.queries,
        people=world.people,
        unit=plan.unit,
        seconds=time.perf_counter() - begun,
    )


def _students(
    plan: TempdiffTables, world: World, held: dict[tuple[str, int], Taught], told: Told
) -> tuple[Score, ...]:
    """Students of noisy labels, and all that they are compared with."""
    sizes = plan.chosen(world.people)
    best = held["tempdiff", sizes[-1]]
    exam = Exam.of(world, best.method)
    cases = _cases(plan, sizes)
    calls, rights = [], []
    for case in cases:
        for seed in range(1 if plan.quick else plan.seeds):
            call, right = _call(
                plan, case, world, held.get((case.who, case.teachers), best), exam, seed
            )
            calls.append(call)
            rights.append(right)
    found: list[float] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="A worker stopped")  # joblib starts another
        for share in joblib.Parallel(n_jobs=plan.num_processes, return_as="generator")(calls):
            found.append(share)
            told("students", len(found), len(calls))
    seeds = len(calls) // len(cases)
    return tuple(
        replace(
            case,
            right=tuple(one for one in rights[at : at + seeds] if one is not None),
            top_1=tuple(found[at : at + seeds]),
        )
        for case, at in zip(cases, range(0, len(calls), seeds), strict=True)
    )


def _cases(plan: TempdiffTables, sizes: tuple[int, ...]) -> list[Score]:
    """What is measured, before it is."""
    epsilons: tuple[float | None, ...] = EPSILONS[1:3] if plan.quick else EPSILONS
    most = sizes[-1]
    cases = [("tempdiff", most, name, e) for name in AGGREGATORS for e in epsilons]
    cases += [("pate", most, "gnmax", e) for e in epsilons]
    cases += [("tempdiff", size, "gnmax", e) for size in sizes[:-1] for e in epsilons]
    if plan.unit == "subject":
        cases += [("dp_sgd", 0, "none", e) for e in epsilons]
    cases += [
        ("tempdiff", most, "no noise", None),
        ("true labels", 0, "no noise", None),
        ("true labels alone", 0, "no noise", None),
        ("no privacy", 0, "no noise", None),
    ]
    return [
        Score(who=who, teachers=size, aggregator=name, epsilon=epsilon)
        for who, size, name, epsilon in cases
    ]


def _call(
    plan: TempdiffTables, case: Score, world: World, one: Taught, exam: Exam, seed: int
) -> tuple[Any, float | None]:
    """Work to be done, and the share of its labels that are true where it has some."""
    some = one.first(plan.queries)
    if case.who == "dp_sgd":
        recordings = max(Counter(signal.subject for signal in world.signals).values())
        method = DpSgd(
            epsilon=float(case.epsilon or 0.0),
            unit="subject",
            relation="replace_one",
            part="all",
            segments=-(-cells.WINDOWS // recordings),
            recordings=recordings,
            batch=max(1, world.people // 3),
            epochs=40.0,
            clip_norm=0.5,
            learning_rate=0.03 * float(case.epsilon or 0.0),  # the best of a few tried here
            public_seed=seed,
        )
        given = exam, world.private, world.public, method
        return joblib.delayed(cells.private_accuracy)(*given, device=plan.device), None
    if case.who == "no privacy":
        return joblib.delayed(cells.open_accuracy)(exam, world, seed=seed), None
    if case.epsilon is not None:
        labels = cells.labels_of(one, case.aggregator, case.epsilon)
    else:
        labels = some.counts.argmax(axis=1) if case.who == "tempdiff" else some.truth
    answered = labels >= 0
    asked = one.first(len(labels))
    right = float((labels == asked.truth)[answered].mean()) if answered.any() else None
    call = joblib.delayed(cells.student_accuracy)(
        exam, asked.queries, labels, seed=seed, is_alone=case.who.endswith("alone")
    )
    return call, right


EXAMPLE = TempdiffTables()
