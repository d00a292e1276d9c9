"""What a command gives: one JSON object, the lines that a person reads, and an exit code.

A verb's module has ``COMMAND``, or ``COMMANDS`` by name where it has several: frozen dataclasses
whose fields are the flags and whose ``run`` returns a `CommandResult`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """The result of a command.

    Args:
        data: printed as one JSON object with ``--json``.
        lines: printed otherwise.
        exit_code: non-zero if the result is bad news.
    """

    data: dict[str, Any]
    lines: list[str] = field(default_factory=list)
    exit_code: int = 0

    @classmethod
    def merge_answers(cls, several: Mapping[str, CommandResult]) -> CommandResult:
        """One answer of several by their names; that of one alone is itself."""
        if len(several) == 1:
            return next(iter(several.values()))
        lines = [line for name, one in several.items() for line in (f"{name}:", *one.lines)]
        return cls(
            data={"files": {name: one.data for name, one in several.items()}},
            lines=lines,
            exit_code=max(one.exit_code for one in several.values()),
        )
