"""What recipes share: command lines, spreads, tables, splits, resuming, and results as files.

Imports neither torch nor what draws on a screen: recipes also run where only the former is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
import itertools
import json
import math
import os
import platform
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from masquerade import __version__, _json, catalog
from masquerade.collection import Collection
from masquerade.errors import BadInput
from masquerade.io import atomic
from masquerade.io.workers import WorkerPool
from masquerade.publish.collections import split_of
from masquerade.report import bars, plots
from masquerade.result import Answer

Told = Callable[[str, int, int], None]  # what is done, how far, and of how much
# where and how, not what
_ELSEWHERE = ("out", "page", "jobs", "num_processes", "workers", "physical", "kept_only", "named")


def quiet(what: str, done: int, total: int) -> None:
    """Tell nobody how far the work is."""


@contextlib.contextmanager
def telling() -> Iterator[Told]:
    """A bar that says what is done, on a screen."""
    from masquerade import progress  # not where there is no screen

    with progress.bars() as shown:
        task = shown.add_task("", total=None)
        yield lambda what, done, total: shown.update(
            task, description=what, completed=done, total=total
        )


def command(recipe: Any, data: Collection[Any]) -> str:
    """The line that gives the same again: what is not as usual, and of paths only that one is."""
    usual, name = type(recipe).ENTRIES[0][2], catalog.name_of(data)
    words = [f"masquerade recipe {catalog.name_of(recipe)}"]
    words += [] if name == usual else [f"--data {name}"]
    for options in (data, recipe):
        for option, value in _chosen(options):
            flag = option.replace("_", "-")
            if isinstance(value, bool):
                words.append(f"--{flag}" if value else f"--no-{flag}")
            else:
                words.append(f"--{flag} {_typed(value)}".rstrip())  # a list may be empty
    return " ".join(words)


def _chosen(options: Any) -> list[tuple[str, Any]]:
    """The fields that are not as usual, but for where results go."""
    values = [(field, getattr(options, field.name)) for field in dataclasses.fields(options)]
    return [
        (field.name, value)
        for field, value in values
        if field.name not in _ELSEWHERE and value != field.default
    ]


def _typed(value: Any) -> str:
    if isinstance(value, Path):
        return "PATH"
    return " ".join(map(_typed, value)) if isinstance(value, tuple) else shlex.quote(str(value))


def spread(shares: Sequence[float] | np.ndarray) -> float:
    """The standard deviation of several runs (n - 1 below); NaN from one alone."""
    return float(np.std(shares, ddof=1)) if len(shares) > 1 else math.nan


def percent(shares: Sequence[float]) -> str:
    """Mean in per cent, with the spread where there are several; the page says how many.

    Example:
        >>> percent((0.5, 0.52, 0.54)), percent((0.5,)), percent(())
        ('52.0 ± 2.0', '50.0', '-')
    """
    if not len(shares):
        return "-"
    text = f"{100 * float(np.mean(shares)):.1f}"
    return f"{text} ± {100 * spread(shares):.1f}" if len(shares) > 1 else text


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown.

    Example:
        >>> print(table(("a", "b"), [("1", "2")]))
        | a | b |
        |---|---|
        | 1 | 2 |
    """
    first, *others = ("| " + " | ".join(cells) + " |" for cells in (heading, *rows))
    return "\n".join([first, "|---" * len(heading) + "|", *others])


def listing(sentences: Iterable[str]) -> str:
    """Markdown: one after the other."""
    return "\n".join(f"- {sentence}" for sentence in sentences)


def curves(points: Iterable[tuple[str, float, float]]) -> list[plots.Line]:
    """Lines of a plot from points with the name of their line, each from left to right."""
    named: dict[str, list[tuple[float, float]]] = {}
    for name, x, y in points:
        named.setdefault(name, []).append((x, y))
    return [
        plots.Line(name=name, x=xy[:, 0], y=xy[:, 1])
        for name, xy in ((name, np.array(sorted(some))) for name, some in named.items())
    ]


def bars_of(name: str, groups: Sequence[Sequence[float]]) -> bars.Bars:
    """Bars in per cent, a whisker where there are several runs."""
    return bars.Bars(
        name=name,
        values=np.array([100 * np.mean(shares) for shares in groups]),
        spreads=np.array([100 * spread(shares) for shares in groups]),
    )


def parts(data: Collection[Any]) -> tuple[Collection[Any], Collection[Any]]:
    """The training and the test split of a data set of videos.

    Raises:
        BadInput: if it holds no videos, or is one part.
    """
    train, test = (split_of(data, name) for name in ("train", "test"))
    if train is test:
        raise BadInput(
            f"Expected a train and a test split, got one part of {data.ABOUT.title}; leave out "
            "--split, put the class folders into folders train and test, or give a manifest a "
            "column split."
        )
    return train, test


def recordings(data: Collection[Any], *splits: str) -> Iterator[Any]:
    """All recordings of some splits, one after the other."""
    return itertools.chain.from_iterable(data.part(split) for split in splits)


