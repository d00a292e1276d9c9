"""Kills, races, full disks and wrong clocks: no spend is lost, no output goes unpaid."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import test_ledger
from test_ledger import DELTA, FRAME, MECHANISM, kinds, opened, values

from masquerade import release_file, release_value
from masquerade.errors import BadInput, BudgetExceeded
from masquerade.ledger import Ledger

address = test_ledger.address


def fork(work: Callable[[], object]) -> int:
    """Start ``work`` in a child; it exits with 0, or 3 past the cap, 4 for bad input, 5 else."""
    child = os.fork()
    if child:
        return child
    code = 5
    try:
        work()
        code = 0
    except BudgetExceeded:
        code = 3
    except (BadInput, OSError):
        code = 4
    finally:
        os._exit(code)


def code_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_sixteen_racers_get_exactly_the_five_spends_there_are(address: str) -> None:
    ledger = opened(address, count=5)
    gate, start = os.pipe()

    def race() -> None:
        os.close(start)
        os.read(gate, 1)  # all wait here until the gate is closed
        ledger.reserve_release(values(0), MECHANISM)

    children = [fork(race) for _ in range(16)]
    os.close(start)
    os.close(gate)
    codes = [code_of(child) for child in children]
    assert sorted(codes) == [0] * 5 + [3] * 11
    assert kinds(ledger) == ["open", "add", *["reserve"] * 5]


def test_one_ledger_comes_of_many_that_open_it_at_once(address: str) -> None:
    def open_account(place: int) -> Callable[[], object]:
        return lambda: Ledger(address).open_account(f"ward {place}", FRAME, epsilon=1, delta=DELTA)

    children = [fork(open_account(place)) for place in range(8)]
    assert [code_of(child) for child in children] == [0] * 8
    assert set(Ledger(address).read_book().accounts) == {f"ward {place}" for place in range(8)}


@pytest.mark.parametrize(("limit", "spent"), [(2048, []), (300_000, ["reserve"])])
def test_a_full_disk_never_leaves_an_output_without_a_spend(
    limit: int, spent: list[str], tmp_path: Path
) -> None:
    ledger, big = opened(str(tmp_path / "budget.db")), np.zeros((100_000, 1))
    ledger.add_content("ward", big)
    np.save(tmp_path / "in.npy", big)

    def run() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        release_file(tmp_path / "in.npy", tmp_path / "out.npy", MECHANISM, ledger=ledger)

    assert code_of(fork(run)) == 4
    assert kinds(ledger) == ["open", "add", "add", *spent]
    assert not list(tmp_path.glob("out*")) and not list(tmp_path.glob(".masq*"))
    release_file(tmp_path / "in.npy", tmp_path / "out.npy", MECHANISM, ledger=ledger)
    assert kinds(ledger)[-2:] == ["reserve", "settle"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user may look into."""
    folder = Path(tempfile.mkdtemp(prefix="masquerade-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_ledger_that_cannot_be_written_releases_nothing(open_folder: Path) -> None:
    path = open_folder / "budget.db"
    ledger = opened(str(path))
    path.chmod(0o444)
    open_folder.chmod(0o555)

    def run() -> None:
        if os.getuid() == 0:  # to whom no file is read-only
            os.setgid(65534)
            os.setuid(65534)
        release_value(values(0), MECHANISM, ledger=ledger)

    assert code_of(fork(run)) == 4
    open_folder.chmod(0o755)
    assert kinds(ledger) == ["open", "add"]


def test_what_is_no_ledger_is_refused(tmp_path: Path) -> None:
    text, folder, other = tmp_path / "text.db", tmp_path / "folder.db", tmp_path / "other.db"
    text.write_text("hello, this is not a database at all; " * 50)
    folder.mkdir()
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    (tmp_path / "empty.db").touch()
    for path in (text, folder, other, tmp_path / "empty.db", tmp_path / "missing.db"):
        with pytest.raises(BadInput):
            Ledger(path).read_entries()
    for path in (text, folder):
        with pytest.raises(BadInput, match=r"read and written|folder"):
            Ledger(path).open_account("ward", FRAME, epsilon=1, delta=DELTA)
    assert text.read_text().startswith("hello") and not (tmp_path / "missing.db").exists()
    with pytest.raises(BadInput):
        Ledger("postgresql://postgres:@/postgres?host=/nowhere").read_entries()
