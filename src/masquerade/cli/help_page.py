"""Help in words for people: what is protected first, one line an entry, one example."""

from __future__ import annotations

import ast
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from masquerade import _source, catalog
from masquerade._source import Flag, SourceClass

# How a field that is given without its name is called.
_CALLED = {"source": "INPUT", "target": "OUTPUT"}
_DOORS = Path(__file__).parent
_NO_PROOF = "Heuristic"
_BUDGET = ("epsilon", "delta", "unit", "pixels")


def called(name: str) -> str:
    """The word for what is given without a flag.

    Example:
        >>> called("source"), called("model")
        ('INPUT', 'MODEL')
    """
    return _CALLED.get(name, name.upper())


def verbs() -> dict[str, str]:
    """The verbs and the first line of each door's docstring, without importing any."""
    about = {path.stem: _first_line(path) for path in sorted(_DOORS.glob("*.py"))}
    return {verb: said for verb, said in about.items() if said is not None}


def _first_line(path: Path) -> str | None:
    """The first line of a door's docstring; None of a file that is no command."""
    text = path.read_text(encoding="utf-8")
    if "\nCOMMAND" not in text:  # most files, which need no parsing
        return None
    tree = ast.parse(text)
    if not catalog.assigned(tree) & {"COMMAND", "COMMANDS"}:
        return None
    return (ast.get_docstring(tree) or "").partition("\n")[0]


def is_verb(word: str) -> bool:
    """Whether there is such a command; only its own file is read."""
    path = _DOORS / f"{word}.py"
    return word.isidentifier() and path.is_file() and _first_line(path) is not None


def commands(door: str) -> dict[str, tuple[str, str]] | None:
    """The commands of a door, each with file and class; None where the door is the command."""
    module = f"masquerade.cli.{door}"
    if _source.assigned_name(module, "COMMAND"):
        return None
    listed = _source.mapping(module, "COMMANDS")
    if listed is not None:
        return {name: (module, kind) for name, kind in listed.items()}
    homes = ("recipes", "recipes.stage")
    found = {name: (home, name) for home in homes for name in catalog.names(home)}
    return dict(sorted(found.items()))


def command_class(door: str, name: str | None) -> SourceClass | None:
    """The class of a command."""
    module, several = f"masquerade.cli.{door}", commands(door)
    if several is None:
        return _source.class_of(module, _source.assigned_name(module, "COMMAND") or "")
    if name not in several:
        return None
    place, kind = several[name]
    is_recipe = place.startswith("recipes")
    return _source.entry(place, kind) if is_recipe else _source.class_of(place, kind)


def overview(door: str) -> str:
    """The commands of a door, one line each."""
    several = commands(door) or {}
    lines = [f"usage: masquerade {door} COMMAND ... [--json]", ""]
    for name in several:
        of = command_class(door, name)
        lines.append(f"  {name:16} {'' if of is None else of.summary}".rstrip())
    return "\n".join(lines)


def page(program: str, of: SourceClass, chosen: Sequence[tuple[str, str, str | None]]) -> str:
    """The help of a command.

    Args:
        program: how it is called.
        of: its class.
        chosen: flag, room and name of the entries that were named beside ``--help``.
    """
    own = _source.flags(of)
    asked = wanted(of)
    lines = [_usage(program, own.values(), asked), "", of.summary]
    lines += _paragraphs(of.prose)
    if example := [line for line in of.section("Example") if line and line[:3] != ">>>"]:
        lines += ["", "Example", *(f"  {line}" for line in example)]
    taken, words = set(own), of.assigned("PREFIXES") or {}
    for flag, room, *usual in asked:
        named = [name for its, home, name in chosen if (its, home) == (flag, room) and name]
        if named:
            flags = entry_flags(room, named[0], taken, words.get(room))
            taken |= {each.name for each in flags}
            lines += _entry(room, named[0], flags)
        else:
            lines += _choices(program, flag, room, usual)
    lines += ["", "Flags", *_table(own.values())]
    lines += _rows([("--json", "print the answer as JSON.")])
    return "\n".join(lines)


def wanted(of: SourceClass) -> list[tuple[str, ...]]:
    """Flag and room of the entries that a command runs with, and the usual one, if any."""
    several = of.assigned("ENTRIES")
    one = of.assigned("ENTRY")
    return [tuple(each) for each in several or ([one] if one else [])]


def _usage(program: str, own: Iterable[Flag], asked: Sequence[tuple[str, ...]]) -> str:
    words = [program]
    words += ["NAME" for flag, *_ in asked if not flag]
    words += [
        called(each.name) + " ..." * ("..." in each.takes) for each in own if each.is_positional
    ]
    words += [
        f"[--{flag} NAME]" if usual else f"--{flag} NAME" for flag, _, *usual in asked if flag
    ]
    words += [
        f"{spelled(each)} {each.takes}" for each in own if each.is_needed and not each.is_positional
    ]
    usage = f"usage: {' '.join(words)} [FLAGS]"
    return "\n".join(textwrap.wrap(usage, _width(), subsequent_indent="       "))


