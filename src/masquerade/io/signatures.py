"""Signatures of whole files, and the key that signs whatever its owner releases.

The key that signs whatever its owner releases: made on first use, in the configuration folder.

Without a place for it a release is not signed, and says so; a key that is there and cannot be
trusted is refused.

Ed25519 signatures of whole files, in a file beside; keys are PEM files, as OpenSSL has them.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from masquerade.errors import BadInput
from masquerade.io import atomic
from masquerade.receipt import refuse_duplicate_keys

SUFFIX = ".sig"
_MAX_KEY_BYTES = 1 << 16  # of a key
_PEM = serialization.Encoding.PEM
_SPKI = serialization.PublicFormat.SubjectPublicKeyInfo


@dataclass(frozen=True, kw_only=True)
class Signature:
    """Who signed a file, as far as it is known.

    Args:
        key_sha256: fingerprint of the key.
        is_verified: whether that key signed these very bytes; older signatures hold no key to try.
        is_pinned: whether the reader named the key; anyone can make another.
    """

    key_sha256: str
    is_verified: bool
    is_pinned: bool


def make_keys(private: Path, public: Path) -> Ed25519PrivateKey:
    """Write a new pair of keys, the private one for its owner alone.

    Raises:
        FileExistsError: if one stands there, or another process was quicker.
    """
    for path in (private, public):
        if path.exists():
            raise FileExistsError(f"{path} stands already; a key is never replaced.")
    key = Ed25519PrivateKey.generate()
    plain = serialization.NoEncryption()
    with atomic.open_unfinished(private, is_private=True, replaces=False) as part:
        part.stream.write(key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, plain))
        part.seal_file()
        part.move_into_place()
    write_public(key, public)
    return key


def write_public(key: Ed25519PrivateKey, public: Path) -> None:
    """Write the public half, to hand out."""
    atomic.write_whole(public, key.public_key().public_bytes(_PEM, _SPKI))


def sign_bytes(data: bytes, key: Ed25519PrivateKey) -> bytes:
    """The content of a signature's file, with the public key in it."""
    public = key.public_key()
    held = {
        "format": 1,
        "algorithm": "Ed25519",
        "key_sha256": fingerprint_key(public),
        "public_key": public.public_bytes(_PEM, _SPKI).decode(),
        "signature": base64.b64encode(key.sign(data)).decode(),
    }
    return (json.dumps(held, indent=2) + "\n").encode()


def check_signature(path: Path, data: bytes, *, signers: Iterable[Path] = ()) -> Signature | None:
    """Who signed a file that was read; None if nobody did.

    Args:
        path: the file; its signature stands beside it.
        data: what was read from it.
        signers: public keys that the reader trusts.

    Raises:
        BadInput: if a signature is of other bytes or of another key than it says.
    """
    pinned = {fingerprint_key(key): key for key in map(read_public_key, signers)}
    place = signature_path(path)
    held = _read_signature(place)
    if held is None:
        return None
    name = held["key_sha256"]
    key = pinned.get(name) or (
        _load_public_key(held["public_key"], place) if "public_key" in held else None
    )
    if key is not None:
        try:
            if fingerprint_key(key) != name:
                raise ValueError("it holds another key than it says")
            key.verify(base64.b64decode(held["signature"], validate=True), data)
        except (InvalidSignature, ValueError) as error:
            raise BadInput(
                f"Expected {path.name} as it was signed; it or its signature was changed. Get both "
                "anew from whoever published them."
            ) from error
    return Signature(key_sha256=name, is_verified=key is not None, is_pinned=name in pinned)


def _read_signature(place: Path) -> dict[str, str] | None:
    """What a signature's file says, as text; None where there is none."""
    try:
        text = place.read_text(encoding="utf-8")
        said: dict[str, Any] = json.loads(text, object_pairs_hook=refuse_duplicate_keys)
        if (said["format"], said["algorithm"]) != (1, "Ed25519"):
            raise ValueError(said["format"])
        wanted = ("key_sha256", "signature", *(["public_key"] if "public_key" in said else []))
        if not re.fullmatch("[0-9a-f]{64}", said["key_sha256"]):
            raise ValueError(said["key_sha256"])
        return {key: str(said[key]) for key in wanted}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise BadInput(f"Expected a signature of ours at {place}; it cannot be read.") from error


def signature_path(path: Path) -> Path:
    """Where the signature of a file stands."""
    return path.with_name(path.name + SUFFIX)


