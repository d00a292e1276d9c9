"""Clocks that jump: back is refused, and a steward may say that the present time is right."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

import pytest
import test_ledger
from test_ledger import MECHANISM, kinds, opened, values

from masquerade.ledger import Ledger
from masquerade.ledger import store as ledger_store
from masquerade.ledger.damage import LedgerTampered

address = test_ledger.address


def jump(monkeypatch: pytest.MonkeyPatch, hours: float) -> None:
    """Let the ledger's clock be that far ahead."""

    class Jumped(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return datetime.datetime.now(tz) + datetime.timedelta(hours=hours)

    monkeypatch.setattr(
        ledger_store, "datetime", SimpleNamespace(datetime=Jumped, UTC=datetime.UTC)
    )


@pytest.mark.parametrize(("hours", "is_refused"), [(-2, True), (-0.01, False), (5000, False)])
def test_a_clock_that_jumps_back_is_noticed(
    hours: float, is_refused: bool, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(address)
    jump(monkeypatch, hours)
    if is_refused:
        with pytest.raises(LedgerTampered, match="Set the clock right"):
            ledger.reserve_release(values(0), MECHANISM)
        assert kinds(ledger) == ["open", "add"]
    else:
        ledger.reserve_release(values(0), MECHANISM)
        times = [entry.time for entry in ledger.read_entries()]
        assert times == sorted(times) and len(times) == 3


def test_a_ledger_that_a_wrong_clock_froze_goes_on_when_the_steward_says_so(
    address: str, monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    with monkeypatch.context() as patch:
        jump(patch, 5000)
        ledger = opened(address)
        heads = [entry.head for entry in ledger.read_entries()]
    with pytest.raises(LedgerTampered, match="ledger clock --accept"):
        ledger.reserve_release(values(0), MECHANISM)
    accept = ["ledger", "clock", "--ledger", address]
    assert command(*accept).code == 2 and len(ledger.read_entries()) == 2
    done = command(*accept, "--accept")
    assert done.code == 0 and "Entry 3: the clock was set back from" in done.out
    ledger.reserve_release(values(0), MECHANISM)
    assert kinds(ledger) == ["open", "add", "clock", "reserve"]
    entries = ledger.read_entries()
    assert [entry.head for entry in entries[:2]] == heads
    assert entries[2].payload == {"before": entries[1].time} and entries[2].time < entries[1].time
    assert "the steward accepts it" in command("ledger", "history", "--ledger", address).out
    verified = command("ledger", "verify", "--json", "--ledger", address).json
    assert verified["ok"] is True and verified["clock_accepted"] == [3]
    again = command(*accept, "--accept")
    assert again.code == 2 and "nothing to accept" in again.err
    assert len(Ledger(address).read_entries()) == 4
