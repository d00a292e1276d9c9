"""An open ledger: its chain, what that says, and which file is which member."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from functools import cached_property
from typing import TYPE_CHECKING, Any

from masquerade._optional import lazy_module, sql
from masquerade.errors import BadInput
from masquerade.ledger.book import AccountBook
from masquerade.ledger.content import Content
from masquerade.ledger.damage import LedgerTampered, explain_damage
from masquerade.ledger.store import Session

if TYPE_CHECKING:
    from masquerade.ledger import tables
else:
    tables = lazy_module("masquerade.ledger.tables")  # which loads a database


_NAME_PREFIX = (
    "2:"  # before the names of contents; those of earlier versions have nothing before them
)
_NAME_LENGTH = 64


class OpenLedger:
    """A session with its book, at which files are known by their fingerprints.

    Fingerprints stand apart from the chain. Where all entries were walked they were checked with
    them. After a balance each is checked when it is found, and all of them when one is not: a
    member whose fingerprint was taken away must not come back as a new one.

    Args:
        session: that entries are written in.
    """

    def __init__(self, session: Session) -> None:
        self.session, self.book = session, AccountBook.read_session(session)
        self._is_checked = not session.start.root
        self._moving: set[str] = set()  # tokens that the chain is about to name

    @cached_property
    def runs(self) -> list[dict[str, Any]]:
        """What the ledger keeps of every run, in order."""
        found = map(self.session.read_entry, self.book.list_run_entries())
        return [entry.payload for entry in found if entry is not None]

    def find_content_member(self, content: Content) -> str | None:
        """The member that a file's content belongs to."""
        row = self._read_row(content)
        return None if row is None else str(row.member)

    def list_content_members(self, content: Content) -> list[str]:
        """The members that a content belongs to: of an earlier version there may be two."""
        return list(dict.fromkeys(str(row.member) for row in self._read_rows(content)))

    def find_token(self, content: Content) -> str | None:
        """The random token of a file's content: this very content, not its member's others."""
        row = self._read_row(content)
        return None if row is None else str(row.token)

    def list_unlinked_members(self) -> set[str]:
        """Members by a fingerprint that only an earlier version made, and not seen since."""
        rows = self.session.connection.execute(
            sql.select(tables.CONTENTS.c.content, tables.CONTENTS.c.member)
        )
        return {str(row.member) for row in rows if not row.content.startswith(_NAME_PREFIX)}

    def move_contents(self, old: str, new: str) -> list[str]:
        """Tie every content of a member to another; return their tokens, for the chain to name."""
        self._check_all()
        connection = self.session.connection
        rows = list(
            connection.execute(sql.select(tables.CONTENTS).where(tables.CONTENTS.c.member == old))
        )
        for row in rows:
            self._write_row(row, member=new)
            self._moving.add(row.token)
        return [str(row.token) for row in rows]

    def remember_content(self, content: Content, member: str) -> str:
        """Tie a file's content to a member; return the random token that the chain must name.

        The chain never holds anything computed from the content.
        """
        row = self._read_row(content)
        token = secrets.token_hex(16) if row is None else row.token
        if row is None:
            name = self._name_content(content)
            values = {"content": name, "member": member, "token": token}
            mac = self.session.mac("member", name, member, token)
            self.session.connection.execute(sql.insert(tables.CONTENTS).values(mac=mac, **values))
            self._moving.add(token)
        return str(token)

    def _read_row(self, content: Content) -> Any:
        """The one row of a content; what an earlier version wrote is linked to it."""
        rows = self._read_rows(content)
        if len({row.member for row in rows}) > 1:
            raise BadInput(
                "Expected one member for a recording, got two, which an earlier version did not "
                "know to be one; make them one, with what both have spent: masquerade ledger add"
            )
        for place, row in enumerate(rows):
            if not row.content.startswith(_NAME_PREFIX):
                own = (
                    self._name_content(content)
                    if place == 0
                    else _NAME_PREFIX + row.content[len(_NAME_PREFIX) :]
                )
                rows[place] = self._write_row(row, content=own)
        return rows[0] if rows else None

    def _read_rows(self, content: Content) -> list[Any]:
        """The rows of a content in every form, its own first, each checked."""
        own = self._name_content(content)
        former = [self.session.mac("content", each.hex()) for each in content.former]
        where = tables.CONTENTS.c.content.in_([own, *former])
        rows = list(self.session.connection.execute(sql.select(tables.CONTENTS).where(where)))
        if not rows:
            self._check_all()
        for row in rows:
            if row.token not in self._moving:
                self.session.check_content(row, self.book.find_member(row.token))
        return sorted(rows, key=lambda row: row.content != own)

    def _write_row(self, row: Any, **changes: str) -> Any:
        """A row with other values, sealed anew."""
        values = {**row._mapping, **changes}
        mac = self.session.mac("member", values["content"], values["member"], row.token)
        where = tables.CONTENTS.c.token == row.token
        connection = self.session.connection
        connection.execute(sql.update(tables.CONTENTS).where(where).values(**values | {"mac": mac}))
        return connection.execute(sql.select(tables.CONTENTS).where(where)).one()

    def _check_all(self) -> None:
        if not self._is_checked:
            self.session.check_contents(self.book.list_tokens())
        self._is_checked = True

    def _name_content(self, content: Content) -> str:
        name = _NAME_PREFIX + self.session.mac("content", content.fingerprint.hex())
        return name[:_NAME_LENGTH]

    def keep_footage_hash(self, token: str, look: bytes) -> None:
        """Keep how a content looks, sealed, apart from the chain; an empty look is none."""
        if not look:
            return
        connection = self.session.connection
        tables.FOOTAGE_HASHES.create(connection, checkfirst=True)
        known = sql.select(tables.FOOTAGE_HASHES.c.token).where(
            tables.FOOTAGE_HASHES.c.token == token
        )
        if connection.execute(known).first() is None:
            sealed = self._seal_footage_hash(token, look).hex()
            mac = self.session.mac("look", token, sealed)
            connection.execute(
                sql.insert(tables.FOOTAGE_HASHES).values(token=token, sealed=sealed, mac=mac)
            )

    def footage_hashes(self) -> dict[str, bytes]:
        """The look of each content that has one, by its token."""
        connection = self.session.connection
        if not sql.inspect(connection).has_table(tables.FOOTAGE_HASHES.name):
            return {}
        found = {}
        with explain_damage():
            for row in connection.execute(sql.select(tables.FOOTAGE_HASHES)):
                written = self.session.mac("look", row.token, row.sealed)
                if not hmac.compare_digest(row.mac, written):
                    raise LedgerTampered(
                        "Expected an untouched ledger; a member's look was changed."
                    )
                found[str(row.token)] = self._seal_footage_hash(
                    row.token, bytes.fromhex(row.sealed)
                )
        return found

    def _seal_footage_hash(self, token: str, data: bytes) -> bytes:
        """Closed, or opened again, with a key stream that is this token's alone."""
        seed = bytes.fromhex(self.session.mac("seal", token))
        stream = int.from_bytes(hashlib.shake_256(seed).digest(len(data)))
        return (int.from_bytes(data) ^ stream).to_bytes(len(data))
