"""The docs page on the five papers: what each prints, what holds, and the arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.engine import Task, show_progress
from experiments.pages import write_list, write_table
from masquerade.accounting.verdict import VERDICT_COLUMNS, Verdict, judge_papers
from masquerade.io import atomic
from masquerade.result import CommandResult


def write_page(verdicts: Sequence[Verdict]) -> str:
    """The docs page."""
    parts = [
        "# What the papers claim, and what holds",
        "This page is written by `python -m experiments papers`; every number on it is computed. "
        "`masquerade account published --paper NAME` prints one paper, at other settings if you "
        "like.",
        write_table(VERDICT_COLUMNS, [verdict.list_cells() for verdict in verdicts]),
    ]
    for verdict in verdicts:
        lines = write_list(verdict.arithmetic)
        parts.append(f"## {verdict.paper}\n\n*{verdict.title}*\n\n{verdict.reason}\n\n{lines}")
    return "\n\n".join(parts) + "\n"


@dataclass(frozen=True, kw_only=True)
class PapersSettings:
    """Judge the five papers and write the docs page with the arithmetic."""

    out: Path = Path("docs/papers.md")  # where the page goes

    def run(self) -> CommandResult:
        """Write the page."""
        with show_progress() as progress:
            verdicts = judge_papers(progress)
        atomic.write_whole(self.out, write_page(verdicts).encode())
        return CommandResult(data={"page": str(self.out)}, lines=[f"Wrote {self.out}."])


EXPERIMENT = Task(settings=PapersSettings)
