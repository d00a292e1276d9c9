"""Set a budget on recordings, see what is left of it, and verify that nobody changed the words."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from masquerade import _check, _json
from masquerade._formatting import format_count
from masquerade.accounting.compose import find_noise_multiplier, make_sampled_gaussian
from masquerade.cli.flags import Positional
from masquerade.collection import Collection, Medium
from masquerade.errors import BadInput
from masquerade.events import DpEvent
from masquerade.guarantee import Relation, Unit, parse_unit_name
from masquerade.io import atomic
from masquerade.ledger import Content, Ledger, LedgerEntry, words
from masquerade.ledger.book import PEOPLE
from masquerade.ledger.filter import FilterName, find_best_order
from masquerade.progress import make_progress_bars
from masquerade.publish import sources
from masquerade.publish.collections import select_photos
from masquerade.publish.folder import find_common_folder
from masquerade.publish.recording import make_mechanism
from masquerade.publish.sources import ReadLimits
from masquerade.receipt import SUFFIX, Receipt
from masquerade.result import CommandResult

NOT_COUNTED_NOTE = (
    "What is released of them without this ledger, before or after, is not counted in it."
)


@dataclass(frozen=True, kw_only=True)
class OpenAccount:
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
        order: of the Renyi filter, above 1, for good; by default the best for releases.
        expect_sampling_prob: choose the order for training with this chance of being in a batch.
        expect_steps: and with that many steps.
        expect_noise_multiplier: and with that noise; by default as much as spends all of the cap.
        public: what of every recording is public anyway (people: they are avatars, background, or
            features: the coarse picture that feature_dp makes);
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
    order: float | None = None
    expect_sampling_prob: float | None = None
    expect_steps: int | None = None
    expect_noise_multiplier: float | None = None
    public: Literal["nothing", "people", "background", "features"] = "nothing"

    def run(self) -> CommandResult:
        """Open it."""
        unit = parse_unit_name(self.unit, what="a budget")
        expected = self._make_expected_event()
        relation, order = Relation(self.relation), self.order
        if expected is not None:
            order = find_best_order(self.epsilon, self.delta, expected, relation)
        opened = Ledger(self.ledger).open_account(
            self.account,
            Unit(name=unit, sites=self.pixels),
            epsilon=self.epsilon,
            delta=self.delta,
            relation=relation,
            rule=FilterName(self.filter),
            public=self.public,
            order=order,
        )
        said = f"Opened {opened.name}: epsilon {opened.cap.epsilon:g} and delta "
        said += f"{opened.cap.delta:g} for {opened.unit}, {opened.cap.relation.value}."
        said += f" {opened.public.capitalize()}: assumed public." * (opened.public != "nothing")
        share = None if expected is None else opened.cap.compute_share(expected)
        if opened.cap.order is not None:
            said += f" Renyi order {opened.cap.order:.5g}"
            said += f": the expected run needs {100 * share:.1f} % of it." if share else "."
        return CommandResult(
            data=_json.encode_noun(opened) | {"expected_share": share}, lines=[said]
        )

    def _make_expected_event(self) -> DpEvent | None:
        """The run that the order is chosen for."""
        q, steps, noise = self.expect_sampling_prob, self.expect_steps, self.expect_noise_multiplier
        if q is None and steps is None and noise is None:
            return None
        if q is None or steps is None or self.order is not None or self.filter != "renyi":
            raise ValueError(
                "Expected --expect-sampling-prob and --expect-steps together, with --filter renyi "
                f"and without --order, got {q}, {steps}, {self.filter} and {self.order}."
            )
        if noise is None:
            run: dict[str, Any] = dict(sampling_prob=q, steps=steps, relation=self.relation)
            noise = find_noise_multiplier(self.epsilon, delta=self.delta, **run)
        return make_sampled_gaussian(noise, sampling_prob=q, steps=steps)


@dataclass(frozen=True, kw_only=True)
class AddFiles:
    """Put files into an account, all or none; each is known by a keyed hash of what it holds.

    Args:
        account: the account's name.
        files: videos, pictures, .npy, .npz or .csv, or folders of them.
        ledger: a path, or postgresql://...
        subject: whose files they are; needed where the unit is a subject or a shard.
        same_as: a member that shows the same footage; these files are charged as one with it.
            Films that look like a member are added with a warning that asks for this.
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
    max_pixels: int = ReadLimits.max_pixels
    max_bytes: int = ReadLimits.max_bytes

    def run(self) -> CommandResult:
        """Read and hash all of them, then add them."""
        if not self.files:
            raise ValueError("Expected at least one file to add.")
        ledger = Ledger(self.ledger)
        twin = None if self.same_as is None else self._read_content(self.same_as)
        files = [path for each in self.files for path in _list_recordings(each)]
        values = [self._read_content(file) for file in files]
        named = zip(map(str, files), values, strict=True) if twin is None else ()
        warnings = ledger.find_doubts(self.account, [self.subject], named)
        shown = [(value, self.subject) for value in values]
        members = ledger.add_contents(self.account, shown, same_as=twin, remake=make_mechanism)
        said = f"In {self.account}: {format_count(len(members), 'file')}."
        return _describe_added(ledger, self.account, members, said, warnings)

    def _read_content(self, path: Path) -> Content:
        limits = ReadLimits(max_pixels=self.max_pixels, max_bytes=self.max_bytes)
        return sources.probe_recording(path, heading=self.heading, limits=limits).content


