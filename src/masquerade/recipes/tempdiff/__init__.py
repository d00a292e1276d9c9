"""TEMPDIFF's figures: teachers, noise, students, and what the labels really cost a person."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from masquerade import _check, catalog
from masquerade.collection import Collection
from masquerade.data.stage import Stage
from masquerade.doors import Answer
from masquerade.doors.splits import signals_of
from masquerade.recipes import bench
from masquerade.recipes.tempdiff import page as pages
from masquerade.recipes.tempdiff import run as runs
from masquerade.recipes.tempdiff.exam import SignalParts
from masquerade.recipes.tempdiff.rows import SIZES
from masquerade.train.ensemble.method import Ensemble
from masquerade.train.ensemble.partition import By
from masquerade.train.tempdiff import Tempdiff


@dataclass(frozen=True, kw_only=True)
class TempdiffTables:
    """Teach ensembles, count their votes under noise, and test the students.

    For people who never lived, or who are public: it prints private statistics. A run that is
    stopped goes on where it was.

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
        journal = bench.Journal.of(self, data)
        with bench.telling() as told:
            if isinstance(data, Stage):
                parts["train"].make(progress=partial(told, "making"))  # type: ignore[attr-defined]
            found = runs.measure(self, SignalParts.of(parts), journal=journal, told=told)
        results = bench.Results(
            title=f"TEMPDIFF with {pages.KINDS[self.teacher]}: {data.ABOUT.title}",
            text=pages.markdown(found),
            data=found.plain() | {"sentences": pages.sentences(found)},
            plots=pages.plots(found, f"tempdiff_{catalog.name_of(data)}_{self.teacher}"),
        )
        return results.publish(self, data, journal)

    @property
    def students(self) -> range:
        """Seeds of the students of each cell."""
        return range(1 if self.quick else self.seeds)

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


EXAMPLE = TempdiffTables()
