"""The one spine: whatever is published takes these steps, in this order.

place    where it goes, what may be refused beforehand, whether it stands already
plan     what it is in public words: its shape, and so its guarantee and its event, computed once
reserve  what it costs, under a bill: the spend is on disk before anything else happens
write    it and its companions, such as masks, under temporary names beside its target
receipt  what was done and what is promised, tied to the bytes, and signed
settle   the bill, for this output and no other
name     the receipt first, then its signature and the companions, then the output

A crash anywhere leaves the budget spent and nothing half-published; no output ever stands without
its receipt and its recorded spend. Recordings, folders of them, models and students differ in what
they write, and in nothing else. The receipt holds the SHA-256 of companions: what a stopped run has
left is known by it, and nothing else that stands under such a name is ever replaced or removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from masquerade.errors import BadInput
from masquerade.io import atomic, signatures
from masquerade.io.interrupts import RaisedSignals, note_signals
from masquerade.io.signatures import Signing
from masquerade.mechanism import Plan, Shapes
from masquerade.noise import Noise
from masquerade.publish.receipts import read_checked
from masquerade.receipt import Promise, Receipt, Release, receipt_path, sidecar_path, write_receipt


class IfExists(StrEnum):
    """What to do when the output stands there already."""

    REFUSE = "refuse"
    RESUME = "resume"
    OVERWRITE = "overwrite"


class Output(Protocol):
    """What can be published: it was probed, is known by public words, and can write itself."""

    @property
    def promise(self) -> Promise:
        """The mechanism or the method, as the receipt has it."""

    @property
    def shapes(self) -> Shapes:
        """The public numbers that, with its fields, decide what is promised."""

    @property
    def plan(self) -> Plan:
        """What is promised for these."""

    @property
    def saving_fields(self) -> Mapping[str, Any]:
        """How it is written, as the receipt has it; empty where there is no choice."""

    @property
    def companion_suffixes(self) -> tuple[str, ...]:
        """The suffixes of its companions, which have the output's name; none: it goes alone."""

    def write(
        self, stream: BinaryIO, others: Mapping[str, BinaryIO], noise: Noise
    ) -> Mapping[str, int]:
        """Do the work, and write what may be seen; what the receipt states in numbers."""


class Bill(Protocol):
    """Who pays. A null one (`publish.bills.NoBill`) stands where there is no ledger."""

    @property
    def ledger_fields(self) -> Mapping[str, Any]:
        """What the receipt says of the ledger; empty until something is reserved."""

    @property
    def spending_note(self) -> str:
        """What a stop in the middle leaves, in words; empty if nothing."""

    def reserve_budget(self) -> None:
        """Charge; the spend is on disk when this returns."""

    def is_paid_by(self, receipt: Receipt) -> bool | None:
        """Whether this very thing was paid for with that receipt; None if nobody can tell."""

    def settle_charge(self, receipt: Receipt) -> Exception | None:
        """Record which output the charge is for; what could not be recorded but may wait."""


@dataclass(frozen=True, kw_only=True)
class OutputPlace:
    """Where an output goes, held against everybody else.

    Args:
        target: the final name.
        if_standing: what to do with an output that stands there.
        stops: that were asked for since it is held.
    """

    target: Path
    if_standing: IfExists = IfExists.REFUSE
    stops: RaisedSignals = field(default_factory=RaisedSignals)

    @property
    def replaces_existing(self) -> bool:
        """Whether an output that stands there makes room."""
        return self.if_standing is IfExists.OVERWRITE

    @property
    def keeps_existing(self) -> bool:
        """Whether an output stands there and stays."""
        return self.target.exists() and not self.replaces_existing

    def name_files(
        self,
        output: atomic.UnfinishedFile,
        receipt: atomic.UnfinishedFile,
        others: Sequence[atomic.UnfinishedFile] = (),
    ) -> None:
        """All are complete on disk: the receipt gets its name, then the others, then the output."""
        try:
            if self.replaces_existing:
                self.target.unlink(missing_ok=True)  # never an old output beside a new receipt
                _remove_receipt(self.target)
            receipt.move_into_place()
            for other in others:
                other.move_into_place()
            output.move_into_place()
        except BaseException as error:
            has_name = self.target.exists() and not isinstance(error, FileExistsError)
            if not has_name and (self.replaces_existing or receipt.is_in_place):
                _remove_receipt(self.target)  # of an output that nobody will see
            raise


