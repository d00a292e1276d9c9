"""Nouns to JSON and back: frozen dataclasses, enums, tuples and plain values."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar

import numpy as np

Noun = TypeVar("Noun")


def encode_noun(value: Any) -> Any:
    """Plain JSON values for a noun; arrays are not JSON and are refused."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode_noun(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): encode_noun(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode_noun(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, np.integer | np.floating):
        return value.item()
    raise TypeError(f"Expected plain values, got {type(value).__name__}; arrays travel as files.")


def decode_noun(noun: type[Noun], data: Mapping[str, Any]) -> Noun:
    """Rebuild ``noun`` from JSON values; its own constructor checks them again.

    Unknown and missing keys are errors: a receipt that says more or less than we understand
    must not be read as if it said what we expect.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"Expected a JSON object for {noun.__name__}, got {data!r}.")
    fields, hints = _list_fields(noun)  # type: ignore[arg-type]
    if extra := set(data) - set(fields):
        raise ValueError(f"Unknown keys for {noun.__name__}: {', '.join(sorted(extra))}.")
    required = {
        name
        for name, f in fields.items()
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    if missing := required - set(data):
        raise ValueError(f"Missing keys for {noun.__name__}: {', '.join(sorted(missing))}.")
    return noun(**{name: _decode_hinted(hints[name], item) for name, item in data.items()})


@cache
def _list_fields(noun: type) -> tuple[dict[str, dataclasses.Field[Any]], dict[str, Any]]:
    """A noun's fields and their types, by name."""
    return {f.name: f for f in dataclasses.fields(noun)}, typing.get_type_hints(noun)


def _decode_hinted(hint: Any, data: Any) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if data is None:
            return None
        return _decode_hinted(next(arg for arg in args if arg is not type(None)), data)
    if origin is tuple:
        if not isinstance(data, list | tuple):
            raise ValueError(f"Expected a list, got {data!r:.80}.")
        inner = args[0] if len(args) == 2 and args[1] is Ellipsis else None
        kinds = [inner] * len(data) if inner is not None else args
        return tuple(_decode_hinted(kind, item) for kind, item in zip(kinds, data, strict=True))
    if dataclasses.is_dataclass(hint):
        return decode_noun(typing.cast(type, hint), data)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(data)
    if hint is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    plain = dict if origin is dict else hint
    if plain in (str, int, bool, float, dict) and type(data) is not plain:
        raise ValueError(f"Expected a value of type {plain.__name__}, got {data!r:.80}.")
    return data
