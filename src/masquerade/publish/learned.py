"""A private list beside a model of what it learned from, so that nobody tests it on the same.

It holds hashes under a salt of their own, is its owner's alone and stays where the model was made:
it tells whoever has a recording whether the model learned from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from masquerade.collection import Collection
from masquerade.errors import BadInput
from masquerade.io import atomic
from masquerade.ledger.content import Content
from masquerade.receipt import Receipt, Release
from masquerade.training.method import FIRST_WEIGHTS

if TYPE_CHECKING:
    from masquerade.publish.models import FirstWeights


TRAINING_LIST_SUFFIX = ".private-learned"


def training_list_path(model: Path) -> Path:
    """Where the list stands.

    Example:
        >>> training_list_path(Path("a.safetensors")).name
        'a.safetensors.private-learned'
    """
    return model.with_name(model.name + TRAINING_LIST_SUFFIX)


def write_training_list(
    model: Release[Path],
    contents: Iterable[Content],
    collection: Collection[Any],
    *,
    first: FirstWeights | None = None,
) -> Release[Path]:
    """Write the list of a model's recordings; the model, with a note if that could not be.

    There is none where they are of people who never lived, or where nobody knows what the first
    weights have learned from.

    Args:
        model: that has learned and stands.
        contents: of its recordings.
        collection: of them.
        first: the weights that it began with; their list is part of this one.
    """
    path, before = training_list_path(model.value), _read_training_lists(first)
    if collection.ABOUT.is_made_up or before is None:
        path.unlink(missing_ok=True)
        return model
    salt = secrets.token_hex(16)
    hashes = sorted({_hash_content(content, salt) for content in contents})
    lists = [{"salt": salt, "learned": hashes}, *before]
    said = {"format": 1, "model": model.receipt.output_sha256, "lists": lists}
    try:
        atomic.write_whole(path, json.dumps(said).encode(), is_private=True)
    except OSError as error:
        note = f"{path} could not be written ({error.strerror}): the model is tested with --private"
        return replace(model, signing_notes=(*model.signing_notes, f"{note} alone."))
    return model


def _read_training_lists(first: FirstWeights | None) -> list[dict[str, Any]] | None:
    """What first weights have learned from; None where nobody knows."""
    if first is None or first.path is None or first.origin not in ("protected", "unprotected"):
        return []
    said = None
    with contextlib.suppress(BadInput):  # one that cannot be read is none
        said = _read_training_list(first.path)
    if said is None or said["model"] != first.marks[FIRST_WEIGHTS]["sha256"]:
        return None
    found: list[dict[str, Any]] = said["lists"]
    return found


def count_learned(model: Path, receipt: Receipt, contents: Iterable[Content]) -> int | None:
    """How many of these a model learned from; None where it has no list, or that of another one."""
    if not training_list_path(model).is_file():
        return None
    said = _read_training_list(model)
    if said["model"] != receipt.output_sha256:
        return None
    lists = [(each["salt"], set(each["learned"])) for each in said["lists"]]
    return sum(any(_hash_content(one, salt) in known for salt, known in lists) for one in contents)


def _hash_content(content: Content, salt: str) -> str:
    return hmac.digest(bytes.fromhex(salt), content.fingerprint, hashlib.sha256).hex()


def _read_training_list(model: Path) -> dict[str, Any]:
    path = training_list_path(model)
    try:
        said = json.loads(path.read_bytes())
        if said["format"] != 1:
            raise ValueError(f"format {said['format']}")
        lists = [
            {"salt": str(each["salt"]), "learned": list(map(str, each["learned"]))}
            for each in said["lists"]
        ]
        return {"model": str(said["model"]), "lists": lists}
    except (ValueError, TypeError, LookupError, OSError) as error:
        raise BadInput(
            f"Expected a private list of recordings at {path}; it cannot be read ({error}). "
            "Restore it, or remove it: then the model is tested with --private alone."
        ) from error
