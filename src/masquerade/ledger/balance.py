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

from masquerade._optional import lazy_module, sql
from masquerade.ledger.damage import LedgerTampered

if TYPE_CHECKING:
    from masquerade.ledger import tables
else:
    tables = lazy_module("masquerade.ledger.tables")  # which loads a database


MIN_ENTRIES = (
    256  # entries of a ledger that gets its first balance; a smaller one is always walked whole
)
ENTRIES_PER_BALANCE = 16  # entries after which there is a new one
# names are known by keys that Python's Unicode makes: under another, everything is walked anew
BALANCE_FORM = f"2, Unicode {unicodedata.unidata_version}"


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
        return sequence - self.sequence >= (ENTRIES_PER_BALANCE if self.root else MIN_ENTRIES)


def read_balance(connection: sql.Connection, mac: Callable[..., str]) -> Balance | None:
    """The balance of a ledger, if it has one in a form that is read here.

    Raises:
        Tampered: if it is not what the ledger wrote.
    """
    if not sql.inspect(connection).has_table(tables.BALANCE.name):
        return None
    row = connection.execute(sql.select(tables.BALANCE)).one_or_none()
    if row is None or row.form != BALANCE_FORM:
        return None
    fields = (row.sequence, row.head, row.time, row.form, row.root)
    if not row.root or not hmac.compare_digest(row.mac, mac("balance", *fields)):
        raise LedgerTampered(
            "Expected an untouched ledger; its balance was changed. Restore the newest good copy, "
            "and compare it with: masquerade ledger verify --receipts"
        )
    return Balance(sequence=row.sequence, head=row.head, time=row.time, root=row.root)


def make_tables(connection: sql.Connection) -> bool:
    """Give a ledger that has grown the tables; False where a server does not let us make any.

    Then it goes on without a balance, and everything is walked.
    """
    try:
        with connection.begin_nested():
            tables.BALANCE_TABLES.create_all(connection)
    except sql.exc.ProgrammingError:
        return False
    return True


def write_balance(connection: sql.Connection, mac: Callable[..., str], balance: Balance) -> None:
    """Put a balance in the place of the one before."""
    fields = (balance.sequence, balance.head, balance.time, BALANCE_FORM, balance.root)
    connection.execute(sql.delete(tables.BALANCE))
    names = ("sequence", "head", "time", "form", "root")
    values = dict(zip(names, fields, strict=True))
    connection.execute(sql.insert(tables.BALANCE).values(mac=mac("balance", *fields), **values))


Page = dict[str, Any]
_LEAF_DEPTH = 3  # how deep the pages with facts hang
_NAMES_PER_QUERY = 500  # names in one question: databases take some thousands


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

    def open_list_page(self, space: str) -> Page:
        """The facts of a space that has few: one page."""
        return self._open_page(f"{space}/0/0")

    def open_hash_page(self, space: str, key: str) -> Page:
        """The facts among which that of a key is: one of 4,096 pages."""
        return self._open_page(_name_hash_page(space, key))

    def open_number_page(self, space: str, number: int) -> Page:
        """The facts among which that of a number is: pages of 256."""
        return self._open_page(f"{space}/{number >> 16}/{number >> 8}")

    def prefetch_pages(self, keys: Iterable[tuple[str, str]]) -> None:
        """Read the pages of some keys of spaces together: that is quicker than one by one."""
        if self._root:
            ways = {
                name for space, key in keys for name in _list_ancestors(_name_hash_page(space, key))
            }
            wanted = [name for name in ways if name not in self._open]
            for start in range(0, len(wanted), _NAMES_PER_QUERY):
                self._fetch_pages(tables.PAGES.c.name.in_(wanted[start : start + _NAMES_PER_QUERY]))

    def list_facts(self, space: str) -> Iterator[tuple[str, Any]]:
        """Every fact of a space, with its key."""
        self._fetch_pages(tables.PAGES.c.space == space)
        for folder in list(self._open_page(space)):
            for name in list(self._open_page(folder)):
                self._open_page(name)
        for name in [each for each in self._open if _is_leaf(each, space)]:
            yield from self._open[name].items()

    def read_all(self) -> None:
        """Open every page, for when the connection will be gone."""
        for space in list(self._open_page("")):
            for _ in self.list_facts(space):
                pass
        self._is_read = True

    def _open_page(self, name: str) -> Page:
        if name not in self._open:
            if name not in self._found:
                wanted = [each for each in _list_ancestors(name) if each not in self._open]
                self._fetch_pages(tables.PAGES.c.name.in_(wanted))
            kept = self._root if not name else self._open_page(_parent_page(name)).get(name)
            self._open[name] = self._check_page(name, kept) if kept else {}
        return self._open[name]

    def _fetch_pages(self, where: sql.ColumnElement[bool]) -> None:
        if self._connection is not None and self._root and not self._is_read:
            rows = self._connection.execute(
                sql.select(tables.PAGES.c.name, tables.PAGES.c.text).where(where)
            )
            self._found |= {row.name: row.text for row in rows if row.name not in self._open}

    def _check_page(self, name: str, kept: str) -> Page:
        text = self._found.pop(name, None)
        if not isinstance(text, str) or hash_page(text) != kept:
            raise LedgerTampered(
                "Expected an untouched ledger; a page of its balance was changed or removed. "
                "Restore the newest good copy."
            )
        self._kept[name] = kept
        page: Page = json.loads(text)
        return page

    def list_changes(self) -> Iterator[tuple[str, str]]:
        """The pages that are not kept as they are now, each with its text; the root comes last."""
        for depth in (_LEAF_DEPTH, 2, 1, 0):
            for name in [each for each in self._open if len(_list_ancestors(each)) == depth + 1]:
                page = self._open[name]
                text = json.dumps(page, sort_keys=depth < _LEAF_DEPTH)  # facts stay in their order
                if not page or hash_page(text) == self._kept.get(name):
                    continue
                self._kept[name] = hash_page(text)
                if name:
                    self._open_page(_parent_page(name))[name] = self._kept[name]
                else:
                    self._root = self._kept[name]
                yield name, text

    def write_pages(self, connection: sql.Connection) -> str:
        """Write what has changed and return the hash of the root."""
        if self._connection is None:
            connection.execute(sql.delete(tables.PAGES))  # of a form that is no longer read
        rows = [
            {"name": name, "space": name.split("/")[0], "text": text}
            for name, text in self.list_changes()
        ]
        for start in range(0, len(rows), _NAMES_PER_QUERY):
            names = [row["name"] for row in rows[start : start + _NAMES_PER_QUERY]]
            connection.execute(sql.delete(tables.PAGES).where(tables.PAGES.c.name.in_(names)))
        if rows:  # entries may change nothing that is kept
            connection.execute(sql.insert(tables.PAGES), rows)
        self._connection = connection
        return self._root


def hash_page(text: str) -> str:
    """By which a page is known in the page above it."""
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=4096)
def _name_hash_page(space: str, key: str) -> str:
    name = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{space}/{name[:2]}/{name[2]}"


def _parent_page(name: str) -> str:
    return name.rpartition("/")[0]


def _list_ancestors(name: str) -> list[str]:
    """The root, and every page from there to this one."""
    parts = name.split("/") if name else []
    return ["/".join(parts[:count]) for count in range(len(parts) + 1)]


def _is_leaf(name: str, space: str) -> bool:
    return name.startswith(f"{space}/") and name.count("/") == _LEAF_DEPTH - 1
