"""The order of a Renyi account is chosen for the events that will come, and then stands."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from test_ledger import values

from masquerade.accounting.compose import find_noise_multiplier, make_sampled_gaussian
from masquerade.accounting.losses import UnsupportedEvent
from masquerade.errors import BudgetExceeded
from masquerade.events import DpEvent, GaussianDpEvent, NonPrivateDpEvent
from masquerade.guarantee import Relation, Unit, UnitName
from masquerade.ledger import Content, Ledger, Run
from masquerade.ledger.filter import BudgetFilter, FilterName, find_best_order

EPSILON, DELTA, Q, STEPS = 8.0, 1e-5, 0.01, 1000
REPLACE = Relation.REPLACE_ONE
OPEN = f"ledger open ward --epsilon {EPSILON} --delta {DELTA} --unit subject --filter renyi".split()
EXPECT = f"--expect-sampling-prob {Q} --expect-steps {STEPS}".split()


@functools.cache
def calibrated() -> DpEvent:
    """A run of DP-SGD that spends all of epsilon 8, had it been fixed in advance."""
    z = find_noise_multiplier(EPSILON, delta=DELTA, sampling_prob=Q, steps=STEPS, relation=REPLACE)
    return make_sampled_gaussian(z, sampling_prob=Q, steps=STEPS)


def cap(order: float, epsilon: float = EPSILON) -> BudgetFilter:
    return BudgetFilter(
        name=FilterName.RENYI, epsilon=epsilon, delta=DELTA, relation=REPLACE, order=order
    )


def test_an_order_for_the_run_costs_a_fraction_of_the_order_for_releases() -> None:
    usual = cap(find_best_order(EPSILON, DELTA))
    chosen = cap(find_best_order(EPSILON, DELTA, calibrated(), REPLACE))
    assert usual.compute_share(calibrated()) == pytest.approx(3.49, abs=0.05)
    assert chosen.compute_share(calibrated()) == pytest.approx(1.38, abs=0.02)
    finest = min(cap(2.5 + step / 100).compute_share(calibrated()) for step in range(150))
    assert chosen.compute_share(calibrated()) < 1.01 * finest
    better = usual.suggest_order(calibrated())
    assert better == chosen and chosen.suggest_order(calibrated()) is None
    wider = cap(find_best_order(9.3, DELTA, calibrated(), REPLACE), 9.3)
    assert wider.compute_share(calibrated()) < 1, "a little more epsilon and it fits"


def test_for_a_gaussian_both_ways_of_choosing_agree() -> None:
    found = find_best_order(EPSILON, DELTA, GaussianDpEvent(3.0), REPLACE)
    assert found == pytest.approx(find_best_order(EPSILON, DELTA), rel=1e-3)


def test_no_order_suits_what_has_no_price() -> None:
    with pytest.raises(UnsupportedEvent, match="finite cost at some order"):
        find_best_order(EPSILON, DELTA, NonPrivateDpEvent(), REPLACE)


def test_a_refusal_says_which_order_would_have_been_best_and_keeps_its_own(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.db")
    unit = Unit(name=UnitName.VIDEO)
    opened = ledger.open_account("ward", unit, epsilon=EPSILON, delta=DELTA, rule=FilterName.RENYI)
    content = Content.from_value(values(0))
    ledger.add_content("ward", content)
    run = Run(
        run_id="r",
        method="dp_sgd",
        fields={},
        events={REPLACE: calibrated()},
        contents=(content,),
        units=(0,),
    )
    with pytest.raises(BudgetExceeded, match=r"needs 349\.\d %.*--order 3 would need 138\.\d %"):
        ledger.reserve_run(run)
    assert ledger.read_book().accounts["ward"] == opened and len(ledger.read_entries()) == 2
    ledger.open_account("wide", unit, epsilon=9.3, delta=DELTA, rule=FilterName.RENYI, order=2.834)
    other = Content.from_value(values(1))
    ledger.add_content("wide", other)
    ledger.reserve_run(Run(**(vars(run) | {"contents": (other,)})))


def test_an_account_is_opened_for_what_is_expected(command: Any, tmp_path: Path) -> None:
    address = ["--ledger", str(tmp_path / "b.db")]
    done = command(*OPEN, *EXPECT, *address, "--json").json
    assert done["cap"]["order"] == 3.0 and done["expected_share"] == pytest.approx(1.38, abs=0.02)
    words = [*OPEN, *EXPECT, "--expect-noise-multiplier", "1.2", *address]
    words[2] = "quiet"
    assert "the expected run needs" in command(*words).out
    words = [*OPEN, "--order", "2.5", *address]
    words[2] = "plain"
    assert "Renyi order 2.5." in command(*words).out
    assert Ledger(tmp_path / "b.db").read_book().accounts["plain"].cap.order == 2.5


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--order 1", "order above 1"),
        ("--order inf", "finite order above 1"),
        ("--order nan", "finite order above 1"),
        ("--order 1.5", "at order 1.5"),
        ("--filter gaussian --order 3", "exactly for renyi"),
        ("--expect-steps 8", "--expect-sampling-prob and --expect-steps together"),
        ("--order 3 --expect-steps 8 --expect-sampling-prob 0.1", "without --order"),
        ("--expect-steps 0 --expect-sampling-prob 0.1 --expect-noise-multiplier 1", "steps"),
    ],
)
def test_an_order_that_means_nothing_opens_nothing(
    flags: str, message: str, command: Any, tmp_path: Path
) -> None:
    done = command(*OPEN, *flags.split(), "--ledger", tmp_path / "b.db")
    assert done.code == 2 and message in " ".join(done.err.replace("│", " ").split())
    assert not (tmp_path / "b.db").exists()