@contextlib.contextmanager
def hold_place(
    target: Path,
    *,
    noise: Noise,
    source: Path | None = None,
    if_standing: IfExists = IfExists.REFUSE,
) -> Iterator[OutputPlace]:
    """Refuse what can be refused of the place beforehand, and hold it.

    Args:
        target: where the output should go; a rehearsal says so in its name.
        noise: a rehearsal's or not.
        source: the private file, which no output may replace.
        if_standing: what to do with an output that stands there.
    """
    target = final_name(target, noise)
    check_output_place(target, source)
    with atomic.lock_target(target), note_signals() as stops, atomic.keep_closed(target.parent):
        place = OutputPlace(target=target, if_standing=if_standing, stops=stops)
        if place.replaces_existing and target.exists():
            _refuse_stranger(target)
        yield place


def publish_output(thing: Output, place: OutputPlace, *, noise: Noise, bill: Bill) -> Release[Path]:
    """Reserve, write, receipt, settle, name; or recognise what stands there already."""
    target, plan, old = place.target, thing.plan, identify_file(place.target)
    if place.keeps_existing:
        done = recognise_output(thing, place, bill)
        if late := bill.settle_charge(done.receipt):  # a crash may have come before it
            raise _make_unsettled_error(target, late) from late
        return done
    if thing.companion_suffixes:
        _refuse_strange_companions(thing.companion_suffixes, target)
    signing = Signing() if noise.is_rehearsal else signatures.find_signing()
    try:
        bill.reserve_budget()
        if not place.replaces_existing:  # a run was stopped before its output had its name
            _remove_receipt(target)
        with contextlib.ExitStack() as stack:
            stack.enter_context(atomic.keep_closed(None))  # it is paid for
            output = stack.enter_context(
                atomic.open_unfinished(target, replaces=place.replaces_existing)
            )
            others = {
                suffix: stack.enter_context(
                    atomic.open_unfinished(sidecar_path(target, suffix), replaces=False)
                )
                for suffix in thing.companion_suffixes
            }
            streams = {suffix: part.stream for suffix, part in others.items()}
            numbers = thing.write(output.stream, streams, noise)
            receipt = write_receipt(
                thing.promise,
                plan,
                shapes=thing.shapes,
                noise=noise,
                along={suffix: part.seal_file() for suffix, part in others.items()},
                counted=dict(numbers),
                output_sha256=output.seal_file(),
                **thing.saving_fields,
                **bill.ledger_fields,
            )
            beside, data = receipt_path(target), receipt.to_json().encode()
            written = {beside: data}  # and, if there is a key, the signature of these very bytes
            if signing.key is not None:
                written[signatures.signature_path(beside)] = signatures.sign_bytes(
                    data, signing.key
                )
            papers = []
            for path, text in written.items():
                papers.append(
                    stack.enter_context(
                        atomic.open_unfinished(path, replaces=place.replaces_existing)
                    )
                )
                papers[-1].stream.write(text)
                papers[-1].seal_file()
            place.stops.raise_lost()
            late = bill.settle_charge(receipt)
            place.name_files(output, papers[0], [*papers[1:], *others.values()])
    except Exception as error:
        if bill.ledger_fields:
            error.add_note(bill.spending_note)
        raise
    except KeyboardInterrupt as stop:
        spent = f" {bill.spending_note}" * bool(bill.spending_note)
        raise type(stop)(f"Interrupted; {_describe_remains(target, old)}.{spent}") from stop
    done = Release(
        value=target,
        receipt=receipt,
        signed_by=signing.key_sha256,
        signing_notes=signing.notes,
        plan=plan,
    )
    if late:
        raise _make_unsettled_error(target, late) from late
    return done


def recognise_output(thing: Output, place: OutputPlace, bill: Bill) -> Release[Path]:
    """An output that this very work has made before.

    Raises:
        FileExistsError: if it is of other work, or if nobody can tell.
    """
    target = place.target
    remedy = "Choose another name, or --overwrite to release (and spend) again."
    try:
        checked = read_checked(target)
    except ValueError as error:
        raise FileExistsError(f"{target} stands there without a good receipt. {remedy}") from error
    receipt, signed = checked.receipt, checked.signature
    same = (receipt.mechanism, receipt.fields) == (
        thing.promise.name,
        thing.promise.encode_fields(),
    )
    same = same and all(
        getattr(receipt, name) == value for name, value in thing.saving_fields.items()
    )
    if not same or receipt.shapes != thing.shapes:
        raise FileExistsError(f"{target} is the output of another release. {remedy}")
    is_paid = bill.is_paid_by(receipt)
    if is_paid is False:
        raise FileExistsError(
            f"{target} was released from another file or outside this ledger. {remedy}"
        )
    if is_paid is None and place.if_standing is not IfExists.RESUME:
        raise FileExistsError(
            f"{target} stands there with a good receipt; without a ledger nobody can tell which "
            f"file it was made from. --resume to keep it. {remedy}"
        )
    signed_by = signed.key_sha256 if signed is not None and signed.is_verified else None
    return Release(value=target, receipt=receipt, stood=True, signed_by=signed_by, plan=thing.plan)


