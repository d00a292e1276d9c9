"""An append-only, hash-chained list of entries in a database.

Every entry's head is a keyed hash of the entry and the head before it, so that a changed, inserted
or removed row breaks the chain. The last head stands twice more: in the database's own ``tip``
(a deleted last row is noticed) and in a witness file outside it (a restored backup is noticed).

A session walks the entries since the last balance (see `ledger.balance`), and all of them where
there is none. An entry before it is verified when it is asked for, with the head before it.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sql

from masquerade.ledger import balance
from masquerade.ledger.balance import Balance
from masquerade.ledger.damage import OutOfReach, Tampered, reading
from masquerade.ledger.tables import CONTENTS, ENTRIES, LEDGER

__all__ = ["CLOCK", "LedgerEntry", "OutOfReach", "Session", "Tampered"]

CLOCK = "clock"  # the kind of an entry that accepts a clock which is behind the entry before
_BACK = datetime.timedelta(seconds=60)  # how far a clock may be set back without a refusal
_AT_ONCE = 1000  # rows that are read together
_NO_FINGERPRINT = "Expected an untouched ledger; a member's fingerprint was changed or removed."


@dataclass(frozen=True)
class LedgerEntry:
    """One line of the ledger."""

    sequence: int
    time: str
    kind: str
    payload: dict[str, Any]
    head: str


class Session:
    """A verified ledger inside one transaction.

    Args:
        connection: in a transaction that nobody else can write beside.
    """

    def __init__(self, connection: sql.Connection) -> None:
        row = connection.execute(sql.select(LEDGER)).one()
        self.connection, self._key, self.ledger_id = connection, bytes.fromhex(row.key), row.id
        self._tip = row.tip_sequence, row.tip_head
        found = balance.read(connection, self.mac)
        self.origin = Balance(sequence=0, head=row.id, time="")
        self.start = found or self.origin
        self.sequence, self.head, self.time = self.start.sequence, self.start.head, self.start.time
        if found is not None:
            last = self.entry_at(found.sequence)
            if last is None or last.head != found.head:
                raise _changed(found.sequence)
        for row in self._verified(self.start):
            self.sequence, self.head, self.time = row.sequence, row.head, row.time
        if found is None:
            self._check_added()

    def entries(self) -> Iterator[LedgerEntry]:
        """Every entry from the first on, verified, and with the last one the fingerprints."""
        yield from self.since(self.origin)
        self._check_added()

    def since(self, start: Balance) -> Iterator[LedgerEntry]:
        """The entries after a balance, each verified with the one before, up to the tip."""
        return map(_entry, self._verified(start))

    def _verified(self, start: Balance) -> Iterator[Any]:
        """The rows of the entries after a balance."""
        place, head = start.sequence, start.head
        with reading():
            for row in self._rows(start.sequence):
                place += 1
                head = self.mac(head, row.sequence, row.time, row.kind, row.payload)
                if row.sequence != place or not hmac.compare_digest(head, row.head):
                    raise _changed(place)
                yield row
        if self._tip != (place, head):
            raise Tampered(
                f"Expected {self._tip[0]} entries in the ledger, found {place}; the last ones "
                "were removed."
            )

    def _rows(self, after: int) -> Iterator[Any]:
        """In order, some at a time: a ledger may be larger than the memory."""
        table = sql.select(ENTRIES).order_by(ENTRIES.c.sequence).limit(_AT_ONCE)
        # from the first on: also what stands before it, where nothing should be
        query = table.where(ENTRIES.c.sequence > after) if after else table
        while rows := self.connection.execute(query).all():
            yield from rows
            query = table.where(ENTRIES.c.sequence > rows[-1].sequence)

    def entry_at(self, sequence: int) -> LedgerEntry | None:
        """One entry, verified with the head before it; None if there are not so many.

        Raises:
            Tampered: if it was changed or removed.
        """
        if not 1 <= sequence <= self.sequence:
            return None
        near = ENTRIES.c.sequence.in_((sequence - 1, sequence))
        rows = self.connection.execute(sql.select(ENTRIES).where(near)).all()
        heads = {0: self.ledger_id} | {row.sequence: row.head for row in rows}
        with reading():
            [row] = [each for each in rows if each.sequence == sequence]
            parts = heads[sequence - 1], row.sequence, row.time, row.kind, row.payload
            if not hmac.compare_digest(self.mac(*parts), row.head):
                raise _changed(sequence)
            return _entry(row)

    def _check_added(self) -> None:
        """Check fingerprints against all entries, which were walked."""
        added = sql.select(ENTRIES).where(ENTRIES.c.kind == "add").order_by(ENTRIES.c.sequence)
        with reading():
            found = [json.loads(row.payload) for row in self.connection.execute(added)]
            self.check_contents({payload["token"]: payload["member"] for payload in found})

    def check_contents(self, known: dict[str, str]) -> None:
        """Refuse fingerprints unless each is as it was written, its member's, and none is missing.

        Args:
            known: the member of each token that the chain names.
        """
        seen: set[str] = set()
        for row in self.connection.execute(sql.select(CONTENTS)):
            if row.token in seen:
                raise Tampered(_NO_FINGERPRINT)
            self.check_content(row, known.get(row.token))
            seen.add(row.token)
        if len(seen) != len(known):
            raise Tampered(_NO_FINGERPRINT)

    def check_content(self, row: Any, member: str | None) -> None:
        """Refuse a fingerprint's row unless the ledger wrote it so for a member."""
        with reading():
            written = self.mac("member", row.content, row.member, row.token)
            if row.member != member or not hmac.compare_digest(row.mac, written):
                raise Tampered(_NO_FINGERPRINT)

    def append(self, kind: str, payload: dict[str, Any]) -> LedgerEntry:
        """Add an entry at the end of the chain.

        Raises:
            Tampered: if the clock is behind the last entry's, unless the entry accepts that.
        """
        [entry] = self.append_all([(kind, payload)])
        return entry

    def append_all(self, given: Iterable[tuple[str, dict[str, Any]]]) -> list[LedgerEntry]:
        """Add entries of some kinds and payloads at the end of the chain; see `append`."""
        found, rows = [], []
        for kind, payload in given:
            text = json.dumps(payload, sort_keys=True, allow_nan=False)
            time = self._now(kind).isoformat()
            self.sequence, self.time = self.sequence + 1, time
            self.head = self.mac(self.head, self.sequence, time, kind, text)
            found.append(LedgerEntry(self.sequence, time, kind, payload, self.head))
            row = {"sequence": self.sequence, "time": time, "kind": kind, "payload": text}
            rows.append(row | {"head": self.head})
        self._tip = self.sequence, self.head
        self.connection.execute(sql.insert(ENTRIES), rows)
        tip = {"tip_sequence": self.sequence, "tip_head": self.head}
        self.connection.execute(sql.update(LEDGER).values(**tip))
        return found

    def _now(self, kind: str) -> datetime.datetime:
        """The time of the next entry."""
        now = datetime.datetime.now(datetime.UTC)
        if not self.sequence or kind == CLOCK:
            return now
        before = datetime.datetime.fromisoformat(self.time)
        if now < before - _BACK:
            raise Tampered(
                f"Expected a clock that goes forward; it says {now:%Y-%m-%d %H:%M}, and the "
                f"last entry is of {before:%Y-%m-%d %H:%M}. Set the clock right; if it was "
                "wrong then and is right now, go on with: masquerade ledger clock --accept"
            )
        return max(now, before)

    def carry_forward(self, root: str) -> None:
        """Write a balance of all entries, whose pages have this root."""
        after = Balance(sequence=self.sequence, head=self.head, time=self.time)
        balance.write(self.connection, self.mac, replace(after, root=root))

    def mark(self, value: bytes) -> str:
        """A keyed hash, by which two values can be compared inside the ledger alone."""
        return self.mac("mark", value.hex())

    def mac(self, *parts: object) -> str:
        """The keyed hash of some words, in their order."""
        text = json.dumps([str(part) for part in parts])
        return hmac.digest(self._key, text.encode(), hashlib.sha256).hex()


def _entry(row: Any) -> LedgerEntry:
    return LedgerEntry(row.sequence, row.time, row.kind, json.loads(row.payload), row.head)


def _changed(sequence: int) -> Tampered:
    return Tampered(
        f"Expected an untouched ledger; entry {sequence} was changed or removed. Restore "
        "the newest good copy, and compare it with: masquerade ledger verify --receipts"
    )
