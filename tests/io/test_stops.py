"""A stop that somebody asked for is heard, also where a library loses it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from masquerade.errors import StopRequested
from masquerade.io.interrupts import note_signals


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM])
def stop(request: pytest.FixtureRequest) -> Iterator[Callable[[], None]]:
    """Asks for a stop, which is raised at once."""

    def stopped(*_: Any) -> None:
        raise StopRequested("asked for")

    before = signal.signal(request.param, stopped)
    yield lambda: signal.raise_signal(request.param)
    signal.signal(request.param, before)


def test_a_stop_that_is_swallowed_inside_is_raised_at_the_end(stop: Callable[[], None]) -> None:
    after = False
    with pytest.raises(StopRequested, match="asked for"), note_signals():
        with contextlib.suppress(BaseException):
            stop()
        after = True
    assert after


def test_a_stop_that_is_swallowed_is_raised_where_it_is_asked_for(stop: Callable[[], None]) -> None:
    with pytest.raises(StopRequested, match="asked for"), note_signals() as stops:
        stops.raise_lost()
        with contextlib.suppress(BaseException):
            stop()
        stops.raise_lost()
        pytest.fail("went on")


def test_a_stop_that_is_heard_is_raised_where_it_came(stop: Callable[[], None]) -> None:
    with pytest.raises(StopRequested, match="asked for"), note_signals():
        stop()
        pytest.fail("went on")


def test_another_error_is_not_replaced(stop: Callable[[], None]) -> None:
    with pytest.raises(OSError, match="full"), note_signals():
        with contextlib.suppress(BaseException):
            stop()
        raise OSError("full")


def test_signals_are_handled_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    with note_signals():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_a_thread_changes_no_handler() -> None:
    seen: list[Any] = []

    def work() -> None:
        with note_signals():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
