"""Flags of a command or an entry: a dataclass's fields, and what its docstring says of them.

Which network a training command means, by its flags and by what the data set holds.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from masquerade._optional import lazy_module

if typing.TYPE_CHECKING:
    from tyro import conf, constructors
else:
    conf, constructors = lazy_module("tyro.conf"), lazy_module("tyro.constructors")


T = TypeVar("T")
Positional = Annotated[T, "given without its name"]
Repeated = Annotated[T, "one each time"]

_TYPE_WORDS = {Path: "PATH", int: "N", float: "X", str: "TEXT", bool: "", types.NoneType: ""}
_DOC_SECTIONS = ("Args:", "Guarantee:", "Example:", "Raises:", "Returns:", "What is not certain:")
# How a field that is given without its name is called.
_PLACEHOLDERS = {"source": "INPUT", "target": "OUTPUT"}


@dataclass(frozen=True, kw_only=True)
class CommandFlag:
    """One field of a command or an entry.

    Args:
        name: under which it is given: the field's, or that with a word in front.
        field: its name in the class.
        hint: its type.
        takes: what is given with it, in a word; empty for a switch.
        usual: its value where it is not given, as one would type it; empty where that is nothing.
        about: what its class says of it.
        is_positional: whether it is given without its name.
        is_needed: whether it has no default.
    """

    name: str
    field: str
    hint: Any
    takes: str
    usual: str
    about: str
    is_positional: bool
    is_needed: bool

    @property
    def option_name(self) -> str:
        """As one types it."""
        return "--" + self.name.replace("_", "-")

    @property
    def opposite_name(self) -> str:
        """As one types the opposite of a switch."""
        return self.option_name.replace("--", "--no-", 1)

    @property
    def placeholder_name(self) -> str:
        """The word for it where it is given without its name."""
        return _PLACEHOLDERS.get(self.name, self.name.upper())

    @property
    def is_repeated(self) -> bool:
        """Whether it is given once for each of its values."""
        return _is_marked(self.hint, Repeated)

    @property
    def max_words(self) -> float:
        """How many words it takes, at most."""
        words = self.takes.split()
        return float("inf") if "..." in words else float(len(words))

    def read_value(self, words: Sequence[str]) -> Any:
        """What was typed, as a value of its type.

        Raises:
            ValueError: if it cannot be read.
        """
        hint = typing.get_args(self.hint)[0] if hasattr(self.hint, "__metadata__") else self.hint
        info = constructors.PrimitiveTypeInfo.make(hint, {conf.EnumChoicesFromValues})
        spec = constructors.ConstructorRegistry.get_primitive_spec(info)
        if isinstance(spec, constructors.UnsupportedTypeAnnotationError):
            raise spec
        counts = spec.nargs if isinstance(spec.nargs, tuple) else (spec.nargs,)
        if "*" not in counts and len(words) not in counts:
            raise ValueError(
                f"Expected {self.takes} after {self.option_name}, got {' '.join(words)}."
            )
        return spec.instance_from_str(list(words))


def list_flags(kind: type[Any]) -> dict[str, CommandFlag]:
    """The fields of a dataclass that can be given, in their order."""
    hints = typing.get_type_hints(kind, include_extras=True)
    about: dict[str, str] = {}
    for each in reversed(kind.__mro__):  # a subclass may say more of an inherited field
        about |= _read_argument_docs(each)
    return {
        each.name: CommandFlag(
            name=each.name,
            field=each.name,
            hint=hints[each.name],
            takes=_describe_value(hints[each.name]),
            usual=_format_default(each.default),
            about=about.get(each.name, ""),
            is_positional=_is_marked(hints[each.name], Positional),
            is_needed=each.default is each.default_factory,  # both are missing
        )
        for each in dataclasses.fields(kind)
        if each.init and not each.name.startswith("_")
    }


def rename_shared(
    own: Iterable[CommandFlag], taken: Iterable[str], word: str | None
) -> list[CommandFlag]:
    """An entry's flags; those whose names are taken get a word in front."""
    names = set(taken)
    return [
        dataclasses.replace(each, name=f"{word}_{each.name}")
        if word and each.name in names
        else each
        for each in own
    ]


def list_wanted(kind: type[Any]) -> list[tuple[str, ...]]:
    """Flag and package of the entries that a command runs with, and the usual one, if any."""
    return list(getattr(kind, "ENTRIES", (kind.ENTRY,) if hasattr(kind, "ENTRY") else ()))


def read_doc(kind: type[Any]) -> str:
    """What a class says of itself; nothing where Python made that up."""
    said = kind.__dict__.get("__doc__") or ""
    return "" if said.startswith(f"{kind.__name__}(") else inspect.cleandoc(said)


def read_summary(kind: type[Any]) -> str:
    """The first line of a class's documentation."""
    return read_doc(kind).partition("\n")[0]


def read_prose(kind: type[Any]) -> str:
    """What stands before the sections of a class's documentation, without the first line."""
    lines = read_doc(kind).splitlines()[1:]
    ends = [place for place, line in enumerate(lines) if line.strip() in _DOC_SECTIONS]
    return "\n".join(lines[: ends[0] if ends else None]).strip().replace("``", "")


def read_section(kind: type[Any], name: str) -> list[str]:
    """The lines of a section of a class's documentation, less their indent."""
    _, _, rest = read_doc(kind).partition(f"\n{name}:\n")
    lines = []
    for line in rest.splitlines():
        if line.strip() and not line.startswith("    "):
            break
        lines.append(line[4:])
    return lines


def _read_argument_docs(kind: type[Any]) -> dict[str, str]:
    """What the section ``Args`` says of each name."""
    found: dict[str, list[str]] = {}
    last = ""
    for line in read_section(kind, "Args"):
        begun = re.match(r"(\w+): (.*)", line)
        if begun is not None:
            last = begun[1]
            found[last] = [begun[2]]
        elif line.strip() and last:
            found[last].append(line.strip())
    return {name: " ".join(lines).replace("``", "") for name, lines in found.items()}


def _is_marked(hint: Any, marker: Any) -> bool:
    """Whether a type has one of our marks."""
    return marker.__metadata__[0] in getattr(hint, "__metadata__", ())


def _describe_value(hint: Any) -> str:
    """What is given with a flag of this type."""
    inner = typing.get_args(hint)
    if hasattr(hint, "__metadata__"):
        first = _describe_value(inner[0])
        return first.removesuffix(" ...") if _is_marked(hint, Repeated) else first
    kind = typing.get_origin(hint) or hint
    if kind in (typing.Union, types.UnionType):
        return "|".join(filter(None, map(_describe_value, inner)))
    if kind is Literal:
        return "|".join(map(str, inner))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(
            each.value if isinstance(each.value, str) else each.name.lower() for each in kind
        )
    if kind in (tuple, list) or kind is Sequence:
        is_open = kind is not tuple or ... in inner
        return (
            f"{_describe_value(inner[0])} ..." if is_open else " ".join(map(_describe_value, inner))
        )
    return _describe_value(inner[0]) if inner else _TYPE_WORDS.get(kind, "VALUE")


def _format_default(default: Any) -> str:
    """A default as one would type it."""
    if default is dataclasses.MISSING or default is None or default is False:
        return ""
    return " ".join(map(str, default)) if isinstance(default, tuple) else str(default)