def entry_flags(room: str, name: str, taken: set[str], word: str | None) -> list[Flag]:
    """The flags of an entry; those whose names are taken get a word in front."""
    of = _source.entry(room, name)
    every = [] if of is None else list(_source.flags(of).values())
    return [
        replace(each, name=f"{word}_{each.name}") if word and each.name in taken else each
        for each in every
    ]


def entries_of(
    of: SourceClass, chosen: Sequence[tuple[str, str, str | None]]
) -> list[tuple[SourceClass, list[Flag]]]:
    """The classes that a command runs with, each with its flags as they are spelled there."""
    taken, words = set(_source.flags(of)), of.assigned("PREFIXES") or {}
    found = []
    for _, room, name in chosen:
        entry = None if name is None else _source.entry(room, name)
        if name is not None and entry is not None:
            own = entry_flags(room, name, taken, words.get(room))
            taken |= {each.name for each in own}
            found.append((entry, own))
    return found


def _entry(room: str, name: str, flags: Sequence[Flag]) -> list[str]:
    """What an entry is, and its flags."""
    of = _source.entry(room, name)
    if of is None:
        return []
    lines = ["", f"{name}: {of.summary}", *_paragraphs(of.prose)]
    lines += ["", f"Flags of {name}", *_table(flags)]
    return [*lines, *(_units() if any(each.name == "unit" for each in flags) else [])]


def _units() -> list[str]:
    said = _source.texts("masquerade.guarantee", "PROTECTS")
    del said["shard"]  # of teachers alone
    return ["", "What is protected (--unit)", *_rows(said.items())]


def _choices(program: str, flag: str, room: str, usual: Sequence[str | None]) -> list[str]:
    """The entries of a room, one line each; what has a proof comes first."""
    spelled = f"--{flag} NAME" if flag else "NAME"
    more = f"{program} --{flag} NAME --help" if flag else f"{program} NAME --help"
    names = catalog.names(room)
    lines = [
        *(_units() if room == "release" else []),
        "",
        f"{spelled} is one of{f' ({usual[0]} if not given)' if any(usual) else ''}",
    ]
    if room != "release":
        lines += _rows((name, catalog.summary(room, name)) for name in names)
    else:
        bare = [name for name in names if catalog.is_a(room, name, _NO_PROOF)]
        proved = [name for name in names if name not in bare]
        lines += _rows((name, catalog.summary(room, name)) for name in proved)
        lines += ["  without a proof, for comparison:"]
        lines += _rows((name, catalog.summary(room, name)) for name in bare)
        lines += ["", "Each with a proof takes", *_table(_budget(room, proved[0]))]
    return [*lines, f"  Flags of one: {more}"]


def _budget(room: str, name: str) -> list[Flag]:
    """What every mechanism with a proof asks for."""
    return [each for each in entry_flags(room, name, set(), None) if each.name in _BUDGET]


def _table(own: Iterable[Flag]) -> list[str]:
    return list(_rows((_said(flag), _about(flag)) for flag in own))


def _said(flag: Flag) -> str:
    if flag.is_positional:
        return called(flag.name)
    if flag.usual == "True":
        return f"{spelled(flag)}, {spelled(flag).replace('--', '--no-', 1)}"
    return f"{spelled(flag)} {flag.takes}".rstrip()


def _about(flag: Flag) -> str:
    if flag.is_needed:
        return flag.about + (" Needed." if not flag.is_positional else "")
    return f"{flag.about} Default: {flag.usual}." if flag.usual else flag.about


def spelled(flag: Flag) -> str:
    """As one types it."""
    return "--" + flag.name.replace("_", "-")


def _rows(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Two columns; a long left one gets a line of its own."""
    lines, width, left = [], _width(), 24
    for said, about in pairs:
        wrapped = textwrap.wrap(about, width - left - 2) or [""]
        if len(said) < left - 1:
            lines.append(f"  {said:{left}}{wrapped[0]}".rstrip())
            wrapped = wrapped[1:]
        else:
            lines.append(f"  {said}")
        lines += [f"  {'':{left}}{line}".rstrip() for line in wrapped if line]
    return lines


def _paragraphs(prose: str) -> list[str]:
    """Text filled to the width; drawings (after ``::``) as they stand."""
    lines: list[str] = []
    is_drawn = False
    for piece in prose.split("\n\n") if prose else ():
        if is_drawn or piece.startswith(" "):
            lines += ["", *piece.splitlines()]
        else:
            shown = piece.replace("::", ":") if piece.endswith("::") else piece
            lines += ["", *textwrap.wrap(" ".join(shown.split()), _width())]
        is_drawn = piece.endswith("::")
    return lines


def _width() -> int:
    return max(60, min(100, shutil.get_terminal_size((80, 24)).columns))
