"""What a second reader of the ledger found, held."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sqlite3
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade import make_mechanism, release_file, release_value
from masquerade.errors import BadInput, BudgetExceeded
from masquerade.guarantee import Unit, UnitName
from masquerade.ledger import Ledger
from masquerade.ledger.damage import LedgerTampered, OutOfReach
from masquerade.receipt import Receipt

MECHANISM = make_mechanism("gaussian_noise", epsilon=1, delta=1e-5, unit="frame", low=0, high=9)
FLAGS = "--mechanism gaussian_noise --epsilon 1 --delta 1e-5 --unit frame --low 0 --high 9".split()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "in.npy", np.arange(12.0).reshape(4, 3) % 9)
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("ward", Unit(name=UnitName.FRAME), epsilon=8, delta=1e-5)
    ledger.add_content("ward", np.load(tmp_path / "in.npy"))
    return tmp_path


def spends(folder: Path) -> int:
    return sum(entry.kind == "reserve" for entry in Ledger(folder / "budget.db").read_entries())


def test_an_empty_address_never_releases_uncharged(folder: Path, command: Any) -> None:
    done = command("release", folder / "in.npy", folder / "out.npy", *FLAGS, "--ledger=")
    assert done.code == 2 and not (folder / "out.npy").exists()


def test_a_dry_run_says_whether_the_ledger_can_afford_it(folder: Path, command: Any) -> None:
    words = ["release", folder / "in.npy", folder / "out.npy", *FLAGS, "--dry-run", "--ledger"]
    assert "can afford" in command(*words, folder / "budget.db").out
    words[words.index("1")] = "100"
    assert command(*words, folder / "budget.db").code == 3
    assert spends(folder) == 0


@pytest.mark.parametrize("target", ["folder.npy", "/proc/out.npy"])
def test_a_target_that_cannot_be_written_costs_nothing(
    folder: Path, target: str, command: Any
) -> None:
    (folder / "folder.npy").mkdir()
    words = ["release", folder / "in.npy", folder / target, *FLAGS, "--overwrite"]
    assert command(*words, "--ledger", folder / "budget.db").code in (2, 4)
    assert spends(folder) == 0


def test_a_second_output_on_one_spend_is_noticed(folder: Path, command: Any) -> None:
    ledger = Ledger(folder / "budget.db")
    done = release_file(folder / "in.npy", folder / "out.npy", MECHANISM, ledger=ledger)
    verify = ["ledger", "verify", "--receipts", folder, "--ledger", folder / "budget.db"]
    assert command(*verify).code == 0
    forged = dataclasses.replace(done.receipt, output_sha256="0" * 64)
    (folder / "other.npy.receipt.json").write_text(forged.to_json())
    assert command(*verify).code == 4
    fields = {**done.receipt.fields, "epsilon": 0.5}
    assert ledger.find_strangers([dataclasses.replace(done.receipt, fields=fields)])


def test_a_member_of_the_same_footage_is_not_taken_for_this_file(folder: Path) -> None:
    ledger = Ledger(folder / "budget.db")
    first = np.load(folder / "in.npy")
    np.save(folder / "twin.npy", first + 0.5)
    with pytest.raises(ValueError, match="add it first"):
        ledger.add_content("ward", first, same_as=first + 0.5)
    ledger.add_content("ward", first + 0.5, same_as=first)
    release_file(folder / "in.npy", folder / "out.npy", MECHANISM, ledger=ledger)
    with pytest.raises(FileExistsError, match="another file"):
        release_file(folder / "twin.npy", folder / "out.npy", MECHANISM, ledger=ledger)


def test_what_was_spent_before_a_file_joined_an_account_is_charged_to_it(folder: Path) -> None:
    ledger, value = Ledger(folder / "budget.db"), np.load(folder / "in.npy")
    for _ in range(2):
        ledger.reserve_release(value, MECHANISM)
    unit = Unit(name=UnitName.FRAME)
    ledger.open_account("later", unit, epsilon=8, delta=1e-5)
    with pytest.raises(ValueError, match=r"remake=masquerade\.make_mechanism"):
        ledger.add_content("later", value)
    ledger.add_content("later", value, remake=make_mechanism)
    ledger.add_content("later", value)  # once more changes nothing
    book = ledger.read_book()
    holder = book.holders["later", ledger.add_content("ward", value)][0]
    assert book.cost_by_payer["later", holder] == book.cost_by_payer["ward", holder] > 0
    ledger.open_account("small", unit, epsilon=1.2, delta=1e-5)
    with pytest.raises(BudgetExceeded, match="account small"):
        ledger.add_content("small", value, remake=make_mechanism)


def test_files_are_added_all_or_none(folder: Path, command: Any) -> None:
    ledger = Ledger(folder / "budget.db")
    np.save(folder / "fresh.npy", np.ones((4, 3)))
    for _ in range(2):
        ledger.reserve_release(np.load(folder / "in.npy"), MECHANISM)
    ledger.open_account("small", Unit(name=UnitName.FRAME), epsilon=1.2, delta=1e-5)
    before = ledger.read_entries()
    words = ["ledger", "add", "small", "--ledger", folder / "budget.db", folder / "fresh.npy"]
    done = command(*words, folder / "in.npy")
    assert done.code == 3 and "Nothing was spent" in done.err
    assert ledger.read_entries() == before
    assert command(*words).code == 0 and len(ledger.read_entries()) == len(before) + 1


def test_several_files_come_in_as_one_with_a_member(folder: Path, command: Any) -> None:
    ledger, files = Ledger(folder / "budget.db"), [folder / "a.npy", folder / "b.npy"]
    for place, file in enumerate(files, 1):
        np.save(file, np.full((4, 3), place))
    member = ledger.add_content("ward", np.load(files[1]))  # until now one of its own
    words = ["--same-as", folder / "in.npy", "--ledger", folder / "budget.db", "--json"]
    done = command("ledger", "add", "ward", *files, *words)
    twin = ledger.add_content("ward", np.load(folder / "in.npy"))
    assert done.json["members"] == [twin, twin] and member != twin
    assert [name for _, name in ledger.read_book().holders] == [twin]


def test_an_export_never_overwrites_anything(folder: Path, command: Any) -> None:
    for name in ("budget.db", "budget.db.witness", "nowhere/entries.json"):
        out = folder / name
        assert command("ledger", "export", out, "--ledger", folder / "budget.db").code == 2
    out = folder / "entries.json"
    assert command("ledger", "export", out, "--ledger", folder / "budget.db").code == 0
    assert len(json.loads(out.read_text())) == 2
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_ledger_and_witness_are_their_owners_alone(folder: Path) -> None:
    for name in ("budget.db", "budget.db.witness"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("is_folder", [False, True])
def test_an_older_copy_is_noticed_by_every_name_of_a_ledger(is_folder: bool, folder: Path) -> None:
    real = folder / "budget.db"
    link = folder / "away" / "budget.db" if is_folder else folder / "link.db"
    (folder / "away").symlink_to(folder, target_is_directory=True)
    (folder / "link.db").symlink_to("budget.db")
    shutil.copy(real, folder / "old.db")
    Ledger(link).reserve_release(np.load(folder / "in.npy"), MECHANISM)
    assert [path.name for path in folder.glob("*.witness")] == ["budget.db.witness"]
    shutil.copy(folder / "old.db", real)
    for name in (real, link):
        with pytest.raises(LedgerTampered, match="older copy"):
            Ledger(name).read_entries()


def test_a_ledger_by_a_relative_path_is_the_one_it_was_opened_as(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    ledger = Ledger("budget.db")
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    ledger.reserve_release(np.load(folder / "in.npy"), MECHANISM)
    assert spends(folder) == 1 and not list((folder / "elsewhere").iterdir())


def test_a_ledger_is_made_where_a_link_leads(tmp_path: Path) -> None:
    link, real = tmp_path / "link.db", tmp_path / "real.db"
    link.symlink_to("real.db")
    Ledger(link).open_account("ward", Unit(name=UnitName.FRAME), epsilon=8, delta=1e-5)
    assert link.is_symlink() and stat.S_IMODE(real.stat().st_mode) == 0o600
    assert (tmp_path / "real.db.witness").exists()


def test_a_link_that_leads_back_to_itself_is_no_ledger(tmp_path: Path) -> None:
    (tmp_path / "loop.db").symlink_to("loop.db")
    with pytest.raises(BadInput, match=r"Expected a ledger at .*loop\.db"):
        Ledger(tmp_path / "loop.db").read_entries()


def test_a_ledger_that_was_deleted_and_made_anew_is_noticed(folder: Path) -> None:
    (folder / "budget.db").unlink()
    with pytest.raises(LedgerTampered, match="another one stands here"):
        Ledger(folder / "budget.db").open_account(
            "ward", Unit(name=UnitName.FRAME), epsilon=8, delta=1e-5
        )


@pytest.mark.parametrize("text", ["", "{}", "[]", "nonsense"])
def test_a_damaged_witness_gets_a_clear_error(folder: Path, text: str) -> None:
    (folder / "budget.db.witness").write_text(text)
    with pytest.raises(LedgerTampered, match="readable witness"):
        Ledger(folder / "budget.db").read_entries()


def test_a_lock_at_the_last_moment_says_that_the_output_stands(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(folder / "budget.db")

    def locked(receipt: Receipt) -> None:
        raise OutOfReach("database is locked.")

    monkeypatch.setattr(ledger, "record_output", locked)
    with pytest.raises(BadInput, match="stands and its spend is recorded"):
        release_file(folder / "in.npy", folder / "out.npy", MECHANISM, ledger=ledger)
    monkeypatch.undo()
    release_file(folder / "in.npy", folder / "out.npy", MECHANISM, ledger=ledger)
    assert spends(folder) == 1 and len(ledger.read_book().output_by_reservation) == 1


def test_only_a_receipt_of_this_ledger_is_settled(folder: Path) -> None:
    ledger, value = Ledger(folder / "budget.db"), np.load(folder / "in.npy")
    spend = ledger.reserve_release(value, MECHANISM)
    free = release_value(value, MECHANISM).receipt
    receipt = dataclasses.replace(free, ledger_sequence=spend.sequence, ledger_head=spend.head)
    wrong: list[dict[str, Any]] = [
        {"ledger_sequence": None, "ledger_head": None},
        {"ledger_sequence": 99},
        {"ledger_sequence": 1},
        {"ledger_head": "0" * 64},
        {"fields": {**receipt.fields, "epsilon": 0.5}},
    ]
    for change in wrong:
        with pytest.raises(BadInput, match="spend is in this ledger"):
            ledger.record_output(dataclasses.replace(receipt, **change))
    assert not ledger.read_book().output_by_reservation
    ledger.record_output(receipt)
    assert ledger.read_book().output_by_reservation == {spend.sequence: receipt.output_sha256}


def test_a_second_output_is_refused_and_not_told_to_try_again(folder: Path) -> None:
    ledger = Ledger(folder / "budget.db")
    first = release_file(folder / "in.npy", folder / "out.npy", MECHANISM, ledger=ledger).receipt
    free = release_file(folder / "in.npy", folder / "two.npy", MECHANISM).receipt
    spend = {"ledger_sequence": first.ledger_sequence, "ledger_head": first.ledger_head}
    forged = dataclasses.replace(free, **spend)
    (folder / "two.npy.receipt.json").write_text(forged.to_json())
    (folder / "two.npy.receipt.json.sig").unlink()
    with pytest.raises(BadInput, match="one charge is good for one output") as refused:
        release_file(folder / "in.npy", folder / "two.npy", MECHANISM, ledger=ledger)
    said = str(refused.value)
    assert "spend is recorded" not in said and "Nothing was published" not in said


def test_a_database_that_cannot_be_read_is_out_of_reach(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is not a database at all; " * 50)
    with pytest.raises(OutOfReach, match="read and written"):
        Ledger(tmp_path / "text.db").read_entries()


def test_a_password_is_never_printed(command: Any) -> None:
    address = "postgresql://bob:s3cret@127.0.0.1:1/x"
    done = command("ledger", "show", "--ledger", address)
    assert done.code == 4 and "s3cret" not in done.err + done.out
    assert command("ledger", "show", "--ledger", "postgresql://bob@host:port/x").code == 2


@pytest.mark.parametrize("name", ["a%20b.db", "a?b.db"])
def test_a_path_is_a_path_and_not_an_address(tmp_path: Path, name: str) -> None:
    ledger = Ledger(tmp_path / name)
    ledger.open_account("ward", Unit(name=UnitName.FRAME), epsilon=8, delta=1e-5)
    assert len(ledger.read_entries()) == 1
    with sqlite3.connect(tmp_path / name) as connection:
        assert connection.execute("SELECT count(*) FROM entries").fetchone() == (1,)
    connection.close()
