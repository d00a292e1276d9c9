"""Checks of what callers give: rule, value, remedy. They are always on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, NoReturn, TypeVar

from masquerade._optional import lazy_module

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy_module("numpy")


Choice = TypeVar("Choice", bound=StrEnum)


def _raise_bad_value(rule: str, name: str, value: object, remedy: str = "") -> NoReturn:
    raise ValueError(
        f"Expected {name} to be {rule}, got {name}={value!r}.{remedy and ' ' + remedy}"
    )


def _is_number(value: object) -> bool:
    if isinstance(value, int | float):
        return not isinstance(value, bool)
    return isinstance(value, np.integer | np.floating)


def _check_numbers(rule: str, is_right: Callable[[float], bool], named: dict[str, float]) -> None:
    for name, value in named.items():
        if not _is_number(value) or not math.isfinite(value) or not is_right(value):
            _raise_bad_value(rule, name, value)


def finite(**named: float) -> None:
    """Refuse values that are not finite numbers."""
    _check_numbers("a finite number", math.isfinite, named)


def positive(**named: float) -> None:
    """Refuse values that are not finite and > 0."""
    _check_numbers("finite and > 0", lambda value: value > 0, named)


def not_negative(**named: float) -> None:
    """Refuse values that are not finite and >= 0."""
    _check_numbers("finite and >= 0", lambda value: value >= 0, named)


def count(**named: int) -> None:
    """Refuse values that are not whole numbers >= 1."""
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            _raise_bad_value("a whole number >= 1", name, value)


def at_most(limit: float, /, **named: float | None) -> None:
    """Refuse values above ``limit``; beyond it only time and memory would be spent."""
    for name, value in named.items():
        if value is not None and value > limit:
            _raise_bad_value(f"at most {limit:g}", name, value)


def at_least(limit: float, because: str, /, **named: float) -> None:
    """Refuse values below ``limit``, and say why."""
    for name, value in named.items():
        if value < limit:
            _raise_bad_value(f"at least {limit:g}", name, value, because)


def probability(**named: float) -> None:
    """Refuse values outside (0, 1]."""
    _check_numbers("a probability in (0, 1]", lambda value: 0 < value <= 1, named)


def delta(**named: float) -> None:
    """Refuse values outside (0, 1); a delta of 1 promises nothing."""
    for name, value in named.items():
        if not _is_number(value) or not 0 < value < 1:
            _raise_bad_value(
                "strictly between 0 and 1",
                name,
                value,
                "Choose it well below one over the number of people, for example 1e-5.",
            )


def parse_choice(kind: type[Choice], /, **named: object) -> Choice:
    """Return the member of ``kind`` that the one named value spells, or list the choices.

    Example:
        >>> from masquerade.guarantee import Relation
        >>> parse_choice(Relation, relation="zero_out")
        <Relation.ZERO_OUT: 'zero_out'>
    """
    ((name, value),) = named.items()
    try:
        return kind(str(value))
    except ValueError:
        raise ValueError(describe_unknown(name, value, [member.value for member in kind])) from None


def describe_unknown(what: str, value: object, choices: Iterable[str]) -> str:
    """Message for a name that is not among the choices.

    Example:
        >>> describe_unknown("mechanism", "gausian", ["blur", "gaussian"])
        "Unknown mechanism 'gausian' (did you mean gaussian?); choose from blur, gaussian."
    """
    names = list(choices)
    close = get_close_matches(str(value), names, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    listed = ", ".join(names) or "nothing yet: there are no entries"
    return f"Unknown {what} {value!r}{hint}; choose from {listed}."


def shape(letters: str, /, **named: np.ndarray) -> None:
    """Refuse arrays whose axes do not match ``letters``; a digit fixes an axis, ``_`` is free.

    Axes with the same letter must agree across all named arrays.

    Example:
        >>> shape("T C", values=np.zeros((5, 3)))
    """
    wanted = letters.split()
    sizes: dict[str, int] = {}
    for name, array in named.items():
        if array.ndim != len(wanted):
            _raise_bad_value(
                f"an array with axes ({', '.join(wanted)})", f"{name}.shape", array.shape
            )
        for letter, size in zip(wanted, array.shape, strict=True):
            known = int(letter) if letter.isdigit() else sizes.setdefault(letter, size)
            if letter != "_" and size != known:
                rule = f"({', '.join(wanted)}) with {letter}={known}"
                _raise_bad_value(rule, f"{name}.shape", array.shape)
