"""The command line: verbs are doors, flags are the fields of dataclasses."""

from __future__ import annotations

import ast
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
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from masquerade import __version__, _check, catalog
from masquerade._optional import Later
from masquerade._printed import printable
from masquerade.doors import Answer
from masquerade.errors import Stopped, exit_code, message

if TYPE_CHECKING:
    import tyro
else:
    tyro = Later("tyro")  # an overview has nothing to parse

_DOORS = Path(__file__).parent / "doors"
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


def verbs() -> dict[str, str]:
    """The verbs and the first line of each door's docstring, without importing any."""
    found = {}
    for path in sorted(_DOORS.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if catalog.assigned(tree) & {"COMMAND", "COMMANDS"}:
            found[path.stem] = (ast.get_docstring(tree) or "").splitlines()[0]
    return found


def _asked(arguments: list[str]) -> tuple[str, Any, list[str]]:
    """The program's full name, the class of its command, and what is left to parse."""
    if not arguments or arguments[0] in ("-h", "--help"):
        _tell(_overview(), 0 if arguments else 2)
    if arguments[0] == "--version":
        _tell(f"masquerade {__version__}")
    verb, rest = arguments[0], arguments[1:]
    if verb not in verbs():
        raise ValueError(_check.unknown("command", verb, verbs()))
    door = import_module(f"masquerade.doors.{verb}")
    program = f"masquerade {verb}"
    if hasattr(door, "COMMAND"):
        return program, door.COMMAND, rest
    if not rest or rest[0] in ("-h", "--help"):
        lines = [f"  {name:12} {_summary(cls)}" for name, cls in door.COMMANDS.items()]
        usage = f"usage: {program} COMMAND ... [--json]"
        _tell("\n".join([usage, "", *lines]), 0 if rest else 2)
    name, rest = rest[0], rest[1:]
    if name not in door.COMMANDS:
        raise ValueError(_check.unknown(f"{verb} command", name, door.COMMANDS))
    return f"{program} {name}", door.COMMANDS[name], rest


def _tell(text: str, code: int = 0) -> NoReturn:
    _say(text)
    sys.exit(code)


def _parsed(program: str, command: Any, rest: list[str]) -> tuple[Any, list[Any]]:
    """The command with its flags, and the entries of rooms that it runs with."""
    fields: list[Any] = [("options", command)]
    about = [command.__doc__.strip().splitlines()[0]]
    wanted = getattr(command, "ENTRIES", (command.ENTRY,) if hasattr(command, "ENTRY") else ())
    for place, (flag, room, *usual) in enumerate(wanted):  # usually None: it may be left out
        name, rest = _take(rest, f"--{flag}") if flag else _first(rest)
        name = usual[0] if name is None and usual else name
        spelled = f"--{flag} NAME" if flag else "NAME"
        if name is None and not usual and not {"-h", "--help"} & set(rest):
            raise ValueError(f"Expected {spelled}; choose from {', '.join(catalog.names(room))}.")
        about.append(f"{spelled} is one of: {', '.join(catalog.names(room))}.")
        if name is not None:
            entry = type(catalog.example(room, name))
            about.append(f"{name}: {_summary(entry)}")
            taken = _field_names(held for _, held in fields)
            if word := getattr(command, "PREFIXES", {}).get(room):
                entry = _prefixed(entry, taken, word)
            _refuse_shared(taken, entry, name)
            fields.append((f"entry_{place}", entry))
    fields.append(("json", bool, dataclasses.field(default=False)))
    chosen = _parse(program, dataclasses.make_dataclass("Arguments", fields), rest, about)
    found = [getattr(chosen, f"entry_{place}", None) for place in range(len(wanted))]
    return chosen.options, [_as_named(entry) for entry in found]


def _text(answer: Answer, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(_plain_json(answer.data), allow_nan=False)
    return "\n".join(printable(line) for line in answer.lines)


def _field_names(several: Iterable[Any]) -> set[str]:
    return {field.name for held in several for field in dataclasses.fields(held)}


def _refuse_shared(taken: set[str], entry: Any, name: str) -> None:
    """A flag has one meaning."""
    if both := sorted(taken & _field_names([entry])):
        raise ValueError(
            f"Expected flags with one meaning, got --{both[0]}, which {name} has as well; they "
            "cannot be used together here, only from Python."
        )


def _prefixed(entry: Any, taken: set[str], word: str) -> Any:
    """The same fields, of which those that are taken get a word in front of their names."""
    own = dataclasses.fields(entry)
    names = {each.name: f"{word}_{each.name}" for each in own if each.name in taken}
    if not names:
        return entry
    hints, about = typing.get_type_hints(entry, include_extras=True), entry.__doc__ or ""
    for name, longer in names.items():
        about = re.sub(rf"^( +){name}(?=:)", rf"\1{longer}", about, flags=re.MULTILINE)
    made = dataclasses.make_dataclass(
        entry.__name__,
        [(names.get(each.name, each.name), hints[each.name], _same_default(each)) for each in own],
        kw_only=True,
        namespace={"__doc__": about, "NAMED": (entry, names)},
    )
    return made


def _same_default(each: dataclasses.Field[Any]) -> Any:
    if each.default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=each.default_factory)
    return dataclasses.field(default=each.default)


def _as_named(entry: Any) -> Any:
    """What `_prefixed` renamed, under its own names."""
    if not hasattr(entry, "NAMED"):
        return entry
    made, names = entry.NAMED
    own = [each.name for each in dataclasses.fields(made)]
    return made(**{name: getattr(entry, names.get(name, name)) for name in own})


def _parse(program: str, cls: Any, rest: list[str], about: list[str]) -> Any:
    """Parse with tyro; with ``--json`` its message box becomes an ordinary error."""
    box, rules = io.StringIO(), tyro.conf
    config = (rules.OmitArgPrefixes, rules.FlagCreatePairsOff, rules.EnumChoicesFromValues)
    quiet = contextlib.redirect_stderr(box) if "--json" in rest else contextlib.nullcontext()
    try:
        with quiet:
            return tyro.cli(
                cls, prog=program, args=rest, config=config, description="\n".join(about)
            )
    except SystemExit as stop:
        if not stop.code or "--json" not in rest:
            raise
        raise ValueError(_plain(box.getvalue())) from None


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


def _summary(cls: type) -> str:
    return (cls.__doc__ or "").strip().splitlines()[0]


def _overview() -> str:
    lines = [f"  {verb:10} {said}" for verb, said in verbs().items()]
    return "\n".join(
        [
            "usage: masquerade VERB ... [--json]",
            "",
            "Publish recordings of people, or models trained on them, with a guarantee that holds.",
            "",
            *lines,
            "",
            "masquerade VERB --help lists the flags. Exit codes: 2 wrong use, 3 budget, 4 bad",
            "input file, 5 evidence above claim.",
        ]
    )
