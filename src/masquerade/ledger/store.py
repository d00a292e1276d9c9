"""An append-only, hash-chained list of entries in a database.

Every entry's head is a keyed hash of the entry and the head before it, so that a changed, inserted
or removed row breaks the chain. The last head stands twice more: in the database's own ``tip``
(a deleted last row is noticed) and in a witness file outside it (a restored backup is noticed).

A session walks the entries since the last balance (see `ledger.balance`), and all of them where
there is none. An entry before it is verified when it is asked for, with the head before it.

Where a ledger lives: a SQLite file by its path, or PostgreSQL by its address.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from masquerade._optional import lazy_module, require_extra, sql
from masquerade.errors import BadInput
from masquerade.io import atomic
from masquerade.ledger import balance
from masquerade.ledger.balance import Balance
from masquerade.ledger.damage import LedgerTampered, OutOfReach, explain_damage

if TYPE_CHECKING:
    from masquerade.ledger import tables
else:
    tables = lazy_module("masquerade.ledger.tables")  # which loads a database


__all__ = ["CLOCK", "LedgerEntry", "LedgerTampered", "OutOfReach", "Session"]

CLOCK = "clock"  # the kind of an entry that accepts a clock which is behind the entry before
_MAX_SETBACK = datetime.timedelta(seconds=60)  # how far a clock may be set back without a refusal
_ROWS_PER_READ = 1000  # rows that are read together
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
        row = connection.execute(sql.select(tables.LEDGER)).one()
        self.connection, self._key, self.ledger_id = connection, bytes.fromhex(row.key), row.id
        self._tip = row.tip_sequence, row.tip_head
        found = balance.read_balance(connection, self.mac)
        self.origin = Balance(sequence=0, head=row.id, time="")
        self.start = found or self.origin
        self.sequence, self.head, self.time = self.start.sequence, self.start.head, self.start.time
        if found is not None:
            last = self.read_entry(found.sequence)
            if last is None or last.head != found.head:
                raise _make_tampered(found.sequence)
        for row in self._walk_verified_rows(self.start):
            self.sequence, self.head, self.time = row.sequence, row.head, row.time
        if found is None:
            self._check_added()

    def walk_entries(self) -> Iterator[LedgerEntry]:
        """Every entry from the first on, verified, and with the last one the fingerprints."""
        yield from self.walk_entries_since(self.origin)
        self._check_added()

    def walk_entries_since(self, start: Balance) -> Iterator[LedgerEntry]:
        """The entries after a balance, each verified with the one before, up to the tip."""
        return map(_make_entry, self._walk_verified_rows(start))

    def _walk_verified_rows(self, start: Balance) -> Iterator[Any]:
        """The rows of the entries after a balance."""
        place, head = start.sequence, start.head
        with explain_damage():
            for row in self._walk_rows(start.sequence):
                place += 1
                head = self.mac(head, row.sequence, row.time, row.kind, row.payload)
                if row.sequence != place or not hmac.compare_digest(head, row.head):
                    raise _make_tampered(place)
                yield row
        if self._tip != (place, head):
            raise LedgerTampered(
                f"Expected {self._tip[0]} entries in the ledger, found {place}; the last ones "
                "were removed."
            )

    def _walk_rows(self, after: int) -> Iterator[Any]:
        """In order, some at a time: a ledger may be larger than the memory."""
        table = sql.select(tables.ENTRIES).order_by(tables.ENTRIES.c.sequence).limit(_ROWS_PER_READ)
        # from the first on: also what stands before it, where nothing should be
        query = table.where(tables.ENTRIES.c.sequence > after) if after else table
        while rows := self.connection.execute(query).all():
            yield from rows
            query = table.where(tables.ENTRIES.c.sequence > rows[-1].sequence)

    def read_entry(self, sequence: int) -> LedgerEntry | None:
        """One entry, verified with the head before it; None if there are not so many.

        Raises:
            Tampered: if it was changed or removed.
        """
        if not 1 <= sequence <= self.sequence:
            return None
        near = tables.ENTRIES.c.sequence.in_((sequence - 1, sequence))
        rows = self.connection.execute(sql.select(tables.ENTRIES).where(near)).all()
        heads = {0: self.ledger_id} | {row.sequence: row.head for row in rows}
        with explain_damage():
            [row] = [each for each in rows if each.sequence == sequence]
            parts = heads[sequence - 1], row.sequence, row.time, row.kind, row.payload
            if not hmac.compare_digest(self.mac(*parts), row.head):
                raise _make_tampered(sequence)
            return _make_entry(row)

    def _check_added(self) -> None:
        """Check fingerprints against all entries, which were walked."""
        added = (
            sql.select(tables.ENTRIES)
            .where(tables.ENTRIES.c.kind == "add")
            .order_by(tables.ENTRIES.c.sequence)
        )
        with explain_damage():
            found = [json.loads(row.payload) for row in self.connection.execute(added)]
            self.check_contents({payload["token"]: payload["member"] for payload in found})

    def check_contents(self, known: dict[str, str]) -> None:
        """Refuse fingerprints unless each is as it was written, its member's, and none is missing.

        Args:
            known: the member of each token that the chain names.
        """
        seen: set[str] = set()
        for row in self.connection.execute(sql.select(tables.CONTENTS)):
            if row.token in seen:
                raise LedgerTampered(_NO_FINGERPRINT)
            self.check_content(row, known.get(row.token))
            seen.add(row.token)
        if len(seen) != len(known):
            raise LedgerTampered(_NO_FINGERPRINT)

    def check_content(self, row: Any, member: str | None) -> None:
        """Refuse a fingerprint's row unless the ledger wrote it so for a member."""
        with explain_damage():
            written = self.mac("member", row.content, row.member, row.token)
            if row.member != member or not hmac.compare_digest(row.mac, written):
                raise LedgerTampered(_NO_FINGERPRINT)

    def append_entry(self, kind: str, payload: dict[str, Any]) -> LedgerEntry:
        """Add an entry at the end of the chain.

        Raises:
            Tampered: if the clock is behind the last entry's, unless the entry accepts that.
        """
        [entry] = self.append_entries([(kind, payload)])
        return entry

    def append_entries(self, given: Iterable[tuple[str, dict[str, Any]]]) -> list[LedgerEntry]:
        """Add entries of some kinds and payloads at the end of the chain; see `append_entry`."""
        found, rows = [], []
        for kind, payload in given:
            text = json.dumps(payload, sort_keys=True, allow_nan=False)
            time = self._next_time(kind).isoformat()
            self.sequence, self.time = self.sequence + 1, time
            self.head = self.mac(self.head, self.sequence, time, kind, text)
            found.append(LedgerEntry(self.sequence, time, kind, payload, self.head))
            row = {"sequence": self.sequence, "time": time, "kind": kind, "payload": text}
            rows.append(row | {"head": self.head})
        self._tip = self.sequence, self.head
        self.connection.execute(sql.insert(tables.ENTRIES), rows)
        tip = {"tip_sequence": self.sequence, "tip_head": self.head}
        self.connection.execute(sql.update(tables.LEDGER).values(**tip))
        return found

    def _next_time(self, kind: str) -> datetime.datetime:
        """The time of the next entry."""
        now = datetime.datetime.now(datetime.UTC)
        if not self.sequence or kind == CLOCK:
            return now
        before = datetime.datetime.fromisoformat(self.time)
        if now < before - _MAX_SETBACK:
            raise LedgerTampered(
                f"Expected a clock that goes forward; it says {now:%Y-%m-%d %H:%M}, and the "
                f"last entry is of {before:%Y-%m-%d %H:%M}. Set the clock right; if it was "
                "wrong then and is right now, go on with: masquerade ledger clock --accept"
            )
        return max(now, before)

    def carry_forward(self, root: str) -> None:
        """Write a balance of all entries, whose pages have this root."""
        after = Balance(sequence=self.sequence, head=self.head, time=self.time)
        balance.write_balance(self.connection, self.mac, replace(after, root=root))

    def hash_value(self, value: bytes) -> str:
        """A keyed hash, by which two values can be compared inside the ledger alone."""
        return self.mac("mark", value.hex())

    def mac(self, *parts: object) -> str:
        """The keyed hash of some words, in their order."""
        text = json.dumps([str(part) for part in parts])
        return hmac.digest(self._key, text.encode(), hashlib.sha256).hex()


