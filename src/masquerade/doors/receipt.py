"""Tie a published file to its receipt, and the receipt to what the mechanism really promises."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from masquerade import __version__, _json, catalog
from masquerade.doors import Answer
from masquerade.doors.source import Limits, find
from masquerade.errors import BadInput
from masquerade.events import NoGuaranteeDpEvent, event_to_json
from masquerade.files import signature
from masquerade.guarantee import Guarantee
from masquerade.mechanism import Shapes
from masquerade.receipt import SUFFIX, Receipt, along_path, receipt_path
from masquerade.train.promise import OF_MASKS, OF_PUBLIC, WithMarks, WithMasks
from masquerade.video.formats import MAX_PIXELS
from masquerade.wording import explain

_LEAST_PACKED = 64  # noise does not pack: how many times its size a release unpacks to, at most


def check_receipt(path: Path | str, *, signer: Path | str | None = None) -> Receipt:
    """The receipt of a published file, if file, receipt and mechanism agree.

    Four things are compared: the file's SHA-256 with the receipt's, the shapes of what it holds
    with those stated, the stated guarantee and event with those that the mechanism gives for
    these fields and shapes, and every invariant of the nouns. All of this anyone could have
    written: only a signature or a ledger says who did.

    Args:
        path: the published file; its receipt stands beside it.
        signer: a public key in PEM that must have signed the receipt.

    Raises:
        BadInput: if anything is missing or does not agree; the message says which.
    """
    path = Path(path)
    beside = receipt_path(path)
    if not path.is_file():
        raise BadInput(f"Expected a published file at {path}; there is none.")
    if not beside.is_file():
        raise BadInput(f"Expected a receipt at {beside}; nothing is known about {path.name}.")
    if signer is not None:
        signature.verify(beside, Path(signer))
    try:
        receipt = Receipt.from_json(beside.read_text(encoding="utf-8"))
    except ValueError as error:  # it is not text, or no receipt
        raise BadInput(f"Expected a receipt at {beside}; it cannot be one: {error}") from error
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != receipt.output_sha256:
        raise BadInput(f"Expected {path.name} to be the file that was released; it was changed.")
    receipt = _compared_with_mechanism(receipt)
    _compare_with_file(receipt, path)
    _compare_along(receipt, path)
    return receipt


def published_files(paths: Iterable[Path | str]) -> list[Path]:
    """The files themselves, and of folders all that is in them but receipts and signatures.

    Raises:
        BadInput: if a folder holds none.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            found.append(path)
            continue
        inside = [one for one in sorted(path.rglob("*")) if _is_published(one, path)]
        if not inside:
            raise BadInput(f"Expected published files in {path}, got none; is this the folder?")
        found += inside
    return found


def _is_published(path: Path, folder: Path) -> bool:
    is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    is_beside = SUFFIX in path.name  # a receipt, or its signature
    return path.is_file() and not is_hidden and not is_beside and not _goes_along(path)


def _goes_along(path: Path) -> bool:
    """Whether another file's receipt vouches for it; that file is checked, and this one with it."""
    if receipt_path(path).exists():
        return False
    stem = path.name.partition(".")[0]
    for beside in path.parent.glob(f"{glob.escape(stem)}*{SUFFIX}"):
        with contextlib.suppress(OSError, ValueError):
            named = Receipt.from_json(beside.read_text(encoding="utf-8")).along
            target = beside.with_name(beside.name.removesuffix(SUFFIX))
            if path in [along_path(target, suffix) for suffix in named]:
                return True
    return False


def sign_receipt(path: Path | str, key: Path | str) -> str:
    """Sign the receipt of a published file, once it is found good; give the key's fingerprint.

    Args:
        path: the published file; the signature stands beside its receipt.
        key: a private Ed25519 key in PEM.
    """
    check_receipt(path)
    return signature.sign(receipt_path(Path(path)), Path(key))


def _compare_with_file(receipt: Receipt, path: Path) -> None:
    """A guarantee depends on the shapes, so they are those of the file; a model states others."""
    if receipt.mechanism in catalog.names("train"):
        if path.suffix != ".safetensors":
            raise BadInput(f"Expected a model (.safetensors) by its receipt, got {path.name}.")
        return
    try:
        found = _shapes_in(path, _limits(receipt.shapes, path))
    except ValueError as error:
        raise BadInput(f"Expected a file that can be released, got another: {error}") from error
    if receipt.shapes not in found:
        raise BadInput(
            f"Expected {path.name} to hold numbers of shape {_said(receipt.shapes)}, as its "
            f"receipt says, got {_said(found[0])}; the receipt is of another file, or was edited."
        )


