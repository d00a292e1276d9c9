"""The command line: a verb is a module, and flags are the fields of dataclasses."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from masquerade import __version__, _check
from masquerade._formatting import escape_control
from masquerade.cli import help_page, parsing
from masquerade.errors import StopRequested, exit_code, format_error
from masquerade.result import CommandResult

# Each verb is a module of `masquerade.cli`, and its first line; the others are not imported.
VERBS = {
    "account": "What noise costs and what a target needs; nothing here reads data.",
    "attack": "Attack what was published: who is it, what do people look like, where was it?",
    "audit": "Put a claimed epsilon to the test: claim and evidence side by side.",
    "completion": (
        "Let the shell complete commands, flags, mechanisms and units: bash, zsh or fish."
    ),
    "data": "Look into recordings: what a video file holds, which data sets there are, Stage.",
    "demo": "Run the systems small on people who never lived, and write one page.",
    "estimate": "Find people's joints in photos with a trained model, and draw them.",
    "evaluate": "Measure a trained model on the test split of a data set.",
    "ledger": (
        "Set a budget on recordings, see what is left of it, and verify that nobody changed the "
        "words."
    ),
    "preview": (
        "See before and after at once: a sheet of three units and two epsilons, with rehearsal "
        "noise."
    ),
    "receipt": (
        "Tie a published file to its receipt, and the receipt to what the mechanism really "
        "promises."
    ),
    "recipe": (
        "Say where a recipe of earlier versions went: to the demo, the experiments or the tools."
    ),
    "release": (
        "Publish a recording, or a folder of them: video, picture, array or table, with receipts."
    ),
    "report": "Write one self-contained page about published files: pictures, promise, receipt.",
    "train": (
        "Train a model on sensitive recordings, with noise where it is needed, and publish it."
    ),
    "utility": "Measure how much of the picture is left of a video; the figures are private.",
}
_HELP_FLAGS = {"-h", "--help"}
_WORDLESS_ERRORS = {
    KeyboardInterrupt: "Interrupted.",
    MemoryError: "Expected more memory than there is; use fewer trials or a smaller file.",
}


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with a code that means something (see `masquerade.errors`)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in arguments
    _prepare_streams()
    _catch_signals()
    try:
        command, entries = _read_arguments(arguments)
        answer = command.run(*entries)
        _print_answer(_format_answer(answer, as_json=as_json))
        code = answer.exit_code
    except (Exception, KeyboardInterrupt) as error:
        code = exit_code(error)
        if code == 1:
            raise
        _print_complaint(
            format_error(error, _WORDLESS_ERRORS.get(type(error), "")), code, as_json=as_json
        )
    sys.exit(code)


def _catch_signals() -> None:
    """When the system asks us to end, or our terminal goes, temporary files are removed."""
    signal.signal(signal.SIGTERM, _raise_stop_request)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # which nohup asks for
        signal.signal(signal.SIGHUP, _raise_stop_request)


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


def _print_answer(text: str) -> None:
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
            _print_error(f"masquerade: All is done, but the answer cannot be printed: {reason}.")


def _print_error(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def _raise_stop_request(number: int, _: object) -> NoReturn:
    raise StopRequested("Stopped.")


def _find_command(arguments: list[str]) -> tuple[str, type[Any], list[str]]:
    """How a command is called, its class, and what was typed after its name; or help is printed."""
    if not arguments or arguments[0] in _HELP_FLAGS:
        _print_and_exit(_format_overview(), 0 if arguments else 2)
    if arguments[0] == "--version":
        _print_and_exit(f"masquerade {__version__}")
    verb, rest = arguments[0], arguments[1:]
    if verb not in VERBS:
        raise ValueError(_check.describe_unknown("command", verb, VERBS))
    if verb == "recipe" and rest and rest[0] not in _HELP_FLAGS:
        rest = rest[:1]  # whatever its flags are, they went elsewhere with it
    program, module = f"masquerade {verb}", import_module(f"masquerade.cli.{verb}")
    if hasattr(module, "COMMAND"):
        return program, module.COMMAND, rest
    if not rest or rest[0] in _HELP_FLAGS:
        _print_and_exit(help_page.format_verb_help(verb, module), 0 if rest else 2)
    if rest[0] not in tuple(module.COMMANDS):
        raise ValueError(_check.describe_unknown(f"{verb} command", rest[0], module.COMMANDS))
    return f"{program} {rest[0]}", module.COMMANDS[rest[0]], rest[1:]


def _print_and_exit(text: str, code: int = 0) -> NoReturn:
    _print_answer(text)
    sys.exit(code)


def _read_arguments(arguments: list[str]) -> tuple[Any, list[Any]]:
    """The command with its flags, and the entries that it runs with."""
    program, kind, rest = _find_command(arguments)
    is_asking = bool(_HELP_FLAGS & set(rest))
    chosen, rest = parsing.choose_entries(kind, rest, is_asking=is_asking)
    if is_asking:
        _print_and_exit(help_page.format_command_help(program, kind, chosen))
    return parsing.read_command(program, kind, chosen, rest)


def _format_answer(answer: CommandResult, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(_plain_json(answer.data), allow_nan=False)
    return "\n".join(escape_control(line) for line in answer.lines)


def _plain_json(value: Any) -> Any:
    """JSON has no infinity (such an epsilon is null) and no bytes that are no text."""
    if isinstance(value, dict):
        return {_plain_json(key): _plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_json(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_complaint(error_text: str, code: int, *, as_json: bool) -> None:
    if as_json:
        _print_error(json.dumps(_plain_json({"error": error_text, "exit_code": code})))
    else:
        _print_error(
            "masquerade: " + "\n  ".join(escape_control(line) for line in error_text.split("\n"))
        )


def _format_overview() -> str:
    lines = [f"  {verb:10} {said}" for verb, said in VERBS.items()]
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
