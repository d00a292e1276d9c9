"""Run a recipe: the demo, the papers' experiments, the docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from masquerade import catalog


class _Recipes(Mapping[str, Any]):
    """The recipes by name; each is imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        return type(catalog.example("recipes", name))

    def __iter__(self) -> Iterator[str]:
        return iter(catalog.names("recipes"))

    def __len__(self) -> int:
        return len(catalog.names("recipes"))


COMMANDS = _Recipes()
