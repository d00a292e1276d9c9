"""The file is the registry: find entries by their files, without importing them.

A file of a room that assigns ``EXAMPLE`` at its top level is an entry; its name is the file's. So
is a folder whose ``__init__.py`` does. Adding a mechanism, a method, an attack or a data set is one
new file and no other edit.

Example:
    >>> "gaussian_noise" in names("mechanisms")
    True
    >>> type(example("mechanisms", "gaussian_noise")).__name__
    'GaussianNoise'
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from masquerade import _check

_ROOT = Path(__file__).parent
_KINDS = {
    "mechanisms": "mechanism",
    "accounting.published": "paper",
    "datasets": "data set",
    "networks": "network",
    "training": "method",
    "attacks": "attack",
}
_HOMES = {"mechanisms": ("mechanisms", "avatars", "places")}


@cache
def names(room: str) -> tuple[str, ...]:
    """The entries of a room ("mechanisms", "accounting.published", ...), in alphabetical order."""
    if not _ROOT.joinpath(*room.split(".")).is_dir():
        raise ValueError(f"Expected a room of masquerade, got room={room!r}.")
    folders = [_ROOT.joinpath(*home.split(".")) for home in _HOMES.get(room, (room,))]
    found = [path.stem for folder in folders for path in folder.glob("*.py") if _is_entry(path)]
    found += [
        path.parent.name
        for folder in folders
        for path in folder.glob("*/__init__.py")
        if _is_entry(path)
    ]
    return tuple(sorted(found))


def module_of(room: str, name: str) -> str:
    """The module of an entry, or of another file of its room."""
    homes = _HOMES.get(room, (room,))
    found = (home for home in homes if _ROOT.joinpath(*home.split("."), f"{name}.py").is_file())
    return f"masquerade.{next(found, room)}.{name}"


def example(room: str, name: str) -> Any:
    """The ``EXAMPLE`` of an entry: the smallest sensible instance.

    Raises:
        ValueError: if there is no such entry; the message lists those there are.
    """
    if name not in names(room):
        raise ValueError(_check.unknown(kind_of(room), name, names(room)))
    return import_module(module_of(room, name)).EXAMPLE


def kind_of(room: str) -> str:
    """What an entry of a room is called.

    Example:
        >>> kind_of("mechanisms")
        'mechanism'
    """
    return _KINDS.get(room, f"{room} entry")


def is_a(room: str, name: str, base: str) -> bool:
    """Whether an entry's file defines a class on ``base``, without importing it.

    It may be on ``base`` by way of other classes, in the same file or in others of its room.

    Example:
        >>> is_a("mechanisms", "gaussian_noise", "Heuristic")
        False
        >>> is_a("mechanisms", "alf", "Heuristic")  # which is a Redrawn, which is one
        True
    """
    waiting = [(name, own) for own in _parents(room, name)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        file, own = waiting.pop()
        if (file, own) in seen:
            continue
        seen.add((file, own))
        parents = _parents(room, file).get(own, [])
        if base in parents:
            return True
        elsewhere = _taken(room, file)
        waiting += [elsewhere.get(parent, (file, parent)) for parent in parents]
    return False


def name_of(entry: object) -> str:
    """The name of an entry's instance: its file's, or its folder's."""
    return type(entry).__module__.rpartition(".")[2]


def summary(room: str, name: str) -> str:
    """The first line of an entry's file, without importing it.

    Example:
        >>> summary("mechanisms", "blur")
        'Gaussian blur of frames, whole or inside given masks.'
    """
    return _read(_path(room, name)).summary


def assigned(tree: ast.Module) -> set[str]:
    """The names that a file assigns at its top level."""
    found: list[ast.expr] = []
    for node in tree.body:
        found += node.targets if isinstance(node, ast.Assign) else []
        found += [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in found if isinstance(target, ast.Name)}


def _is_entry(path: Path) -> bool:
    if "\nEXAMPLE" not in path.read_text(encoding="utf-8"):  # most files, which need no parsing
        return False
    return "EXAMPLE" in _read(path).assigned


def _parents(room: str, file: str) -> dict[str, list[str]]:
    """The classes of a room's file, and the names that each is built on."""
    return _read(_path(room, file)).parents


def _taken(room: str, file: str) -> dict[str, tuple[str, str]]:
    """What a file takes from others of its room: its name here, their file and its name there."""
    home = f"masquerade.{room}."
    return {
        name: (module.removeprefix(home), there)
        for name, (module, there) in _read(_path(room, file)).imported.items()
        if module.startswith(home)
    }


def _path(room: str, file: str) -> Path:
    path = _ROOT.joinpath(*module_of(room, file).split(".")[1:])
    alone = path.with_suffix(".py")
    return alone if alone.is_file() else path / "__init__.py"


@dataclass(frozen=True, kw_only=True)
class _File:
    """What is asked of a file: its first line, and its top level's names, classes and imports."""

    summary: str
    assigned: set[str]
    parents: dict[str, list[str]]
    imported: dict[str, tuple[str, str]]


@cache
def _read(path: Path) -> _File:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return _File(
        summary=(ast.get_docstring(tree) or "").partition("\n")[0],
        assigned=assigned(tree),
        parents={
            node.name: [parent.id for parent in node.bases if isinstance(parent, ast.Name)]
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        },
        imported={
            one.asname or one.name: (node.module, one.name)
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module
            for one in node.names
        },
    )
