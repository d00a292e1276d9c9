"""`Answer`: what a command says, to machines and to people."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The result of a command.

    Args:
        data: printed as one JSON object with ``--json``.
        lines: printed otherwise.
        exit_code: non-zero if the result is bad news.
    """

    data: dict[str, Any]
    lines: list[str] = field(default_factory=list)
    exit_code: int = 0
