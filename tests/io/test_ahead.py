"""Threads beside the caller's: in order, in little memory, and gone when the block is left."""

from __future__ import annotations

import _thread
import contextlib
import gc
import threading
import time
import weakref
from collections.abc import Generator, Iterator

import pytest

from masquerade.io.streams import count_waiting, hand_over, read_ahead


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


class Source:
    """Counts what was made, and notes its end."""

    def __init__(self, count: int, error: BaseException | None = None) -> None:
        self.made, self.is_closed, self._count, self._error = 0, False, count, error
        self.threads: set[int] = set()

    def items(self) -> Generator[int, None, None]:
        try:
            for number in range(self._count):
                self.threads.add(threading.get_ident())
                self.made += 1
                yield number
            if self._error is not None:
                raise self._error
        finally:
            self.is_closed = True


def test_items_come_in_order_from_another_thread_and_the_source_is_closed() -> None:
    source = Source(50)
    assert list(read_ahead(source.items(), max_waiting=3)) == list(range(50))
    assert source.is_closed and threading.get_ident() not in source.threads
    assert list(read_ahead(Source(0).items())) == []


@pytest.mark.parametrize("room", [1, 2, 5])
def test_no_more_are_made_than_there_is_room_for(room: int) -> None:
    source = Source(100)
    with contextlib.closing(read_ahead(source.items(), max_waiting=room)) as items:
        for taken in range(1, 6):
            next(items)
            time.sleep(0.02)
            assert source.made <= taken + room
    assert source.made < 20 and source.is_closed, "it ends when nobody wants more"


def test_an_error_comes_after_what_was_made_before_it_and_as_it_is() -> None:
    wrong = ValueError("of its own")
    source, got = Source(3, wrong), []
    with pytest.raises(ValueError, match="of its own") as caught:
        for item in read_ahead(source.items(), max_waiting=8):
            got.append(item)
    assert got == [0, 1, 2] and caught.value is wrong and source.is_closed


def test_an_error_of_the_caller_ends_the_thread_at_once() -> None:
    source = Source(10**9)
    with (
        pytest.raises(OSError, match="full"),
        contextlib.closing(read_ahead(source.items(), max_waiting=2)) as items,
    ):
        next(items)
        raise OSError("full")
    assert source.is_closed and source.made < 10


def test_what_is_handed_over_is_taken_in_order_by_another_thread() -> None:
    taken, threads = [], set()

    def take(item: int) -> None:
        taken.append(item)
        threads.add(threading.get_ident())

    with hand_over(take, max_waiting=2) as hand:
        for number in range(50):
            hand(number)
    assert taken == list(range(50)) and threading.get_ident() not in threads


@pytest.mark.parametrize("count", [1, 4, 100])
def test_what_a_taker_raises_reaches_whoever_hands_over(count: int) -> None:
    wrong = OSError(28, "No space left on device")

    def take(item: int) -> None:
        raise wrong

    given = 0
    with pytest.raises(OSError, match="No space") as caught, hand_over(take, max_waiting=2) as hand:
        for number in range(count):
            hand(number)
            given += 1
    assert caught.value is wrong and given <= 3


def test_an_error_of_the_caller_leaves_the_rest_untaken() -> None:
    taken, gate, begun = [], threading.Event(), threading.Event()

    def take(item: int) -> None:
        begun.set()
        gate.wait()
        taken.append(item)

    with pytest.raises(ValueError, match="mine"), hand_over(take, max_waiting=5) as hand:
        for number in range(5):
            hand(number)
        begun.wait()
        threading.Timer(0.05, gate.set).start()
        raise ValueError("mine")
    assert taken == [0], "only the one that was at work"
    time.sleep(0.1)  # the timer is a thread, too


def test_interrupts_that_keep_coming_do_not_leave_the_thread_behind() -> None:
    """Whoever closes a file below must be sure that nobody works on it any more."""
    at_work = threading.Event()

    def take(item: int) -> None:
        at_work.set()
        time.sleep(0.3)
        at_work.clear()

    def interrupt() -> None:
        at_work.wait()
        for _ in range(3):
            _thread.interrupt_main()
            time.sleep(0.03)

    teaser = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt):
        try:
            with hand_over(take, max_waiting=1) as hand:
                teaser.start()
                for number in range(3):
                    hand(number)
        finally:
            was_left = at_work.is_set()
            with contextlib.suppress(KeyboardInterrupt):
                teaser.join()
    assert not was_left
    teaser.join()


def test_an_error_keeps_nothing_alive_once_it_is_dropped() -> None:
    class Thing:
        pass

    def things(seen: list[weakref.ref[Thing]]) -> Generator[Thing, None, None]:
        thing = Thing()
        seen.append(weakref.ref(thing))
        yield thing
        raise ValueError("over")

    seen: list[weakref.ref[Thing]] = []
    gc.disable()
    try:
        with contextlib.suppress(ValueError):
            for _ in read_ahead(things(seen)):
                pass
        del _
        assert seen[0]() is None
    finally:
        gc.enable()


def test_small_things_wait_in_number_and_large_ones_by_their_size() -> None:
    assert count_waiting(1) == count_waiting(1280 * 720 * 3) > count_waiting(3840 * 2160 * 3) >= 2
    assert count_waiting(1 << 40) == 2
