"""Tie a published file to its receipt, and the receipt to what the mechanism really promises.

Make keys that receipts are signed with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from masquerade import _json
from masquerade.cli.flags import Positional, Repeated
from masquerade.errors import BadInput, exit_code
from masquerade.io import signatures
from masquerade.io.signatures import Signing
from masquerade.publish.receipts import (
    _SIGNER_ADVICE,
    CheckedFile,
    _sign_checked,
    list_private_lists,
    list_published_files,
    list_warnings,
    read_checked,
)
from masquerade.receipt import receipt_path
from masquerade.result import CommandResult


def _make_folder(folder: Path) -> None:
    """One that releases trust."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"Expected a folder that can be made for your key, got {folder} ({error.strerror}); "
            "name a file for it: masquerade receipt keygen KEY.pem"
        ) from error
    signatures.check_key_folder(folder)


@dataclass(frozen=True, kw_only=True)
class MakeKeys:
    """Make a pair of keys to sign receipts with; the first release makes your own by itself.

    Args:
        key: where the private key goes (.pem); the public one is written beside it (.pub.pem). By
            default it is your own, with which releases are signed.
        rotate: move the key that is there aside, and make another.
    """

    key: Positional[Path | None] = None
    rotate: bool = False

    def run(self) -> CommandResult:
        """Make and write both."""
        private = self.key or signatures.find_own_key_path()
        if private is None or private.suffix != ".pem":
            raise ValueError(f"Expected a name that ends in .pem for the key, got {private}.")
        public, aside = signatures.public_key_path(private), None
        if self.rotate:
            aside = signatures.rotate_key(private)
        if self.key is None:
            _make_folder(private.parent)
        key = signatures.fingerprint_key(signatures.make_keys(private, public).public_key())
        after = (
            f"What was signed before stays good: its public key is now {aside}. Whoever checks "
            f"your receipts has to name both: --signer {aside} --signer {public}. If the old key "
            "was stolen, tell them to name it no longer, and sign again with: masquerade receipt "
            "sign"
        )
        return CommandResult(
            data={
                "private": str(private),
                "public": str(public),
                "key_sha256": key,
                "before": None if aside is None else str(aside),
            },
            lines=[
                f"Wrote {private}, which is private: keep it to yourself.",
                f"Wrote {public}, which you give to those who check your receipts.",
                f"Its SHA-256 is {key}.",
                *[after] * self.rotate,
            ],
        )


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
    signer: Repeated[tuple[Path, ...]] = ()
    require_signature: bool = False
    explain: bool = False

    def run(self) -> CommandResult:
        """Check, then explain."""
        files = list_published_files(self.files)
        if not files:
            raise ValueError("Expected a published file, or a folder of them, got none; name one.")
        private = list_private_lists(self.files)
        if len(files) == 1:
            answer = self._explain_file(self._check_file(files[0]))
            return replace(
                answer,
                data={**answer.data, "private": list(map(str, private))},
                lines=[*answer.lines, *list_warnings(private)],
            )
        checked: list[dict[str, Any]] = []
        lines, codes = [], set()
        for file in files:
            try:
                found = self._check_file(file)
            except BadInput as error:
                checked.append({"file": str(file), "ok": False, "error": str(error)})
                lines.append(f"! {file}: {error}")
                codes.add(exit_code(error))
                continue
            checked.append(self._explain_file(found).data)
            lines.append(f"  {file} is {found.signature_status}. {found.explain_guarantee()[0]}")
            lines += [f"! {found.appearance_doubt}"] * bool(found.appearance_doubt)
        good = sum(each["ok"] for each in checked)
        lines += list_warnings(private)
        lines.append(f"{good} of {len(files)} files agree with their receipts.")
        return CommandResult(
            data={"files": checked, "ok": not codes, "private": list(map(str, private))},
            lines=lines,
            exit_code=min(codes, default=0),
        )

    def _check_file(self, file: Path) -> CheckedFile:
        is_strict = self.require_signature or bool(self.signer)
        return read_checked(file, signers=self.signer, is_strict=is_strict)

    def _explain_file(self, found: CheckedFile) -> CommandResult:
        receipt = found.receipt
        ledger = (
            f"It names entry {receipt.ledger_sequence} of a ledger, whose steward can confirm it "
            "with: masquerade ledger verify --receipts"
        )
        return CommandResult(
            data={
                "file": str(found.path),
                "ok": True,
                "signed_by": found.signer_sha256,
                "signature": _json.encode_noun(found.signature),
                "looks_like": found.is_appearance_released,
                "receipt": _json.encode_noun(receipt),
            },
            lines=[
                f"{found.path} is {found.signature_status}.",
                *[found.appearance_doubt] * bool(found.appearance_doubt),
                *[_SIGNER_ADVICE] * (found.signature is not None and found.signer_sha256 is None),
                *[ledger] * (receipt.ledger_sequence is not None and found.signer_sha256 is None),
                *found.explain_guarantee(is_technical=self.explain),
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

    def run(self) -> CommandResult:
        """Check and sign."""
        files = list_published_files(self.files)
        if not files:
            raise ValueError("Expected a published file, or a folder of them, got none; name one.")
        signing = (
            signatures.find_signing()
            if self.key is None
            else Signing(key=signatures.load_named_key(self.key))
        )
        if signing.key is None:
            raise ValueError(f"{signing.notes[0]} --key KEY.pem")
        each = {str(file): self._sign_file(file, signing.key) for file in files}
        answer = CommandResult.merge_answers(each)
        return replace(answer, lines=[*answer.lines, *signing.notes])

    def _sign_file(self, file: Path, key: Ed25519PrivateKey) -> CommandResult:
        name, place = _sign_checked(file, key), signatures.signature_path(receipt_path(file))
        return CommandResult(
            data={"file": str(file), "signature": str(place), "key_sha256": name},
            lines=[f"Wrote {place}, signed by the key {name}."],
        )


COMMANDS = {"check": CheckReceipt, "sign": SignReceipt, "keygen": MakeKeys}
