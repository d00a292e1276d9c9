"""Opaque names for what is published; a private list tells which is which."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

from masquerade.errors import BadInput
from masquerade.io.atomic import write_whole
from masquerade.receipt import SUFFIX

_OPAQUE = "[0-9a-f]{16}"


def list_path(source: Path, target: Path) -> Path:
    """Where the list stands: beside the private folder, one for each place that is published.

    Two publications with the same names could be paired file by file.
    """
    place = hashlib.sha256(os.fsencode(target)).hexdigest()[:8]
    return source.with_name(f"{source.name}-{target.name}-{place}.names.private.json")


def check_place(book: Path, target: Path) -> None:
    """Refuse a list that would be published, or that cannot be written."""
    if book.resolve().is_relative_to(target):
        raise ValueError(
            f"Expected the list of names outside of {target}, which is published, got {book}."
        )
    if not os.access(book.parent, os.W_OK):
        raise BadInput(
            f"Expected a folder that can be written for the private list of names, got "
            f"{book.parent}; choose a private place with --names FILE."
        )


def refuse_lost(book: Path, target: Path) -> None:
    """Without its list nobody knows what a folder's outputs are of: all would be released again."""
    if book.is_file() or not target.is_dir():
        return
    if any(target.rglob(f"*{SUFFIX}")):
        raise BadInput(
            f"Expected the private list of the names in {target} at {book}; it is not there. Put "
            "it back, or say where it is with --names FILE; with a new FILE the recordings are "
            "released as others. If their names were kept, say --keep-names."
        )


def choose_opaque_names(files: Iterable[str], book: Path) -> dict[str, str]:
    """Random names for these files and all that the list knows; a second run finds its own."""
    kept = _read_name_list(book) if book.is_file() else {}
    for name in files:
        kept.setdefault(name, secrets.token_hex(8))
    return kept


def write_name_list(book: Path, names: dict[str, str]) -> None:
    """Keep the list, for its owner alone."""
    write_whole(book, (json.dumps(names, indent=2) + "\n").encode(), is_private=True)


def _read_name_list(book: Path) -> dict[str, str]:
    try:
        kept = json.loads(book.read_text())
        if all(re.fullmatch(_OPAQUE, name) for name in kept.values()):
            return dict(kept)
    except (ValueError, AttributeError, TypeError):
        pass
    raise BadInput(f"Expected a list of opaque names at {book}; move it away if it is not ours.")
