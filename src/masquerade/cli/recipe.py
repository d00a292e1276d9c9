"""Run a recipe: the demo, the papers' experiments, the docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from masquerade import _check, catalog

_HOMES = ("recipes", "recipes.stage")


class _Recipes(Mapping[str, Any]):
    """The recipes by name; each is imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        for home in _HOMES:
            if name in catalog.names(home):
                return catalog.load_class(home, name)
        raise ValueError(_check.unknown("recipes entry", name, self))

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(name for home in _HOMES for name in catalog.names(home)))

    def __len__(self) -> int:
        return sum(len(catalog.names(home)) for home in _HOMES)


COMMANDS = _Recipes()
"""The papers' experiments, and the demo, as functions that put doors and rooms together."""
SUMMARIES = {
    name: catalog.summary(home, name)
    for name, home in sorted((name, home) for home in _HOMES for name in catalog.names(home))
}
