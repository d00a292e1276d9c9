"""Work beside the caller's: a thread makes things ahead of time, or takes what is handed over.

FFmpeg, hashes and numpy let other threads run meanwhile, so that two processors have work. Things
go from hand to hand in order, and only a few wait: memory does not grow. Whatever ends one side
ends the other before the block is left, and what goes wrong in the thread is raised to the caller
as it is. Signals never come to such a thread, so no library can lose them there.

Queues are `SimpleQueue`, which an interrupt cannot leave half locked.
"""

from __future__ import annotations

import contextlib
import contextvars
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from queue import SimpleQueue
from typing import TypeVar

from masquerade.compute.stops import ASKS

Item = TypeVar("Item")
_BYTES = 1 << 25  # that may wait
_MOST = 12  # things, however small


def room_for(size: int) -> int:
    """How many things of so many bytes may wait: at least two, so that both sides have work.

    Example:
        >>> room_for(1280 * 720 * 3), room_for(1 << 30)
        (12, 2)
    """
    return max(2, min(_MOST, _BYTES // max(size, 1)))


def ahead(items: Generator[Item, None, None], *, room: int = _MOST) -> Generator[Item, None, None]:
    """The same items, made by a thread before they are asked for.

    Args:
        items: made and closed in the thread; nobody else may use it.
        room: how many may wait.
    """
    ready: SimpleQueue[tuple[Item] | BaseException | None] = SimpleQueue()
    wanted: SimpleQueue[None] = SimpleQueue()  # one entry for each item that may be made
    found: tuple[Item] | BaseException | None = None
    is_over = False

    def make() -> None:
        try:
            with contextlib.closing(items):
                for item in items:
                    ready.put((item,))
                    wanted.get()
                    if is_over:
                        break
        except BaseException as error:
            ready.put(error)
        else:
            ready.put(None)

    thread = _thread(make, "ahead")
    for _ in range(room - 1):
        wanted.put(None)
    try:
        _start(thread)
        while isinstance(found := ready.get(), tuple):
            wanted.put(None)
            yield found[0]
        if found is not None:
            raise found
    finally:
        found, is_over = None, True  # what was raised holds on to every frame that it passed
        wanted.put(None)
        _wait_for(thread)


@contextlib.contextmanager
def handing(take: Callable[[Item], None], *, room: int = _MOST) -> Iterator[Callable[[Item], None]]:
    """Hand items over to a thread that takes one after the other.

    When the block ends all have been taken; when it is left by an error no further one is.

    Args:
        take: called in the thread; nobody else may use what it works on before the block ends.
        room: how many may wait.

    Yields:
        What hands an item over. It raises what ``take`` has raised, then or at the end.
    """
    given: SimpleQueue[tuple[Item] | None] = SimpleQueue()
    free: SimpleQueue[None] = SimpleQueue()  # one entry for each item that may be given
    failed: list[BaseException] = []
    is_over = False

    def work() -> None:
        try:
            while (found := given.get()) is not None and not is_over:
                take(found[0])
                free.put(None)
        except BaseException as error:
            failed.append(error)
            free.put(None)

    def give(item: Item) -> None:
        free.get()
        if failed:
            free.put(None)
            raise failed[0]
        given.put((item,))

    thread = _thread(work, "handing")
    for _ in range(room):
        free.put(None)
    try:
        _start(thread)
        yield give
        given.put(None)
        _wait_for(thread)
        if failed:
            raise failed[0]
    finally:
        is_over = True
        given.put(None)
        _wait_for(thread)
        failed.clear()  # what was raised holds on to every frame that it passed


def _thread(work: Callable[[], None], name: str) -> threading.Thread:
    """One that works where its maker does: on the same device."""
    around = contextvars.copy_context()
    return threading.Thread(target=around.run, args=(work,), name=name, daemon=True)


def _start(thread: threading.Thread) -> None:
    """Start it while signals wait: what one raises inside would leave a lock of its held."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ASKS)
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait_for(thread: threading.Thread) -> None:
    """Until it is over, also if somebody asks to stop meanwhile: it still uses what we close."""
    asked: BaseException | None = None
    while thread.is_alive():
        try:
            thread.join()
        except BaseException as error:
            asked = error
    if asked is not None:
        raise asked
