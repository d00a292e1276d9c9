"""Tie a published file to its receipt, and the receipt to what the mechanism really promises."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tyro.conf import Positional, UseAppendAction

from masquerade import __version__, _json, catalog, video
from masquerade._printed import printable
from masquerade.doors import Answer
from masquerade.doors.keygen import Keygen
from masquerade.doors.receipt_files import (
    compare_along,
    compare_with_file,
    private_lists,
    published_files,
    warnings_of,
)
from masquerade.errors import BadInput, SignatureMissing, exit_code
from masquerade.events import NoGuaranteeDpEvent, event_to_json
from masquerade.files import atomic, signature, signing_key
from masquerade.files.signature import Signature
from masquerade.files.signing_key import Signing
from masquerade.guarantee import Guarantee
from masquerade.receipt import Receipt, receipt_path
from masquerade.train.promise import promise_from
from masquerade.wording import explain

_PINS = "Name a public key that you trust with --signer PUBLIC.pem."


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A published file that agrees with its receipt, which anyone could have written.

    Args:
        path: the file.
        receipt: beside it.
        text: the receipt as it stands there.
        signature: of it, if there is one.
        looks_released: whether the file looks like an output of the mechanism, which is but a hint;
            None where nobody can say.
    """

    path: Path
    receipt: Receipt
    text: bytes
    signature: Signature | None
    looks_released: bool | None

    @property
    def name(self) -> str:
        """As it is shown."""
        return printable(self.path.name)

    @property
    def is_film(self) -> bool:
        """Whether it can be looked at."""
        return video.is_video(self.path)

    @property
    def signed_by(self) -> str | None:
        """The key that has signed it, if the reader named that key."""
        held = self.signature
        return held.key_sha256 if held is not None and held.is_pinned else None

    @property
    def standing(self) -> str:
        """Whose word the receipt is."""
        held = self.signature
        if held is None:
            return "consistent with an unsigned receipt: anyone could have written it"
        if held.is_pinned:
            made = self.receipt
            return (
                f"the file that was released on {made.date} by {made.mechanism} (Masquerade "
                f"{made.code_version}), signed by the key {held.key_sha256}, which was named as "
                "trusted"
            )
        if held.is_verified:
            return (
                f"consistent with a receipt signed by an unknown key {held.key_sha256}: anyone can "
                "make a key"
            )
        return (
            f"consistent with a receipt whose signature is not verified: it is said to be by the "
            f"key {held.key_sha256}"
        )

    def introduced(self, *, is_technical: bool = False) -> list[str]:
        """The guarantee, as a fact or as what the receipt states."""
        made = self.receipt
        first, *others = explain(made.guarantee, is_technical=is_technical)
        if self.signed_by is None:
            version = f"Masquerade {made.code_version}"
            first = f"The receipt states ({made.mechanism}, {made.date}, {version}): {first}"
        return [first, *others]

    @property
    def doubt(self) -> str:
        """What the file itself says against its receipt; usually nothing."""
        if self.looks_released is not False:
            return ""
        return (
            f"It does not look like an output of {self.receipt.mechanism}: it shows what that "
            "takes away. (Looks are a hint; they can be forged.)"
        )


def check_receipt(path: Path | str, *, signer: Path | str | None = None) -> Receipt:
    """The receipt of a published file, if file, receipt and mechanism agree.

    All of it anyone could have written: only a signature or a ledger says who did.

    Args:
        path: the published file; its receipt stands beside it.
        signer: a public key in PEM that must have signed the receipt.

    Raises:
        BadInput: if anything is missing or does not agree; the message says which.
        SignatureMissing: if that key has not signed it.
    """
    signers = () if signer is None else (signer,)
    return read_checked(path, signers=signers, is_strict=bool(signers)).receipt


def read_checked(
    path: Path | str, *, signers: Sequence[Path | str] = (), is_strict: bool = False
) -> Checked:
    """What is known of a published file, if file, receipt and mechanism agree.

    Compared are the file's SHA-256 with the receipt's, the shapes of what it holds with those
    stated, the stated guarantee and event with those that the mechanism gives for these fields and
    shapes, every invariant of the nouns, and a signature with what was signed.

    Args:
        path: the published file; its receipt stands beside it.
        signers: public keys in PEM that the reader trusts.
        is_strict: whether one of them must have signed.

    Raises:
        BadInput: if anything is missing or does not agree; the message says which.
        SignatureMissing: if a signature is needed, and is not there.
    """
    path = Path(path)
    beside = receipt_path(path)
    if not path.is_file():
        raise BadInput(f"Expected a published file at {path}; there is none.")
    if not beside.is_file():
        raise BadInput(f"Expected a receipt at {beside}; nothing is known about {path.name}.")
    text = beside.read_bytes()  # once: what is verified is what is read
    signed = signature.check(beside, text, signers=map(Path, signers))
    try:
        receipt = Receipt.from_json(text.decode())
    except ValueError as error:  # it is not text, or no receipt
        raise BadInput(f"Expected a receipt at {beside}; it cannot be one: {error}") from error
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != receipt.output_sha256:
        raise BadInput(f"Expected {path.name} to be the file that was released; it was changed.")
    receipt = _compared_with_mechanism(receipt)
    looks = compare_with_file(receipt, promise_of(receipt), path)
    compare_along(receipt, path)
    found = Checked(path=path, receipt=receipt, text=text, signature=signed, looks_released=looks)
    if is_strict and found.signed_by is None:
        raise SignatureMissing(
            f"Expected a signature by a key that you named, got {path.name}, which is "
            f"{found.standing}. {_PINS}"
        )
    return found


