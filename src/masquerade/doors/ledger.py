"""Set a budget on recordings, see what is left of it, and verify that nobody changed the books."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from tyro.conf import Positional

from masquerade import _check, _json
from masquerade._round import shown
from masquerade.collection import Collection, Kind
from masquerade.doors import sources
from masquerade.doors.answer import Answer
from masquerade.doors.progress import bars
from masquerade.doors.sources import Limits
from masquerade.doors.splits import enrolled_signals, split_of
from masquerade.errors import BadInput
from masquerade.files import atomic
from masquerade.guarantee import Relation, Unit, UnitName, units_help
from masquerade.ledger import Account, Book, Content, Ledger
from masquerade.ledger.book import PEOPLE
from masquerade.ledger.filter import FilterName
from masquerade.ledger.ledger import fixed_list_epsilon
from masquerade.receipt import SUFFIX, Receipt


@dataclass(frozen=True, kw_only=True)
class Open:
    """Open an account: one unit, one relation, one cap.

    Args:
        account: its name.
        ledger: a path, or postgresql://...; a new ledger is made if there is none.
        epsilon: of the cap.
        delta: of the cap.
        unit: what is protected.
        pixels: m, for the units pixels and tube.
        relation: how neighbours differ.
        filter: gaussian for releases; renyi where sampled training will be charged as well.
        public: what of every recording is public anyway (people: they are avatars, or background);
            the budget is of the rest. Needed for methods that use it without noise.
    """

    account: Positional[str]
    ledger: str
    epsilon: float
    delta: float
    unit: str | None = None
    pixels: int | None = None
    relation: Literal["replace_one", "zero_out"] = "replace_one"
    filter: Literal["gaussian", "renyi"] = "gaussian"
    public: Literal["nothing", "people", "background"] = "nothing"

    def run(self) -> Answer:
        """Open it."""
        if self.unit is None:
            raise ValueError(
                "Expected a unit: a budget says nothing without it. Choose what is protected:\n"
                + units_help()
            )
        opened = Ledger(self.ledger).open_account(
            self.account,
            Unit(name=_check.choice(UnitName, unit=self.unit), sites=self.pixels),
            epsilon=self.epsilon,
            delta=self.delta,
            relation=Relation(self.relation),
            rule=FilterName(self.filter),
            public=self.public,
        )
        said = f"Opened {opened.name}: epsilon {opened.cap.epsilon:g} and delta "
        said += f"{opened.cap.delta:g} for {opened.unit}, {opened.cap.relation.value}."
        said += f" {opened.public.capitalize()}: assumed public." * (opened.public != "nothing")
        return Answer(data=_json.encode(opened), lines=[said])


@dataclass(frozen=True, kw_only=True)
class Add:
    """Put files into an account; they are known by a keyed hash of what they hold.

    Args:
        account: the account's name.
        files: videos, pictures, .npy, .npz or .csv.
        ledger: a path, or postgresql://...
        subject: whose files they are; needed where the unit is a subject or a shard.
        same_as: a member that shows the same footage; these files are charged as one with it.
        heading: each .csv begins with names of columns.
        max_pixels: of a frame; larger ones are refused by their header.
        max_bytes: of an array file's numbers when it is unpacked; more is refused likewise.
    """

    account: Positional[str]
    files: Positional[tuple[Path, ...]]
    ledger: str
    subject: str | None = None
    same_as: Path | None = None
    heading: bool = False
    max_pixels: int = Limits.max_pixels
    max_bytes: int = Limits.max_bytes

    def run(self) -> Answer:
        """Read, hash and add each file."""
        if not self.files:
            raise ValueError("Expected at least one file to add.")
        ledger = Ledger(self.ledger)
        twin = None if self.same_as is None else self._read(self.same_as)
        values = [
            self._read(file) for file in self.files
        ]  # all must be readable before any is added
        members = [
            ledger.add(self.account, value, subject=self.subject, same_as=twin) for value in values
        ]
        return Answer(
            data={"account": self.account, "members": members},
            lines=[f"{len(members)} files are in {self.account}."],
        )

    def _read(self, path: Path) -> Content:
        limits = Limits(max_pixels=self.max_pixels, max_bytes=self.max_bytes)
        return sources.find(path, heading=self.heading, limits=limits).content


@dataclass(frozen=True, kw_only=True)
class Enroll:
    """Put every recording of a data set into an account, all of them or none.

    Where the unit is a subject, each recording goes to the subject that the data set names.

    Args:
        account: the account's name.
        ledger: a path, or postgresql://...
    """

    ENTRIES: ClassVar[tuple[tuple[str, str], ...]] = (("data", "data"),)

    account: Positional[str]
    ledger: str

    def run(self, data: Collection[Any]) -> Answer:
        """Read and hash all of them, then add them."""
        kind = getattr(data, "kind", data.ABOUT.kind)
        if kind == Kind.PHOTOS:
            raise BadInput("Expected a data set of videos or signals, got photos.")
        data = split_of(data, "train") if kind == Kind.VIDEOS else enrolled_signals(data)
        ledger = Ledger(self.ledger)
        held = ledger.book().accounts.get(self.account)
        if held is None:
            raise ValueError(_check.unknown("account", self.account, list(ledger.book().accounts)))
        needs_subject = held.unit.name in PEOPLE
        found = []
        with bars() as progress:
            task = progress.add_task("reading", total=len(data))
            for labels, recording in zip(data.labels, data, strict=True):
                subject = recording.subject if needs_subject else None
                if needs_subject and subject is None:
                    raise BadInput(f"Expected to know who is in {labels.name}, got nobody.")
                found.append((Content.of(recording), subject))
                progress.advance(task)
        members = ledger.add_all(self.account, found)
        return Answer(
            data={"account": self.account, "members": len(members)},
            lines=[
                f"{len(members)} recordings of the split {getattr(data, 'split', 'all')} are in "
                f"{self.account}."
            ],
        )


@dataclass(frozen=True, kw_only=True)
class Show:
    """What is left, in words.

    Args:
        account: one account; all of them if it is left out.
        ledger: a path, or postgresql://...
    """

    account: Positional[str] = ""
    ledger: str

    def run(self) -> Answer:
        """Sum up each account; the least that any holder has left comes first."""
        book = Ledger(self.ledger).book()
        if self.account and self.account not in book.accounts:
            raise ValueError(_check.unknown("account", self.account, book.accounts))
        shown = [a for a in book.accounts.values() if self.account in ("", a.name)]
        data = [_summary(book, account) for account in shown]
        lines = [line for summary in data for line in _sentences(summary)]
        return Answer(data={"accounts": data}, lines=lines or ["No account is open."])


@dataclass(frozen=True, kw_only=True)
class History:
    """Every entry, in order.

    Args:
        ledger: a path, or postgresql://...
    """

    ledger: str

    def run(self) -> Answer:
        """List the entries."""
        entries = Ledger(self.ledger).entries()
        lines = [f"{e.sequence:5} {e.time[:19]} {e.kind:8} {_gist(e.payload)}" for e in entries]
        return Answer(data={"entries": [asdict(e) for e in entries]}, lines=lines)


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Check the chain, and that every receipt's spend is in it.

    Args:
        ledger: a path, or postgresql://...
        receipts: folder with published files and their receipts.
    """

    ledger: str
    receipts: Path | None = None

    def run(self) -> Answer:
        """Verify, or fail with what is wrong."""
        ledger = Ledger(self.ledger)
        entries, found = ledger.entries(), []
        if self.receipts is not None:
            if not self.receipts.is_dir():
                raise BadInput(f"Expected a folder of receipts at {self.receipts}.")
            paths = sorted(self.receipts.rglob(f"*{SUFFIX}"))
            found = [_receipt(path) for path in paths]
            strangers = ledger.strangers(found)
            if strangers:
                raise BadInput(
                    f"Expected every receipt's spend in the ledger; {len(strangers)} of "
                    f"{len(found)} are not in it: entry {strangers[0].ledger_sequence} is missing, "
                    "is another release, or has two outputs. The ledger was cut, rolled back or "
                    "replaced, or a receipt was."
                )
        charged = sum(receipt.ledger_sequence is not None for receipt in found)
        return Answer(
            data={"entries": len(entries), "receipts": len(found), "charged": charged, "ok": True},
            lines=[
                f"The chain of {len(entries)} entries is whole.",
                *(
                    [f"{charged} of {len(found)} receipts name a spend, and each is in it."]
                    if found
                    else []
                ),
            ],
        )


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write every entry to a JSON file. It is private: it says what was done to whom.

    Args:
        out: where it goes.
        ledger: a path, or postgresql://...
    """

    out: Positional[Path]
    ledger: str

    def run(self) -> Answer:
        """Write it."""
        if self.out.exists():
            raise ValueError(f"Expected a new file to export to, got {self.out}; it stands there.")
        entries = [asdict(entry) for entry in Ledger(self.ledger).entries()]
        atomic.write_whole(self.out, json.dumps(entries, indent=2).encode(), is_private=True)
        return Answer(
            data={"out": str(self.out), "entries": len(entries)},
            lines=[f"Wrote {len(entries)} entries to {self.out}. They are private."],
        )


def _receipt(path: Path) -> Receipt:
    try:
        return Receipt.from_json(path.read_text(encoding="utf-8"))
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"Expected a receipt at {path}; it cannot be one: {error}") from error


def _summary(book: Book, account: Account) -> dict[str, Any]:
    holders = sorted(
        {h for (name, _), held in book.holders.items() if name == account.name for h in held}
    )
    left = {holder: book.left(account, holder) for holder in holders}
    least = min(holders, key=lambda holder: left[holder]) if holders else None
    remaining = account.cap.allowance if least is None else left[least]
    events = [] if least is None else book.events_of(account, least)
    last = account.cap.cost(events[-1]) if events else None
    return {
        "account": account.name,
        "unit": str(account.unit),
        "relation": account.cap.relation.value,
        "epsilon": account.cap.epsilon,
        "delta": account.cap.delta,
        "holders": len(holders),
        "releases_of_the_busiest": len(events),
        "left_share": max(remaining, 0) / account.cap.allowance,
        "epsilon_that_fits": int(account.cap.epsilon_that_fits(remaining) * 1e4) / 1e4,
        "more_like_the_last": None if not last else max(remaining, 0) // last,
        "fixed_list_epsilon": fixed_list_epsilon(book, account, least) if least else 0.0,
    }


def _sentences(summary: dict[str, Any]) -> list[str]:
    more = summary["more_like_the_last"]
    like = "" if more is None else f": about {more} more releases like the last one"
    lines = [
        f"{summary['account']}: epsilon {summary['epsilon']:g} and delta {summary['delta']:g} for "
        f"each {summary['unit']} ({summary['relation']}), {summary['holders']} holders.",
        f"  The one that spent most has {100 * summary['left_share']:.1f} % left{like}.",
        f"  A single release of epsilon {summary['epsilon_that_fits']:g} would still fit.",
    ]
    if more is not None:
        lines.append(
            f"  Cost of its {summary['releases_of_the_busiest']} releases, had the list been fixed "
            f"in advance: epsilon {shown(summary['fixed_list_epsilon'])}."
        )
    return lines


def _gist(payload: dict[str, Any]) -> str:
    if "charges" in payload:
        to = ", ".join(f"{c['account']}/{c['holder']}" for c in payload["charges"])
        return f"{payload['mechanism']} charged to {to}"
    if "reservation" in payload:
        return f"output of entry {payload['reservation']} stands"
    return str(payload.get("name") or f"{payload['holder']} into {payload['account']}")


COMMANDS = {
    "open": Open,
    "add": Add,
    "enroll": Enroll,
    "show": Show,
    "history": History,
    "verify": Verify,
    "export": Export,
}
