"""Write one self-contained page about published files: pictures, promise, receipt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tyro.conf import Positional

from masquerade import video
from masquerade.doors import Answer
from masquerade.doors.receipt import check_receipt, published_files
from masquerade.errors import BadInput
from masquerade.files import atomic
from masquerade.ledger import Ledger, words
from masquerade.report import media, page

_LEFT_OUT = "What is private (originals, attacks, the ledger) was left out of this page."


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What else a page shows; all of it is private.

    Args:
        original: the file before, shown beside the one published file.
        attacks: answers of `masquerade attack --out`.
        ledger: a path, or postgresql://...
    """

    original: Path | None = None
    attacks: tuple[Path, ...] = ()
    ledger: str | None = None


def write_report(
    files: Sequence[Path | str],
    target: Path | str,
    *,
    beside: Beside | None = None,
    public: bool = False,
) -> Path:
    """Check the receipt of every published file, and write one page about them all.

    Args:
        files: published files, or folders of them; their receipts stand beside them.
        target: the page; without what is private it may be published.
        beside: what is private, shown beside it.
        public: leave all that is private out, and say so.

    Raises:
        BadInput: if a file and its receipt do not agree; nothing is written.
    """
    found, beside = published_files(files), beside or Beside()
    if not found:
        raise ValueError("Expected at least one published file.")
    used = Beside() if public else beside
    if used.original is not None and len(found) != 1:
        raise ValueError(
            f"Expected one published file beside --original, got {len(found)}; a page for each."
        )
    sections = [_section(file, used.original) for file in found]
    sections += [_attack(path) for path in used.attacks]
    if used.ledger is not None:
        said = [line for each in Ledger(used.ledger).summaries() for line in words.sentences(each)]
        body = page.listing(said or ["No account is open."])
        sections.append(page.Section(title="The budget left", body=body, has_originals=True))
    lead = _LEFT_OUT if public else ""
    text = page.page("What was published", sections, lead=lead)
    is_private = any(section.has_originals for section in sections)
    atomic.write_whole(Path(target), text.encode(), is_private=is_private)
    return Path(target)


def _section(file: Path, original: Path | None) -> page.Section:
    receipt = check_receipt(file)
    if not video.is_video(file):
        return page.receipt_section(file.name, receipt)
    pairs = [("Published", file)]
    if original is not None:
        pairs.insert(0, ("Before (private)", original))
    pictures, unit = media.films(pairs), media.unit_on_frame(receipt.guarantee.unit, file)
    section = page.receipt_section(file.name, receipt, pictures=pictures, unit=unit)
    return replace(section, has_originals=original is not None)


def _attack(path: Path) -> page.Section:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        rows = [
            (each["attacker"], own["measure"], *map(_span, (top, own, low)))
            for each in data["attackers"]
            for own, top, low in zip(each["published"], each["ceiling"], each["floor"], strict=True)
        ]
        verdicts = [f"{each['attacker']}: {each['verdict']}" for each in data["attackers"]]
        title = f"What the attack {data['attack']} finds"
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise BadInput(
            f"Expected an answer of masquerade attack --out at {path}; it cannot be one: {error}"
        ) from error
    heading = ("attacker", "measure", "before", "after", "random data")
    body = page.table(heading, rows) + page.listing(verdicts)
    return page.Section(title=title, body=body, has_originals=True)


def _span(figure: dict[str, float]) -> str:
    return f"{figure['value']:.3f} ({figure['low']:.3f} to {figure['high']:.3f})"


@dataclass(frozen=True, kw_only=True)
class Report:
    """A page with each file as a picture, its guarantee in plain words and its receipt.

    Args:
        files: published files, or folders of them; their receipts stand beside them.
        out: where the page goes.
        original: the file before, shown beside the published one; the page is then PRIVATE.
        attacks: answers of `masquerade attack --out`; the page is then PRIVATE.
        ledger: whose budget is shown, a path or postgresql://...; the page is then PRIVATE.
        public: leave out everything private, and say so.
    """

    files: Positional[tuple[Path, ...]]
    out: Path = Path("report.html")
    original: Path | None = None
    attacks: tuple[Path, ...] = ()
    ledger: str | None = None
    public: bool = False

    def run(self) -> Answer:
        """Check every receipt, then write the page."""
        beside = Beside(original=self.original, attacks=self.attacks, ledger=self.ledger)
        write_report(self.files, self.out, beside=beside, public=self.public)
        is_private = beside != Beside() and not self.public
        return Answer(
            data={
                "report": str(self.out),
                "files": len(published_files(self.files)),
                "private": is_private,
            },
            lines=[f"Wrote {self.out}{', which is PRIVATE' * is_private}."],
        )


COMMAND = Report
