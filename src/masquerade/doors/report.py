"""Write one self-contained page about published files, from their receipts alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from masquerade.doors.answer import Answer
from masquerade.doors.receipt import check_receipt
from masquerade.files import atomic
from masquerade.report import page


@dataclass(frozen=True, kw_only=True)
class Report:
    """A page with each file's guarantee in plain words and its receipt; it may be published.

    Args:
        files: published files; their receipts stand beside them.
        out: where the page goes.
    """

    files: Positional[tuple[Path, ...]]
    out: Path = Path("report.html")

    def run(self) -> Answer:
        """Check every receipt, then write the page."""
        if not self.files:
            raise ValueError("Expected at least one published file.")
        sections = [page.receipt_section(file.name, check_receipt(file)) for file in self.files]
        atomic.write_whole(self.out, page.page("What was published", sections).encode())
        return Answer(
            data={"report": str(self.out), "files": len(sections)}, lines=[f"Wrote {self.out}."]
        )


COMMAND = Report
