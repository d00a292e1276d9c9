"""A PostgreSQL server with defaults of its own: no spend is lost, and nobody is alarmed falsely."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest
from test_ledger import MECHANISM, opened, server, values
from test_ledger_faults import code_of, fork

from masquerade.ledger import Ledger, balance


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    name = f"budget_{secrets.token_hex(8)}"
    server().psql(f"CREATE DATABASE {name};")
    return str(server().get_uri(database=name))


def set_default(address: str, setting: str) -> None:
    name = address.split("?")[0].rsplit("/", 1)[1]
    server().psql(f"ALTER DATABASE {name} SET {setting};")


def said(ledger: Ledger, setting: str) -> str:
    with ledger._store.open_ledger_session() as session:
        return str(session.connection.exec_driver_sql(f"SHOW {setting}").scalar())


def test_a_spend_is_on_disk_whatever_the_server_does_by_default(address: str) -> None:
    set_default(address, "synchronous_commit TO off")
    ledger = opened(address)
    with ledger._store._engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "off"
    assert said(ledger, "synchronous_commit") == "on"


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_racers_are_not_alarmed_by_a_stricter_server(level: str, address: str) -> None:
    set_default(address, f"default_transaction_isolation TO '{level}'")
    ledger = opened(address, count=3)
    assert said(ledger, "transaction_isolation") == "read committed"
    gate, start = os.pipe()

    def race() -> None:
        os.close(start)
        os.read(gate, 1)  # all wait here until the gate is closed
        ledger.reserve_release(values(0), MECHANISM)

    children = [fork(race) for _ in range(8)]
    os.close(start)
    os.close(gate)
    assert sorted(code_of(child) for child in children) == [0] * 3 + [3] * 5


def test_a_server_that_lets_nobody_make_tables_has_a_ledger_without_balances(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balance, "MIN_ENTRIES", 4)
    name = address.split("?")[0].rsplit("/", 1)[1]
    ledger = opened(address, count=100)
    for line in (
        f"CREATE ROLE {name} LOGIN",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {name}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {name}",
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
    ):
        server().psql(f"\\connect {name}\n{line};")
    less = Ledger(address.replace("postgres:@", f"{name}:@"))
    for _ in range(6):
        less.reserve_release(values(0), MECHANISM)
    assert less.verify_entries().balance == 0
    assert len(less.read_entries()) == len(ledger.read_entries()) == 8