def _compare_along(receipt: Receipt, path: Path) -> None:
    """What was published with a file must stand beside it, unchanged."""
    for suffix, digest in receipt.along.items():
        other = along_path(path, suffix)
        if not other.is_file():
            raise BadInput(
                f"Expected {other.name} beside {path.name}, with which it was released; it is gone."
            )
        with other.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != digest:
                raise BadInput(
                    f"Expected {other.name} to be the file that was released with {path.name}; it "
                    "was changed."
                )


def _limits(shapes: Shapes, path: Path) -> Limits:
    """As large as the receipt says, where a file of that size on disk may well be."""
    usual, size = Limits(), path.stat().st_size
    numbers = sum(map(math.prod, shapes))
    pixels = max(math.prod(shape[1:3]) for shape in shapes)
    return Limits(
        max_pixels=min(max(usual.max_pixels, pixels), MAX_PIXELS),
        max_bytes=max(usual.max_bytes, min(8 * numbers, _LEAST_PACKED * size)),
    )


def _shapes_in(path: Path, limits: Limits) -> list[Shapes]:
    """The shapes a file may state; a .csv does not tell a heading, nor one axis from a column."""
    if path.suffix.lower() != ".csv":
        return [find(path, limits=limits).shapes]
    tables = []
    for heading in (False, True):
        with contextlib.suppress(BadInput):
            tables.append(find(path, heading=heading, limits=limits).shapes)
    if not tables:
        raise BadInput(f"Expected numbers in {path.name}; there are none.")
    return tables + [((rows,),) for ((rows, columns),) in tables if columns == 1]


def _said(shapes: Shapes) -> str:
    return ", ".join(" x ".join(map(str, shape)) for shape in shapes)


def _compared_with_mechanism(receipt: Receipt) -> Receipt:
    """The receipt, in the words of this version, if it promises what the mechanism does."""
    try:
        stated = promise_of(receipt).stated(receipt.shapes)
    except ImportError:
        raise
    except Exception as error:  # its fields may be anything
        raise BadInput(f"Expected a mechanism and fields that we know; {error}") from error
    is_rehearsal = receipt.is_rehearsal
    try:
        guarantee = stated.guarantee.as_released(
            with_sound=receipt.kept_sound, is_rehearsal=is_rehearsal
        )
    except ValueError as error:
        raise BadInput(f"Expected a release that can have been made; {error}") from error
    event = NoGuaranteeDpEvent("rehearsal") if is_rehearsal else stated.event
    is_ours = receipt.code_version == __version__
    is_same = _alike(event_to_json(receipt.dp_event), event_to_json(event))
    if not is_same or not _covers(receipt.guarantee, guarantee, is_ours=is_ours):
        version = "" if is_ours else f" by version {receipt.code_version}, which this one is not"
        raise BadInput(
            f"Expected the guarantee that {receipt.mechanism} gives for these fields; the receipt "
            f"states another one. It was edited, or written{version or ' by another program'}."
        )
    return receipt if is_ours else replace(receipt, guarantee=guarantee)


def promise_of(receipt: Receipt) -> Any:
    """The mechanism, or the method of training, that has the receipt's name and fields."""
    room = "train" if receipt.mechanism in catalog.names("train") else "release"
    make = type(catalog.example(room, receipt.mechanism))
    if room == "release":
        return make(**receipt.fields)
    fields = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in receipt.fields.items()
        if name not in (*OF_MASKS, *OF_PUBLIC)
    }
    method = make(**fields | ({"epsilon": math.inf} if fields["epsilon"] is None else {}))
    wanted = getattr(method, "MARKS", ())
    for mark in wanted:
        if mark not in receipt.fields:
            raise ValueError(f"what is public is not named ({mark})")
    if not method.made(receipt.fields):
        raise ValueError("some of its fields are missing")
    if set(wanted) & set(OF_PUBLIC):
        return WithMarks(method=method, marks={name: receipt.fields[name] for name in wanted})
    if "mask_sha256" not in receipt.fields:
        return method
    source = str(receipt.fields.get("mask_source", ""))
    mark = str(receipt.fields["mask_sha256"])
    return WithMasks(method=method, mask_sha256=mark, mask_source=source)


def _covers(stated: Guarantee, own: Guarantee, *, is_ours: bool) -> bool:
    """Whether a promise is that one, or promises less.

    Of the attacker's power it may say more, or nothing; the last digit depends on the machine's
    arithmetic. Another version may have other words, and an epsilon that is not as tight; its words
    are then not repeated.
    """
    if stated.power is not None and stated.noticed < own.noticed - 2e-4:
        return False
    if is_ours:
        return stated == replace(own, power=stated.power)
    proved = [
        (each.kind, each.unit, each.relation, each.delta, each.epsilon is None, each.estimate)
        for each in (stated, own)
    ]
    return proved[0] == proved[1] and (stated.epsilon or 0.0) >= (own.epsilon or 0.0)


