"""Damage and meddling: each is noticed, and gets a message of ours, never a traceback."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_ledger
from test_ledger import MECHANISM, opened, values

from masquerade import release_file, release_value
from masquerade.errors import BadInput
from masquerade.ledger import Ledger
from masquerade.ledger.damage import LedgerTampered

address = test_ledger.address
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
        ledger.reserve_release(values(seed), MECHANISM)
    with sqlite3.connect(folder / "budget.db") as connection:
        for table in TABLES:
            connection.execute(f"CREATE TABLE loose AS SELECT * FROM {table}")
            connection.execute(f"DROP TABLE {table}")
            connection.execute(f"ALTER TABLE loose RENAME TO {table}")
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.execute("VACUUM")
    connection.close()
    assert len(Ledger(folder / "budget.db").read_entries()) == 5
    return folder / "budget.db"


def read_everything(path: Path) -> None:
    ledger = Ledger(path)
    ledger.read_book()
    ledger.quote_release(values(0), MECHANISM)


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
    with ledger._store.open_ledger_session() as session:
        session.append_entry(kind, payload)
    with pytest.raises(BadInput, match=r"entry 3 of kind|untouched"):
        ledger.reserve_release(values(0), MECHANISM)


@pytest.mark.parametrize("text", ['{"ledger": 1}', '{"sequence": 1e999}', "-3", "0"])
def test_a_witness_of_nonsense_is_refused(text: str, tmp_path: Path) -> None:
    ledger, witness = opened(str(tmp_path / "b.db")), tmp_path / "b.db.witness"
    if not text.startswith("{"):
        with ledger._store.open_ledger_session() as session:
            name = session.ledger_id
        text = f'{{"ledger": "{name}", "sequence": {text}, "head": "x"}}'
    witness.write_text(text)
    with pytest.raises(BadInput, match=r"readable witness|older copy"):
        ledger.read_entries()


def test_a_server_without_its_driver_is_a_message(
    monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    done = command("ledger", "show", "--ledger", "postgresql://ann@127.0.0.1:1/x")
    assert done.code == 2 and "pip install 'masquerade[postgres]'" in done.err


MEDDLING = {
    "changed cost": 'UPDATE entries SET payload = replace(payload, \'"cost": "\', \'"cost": "-\')',
    "changed cap": "UPDATE entries SET payload = replace(payload, '1e-05', '1e-02')",
    "changed time": "UPDATE entries SET time = '2020-01-01T00:00:00+00:00' WHERE sequence = 3",
    "changed kind": "UPDATE entries SET kind = 'noted' WHERE sequence = 3",
    "inserted row": "INSERT INTO entries SELECT 7, time, kind, payload, head FROM entries "
    "WHERE sequence = 3",
    "deleted last row": "DELETE FROM entries WHERE sequence = 6",
    "deleted last row and tip": "DELETE FROM entries WHERE sequence = 6; "
    "UPDATE ledger SET tip_sequence = 5, "
    "tip_head = (SELECT head FROM entries WHERE sequence = 5)",
    "deleted middle row": "DELETE FROM entries WHERE sequence = 4",
    "renumbered": "DELETE FROM entries WHERE sequence = 4; "
    "UPDATE entries SET sequence = 4 WHERE sequence = 5; "
    "UPDATE entries SET sequence = 5 WHERE sequence = 6; UPDATE ledger SET tip_sequence = 5",
    "other tip": "UPDATE ledger SET tip_sequence = 5",
    "other key": "UPDATE ledger SET key = '00'",
    "other id": "UPDATE ledger SET id = '00'",
    "other member": "UPDATE contents SET member = '00'",
    "other content": "UPDATE contents SET content = '00'",
    "deleted content": "DELETE FROM contents",
    "emptied": "DELETE FROM entries",
}


@pytest.mark.parametrize("what", MEDDLING)
def test_meddling_is_noticed(what: str, address: str) -> None:
    ledger = opened(address)
    for _ in range(2):
        release_value(values(0), MECHANISM, ledger=ledger)
    assert len(ledger.read_entries()) == 6
    with ledger._store._engine.begin() as connection:
        for statement in MEDDLING[what].split("; "):
            assert connection.exec_driver_sql(statement).rowcount >= 1
    with pytest.raises(LedgerTampered):
        ledger.read_entries()
    with pytest.raises(LedgerTampered):
        ledger.reserve_release(values(0), MECHANISM)


def test_a_restored_backup_is_refused(tmp_path: Path, command: Any) -> None:
    path, old = tmp_path / "budget.db", tmp_path / "old.db"
    published = tmp_path / "published"
    published.mkdir()
    np.save(tmp_path / "in.npy", values(0))
    ledger = opened(str(path), count=2)

    def release(name: str) -> None:
        release_file(tmp_path / "in.npy", published / name, MECHANISM, ledger=ledger)

    release("a.npy")
    witness = Path(f"{path}.witness")
    for file in (path, witness):
        shutil.copy(file, old.with_suffix(file.suffix))
    release("b.npy")
    shutil.copy(old, path)
    with pytest.raises(LedgerTampered, match="older copy"):
        ledger.reserve_release(values(0), MECHANISM)
    verify = ["ledger", "verify", "--ledger", path]
    assert command(*verify).code == 4

    shutil.copy(old.with_suffix(".witness"), witness)
    assert command(*verify).code == 0, "nothing in the ledger itself can tell"
    found = command(*verify, "--receipts", published)
    assert found.code == 4 and "1 of 2 are not in it" in found.err
    (published / "b.npy").unlink()
    release("c.npy")
    found = command(*verify, "--receipts", published)
    assert found.code == 4 and "1 of 3 are not in it: entry 5" in found.err
    (published / "b.npy.receipt.json").unlink()
    assert command(*verify, "--receipts", published).code == 0
    (published / "c.npy.receipt.json").write_text("{}")
    assert command(*verify, "--receipts", published).code == 4
    assert command(*verify, "--receipts", tmp_path / "nowhere").code == 4


def test_a_lost_witness_is_written_anew(address: str, tmp_path: Path) -> None:
    ledger = opened(address)
    [witness] = tmp_path.rglob("*.witness")
    said = witness.read_text()
    witness.unlink()
    ledger.read_entries()
    assert witness.read_text() == said
    ledger.reserve_release(values(0), MECHANISM)
    assert witness.read_text() != said


def test_a_fingerprint_that_stands_twice_does_not_hide_a_missing_one(tmp_path: Path) -> None:
    """In a table without its constraints, as a careless restore leaves it."""
    path = tmp_path / "budget.db"
    ledger = opened(str(path), count=3, members=2)
    ledger.reserve_release(values(0), MECHANISM)
    book = ledger.read_book()
    [gone] = [member for _, member in book.holders if book.is_released(member)]
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE other AS SELECT * FROM contents WHERE member <> ?", (gone,))
        database.execute("INSERT INTO other SELECT * FROM other")
        database.execute("DROP TABLE contents")
        database.execute("ALTER TABLE other RENAME TO contents")
    database.close()
    with pytest.raises(LedgerTampered, match="fingerprint"):
        ledger.verify_entries()
    with pytest.raises(LedgerTampered, match="fingerprint"):
        ledger.reserve_release(values(1), MECHANISM)
