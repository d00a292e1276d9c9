"""One thread multiplies matrices while other threads read and write: two would wait and spin."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from threadpoolctl import threadpool_limits

_LOCK = threading.Lock()
_HELD: list[Any] = []  # the limit, once for everyone who wants it: it is the whole process's


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """NumPy's products use one thread inside; as many as before when the last one has left."""
    with _LOCK:
        _HELD.append(_HELD[0] if _HELD else threadpool_limits(1, user_api="blas"))
    try:
        yield
    finally:
        with _LOCK:
            limit = _HELD.pop()
            if not _HELD:
                limit.restore_original_limits()
