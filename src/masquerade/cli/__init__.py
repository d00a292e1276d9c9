"""The command line: verbs are doors, flags are the fields of dataclasses."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import math
import os
import re
import signal
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from masquerade import __version__, _check, catalog
from masquerade._formatting import printable
from masquerade._optional import Later
from masquerade.cli import help_page, misuse
from masquerade.errors import Stopped, exit_code, message
from masquerade.result import Answer

if TYPE_CHECKING:
    import tyro
else:
    tyro = Later("tyro")  # an overview has nothing to parse


_HELP = {"-h", "--help"}
_SILENT = {
    KeyboardInterrupt: "Interrupted.",
    MemoryError: "Expected more memory than there is; use fewer trials or a smaller file.",
}


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with a code that means something (see `masquerade.errors`)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in arguments
    _prepare_streams()
    _listen()
    try:
        command, entries = _parsed(*_asked(arguments))
        answer = command.run(*entries)
        _say(_text(answer, as_json=as_json))
        code = answer.exit_code
    except (Exception, KeyboardInterrupt) as error:
        code = exit_code(error)
        if code == 1:
            raise
        _complain(message(error, _SILENT.get(type(error), "")), code, as_json=as_json)
    sys.exit(code)


def _listen() -> None:
    """When the system asks us to end, or our terminal goes, temporary files are removed."""
    signal.signal(signal.SIGTERM, _stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # which nohup asks for
        signal.signal(signal.SIGHUP, _stop)


def _prepare_streams() -> None:
    """Printing must not end a release, and no file may take the place of a closed stream."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free: this one
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _say(text: str) -> None:
    """Print what a command found; when it cannot be printed, the work is done all the same."""
    try:
        print(text)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        with contextlib.suppress(OSError, ValueError):  # what is left is not tried again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # else whoever read us has seen enough
            reason = error.strerror if isinstance(error, OSError) else error
            _warn(f"masquerade: All is done, but the answer cannot be printed: {reason}.")


