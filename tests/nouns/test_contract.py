"""What every entry must keep, found by its file. A new file gets these tests for free."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade import _json, catalog
from masquerade.accounting import sensitivity
from masquerade.accounting.verdict import PublishedClaim
from masquerade.events import DpEvent, event_from_json, event_to_json
from masquerade.guarantee import Guarantee, Relation
from masquerade.mechanism import Heuristic, Mechanism
from masquerade.noise import Noise
from masquerade.wording import explain

SHAPE = (6, 4, 5, 3)
MECHANISMS = [
    catalog.make_example("mechanisms", name) for name in catalog.list_entries("mechanisms")
]
PAPERS = catalog.list_entries("accounting.published")

each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)


def some_value(mechanism: Mechanism) -> np.ndarray:
    return mechanism.worst_case(SHAPE)[0]


@each_mechanism
def test_a_mechanism_is_a_frozen_dataclass_named_by_its_file(mechanism: Mechanism) -> None:
    assert dataclasses.is_dataclass(mechanism)
    name = dataclasses.fields(mechanism)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(mechanism, name, None)
    assert mechanism.name in catalog.list_entries("mechanisms")


@each_mechanism
def test_cost_and_guarantee_are_known_before_data(mechanism: Mechanism) -> None:
    assert isinstance(mechanism.guarantee(SHAPE), Guarantee)
    assert isinstance(mechanism.event(SHAPE), DpEvent)
    assert explain(mechanism.guarantee(SHAPE))
    error = mechanism.plan(SHAPE).expected_error
    assert (error is None) == isinstance(mechanism, Heuristic)
    assert error is None or error >= 0


@each_mechanism
def test_apply_leaves_its_input_alone_and_keeps_the_shape(mechanism: Mechanism) -> None:
    value = some_value(mechanism)
    before = value.copy()
    released = np.asarray(mechanism.apply(value, Noise()))
    assert np.array_equal(value, before)
    assert released.shape == value.shape
    assert not np.shares_memory(released, value)


@each_mechanism
def test_the_docstring_has_a_guarantee_block(mechanism: Mechanism) -> None:
    said = type(mechanism).__doc__ or ""
    block = said.partition("Guarantee:")[2]
    keys = ("unit:", "relation:", "bound:", "numerics:")
    assert all(key in block for key in keys) or "none:" in block


@each_mechanism
def test_the_worst_case_differs_in_exactly_one_unit(mechanism: Mechanism) -> None:
    value, neighbour = mechanism.worst_case(SHAPE)
    guarantee = mechanism.guarantee(SHAPE)
    changed = int(np.sum(value != neighbour))
    assert 0 < changed <= sensitivity.count_changed_coordinates(guarantee.unit, (SHAPE,))
    unit = guarantee.unit
    if unit.low is not None and unit.high is not None:
        far = unit.high - unit.low
        most = far if guarantee.relation is Relation.REPLACE_ONE else far / 2
        apart = np.abs(value.astype(float) - neighbour)
        assert np.max(apart) == pytest.approx(most)


@each_mechanism
def test_everything_public_makes_the_json_round_trip(mechanism: Mechanism) -> None:
    fields = json.loads(json.dumps(mechanism.encode_fields()))
    assert type(mechanism)(**fields) == mechanism
    guarantee = mechanism.guarantee(SHAPE)
    assert (
        _json.decode_noun(Guarantee, json.loads(json.dumps(_json.encode_noun(guarantee))))
        == guarantee
    )
    event = mechanism.event(SHAPE)
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event


@each_mechanism
def test_a_mechanism_is_usable_from_the_command_line_by_its_file_name(
    mechanism: Mechanism, command: Any, tmp_path: Path
) -> None:
    source, target = tmp_path / "in.npy", tmp_path / "out.npy"
    np.save(source, some_value(mechanism))
    flags = [
        word
        for name, value in mechanism.encode_fields().items()
        if value is not None and value is not False
        for word in (f"--{name.replace('_', '-')}", value)[: 1 if value is True else 2]
    ]
    words = ["--mechanism", mechanism.name, *flags, "--json", "--yes"]  # for there is nobody in it
    done = command("release", source, target, *words)
    assert done.code == 0, done.err
    assert command("receipt", "check", target).code == 0
    assert command("release", "--mechanism", mechanism.name, "--help").code == 0


@pytest.mark.parametrize("name", PAPERS)
def test_a_published_claim_is_judged_with_a_reason(name: str, verdicts: dict[str, Any]) -> None:
    assert isinstance(catalog.make_example("accounting.published", name), PublishedClaim)
    verdict = verdicts[name]
    assert verdict.paper == name
    assert verdict.valid in (True, False, None)
    assert verdict.why.endswith(".") and verdict.arithmetic and verdict.ships
    assert verdict.claim.startswith("CLAIMED, ")
    if verdict.valid is False:
        assert all(
            value is None or value > verdict.claimed for value in verdict.true_epsilon.values()
        )


@each_mechanism
def test_what_a_mechanism_is_is_known_by_its_name(mechanism: Mechanism) -> None:
    is_one = isinstance(mechanism, Heuristic)
    assert catalog.is_a("mechanisms", mechanism.name, "Heuristic") == is_one
    assert catalog.find_entry("mechanisms", mechanism.name).has_proof == (not is_one)


def test_an_unknown_entry_is_refused_with_the_list() -> None:
    with pytest.raises(ValueError, match=r"did you mean gaussian_noise\?.*choose from"):
        catalog.make_example("mechanisms", "gausian_noise")
    with pytest.raises(ValueError, match="package"):
        catalog.list_entries("nowhere")
