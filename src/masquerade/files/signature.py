"""Ed25519 signatures of whole files, in a file beside; keys are PEM files, as OpenSSL has them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from masquerade.errors import BadInput
from masquerade.files import atomic

SUFFIX = ".sig"
_PEM = serialization.Encoding.PEM
_SPKI = serialization.PublicFormat.SubjectPublicKeyInfo


def make_keys(private: Path, public: Path) -> str:
    """Write a new pair of keys, the private one for its owner alone; give the fingerprint."""
    for path in (private, public):
        if path.exists():
            raise FileExistsError(f"{path} stands already; a key is never replaced.")
    key = Ed25519PrivateKey.generate()
    plain = serialization.NoEncryption()
    secret = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, plain)
    atomic.write_whole(private, secret, is_private=True)
    atomic.write_whole(public, key.public_key().public_bytes(_PEM, _SPKI))
    return fingerprint(key.public_key())


def sign(path: Path, private: Path) -> str:
    """Sign a file; the signature stands beside it. Give the fingerprint of the key."""
    key = _private_key(private)
    data = {
        "format": 1,
        "algorithm": "Ed25519",
        "key_sha256": fingerprint(key.public_key()),
        "signature": base64.b64encode(key.sign(path.read_bytes())).decode(),
    }
    text = json.dumps(data, indent=2) + "\n"
    atomic.write_whole(beside(path), text.encode())
    return str(data["key_sha256"])


def verify(path: Path, public: Path) -> str:
    """The fingerprint of the key, if it has signed this very file.

    Raises:
        BadInput: if there is no signature, it is of another key, or the file was changed since.
    """
    key = _public_key(public)
    said = read(path)
    if said is None:
        raise BadInput(
            f"Expected a signature at {beside(path)}; there is none. Whoever made {path.name} can "
            "sign it."
        )
    if said["key_sha256"] != fingerprint(key):
        raise BadInput(
            f"Expected a signature of the key {fingerprint(key)}, got one of {said['key_sha256']}."
        )
    try:
        key.verify(base64.b64decode(said["signature"], validate=True), path.read_bytes())
    except (InvalidSignature, binascii.Error) as error:
        raise BadInput(
            f"Expected {path.name} as it was signed; it or its signature was changed."
        ) from error
    return fingerprint(key)


def read(path: Path) -> dict[str, Any] | None:
    """What the signature beside a file says, not verified; None where there is none."""
    place = beside(path)
    if not place.is_file():
        return None
    try:
        said: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
        if (said["format"], said["algorithm"]) != (1, "Ed25519"):
            raise ValueError(said["format"])
        return {key: str(said[key]) for key in ("key_sha256", "signature")}
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"Expected a signature of ours at {place}; it cannot be read.") from error


def beside(path: Path) -> Path:
    """Where the signature of a file stands."""
    return path.with_name(path.name + SUFFIX)


def fingerprint(key: Ed25519PublicKey) -> str:
    """SHA-256 of the public key as it stands in a .pem (its DER)."""
    return hashlib.sha256(key.public_bytes(serialization.Encoding.DER, _SPKI)).hexdigest()


def _private_key(path: Path) -> Ed25519PrivateKey:
    data = _bytes(path)
    if path.stat().st_mode & 0o077:
        raise BadInput(
            f"Expected a private key that its owner alone can read, got {path}; chmod 600 it."
        )
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError) as error:  # TypeError: it has a passphrase
        raise BadInput(
            f"Expected an Ed25519 private key without a passphrase in PEM at {path}; make "
            "one with: masquerade receipt keygen"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BadInput(f"Expected an Ed25519 key at {path}, got another kind.")
    return key


def _public_key(path: Path) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(_bytes(path))
    except ValueError as error:
        raise BadInput(f"Expected a public key in PEM at {path}; it cannot be one.") from error
    if not isinstance(key, Ed25519PublicKey):
        raise BadInput(f"Expected an Ed25519 key at {path}, got another kind.")
    return key


def _bytes(path: Path) -> bytes:
    if not path.is_file():
        raise BadInput(f"Expected a key at {path}; there is none.")
    return path.read_bytes()
