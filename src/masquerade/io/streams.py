"""Work ahead of time on a thread, and things that wait on disk where memory would fill.

Things that would fill the memory wait on disk, in a file without a name that ends with us.

Work beside the caller's: a thread makes things ahead of time, or takes what is handed over.

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
import tempfile
import threading
import zlib
from collections.abc import Callable, Generator, Iterator
from queue import SimpleQueue
from types import TracebackType
from typing import TypeVar

import numpy as np

from masquerade.io.interrupts import STOP_SIGNALS

Item = TypeVar("Item")
_MAX_WAITING_BYTES = 1 << 25  # that may wait
_MAX_WAITING = 12  # things, however small


def count_waiting(size: int) -> int:
    """How many things of so many bytes may wait: at least two, so that both sides have work.

    Example:
        >>> count_waiting(1280 * 720 * 3), count_waiting(1 << 30)
        (12, 2)
    """
    return max(2, min(_MAX_WAITING, _MAX_WAITING_BYTES // max(size, 1)))


def read_ahead(
    items: Generator[Item, None, None], *, max_waiting: int = _MAX_WAITING
) -> Generator[Item, None, None]:
    """The same items, made by a thread before they are asked for.

    Args:
        items: made and closed in the thread; nobody else may use it.
        max_waiting: how many may wait.
    """
    ready: SimpleQueue[tuple[Item] | BaseException | None] = SimpleQueue()
    wanted: SimpleQueue[None] = SimpleQueue()  # one entry for each item that may be made
    found: tuple[Item] | BaseException | None = None
    is_over = False

    def put_items() -> None:
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

    thread = _make_thread(put_items, "ahead")
    for _ in range(max_waiting - 1):
        wanted.put(None)
    try:
        _start_thread(thread)
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
def hand_over(
    take: Callable[[Item], None], *, max_waiting: int = _MAX_WAITING
) -> Iterator[Callable[[Item], None]]:
    """Hand items over to a thread that takes one after the other.

    When the block ends all have been taken; when it is left by an error no further one is.

    Args:
        take: called in the thread; nobody else may use what it works on before the block ends.
        max_waiting: how many may wait.

    Yields:
        What hands an item over. It raises what ``take`` has raised, then or at the end.
    """
    given: SimpleQueue[tuple[Item] | None] = SimpleQueue()
    free: SimpleQueue[None] = SimpleQueue()  # one entry for each item that may be given
    failed: list[BaseException] = []
    is_over = False

    def take_items() -> None:
        try:
            while (found := given.get()) is not None and not is_over:
                take(found[0])
                free.put(None)
        except BaseException as error:
            failed.append(error)
            free.put(None)

    def put_item(item: Item) -> None:
        free.get()
        if failed:
            free.put(None)
            raise failed[0]
        given.put((item,))

    thread = _make_thread(take_items, "handing")
    for _ in range(max_waiting):
        free.put(None)
    try:
        _start_thread(thread)
        yield put_item
        given.put(None)
        _wait_for(thread)
        if failed:
            raise failed[0]
    finally:
        is_over = True
        given.put(None)
        _wait_for(thread)
        failed.clear()  # what was raised holds on to every frame that it passed


def _make_thread(work: Callable[[], None], name: str) -> threading.Thread:
    """One that works where its maker does: on the same device."""
    around = contextvars.copy_context()
    return threading.Thread(target=around.run, args=(work,), name=name, daemon=True)


def _start_thread(thread: threading.Thread) -> None:
    """Start it while signals wait: what one raises inside would leave a lock of its held."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
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


_ZLIB_LEVEL = 1  # of zlib's levels


class Spool:
    """Pieces of bytes in order; only where each begins is in memory.

    The file has no name from the first moment, so that nobody else can open it, and however the
    process ends nothing is left. It stands where Python's ``tempfile`` puts files: ``TMPDIR``
    decides, and a disk is better than a folder in memory. Several threads may add and read.

    Args:
        is_packed: whether pieces are compressed.

    Example:
        >>> with Spool(is_packed=True) as spool:
        ...     (spool.add_piece(b"one"), spool.add_piece(b"two")), spool[0], len(spool)
        ((0, 1), b'one', 2)
    """

    def __init__(self, *, is_packed: bool = False) -> None:
        self._file = tempfile.TemporaryFile()
        self._is_packed, self._ends = is_packed, [0]
        self._is_moved = threading.Lock()  # where the file is read or written next

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add_piece(self, piece: bytes) -> int:
        """Put a piece at the end; its number."""
        held = zlib.compress(piece, _ZLIB_LEVEL) if self._is_packed else piece
        with self._is_moved:
            self._file.seek(self._ends[-1])
            self._file.write(held)
            self._ends.append(self._ends[-1] + len(held))
            return len(self) - 1

    def __getitem__(self, number: int) -> bytes:
        if not 0 <= number < len(self):
            raise IndexError(f"Expected a number below {len(self)}, got {number}.")
        with self._is_moved:
            self._file.seek(self._ends[number])
            held = self._file.read(self._ends[number + 1] - self._ends[number])
        return zlib.decompress(held) if self._is_packed else held

    def close(self) -> None:
        """Forget all of it."""
        self._file.close()


class MaskSpool:
    """Masks (H, W) bool of one size, packed: a minute of 720p takes a few megabytes of disk."""

    def __init__(self, height: int, width: int) -> None:
        self._size, self._held = (height, width), Spool(is_packed=True)
        self._where: list[int] = []  # the piece of each mask; one that was changed has a new one

    def __len__(self) -> int:
        return len(self._where)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self._size

    def add_mask(self, mask: np.ndarray) -> None:
        """The mask of the next frame."""
        self._where.append(self._write_mask(mask))

    def replace_mask(self, number: int, mask: np.ndarray) -> None:
        """Another mask for a frame that has one."""
        self._where[number] = self._write_mask(mask)

    def _write_mask(self, mask: np.ndarray) -> int:
        if mask.shape != self._size or mask.dtype != bool:
            raise ValueError(
                f"Expected a mask of {self._size} bool, got {mask.shape} {mask.dtype}."
            )
        return self._held.add_piece(np.packbits(mask, axis=1).tobytes())

    def read_packed(self, number: int) -> np.ndarray:
        """(H, W / 8) uint8: the bits of a mask, packed by lines."""
        bits = np.frombuffer(self._held[self._where[number]], np.uint8)
        return bits.reshape(self._size[0], -1)

    def __getitem__(self, number: int) -> np.ndarray:
        bits = np.unpackbits(self.read_packed(number), axis=1, count=self._size[1])
        return bits.astype(bool)

    def close(self) -> None:
        """Forget all of them."""
        self._held.close()
