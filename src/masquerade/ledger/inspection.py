"""Walk a ledger from its first entry to its last, and work out what it has carried forward."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sql

from masquerade.ledger.book import Book
from masquerade.ledger.damage import Tampered
from masquerade.ledger.pages import hash_of
from masquerade.ledger.store import CLOCK, LedgerEntry, Session
from masquerade.ledger.tables import PAGES


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What a ledger that is whole consists of.

    Args:
        entries: how many there are.
        balance: the entry up to which they were carried forward; 0 if they never were.
        clocks: those that accept a clock which was set back.
    """

    entries: int
    balance: int
    clocks: tuple[LedgerEntry, ...]


def inspect(session: Session) -> Inspection:
    """Verify every row of a ledger.

    Raises:
        Tampered: if an entry, a fingerprint or the balance is not what it was.
    """
    start, book, clocks = session.start, Book(), []
    for entry in session.entries():
        if entry.sequence <= start.sequence:
            book.apply(entry)
        if entry.sequence == start.sequence and entry.head != start.head:
            raise _other_balance(start.sequence)
        if entry.kind == CLOCK:
            clocks.append(entry)
    if start.root:
        _check_pages(session, book)
    return Inspection(entries=session.sequence, balance=start.sequence, clocks=tuple(clocks))


def _check_pages(session: Session, book: Book) -> None:
    """Refuse pages unless they are those of this book, and no others."""
    expected = {name: hash_of(text) for name, text in book.pages.changes()}
    is_same, rows = expected[""] == session.start.root, 0
    seen: set[str] = set()
    for row in session.connection.execute(sql.select(PAGES.c.name, PAGES.c.text)):
        is_same &= isinstance(row.text, str) and hash_of(row.text) == expected.get(row.name)
        seen.add(row.name)
        rows += 1
    if not is_same or not rows == len(seen) == len(expected):
        raise _other_balance(session.start.sequence)


def _other_balance(sequence: int) -> Tampered:
    return Tampered(
        f"Expected the balance after entry {sequence} to be what the entries come to; it is not. "
        "Restore the newest good copy, and compare it with: masquerade ledger verify --receipts"
    )
