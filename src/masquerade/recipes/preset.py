"""Settings of a recipe by name: what a flag leaves open, the chosen setting fills in.

A recipe has a field ``setting`` and, for each number that a setting decides, a field that is None
until somebody sets it. A setting is a table of these fields, and says in words what its source
leaves open and what was taken there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

Recipe = TypeVar("Recipe")


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Values of a recipe's fields.

    Args:
        values: by field.
        left_open: what the paper does not say, and what is taken, in sentences.
    """

    values: Mapping[str, Any]
    left_open: tuple[str, ...] = field(default_factory=tuple)


def settled(recipe: Recipe, presets: Mapping[str, Preset]) -> Recipe:
    """The recipe with every field that is None as its setting has it."""
    chosen: Any = recipe
    values = presets[chosen.setting].values
    missing = {name: value for name, value in values.items() if getattr(chosen, name) is None}
    if not missing:
        return recipe  # one that checks itself by this very function comes to an end
    found: Recipe = dataclasses.replace(chosen, **missing)
    return found
