"""Several runs of one method with different fields: every one of them is paid for."""

from __future__ import annotations

import dataclasses
import itertools
import math
import typing
from pathlib import Path
from typing import Any

from masquerade import _check
from masquerade.training.method import Method

_MOST = 64
# one promise for all runs
_FIXED = ("unit", "relation", "delta", "class_weights", "private", "form")


def methods_of(method: Method, grid: str) -> list[tuple[dict[str, Any], Method]]:
    """Every combination of a grid's values: what is set, and the method with it.

    Args:
        method: with all other fields.
        grid: such as "learning_rate=0.1,0.5 clip_norm=0.5,1".

    Example:
        >>> from masquerade.training.dp_sgd import DpSgd
        >>> [chosen for chosen, _ in methods_of(DpSgd(epsilon=8.0, unit="video"), "batch=8,16")]
        [{'batch': 8}, {'batch': 16}]
    """
    axes = dict(_axis(method, part) for part in grid.split())
    if not axes or len(axes) < len(grid.split()):
        raise ValueError(f"Expected different fields in --grid, got {grid!r}.")
    if math.prod(map(len, axes.values())) > _MOST:
        raise ValueError(f"Expected at most {_MOST} runs in --grid; every one is paid for.")
    found = []
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        found.append((chosen, dataclasses.replace(method, **chosen)))
    return found


def target_of(target: Path, number: int) -> Path:
    """Where the model of a run goes.

    Example:
        >>> target_of(Path("m.safetensors"), 2).name
        'm-2.safetensors'
    """
    return target.with_name(f"{target.stem}-{number}{target.suffix}")


def _axis(method: Method, part: str) -> tuple[str, list[Any]]:
    name, equals, values = part.partition("=")
    hints = typing.get_type_hints(type(method))
    known = [f.name for f in dataclasses.fields(method) if f.name not in _FIXED]
    if name not in known:
        raise ValueError(_check.unknown("field in --grid", name, known))
    kind = hints[name] if hints[name] in (int, float) else str
    try:
        found = [kind(value) for value in values.split(",")]
    except ValueError as error:
        raise ValueError(f"Expected {name}=VALUE,VALUE in --grid, got {part!r}.") from error
    if not equals or len(set(found)) < len(found):
        raise ValueError(f"Expected different values in --grid, got {part!r}.")
    return name, found
