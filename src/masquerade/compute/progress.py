"""Progress on standard error, with an estimate; silent where nobody watches."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


def bars(*, is_shown: bool = True) -> Progress:
    """Bars with the time that is left; they vanish when the work is done."""
    columns = (
        TextColumn("{task.description:24}", markup=False),
        BarColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    is_off = not (console.is_terminal and is_shown)
    return Progress(*columns, console=console, transient=True, disable=is_off)


def teller(progress: Progress) -> Callable[[str, int, int], None]:
    """Called with what is done, how far, and of how much: a bar for each kind of work."""
    tasks: dict[str, TaskID] = {}

    def tell(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = progress.add_task(what, total=total)
        progress.update(tasks[what], completed=done)

    return tell


def waiting(what: str, *, seconds: float) -> AbstractContextManager[object]:
    """A spinner for work in one piece, with how long it should take."""
    about = "a moment" if seconds < 2 else f"about {seconds:.0f} s"
    return Console(stderr=True).status(f"{what}, {about}")
