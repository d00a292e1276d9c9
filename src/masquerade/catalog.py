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
from functools import cache
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
        kind = _KINDS.get(room, f"{room} entry")
        raise ValueError(_check.unknown(kind, name, names(room)))
    return import_module(f"masquerade.{room}.{name}").EXAMPLE


def is_a(room: str, name: str, base: str) -> bool:
    """Whether an entry's file defines a class on ``base``, without importing it.

    Example:
        >>> is_a("release", "blur", "Heuristic"), is_a("release", "gaussian_noise", "Heuristic")
        (True, False)
    """
    path = _ROOT.joinpath(*room.split("."), f"{name}.py")
    tree = _tree(path if path.is_file() else path.with_suffix("") / "__init__.py")
    parents = [one for node in tree.body if isinstance(node, ast.ClassDef) for one in node.bases]
    return any(isinstance(parent, ast.Name) and parent.id == base for parent in parents)


def name_of(entry: object) -> str:
    """The name of an entry's instance: its file's, or its folder's."""
    return type(entry).__module__.rpartition(".")[2]


def summary(room: str, name: str) -> str:
    """The first line of an entry's file, without importing it.

    Example:
        >>> summary("release", "blur")
        'Gaussian blur of whole frames.'
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


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
