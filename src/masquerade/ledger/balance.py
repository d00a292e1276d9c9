"""The balance: what all entries so far come to, carried forward so that nobody walks them again.

It names the entry that it stands after and that entry's head, and is signed with the ledger's key.
So it can be believed without the entries before it, an old one does no harm (the entries since are
walked), and without one everything is walked, which is slow and right.
"""

from __future__ import annotations

import hmac
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sql

from masquerade.ledger.damage import Tampered
from masquerade.ledger.tables import BALANCE, GROWN

FIRST = 256  # entries of a ledger that gets its first balance; a smaller one is always walked whole
EVERY = 16  # entries after which there is a new one
# names are known by keys that Python's Unicode makes: under another, everything is walked anew
FORM = f"2, Unicode {unicodedata.unidata_version}"


@dataclass(frozen=True, kw_only=True)
class Balance:
    """What was carried forward.

    Args:
        sequence: of the last entry that is in it.
        head: of that entry.
        time: of that entry.
        root: the hash of its pages (see `ledger.pages`); empty if nothing is in it.
    """

    sequence: int
    head: str
    time: str
    root: str = ""

    def is_due(self, sequence: int) -> bool:
        """Whether a ledger of so many entries should have a newer one."""
        return sequence - self.sequence >= (EVERY if self.root else FIRST)


def read(connection: sql.Connection, mac: Callable[..., str]) -> Balance | None:
    """The balance of a ledger, if it has one in a form that is read here.

    Raises:
        Tampered: if it is not what the ledger wrote.
    """
    if not sql.inspect(connection).has_table(BALANCE.name):
        return None
    row = connection.execute(sql.select(BALANCE)).one_or_none()
    if row is None or row.form != FORM:
        return None
    fields = (row.sequence, row.head, row.time, row.form, row.root)
    if not row.root or not hmac.compare_digest(row.mac, mac("balance", *fields)):
        raise Tampered(
            "Expected an untouched ledger; its balance was changed. Restore the newest good copy, "
            "and compare it with: masquerade ledger verify --receipts"
        )
    return Balance(sequence=row.sequence, head=row.head, time=row.time, root=row.root)


def make_room(connection: sql.Connection) -> bool:
    """Give a ledger that has grown the tables; False where a server does not let us make any.

    Then it goes on without a balance, and everything is walked.
    """
    try:
        with connection.begin_nested():
            GROWN.create_all(connection)
    except sql.exc.ProgrammingError:
        return False
    return True


def write(connection: sql.Connection, mac: Callable[..., str], balance: Balance) -> None:
    """Put a balance in the place of the one before."""
    fields = (balance.sequence, balance.head, balance.time, FORM, balance.root)
    connection.execute(sql.delete(BALANCE))
    names = ("sequence", "head", "time", "form", "root")
    values = dict(zip(names, fields, strict=True))
    connection.execute(sql.insert(BALANCE).values(mac=mac("balance", *fields), **values))