def fingerprint_key(key: Ed25519PublicKey) -> str:
    """SHA-256 of the public key as it stands in a .pem (its DER)."""
    return hashlib.sha256(key.public_bytes(serialization.Encoding.DER, _SPKI)).hexdigest()


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """A key to sign with: a file of its owner's alone, and no link to another.

    Raises:
        FileNotFoundError: if there is none.
        BadInput: if it cannot be used; the message says what to do.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BadInput(
            f"Expected a private key that can be read at {path}, no link, got: {error.strerror}. "
            "Name the file itself, or move it away."
        ) from None
    try:
        held = os.fstat(descriptor)
        if not stat.S_ISREG(held.st_mode) or held.st_uid != os.geteuid():
            raise BadInput(
                f"Expected a private key in a file of your own, got {path}; name another, or move "
                "it away and make one with: masquerade receipt keygen"
            )
        data = os.read(descriptor, _MAX_KEY_BYTES)
        if b"PUBLIC KEY" in data:
            raise BadInput(
                f"Expected a private key at {path}, got a public one; name the private half, the "
                "file without .pub in its name."
            )
        if held.st_mode & 0o077:
            raise BadInput(
                f"Expected a private key that its owner alone can read, got {path}; chmod 600 it."
            )
    finally:
        os.close(descriptor)
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:  # TypeError: has a passphrase
        raise BadInput(
            f"Expected an Ed25519 private key without a passphrase in PEM at {path}; move it away "
            "and make one with: masquerade receipt keygen"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BadInput(f"Expected an Ed25519 key at {path}, got another kind.")
    return key


def read_public_key(path: Path) -> Ed25519PublicKey:
    """A key to check with."""
    if not path.is_file():
        raise BadInput(f"Expected a public key at {path}; there is none.")
    return _load_public_key(path.read_bytes(), path)


def _load_public_key(pem: bytes | str, path: Path) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(pem.encode() if isinstance(pem, str) else pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadInput(
            f"Expected a public key in PEM at {path}; it cannot be one. Get it anew, or move it "
            "away."
        ) from error
    if not isinstance(key, Ed25519PublicKey):
        raise BadInput(f"Expected an Ed25519 key at {path}, got another kind.")
    return key


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
        return None if self.key is None else fingerprint_key(self.key.public_key())


def find_signing() -> Signing:
    """The key of ``$MASQUERADE_SIGNING_KEY`` (empty: none), or else one's own, made if need be.

    Raises:
        BadInput: if there is a key that cannot be used.
    """
    named = os.environ.get(VARIABLE)
    if named == "":
        return _make_unsigned(f"{VARIABLE} is empty")
    if named is not None:
        return Signing(key=load_named_key(Path(named)))
    private = find_own_key_path()
    if private is None:
        return _make_unsigned("there is no home folder to keep a key in")
    try:
        return _open_own_key(private)
    except OSError as error:
        cause: Any = error
    except BadInput as error:
        if not isinstance(error.__cause__, OSError):  # else a lock could not be held there
            raise
        cause = error.__cause__
    return _make_unsigned(f"no key can be kept in {private.parent} ({cause.strerror})")


def _open_own_key(private: Path) -> Signing:
    """The key that is there, or a new one."""
    public = public_key_path(private)
    with contextlib.suppress(FileNotFoundError):
        check_key_folder(private.parent)
        key = read_private_key(private)
        if public.exists():
            _check_halves(key, public)
        else:  # a crash came before it
            with contextlib.suppress(OSError):
                write_public(key, public)
        return Signing(key=key)
    private.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_key_folder(private.parent)
    with atomic.lock_target(private):
        with contextlib.suppress(FileNotFoundError):  # another process was quicker
            return Signing(key=read_private_key(private))
        atomic.remove_dead_files(private.parent)
        if public.exists():  # of a key that is gone
            public.rename(public_key_path(_aside_path(private, read_public_key(public))))
        key = make_keys(private, public)
    return Signing(
        key=key,
        notes=(
            f"Made the key {fingerprint_key(key.public_key())}, which signs what you "
            f"release; give {public} to those who check it.",
        ),
    )


def find_own_key_path() -> Path | None:
    """Where one's own key is: in ``$XDG_CONFIG_HOME``, else in ``$HOME/.config``."""
    shared, home = (Path(os.environ.get(each, "")) for each in ("XDG_CONFIG_HOME", "HOME"))
    folder = shared if shared.is_absolute() else home / ".config"
    return folder / "masquerade" / "signing-key.pem" if folder.is_absolute() else None


def public_key_path(private: Path) -> Path:
    """Where the public half of a key is."""
    return private.with_suffix(".pub.pem")


def is_own_key(key_sha256: str) -> bool:
    """Whether a key is one's own: the one that signs now, or one that was moved aside."""
    named, private = os.environ.get(VARIABLE), find_own_key_path()
    if named:
        return fingerprint_key(load_named_key(Path(named)).public_key()) == key_sha256
    if private is None or not private.parent.is_dir():
        return False
    check_key_folder(private.parent)
    known = private.parent.glob(f"{private.stem}*.pub.pem")
    return key_sha256 in {fingerprint_key(read_public_key(each)) for each in known}


def rotate_key(private: Path) -> Path:
    """Move a key aside, both halves; where the public one is now."""
    if not os.path.lexists(private):
        raise BadInput(
            f"Expected a key to move aside at {private}; there is none. Make one without --rotate."
        )
    with atomic.lock_target(private):
        key = load_named_key(private)
        aside = _aside_path(private, key.public_key())
        write_public(key, public_key_path(aside))
        private.rename(aside)
        public_key_path(private).unlink(missing_ok=True)
    return public_key_path(aside)


def load_named_key(path: Path) -> Ed25519PrivateKey:
    """A key that somebody named."""
    try:
        return read_private_key(path)
    except FileNotFoundError as error:
        raise BadInput(f"Expected a key at {path}; there is none.") from error


def _aside_path(private: Path, key: Ed25519PublicKey) -> Path:
    return private.with_stem(f"{private.stem}.{fingerprint_key(key)[:16]}")


def _make_unsigned(why: str) -> Signing:
    said = f"NOT SIGNED: {why}. Anyone could have written the receipt; once there is a key, sign "
    return Signing(notes=(f"{said}it with: masquerade receipt sign",))


def _check_halves(key: Ed25519PrivateKey, public: Path) -> None:
    """Readers get the half of the key that signs, and of no other."""
    with contextlib.suppress(BadInput):
        if read_public_key(public) == key.public_key():
            return
    raise BadInput(
        f"Expected the public half of your key at {public}, got another one; move it away, and the "
        "next release writes it anew."
    )


def check_key_folder(folder: Path) -> None:
    """Nobody else can put a key into it."""
    held = folder.lstat()
    is_own = stat.S_ISDIR(held.st_mode) and held.st_uid == os.geteuid()
    if not is_own or held.st_mode & 0o022:
        raise BadInput(
            f"Expected a folder of your own for your key, no link, that nobody else can write, got "
            f"{folder}; chmod 700 it, or name a key by {VARIABLE}."
        )
