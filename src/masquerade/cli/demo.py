"""Run the systems small on people who never lived, and write one page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from masquerade.result import CommandResult


@dataclass(frozen=True, kw_only=True)
class RunDemo:
    """Run the systems small on people who never lived, attack and audit them, write one page.

    Args:
        out: folder for the page and the released files.
        seed: of the generated person; the noise is never seeded.
    """

    out: Path = Path("out")
    seed: int = 7

    def run(self) -> CommandResult:
        """Print one table, write ``report.html`` with everything else."""
        from masquerade.demo import run_demo  # torch: not to list the flags

        return run_demo(self.out, seed=self.seed)


COMMAND = RunDemo
