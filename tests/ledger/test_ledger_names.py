"""One person has one budget, however the name is written."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_ledger import DELTA, MECHANISM, SUBJECT, affords, values

from masquerade.accounting.compose import make_sampled_gaussian
from masquerade.errors import BudgetExceeded
from masquerade.guarantee import Relation
from masquerade.ledger import Ledger, Run, members
from masquerade.ledger import book as books
from masquerade.ledger.book import find_near_names, fold_name
from masquerade.ledger.content import Content
from masquerade.ledger.filter import FilterName

EVENT = make_sampled_gaussian(8.0, sampling_prob=0.5, steps=4)
WHOLE = replace(MECHANISM, unit="subject")  # type: ignore[type-var]
SPELLINGS = [
    "Zoë Müller",
    unicodedata.normalize("NFD", "Zoë Müller"),
    "ZOË  müller",
    " zoë\tMüller\u200b",
]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    found = Ledger(tmp_path / "budget.db")
    found.open_account("people", SUBJECT, epsilon=affords(1), delta=DELTA)
    return found


def test_a_name_in_another_spelling_is_no_second_budget(ledger: Ledger) -> None:
    for place, name in enumerate(SPELLINGS):
        ledger.add_content("people", values(place), subject=name)
    ledger.reserve_release(values(0), WHOLE)
    for place in range(1, len(SPELLINGS)):
        with pytest.raises(BudgetExceeded):
            ledger.reserve_release(values(place), WHOLE)
    shown = {entry.payload["holder"] for entry in ledger.read_entries() if entry.kind == "add"}
    assert shown == {"Zoë Müller"}, "as it was first given"
    assert ledger.read_entries()[-1].payload["charges"][0]["holder"] == "Zoë Müller"


def test_spellings_of_one_data_set_come_in_as_one_person_and_pay_for_runs_as_one(
    tmp_path: Path,
) -> None:
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_account("people", SUBJECT, epsilon=20, delta=DELTA, rule=FilterName.RENYI)
    contents = tuple(Content.from_value(values(place)) for place in range(4))
    ledger.add_contents("people", list(zip(contents, SPELLINGS, strict=True)))
    run = Run(
        run_id="r",
        method="dp_sgd",
        fields={},
        events={Relation.REPLACE_ONE: EVENT},
        contents=contents,
        units=(0, 1, 2, 3),
    )
    ledger.reserve_run(run)
    [charge] = ledger.read_entries()[-1].payload["charges"]
    assert charge["holder"] == "Zoë Müller" and len(ledger.read_book().cost_by_payer) == 1


def test_an_old_ledger_replays_and_its_spellings_pay_together(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    with monkeypatch.context() as patch:  # as it was: every spelling a person of its own
        for module in (books, members):
            patch.setattr(module, "fold_name", lambda name: name)
        for place, name in enumerate(["Ann", "ANN"]):
            ledger.add_content("people", values(place), subject=name)
        ledger.reserve_release(values(0), WHOLE)
        ledger.reserve_release(values(1), WHOLE)
    before = ledger.read_entries()
    book = ledger.read_book()
    assert list(book.cost_by_payer) == [("people", "ann")]
    [cost] = book.cost_by_payer.values()
    assert cost == sum(int(e.payload["charges"][0]["cost"]) for e in before if e.kind == "reserve")
    with pytest.raises(BudgetExceeded, match=r"0\.0 % of its budget left"):
        ledger.reserve_release(values(1), WHOLE)
    assert ledger.read_entries() == before
    shown = command("ledger", "show", "--ledger", ledger._store.address)
    assert "Ann, ANN: one person" in shown.out


@pytest.mark.parametrize("subject", ["", "  ", "\u200b", None])
def test_a_name_of_nothing_is_nobody(subject: str | None, ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="Expected a subject exactly where"):
        ledger.add_content("people", values(0), subject=subject)


def test_a_name_that_is_nearly_there_is_added_with_a_warning(
    ledger: Ledger, command: Any, tmp_path: Path
) -> None:
    np.save(tmp_path / "in.npy", values(5))

    def add(name: str) -> list[str]:
        words = ["--subject", name, "--ledger", ledger._store.address, "--json"]
        done = command("ledger", "add", "people", tmp_path / "in.npy", *words).json
        assert "without this ledger" in done["note"]
        return list(done["warnings"])

    assert add("Müller") == add("MÜLLER ") == add("Schmidt") == []
    [warning] = add("Mueller")
    assert "'Mueller' is new in people" in warning and "--subject 'Müller'" in warning
    assert add("Mueller") == [], "it is known now"
    words = ["--subject", "Schmitt", "--ledger", ledger._store.address]
    said = command("ledger", "add", "people", tmp_path / "in.npy", *words).out
    assert "Warning: 'Schmitt' is new" in said and "is not counted in it" in said


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Mueller", "Muller", True),
        ("Berg, Anna", "anna berg", True),
        ("Jørgensen", "Jorgensen", True),
        ("s01", "s1", True),
        ("s001", "s002", False),
        ("teacher 1", "teacher 2", False),
        ("ann", "ben", False),
        ("Ann", "Joanna", False),
    ],
)
def test_slips_of_the_pen_are_told_from_other_people(one: str, other: str, expected: bool) -> None:
    assert bool(find_near_names(one, [other])) is bool(find_near_names(other, [one])) is expected


@given(st.text())
def test_the_key_of_a_key_is_itself(name: str) -> None:
    assert fold_name(fold_name(name)) == fold_name(name) == fold_name(f" {name}\n")
