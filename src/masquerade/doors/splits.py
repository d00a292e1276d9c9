"""Which part of a data set of videos a command means."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from masquerade.collection import Collection, Kind
from masquerade.data.folder import Folder
from masquerade.errors import BadInput


def split_of(collection: Collection[Any], wanted: str) -> Collection[Any]:
    """The part of a data set that is meant, unless its own flag names another one.

    Raises:
        BadInput: if it holds no videos.
    """
    if getattr(collection, "kind", collection.ABOUT.kind) != Kind.VIDEOS:
        raise BadInput(f"Expected a data set of videos, got {collection.ABOUT.title}.")
    usual = type(collection).__dataclass_fields__.get("split")  # type: ignore[attr-defined]
    is_chosen = usual is None or getattr(collection, "split", None) != usual.default
    if is_chosen or (isinstance(collection, Folder) and not collection.has_splits):
        return collection
    return replace(collection, split=wanted)  # type: ignore[type-var]
