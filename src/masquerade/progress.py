"""Progress on standard error, with an estimate: bars on a screen, elsewhere a line now and then.

Notes for the owner of a recording alone: said in the house, never written into a receipt.

What a heuristic finds out about a private recording may matter to its owner (a mask that selects
nothing) and must not be published. It says an aside; whoever listens shows it as private.
"""

from __future__ import annotations

import contextlib
import contextvars
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from masquerade._formatting import escape_control, format_seconds

_MIN_GAP_S, _MAX_GAP_S = 10.0, 60.0  # seconds from one line to the next


class _TotalTimeColumn(ProgressColumn):
    """The time that is left, as the tasks that were done since the beginning took theirs.

    Several that end in one moment, or none for half a minute, do not mislead it.
    """

    def render(self, task: Task) -> Text:
        done = task.completed - task.fields["before"]
        if not done or task.remaining is None:
            return Text("-:--:--", style="progress.remaining")
        last = task.fields["last"]  # when one was done
        left = max(last * task.remaining / done - ((task.elapsed or 0.0) - last), 0.0)
        return Text(str(timedelta(seconds=round(left))), style="progress.remaining")


def make_progress_bars(
    *, is_shown: bool = True, time_left: ProgressColumn | None = None
) -> Progress:
    """Bars with the time that is left; they vanish when the work is done.

    Where standard error is no screen they are lines, the first after ten seconds; with ``--json``
    there are none, since a machine reads it.
    """
    console = Console(stderr=True)
    if is_shown and not console.is_terminal and "--json" not in sys.argv:
        return _ProgressLines()
    columns = (
        TextColumn("{task.description:24}", markup=False),
        BarColumn(),
        time_left or TimeRemainingColumn(),
    )
    is_off = not (console.is_terminal and is_shown)
    return Progress(*columns, console=console, transient=True, disable=is_off)


class _ProgressLines(Progress):
    """Draws nothing; whoever reports a step may give rise to a line."""

    def __init__(self) -> None:
        super().__init__(disable=True)
        self._began = self._last = time.monotonic()
        self._since: dict[str, tuple[float, float]] = {}  # when work began, and with what done

    def update(self, task_id: TaskID, *args: Any, **change: Any) -> None:
        super().update(task_id, *args, **change)
        self._print_step(task_id)

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        super().advance(task_id, advance)
        self._print_step(task_id)

    def _print_step(self, task_id: TaskID) -> None:
        task, now = self.tasks[task_id], time.monotonic()
        since, before = self._since.setdefault(task.description, (now, task.completed))
        passed = now - self._began
        if now - self._last < min(max(_MIN_GAP_S, passed / 20), _MAX_GAP_S):
            return
        self._last = now
        said = [escape_control(task.description)]
        if task.completed:
            of = "" if task.total is None else f" of {task.total:.0f}"
            said.append(f"step {task.completed:.0f}{of}")
        said.append(f"{timedelta(seconds=round(passed))} so far")
        if task.remaining and task.completed > before:
            left = task.remaining * (now - since) / (task.completed - before)
            said.append(f"{format_seconds(left)} left of it")
        print(", ".join(said), file=sys.stderr, flush=True)


@dataclass(frozen=True)
class WholeBar:
    """How many of many tasks are done."""

    progress: Progress
    task: TaskID

    def advance(self) -> None:
        """One more."""
        elapsed = self.progress.tasks[self.task].elapsed or 0.0
        self.progress.update(self.task, advance=1, last=elapsed)

    def print_line(self, line: str) -> None:
        """A line above the bar."""
        if not self.progress.disable:
            self.progress.console.print(escape_control(line), markup=False, highlight=False)
        elif "--json" not in sys.argv:
            print(escape_control(line), file=sys.stderr, flush=True)


@contextmanager
def whole_bar(title: str, *, total: int | None, done: int = 0) -> Iterator[WholeBar]:
    """A bar over many tasks, with an estimate over all of them.

    Args:
        title: of the bar.
        total: tasks, if that is known.
        done: of them, before it began.
    """
    with make_progress_bars(time_left=_TotalTimeColumn()) as progress:
        task = progress.add_task(title, total=total, before=done, last=0.0)
        progress.update(task, completed=done)
        yield WholeBar(progress, task)


def make_reporter(progress: Progress) -> Callable[[str, int, int], None]:
    """Called with what is done, how far, and of how much: a bar for each kind of work."""
    tasks: dict[str, TaskID] = {}

    def report_step(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = progress.add_task(what, total=total)
        progress.update(tasks[what], completed=done)

    return report_step


@contextlib.contextmanager
def show_steps() -> Iterator[Callable[[str, int, int], None]]:
    """One bar for work of several kinds: it says what is done, how far, and of how much."""
    with make_progress_bars() as shown:
        task = shown.add_task("", total=None)
        yield lambda what, done, total: shown.update(
            task, description=what, completed=done, total=total
        )


def show_spinner(what: str, *, seconds: float) -> AbstractContextManager[object]:
    """A spinner for work in one piece, with how long it should take."""
    console = Console(stderr=True)
    about = "a moment" if seconds < 2 else f"about {seconds:.0f} s"
    if console.is_terminal:
        return console.status(f"{what}, {about}")
    if seconds >= _MIN_GAP_S and "--json" not in sys.argv:
        print(f"{what}, {about}", file=sys.stderr, flush=True)
    return nullcontext()


_OWNER_NOTES: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar(
    "heard", default=None
)


def tell_owner(said: str) -> None:
    """Tell the owner; without a listener nothing happens."""
    heard = _OWNER_NOTES.get()
    if heard is not None and said not in heard:
        heard.append(said)


@contextlib.contextmanager
def collect_owner_notes() -> Iterator[list[str]]:
    """What is said inside the block, each once, also by threads that it starts.

    Example:
        >>> with collect_owner_notes() as heard:
        ...     tell_owner("the mask is constant")
        >>> heard
        ['the mask is constant']
    """
    heard: list[str] = []
    token = _OWNER_NOTES.set(heard)
    try:
        yield heard
    finally:
        _OWNER_NOTES.reset(token)
