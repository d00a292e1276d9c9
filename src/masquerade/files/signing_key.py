"""The key that signs whatever its owner releases: made on first use, in the configuration folder.

Without a place for it a release is not signed, and says so; a key that is there and cannot be
trusted is refused.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from masquerade.errors import BadInput
from masquerade.files import atomic, signature

VARIABLE = "MASQUERADE_SIGNING_KEY"


@dataclass(frozen=True, kw_only=True)
class Signing:
    """What a release is signed with.

    Args:
        key: none: it is not signed.
        notes: what its owner has to know: that a key was made, or why there is none.
    """

    key: Ed25519PrivateKey | None = None
    notes: tuple[str, ...] = ()

    @property
    def key_sha256(self) -> str | None:
        """The key's fingerprint."""
        return None if self.key is None else signature.fingerprint(self.key.public_key())


def find() -> Signing:
    """The key of ``$MASQUERADE_SIGNING_KEY`` (empty: none), or else one's own, made if need be.

    Raises:
        BadInput: if there is a key that cannot be used.
    """
    named = os.environ.get(VARIABLE)
    if named == "":
        return _unsigned(f"{VARIABLE} is empty")
    if named is not None:
        return Signing(key=load(Path(named)))
    private = place()
    if private is None:
        return _unsigned("there is no home folder to keep a key in")
    try:
        return _kept(private)
    except OSError as error:
        cause: Any = error
    except BadInput as error:
        if not isinstance(error.__cause__, OSError):  # else a lock could not be held there
            raise
        cause = error.__cause__
    return _unsigned(f"no key can be kept in {private.parent} ({cause.strerror})")


def _kept(private: Path) -> Signing:
    """The key that is there, or a new one."""
    public = public_of(private)
    with contextlib.suppress(FileNotFoundError):
        check_folder(private.parent)
        key = signature.private_key(private)
        if public.exists():
            _check_halves(key, public)
        else:  # a crash came before it
            with contextlib.suppress(OSError):
                signature.write_public(key, public)
        return Signing(key=key)
    private.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_folder(private.parent)
    with atomic.alone(private):
        with contextlib.suppress(FileNotFoundError):  # another process was quicker
            return Signing(key=signature.private_key(private))
        atomic.sweep(private.parent)
        if public.exists():  # of a key that is gone
            public.rename(public_of(_aside(private, signature.public_key(public))))
        key = signature.make_keys(private, public)
    return Signing(
        key=key,
        notes=(
            f"Made the key {signature.fingerprint(key.public_key())}, which signs what you "
            f"release; give {public} to those who check it.",
        ),
    )


def place() -> Path | None:
    """Where one's own key is: in ``$XDG_CONFIG_HOME``, else in ``$HOME/.config``."""
    shared, home = (Path(os.environ.get(each, "")) for each in ("XDG_CONFIG_HOME", "HOME"))
    folder = shared if shared.is_absolute() else home / ".config"
    return folder / "masquerade" / "signing-key.pem" if folder.is_absolute() else None


def public_of(private: Path) -> Path:
    """Where the public half of a key is."""
    return private.with_suffix(".pub.pem")


def is_own(key_sha256: str) -> bool:
    """Whether a key is one's own: the one that signs now, or one that was moved aside."""
    named, private = os.environ.get(VARIABLE), place()
    if named:
        return signature.fingerprint(load(Path(named)).public_key()) == key_sha256
    if private is None or not private.parent.is_dir():
        return False
    check_folder(private.parent)
    known = private.parent.glob(f"{private.stem}*.pub.pem")
    return key_sha256 in {signature.fingerprint(signature.public_key(each)) for each in known}


def rotate(private: Path) -> Path:
    """Move a key aside, both halves; where the public one is now."""
    if not os.path.lexists(private):
        raise BadInput(
            f"Expected a key to move aside at {private}; there is none. Make one without --rotate."
        )
    with atomic.alone(private):
        key = load(private)
        aside = _aside(private, key.public_key())
        signature.write_public(key, public_of(aside))
        private.rename(aside)
        public_of(private).unlink(missing_ok=True)
    return public_of(aside)


def load(path: Path) -> Ed25519PrivateKey:
    """A key that somebody named."""
    try:
        return signature.private_key(path)
    except FileNotFoundError as error:
        raise BadInput(f"Expected a key at {path}; there is none.") from error


def _aside(private: Path, key: Ed25519PublicKey) -> Path:
    return private.with_stem(f"{private.stem}.{signature.fingerprint(key)[:16]}")


def _unsigned(why: str) -> Signing:
    said = f"NOT SIGNED: {why}. Anyone could have written the receipt; once there is a key, sign "
    return Signing(notes=(f"{said}it with: masquerade receipt sign",))


def _check_halves(key: Ed25519PrivateKey, public: Path) -> None:
    """Readers get the half of the key that signs, and of no other."""
    with contextlib.suppress(BadInput):
        if signature.public_key(public) == key.public_key():
            return
    raise BadInput(
        f"Expected the public half of your key at {public}, got another one; move it away, and the "
        "next release writes it anew."
    )


def check_folder(folder: Path) -> None:
    """Nobody else can put a key into it."""
    held = folder.lstat()
    is_own = stat.S_ISDIR(held.st_mode) and held.st_uid == os.geteuid()
    if not is_own or held.st_mode & 0o022:
        raise BadInput(
            f"Expected a folder of your own for your key, no link, that nobody else can write, got "
            f"{folder}; chmod 700 it, or name a key by {VARIABLE}."
        )
