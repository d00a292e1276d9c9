"""What is said of a ledger that is not what it was, or that cannot be reached."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from masquerade._optional import sql
from masquerade.errors import BadInput

_DAMAGE_MESSAGE = (
    "Expected an untouched ledger; a row is missing, doubled, or holds what no ledger writes. "
    "Restore the newest good copy, and compare it with: masquerade ledger verify --receipts"
)


class LedgerTampered(BadInput):
    """The ledger is not what it was: a row was changed, removed or restored."""


class OutOfReach(BadInput):
    """The database could not be read or written, whatever is in it."""


@contextlib.contextmanager
def explain_damage() -> Iterator[None]:
    """Whatever stands where a row should be gets a message."""
    try:
        yield
    except BadInput:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise LedgerTampered(_DAMAGE_MESSAGE) from error
    except sql.exc.InvalidRequestError as error:
        raise LedgerTampered(_DAMAGE_MESSAGE) from error  # no row, or two, where there must be one
