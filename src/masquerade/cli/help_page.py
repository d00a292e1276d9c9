"""Help in words for people: what is protected first, one line an entry, one example."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from masquerade import catalog
from masquerade.cli import flags
from masquerade.cli.flags import Flag
from masquerade.guarantee import PROTECTS

_BUDGET = ("epsilon", "delta", "unit", "pixels")


def overview(verb: str, door: Any) -> str:
    """The commands of a verb, one line each."""
    said = getattr(door, "SUMMARIES", None)
    said = said or {name: flags.summarise(kind) for name, kind in door.COMMANDS.items()}
    lines = [f"usage: masquerade {verb} COMMAND ... [--json]", ""]
    return "\n".join(lines + [f"  {name:16} {line}".rstrip() for name, line in said.items()])


def page(program: str, of: type[Any], chosen: Sequence[tuple[str, str, str | None]]) -> str:
    """The help of a command.

    Args:
        program: how it is called.
        of: its class.
        chosen: flag, room and name of the entries that were named beside ``--help``.
    """
    own = flags.list_flags(of)
    asked = flags.list_wanted(of)
    lines = [_usage(program, own.values(), asked), "", flags.summarise(of)]
    lines += _paragraphs(flags.read_prose(of))
    if example := [
        line for line in flags.read_section(of, "Example") if line and line[:3] != ">>>"
    ]:
        lines += ["", "Example", *(f"  {line}" for line in example)]
    taken, words = set(own), getattr(of, "PREFIXES", {})
    for flag, room, *usual in asked:
        named = [name for its, home, name in chosen if (its, home) == (flag, room) and name]
        if named:
            kind = catalog.load_class(room, named[0])
            theirs = flags.rename_shared(flags.list_flags(kind).values(), taken, words.get(room))
            taken |= {each.name for each in theirs}
            lines += _entry(kind, named[0], theirs)
        else:
            lines += _choices(program, flag, room, usual)
    lines += ["", "Flags", *_table(own.values())]
    lines += _rows([("--json", "print the answer as JSON.")])
    return "\n".join(lines)


def _usage(program: str, own: Iterable[Flag], asked: Sequence[tuple[str, ...]]) -> str:
    words = [program]
    words += ["NAME" for flag, *_ in asked if not flag]
    words += [each.called + " ..." * ("..." in each.takes) for each in own if each.is_positional]
    words += [
        f"[--{flag} NAME]" if usual else f"--{flag} NAME" for flag, _, *usual in asked if flag
    ]
    words += [
        f"{each.spelled} {each.takes}" for each in own if each.is_needed and not each.is_positional
    ]
    usage = f"usage: {' '.join(words)} [FLAGS]"
    return "\n".join(textwrap.wrap(usage, _width(), subsequent_indent="       "))


def _entry(of: type[Any], name: str, own: Sequence[Flag]) -> list[str]:
    """What an entry is, and its flags."""
    lines = ["", f"{name}: {flags.summarise(of)}", *_paragraphs(flags.read_prose(of))]
    lines += ["", f"Flags of {name}", *_table(own)]
    return [*lines, *(_units() if any(each.name == "unit" for each in own) else [])]


def _units() -> list[str]:
    said = {name.value: about for name, about in PROTECTS.items()}
    del said["shard"]  # of teachers alone
    return ["", "What is protected (--unit)", *_rows(said.items())]


def _choices(program: str, flag: str, room: str, usual: Sequence[str | None]) -> list[str]:
    """The entries of a room, one line each; what has a proof comes first."""
    spelled = f"--{flag} NAME" if flag else "NAME"
    more = f"{program} --{flag} NAME --help" if flag else f"{program} NAME --help"
    names = catalog.names(room)
    lines = [
        *(_units() if room == "mechanisms" else []),
        "",
        f"{spelled} is one of{f' ({usual[0]} if not given)' if any(usual) else ''}",
    ]
    if room != "mechanisms":
        lines += _rows((name, catalog.summary(room, name)) for name in names)
    else:
        bare = [name for name in names if not catalog.find_entry(room, name).has_proof]
        proved = [name for name in names if name not in bare]
        lines += _rows((name, catalog.summary(room, name)) for name in proved)
        lines += ["  without a proof, for comparison:"]
        lines += _rows((name, catalog.summary(room, name)) for name in bare)
        lines += ["", "Each with a proof takes", *_table(_budget(room, proved[0]))]
    return [*lines, f"  Flags of one: {more}"]


def _budget(room: str, name: str) -> list[Flag]:
    """What every mechanism with a proof asks for."""
    own = flags.list_flags(catalog.load_class(room, name))
    return [each for each in own.values() if each.name in _BUDGET]


def _table(own: Iterable[Flag]) -> list[str]:
    return list(_rows((_said(flag), _about(flag)) for flag in own))


def _said(flag: Flag) -> str:
    if flag.is_positional:
        return flag.called
    if flag.usual == "True":
        return f"{flag.spelled}, {flag.negated}"
    return f"{flag.spelled} {flag.takes}".rstrip()


def _about(flag: Flag) -> str:
    if flag.is_needed:
        return flag.about + (" Needed." if not flag.is_positional else "")
    return f"{flag.about} Default: {flag.usual}." if flag.usual else flag.about


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