def _list_recordings(path: Path) -> tuple[Path, ...]:
    """The file itself, or the recordings of a folder."""
    return find_common_folder([path])[1] if path.is_dir() else (path,)


@dataclass(frozen=True, kw_only=True)
class EnrollData:
    """Put every recording of a data set into an account, all of them or none.

    A photo of several people is one recording. Where the unit is a subject, each recording goes to
    the subject that the data set names.

    Args:
        account: the account's name.
        ledger: a path, or postgresql://...
    """

    ENTRIES: ClassVar[tuple[tuple[str, str], ...]] = (("data", "datasets"),)

    account: Positional[str]
    ledger: str

    def run(self, data: Collection[Any]) -> CommandResult:
        """Read and hash all of them, then add them."""
        is_photos = data.kind is Medium.PHOTOS
        data = select_photos(data, "train") if is_photos else data.select_default_part("train")
        ledger = Ledger(self.ledger)
        accounts = ledger.read_book().accounts
        if self.account not in accounts:
            raise ValueError(_check.describe_unknown("account", self.account, list(accounts)))
        needs_subject = accounts[self.account].unit.name in PEOPLE
        found = []
        with make_progress_bars() as progress:
            task = progress.add_task("reading", total=len(data))
            for labels, recording in zip(data.labels, data, strict=True):
                subject = recording.subject if needs_subject else None
                if needs_subject and subject is None:
                    raise BadInput(f"Expected to know who is in {labels.name}, got nobody.")
                found.append((Content.from_value(recording), subject))
                progress.advance(task)
        warnings = ledger.find_doubts(self.account, [subject for _, subject in found])
        members = ledger.add_contents(self.account, found, remake=make_mechanism)
        split = getattr(data, "split", "all")
        said = f"{len(members)} recordings of the split {split} are in {self.account}."
        return _describe_added(ledger, self.account, len(members), said, warnings)


@dataclass(frozen=True, kw_only=True)
class ShowBudget:
    """What is left, in words.

    Args:
        account: one account; all of them if it is left out.
        ledger: a path, or postgresql://...
    """

    account: Positional[str] = ""
    ledger: str

    def run(self) -> CommandResult:
        """Sum up each account; the least that any holder has left comes first."""
        data = Ledger(self.ledger).list_summaries(self.account)
        lines = [line for summary in data for line in words.format_summary(summary)]
        return CommandResult(data={"accounts": data}, lines=lines or ["No account is open."])


@dataclass(frozen=True, kw_only=True)
class ShowHistory:
    """Every entry, in order.

    Args:
        ledger: a path, or postgresql://...
    """

    ledger: str

    def run(self) -> CommandResult:
        """List the entries."""
        entries = Ledger(self.ledger).read_entries()
        lines = [
            f"{e.sequence:5} {e.time[:19]} {e.kind:8} {words.format_gist(e.payload)}"
            for e in entries
        ]
        return CommandResult(data={"entries": [asdict(e) for e in entries]}, lines=lines)


