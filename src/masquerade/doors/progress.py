"""Progress on standard error, with an estimate; silent where nobody watches."""

from __future__ import annotations

from contextlib import AbstractContextManager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


def bars() -> Progress:
    """Bars with the time that is left; they vanish when the work is done."""
    columns = (TextColumn("{task.description:24}"), BarColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def waiting(what: str, *, seconds: float) -> AbstractContextManager[object]:
    """A spinner for work in one piece, with how long it should take."""
    about = "a moment" if seconds < 2 else f"about {seconds:.0f} s"
    return Console(stderr=True).status(f"{what}, {about}")
