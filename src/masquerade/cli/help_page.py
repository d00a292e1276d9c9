"""Help in words for people: what is protected first, one line an entry, one example."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from masquerade import catalog
from masquerade.cli import flags
from masquerade.cli.flags import CommandFlag
from masquerade.guarantee import PROTECTS

_BUDGET_FLAGS = ("epsilon", "delta", "unit", "pixels")


def format_verb_help(verb: str, module: Any) -> str:
    """The commands of a verb, one line each."""
    said = getattr(module, "SUMMARIES", None)
    said = said or {name: flags.read_summary(kind) for name, kind in module.COMMANDS.items()}
    lines = [f"usage: masquerade {verb} COMMAND ... [--json]", ""]
    return "\n".join(lines + [f"  {name:16} {line}".rstrip() for name, line in said.items()])


def format_command_help(
    program: str, command_kind: type[Any], chosen: Sequence[tuple[str, str, str | None]]
) -> str:
    """The help of a command.

    Args:
        program: how it is called.
        command_kind: its class.
        chosen: flag, package and name of the entries that were named beside ``--help``.
    """
    own = flags.list_flags(command_kind)
    asked = flags.list_wanted(command_kind)
    lines = [_format_usage(program, own.values(), asked), "", flags.read_summary(command_kind)]
    lines += _fill_paragraphs(flags.read_prose(command_kind))
    if example := [
        line for line in flags.read_section(command_kind, "Example") if line and line[:3] != ">>>"
    ]:
        lines += ["", "Example", *(f"  {line}" for line in example)]
    taken, words = set(own), getattr(command_kind, "PREFIXES", {})
    for flag, package, *usual in asked:
        named = [name for its, home, name in chosen if (its, home) == (flag, package) and name]
        if named:
            kind = catalog.load_class(package, named[0])
            theirs = flags.rename_shared(flags.list_flags(kind).values(), taken, words.get(package))
            taken |= {each.name for each in theirs}
            lines += _format_entry(kind, named[0], theirs)
        else:
            lines += _format_choices(program, flag, package, usual)
    lines += ["", "Flags", *_format_flags(own.values())]
    lines += _format_columns([("--json", "print the answer as JSON.")])
    return "\n".join(lines)


def _format_usage(
    program: str, own: Iterable[CommandFlag], entry_flags: Sequence[tuple[str, ...]]
) -> str:
    words = [program]
    words += ["NAME" for flag, *_ in entry_flags if not flag]
    words += [
        each.placeholder_name + " ..." * ("..." in each.takes) for each in own if each.is_positional
    ]
    words += [
        f"[--{flag} NAME]" if usual else f"--{flag} NAME" for flag, _, *usual in entry_flags if flag
    ]
    words += [
        f"{each.option_name} {each.takes}"
        for each in own
        if each.is_needed and not each.is_positional
    ]
    usage = f"usage: {' '.join(words)} [FLAGS]"
    return "\n".join(textwrap.wrap(usage, _find_width(), subsequent_indent="       "))


def _format_entry(of: type[Any], name: str, own: Sequence[CommandFlag]) -> list[str]:
    """What an entry is, and its flags."""
    lines = ["", f"{name}: {flags.read_summary(of)}", *_fill_paragraphs(flags.read_prose(of))]
    lines += ["", f"Flags of {name}", *_format_flags(own)]
    return [*lines, *(_format_units() if any(each.name == "unit" for each in own) else [])]


def _format_units() -> list[str]:
    said = {name.value: about for name, about in PROTECTS.items()}
    del said["shard"]  # of teachers alone
    return ["", "What is protected (--unit)", *_format_columns(said.items())]


def _format_choices(
    program: str, flag: str, package: str, usual: Sequence[str | None]
) -> list[str]:
    """The entries of a package, one line each; what has a proof comes first."""
    spelled = f"--{flag} NAME" if flag else "NAME"
    more = f"{program} --{flag} NAME --help" if flag else f"{program} NAME --help"
    names = catalog.list_entries(package)
    lines = [
        *(_format_units() if package == "mechanisms" else []),
        "",
        f"{spelled} is one of{f' ({usual[0]} if not given)' if any(usual) else ''}",
    ]
    if package != "mechanisms":
        lines += _format_columns((name, catalog.find_summary(package, name)) for name in names)
    else:
        bare = [name for name in names if not catalog.find_entry(package, name).has_proof]
        proved = [name for name in names if name not in bare]
        lines += _format_columns((name, catalog.find_summary(package, name)) for name in proved)
        lines += ["  without a proof, for comparison:"]
        lines += _format_columns((name, catalog.find_summary(package, name)) for name in bare)
        lines += [
            "",
            "Each with a proof takes",
            *_format_flags(_list_budget_flags(package, proved[0])),
        ]
    return [*lines, f"  Flags of one: {more}"]


def _list_budget_flags(package: str, name: str) -> list[CommandFlag]:
    """What every mechanism with a proof asks for."""
    own = flags.list_flags(catalog.load_class(package, name))
    return [each for each in own.values() if each.name in _BUDGET_FLAGS]


def _format_flags(own: Iterable[CommandFlag]) -> list[str]:
    return list(_format_columns((_format_flag(flag), _describe_flag(flag)) for flag in own))


def _format_flag(flag: CommandFlag) -> str:
    if flag.is_positional:
        return flag.placeholder_name
    if flag.usual == "True":
        return f"{flag.option_name}, {flag.opposite_name}"
    return f"{flag.option_name} {flag.takes}".rstrip()


def _describe_flag(flag: CommandFlag) -> str:
    if flag.is_needed:
        return flag.about + (" Needed." if not flag.is_positional else "")
    return f"{flag.about} Default: {flag.usual}." if flag.usual else flag.about


def _format_columns(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Two columns; a long left one gets a line of its own."""
    lines, width, left = [], _find_width(), 24
    for said, about in pairs:
        wrapped = textwrap.wrap(about, width - left - 2) or [""]
        if len(said) < left - 1:
            lines.append(f"  {said:{left}}{wrapped[0]}".rstrip())
            wrapped = wrapped[1:]
        else:
            lines.append(f"  {said}")
        lines += [f"  {'':{left}}{line}".rstrip() for line in wrapped if line]
    return lines


def _fill_paragraphs(prose: str) -> list[str]:
    """Text filled to the width; drawings (after ``::``) as they stand."""
    lines: list[str] = []
    is_drawn = False
    for piece in prose.split("\n\n") if prose else ():
        if is_drawn or piece.startswith(" "):
            lines += ["", *piece.splitlines()]
        else:
            shown = piece.replace("::", ":") if piece.endswith("::") else piece
            lines += ["", *textwrap.wrap(" ".join(shown.split()), _find_width())]
        is_drawn = piece.endswith("::")
    return lines


def _find_width() -> int:
    return max(60, min(100, shutil.get_terminal_size((80, 24)).columns))
