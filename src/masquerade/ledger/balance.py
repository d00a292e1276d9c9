"""The balance: what all entries so far come to, carried forward so that nobody walks them again.

It names the entry that it stands after and that entry's head, and is signed with the ledger's key.
So it can be believed without the entries before it, an old one does no harm (the entries since are
walked), and without one everything is walked, which is slow and right.

Facts in pages that hang in a tree of hashes, so that few are read and each of them is checked.

A page's name says what it hangs from: ``members/3f/a`` from ``members/3f``, that from ``members``,
and that from the root, whose name is empty. A page that others hang from holds their hashes; the
deepest hold facts. The hash of the root is kept by whoever keeps the pages.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from masquerade._optional import Later, sql
from masquerade.ledger.tables import Tampered

if TYPE_CHECKING:
    from masquerade.ledger import tables
else:
    tables = Later("masquerade.ledger.tables")  # which loads a database


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
    if not sql.inspect(connection).has_table(tables.BALANCE.name):
        return None
    row = connection.execute(sql.select(tables.BALANCE)).one_or_none()
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
            tables.GROWN.create_all(connection)
    except sql.exc.ProgrammingError:
        return False
    return True


def write(connection: sql.Connection, mac: Callable[..., str], balance: Balance) -> None:
    """Put a balance in the place of the one before."""
    fields = (balance.sequence, balance.head, balance.time, FORM, balance.root)
    connection.execute(sql.delete(tables.BALANCE))
    names = ("sequence", "head", "time", "form", "root")
    values = dict(zip(names, fields, strict=True))
    connection.execute(sql.insert(tables.BALANCE).values(mac=mac("balance", *fields), **values))


Page = dict[str, Any]
_LEAF = 3  # how deep the pages with facts hang
_AT_ONCE = 500  # names in one question: databases take some thousands


class Pages:
    """Facts by space and key; a page is read when one of its facts is asked for.

    Args:
        connection: to the pages that are kept; without one there are none yet.
        root: the hash of the root.
    """

    def __init__(self, connection: sql.Connection | None = None, root: str = "") -> None:
        self._connection, self._root = connection, root
        self._found: dict[str, str] = {}  # the texts of pages that were read and are not open yet
        self._kept: dict[str, str] = {}  # the hash of each open page that is kept
        self._open: dict[str, Page] = {}
        self._is_read = False

    def listed(self, space: str) -> Page:
        """The facts of a space that has few: one page."""
        return self._page(f"{space}/0/0")

    def hashed(self, space: str, key: str) -> Page:
        """The facts among which that of a key is: one of 4,096 pages."""
        return self._page(_hashed(space, key))

    def numbered(self, space: str, number: int) -> Page:
        """The facts among which that of a number is: pages of 256."""
        return self._page(f"{space}/{number >> 16}/{number >> 8}")

    def foresee(self, keys: Iterable[tuple[str, str]]) -> None:
        """Read the pages of some keys of spaces together: that is quicker than one by one."""
        if self._root:
            ways = {name for space, key in keys for name in _way_to(_hashed(space, key))}
            wanted = [name for name in ways if name not in self._open]
            for start in range(0, len(wanted), _AT_ONCE):
                self._find(tables.PAGES.c.name.in_(wanted[start : start + _AT_ONCE]))

    def facts(self, space: str) -> Iterator[tuple[str, Any]]:
        """Every fact of a space, with its key."""
        self._find(tables.PAGES.c.space == space)
        for folder in list(self._page(space)):
            for name in list(self._page(folder)):
                self._page(name)
        for name in [each for each in self._open if _is_leaf(each, space)]:
            yield from self._open[name].items()

    def read_all(self) -> None:
        """Open every page, for when the connection will be gone."""
        for space in list(self._page("")):
            for _ in self.facts(space):
                pass
        self._is_read = True

    def _page(self, name: str) -> Page:
        if name not in self._open:
            if name not in self._found:
                wanted = [each for each in _way_to(name) if each not in self._open]
                self._find(tables.PAGES.c.name.in_(wanted))
            kept = self._root if not name else self._page(_above(name)).get(name)
            self._open[name] = self._checked(name, kept) if kept else {}
        return self._open[name]

    def _find(self, where: sql.ColumnElement[bool]) -> None:
        if self._connection is not None and self._root and not self._is_read:
            rows = self._connection.execute(
                sql.select(tables.PAGES.c.name, tables.PAGES.c.text).where(where)
            )
            self._found |= {row.name: row.text for row in rows if row.name not in self._open}

    def _checked(self, name: str, kept: str) -> Page:
        text = self._found.pop(name, None)
        if not isinstance(text, str) or hash_of(text) != kept:
            raise Tampered(
                "Expected an untouched ledger; a page of its balance was changed or removed. "
                "Restore the newest good copy."
            )
        self._kept[name] = kept
        page: Page = json.loads(text)
        return page

    def changes(self) -> Iterator[tuple[str, str]]:
        """The pages that are not kept as they are now, each with its text; the root comes last."""
        for depth in (_LEAF, 2, 1, 0):
            for name in [each for each in self._open if len(_way_to(each)) == depth + 1]:
                page = self._open[name]
                text = json.dumps(page, sort_keys=depth < _LEAF)  # facts stay in their order
                if not page or hash_of(text) == self._kept.get(name):
                    continue
                self._kept[name] = hash_of(text)
                if name:
                    self._page(_above(name))[name] = self._kept[name]
                else:
                    self._root = self._kept[name]
                yield name, text

    def keep(self, connection: sql.Connection) -> str:
        """Write what has changed and return the hash of the root."""
        if self._connection is None:
            connection.execute(sql.delete(tables.PAGES))  # of a form that is no longer read
        rows = [
            {"name": name, "space": name.split("/")[0], "text": text}
            for name, text in self.changes()
        ]
        for start in range(0, len(rows), _AT_ONCE):
            names = [row["name"] for row in rows[start : start + _AT_ONCE]]
            connection.execute(sql.delete(tables.PAGES).where(tables.PAGES.c.name.in_(names)))
        if rows:  # entries may change nothing that is kept
            connection.execute(sql.insert(tables.PAGES), rows)
        self._connection = connection
        return self._root


def hash_of(text: str) -> str:
    """By which a page is known in the page above it."""
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=4096)
def _hashed(space: str, key: str) -> str:
    name = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{space}/{name[:2]}/{name[2]}"


def _above(name: str) -> str:
    return name.rpartition("/")[0]


def _way_to(name: str) -> list[str]:
    """The root, and every page from there to this one."""
    parts = name.split("/") if name else []
    return ["/".join(parts[:count]) for count in range(len(parts) + 1)]


def _is_leaf(name: str, space: str) -> bool:
    return name.startswith(f"{space}/") and name.count("/") == _LEAF - 1
