"""A guarantee that cannot lie: each invariant, and what happens without it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masquerade import _json
from masquerade._formatting import round_up_decimals, round_up_significant
from masquerade.accounting import compose_epsilon
from masquerade.events import GaussianDpEvent
from masquerade.guarantee import (
    WHOLE_FILE,
    Accountant,
    Guarantee,
    GuaranteeKind,
    Relation,
    Unit,
    UnitName,
    require_alike,
)
from masquerade.ledger import book as books
from masquerade.wording import explain


def formal(**changes: Any) -> Guarantee:
    fields: dict[str, Any] = dict(
        kind=GuaranteeKind.FORMAL,
        unit=Unit(name=UnitName.FRAME),
        relation=Relation.REPLACE_ONE,
        released="video",
        numerics="exact grid Gaussian, ChaCha20",
        composition="this release alone",
        epsilon=8.0,
        delta=1e-4,
        accountant=Accountant.ANALYTIC_GAUSSIAN,
    )
    return Guarantee(**(fields | changes))


def without_proof(**changes: Any) -> Guarantee:
    return formal(**({"epsilon": None, "delta": None, "accountant": Accountant.NONE} | changes))


def test_an_epsilon_needs_an_accountant_and_an_accountant_an_epsilon() -> None:
    with pytest.raises(ValueError, match="accountant proves it"):
        formal(accountant=Accountant.NONE)
    with pytest.raises(ValueError, match="accountant proves it"):
        formal(epsilon=None)
    assert formal().epsilon == 8.0


def test_an_epsilon_needs_its_delta() -> None:
    with pytest.raises(ValueError, match="delta"):
        formal(delta=None)
    with pytest.raises(ValueError, match="delta"):
        formal(delta=1.0)
    with pytest.raises(ValueError, match="delta"):
        formal(delta=0.0)
    with pytest.raises(ValueError, match="no delta"):
        without_proof(kind=GuaranteeKind.HEURISTIC, delta=1e-5)
    assert formal(delta=0.0, accountant=Accountant.PURE).delta == 0.0


def test_a_formal_guarantee_has_an_epsilon() -> None:
    with pytest.raises(ValueError, match="Expected an epsilon for kind formal"):
        without_proof()


def test_the_sentence_never_says_less_than_the_number() -> None:
    said = explain(formal(epsilon=226.31812, delta=1.2345649e-5))[0]
    assert "226.319" in said and "1.23457e-05" in said


def test_zero_out_of_a_range_says_what_blank_means() -> None:
    unit = Unit(name=UnitName.VALUE, low=0.0, high=255.0)
    said = explain(formal(unit=unit, relation=Relation.ZERO_OUT))[0]
    assert "blank (read here as 127.5, the middle of the range)" in said


def test_a_papers_number_appears_only_as_a_marked_claim() -> None:
    with pytest.raises(ValueError, match="published_claim"):
        formal(published_claim="(8, 1e-4) at frame level")
    marked = formal(published_claim="CLAIMED, NOT VALID: (8, 1e-4)")
    assert any(line.startswith("CLAIMED, NOT VALID") for line in explain(marked))


@pytest.mark.parametrize(
    "kind", [GuaranteeKind.HEURISTIC, GuaranteeKind.NONE, GuaranteeKind.ESTIMATE]
)
def test_heuristics_estimates_and_nothing_carry_no_epsilon(kind: GuaranteeKind) -> None:
    extra = {"estimate": 1.0} if kind is GuaranteeKind.ESTIMATE else {}
    with pytest.raises(ValueError, match="no epsilon"):
        formal(kind=kind, **extra)
    assert explain(without_proof(kind=kind, **extra))[0].startswith("No guarantee")


def test_a_data_dependent_figure_is_an_estimate_in_its_own_field() -> None:
    with pytest.raises(ValueError, match="estimate"):
        formal(estimate=1.4)
    with pytest.raises(ValueError, match="estimate"):
        without_proof(kind=GuaranteeKind.ESTIMATE)
    assert without_proof(kind=GuaranteeKind.ESTIMATE, estimate=1.4).epsilon is None


def test_a_rehearsal_promises_nothing() -> None:
    rehearsal = formal().as_rehearsal()
    assert rehearsal.kind is GuaranteeKind.NONE and rehearsal.epsilon is None
    assert "Rehearsal" in " ".join(explain(rehearsal))


def test_what_leaves_with_sound_or_as_a_rehearsal_says_both() -> None:
    one = formal()
    assert one.as_released(with_sound=False, is_rehearsal=False) == one
    assert one.as_released(with_sound=True, is_rehearsal=False) == one.with_sound()
    both = one.as_released(with_sound=True, is_rehearsal=True)
    assert both.epsilon is None and "sound" in both.released and "Rehearsal" in both.caveats[-1]


@pytest.mark.parametrize("name", WHOLE_FILE)
def test_a_rehearsal_does_not_keep_the_sound_that_a_release_must_drop(name: UnitName) -> None:
    whole = formal(unit=Unit(name=name))
    with pytest.raises(ValueError, match="sound to be dropped"):
        whole.as_released(with_sound=True, is_rehearsal=True)
    assert name in books.WHOLE, "the ledger refuses it as well"


def test_different_units_or_relations_do_not_compose() -> None:
    one = formal()
    other_unit = formal(unit=Unit(name=UnitName.VALUE))
    other_relation = formal(relation=Relation.ZERO_OUT)
    event = GaussianDpEvent(9.0)
    for other in (other_unit, other_relation):
        with pytest.raises(ValueError, match="one unit and one relation"):
            compose_epsilon([(one, event), (other, event)], delta=1e-5)
    with pytest.raises(ValueError, match="got none"):
        require_alike([])
    ranged = formal(unit=Unit(name=UnitName.FRAME, low=0.0, high=1.0))
    assert compose_epsilon([(one, event), (ranged, event)], delta=1e-5) > 0
    with pytest.raises(ValueError, match="promises nothing"):
        compose_epsilon([(one.as_rehearsal(), event)], delta=1e-5)


def test_epsilon_is_rounded_up_and_delta_kept() -> None:
    assert formal(epsilon=0.27211).epsilon == 0.2722
    assert formal(epsilon=0.2722).epsilon == 0.2722
    assert formal(delta=1.23456789e-7).delta == 1.23456789e-7
    with pytest.raises(ValueError, match="numerics"):
        formal(numerics="")


@given(st.floats(min_value=1e-8, max_value=1e9))
def test_decimal_rounding_never_goes_down_and_stops_at_once(value: float) -> None:
    for rounded in (round_up_decimals, round_up_significant):
        once = rounded(value)
        assert once >= value
        assert rounded(once) == once
    assert round_up_decimals(value) - value <= 1e-4 * (1 + 1e-9) + value * 1e-15
    assert round_up_significant(value) <= value * (1 + 1.1e-6)


@pytest.mark.parametrize("epsilon", [float("nan"), float("inf"), -1.0])
def test_an_epsilon_is_a_finite_number_not_below_zero(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        formal(epsilon=epsilon)


def test_it_cannot_be_changed_afterwards() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        formal().epsilon = 0.1  # type: ignore[misc]


def test_the_attackers_gain_is_what_the_trade_off_curve_says() -> None:
    # Phi(Phi^-1(.01) + mu*): 31 % at (8, 1e-4) and 2 % at (1, 1e-5).
    assert "31.4 %" in explain(formal())[1]
    assert "2 %" in explain(formal(epsilon=1.0, delta=1e-5))[1]
    # any other accountant: min(e^eps .01 + delta, 1 - e^-eps (.99 - delta)), e .01 + 1e-5 = .0272
    other = formal(epsilon=1.0, delta=1e-5, accountant=Accountant.PLD_POISSON)
    assert "2.8 %" in explain(other)[1]


def test_units_say_what_they_need() -> None:
    with pytest.raises(ValueError, match="sites"):
        Unit(name=UnitName.PIXELS)
    with pytest.raises(ValueError, match="no sites"):
        Unit(name=UnitName.FRAME, sites=3)
    with pytest.raises(ValueError, match="whole number"):
        Unit(name=UnitName.TUBE, sites=0)
    with pytest.raises(ValueError, match="low < high"):
        Unit(name=UnitName.VALUE, low=1.0, high=1.0)
    with pytest.raises(ValueError, match="Unknown unit 'face'"):
        Unit(name="face")  # type: ignore[arg-type]


def test_it_makes_the_json_round_trip_and_reading_checks_again() -> None:
    guarantee = formal(caveats=("a", "b"), unit=Unit(name=UnitName.TUBE, sites=4))
    data = json.loads(json.dumps(_json.encode_noun(guarantee)))
    assert _json.decode_noun(Guarantee, data) == guarantee
    with pytest.raises(ValueError, match="Unknown keys"):
        _json.decode_noun(Guarantee, data | {"privacy_level": "high"})
    with pytest.raises(ValueError, match="accountant proves it"):
        _json.decode_noun(Guarantee, data | {"accountant": "none"})


def test_a_power_lies_between_guessing_and_what_epsilon_allows() -> None:
    trained = dict(epsilon=1.0, delta=1e-5, accountant=Accountant.PLD_POISSON)
    assert formal(power=0.01978336, **trained).power == 0.0198
    for wrong in (0.009, 0.0273, float("nan")):
        with pytest.raises(ValueError, match="Expected a power from"):
            formal(power=wrong, **trained)
    with pytest.raises(ValueError, match="no power"):
        without_proof(kind=GuaranteeKind.NONE, power=0.5)
    assert formal(power=0.02, **trained).as_rehearsal().power is None


def test_a_guarantee_of_before_power_was_stated_still_reads() -> None:
    guarantee = formal(epsilon=1.0, delta=1e-5, accountant=Accountant.PLD_POISSON, power=0.02)
    data = json.loads(json.dumps(_json.encode_noun(guarantee)))
    assert _json.decode_noun(Guarantee, data) == guarantee
    del data["power"]
    assert _json.decode_noun(Guarantee, data).detection_rate == pytest.approx(
        0.01 * 2.71828 + 1e-5, rel=1e-4
    )