def sign_receipt(path: Path | str, key: Path | str) -> str:
    """Sign the receipt of a published file, once it is found good; give the key's fingerprint.

    Args:
        path: the published file; the signature stands beside its receipt.
        key: a private Ed25519 key in PEM.
    """
    return _sign(Path(path), signing_key.load(Path(key)))


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
            with_sound=receipt.kept_sound,
            with_times=receipt.kept_times,
            is_rehearsal=is_rehearsal,
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
    if receipt.mechanism in catalog.names("train"):
        return promise_from(receipt.mechanism, receipt.fields)
    return type(catalog.example("release", receipt.mechanism))(**receipt.fields)


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
    """Tie published files to their receipts, say whose word those are, and read them aloud.

    Example:
        masquerade receipt check public.mp4 --signer ward.pub.pem
        masquerade receipt check published/

    Args:
        files: published files, or folders of them; receipts stand beside the files.
        signer: a public key (.pem) that you trust, of which one must have signed; may be given
            several times.
        require_signature: exit 7 unless such a key has signed.
        explain: also name the proof and the sampler, for experts.
    """

    files: Positional[tuple[Path, ...]]
    signer: UseAppendAction[tuple[Path, ...]] = ()
    require_signature: bool = False
    explain: bool = False

    def run(self) -> Answer:
        """Check, then explain."""
        files = published_files(self.files)
        if not files:
            raise ValueError("Expected a published file, or a folder of them, got none; name one.")
        private = private_lists(self.files)
        if len(files) == 1:
            answer = self._one(self._checked(files[0]))
            return replace(
                answer,
                data={**answer.data, "private": list(map(str, private))},
                lines=[*answer.lines, *warnings_of(private)],
            )
        checked: list[dict[str, Any]] = []
        lines, codes = [], set()
        for file in files:
            try:
                found = self._checked(file)
            except BadInput as error:
                checked.append({"file": str(file), "ok": False, "error": str(error)})
                lines.append(f"! {file}: {error}")
                codes.add(exit_code(error))
                continue
            checked.append(self._one(found).data)
            lines.append(f"  {file} is {found.standing}. {found.introduced()[0]}")
            lines += [f"! {found.doubt}"] * bool(found.doubt)
        good = sum(each["ok"] for each in checked)
        lines += warnings_of(private)
        lines.append(f"{good} of {len(files)} files agree with their receipts.")
        return Answer(
            data={"files": checked, "ok": not codes, "private": list(map(str, private))},
            lines=lines,
            exit_code=min(codes, default=0),
        )

    def _checked(self, file: Path) -> Checked:
        is_strict = self.require_signature or bool(self.signer)
        return read_checked(file, signers=self.signer, is_strict=is_strict)

    def _one(self, found: Checked) -> Answer:
        receipt = found.receipt
        ledger = (
            f"It names entry {receipt.ledger_sequence} of a ledger, whose steward can confirm it "
            "with: masquerade ledger verify --receipts"
        )
        return Answer(
            data={
                "file": str(found.path),
                "ok": True,
                "signed_by": found.signed_by,
                "signature": _json.encode(found.signature),
                "looks_like": found.looks_released,
                "receipt": _json.encode(receipt),
            },
            lines=[
                f"{found.path} is {found.standing}.",
                *[found.doubt] * bool(found.doubt),
                *[_PINS] * (found.signature is not None and found.signed_by is None),
                *[ledger] * (receipt.ledger_sequence is not None and found.signed_by is None),
                *found.introduced(is_technical=self.explain),
            ],
        )


@dataclass(frozen=True, kw_only=True)
class SignReceipt:
    """Sign the receipts of published files, after checking them.

    Args:
        files: published files, or folders of them; a signature stands beside each receipt.
        key: a private Ed25519 key (.pem), from `receipt keygen` or from OpenSSL; by default your
            own, with which releases are signed.
    """

    files: Positional[tuple[Path, ...]]
    key: Path | None = None

    def run(self) -> Answer:
        """Check and sign."""
        files = published_files(self.files)
        if not files:
            raise ValueError("Expected a published file, or a folder of them, got none; name one.")
        signing = (
            signing_key.find() if self.key is None else Signing(key=signing_key.load(self.key))
        )
        if signing.key is None:
            raise ValueError(f"{signing.notes[0]} --key KEY.pem")
        each = {str(file): self._one(file, signing.key) for file in files}
        answer = Answer.of_each(each)
        return replace(answer, lines=[*answer.lines, *signing.notes])

    def _one(self, file: Path, key: Ed25519PrivateKey) -> Answer:
        name, place = _sign(file, key), signature.beside(receipt_path(file))
        return Answer(
            data={"file": str(file), "signature": str(place), "key_sha256": name},
            lines=[f"Wrote {place}, signed by the key {name}."],
        )


def _sign(path: Path, key: Ed25519PrivateKey) -> str:
    """Sign what was checked, and nothing that took its place since."""
    text, beside = read_checked(path).text, receipt_path(path)
    atomic.write_whole(signature.beside(beside), signature.sign(text, key))
    return signature.fingerprint(key.public_key())


COMMANDS = {"check": CheckReceipt, "sign": SignReceipt, "keygen": Keygen}