def _warn(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def _stop(number: int, _: object) -> NoReturn:
    raise Stopped("Stopped.")


def _asked(arguments: list[str]) -> tuple[str, Any, list[str]]:
    """The program's full name, the class of its command, and what is left to parse."""
    if not arguments or arguments[0] in _HELP:
        _tell(_overview(), 0 if arguments else 2)
    if arguments[0] == "--version":
        _tell(f"masquerade {__version__}")
    verb, rest = arguments[0], arguments[1:]
    if not help_page.is_verb(verb):
        raise ValueError(_check.unknown("command", verb, help_page.verbs()))
    program, several, name = f"masquerade {verb}", help_page.commands(verb), None
    if several is not None:
        if not rest or rest[0] in _HELP:
            _tell(help_page.overview(verb), 0 if rest else 2)
        name, rest = rest[0], rest[1:]
        if name not in several:
            raise ValueError(_check.unknown(f"{verb} command", name, several))
        program = f"{program} {name}"
    known = help_page.command_class(verb, name)
    if known is not None:  # what can be said without importing the door is said at once
        wanted = help_page.wanted(known)
        chosen, others = _chosen(wanted, rest, is_asking=bool(_HELP & set(rest)))
        if _HELP & set(rest):
            _tell(help_page.page(program, known, chosen))
        whole = _program(program, chosen)
        words = misuse.checked(whole, known, help_page.entries_of(known, chosen), others)
        rest = [name for flag, _, name in chosen if name and not flag] + words
        rest += [f"--{flag}={name}" for flag, _, name in chosen if name and flag]
    door = import_module(f"masquerade.cli.{verb}")
    return program, door.COMMAND if name is None else door.COMMANDS[name], rest


def _tell(text: str, code: int = 0) -> NoReturn:
    _say(text)
    sys.exit(code)


def _parsed(program: str, command: Any, rest: list[str]) -> tuple[Any, list[Any]]:
    """The command with its flags, and the entries of rooms that it runs with."""
    fields: list[Any] = [("options", _mirror(command))]
    wanted = getattr(command, "ENTRIES", (command.ENTRY,) if hasattr(command, "ENTRY") else ())
    chosen, rest = _chosen(wanted, rest)
    for place, (_, room, name) in enumerate(chosen):
        if name is not None:
            entry = type(catalog.example(room, name))
            taken = _field_names(held for _, held in fields)
            word = getattr(command, "PREFIXES", {}).get(room)
            own = _field_names([entry])
            names = {each: f"{word}_{each}" for each in own & taken} if word else {}
            _refuse_shared(taken, own - set(names), name)
            fields.append((f"entry_{place}", _mirror(entry, names)))
    fields.append(("json", bool, dataclasses.field(default=False)))
    program = _program(program, chosen)
    found = _parse(program, dataclasses.make_dataclass("Arguments", fields), rest)
    entries = [getattr(found, f"entry_{place}", None) for place in range(len(wanted))]
    return _meant(found.options), [None if each is None else _meant(each) for each in entries]


def _program(name: str, chosen: Iterable[tuple[str, str, str | None]]) -> str:
    """How a command is called with its entries."""
    words = [f"--{flag} {entry}" if flag else entry for flag, _, entry in chosen if entry]
    return " ".join([name, *words])


def _chosen(
    wanted: Sequence[Sequence[str | None]], rest: list[str], *, is_asking: bool = False
) -> tuple[list[tuple[str, str, str | None]], list[str]]:
    """Flag, room and name of each entry that is asked for, and the other arguments.

    Raises:
        ValueError: if a name is not one of its room; if one is lacking, unless help is asked for.
    """
    found: list[tuple[str, str, str | None]] = []
    for flag, room, *usual in wanted:  # usually None: it may be left out
        assert flag is not None and room is not None
        name, rest = _take(rest, f"--{flag}") if flag else _first(rest)
        name = usual[0] if name is None and usual and not is_asking else name
        if name is None and not usual and not is_asking:
            spelled = f"--{flag} NAME" if flag else "NAME"
            raise ValueError(f"Expected {spelled}; choose from {', '.join(catalog.names(room))}.")
        if name is not None and name not in catalog.names(room):
            raise ValueError(_check.unknown(catalog.kind_of(room), name, catalog.names(room)))
        found.append((flag, room, name))
    return found, rest


def _text(answer: Answer, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(_plain_json(answer.data), allow_nan=False)
    return "\n".join(printable(line) for line in answer.lines)


def _field_names(several: Iterable[Any]) -> set[str]:
    return {field.name for held in several for field in dataclasses.fields(held)}


def _refuse_shared(taken: set[str], own: set[str], name: str) -> None:
    """A flag has one meaning."""
    if both := sorted(taken & own):
        raise ValueError(
            f"Expected flags with one meaning, got --{both[0]}, which {name} has as well; they "
            "cannot be used together here, only from Python."
        )


def _mirror(cls: Any, names: Mapping[str, str] | None = None) -> Any:
    """The same fields and no checks, some renamed: what is wrong is said by the class itself."""
    names, hints = names or {}, typing.get_type_hints(cls, include_extras=True)
    own = [each for each in dataclasses.fields(cls) if each.init]
    return dataclasses.make_dataclass(
        cls.__name__,
        [
            (names.get(each.name, each.name), hint, _same(each))
            for each, hint in zip(own, _hints([each.name for each in own], hints), strict=True)
        ],
        kw_only=True,
        namespace={"MEANT": (cls, {each.name: names.get(each.name, each.name) for each in own})},
    )


def _hints(names: Sequence[str], hints: Mapping[str, Any]) -> Iterator[Any]:
    """The types; what is given without a flag gets its word for messages.

    What comes after several words of one kind is named by `doors.misuse`, so it is a flag here.
    """
    is_after = False
    for name in names:
        hint = hints[name]
        if not _is_positional(hint):
            yield hint
        elif is_after:
            yield typing.get_args(hint)[0]
        else:
            is_after = typing.get_origin(typing.get_args(hint)[0]) is tuple
            yield typing.Annotated[hint, tyro.conf.arg(metavar=help_page.called(name))]


def _is_positional(hint: Any) -> bool:
    mark: Any = tyro.conf.Positional[int]
    return mark.__metadata__[0] in getattr(hint, "__metadata__", ())


def _same(each: dataclasses.Field[Any]) -> Any:
    if each.default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=each.default_factory)
    return dataclasses.field(default=each.default)


def _meant(mirrored: Any) -> Any:
    """The class itself, with all its checks."""
    cls, names = mirrored.MEANT
    return cls(**{name: getattr(mirrored, longer) for name, longer in names.items()})


def _parse(program: str, cls: Any, rest: list[str]) -> Any:
    """Parse with tyro; its message box becomes an ordinary error."""
    box, rules = io.StringIO(), tyro.conf
    config = (
        rules.OmitArgPrefixes,
        rules.FlagCreatePairsOff,
        rules.EnumChoicesFromValues,
        rules.HelptextFromCommentsOff,  # docstrings say it, and comments cost a look at the source
    )
    try:
        with contextlib.redirect_stderr(box):
            return tyro.cli(cls, prog=program, args=rest, config=config)
    except SystemExit as stop:
        if not stop.code:
            raise
        said = re.split(" (?:For full helptext|Argument helptext)", _plain(box.getvalue()))[0]
        said = said.removeprefix("Value error ").removeprefix("Parsing error ")
        raise ValueError(f"{said} ({program} --help lists the flags.)") from None


def _take(rest: list[str], flag: str) -> tuple[str | None, list[str]]:
    """The value of ``flag`` and the arguments without it."""
    for place, word in enumerate(rest):
        if word.startswith(f"{flag}="):
            return word.partition("=")[2], rest[:place] + rest[place + 1 :]
        if word == flag and place + 1 < len(rest):
            return rest[place + 1], rest[:place] + rest[place + 2 :]
    return None, rest


def _first(rest: list[str]) -> tuple[str | None, list[str]]:
    """The first argument, unless it is a flag, and the others."""
    return (rest[0], rest[1:]) if rest and not rest[0].startswith("-") else (None, rest)


def _plain_json(value: Any) -> Any:
    """JSON has no infinity (such an epsilon is null) and no bytes that are no text."""
    if isinstance(value, dict):
        return {_plain_json(key): _plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_json(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(box: str) -> str:
    """The words of a message box."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|[\u2500-\u257f]", " ", box).split())


def _complain(said: str, code: int, *, as_json: bool) -> None:
    if as_json:
        _warn(json.dumps(_plain_json({"error": said, "exit_code": code})))
    else:
        _warn("masquerade: " + "\n  ".join(printable(line) for line in said.split("\n")))


def _overview() -> str:
    lines = [f"  {verb:10} {said}" for verb, said in help_page.verbs().items()]
    return "\n".join(
        [
            "usage: masquerade VERB ... [--json]",
            "",
            "Publish recordings of people, or models trained on them, with a guarantee that holds.",
            "",
            *lines,
            "",
            "masquerade VERB --help lists the flags. Exit codes: 2 wrong use, 3 budget, 4 bad",
            "input file, 5 evidence above claim, 6 a heuristic hides nobody, 7 signature missing.",
        ]
    )
