"""The words of a command line: taken apart once, refused if they cannot be meant, made values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from masquerade import _check, catalog
from masquerade.cli.flags import CommandFlag, list_flags, list_wanted, rename_shared
from masquerade.errors import BadInput
from masquerade.guarantee import UnitName, parse_unit_name

Chosen = tuple[str, str, str | None]  # flag, package and name of an entry

_TEXT_WORDS = ("TEXT", "PATH", "VALUE")
_NUMBER_WORDS = {"N": ("a whole number", int), "X": ("a number", float)}
_SHORT_FLAG = re.compile("-[A-Za-z]")
_URL_START = re.compile("[A-Za-z][A-Za-z0-9+.-]*://")
_SERVER_STARTS = ("postgresql://", "postgres://")
_SITE_UNITS = ("pixels", "tube")
_FILE_UNITS = tuple(name for name in UnitName if name is not UnitName.SHARD)


@dataclass(frozen=True, kw_only=True)
class _CommandLine:
    """A command line, taken apart.

    Args:
        flags: the values of each flag, as often as it was given.
        words: those that belong to no flag.
    """

    flags: dict[str, list[list[str]]]
    words: list[str]


def read_command(
    program: str, kind: type[Any], chosen: Sequence[Chosen], rest: Sequence[str]
) -> tuple[Any, list[Any]]:
    """A command with its flags, and the entries that it runs with; None for one left out.

    Args:
        program: how the command is called.
        kind: its class.
        chosen: the entries that were asked for.
        rest: what was typed beside them.

    Raises:
        ValueError: for flags that there are not, that lack or that cannot be read, and words too
            many; with what was meant, as far as one can tell.
        BadInput: if there is nothing where the input should be.
    """
    program = name_program(program, chosen)
    classes = [
        None if name is None else catalog.load_class(package, name) for _, package, name in chosen
    ]
    own, parts = list(list_flags(kind).values()), []
    every = {each.name: each for each in own}
    for entry, (_, package, name) in zip(classes, chosen, strict=True):
        word = getattr(kind, "PREFIXES", {}).get(package)
        theirs = [] if entry is None else list_flags(entry).values()
        renamed = rename_shared(theirs, every, word)
        if both := sorted(every.keys() & {each.name for each in renamed}):
            raise ValueError(
                f"Expected flags with one meaning, got --{both[0]}, which {name} has as well; "
                "they cannot be used together here, only from Python."
            )
        every |= {each.name: each for each in renamed}
        parts.append((entry, renamed))
    given = _take_apart(every, rest)
    _check_given(program, every, [(kind, own), *parts], given)
    values = _read_values(program, every, given)
    made = [_make_entry(each, several, values) for each, several in [(kind, own), *parts]]
    return made[0], made[1:]


def _make_entry(
    kind: type[Any] | None, own: Iterable[CommandFlag], values: Mapping[str, Any]
) -> Any:
    given = {each.field: values[each.name] for each in own if each.name in values}
    return None if kind is None else kind(**given)


def choose_entries(
    kind: type[Any], rest: list[str], *, is_asking: bool = False
) -> tuple[list[Chosen], list[str]]:
    """Flag, package and name of each entry that is asked for, and the other arguments.

    Raises:
        ValueError: if a name is not one of its package; if one is lacking, unless help is asked
            for.
    """
    found: list[Chosen] = []
    for flag, package, *usual in list_wanted(kind):  # usually None: it may be left out
        name, rest = _take_flag(rest, f"--{flag}") if flag else _take_first(rest)
        name = usual[0] if name is None and usual and not is_asking else name
        if name is None and not usual and not is_asking:
            spelled = f"--{flag} NAME" if flag else "NAME"
            raise ValueError(
                f"Expected {spelled}; choose from {', '.join(catalog.list_entries(package))}."
            )
        if name is not None and name not in catalog.list_entries(package):
            raise ValueError(
                _check.describe_unknown(
                    catalog.find_entry_noun(package), name, catalog.list_entries(package)
                )
            )
        found.append((flag, package, name))
    return found, rest


def name_program(name: str, chosen: Iterable[Chosen]) -> str:
    """How a command is called with its entries."""
    words = [f"--{flag} {entry}" if flag else entry for flag, _, entry in chosen if entry]
    return " ".join([name, *words])


def _take_flag(rest: list[str], flag: str) -> tuple[str | None, list[str]]:
    """The value of ``flag`` and the arguments without it."""
    for place, word in enumerate(rest):
        if word.startswith(f"{flag}="):
            return word.partition("=")[2], rest[:place] + rest[place + 1 :]
        if word == flag and place + 1 < len(rest):
            return rest[place + 1], rest[:place] + rest[place + 2 :]
    return None, rest


def _take_first(rest: list[str]) -> tuple[str | None, list[str]]:
    """The first argument, unless it is a flag, and the others."""
    return (rest[0], rest[1:]) if rest and not rest[0].startswith("-") else (None, rest)


def _take_apart(every: Mapping[str, CommandFlag], rest: Sequence[str]) -> _CommandLine:
    """The flags that were given with their values, and the words that belong to none."""
    flags: dict[str, list[list[str]]] = {}
    words: list[str] = []
    last, waits = "", 0.0
    for word in (*rest, "--"):
        if word.startswith("--") and waits and not flags[last][-1]:
            raise ValueError(f"Expected a value after {last}, got none; give one.")
        if word.startswith("--") and len(word) > 2:
            name, is_whole, value = word.partition("=")
            last = name.replace("_", "-")
            flags.setdefault(last, []).append([value] if is_whole else [])
            held = every.get(last.removeprefix("--").replace("-", "_"))
            waits = 0.0 if is_whole or held is None else held.max_words
        elif waits and word != "--":
            flags[last][-1].append(word)
            waits -= 1
        elif word != "--":
            words.append(word)
    return _CommandLine(flags=flags, words=words)


def _read_values(
    program: str, every: Mapping[str, CommandFlag], command_line: _CommandLine
) -> dict[str, Any]:
    """The values of all fields that were given."""
    words, values = list(command_line.words), {}
    positional = [each for each in every.values() if each.is_positional]
    for place, each in enumerate(positional):
        waiting = sum(later.is_needed for later in positional[place + 1 :])
        count = len(words) - waiting if "..." in each.takes else int(each.max_words)
        mine, words = words[:count], words[count:]
        if mine:
            values[each.name] = each.read_value(mine)
    for each in every.values():
        several = command_line.flags.get(each.option_name, [])
        if not each.takes and several:
            values[each.name] = True
        elif several:
            typed = [word for words in several for word in words]
            values[each.name] = each.read_value(typed if each.is_repeated else several[-1])
        if each.opposite_name in command_line.flags:
            values[each.name] = False
    return values


def _check_given(
    program: str,
    every: Mapping[str, CommandFlag],
    parts: Sequence[tuple[type[Any] | None, Sequence[CommandFlag]]],
    given: _CommandLine,
) -> None:
    """Refuse what cannot be meant."""
    named = {each.option_name: each for each in every.values() if not each.is_positional}
    _refuse_unknown(program, named, given)
    for spelled, several in given.flags.items():
        if spelled in named:
            _refuse_unreadable(spelled, named[spelled], several[-1])
    have_unit = [kind for kind, several in parts if "unit" in (each.name for each in several)]
    units = [_list_units(kind) for kind in have_unit if kind is not parts[0][0]]
    for known in [tuple(UnitName)] * (parts[0][0] in have_unit) + units:
        _refuse_unit(given, known, has_sites="--pixels" in named)
    _refuse_count(program, every, given)
    if units and "--unit" not in given.flags:
        parse_unit_name(None, units[0])
    _refuse_addresses(given)
    _refuse_no_input(every, given)


def _refuse_unknown(
    program: str, named: Mapping[str, CommandFlag], command_line: _CommandLine
) -> None:
    if any(command_line.flags.get("--json", ())):
        raise ValueError("Expected no value after --json, got one; leave it out.")
    every = [*named, "--json"]
    every += [each.opposite_name for each in named.values() if each.usual == "True"]
    for name in (
        *(word for word in command_line.words if _SHORT_FLAG.match(word)),
        *command_line.flags,
    ):
        if name not in every:
            close = get_close_matches(name, every, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise ValueError(f"Unknown flag {name}.{hint} {program} --help lists the flags.")


def _refuse_unreadable(spelled: str, flag: CommandFlag, values: Sequence[str]) -> None:
    """A word where a number is wanted, or one that is not among the choices."""
    if not flag.takes:
        if values:
            raise ValueError(f"Expected no value after {spelled}, got {values[0]!r}; leave it out.")
        return
    choices = flag.takes.split()[0].split("|")
    if set(choices) & set(_TEXT_WORDS):
        return
    for value in values:
        if value in choices or any(_is_number(value, each) for each in choices):
            continue
        wanted = [_NUMBER_WORDS[each][0] if each in _NUMBER_WORDS else each for each in choices]
        close = get_close_matches(value, choices, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise ValueError(f"Expected {_join_choices(wanted)} after {spelled}, got {value!r}.{hint}")


def _is_number(value: str, choice: str) -> bool:
    """Whether a word is such a number."""
    if choice not in _NUMBER_WORDS:
        return False
    try:
        _NUMBER_WORDS[choice][1](value)
    except ValueError:
        return False
    return True


def _join_choices(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def _list_units(kind: type[Any] | None) -> tuple[UnitName, ...]:
    """Those that an entry can promise."""
    return getattr(kind, "UNITS", _FILE_UNITS)


def _refuse_unit(command_line: _CommandLine, units: Sequence[UnitName], *, has_sites: bool) -> None:
    """The units are explained before anything else is asked for."""
    for unit in [each for several in command_line.flags.get("--unit", ()) for each in several]:
        parse_unit_name(unit, units)
        if has_sites and unit in _SITE_UNITS and "--pixels" not in command_line.flags:
            raise ValueError(f"--unit {unit} needs --pixels N, for example --pixels 256.")


def _refuse_count(
    program: str, every: Mapping[str, CommandFlag], command_line: _CommandLine
) -> None:
    """Flags that lack, and words too few or too many."""
    positional = [each for each in every.values() if each.is_positional]
    needed = [each for each in positional if each.is_needed]
    bare = [each.placeholder_name for each in needed][len(command_line.words) :]
    lacking = [
        each.option_name
        for each in every.values()
        if each.is_needed and not each.is_positional and each.option_name not in command_line.flags
    ]
    if bare or lacking:
        raise ValueError(
            f"Expected {' and '.join([*bare, *lacking])} as well; {program} --help says what each "
            "means."
        )
    if len(command_line.words) > sum(each.max_words for each in positional):
        taken = " and ".join(each.placeholder_name for each in positional) or "flags"
        extra = command_line.words[len(positional)]
        raise ValueError(
            f"Expected {taken} alone, got {extra!r} as well; {program} --help says what is taken."
        )


def _refuse_addresses(command_line: _CommandLine) -> None:
    """All files are local; only a ledger may live on a server."""
    typed = [("", command_line.words)]
    typed += [(flag, values) for flag, several in command_line.flags.items() for values in several]
    for flag, values in typed:
        for word in values:
            found = _URL_START.match(word)
            if found is None or (flag == "--ledger" and found[0] in _SERVER_STARTS):
                continue
            raise ValueError(
                f"Expected a path on this machine{f' after {flag}' * bool(flag)}, got {word}; copy "
                "an input into a local folder first, or write the output to one and copy it then."
            )


def _refuse_no_input(every: Mapping[str, CommandFlag], command_line: _CommandLine) -> None:
    """A name with a slip is the commonest mistake."""
    positional = [each for each in every.values() if each.is_positional]
    if positional and positional[0].name == "source" and command_line.words:
        several = len(command_line.words) - len(positional) + 1
        for word in command_line.words[: max(1, several)]:
            if not Path(word).exists() and not Path(word).is_symlink():
                raise BadInput(f"Expected a file at {word}, got nothing; check the name.")
