"""Notes for the owner of a recording alone: said in the house, never written into a receipt.

What a heuristic finds out about a private recording may matter to its owner (a mask that selects
nothing) and must not be published. It says an aside; whoever listens shows it as private.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

_HEARD: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar("heard", default=None)


def aside(said: str) -> None:
    """Tell the owner; without a listener nothing happens."""
    heard = _HEARD.get()
    if heard is not None and said not in heard:
        heard.append(said)


@contextlib.contextmanager
def listening() -> Iterator[list[str]]:
    """What is said inside the block, each once, also by threads that it starts.

    Example:
        >>> with listening() as heard:
        ...     aside("the mask is constant")
        >>> heard
        ['the mask is constant']
    """
    heard: list[str] = []
    token = _HEARD.set(heard)
    try:
        yield heard
    finally:
        _HEARD.reset(token)
