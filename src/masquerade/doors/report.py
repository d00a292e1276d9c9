"""Write one self-contained page about published files, from their receipts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from masquerade.doors import Answer
from masquerade.doors.receipt import check_receipt, published_files
from masquerade.files import atomic
from masquerade.report import page


def write_report(files: Sequence[Path | str], target: Path | str) -> Path:
    """Check the receipt of every published file, and write one page about them all.

    Args:
        files: published files, or folders of them; their receipts stand beside them.
        target: the page, which may be published: it is made from receipts alone.

    Raises:
        BadInput: if a file and its receipt do not agree; nothing is written.
    """
    found = published_files(files)
    if not found:
        raise ValueError("Expected at least one published file.")
    sections = [page.receipt_section(file.name, check_receipt(file)) for file in found]
    atomic.write_whole(Path(target), page.page("What was published", sections).encode())
    return Path(target)


@dataclass(frozen=True, kw_only=True)
class Report:
    """A page with each file's guarantee in plain words and its receipt; it may be published.

    Args:
        files: published files, or folders of them; their receipts stand beside them.
        out: where the page goes.
    """

    files: Positional[tuple[Path, ...]]
    out: Path = Path("report.html")

    def run(self) -> Answer:
        """Check every receipt, then write the page."""
        write_report(self.files, self.out)
        return Answer(
            data={"report": str(self.out), "files": len(published_files(self.files))},
            lines=[f"Wrote {self.out}."],
        )


COMMAND = Report
