"""A damaged ledger gets a message of ours, whatever the damage is; never a traceback."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_ledger import MECHANISM, opened, values

from masquerade.errors import BadInput
from masquerade.ledger import Ledger

TABLES = ("ledger", "entries", "contents")
ODD: list[Any] = [
    None,
    0,
    -1,
    2**62,
    1.5,
    "",
    "é" * 64,
    "zz",
    "[]",
    "{",
    '{"token": 1}',
    b"\x00\xff",
    b"",
    "add",
    "2030-13-99",
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with spends, in one file, whose tables take anything."""
    folder = tmp_path_factory.mktemp("whole")
    ledger = opened(str(folder / "budget.db"), members=2)
    for seed in (0, 1):
        ledger.reserve(values(seed), MECHANISM)
    with sqlite3.connect(folder / "budget.db") as connection:
        for table in TABLES:
            connection.execute(f"CREATE TABLE loose AS SELECT * FROM {table}")
            connection.execute(f"DROP TABLE {table}")
            connection.execute(f"ALTER TABLE loose RENAME TO {table}")
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.execute("VACUUM")
    connection.close()
    assert len(Ledger(folder / "budget.db").entries()) == 5
    return folder / "budget.db"


def read_everything(path: Path) -> None:
    ledger = Ledger(path)
    ledger.book()
    ledger.quote(values(0), MECHANISM)


def damage_row(path: Path, rng: np.random.Generator) -> str:
    """Change, remove or double a row of any table; say what was done."""
    with sqlite3.connect(path) as connection:
        table = str(rng.choice(TABLES))
        rows = connection.execute(f"SELECT rowid FROM {table}").fetchall()
        row = int(rows[rng.integers(len(rows))][0])
        names = [found[1] for found in connection.execute(f"PRAGMA table_info({table})")]
        column, deed = str(rng.choice(names)), int(rng.integers(8))
        odd = ODD[rng.integers(len(ODD))]
        if deed == 0:
            done = f"DELETE FROM {table} WHERE rowid = {row}"
        elif deed == 1:
            done = f"INSERT INTO {table} SELECT * FROM {table} WHERE rowid = {row}"
        elif deed == 2:
            done = f"ALTER TABLE {table} RENAME COLUMN {column} TO other"
        else:
            done = f"UPDATE {table} SET {column} = ? WHERE rowid = {row}"
        before = connection.execute(f"SELECT * FROM {table}").fetchall()
        connection.execute(done, (odd,) if "?" in done else ())
        is_same = before == connection.execute(f"SELECT * FROM {table}").fetchall() and deed != 2
    connection.close()
    return "" if is_same else f"{done} {odd!r}"


@pytest.mark.parametrize("part", range(4))
def test_every_damaged_row_is_refused_with_a_message(
    part: int, whole: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(part)
    for number in range(30):
        path = tmp_path / f"{number}.db"
        shutil.copy(whole, path)
        done = damage_row(path, rng)
        if done:
            try:
                read_everything(path)
            except BadInput as error:
                assert "Expected" in str(error)
            else:
                raise AssertionError(f"nobody noticed: {done}")


def test_damaged_bytes_never_end_in_a_traceback(whole: Path, tmp_path: Path) -> None:
    rng, good = np.random.default_rng(9), whole.read_bytes()
    noticed = 0
    for number in range(40):
        data = bytearray(good)
        for place in rng.integers(0, len(data), 1 + number % 8):
            data[place] ^= int(rng.integers(1, 256))
        path = tmp_path / f"{number}.db"
        path.write_bytes(data[: len(data) // 2] if number % 10 == 0 else data)
        try:
            read_everything(path)
        except BadInput:
            noticed += 1
    assert noticed > 20, "not every byte is used"


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("merge", {}),
        ("add", {"account": "ward", "token": None}),
        ("reserve", {"charges": [{"account": "ward"}]}),
        ("reserve", {"charges": 3}),
        ("open", {"name": "x"}),
        ("settle", {}),
    ],
)
def test_an_entry_of_a_newer_version_is_refused_and_not_skipped(
    kind: str, payload: dict[str, Any], tmp_path: Path
) -> None:
    ledger = opened(str(tmp_path / "budget.db"))
    with ledger._store.session() as session:
        session.append(kind, payload)
    with pytest.raises(BadInput, match=r"entry 3 of kind|untouched"):
        ledger.reserve(values(0), MECHANISM)


@pytest.mark.parametrize("text", ['{"ledger": 1}', '{"sequence": 1e999}', "-3", "0"])
def test_a_witness_of_nonsense_is_refused(text: str, tmp_path: Path) -> None:
    ledger, witness = opened(str(tmp_path / "b.db")), tmp_path / "b.db.witness"
    if not text.startswith("{"):
        with ledger._store.session() as session:
            name = session.ledger_id
        text = f'{{"ledger": "{name}", "sequence": {text}, "head": "x"}}'
    witness.write_text(text)
    with pytest.raises(BadInput, match=r"readable witness|older copy"):
        ledger.entries()


def test_a_server_without_its_driver_is_a_message(
    monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    done = command("ledger", "show", "--ledger", "postgresql://ann@127.0.0.1:1/x")
    assert done.code == 2 and "pip install 'masquerade[postgres]'" in done.err
