"""The sentences that a steward reads: none may say more than is proved."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from test_guarantee import formal

import masquerade as mq
from masquerade.accounting.power import compute_event_power
from masquerade.events import GaussianDpEvent, RevealedSampledDpEvent, SelfComposedDpEvent
from masquerade.guarantee import Accountant, Guarantee, Relation, Unit, UnitName
from masquerade.publish.receipts import _promises_no_more
from masquerade.training.methods import DpSgd, MaskDp, Pate
from masquerade.wording import delta_caveat, explain

FILM = (8, 12, 16, 3)


def promise(**changes: Any) -> Guarantee:
    trained = {"released": "a model", "delta": 1e-5, "accountant": Accountant.PLD_POISSON}
    return formal(**({"unit": Unit(name=UnitName.SUBJECT)} | trained | changes))


def of_video(unit: str, pixels: int | None = None) -> Guarantee:
    mechanism = mq.make_mechanism(
        "pooled_gaussian", epsilon=8, delta=1e-4, unit=unit, pixels=pixels
    )
    return mechanism.guarantee(FILM)


@pytest.mark.parametrize(
    ("unit", "pixels", "why"),
    [
        ("value", None, "many numbers"),
        ("pixels", 256, "someone 64 pixels tall covers about 737 sites"),
        ("pixels", 5000, "who covers more than that in all frames together"),
        ("tube", 16, "more than about 9 pixels tall"),
        ("tube", 2000, "more than about 105 pixels tall"),
        ("frame", None, "who is in more than one of them"),
    ],
)
def test_the_first_sentence_says_that_a_person_is_not_protected(
    unit: str, pixels: int | None, why: str
) -> None:
    first = explain(of_video(unit, pixels))[0].split(". ")[0]
    assert first.startswith("Protects ") and "does not protect a whole person" in first
    assert why in first


@pytest.mark.parametrize("unit", ["video", "record", "subject"])
def test_one_released_file_is_protected_as_a_file(unit: str) -> None:
    first = explain(of_video(unit))[0]
    assert first.startswith("Protects this whole file, whoever is in it; other files")
    assert "everything that one person" not in first and "does not protect" not in first


def test_training_protects_what_a_person_contributed_and_one_recording_is_less() -> None:
    assert explain(promise())[0].startswith("Protects everything that one person contributed. ")
    one = explain(promise(unit=Unit(name=UnitName.VIDEO)))[0]
    assert "does not protect a whole person who is in several of them" in one
    shard = Unit(name=UnitName.SHARD, shards_per_subject=14)
    assert "reaches up to 14 teachers" in explain(promise(unit=shard))[0]


@pytest.mark.parametrize(
    ("power", "words"),
    [(0.05, "would look almost the same"), (0.5, "would look similar"), (0.51, "quite different")],
)
def test_how_alike_releases_look_follows_from_the_attackers_power(power: float, words: str) -> None:
    said = explain(promise(power=power))
    assert words in said[0]
    assert f"at most {100 * power:g} % of the time" in said[1]


@pytest.mark.parametrize(("epsilon", "delta"), [(60.0, 1e-5), (1.0, 0.9)])
def test_large_numbers_are_never_called_almost_the_same(epsilon: float, delta: float) -> None:
    for accountant in (Accountant.ANALYTIC_GAUSSIAN, Accountant.PLD_POISSON):
        said = explain(promise(epsilon=epsilon, delta=delta, accountant=accountant))
        assert "may look quite different" in said[0]
    assert "at most 100 %" not in said[1]


def test_delta_is_compared_with_one_over_the_number_of_units() -> None:
    assert delta_caveat(1e-5, 1000) == () and delta_caveat(1e-4, 1) == ()
    (said,) = delta_caveat(0.9, 12)
    assert said.startswith("Delta 0.9 is not well below 1/12:") and said.endswith("1/120.")
    loose = mq.make_mechanism("pooled_gaussian", epsilon=1, delta=0.02, unit="frame")
    assert "Delta 0.02 is not well below 1/8:" in " ".join(explain(loose.guarantee(FILM)))
    table = mq.make_mechanism("gaussian_noise", epsilon=1, delta=0.9, unit="value", low=0, high=1)
    assert "Delta 0.9 is not well below 1:" in " ".join(explain(table.guarantee((5, 2))))


def test_the_power_of_a_gaussian_and_of_revealed_batches_is_that_of_their_curves() -> None:
    at = dict(relation=Relation.ZERO_OUT, epsilon=10.0, delta=1e-5)
    assert (
        compute_event_power(GaussianDpEvent(1.0), **at) == 0.0924
    )  # Phi(Phi^-1(.01) + 1) = .09236
    always = SelfComposedDpEvent(RevealedSampledDpEvent(0.999, GaussianDpEvent(3.0)), 9)
    assert 0.0905 < compute_event_power(always, **at) < 0.11, (
        "lines lie above the curve that they touch"
    )


def test_training_at_epsilon_8_is_judged_by_its_own_curve() -> None:
    method = DpSgd(epsilon=8.0, unit="subject", batch=8, epochs=4.0)
    guarantee = method.guarantee(method.plan_run(48))
    assert guarantee.power is not None and 0.1 < guarantee.power < 0.3
    said = explain(guarantee)
    assert "100 %" not in said[1] and "would look similar" in said[0]
    shared = MaskDp(epsilon=1.0, unit="video", form="as_published", batch=8, epochs=4.0)
    assert shared.guarantee(shared.plan_run(48)).detection_rate < 0.9


def test_a_plan_of_few_people_says_that_its_delta_is_too_large() -> None:
    few = DpSgd(epsilon=1.0, delta=0.9, unit="subject")
    assert "Delta 0.9 is not well below 1/12:" in " ".join(explain(few.guarantee(few.plan_run(12))))


def test_the_label_names_the_bound_that_gave_the_epsilon(command: Any) -> None:
    few = dict(unit="subject", aggregator="gumbel", shards=100)
    assert Pate(epsilon=2.0, queries=2, **few).guarantee(1).accountant == "KOV"
    assert Pate(epsilon=2.0, queries=200, **few).guarantee(1).accountant == "moments"
    one = dict(epsilon=1.0, queries=1, unit="subject", aggregator="lnmax", shards=100)
    assert Pate(delta=1e-300, **one).guarantee(1).accountant == "pure"
    assert Pate(delta=1e-5, **one).guarantee(1).accountant == "PLD-laplace"
    said = "account votes --queries 1 --json --aggregator"
    asked = command(*said.split(), "lnmax", "--delta", "1e-300", "--gamma", "0.5")
    assert asked.json["accountant"] == "pure" and asked.json["epsilon"] == 1.0
    asked = command(*said.split(), "gumbel", "--delta", "1e-5", "--epsilon", "2")
    assert asked.json["accountant"] == "KOV"


def test_a_receipt_may_promise_less_of_the_attackers_power_and_never_more() -> None:
    own = promise(power=0.3)
    for is_ours in (True, False):
        covers = partial(_promises_no_more, own=own, is_ours=is_ours)
        assert covers(own) and covers(promise(power=0.31)) and covers(promise())
        assert not covers(promise(power=0.2))
        assert not covers(promise(power=0.3, epsilon=7.0))
    assert not _promises_no_more(promise(power=0.011), promise(), is_ours=True), (
        "it states none of its own"
    )
    old = replace(own, caveats=("other words",), epsilon=own.epsilon + 1)
    assert _promises_no_more(old, own, is_ours=False) and not _promises_no_more(
        old, own, is_ours=True
    )
