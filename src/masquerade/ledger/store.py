"""An append-only, hash-chained list of entries in SQLite or PostgreSQL.

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
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.pool import NullPool

from masquerade._optional import require
from masquerade.errors import BadInput
from masquerade.files import atomic

CLOCK = "clock"  # the kind of an entry that accepts a clock which is behind the entry before
_BACK = datetime.timedelta(seconds=60)  # how far a clock may be set back without a refusal
_DAMAGED = (
    "Expected an untouched ledger; a row is missing, doubled, or holds what no ledger writes. "
    "Restore the newest good copy, and compare it with: masquerade ledger verify --receipts"
)
_TABLES = sql.MetaData()
_LEDGER = sql.Table(
    "ledger",
    _TABLES,
    sql.Column("id", sql.String(32), primary_key=True),
    sql.Column("key", sql.String(64), nullable=False),
    sql.Column("tip_sequence", sql.Integer, nullable=False),
    sql.Column("tip_head", sql.String(64), nullable=False),
)
_ENTRIES = sql.Table(
    "entries",
    _TABLES,
    sql.Column("sequence", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("time", sql.String(40), nullable=False),
    sql.Column("kind", sql.String(16), nullable=False),
    sql.Column("payload", sql.Text, nullable=False),
    sql.Column("head", sql.String(64), nullable=False),
)
_CONTENTS = sql.Table(
    "contents",  # apart from the chain, so that no head depends on what a file holds
    _TABLES,
    sql.Column("content", sql.String(64), primary_key=True),
    sql.Column("member", sql.String(32), nullable=False),
    sql.Column("token", sql.String(32), nullable=False, unique=True),  # named in the chain
    sql.Column("mac", sql.String(64), nullable=False),
)


class Tampered(BadInput):
    """The ledger is not what it was: a row was changed, removed or restored."""


@dataclass(frozen=True)
class Entry:
    """One line of the ledger."""

    sequence: int
    time: str
    kind: str
    payload: dict[str, Any]
    head: str


class Session:
    """A verified ledger inside one transaction."""

    def __init__(self, connection: sql.Connection, store: Store) -> None:
        row = connection.execute(sql.select(_LEDGER)).one()
        self._connection, self._key, self.ledger_id = connection, bytes.fromhex(row.key), row.id
        self.entries = self._verified(row)
        store.check_witness(row.id, self.entries)

    def _verified(self, ledger: Any) -> list[Entry]:
        found, head = [], ledger.id
        rows = connection_rows(self._connection)
        for place, row in enumerate(rows, 1):
            head = self._mac(head, row.sequence, row.time, row.kind, row.payload)
            if row.sequence != place or not hmac.compare_digest(head, row.head):
                raise Tampered(
                    f"Expected an untouched ledger; entry {place} was changed or removed. Restore "
                    "the newest good copy, and compare it with: masquerade ledger verify --receipts"
                )
            found.append(Entry(row.sequence, row.time, row.kind, json.loads(row.payload), row.head))
        if (ledger.tip_sequence, ledger.tip_head) != (len(found), head):
            raise Tampered(
                f"Expected {ledger.tip_sequence} entries in the ledger, found {len(found)}; the "
                "last ones were removed."
            )
        self._check_contents(found)
        return found

    def _check_contents(self, entries: list[Entry]) -> None:
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

    def append(self, kind: str, payload: dict[str, Any]) -> Entry:
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
        entry = Entry(sequence, time, kind, payload, head)
        values = {"sequence": sequence, "time": time, "kind": kind, "payload": text, "head": head}
        self._connection.execute(sql.insert(_ENTRIES).values(**values))
        self._connection.execute(sql.update(_LEDGER).values(tip_sequence=sequence, tip_head=head))
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


def connection_rows(connection: sql.Connection) -> list[Any]:
    """All entries, in order."""
    return list(connection.execute(sql.select(_ENTRIES).order_by(_ENTRIES.c.sequence)))


class Store:
    """Where a ledger lives: a SQLite file by path, or PostgreSQL by address."""

    def __init__(self, address: str | Path) -> None:
        self.address = str(address)
        if not self.address.strip():
            raise ValueError("Expected a ledger's path or address, got an empty one.")
        self._is_server = self.address.startswith(("postgresql://", "postgres://"))
        if self._is_server:
            require("psycopg", extra="postgres")
            url = _server_url(self.address)
            self._shown = url.render_as_string(hide_password=True)
            # a snapshot from before the lock would show a ledger that is no longer the last one
            level = "READ COMMITTED"
            self._engine = sql.create_engine(url, poolclass=NullPool, isolation_level=level)
        else:
            self._shown = self.address
            url = sql.URL.create("sqlite", database=self.address)
            self._engine = sql.create_engine(url, poolclass=NullPool)
            sql.event.listen(self._engine, "connect", _prepare_sqlite)
            sql.event.listen(self._engine, "begin", _begin_sqlite)

    def create(self) -> None:
        """Make the tables and the key, unless they are there."""
        if not self._is_server:
            path = Path(self.address)
            if not path.parent.is_dir():
                raise ValueError(f"Expected the folder {path.parent} to exist; make it first.")
            path.touch(mode=0o600)  # it holds the key: nobody else's to read
        with self._transaction() as connection:
            _TABLES.create_all(connection)
            if connection.execute(sql.select(_LEDGER)).first() is None:
                ledger_id = secrets.token_hex(16)
                values = {"id": ledger_id, "key": secrets.token_hex(32)}
                connection.execute(
                    sql.insert(_LEDGER).values(tip_sequence=0, tip_head=ledger_id, **values)
                )

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """A verified ledger under the one write lock; what is appended is on disk afterwards."""
        if not self._is_server and not Path(self.address).is_file():
            raise BadInput(f"Expected a ledger at {self._shown}; open one with: ledger open")
        with self._transaction() as connection:
            with _reading():
                session = Session(connection, self)
            yield session
        self._write_witness(session.ledger_id, session.entries)

    def check_witness(self, ledger_id: str, entries: list[Entry]) -> None:
        """Refuse a ledger that is older than what was once seen of it."""
        path = self._witness(ledger_id)
        if not path.is_file():
            return
        try:
            seen = json.loads(path.read_text())
            sequence, head, witnessed = int(seen["sequence"]), str(seen["head"]), seen["ledger"]
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise Tampered(
                f"Expected a readable witness at {path}; it is damaged. If the ledger is the "
                "newest one, check it with ledger verify --receipts and remove the witness."
            ) from error
        if witnessed != ledger_id:
            raise Tampered(
                f"Expected the ledger that {path} has seen; another one stands here now. Restore "
                "the old one, or remove the witness if its budget may be forgotten."
            )
        if not 1 <= sequence <= len(entries) or entries[sequence - 1].head != head:
            raise Tampered(
                f"Expected a ledger with the entry {sequence} that {path.name} has seen; this is "
                "an older copy. Restore the newest one: what was spent since is missing here."
            )

    def _write_witness(self, ledger_id: str, entries: list[Entry]) -> None:
        path = self._witness(ledger_id)
        if not entries:
            return
        with atomic.alone(path):  # two writers finish in any order; the newer one stays
            with contextlib.suppress(OSError, ValueError, KeyError):
                seen = json.loads(path.read_text())
                if seen["ledger"] == ledger_id and int(seen["sequence"]) >= len(entries):
                    return
            data = {"ledger": ledger_id, "sequence": len(entries), "head": entries[-1].head}
            atomic.write_whole(path, json.dumps(data).encode(), is_private=True)

    def _witness(self, ledger_id: str) -> Path:
        if not self._is_server:
            return Path(f"{self.address}.witness")
        home = Path(os.environ.get("XDG_STATE_HOME", Path.home() / ".local" / "state"))
        folder = home / "masquerade"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{ledger_id}.witness"

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sql.Connection]:
        try:
            with self._engine.begin() as connection:
                if self._is_server:
                    # a spend that was answered for outlives the server, whatever its default is
                    connection.execute(sql.text("SET LOCAL synchronous_commit TO on"))
                    connection.execute(sql.text("SELECT pg_advisory_xact_lock(7305201)"))
                yield connection
        except sql.exc.DBAPIError as error:
            raise BadInput(
                f"Expected a ledger that can be read and written at {self._shown}: "
                f"{str(error.orig).strip()}."
            ) from error


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    """Whatever stands where a row should be gets a message."""
    try:
        yield
    except BadInput:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise Tampered(_DAMAGED) from error
    except sql.exc.InvalidRequestError as error:
        raise Tampered(_DAMAGED) from error  # no row, or two, where there must be one


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
