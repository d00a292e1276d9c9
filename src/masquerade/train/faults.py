"""One message for whatever is wrong inside a private recording.

A run reads everything before it charges anybody, so such a fault stops it with nothing spent and
nothing written. That it stopped is a fact about private recordings, and stays with whoever ran it;
which recording it was, and what is in it, is not even said. A fault in what is public is named.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from masquerade.errors import BadInput

_FAULT = (
    "Expected private recordings that can be used, got at least one that cannot; nothing was "
    "charged or written. To see which, for your eyes alone, with what follows --data here: "
    "masquerade data check NAME --recordings"
)


@contextlib.contextmanager
def unnamed() -> Iterator[None]:
    """Let a fault in a private recording name neither it nor what is in it."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if getattr(error, "is_public", False):
            raise
        raise BadInput(_FAULT) from None


def private_item(collection: Any, index: int) -> Any:
    """A private recording; whatever is wrong with it gives the one message."""
    with unnamed():
        return collection[index]
