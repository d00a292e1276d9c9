"""An append-only, hash-chained list of entries in a database.

Every entry's head is a keyed hash of the entry and the head before it, so that a changed, inserted
or removed row breaks the chain. The last head stands twice more: in the database's own ``tip``
(a deleted last row is noticed) and in a witness file outside it (a restored backup is noticed).
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sql

from masquerade.errors import BadInput

CLOCK = "clock"  # the kind of an entry that accepts a clock which is behind the entry before
_BACK = datetime.timedelta(seconds=60)  # how far a clock may be set back without a refusal
_DAMAGED = (
    "Expected an untouched ledger; a row is missing, doubled, or holds what no ledger writes. "
    "Restore the newest good copy, and compare it with: masquerade ledger verify --receipts"
)
TABLES = sql.MetaData()
LEDGER = sql.Table(
    "ledger",
    TABLES,
    sql.Column("id", sql.String(32), primary_key=True),
    sql.Column("key", sql.String(64), nullable=False),
    sql.Column("tip_sequence", sql.Integer, nullable=False),
    sql.Column("tip_head", sql.String(64), nullable=False),
)
_ENTRIES = sql.Table(
    "entries",
    TABLES,
    sql.Column("sequence", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("time", sql.String(40), nullable=False),
    sql.Column("kind", sql.String(16), nullable=False),
    sql.Column("payload", sql.Text, nullable=False),
    sql.Column("head", sql.String(64), nullable=False),
)
_CONTENTS = sql.Table(
    "contents",  # apart from the chain, so that no head depends on what a file holds
    TABLES,
    sql.Column("content", sql.String(64), primary_key=True),
    sql.Column("member", sql.String(32), nullable=False),
    sql.Column("token", sql.String(32), nullable=False, unique=True),  # named in the chain
    sql.Column("mac", sql.String(64), nullable=False),
)
_LOOKS = sql.Table(
    "looks",  # of films, sealed; older ledgers get it when the first look is kept
    TABLES,
    sql.Column("token", sql.String(32), primary_key=True),
    sql.Column("sealed", sql.Text, nullable=False),
    sql.Column("mac", sql.String(64), nullable=False),
)


class Tampered(BadInput):
    """The ledger is not what it was: a row was changed, removed or restored."""


class OutOfReach(BadInput):
    """The database could not be read or written, whatever is in it."""


@dataclass(frozen=True)
class LedgerEntry:
    """One line of the ledger."""

    sequence: int
    time: str
    kind: str
    payload: dict[str, Any]
    head: str


class Session:
    """A verified ledger inside one transaction."""

    def __init__(self, connection: sql.Connection) -> None:
        row = connection.execute(sql.select(LEDGER)).one()
        self._connection, self._key, self.ledger_id = connection, bytes.fromhex(row.key), row.id
        self.entries = self._verified(row)

    def _verified(self, ledger: Any) -> list[LedgerEntry]:
        found, head = [], ledger.id
        rows = self._connection.execute(sql.select(_ENTRIES).order_by(_ENTRIES.c.sequence))
        for place, row in enumerate(rows, 1):
            head = self._mac(head, row.sequence, row.time, row.kind, row.payload)
            if row.sequence != place or not hmac.compare_digest(head, row.head):
                raise Tampered(
                    f"Expected an untouched ledger; entry {place} was changed or removed. Restore "
                    "the newest good copy, and compare it with: masquerade ledger verify --receipts"
                )
            payload = json.loads(row.payload)
            found.append(LedgerEntry(row.sequence, row.time, row.kind, payload, row.head))
        if (ledger.tip_sequence, ledger.tip_head) != (len(found), head):
            raise Tampered(
                f"Expected {ledger.tip_sequence} entries in the ledger, found {len(found)}; the "
                "last ones were removed."
            )
        self._check_contents(found)
        return found

    def _check_contents(self, entries: list[LedgerEntry]) -> None:
        """Every fingerprint is the one that was written, its member's, and none is missing."""
        rows = list(self._connection.execute(sql.select(_CONTENTS)))
        added = [entry.payload for entry in entries if entry.kind == "add"]
        known = {payload["token"]: payload["member"] for payload in added}
        is_known = {row.token: row.member for row in rows} == known and len(rows) == len(known)
        is_whole = is_known and all(
            hmac.compare_digest(row.mac, self._mac("member", row.content, row.member, row.token))
            for row in rows
        )
        if not is_whole:
            raise Tampered(
                "Expected an untouched ledger; a member's fingerprint was changed or removed."
            )

    def append(self, kind: str, payload: dict[str, Any]) -> LedgerEntry:
        """Add an entry at the end of the chain.

        Raises:
            Tampered: if the clock is behind the last entry's, unless the entry accepts that.
        """
        last = self.entries[-1] if self.entries else None
        now = datetime.datetime.now(datetime.UTC)
        if last is not None and kind != CLOCK:
            before = datetime.datetime.fromisoformat(last.time)
            if now < before - _BACK:
                raise Tampered(
                    f"Expected a clock that goes forward; it says {now:%Y-%m-%d %H:%M}, and the "
                    f"last entry is of {before:%Y-%m-%d %H:%M}. Set the clock right; if it was "
                    "wrong then and is right now, go on with: masquerade ledger clock --accept"
                )
            now = max(now, before)
        text = json.dumps(payload, sort_keys=True, allow_nan=False)
        sequence, time = len(self.entries) + 1, now.isoformat()
        head = self._mac(last.head if last else self.ledger_id, sequence, time, kind, text)
        entry = LedgerEntry(sequence, time, kind, payload, head)
        values = {"sequence": sequence, "time": time, "kind": kind, "payload": text, "head": head}
        self._connection.execute(sql.insert(_ENTRIES).values(**values))
        self._connection.execute(sql.update(LEDGER).values(tip_sequence=sequence, tip_head=head))
        self.entries.append(entry)
        return entry

    def member_of(self, content: bytes) -> str | None:
        """The member that a file's content belongs to."""
        row = self._row(content)
        return None if row is None else str(row.member)

    def token_of(self, content: bytes) -> str | None:
        """The random token of a file's content: this very content, not its member's others."""
        row = self._row(content)
        return None if row is None else str(row.token)

    def move(self, old: str, new: str) -> list[str]:
        """Tie every content of a member to another; return their tokens, for the chain to name."""
        rows = list(
            self._connection.execute(sql.select(_CONTENTS).where(_CONTENTS.c.member == old))
        )
        for row in rows:
            mac = self._mac("member", row.content, new, row.token)
            change = sql.update(_CONTENTS).where(_CONTENTS.c.token == row.token)
            self._connection.execute(change.values(member=new, mac=mac))
        return [str(row.token) for row in rows]

    def keep_look(self, token: str, look: bytes) -> None:
        """Keep how a content looks, sealed, apart from the chain; an empty look is none."""
        if not look:
            return
        _LOOKS.create(self._connection, checkfirst=True)
        known = sql.select(_LOOKS.c.token).where(_LOOKS.c.token == token)
        if self._connection.execute(known).first() is None:
            sealed = self._sealed(token, look).hex()
            values = {"token": token, "sealed": sealed, "mac": self._mac("look", token, sealed)}
            self._connection.execute(sql.insert(_LOOKS).values(**values))

    def looks(self) -> dict[str, bytes]:
        """The look of each content that has one, by its token."""
        if not sql.inspect(self._connection).has_table(_LOOKS.name):
            return {}
        found = {}
        with reading():
            for row in self._connection.execute(sql.select(_LOOKS)):
                if not hmac.compare_digest(row.mac, self._mac("look", row.token, row.sealed)):
                    raise Tampered("Expected an untouched ledger; a member's look was changed.")
                found[str(row.token)] = self._sealed(row.token, bytes.fromhex(row.sealed))
        return found

    def _sealed(self, token: str, data: bytes) -> bytes:
        """Closed, or opened again, with a key stream that is this token's alone."""
        seed = bytes.fromhex(self._mac("seal", token))
        stream = int.from_bytes(hashlib.shake_256(seed).digest(len(data)))
        return (int.from_bytes(data) ^ stream).to_bytes(len(data))

    def remember(self, content: bytes, member: str) -> str:
        """Tie a file's content to a member; return the random token that the chain must name.

        The chain never holds anything computed from the content.
        """
        row = self._row(content)
        token = secrets.token_hex(16) if row is None else row.token
        if row is None:
            name = self._mac("content", content.hex())
            values = {"content": name, "member": member, "token": token}
            mac = self._mac("member", name, member, token)
            self._connection.execute(sql.insert(_CONTENTS).values(mac=mac, **values))
        return str(token)

    def mark(self, value: bytes) -> str:
        """A keyed hash, by which two values can be compared inside the ledger alone."""
        return self._mac("mark", value.hex())

    def _row(self, content: bytes) -> Any:
        name = self._mac("content", content.hex())
        where = _CONTENTS.c.content == name
        return self._connection.execute(sql.select(_CONTENTS).where(where)).one_or_none()

    def _mac(self, *parts: object) -> str:
        text = json.dumps([str(part) for part in parts])
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Whatever stands where a row should be gets a message."""
    try:
        yield
    except BadInput:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise Tampered(_DAMAGED) from error
    except sql.exc.InvalidRequestError as error:
        raise Tampered(_DAMAGED) from error  # no row, or two, where there must be one
