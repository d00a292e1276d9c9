"""Where a ledger lives: a SQLite file by its path, or PostgreSQL by its address."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.pool import NullPool

from masquerade._optional import require
from masquerade.errors import BadInput
from masquerade.files import atomic
from masquerade.ledger.damage import OutOfReach, Tampered, reading
from masquerade.ledger.store import Session
from masquerade.ledger.tables import LEDGER, TABLES


class Home:
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
            # one file, one witness: whatever link it is reached by, and from whatever folder
            self._shown, self.address = self.address, os.path.realpath(self.address)
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
            TABLES.create_all(connection)
            if connection.execute(sql.select(LEDGER)).first() is None:
                ledger_id = secrets.token_hex(16)
                values = {"id": ledger_id, "key": secrets.token_hex(32)}
                connection.execute(
                    sql.insert(LEDGER).values(tip_sequence=0, tip_head=ledger_id, **values)
                )

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """A verified ledger under the one write lock; what is appended is on disk afterwards."""
        if not self._is_server and not Path(self.address).is_file():
            raise BadInput(f"Expected a ledger at {self._shown}; open one with: ledger open")
        with self._transaction() as connection:
            with reading():
                session = Session(connection)
                self._check_witness(session)
            yield session
        self._write_witness(session)

    def _check_witness(self, session: Session) -> None:
        """Refuse a ledger that is older than what was once seen of it."""
        path = self._witness(session.ledger_id)
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
        if witnessed != session.ledger_id:
            raise Tampered(
                f"Expected the ledger that {path} has seen; another one stands here now. Restore "
                "the old one, or remove the witness if its budget may be forgotten."
            )
        entry = session.entry_at(sequence)
        if entry is None or entry.head != head:
            raise Tampered(
                f"Expected a ledger with the entry {sequence} that {path.name} has seen; this is "
                "an older copy. Restore the newest one: what was spent since is missing here."
            )

    def _write_witness(self, session: Session) -> None:
        path = self._witness(session.ledger_id)
        if not session.sequence:
            return
        with atomic.alone(path):  # two writers finish in any order; the newer one stays
            with contextlib.suppress(OSError, ValueError, KeyError):
                seen = json.loads(path.read_text())
                newest = int(seen["sequence"]) >= session.sequence
                if seen["ledger"] == session.ledger_id and newest:
                    return
            data = {"ledger": session.ledger_id, "sequence": session.sequence}
            data |= {"head": session.head}
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
