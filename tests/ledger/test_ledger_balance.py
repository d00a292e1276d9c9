"""Balances: a large ledger is not walked each time, and says and notices what a small one does."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_ledger
import test_ledger_clock
import test_ledger_kills
from test_ledger import DELTA, FRAME, MECHANISM, SUBJECT, affords, opened, values
from test_ledger_faults import code_of, fork

from masquerade import make_mechanism, release_value
from masquerade.accounting.compose import make_sampled_gaussian
from masquerade.errors import BadInput, BudgetExceeded
from masquerade.guarantee import Relation
from masquerade.ledger import AccountBook, Content, Ledger, Run, balance, store
from masquerade.ledger import book as books
from masquerade.ledger.damage import LedgerTampered
from masquerade.ledger.filter import FilterName

address = test_ledger.address
BEFORE = Path(__file__).parents[1] / "fixtures" / "before"
WHOLE = replace(MECHANISM, unit="subject")  # type: ignore[type-var]
EVENT = make_sampled_gaussian(8.0, sampling_prob=0.5, steps=4)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every ledger is a large one."""
    make_soon(monkeypatch)


def make_soon(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(balance, "MIN_ENTRIES", 4)
    patch.setattr(balance, "ENTRIES_PER_BALANCE", 3)


@pytest.fixture(scope="module")
def nine_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of nine entries with a balance after the seventh, for two files."""
    folder = tmp_path_factory.mktemp("nine")
    with pytest.MonkeyPatch.context() as patch:
        make_soon(patch)
        ledger = opened(str(folder / "budget.db"), count=100, members=2)
        for _ in range(6):
            ledger.reserve_release(values(0), MECHANISM)
    return folder


@pytest.fixture
def nine(nine_folder: Path, tmp_path: Path) -> Ledger:
    shutil.copytree(nine_folder, tmp_path, dirs_exist_ok=True)
    return Ledger(tmp_path / "budget.db")


def unused(ledger: Ledger) -> str:
    """The member of which nothing was released."""
    book = ledger.read_book()
    return next(member for _, member in book.holders if not book.is_released(member))


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch, soon: None) -> Callable[[], None]:
    """Call it and no balance is carried forward from then on."""
    return lambda: monkeypatch.setattr(balance.Balance, "is_due", lambda *_: False)


def folded(ledger: Ledger) -> AccountBook:
    """What the entries say, one by one."""
    book = AccountBook()
    for entry in ledger.read_entries():
        book.apply_entry(entry)
    return book


def run_of(number: int, seeds: list[int]) -> Run:
    return Run(
        run_id=f"run {number}",
        method="dp_sgd",
        fields={},
        events=dict.fromkeys(Relation, EVENT),
        contents=tuple(Content.from_value(values(seed)) for seed in seeds),
        units=tuple(range(len(seeds))),
    )


def do_something(ledger: Ledger, rng: np.random.Generator) -> None:
    """One of the things that are done with ledgers; some are refused."""
    deed, seed, other = (int(rng.integers(top)) for top in (6, 8, 8))
    who = ["Ann", "ANN", "Ben", "cleo"][seed % 4]
    if deed == 0:
        ledger.add_content("people", values(seed), subject=who, remake=make_mechanism)
    elif deed == 1:
        ledger.add_content("ward", values(seed), remake=make_mechanism)
    elif deed == 2:
        ledger.add_content("ward", values(seed), same_as=values(other), remake=make_mechanism)
    elif deed == 3:
        ledger.reserve_run(run_of(int(rng.integers(5)), sorted({seed, other})))
    elif deed == 4:
        release_value(values(seed), WHOLE, ledger=ledger, accept_grey=True)
    else:
        ledger.reserve_release(values(seed), MECHANISM)


@pytest.mark.parametrize("seed", range(2))
def test_a_balance_is_what_the_entries_come_to_whatever_was_done(seed: int, tmp_path: Path) -> None:
    ledger, rng = Ledger(tmp_path / "budget.db"), np.random.default_rng(seed)
    rule = {"rule": FilterName.RENYI, "delta": DELTA}
    ledger.open_account("ward", FRAME, epsilon=90.0, **rule)
    ledger.open_account("people", SUBJECT, epsilon=60.0, **rule)
    refused = 0
    for _ in range(45):
        try:
            do_something(ledger, rng)
        except (BadInput, BudgetExceeded, ValueError):
            refused += 1
    book = ledger.read_book()
    assert book == folded(ledger) and 0 < refused < 40
    kinds = {entry.kind for entry in ledger.read_entries()}
    assert (
        kinds == {"open", "add", "reserve", "settle"}
        and book.list_run_entries()
        and len(book.output_by_reservation) > 1
    )
    found = ledger.verify_entries()
    assert found.entries == len(ledger.read_entries()) and found.balance > found.entries - 4


def test_a_reserve_reads_only_what_came_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balance, "ENTRIES_PER_BALANCE", 5)
    ledger, read, made = opened(str(tmp_path / "b.db"), count=100), [0], store._make_entry
    for _ in range(30):
        ledger.reserve_release(values(0), MECHANISM)

    def counted(row: Any) -> Any:
        read[0] += 1
        return made(row)

    monkeypatch.setattr(store, "_make_entry", counted)
    for _ in range(10):
        read[0] = 0
        ledger.reserve_release(values(0), MECHANISM)
        assert read[0] <= 2 * 5 + 1, "twice what is new, and the witness's"
    read[0] = 0
    ledger.verify_entries()
    assert read[0] >= 42, "and this walks everything"


def test_the_cap_is_kept_across_balances(address: str) -> None:
    ledger = opened(address, count=20)
    assert test_ledger.reserve_all(ledger, values(0)) == 20
    assert ledger.quote_releases([Content.from_value(values(0))], MECHANISM) != [None]
    book = ledger.read_book()
    assert book == folded(ledger) and ledger.verify_entries().balance >= 18
    assert book.count_charges(book.accounts["ward"], next(iter(book.cost_by_payer))[1]) == 20


def test_racers_past_balances_get_exactly_the_spends_there_are(address: str) -> None:
    ledger = opened(address, count=7)
    gate, start = os.pipe()

    def race() -> None:
        os.close(start)
        os.read(gate, 1)  # all wait here until the gate is closed
        ledger.reserve_release(values(0), MECHANISM)

    children = [fork(race) for _ in range(10)]
    os.close(start)
    os.close(gate)
    assert sorted(code_of(child) for child in children) == [0] * 7 + [3] * 3
    assert ledger.verify_entries().entries == 9 and ledger.read_book() == folded(ledger)


def test_kills_while_a_balance_is_written_leave_the_books_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balance, "ENTRIES_PER_BALANCE", 1)
    steps = ("ledger/balance.py", "ledger/balance.py", "ledger/book.py", "ledger/desk.py")
    monkeypatch.setattr(test_ledger_kills, "STEPS", (*steps, "ledger/store.py"))
    scene = test_ledger_kills.Scene(str(tmp_path / "budget.db"), tmp_path)
    scene.release()
    scene.judge()
    states = test_ledger_kills.kill_at_lines(scene, 14)
    assert states <= {"nothing", "reserve", "reserve settle", "reserve settle output"}
    test_ledger_kills.kill_at_times(scene, 6)
    assert scene.ledger.verify_entries().balance > 4 and scene.ledger.read_book() == folded(
        scene.ledger
    )


CHANGES = {
    "sum in a page": "UPDATE pages SET text = replace(text, '\"count\": ', '\"count\": 1')",
    "page of nonsense": "UPDATE pages SET text = '' WHERE name LIKE 'payers/%/%'",
    "page taken away": "DELETE FROM pages WHERE name LIKE 'payers/%/%'",
    "root taken away": "DELETE FROM pages WHERE name = ''",
    "another root": "UPDATE balance SET root = '00'",
    "no root": "UPDATE balance SET root = ''",
    "later entry": "UPDATE balance SET sequence = sequence + 1",
    "earlier entry": "UPDATE balance SET sequence = sequence - 1",
    "another head": "UPDATE balance SET head = '00'",
    "another time": "UPDATE balance SET time = '2020-01-01T00:00:00+00:00'",
    "another seal": "UPDATE balance SET mac = 'é'",
    "an entry since": "UPDATE entries SET time = '2020-01-01T00:00:00+00:00' WHERE sequence = 9",
    "the last entry": "DELETE FROM entries WHERE sequence = 9",
    "an entry too many": "INSERT INTO entries SELECT 10, time, kind, payload, head FROM entries "
    "WHERE sequence = 9",
    "the tip": "UPDATE ledger SET tip_sequence = 8",
    "the file's mark": "UPDATE contents SET mac = '00'",
    "the file's member": "UPDATE contents SET member = '00'",
}
OLD = {
    "old cost": 'UPDATE entries SET payload = replace(payload, \'"cost": "\', \'"cost": "-\') '
    "WHERE sequence = 5",
    "old row": "DELETE FROM entries WHERE sequence = 2",
    "row before the first": "INSERT INTO entries SELECT -1, time, kind, payload, head FROM entries "
    "WHERE sequence = 3",
    "page too many": "INSERT INTO pages SELECT 'x', space, text FROM pages WHERE name = ''",
    "another file": "DELETE FROM contents WHERE member = '{other}'",
}


def meddle(ledger: Ledger, statement: str) -> None:
    with ledger._store._engine.begin() as connection:
        assert connection.exec_driver_sql(statement.replace("%", "%%")).rowcount >= 1


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_a_reserve_relies_on_is_checked(
    what: str, nine: Ledger, never: Callable[[], None]
) -> None:
    never()
    meddle(nine, CHANGES[what])
    with pytest.raises(LedgerTampered):
        nine.reserve_release(values(0), MECHANISM)
    with pytest.raises(LedgerTampered):
        nine.verify_entries()


@pytest.mark.parametrize("what", OLD)
def test_what_a_reserve_does_not_rely_on_is_found_by_verify(
    what: str, nine: Ledger, never: Callable[[], None]
) -> None:
    never()
    spent = nine.read_book().cost_by_payer
    meddle(nine, OLD[what].replace("{other}", unused(nine)))
    [cost] = [int(c["cost"]) for c in nine.reserve_release(values(0), MECHANISM).payload["charges"]]
    assert sum(nine.read_book().cost_by_payer.values()) == sum(spent.values()) + cost, (
        "nothing came back"
    )
    with pytest.raises(LedgerTampered):
        nine.verify_entries()


def test_a_file_whose_fingerprint_was_taken_away_does_not_come_back_as_a_new_one(
    nine: Ledger,
) -> None:
    meddle(nine, f"UPDATE contents SET content = '00' WHERE member = '{unused(nine)}'")
    for act in (
        lambda: nine.add_content("ward", values(1)),
        lambda: nine.add_content("ward", values(5)),
        lambda: nine.reserve_release(values(1), MECHANISM),
        lambda: nine.count_members([Content.from_value(values(1))]),
        lambda: nine.add_content("ward", values(0), same_as=values(1)),
    ):
        with pytest.raises(LedgerTampered, match="fingerprint was changed"):
            act()


def test_an_old_page_in_a_new_balance_is_refused_and_an_old_balance_does_no_harm(
    nine: Ledger, tmp_path: Path
) -> None:
    path, old, ledger = tmp_path / "budget.db", tmp_path / "old.db", nine
    with sqlite3.connect(path) as connection:
        connection.execute(f"VACUUM INTO '{old}'")
    for _ in range(6):
        ledger.reserve_release(values(0), MECHANISM)
    spent = ledger.read_book().cost_by_payer

    def put_back(*tables: str, where: str = "1") -> None:
        with sqlite3.connect(path) as connection:
            connection.execute(f"ATTACH '{old}' AS old")
            for table in tables:
                connection.execute(f"DELETE FROM main.{table} WHERE {where}")
                connection.execute(
                    f"INSERT INTO main.{table} SELECT * FROM old.{table} WHERE {where}"
                )
            connection.commit()
        connection.close()

    shutil.copy(path, tmp_path / "good.db")
    put_back("pages", where="name LIKE 'payers/%/%'")
    with pytest.raises(LedgerTampered, match="page of its balance"):
        ledger.reserve_release(values(0), MECHANISM)
    shutil.copy(tmp_path / "good.db", path)
    put_back("pages", "balance")
    assert ledger.verify_entries().balance < 10 and ledger.read_book().cost_by_payer == spent


@pytest.mark.parametrize("how", ["emptied", "of another form"])
def test_without_a_balance_everything_is_walked(
    how: str, nine: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, book = nine, nine.read_book()
    if how == "emptied":
        meddle(ledger, "DELETE FROM balance")
    else:
        monkeypatch.setattr(balance, "BALANCE_FORM", "2, Unicode 99")
    assert ledger.verify_entries().balance == 0 and ledger.read_book() == book
    assert ledger.verify_entries().balance == 9, "and it is carried forward anew"
    meddle(ledger, "DELETE FROM balance")
    meddle(ledger, "UPDATE entries SET time = '2020-01-01T00:00:00+00:00' WHERE sequence = 2")
    with pytest.raises(LedgerTampered, match="entry 2"):
        ledger.reserve_release(values(0), MECHANISM)


def test_a_restored_backup_with_a_balance_is_refused(nine: Ledger, tmp_path: Path) -> None:
    path, old, ledger = tmp_path / "budget.db", tmp_path / "old.db", nine
    shutil.copy(path, old)
    witness = Path(f"{path}.witness").read_bytes()
    for _ in range(5):
        ledger.reserve_release(values(0), MECHANISM)
    newer = path.read_bytes()
    shutil.copy(old, path)
    with pytest.raises(LedgerTampered, match="older copy"):
        ledger.reserve_release(values(0), MECHANISM)
    path.write_bytes(newer)
    Path(f"{path}.witness").write_bytes(witness)
    ledger.reserve_release(
        values(0), MECHANISM
    )  # a witness that is behind the balance has seen its entry
    Path(f"{path}.witness").write_bytes(witness.replace(b'"head": "', b'"head": "0'))
    with pytest.raises(LedgerTampered, match="older copy"):
        ledger.reserve_release(values(0), MECHANISM)


def test_a_clock_behind_a_balance_is_noticed(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance, "ENTRIES_PER_BALANCE", 1)
    ledger, _ = opened(address, members=3), balance
    ledger.read_book()
    assert ledger.verify_entries().balance == 4, "no entry came since"
    test_ledger_clock.jump(monkeypatch, -2)
    with pytest.raises(LedgerTampered, match="Set the clock right"):
        ledger.reserve_release(values(0), MECHANISM)
    ledger.accept_clock()
    ledger.reserve_release(values(0), MECHANISM)
    assert [entry.sequence for entry in ledger.verify_entries().clocks] == [5]


def test_a_ledger_of_the_version_before_gets_a_balance_as_it_grows(tmp_path: Path) -> None:
    for name in ("budget.db", "budget.db.witness"):
        shutil.copy(BEFORE / name, tmp_path / name)
    ledger = Ledger(tmp_path / "budget.db")
    assert ledger.verify_entries().balance == 0
    book, entries = ledger.read_book(), ledger.read_entries()
    assert ledger.verify_entries().balance == len(entries) > 4
    assert ledger.read_book() == book == folded(ledger) and ledger.read_entries() == entries
    ledger.open_account("new", FRAME, epsilon=affords(3), delta=DELTA)
    ledger.add_content("new", values(0))
    assert test_ledger.reserve_all(ledger, values(0)) == 3
    assert ledger.verify_entries().balance > len(entries)


def test_a_list_of_very_many_kinds_is_not_recomposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    monkeypatch.setattr(books, "_MAX_KINDS", 2)
    path = tmp_path / "budget.db"
    ledger = opened(str(path), count=50)
    for place in range(3):
        shown = ledger.list_summaries("ward")[0]
        assert (shown["fixed_list_epsilon"] is not None) and shown[
            "releases_of_the_busiest"
        ] == place
        ledger.reserve_release(values(0), replace(MECHANISM, epsilon=1 + place / 10))  # type: ignore[type-var]
    [shown] = ledger.list_summaries()
    assert shown["fixed_list_epsilon"] is None and shown["releases_of_the_busiest"] == 3
    assert "of too many kinds" in command("ledger", "show", "--ledger", path).out
    assert ledger.verify_entries().balance > 0 and ledger.read_book() == folded(ledger)


def test_verify_says_which_balance_it_worked_out(nine: Ledger, command: Any) -> None:
    done = command("ledger", "verify", "--ledger", nine.address)
    assert "chain of 9 entries is whole" in done.out and "balance after entry 7" in done.out


def test_an_entry_that_a_balance_stands_after_is_missed(nine: Ledger, tmp_path: Path) -> None:
    for witness in tmp_path.glob("budget.db?*"):
        witness.unlink()
    while nine.verify_entries().balance != nine.verify_entries().entries:
        nine.reserve_release(values(0), MECHANISM)
        nine.read_book()
    last = nine.verify_entries().entries
    with sqlite3.connect(tmp_path / "budget.db") as database:
        database.execute("DELETE FROM entries WHERE sequence = ?", (last,))
    database.close()
    with pytest.raises(LedgerTampered):
        nine.reserve_release(values(0), MECHANISM)
