"""Let the shell complete commands, flags, mechanisms and units: bash, zsh or fish."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from masquerade import catalog
from masquerade._optional import lazy_module
from masquerade.cli.flags import list_flags, list_wanted
from masquerade.guarantee import UnitName
from masquerade.result import CommandResult

if TYPE_CHECKING:
    import tyro
else:
    tyro = lazy_module("tyro")


@dataclass(frozen=True, kw_only=True)
class PrintBash:
    """Print the lines for bash.

    Example:
        masquerade completion bash >> ~/.bashrc
    """

    SHELL: ClassVar[str] = "bash"

    def run(self) -> CommandResult:
        """Print them: tyro writes them from all that commands and entries take."""
        from masquerade.cli import VERBS

        every = tyro.extras.SubcommandApp()
        for verb in VERBS:
            module = import_module(f"masquerade.cli.{verb}")
            if hasattr(module, "COMMAND"):
                every.command(_as_function(module.COMMAND), name=verb)
            else:
                every.command(_as_group(module.COMMANDS), name=verb)
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
            config = (tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff)
            every.cli(
                prog="masquerade", args=["--tyro-print-completion", self.SHELL], config=config
            )
        script = said.getvalue().replace("complete -F", "complete -o default -F")  # files, too
        return CommandResult(data={"script": script}, lines=script.splitlines())


class PrintZsh(PrintBash):
    """Print the lines for zsh; they go after compinit.

    Example:
        masquerade completion zsh >> ~/.zshrc
    """

    SHELL = "zsh"


class PrintFish(PrintBash):
    """Print the lines for fish.

    Example:
        masquerade completion fish > ~/.config/fish/completions/masquerade.fish
    """

    SHELL = "fish"


def _as_group(commands: Mapping[str, Any]) -> Any:
    group = tyro.extras.SubcommandApp()
    for name in commands:
        group.command(_as_function(commands[name]), name=name)
    return group


def _as_function(kind: type[Any]) -> Any:
    """Something that takes the flags of a command, and those of every entry that it can have."""
    hints: dict[str, Any] = {"json": bool}
    for flag, package, *_ in list_wanted(kind):
        for name in catalog.list_entries(package):
            own = list_flags(catalog.load_class(package, name)).values()
            hints |= {each.name: each.hint for each in own}
        hints[flag or "name"] = Literal[catalog.list_entries(package)]
    own = list_flags(kind).values()
    hints |= {each.name: each.hint for each in own if not each.is_positional}
    if "unit" in hints:
        hints["unit"] = Literal[tuple(unit.value for unit in UnitName)]
    switches = {name: dataclasses.field(default=False) for name in hints if hints[name] is bool}
    fields = [(name, hint, switches.get(name, dataclasses.field())) for name, hint in hints.items()]
    return dataclasses.make_dataclass("Flags", fields, kw_only=True)


COMMANDS = {"bash": PrintBash, "fish": PrintFish, "zsh": PrintZsh}