def _make_unsettled_error(target: Path, late: Exception) -> Exception:
    return type(late)(
        f"{target} stands and its spend is recorded, but that it stands could not be: {late} "
        "Run the same command again to settle it; nothing more is spent."
    )


def _describe_remains(target: Path, old: tuple[int, int] | None) -> str:
    """What a stop has left of an output, where an ``old`` one may have stood before."""
    now = identify_file(target)
    if now != old:
        return f"{target} stands" if now else f"nothing was published, and the old {target} is gone"
    return "nothing was published" + f"; the old {target} stands" * (old is not None)


def final_name(target: Path, noise: Noise) -> Path:
    """The output's name; a rehearsal says so in it."""
    return rehearsal_name(target) if noise.is_rehearsal else target


def rehearsal_name(target: Path) -> Path:
    """What a rehearsal's output would be called."""
    return target.with_suffix(f".rehearsal{target.suffix}")


def identify_file(path: Path) -> tuple[int, int] | None:
    """Which file stands under a name, by whatever link; another one has another stamp."""
    try:
        held = path.stat()
    except OSError:
        return None
    return held.st_dev, held.st_ino


def check_link(path: Path) -> None:
    """Refuse a symbolic link that leads back to itself."""
    try:
        path.resolve()
    except (OSError, RuntimeError) as error:
        raise ValueError(
            f"Expected a place for the output, got {path}, a symbolic link that leads back to "
            "itself; remove it, or choose another name."
        ) from error


def check_output_place(target: Path, source: Path | None = None) -> None:
    """Everything about the output's place that can be refused before anything is read."""
    check_link(target)
    if not target.parent.is_dir():
        raise ValueError(f"Expected the folder {target.parent} to exist; make it first.")
    beside = receipt_path(target)
    for path in (target, beside, signatures.signature_path(beside)):
        is_there = path.exists() and source is not None and source.exists()
        if is_there and source is not None and path.samefile(source):  # links, and any case
            raise ValueError(
                f"Expected another name for the output than the input {source}, got {path}."
            )
        if path.is_dir():
            raise ValueError(f"Expected room for a file at {path}; there is a folder.")
        if path.is_symlink() and not path.exists():
            raise ValueError(f"Expected room for a file at {path}; a link to nowhere is there.")
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise BadInput(f"Expected a folder that can be written, got {target.parent}.") from error


def _refuse_stranger(target: Path) -> None:
    """Only what was released makes room for a new release: a file without a receipt may be private.

    Raises:
        FileExistsError: if there is no receipt beside it.
    """
    try:
        Receipt.from_json(receipt_path(target).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileExistsError(
            f"{target} stands there without a receipt, so it is no output of ours and is not "
            "replaced. Move it away, or choose another name."
        ) from error


def _remove_receipt(target: Path) -> None:
    """Remove what goes with an output: the files that its receipt names, signature, receipt."""
    for path in _list_own_companions(target):
        path.unlink(missing_ok=True)
    beside = receipt_path(target)
    signatures.signature_path(beside).unlink(missing_ok=True)
    beside.unlink(missing_ok=True)


def _refuse_strange_companions(suffixes: Sequence[str], target: Path) -> None:
    """A companion has its place free, or a run of ours has left it there.

    Raises:
        FileExistsError: if it is another's.
    """
    ours = _list_own_companions(target)
    for suffix in suffixes:
        path = sidecar_path(target, suffix)
        if path in (target, receipt_path(target)):
            raise ValueError(f"Expected another name for the output than {target}; it is taken.")
        if (path.exists() or path.is_symlink()) and path not in ours:
            raise FileExistsError(
                f"{path} stands there and is no output of this release, so it is not replaced. "
                "Move it away, or choose another name."
            )


def _list_own_companions(target: Path) -> list[Path]:
    """The files beside an output that its receipt names, if they are the very ones."""
    try:
        receipt = Receipt.from_json(receipt_path(target).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    found = []
    for suffix, digest in receipt.along.items():
        path = sidecar_path(target, suffix)
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as stream:
                is_own = hashlib.file_digest(stream, "sha256").hexdigest() == digest
            found += [path] * is_own
    return found
