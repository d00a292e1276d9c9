"""A stop that somebody asked for is heard, also where a library loses it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # for a stop


@dataclass(frozen=True)
class RaisedSignals:
    """What signals have raised."""

    raised: list[BaseException] = field(default_factory=list)

    def raise_lost(self) -> None:
        """Raise the first again: whoever still asks has not heard of it."""
        if self.raised:
            raise self.raised.pop(0)


@contextlib.contextmanager
def note_signals() -> Iterator[RaisedSignals]:
    """Note what signals raise inside, and at the end raise what nobody heard of.

    A signal may come while compiled code makes an exception of its own, and be lost with it: PyAV
    makes one at the end of every file.
    """
    stops = RaisedSignals()
    if threading.current_thread() is not threading.main_thread():  # signals are told to that one
        yield stops
        return
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    try:
        for number, handler in before.items():
            if callable(handler):
                signal.signal(number, _wrap_handler(handler, stops))
        yield stops
    except BaseException:
        stops.raised.clear()  # it holds on to every frame that it passed
        raise
    finally:
        for number, handler in before.items():
            if callable(handler):
                signal.signal(number, handler)
    stops.raise_lost()


def _wrap_handler(handler: Callable[..., Any], stops: RaisedSignals) -> Callable[..., Any]:
    def note_raised(*words: Any) -> Any:
        try:
            return handler(*words)
        except BaseException as error:
            stops.raised.append(error)
            raise

    return note_raised
