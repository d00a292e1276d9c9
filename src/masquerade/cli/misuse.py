"""Words that cannot be meant, refused before anything large is imported."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from masquerade._source import Flag, SourceClass, flags, listed
from masquerade.cli import help_page
from masquerade.errors import BadInput
from masquerade.guarantee import UnitName, named_unit

_ANYTHING = ("TEXT", "PATH", "VALUE")
_NUMBERS = {"N": ("a whole number", int), "X": ("a number", float)}
_ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]*://")
_SERVERS = ("postgresql://", "postgres://")
_HAVE_SITES = ("pixels", "tube")
_OF_FILES = tuple(name for name in UnitName if name is not UnitName.SHARD)


@dataclass(frozen=True, kw_only=True)
class _Given:
    """A command line, taken apart.

    Args:
        flags: the values of each flag that was given.
        words: those that belong to no flag.
        others: all the others, in their order.
    """

    flags: dict[str, list[str]]
    words: list[str]
    others: list[str]


def checked(
    program: str,
    of: SourceClass,
    entries: Sequence[tuple[SourceClass, Sequence[Flag]]],
    rest: Sequence[str],
) -> list[str]:
    """The same words, those without a flag first; refused if they cannot be meant.

    Args:
        program: how the command is called.
        of: its class.
        entries: the classes that it runs with, each with its flags as they are spelled here.
        rest: what was typed after its name.

    Raises:
        ValueError: for flags that there are not, that lack or that cannot be read, and words too
            many; with what was meant, as far as one can tell.
        BadInput: if there is nothing where the input should be.
    """
    own = flags(of)
    every = own | {each.name: each for _, several in entries for each in several}
    given = _sorted_out(every, rest)
    named = {help_page.spelled(each): each for each in every.values() if not each.is_positional}
    _refuse_unknown(program, named, given)
    for spelled, values in given.flags.items():
        if spelled in named:
            _refuse_unreadable(spelled, named[spelled], values)
    units = [_units(owner) for owner, several in entries if "unit" in (x.name for x in several)]
    for known in [tuple(UnitName)] * ("unit" in own) + units:
        _refuse_unit(given, known, has_sites="--pixels" in named)
    _refuse_count(program, every, given)
    if units and "--unit" not in given.flags:
        named_unit(None, units[0])
    _refuse_addresses(given)
    _refuse_no_input(every, given)
    return [*_placed(every, given.words), *given.others]


def _placed(every: Mapping[str, Flag], words: list[str]) -> list[str]:
    """The words; what comes after several of one kind is named, or they would take it, too."""
    positional = [each for each in every.values() if each.is_positional]
    open_at = [at for at, each in enumerate(positional) if "..." in each.takes]
    after = positional[open_at[0] + 1 :] if open_at else []
    if not after:
        return words
    pairs = zip(after, words[-len(after) :], strict=True)
    return words[: -len(after)] + [f"{help_page.spelled(each)}={word}" for each, word in pairs]


def _sorted_out(every: Mapping[str, Flag], rest: Sequence[str]) -> _Given:
    """The flags that were given with their values, and the words that belong to none."""
    flags: dict[str, list[str]] = {}
    words: list[str] = []
    others: list[str] = []
    last, waits = "", 0.0
    for word in (*rest, "--"):
        if word.startswith("--") and waits and not flags[last]:
            raise ValueError(f"Expected a value after {last}, got none; give one.")
        if word.startswith("--") and len(word) > 2:
            name, is_whole, value = word.partition("=")
            last = name.replace("_", "-")
            others.append(word)
            flags[last] = [value] if is_whole else []
            held = every.get(last.removeprefix("--").replace("-", "_"))
            waits = 0.0 if is_whole or held is None else _values(held)
        elif waits and word != "--":
            flags[last].append(word)
            others.append(word)
            waits -= 1
        elif word != "--":
            words.append(word)
    return _Given(flags=flags, words=words, others=others)


def _values(flag: Flag) -> float:
    """How many words a flag takes."""
    words = flag.takes.split()
    return math.inf if "..." in words else float(len(words))


def _refuse_unknown(program: str, named: Mapping[str, Flag], given: _Given) -> None:
    every = [*named, "--json"]
    every += [name.replace("--", "--no-", 1) for name, flag in named.items() if not flag.takes]
    for name in given.flags:
        if name not in every:
            close = get_close_matches(name, every, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise ValueError(f"Unknown flag {name}.{hint} {program} --help lists the flags.")


def _refuse_unreadable(spelled: str, flag: Flag, values: Sequence[str]) -> None:
    """A word where a number is wanted, or one that is not among the choices."""
    if not flag.takes:
        return
    choices = flag.takes.split()[0].split("|")
    if set(choices) & set(_ANYTHING):
        return
    for value in values:
        if value in choices or any(_reads(value, each) for each in choices):
            continue
        wanted = [_NUMBERS[each][0] if each in _NUMBERS else each for each in choices]
        close = get_close_matches(value, choices, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise ValueError(f"Expected {_or(wanted)} after {spelled}, got {value!r}.{hint}")


def _reads(value: str, choice: str) -> bool:
    """Whether a word is such a number."""
    if choice not in _NUMBERS:
        return False
    try:
        _NUMBERS[choice][1](value)
    except ValueError:
        return False
    return True


def _or(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def _units(of: SourceClass) -> tuple[UnitName, ...]:
    """Those that an entry can promise."""
    return tuple(UnitName(name) for name in listed(of, "UNITS")) or _OF_FILES


def _refuse_unit(given: _Given, units: Sequence[UnitName], *, has_sites: bool) -> None:
    """The units are explained before anything else is asked for."""
    for unit in given.flags.get("--unit", ()):
        named_unit(unit, units)
        if has_sites and unit in _HAVE_SITES and "--pixels" not in given.flags:
            raise ValueError(f"--unit {unit} needs --pixels N, for example --pixels 256.")


def _refuse_count(program: str, every: Mapping[str, Flag], given: _Given) -> None:
    """Flags that lack, and words too few or too many."""
    positional = [each for each in every.values() if each.is_positional]
    needed = [each for each in positional if each.is_needed]
    bare = [help_page.called(each.name) for each in needed][len(given.words) :]
    lacking = [
        help_page.spelled(each)
        for each in every.values()
        if each.is_needed and not each.is_positional and help_page.spelled(each) not in given.flags
    ]
    if bare or lacking:
        raise ValueError(
            f"Expected {' and '.join([*bare, *lacking])} as well; {program} --help says what each "
            "means."
        )
    if len(given.words) > sum(map(_values, positional)):
        taken = " and ".join(help_page.called(each.name) for each in positional) or "flags"
        extra = given.words[len(positional)]
        raise ValueError(
            f"Expected {taken} alone, got {extra!r} as well; {program} --help says what is taken."
        )


def _refuse_addresses(given: _Given) -> None:
    """All files are local; only a ledger may live on a server."""
    for flag, values in {"": given.words, **given.flags}.items():
        for word in values:
            found = _ADDRESS.match(word)
            if found is None or (flag == "--ledger" and found[0] in _SERVERS):
                continue
            raise ValueError(
                f"Expected a path on this machine{f' after {flag}' * bool(flag)}, got {word}; copy "
                "an input into a local folder first, or write the output to one and copy it then."
            )


def _refuse_no_input(every: Mapping[str, Flag], given: _Given) -> None:
    """A name with a slip is the commonest mistake."""
    positional = [each for each in every.values() if each.is_positional]
    if positional and positional[0].name == "source" and given.words:
        several = len(given.words) - len(positional) + 1
        for word in given.words[: max(1, several)]:
            if not Path(word).exists() and not Path(word).is_symlink():
                raise BadInput(f"Expected a file at {word}, got nothing; check the name.")
