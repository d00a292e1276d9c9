"""Write one self-contained page about published files: pictures, promise, receipt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional, UseAppendAction

from masquerade.doors import Answer, report_files, report_found, report_frontier
from masquerade.doors.receipt import Checked
from masquerade.doors.receipt_files import private_lists, published_files, warnings_of
from masquerade.files import atomic
from masquerade.report import page, releases

_FRONTIERS = 3  # plots, where there are more mechanisms
_LEFT_OUT = "What is private (originals, attacks, the ledger) was left out of this page."


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What else a page shows; audits are of made-up data, all the rest is private.

    Args:
        original: the file before, shown beside the one published file.
        attacks: answers of `masquerade attack --out`.
        ledger: a path, or postgresql://...
        audits: answers of `masquerade audit NAME --json`.
        plays: audit each mechanism with the settings of its receipt, now.
    """

    original: Path | None = None
    attacks: tuple[Path, ...] = ()
    ledger: str | None = None
    audits: tuple[Path, ...] = ()
    plays: bool = False

    @property
    def is_private(self) -> bool:
        """Whether anything private is shown."""
        return bool(self.original or self.attacks or self.ledger is not None)


def write_report(
    files: Sequence[Path | str],
    target: Path | str,
    *,
    beside: Beside | None = None,
    public: bool = False,
    signers: Sequence[Path | str] = (),
) -> Path:
    """Check the receipt of every published file, and write one page about them all.

    Args:
        files: published files, or folders of them; their receipts stand beside them.
        target: the page; without what is private it may be published.
        beside: what is private, shown beside it.
        public: leave all that is private out, and say so.
        signers: public keys that you trust; what they have not signed is stamped so.

    Raises:
        BadInput: if a file and its receipt do not agree; nothing is written.
        ValueError: if the page would stand in place of something else.
    """
    _write(files, Path(target), beside=beside or Beside(), public=public, signers=signers)
    return Path(target)


def _write(
    files: Sequence[Path | str],
    target: Path,
    *,
    beside: Beside,
    public: bool,
    signers: Sequence[Path | str],
) -> list[str]:
    """Check the receipts and write the page; how it is stamped."""
    _check_target(target, [Path(each) for each in files])
    found = published_files(files)
    if not found:
        raise ValueError("Expected at least one published file.")
    used = Beside(audits=beside.audits, plays=beside.plays) if public else beside
    if used.original is not None and len(found) != 1:
        raise ValueError(
            f"Expected one published file beside --original, got {len(found)}; a page for each."
        )
    checked = report_files.checked(found, signers=signers)
    sections = report_files.sections(checked, used.original)
    sections += map(report_found.attacks, used.attacks)
    sections += _frontiers(checked)
    if used.ledger is not None:
        sections.append(report_found.budget(used.ledger))
    audits = _audits(checked, beside)  # of made-up data, so public
    sections += [report_found.audits(audits)] if audits else []
    named = [(one.name, one.receipt) for one in checked]
    sections.append(releases.receipts(named, texts=[one.text for one in checked]))
    lead = _lead(checked, is_public=public, is_private=used.is_private)
    text = page.page("What was published", sections, lead=lead)
    kind, stamps = page.stamps(sections)
    atomic.write_whole(target, text.encode(), is_private=kind == "private")
    return stamps


def _check_target(target: Path, files: Sequence[Path]) -> None:
    """A page replaces no recording, and does not stand among what is published."""
    if target.suffix.lower() not in (".html", ".htm") or target.is_dir():
        raise ValueError(f"Expected a page's name that ends in .html for --out, got {target}.")
    for folder in (file for file in files if file.is_dir()):
        if target.resolve().is_relative_to(folder.resolve()):
            raise ValueError(
                f"Expected the page outside of the published folder, got {target}; it has no "
                "receipt, and may be private. Choose another folder."
            )


def _frontiers(checked: Sequence[Checked]) -> list[page.Section]:
    """One for the first file of each mechanism."""
    first = {one.receipt.mechanism: one for one in reversed(checked)}
    found = [
        report_frontier.section(one.receipt, name=one.name if len(checked) > 1 else "")
        for one in reversed(first.values())
    ]
    return [section for section in found if section is not None][:_FRONTIERS]


def _audits(checked: Sequence[Checked], beside: Beside) -> list[report_found.Audited]:
    """What was given, and what is played now: the first file of each mechanism."""
    found = [report_found.audited(path) for path in beside.audits]
    if beside.plays:
        first = {one.receipt.mechanism: one.receipt for one in reversed(checked)}
        games = map(report_found.played, reversed(first.values()))
        found += [game for game in games if game is not None]
    return found


def _lead(found: Sequence[Checked], *, is_public: bool, is_private: bool) -> str:
    """Whose word the receipts are and, where no stamp says so, what the files have against them."""
    first, *others = found
    said = f"{first.name} is {first.standing}."
    if others:
        signed = sum(one.signed_by is not None for one in found)
        said = (
            f"All {len(found)} files are consistent with their receipts. Keys that were named have "
            f"signed {signed} of these; anyone could have written the others."
        )
    doubts = [f" {one.name}: {one.doubt}" for one in found if one.doubt and is_private]
    return said + "".join(doubts) + f" {_LEFT_OUT}" * is_public


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
    signer: UseAppendAction[tuple[Path, ...]] = ()

    def run(self) -> Answer:
        """Check every receipt, then write the page."""
        beside = Beside(
            original=self.original,
            attacks=self.attacks,
            ledger=self.ledger,
            audits=self.audits,
            plays=self.audit,
        )
        stamps = _write(
            self.files, self.out, beside=beside, public=self.public, signers=self.signer
        )
        is_private, lists = beside.is_private and not self.public, private_lists(self.files)
        return Answer(
            data={
                "report": str(self.out),
                "files": len(published_files(self.files)),
                "private": is_private,
                "stamps": stamps,
                "private_lists": list(map(str, lists)),
            },
            lines=[f"Wrote {self.out}. {' '.join(stamps)}", *warnings_of(lists)],
        )


COMMAND = Report
