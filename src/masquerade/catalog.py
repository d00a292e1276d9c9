"""The file is the registry: find entries by their files, without importing them.

A file of a room that assigns ``EXAMPLE`` at its top level is an entry; its name is the file's. So
is a folder whose ``__init__.py`` does. Adding a mechanism, a method, an attack or a data set is one
new file and no other edit.

Example:
    >>> "gaussian_noise" in names("release")
    True
    >>> type(example("release", "gaussian_noise")).__name__
    'GaussianNoise'
"""

from __future__ import annotations

import ast
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from masquerade import _check

_ROOT = Path(__file__).parent
_KINDS = {
    "release": "mechanism",
    "account.published": "paper",
    "data": "data set",
    "nets": "network",
    "train": "method",
    "attack": "attack",
}


@cache
def names(room: str) -> tuple[str, ...]:
    """The entries of a room ("release", "account.published", ...), in alphabetical order."""
    folder = _ROOT.joinpath(*room.split("."))
    if not folder.is_dir():
        raise ValueError(f"Expected a room of masquerade, got room={room!r}.")
    found = [path.stem for path in folder.glob("*.py") if _is_entry(path)]
    found += [path.parent.name for path in folder.glob("*/__init__.py") if _is_entry(path)]
    return tuple(sorted(found))


def example(room: str, name: str) -> Any:
    """The ``EXAMPLE`` of an entry: the smallest sensible instance.

    Raises:
        ValueError: if there is no such entry; the message lists those there are.
    """
    if name not in names(room):
        raise ValueError(_check.unknown(kind_of(room), name, names(room)))
    return import_module(f"masquerade.{room}.{name}").EXAMPLE


def kind_of(room: str) -> str:
    """What an entry of a room is called.

    Example:
        >>> kind_of("release")
        'mechanism'
    """
    return _KINDS.get(room, f"{room} entry")


def is_a(room: str, name: str, base: str) -> bool:
    """Whether an entry's file defines a class on ``base``, without importing it.

    It may be on ``base`` by way of other classes, in the same file or in others of its room.

    Example:
        >>> is_a("release", "blur", "Heuristic"), is_a("release", "gaussian_noise", "Heuristic")
        (True, False)
        >>> is_a("release", "alf", "Heuristic")  # which is a Redrawn, which is one
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
        >>> summary("release", "blur")
        'Gaussian blur of frames, whole or inside given masks.'
    """
    path = _ROOT.joinpath(*room.split("."), f"{name}.py")
    tree = _tree(path if path.is_file() else path.with_suffix("") / "__init__.py")
    return (ast.get_docstring(tree) or "").partition("\n")[0]


def assigned(tree: ast.Module) -> set[str]:
    """The names that a file assigns at its top level."""
    found: list[ast.expr] = []
    for node in tree.body:
        found += node.targets if isinstance(node, ast.Assign) else []
        found += [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in found if isinstance(target, ast.Name)}


def _is_entry(path: Path) -> bool:
    return "EXAMPLE" in assigned(_tree(path))


def _parents(room: str, file: str) -> dict[str, list[str]]:
    """The classes of a room's file, and the names that each is built on."""
    return {
        node.name: [parent.id for parent in node.bases if isinstance(parent, ast.Name)]
        for node in _tree(_path(room, file)).body
        if isinstance(node, ast.ClassDef)
    }


def _taken(room: str, file: str) -> dict[str, tuple[str, str]]:
    """What a file takes from others of its room: its name here, their file and its name there."""
    home = f"masquerade.{room}."
    return {
        one.asname or one.name: (node.module.removeprefix(home), one.name)
        for node in _tree(_path(room, file)).body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(home)
        for one in node.names
    }


def _path(room: str, file: str) -> Path:
    path = _ROOT.joinpath(*room.split("."), *file.split("."))
    alone = path.with_suffix(".py")
    return alone if alone.is_file() else path / "__init__.py"


@lru_cache(maxsize=4)  # the files of one question, not of the whole house
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
