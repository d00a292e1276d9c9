"""Make keys that receipts are signed with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from masquerade.doors import Answer
from masquerade.errors import BadInput
from masquerade.files import signature, signing_key


def _make_folder(folder: Path) -> None:
    """One that releases trust."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"Expected a folder that can be made for your key, got {folder} ({error.strerror}); "
            "name a file for it: masquerade receipt keygen KEY.pem"
        ) from error
    signing_key.check_folder(folder)


@dataclass(frozen=True, kw_only=True)
class Keygen:
    """Make a pair of keys to sign receipts with; the first release makes your own by itself.

    Args:
        key: where the private key goes (.pem); the public one is written beside it (.pub.pem). By
            default it is your own, with which releases are signed.
        rotate: move the key that is there aside, and make another.
    """

    key: Positional[Path | None] = None
    rotate: bool = False

    def run(self) -> Answer:
        """Make and write both."""
        private = self.key or signing_key.place()
        if private is None or private.suffix != ".pem":
            raise ValueError(f"Expected a name that ends in .pem for the key, got {private}.")
        public, aside = signing_key.public_of(private), None
        if self.rotate:
            aside = signing_key.rotate(private)
        if self.key is None:
            _make_folder(private.parent)
        key = signature.fingerprint(signature.make_keys(private, public).public_key())
        after = (
            f"What was signed before stays good: its public key is now {aside}. Whoever checks "
            f"your receipts has to name both: --signer {aside} --signer {public}. If the old key "
            "was stolen, tell them to name it no longer, and sign again with: masquerade receipt "
            "sign"
        )
        return Answer(
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