def _make_entry(row: Any) -> LedgerEntry:
    return LedgerEntry(row.sequence, row.time, row.kind, json.loads(row.payload), row.head)


def _make_tampered(sequence: int) -> LedgerTampered:
    return LedgerTampered(
        f"Expected an untouched ledger; entry {sequence} was changed or removed. Restore "
        "the newest good copy, and compare it with: masquerade ledger verify --receipts"
    )


class LedgerAddress:
    """Where a ledger lives: a SQLite file by path, or PostgreSQL by address."""

    def __init__(self, address: str | Path) -> None:
        self.address = str(address)
        if not self.address.strip():
            raise ValueError("Expected a ledger's path or address, got an empty one.")
        self._is_server = self.address.startswith(("postgresql://", "postgres://"))
        if self._is_server:
            require_extra("psycopg", extra="postgres")
            url = _server_url(self.address)
            self._shown = url.render_as_string(hide_password=True)
            # a snapshot from before the lock would show a ledger that is no longer the last one
            level = "READ COMMITTED"
            self._engine = sql.create_engine(
                url, poolclass=sql.pool.NullPool, isolation_level=level
            )
        else:
            # one file, one witness: whatever link it is reached by, and from whatever folder
            self._shown, self.address = self.address, os.path.realpath(self.address)
            url = sql.URL.create("sqlite", database=self.address)
            self._engine = sql.create_engine(url, poolclass=sql.pool.NullPool)
            sql.event.listen(self._engine, "connect", _prepare_sqlite)
            sql.event.listen(self._engine, "begin", _begin_sqlite)

    def create_ledger(self) -> None:
        """Make the tables and the key, unless they are there."""
        if not self._is_server:
            path = Path(self.address)
            if not path.parent.is_dir():
                raise ValueError(f"Expected the folder {path.parent} to exist; make it first.")
            path.touch(mode=0o600)  # it holds the key: nobody else's to read
        with self._begin_transaction() as connection:
            tables.TABLES.create_all(connection)
            if connection.execute(sql.select(tables.LEDGER)).first() is None:
                ledger_id = secrets.token_hex(16)
                values = {"id": ledger_id, "key": secrets.token_hex(32)}
                connection.execute(
                    sql.insert(tables.LEDGER).values(tip_sequence=0, tip_head=ledger_id, **values)
                )

    @contextlib.contextmanager
    def open_ledger_session(self) -> Iterator[Session]:
        """A verified ledger under the one write lock; what is appended is on disk afterwards."""
        if not self._is_server and not Path(self.address).is_file():
            raise BadInput(f"Expected a ledger at {self._shown}; open one with: ledger open")
        with self._begin_transaction() as connection:
            with explain_damage():
                session = Session(connection)
                self._check_witness(session)
            yield session
        self._write_witness(session)

    def _check_witness(self, session: Session) -> None:
        """Refuse a ledger that is older than what was once seen of it."""
        path = self._witness_path(session.ledger_id)
        if not path.is_file():
            return
        try:
            seen = json.loads(path.read_text())
            sequence, head, witnessed = int(seen["sequence"]), str(seen["head"]), seen["ledger"]
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise LedgerTampered(
                f"Expected a readable witness at {path}; it is damaged. If the ledger is the "
                "newest one, check it with ledger verify --receipts and remove the witness."
            ) from error
        if witnessed != session.ledger_id:
            raise LedgerTampered(
                f"Expected the ledger that {path} has seen; another one stands here now. Restore "
                "the old one, or remove the witness if its budget may be forgotten."
            )
        entry = session.read_entry(sequence)
        if entry is None or entry.head != head:
            raise LedgerTampered(
                f"Expected a ledger with the entry {sequence} that {path.name} has seen; this is "
                "an older copy. Restore the newest one: what was spent since is missing here."
            )

    def _write_witness(self, session: Session) -> None:
        path = self._witness_path(session.ledger_id)
        if not session.sequence:
            return
        with atomic.lock_target(path):  # two writers finish in any order; the newer one stays
            with contextlib.suppress(OSError, ValueError, KeyError):
                seen = json.loads(path.read_text())
                newest = int(seen["sequence"]) >= session.sequence
                if seen["ledger"] == session.ledger_id and newest:
                    return
            data = {"ledger": session.ledger_id, "sequence": session.sequence}
            data |= {"head": session.head}
            atomic.write_whole(path, json.dumps(data).encode(), is_private=True)

    def _witness_path(self, ledger_id: str) -> Path:
        if not self._is_server:
            return Path(f"{self.address}.witness")
        home = Path(os.environ.get("XDG_STATE_HOME", Path.home() / ".local" / "state"))
        folder = home / "masquerade"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{ledger_id}.witness"

    @contextlib.contextmanager
    def _begin_transaction(self) -> Iterator[sql.Connection]:
        try:
            with self._engine.begin() as connection:
                if self._is_server:
                    # a spend that was answered for outlives the server, whatever its default is
                    connection.execute(sql.text("SET LOCAL synchronous_commit TO on"))
                    connection.execute(sql.text("SELECT pg_advisory_xact_lock(7305201)"))
                yield connection
        except sql.exc.DBAPIError as error:
            raise OutOfReach(
                f"Expected a ledger that can be read and written at {self._shown}: "
                f"{str(error.orig).strip()}."
            ) from error


def _server_url(address: str) -> sql.URL:
    try:
        return sql.make_url(address).set(drivername="postgresql+psycopg")
    except (ValueError, sql.exc.ArgumentError) as error:
        raise ValueError(
            "Expected an address like postgresql://user@host:5432/database; got another."
        ) from error


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions are ours: see _begin_sqlite
    for pragma in ("busy_timeout=60000", "journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: sql.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
