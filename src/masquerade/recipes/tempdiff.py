"""TEMPDIFF's figures: teachers, noise, students, and what the labels really cost a person."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from masquerade import _check, catalog
from masquerade.collection import Collection
from masquerade.data.stage import Stage
from masquerade.doors.answer import Answer
from masquerade.doors.progress import bars
from masquerade.doors.splits import signals_of
from masquerade.recipes import tempdiff_cells as cells
from masquerade.recipes import tempdiff_text as text
from masquerade.recipes.results import Results
from masquerade.recipes.tempdiff_cells import Taught, World
from masquerade.recipes.tempdiff_text import Found, Score
from masquerade.train.ensemble import teachers
from masquerade.train.ensemble.method import Ensemble
from masquerade.train.pate import Pate
from masquerade.train.tempdiff import Tempdiff

GAMMAS = (0.01, 0.03, 0.1, 0.3, 0.5)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
AGGREGATORS = ("gnmax", "gumbel", "lnmax")
Told = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class TempdiffTables:
    """Teach ensembles, count their votes under noise, and test the students.

    For people who never lived, or who are public: it prints private statistics.

    Args:
        out: folder for the results; it is made.
        page: page of the docs to which a section is added.
        sizes: numbers of teachers; each a multiple of the number of windows.
        queries: public windows that are labelled.
        windows: of TEMPDIFF, in samples; PATE has the longest alone.
        teacher: lstm, forest or nearest.
        seeds: students of each cell.
        public_subjects: where the data set has no public split.
        test_subjects: likewise.
        quick: two numbers of teachers, two epsilons, one student each.
    """

    ENTRIES: ClassVar[tuple[tuple[str, ...], ...]] = (("data", "data", "stage"),)

    out: Path = Path("out/tempdiff")
    page: Path | None = None
    sizes: tuple[int, ...] = (10, 30, 50, 100)
    queries: int = 200
    windows: tuple[int, ...] = (96, 128)
    teacher: Literal["lstm", "forest", "nearest"] = "lstm"
    seeds: int = 3
    public_subjects: str = ""
    test_subjects: str = ""
    quick: bool = False

    def __post_init__(self) -> None:
        _check.count(queries=self.queries, seeds=self.seeds)
        if not self.windows or not self.sizes or any(n % len(self.windows) for n in self.sizes):
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
            task = progress.add_task("reading", total=None)

            def told(what: str, done: int, total: int) -> None:
                progress.update(task, description=what, completed=done, total=total)

            if isinstance(data, Stage):
                parts["train"].make(progress=lambda done, total: told("making", done, total))  # type: ignore[attr-defined]
            found = measure(self, World.of(parts), told)
        flags = [] if isinstance(data, Stage) else [f"--data {catalog.name_of(data)}"]
        results = Results(
            title=f"TEMPDIFF on {data.ABOUT.title}",
            command=" ".join(["masquerade recipe tempdiff", *(["--quick"] * self.quick), *flags]),
            text=text.markdown(found),
            data=found.plain(),
            seconds=found.seconds,
            plots=text.plots(found),
        )
        lines = results.write(self.out)
        if self.page is not None:
            results.append(self.page)
        return Answer(data=dict(results.data), lines=lines)

    def method(self, size: int, kind: type[Ensemble]) -> Ensemble:
        """An ensemble of this many teachers."""
        windows = self.windows if kind is Tempdiff else (max(self.windows),)
        return kind(
            epsilon=2.0,
            unit="subject",
            shards=size // len(windows),
            windows=windows,
            queries=self.queries,
            teacher=self.teacher,
            hidden=32,
        )


def measure(
    plan: TempdiffTables, world: World, told: Told = lambda what, done, total: None
) -> Found:
    """All ensembles, labels and students."""
    begun = time.perf_counter()
    sizes = plan.sizes[:2] if plan.quick else plan.sizes
    held: dict[tuple[str, int], Taught] = {}
    for kind in (Tempdiff, Pate):
        for size in sizes if kind is Tempdiff else sizes[-1:]:
            method = plan.method(size, kind)
            held[method.name, size] = cells.taught(
                world, method, progress=lambda done, total: told("teachers", done, total)
            )
    scores = _students(plan, world, held, sizes[-1], told)
    return Found(
        ensembles={
            (name, size): (
                one.reach,
                one.teacher_accuracy,
                teachers.private_statistics(one.votes, world.classes),
            )
            for (name, size), one in held.items()
        },
        noise={
            size: tuple(
                cells.noisy_accuracy(held["tempdiff", size], g, world.classes) for g in GAMMAS
            )
            for size in sizes
        },
        gammas=GAMMAS,
        scores=scores,
        estimates=cells.estimates(held["tempdiff", sizes[-1]], GAMMAS, world.classes),
        queries=plan.queries,
        people=len({signal.subject for signal in world.signals}),
        seconds=time.perf_counter() - begun,
    )


def _students(
    plan: TempdiffTables,
    world: World,
    held: dict[tuple[str, int], Taught],
    size: int,
    told: Told,
) -> tuple[Score, ...]:
    """Students of noisy labels, and of labels without noise, to compare with."""
    epsilons = EPSILONS[1:3] if plan.quick else EPSILONS
    seeds = 1 if plan.quick else plan.seeds
    best = held["tempdiff", size]
    jobs: list[tuple[str, str, float | None, Taught]] = [
        ("tempdiff", name, epsilon, best) for name in AGGREGATORS for epsilon in epsilons
    ]
    jobs += [("pate", "gnmax", epsilon, held["pate", size]) for epsilon in epsilons]
    jobs += [("tempdiff", "no noise", None, best), ("true labels", "no noise", None, best)]
    found = []
    for place, (who, aggregator, epsilon, one) in enumerate(jobs):
        right, top_1 = [], []
        for seed in range(seeds):
            if epsilon is not None:
                labels = cells.labels_of(one, aggregator, epsilon, world.classes)
            elif who == "true labels":
                labels = one.truth
            else:
                labels = teachers.counts_of(one.votes, world.classes).argmax(axis=1)
            right.append(float((labels == one.truth).mean()))
            top_1.append(cells.student_accuracy(world, one.queries, labels, one.method, seed=seed))
        found.append(
            Score(
                who=who,
                aggregator=aggregator,
                epsilon=epsilon,
                right=tuple(right),
                top_1=tuple(top_1),
            )
        )
        told("students", place + 1, len(jobs))
    return tuple(found)


EXAMPLE = TempdiffTables()
