"""The entries of each package, listed in one light table: ``ENTRIES`` in its ``__init__.py``.

A line of it names a mechanism, a method, an attack or a data set, with its class, a sentence, and
the fields of the smallest sensible instance. Adding one is a class and a line.

Example:
    >>> "gaussian_noise" in list_entries("mechanisms")
    True
    >>> type(make_example("mechanisms", "gaussian_noise")).__name__
    'GaussianNoise'
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from masquerade import _check

_ENTRY_NOUNS = {
    "mechanisms": "mechanism",
    "accounting.published": "paper",
    "datasets": "data set",
    "networks": "network",
    "training": "method",
    "attacks": "attack",
}
_PACKAGES = (*_ENTRY_NOUNS, "audits")


class CatalogEntry(NamedTuple):
    """One line of a package's table.

    Args:
        home: the module below masquerade and the class in it, as ``package.file:Class``.
        summary: what it is, in a sentence.
        fields: what its smallest sensible instance is made with.
        has_proof: whether a mechanism is no heuristic.
    """

    home: str
    summary: str
    fields: Mapping[str, Any] = {}
    has_proof: bool = True


@cache
def list_entries(package: str) -> tuple[str, ...]:
    """The entries of a package ("mechanisms", "training", ...), in alphabetical order."""
    try:
        return tuple(sorted(import_module(f"masquerade.{package}").ENTRIES))
    except ModuleNotFoundError:
        raise ValueError(
            f"Expected a package of masquerade with entries, got {package!r}."
        ) from None


def find_entry(package: str, name: str) -> CatalogEntry:
    """A line of a package's table.

    Raises:
        ValueError: if there is no such entry; the message lists those there are.
    """
    if name not in list_entries(package):
        raise ValueError(
            _check.describe_unknown(find_entry_noun(package), name, list_entries(package))
        )
    found: CatalogEntry = import_module(f"masquerade.{package}").ENTRIES[name]
    return found


def load_class(package: str, name: str) -> type[Any]:
    """The class of an entry.

    Example:
        >>> load_class("mechanisms", "blur").__name__
        'Blur'
    """
    file, _, own = find_entry(package, name).home.partition(":")
    found: type[Any] = getattr(import_module(f"masquerade.{file}"), own)
    return found


def make_example(package: str, name: str) -> Any:
    """The smallest sensible instance of an entry."""
    return load_class(package, name)(**find_entry(package, name).fields)


def find_entry_noun(package: str) -> str:
    """What an entry of a package is called.

    Example:
        >>> find_entry_noun("mechanisms")
        'mechanism'
    """
    return _ENTRY_NOUNS.get(package, f"{package} entry")


def is_a(package: str, name: str, base: str) -> bool:
    """Whether an entry's class is built on one of that name.

    Example:
        >>> is_a("mechanisms", "blur", "Heuristic")
        True
    """
    return any(each.__name__ == base for each in load_class(package, name).__mro__)


def find_entry_name(entry: object) -> str:
    """The name of an entry's instance; of a class that no table lists, its file's."""
    return _class_name(type(entry).__module__, type(entry).__qualname__)


@cache
def _class_name(module: str, own: str) -> str:
    home = f"{module.removeprefix('masquerade.')}:{own}"
    listed = ((package, name) for package in _PACKAGES for name in list_entries(package))
    found = (name for package, name in listed if find_entry(package, name).home == home)
    return next(found, module.rpartition(".")[2])


def find_summary(package: str, name: str) -> str:
    """What an entry is, in a sentence.

    Example:
        >>> find_summary("mechanisms", "blur")
        'Gaussian blur of frames, whole or inside given masks.'
    """
    return find_entry(package, name).summary