def _alike(one: Any, other: Any) -> bool:
    """Equal events, up to what two processors make of one search for the noise.

    It divides small differences by each other, so their roundings of 1e-16 become some 1e-9. A
    millionth moves no decimal of an epsilon that is stated, and the guarantee must be equal.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6)
    return bool(one == other)


@dataclass(frozen=True, kw_only=True)
class CheckReceipt:
    """Tie published files to their receipts and read the guarantees aloud.

    Example:
        masquerade receipt check public.mp4
        masquerade receipt check published/

    Args:
        files: published files, or folders of them; receipts stand beside the files.
        signer: a public key (.pem) that must have signed the receipts.
        explain: also name the proof and the sampler, for experts.
    """

    files: Positional[tuple[Path, ...]]
    signer: Path | None = None
    explain: bool = False

    def run(self) -> Answer:
        """Check, then explain."""
        files = published_files(self.files)
        if not files:
            raise ValueError("Expected a published file, or a folder of them, got none; name one.")
        if len(files) == 1:
            return self._one(files[0])
        checked: list[dict[str, Any]] = []
        lines, worst = [], 0
        for file in files:
            try:
                one = self._one(file)
                checked.append(one.data)
                lines.append(f"  {file}: {one.lines[2]}")
            except BadInput as error:
                checked.append({"file": str(file), "ok": False, "error": str(error)})
                lines.append(f"! {file}: {error}")
                worst = 4
        good = sum(each["ok"] for each in checked)
        lines.append(f"{good} of {len(files)} files agree with their receipts.")
        return Answer(data={"files": checked, "ok": not worst}, lines=lines, exit_code=worst)

    def _one(self, file: Path) -> Answer:
        receipt = check_receipt(file, signer=self.signer)
        held = signature.read(receipt_path(file))
        signed_by = held["key_sha256"] if held is not None and self.signer is not None else None
        return Answer(
            data={
                "file": str(file),
                "ok": True,
                "signed_by": signed_by,
                "receipt": _json.encode(receipt),
            },
            lines=[
                f"{file} is the file that was released on {receipt.date} by "
                f"{receipt.mechanism} (Masquerade {receipt.code_version}).",
                self._who(receipt, None if held is None else held["key_sha256"]),
                *explain(receipt.guarantee, is_technical=self.explain),
            ],
        )

    def _who(self, receipt: Receipt, key: str | None) -> str:
        """Who vouches for it."""
        if self.signer is not None:
            return f"The key {key} has signed the receipt."
        if key is not None:
            return f"The key {key} is said to have signed it; to verify, give --signer PUBLIC.pem."
        if receipt.ledger_sequence is not None:
            return (
                f"The receipt is not signed; it names entry {receipt.ledger_sequence} of a ledger, "
                "whose steward can confirm it with: masquerade ledger verify --receipts"
            )
        return "The receipt is not signed: anyone who can write the file could have written it."


@dataclass(frozen=True, kw_only=True)
class SignReceipt:
    """Sign the receipts of published files, after checking them.

    Args:
        files: published files, or folders of them; a signature stands beside each receipt.
        key: your private Ed25519 key (.pem), from `receipt keygen` or from OpenSSL.
    """

    files: Positional[tuple[Path, ...]]
    key: Path

    def run(self) -> Answer:
        """Check and sign."""
        files = published_files(self.files)
        if not files:
            raise ValueError("Expected a published file, or a folder of them, got none; name one.")
        return Answer.of_each({str(file): self._one(file) for file in files})

    def _one(self, file: Path) -> Answer:
        key = sign_receipt(file, self.key)
        place = signature.beside(receipt_path(file))
        return Answer(
            data={"file": str(file), "signature": str(place), "key_sha256": key},
            lines=[f"Wrote {place}, signed by the key {key}."],
        )


@dataclass(frozen=True, kw_only=True)
class Keygen:
    """Make a pair of keys to sign receipts with.

    Args:
        key: where the private key goes (.pem); the public one is written beside it (.pub.pem).
    """

    key: Positional[Path]

    def run(self) -> Answer:
        """Make and write both."""
        if self.key.suffix != ".pem":
            raise ValueError(f"Expected a name that ends in .pem for the key, got {self.key.name}.")
        public = self.key.with_suffix(".pub.pem")
        key = signature.make_keys(self.key, public)
        return Answer(
            data={"private": str(self.key), "public": str(public), "key_sha256": key},
            lines=[
                f"Wrote {self.key}, which is private: keep it to yourself.",
                f"Wrote {public}, which you give to those who check your receipts.",
                f"Its SHA-256 is {key}.",
            ],
        )


COMMANDS = {"check": CheckReceipt, "sign": SignReceipt, "keygen": Keygen}
