"""Pages of experiments: tables in Markdown, plots, results as files and sections of the docs."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.claims import spread_of
from experiments.engine import Journal, name_machine, write_command
from masquerade.io import atomic
from masquerade.report import plots
from masquerade.result import CommandResult


def write_table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown.

    Example:
        >>> print(write_table(("a", "b"), [("1", "2")]))
        | a | b |
        |---|---|
        | 1 | 2 |
    """
    first, *others = ("| " + " | ".join(cells) + " |" for cells in (heading, *rows))
    return "\n".join([first, "|---" * len(heading) + "|", *others])


def write_list(sentences: Iterable[str]) -> str:
    """Markdown: one after the other."""
    return "\n".join(f"- {sentence}" for sentence in sentences)


def fill_row(cells: Sequence[Any], show: Callable[[Any], Any]) -> list[str]:
    """Cells of a row in words, a dash for those that were not measured."""
    return ["-" if cell is None else str(show(cell)) for cell in cells]


def make_curves(points: Iterable[tuple[str, float, float]]) -> list[plots.PlotLine]:
    """Lines of a plot from points with the name of their line, each from left to right."""
    named: dict[str, list[tuple[float, float]]] = {}
    for name, x, y in points:
        named.setdefault(name, []).append((x, y))
    return [
        plots.PlotLine(name=name, x=xy[:, 0], y=xy[:, 1])
        for name, xy in ((name, np.array(sorted(some))) for name, some in named.items())
    ]


def make_bars(name: str, groups: Sequence[Sequence[float]]) -> plots.BarSeries:
    """Bars in per cent, a whisker where there are several runs."""
    return plots.BarSeries(
        name=name,
        values=np.array([100 * np.mean(shares) for shares in groups]),
        spreads=np.array([100 * spread_of(shares) for shares in groups]),
    )


@dataclass(frozen=True, kw_only=True)
class Page:
    """What an experiment found, for machines and for people."""

    title: str  # of the section in the docs
    text: str  # Markdown: tables, and what they show
    data: Mapping[str, Any]  # the same as plain values
    plots: Mapping[str, str]  # SVG texts by name

    def publish(self, settings: Any, data: Any, journal: Journal) -> CommandResult:
        """Write it into the settings' folder, and on the page of the docs; end the journal.

        The folder gets ``results.json``, ``table.md`` and the plots.
        """
        out, page, origin = settings.out, settings.page, write_origin(settings, data, journal)
        out.mkdir(parents=True, exist_ok=True)
        found = {"origin": origin, **self.data}
        atomic.write_whole(out / "results.json", (json.dumps(found, indent=1) + "\n").encode())
        atomic.write_whole(out / "table.md", self.text.encode())
        self._write_plots(out)
        lines = [
            *self.text.splitlines(),
            f"Wrote {out}/results.json, table.md and {len(self.plots)} plots.",
        ]
        if page is not None:
            self._append_section(page, origin)
            lines.append(f"Added a section to {page}.")
        journal.remove()
        return CommandResult(data=dict(self.data), lines=lines)

    def _append_section(self, page: Path, origin: str) -> None:
        """Add a section to a page of the docs, with its plots in a folder of the page's name."""
        pictures = page.with_suffix("")
        pictures.mkdir(parents=True, exist_ok=True)
        self._write_plots(pictures)
        parts = [f"\n## {self.title}\n", f"{origin}\n", self.text]
        parts += [f"\n![{name}]({pictures.name}/{name}.svg)\n" for name in self.plots]
        before = page.read_text(encoding="utf-8") if page.is_file() else ""
        atomic.write_whole(page, (before.rstrip("\n") + "\n" + "\n".join(parts)).encode())

    def _write_plots(self, folder: Path) -> None:
        for name, drawn in self.plots.items():
            atomic.write_whole(folder / f"{name}.svg", drawn.encode())


def write_origin(settings: Any, data: Any, journal: Journal) -> str:
    """How, where and when: the sentence that every number needs."""
    machine = journal.machine or name_machine(journal.device)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return f"`{write_command(settings, data)}`; {machine}; {today}; {journal.seconds:.0f} s."