def together(calls: Iterable[Any], *, jobs: int) -> Iterator[Any]:
    """What joblib's delayed calls give, in their order, in processes of one thread each.

    Small products that several threads share take far longer wherever the cores have other work.
    """
    pool = WorkerPool(jobs=max(jobs, 0), threads=1)
    return pool.map_tasks(lambda call: call[0](*call[1], **call[2]), calls)


@dataclass(kw_only=True)
class Journal:
    """What a run has measured so far, as a file: one that was stopped goes on where it was.

    Args:
        path: of the file; without one nothing outlives the run.
        run: what has to be the same.
        held: results by name.
        before: seconds that the stopped runs took.
        device: that it runs on.
        machine: where its results were measured, in words; empty before the first.
    """

    path: Path | None = None
    run: str = ""
    held: dict[str, Any] = field(default_factory=dict)
    before: float = 0.0
    begun: float = field(default_factory=time.perf_counter)
    device: str = "cpu"
    machine: str = ""

    @classmethod
    def of(cls, recipe: Any, data: Collection[Any]) -> Journal:
        """The one in the recipe's folder, if it is of the same recipe, data and version."""
        said = [__version__, catalog.name_of(recipe), catalog.name_of(data)]
        said += [repr(_chosen(options)) for options in (recipe, data)]
        found = cls(
            path=recipe.out / "cells.json",
            run=hashlib.sha256("\n".join(said).encode()).hexdigest(),
            device=getattr(recipe, "device", "cpu"),
        )
        if found.path is not None and found.path.is_file():
            kept = json.loads(found.path.read_text(encoding="utf-8"))
            if kept["run"] == found.run:
                found.held, found.before = kept["cells"], kept["seconds"]
                found.machine = kept.get("machine", "")
        return found

    @property
    def seconds(self) -> float:
        """That it took, stopped runs included."""
        return self.before + time.perf_counter() - self.begun

    def measured(self, name: str, measure: Callable[[], Any]) -> Any:
        """What is noted under a name; if nothing is, it is measured, and noted as JSON."""
        if name not in self.held:
            self.note(name, measure())
        return self.held[name]

    def note(self, name: str, value: Any) -> None:
        """Keep a result, as it will be read again."""
        self.held[name] = _json.encode(value)
        self.machine = self.machine or _machine(self.device)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            kept = {"run": self.run, "seconds": self.seconds, "machine": self.machine}
            kept |= {"cells": self.held}
            atomic.write_whole(self.path, json.dumps(kept).encode())

    def end(self) -> None:
        """Forget it all: the next run measures anew."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


@dataclass(frozen=True, kw_only=True)
class Results:
    """What a recipe found, for machines and for people.

    Args:
        title: of the section in the docs.
        text: Markdown: tables, and what they show.
        data: the same as plain values.
        plots: SVG texts by name.
    """

    title: str
    text: str
    data: Mapping[str, Any]
    plots: Mapping[str, str]

    def publish(self, recipe: Any, data: Collection[Any], journal: Journal) -> Answer:
        """Write what a recipe found of a data set into its folder, and its page; end the journal.

        The folder gets ``results.json``, ``table.md`` and the plots.
        """
        out, page, origin = recipe.out, recipe.page, _origin(recipe, data, journal)
        out.mkdir(parents=True, exist_ok=True)
        found = {"origin": origin, **self.data}
        atomic.write_whole(out / "results.json", (json.dumps(found, indent=1) + "\n").encode())
        atomic.write_whole(out / "table.md", self.text.encode())
        self._draw(out)
        lines = [
            *self.text.splitlines(),
            f"Wrote {out}/results.json, table.md and {len(self.plots)} plots.",
        ]
        if page is not None:
            self._append(page, origin)
            lines.append(f"Added a section to {page}.")
        journal.end()
        return Answer(data=dict(self.data), lines=lines)

    def _append(self, page: Path, origin: str) -> None:
        """Add a section to a page of the docs, with its plots in a folder of the page's name."""
        pictures = page.with_suffix("")
        pictures.mkdir(parents=True, exist_ok=True)
        self._draw(pictures)
        parts = [f"\n## {self.title}\n", f"{origin}\n", self.text]
        parts += [f"\n![{name}]({pictures.name}/{name}.svg)\n" for name in self.plots]
        before = page.read_text(encoding="utf-8") if page.is_file() else ""
        atomic.write_whole(page, (before.rstrip("\n") + "\n" + "\n".join(parts)).encode())

    def _draw(self, folder: Path) -> None:
        for name, drawn in self.plots.items():
            atomic.write_whole(folder / f"{name}.svg", drawn.encode())


def _origin(recipe: Any, data: Collection[Any], journal: Journal) -> str:
    """How, where and when: the sentence that every number needs."""
    machine = journal.machine or _machine(recipe.device)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return f"`{command(recipe, data)}`; {machine}; {today}; {journal.seconds:.0f} s."


def _machine(device: str) -> str:
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    if device == "cuda":
        from masquerade._torch import torch  # pages without networks need none

        machine += f", {torch.cuda.get_device_name(0)}"
    return machine
