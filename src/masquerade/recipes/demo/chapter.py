"""A chapter of the demo: what it adds to the page, to the screen and to the answer for machines."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from masquerade.report import page


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """Sections of the page, lines on a screen, and the same as plain values."""

    sections: Sequence[page.Section]
    lines: Sequence[str] = ()
    data: dict[str, Any] = field(default_factory=dict)


def table(title: str, heading: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """For a screen."""
    stream = io.StringIO()
    shown = Table(*heading, title=title, show_lines=True)
    for row in rows:
        shown.add_row(*row)
    Console(file=stream, width=132).print(shown)
    return stream.getvalue()
