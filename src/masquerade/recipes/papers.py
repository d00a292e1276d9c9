"""The docs page on the five papers: what each prints, what holds, and the arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from masquerade import catalog
from masquerade.accounting.verdict import Verdict
from masquerade.io import atomic
from masquerade.recipes import bench
from masquerade.result import Answer

PAPERS = catalog.names("accounting.published")
HEADING = (
    "paper",
    "claimed",
    "valid",
    "true epsilon by unit: exact, or bounds",
    "what we ship instead",
)


def judge(told: bench.Told = bench.quiet) -> list[Verdict]:
    """The verdicts on all papers at their own settings, in alphabetical order."""
    verdicts: list[Verdict] = []
    for name in PAPERS:
        verdicts.append(catalog.example("accounting.published", name).verdict())
        told("judging the papers", len(verdicts), len(PAPERS))
    return verdicts


def row(verdict: Verdict) -> tuple[str, str, str, str, str]:
    """A verdict as one row of the table."""
    valid = {True: "yes", False: "no", None: "not determined"}[verdict.valid]
    claimed = f"({verdict.claimed:g}, {verdict.claimed_delta:g}) for one {verdict.claimed_unit}"
    return verdict.paper, claimed, valid, verdict.values, verdict.ships


def markdown(verdicts: list[Verdict]) -> str:
    """The docs page."""
    parts = [
        "# What the papers claim, and what holds",
        "This page is written by `masquerade recipe papers`; every number on it is computed. "
        "`masquerade account published --paper NAME` prints one paper, at other settings if you "
        "like.",
        bench.table(HEADING, map(row, verdicts)),
    ]
    for verdict in verdicts:
        lines = bench.listing(verdict.arithmetic)
        parts.append(f"## {verdict.paper}\n\n*{verdict.title}*\n\n{verdict.reason}\n\n{lines}")
    return "\n\n".join(parts) + "\n"


@dataclass(frozen=True, kw_only=True)
class Papers:
    """Judge the five papers and write the docs page with the arithmetic.

    Args:
        out: where the page goes.
    """

    out: Path = Path("docs/papers.md")

    def run(self) -> Answer:
        """Write the page."""
        with bench.telling() as told:
            verdicts = judge(told)
        atomic.write_whole(self.out, markdown(verdicts).encode())
        return Answer(data={"page": str(self.out)}, lines=[f"Wrote {self.out}."])


EXAMPLE = Papers()