@dataclass(frozen=True, kw_only=True)
class VerifyLedger:
    """Check the chain, and that every receipt's spend is in it.

    Args:
        ledger: a path, or postgresql://...
        receipts: folder with published files and their receipts.
    """

    ledger: str
    receipts: Path | None = None

    def run(self) -> CommandResult:
        """Verify, or fail with what is wrong."""
        ledger = Ledger(self.ledger)
        whole, found = ledger.verify_entries(), []
        if self.receipts is not None:
            if not self.receipts.is_dir():
                raise BadInput(f"Expected a folder of receipts at {self.receipts}.")
            paths = sorted(self.receipts.rglob(f"*{SUFFIX}"))
            found = [_read_receipt(path) for path in paths]
            strangers = ledger.find_strangers(found)
            if strangers:
                raise BadInput(
                    f"Expected every receipt's spend in the ledger; {len(strangers)} of "
                    f"{len(found)} are not in it: entry {strangers[0].ledger_sequence} is missing, "
                    "is another release, or has two outputs. The ledger was cut, rolled back or "
                    "replaced, or a receipt was."
                )
        charged = sum(receipt.ledger_sequence is not None for receipt in found)
        clocks = whole.clocks
        lines = [f"The chain of {whole.entries} entries is whole."]
        if whole.balance:
            lines += [f"The balance after entry {whole.balance} is what they come to."]
        lines += map(_format_account_line, clocks)
        if found:
            lines += [f"{charged} of {len(found)} receipts name a spend, and each is in it."]
        return CommandResult(
            data={"entries": whole.entries, "receipts": len(found), "charged": charged, "ok": True}
            | {"balance": whole.balance, "clock_accepted": [entry.sequence for entry in clocks]},
            lines=lines,
        )


@dataclass(frozen=True, kw_only=True)
class AcceptClock:
    """Go on after a clock was ahead: entries of the future would hold the ledger up until then.

    Args:
        ledger: a path, or postgresql://...
        accept: record that the present time is right, and go on with it.
    """

    ledger: str
    accept: bool = False

    def run(self) -> CommandResult:
        """Accept the present time; the entry stays in the history."""
        if not self.accept:
            raise ValueError(
                "Expected --accept: it records for good that the clock was set back. Check first "
                "that it is right now."
            )
        entry = Ledger(self.ledger).accept_clock()
        return CommandResult(data=asdict(entry), lines=[_format_account_line(entry)])


@dataclass(frozen=True, kw_only=True)
class ExportLedger:
    """Write every entry to a JSON file. It is private: it says what was done to whom.

    Args:
        out: where it goes.
        ledger: a path, or postgresql://...
    """

    out: Positional[Path]
    ledger: str

    def run(self) -> CommandResult:
        """Write it."""
        if self.out.exists():
            raise ValueError(f"Expected a new file to export to, got {self.out}; it stands there.")
        entries = [asdict(entry) for entry in Ledger(self.ledger).read_entries()]
        atomic.write_whole(self.out, json.dumps(entries, indent=2).encode(), is_private=True)
        return CommandResult(
            data={"out": str(self.out), "entries": len(entries)},
            lines=[f"Wrote {len(entries)} entries to {self.out}. They are private."],
        )


def _describe_added(
    ledger: Ledger, account: str, members: Any, headline: str, warnings: list[str]
) -> CommandResult:
    """What stands in an account now, what to look at, and what no ledger knows."""
    if unlinked := ledger.count_unlinked(account):
        warnings.append(words.format_unlinked(unlinked))
    data = {"account": account, "members": members}
    return CommandResult(
        data=data | {"warnings": warnings, "note": NOT_COUNTED_NOTE},
        lines=[headline, *(f"Warning: {warning}" for warning in warnings), NOT_COUNTED_NOTE],
    )


def _format_account_line(entry: LedgerEntry) -> str:
    return f"Entry {entry.sequence}: {words.format_gist(entry.payload)}."


def _read_receipt(path: Path) -> Receipt:
    try:
        return Receipt.from_json(path.read_text(encoding="utf-8"))
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"Expected a receipt at {path}; it cannot be one: {error}") from error


COMMANDS = {
    "open": OpenAccount,
    "add": AddFiles,
    "enroll": EnrollData,
    "show": ShowBudget,
    "history": ShowHistory,
    "verify": VerifyLedger,
    "clock": AcceptClock,
    "export": ExportLedger,
}
