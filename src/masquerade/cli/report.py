"""Write one self-contained page about published files: pictures, promise, receipt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from masquerade.cli.flags import Positional, Repeated
from masquerade.publish.pages import ReportContext, _write_page
from masquerade.publish.receipts import list_private_lists, list_published_files, list_warnings
from masquerade.result import CommandResult


@dataclass(frozen=True, kw_only=True)
class Report:
    """A page with each file as a picture, its guarantee in plain words and its receipt.

    Args:
        files: published files, or folders of them; their receipts stand beside them.
        out: where the page goes.
        original: the file before, shown beside the published one; the page is then PRIVATE.
        attacks: answers of `masquerade attack --out`; the page is then PRIVATE.
        ledger: whose budget is shown, a path or postgresql://...; the page is then PRIVATE.
        audit: put the claim to the test, on made-up data, with the settings of the receipt.
        audits: answers of `masquerade audit NAME --json`, such as of a model; they are public.
        public: leave out everything private, and say so.
        signer: a public key (.pem) that you trust; what none has signed is stamped so. It may be
            given several times.

    Example:
        masquerade report public.mp4 --out page.html --original ward.mp4 --audit
        masquerade report published/ --out page.html --public
    """

    files: Positional[tuple[Path, ...]]
    out: Path = Path("report.html")
    original: Path | None = None
    attacks: tuple[Path, ...] = ()
    ledger: str | None = None
    audit: bool = False
    audits: tuple[Path, ...] = ()
    public: bool = False
    signer: Repeated[tuple[Path, ...]] = ()

    def run(self) -> CommandResult:
        """Check every receipt, then write the page."""
        beside = ReportContext(
            original=self.original,
            attacks=self.attacks,
            ledger=self.ledger,
            audits=self.audits,
            plays=self.audit,
        )
        stamps = _write_page(
            self.files, self.out, beside=beside, public=self.public, signers=self.signer
        )
        is_private, lists = beside.is_private and not self.public, list_private_lists(self.files)
        return CommandResult(
            data={
                "report": str(self.out),
                "files": len(list_published_files(self.files)),
                "private": is_private,
                "stamps": stamps,
                "private_lists": list(map(str, lists)),
            },
            lines=[f"Wrote {self.out}. {' '.join(stamps)}", *list_warnings(lists)],
        )


COMMAND = Report
