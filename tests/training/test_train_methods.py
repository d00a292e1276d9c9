"""What every training method must keep, found by its file; and what MaskDP may and may not say."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from masquerade import catalog
from masquerade.accounting import compute_epsilon
from masquerade.accounting.verdict import renyi_epsilon
from masquerade.errors import BadInput
from masquerade.events import (
    DpEvent,
    NoGuaranteeDpEvent,
    PoissonSampledDpEvent,
    RevealedSampledDpEvent,
)
from masquerade.guarantee import Accountant, Guarantee, GuaranteeKind, Relation
from masquerade.noise import Noise
from masquerade.publish.models import make_method
from masquerade.receipt import Receipt, write_receipt
from masquerade.training.method import Method, with_public
from masquerade.training.methods import DpSgd, MaskDp
from masquerade.training.plan import TrainingPlan
from masquerade.wording import explain

_ALL = [catalog.make_example("training", name) for name in catalog.list_entries("training")]
METHODS = [method for method in _ALL if isinstance(method, Method)]  # ensembles: test_ensemble.py
UNITS = 60

each_method = pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
each_private = pytest.mark.parametrize(
    "method", [method for method in METHODS if method.HAS_PRIVATE], ids=lambda m: m.name
)


@pytest.fixture(autouse=True, scope="module")
def _reckoned_once() -> Iterator[None]:
    """What a plan costs depends on its fields alone; it is asked for again and again here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingPlan, "compute_epsilon", cache(TrainingPlan.compute_epsilon))
        yield


@cache
def plan_of(method: Method) -> TrainingPlan:
    return method.plan_run(UNITS)


@cache
def promise(method: Method) -> Guarantee:
    return method.guarantee(plan_of(method))


def receipt_of(
    method: Method, noise: Noise | None = None, mask_sha256: str | None = None
) -> Receipt:
    promise = with_public(method, {"mask_sha256": mask_sha256} if mask_sha256 else {})
    plan, noise = promise.plan(((UNITS,),)), noise or Noise()
    return write_receipt(promise, plan, shapes=((UNITS,),), noise=noise, output_sha256="0" * 64)


def made(method: Method, **fields: Any) -> Method:
    return type(method)(**({"epsilon": 8.0, "unit": "video"} | fields))


@each_method
def test_a_method_is_a_frozen_dataclass_named_by_its_file(method: Method) -> None:
    assert isinstance(method, Method) and dataclasses.is_dataclass(method)
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.epsilon = 1.0  # type: ignore[misc]
    assert method.name in catalog.list_entries("training")
    assert make_method(method.name, epsilon=8.0, unit="video") == method
    with pytest.raises(TypeError):
        type(method)(8.0, unit="video")  # type: ignore[misc]


@each_method
def test_the_docstring_has_a_guarantee_block(method: Method) -> None:
    block = (type(method).__doc__ or "").partition("Guarantee:")[2]
    keys = ("unit:", "relation:", "bound:", "numerics:") if method.HAS_PRIVATE else ("none:",)
    assert all(key in block for key in keys)


@each_method
def test_without_a_unit_the_units_are_listed(method: Method) -> None:
    with pytest.raises(ValueError, match=r"Expected a unit: [\s\S]*video [\s\S]*subject "):
        type(method)(epsilon=8.0)
    with pytest.raises(
        ValueError, match=r"another unit than frame here[\s\S]*video [\s\S]*subject "
    ):
        made(method, unit="frame")
    with pytest.raises(ValueError, match="did you mean subject"):
        made(method, unit="people")


@each_method
@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        *(("epsilon", value) for value in (0.0, -1.0, math.nan, -math.inf)),
        *(("delta", value) for value in (0.0, 1.0, math.nan)),
        *(("clip_norm", value) for value in (0.0, math.inf, math.nan)),
        *(("learning_rate", value) for value in (0.0, -0.1, math.nan)),
        *(("warmup", value) for value in (1.0, -0.1, math.nan)),
        *((name, value) for name in ("batch", "segments", "recordings") for value in (0, 2.5)),
        *(("epochs", value) for value in (0.0, math.inf)),
        ("relation", "leave_one_out"),
    ],
)
def test_a_wrong_field_is_refused_by_name(method: Method, field: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=field):
        made(method, **{field: wrong})


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("optimiser", "sgdd"),
        ("part", "tail"),
        ("class_weights", (1.0, -1.0)),
        ("class_weights", (1.0, math.nan)),
        ("public_seed", -1),
        ("public_seed", True),
        ("public_seed", 1.5),
    ],
)
def test_a_wrong_choice_is_refused_by_name(field: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=field):
        made(METHODS[0], **{field: wrong})


@pytest.mark.parametrize(
    ("name", "field", "wrong"),
    [
        ("mask_dp", "form", "independant"),
        ("mask_dp", "private", "people"),
        ("public_part", "private", "people"),
        ("public_part", "relation", "add_remove"),
        ("dp_sgd", "relation", "add_remove"),
    ],
)
def test_a_wrong_public_part_is_refused_by_name(name: str, field: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=f"{field}|{wrong}"):
        make_method(name, epsilon=8.0, unit="video", **{field: wrong})


@each_private
def test_cost_and_guarantee_are_known_before_data(method: Method) -> None:
    plan = plan_of(method)
    guarantee, event = promise(method), method.event(plan)
    assert isinstance(event, DpEvent) and plan.sampler.units == UNITS
    assert guarantee.epsilon is not None and guarantee.epsilon <= method.epsilon
    assert guarantee.epsilon > 0.99 * method.epsilon
    truth = compute_epsilon(event, delta=method.delta, relation=method.target_relation)
    assert truth <= guarantee.epsilon <= truth + 1e-4
    assert str(UNITS) in guarantee.assumed_public[0]
    assert guarantee.kind is (
        GuaranteeKind.FORMAL_RELAXED if method.HAS_PUBLIC else GuaranteeKind.FORMAL
    )


@each_private
def test_both_relations_are_printed_with_their_epsilon(method: Method) -> None:
    plan = plan_of(method)
    said = " ".join(explain(promise(method)))
    other = (
        Relation.REPLACE_ONE if method.target_relation is Relation.ZERO_OUT else Relation.ZERO_OUT
    )
    assert f"epsilon {plan.compute_epsilon(other):g} under {other.value}" in said
    assert plan.compute_epsilon(Relation.ZERO_OUT) < plan.compute_epsilon(Relation.REPLACE_ONE)
    assert promise(method).relation is method.target_relation


@each_method
def test_without_an_epsilon_nothing_is_promised(method: Method) -> None:
    free = dataclasses.replace(method, epsilon=math.inf)
    plan = free.plan_run(UNITS)
    guarantee = free.guarantee(plan)
    assert plan.noise_multiplier == 0 and isinstance(free.event(plan), NoGuaranteeDpEvent)
    assert guarantee.kind is GuaranteeKind.NONE and guarantee.epsilon is guarantee.delta is None
    assert guarantee.accountant is Accountant.NONE and guarantee.caveats == ()
    assert explain(guarantee)[0] == "No guarantee."
    receipt = receipt_of(free)
    assert Receipt.from_json(receipt.to_json()) == receipt
    assert json.loads(receipt.to_json())["fields"]["epsilon"] is None


@each_method
def test_fields_and_receipt_make_the_json_round_trip(method: Method) -> None:
    fields = json.loads(json.dumps(method.encode_fields()))
    fields["class_weights"] = tuple(fields["class_weights"])
    assert type(method)(**fields) == method
    plan = plan_of(method)
    receipt = receipt_of(method, mask_sha256="0" * 64)
    again = Receipt.from_json(receipt.to_json())
    assert again == receipt and again.dp_event == method.event(plan)
    assert again.fields == json.loads(json.dumps(method.encode_fields())) | {
        "mask_sha256": "0" * 64
    }
    known = {field.name for field in dataclasses.fields(method)}
    assert known - set(method.LATER) <= set(method.encode_fields()) <= known
    assert not again.is_rehearsal
    rehearsal = receipt_of(method, Noise(seed=1))
    assert rehearsal.is_rehearsal and rehearsal.guarantee.kind is GuaranteeKind.NONE
    assert rehearsal.fields == method.encode_fields(), (
        "without masks there is no fingerprint of them"
    )


@each_method
def test_a_subject_is_another_unit_and_says_so(method: Method) -> None:
    said = dataclasses.replace(method, unit="subject").guarantee(plan_of(method))
    assert said.unit.name == "subject"
    assert "which recordings are of one person" in said.assumed_public
    assert any("beside the one named" in words for words in said.not_protected)
    alone = promise(method)
    assert any("--unit subject" in words for words in alone.not_protected)


def test_a_batch_is_never_larger_than_there_are_units() -> None:
    plan = make_method("dp_sgd", epsilon=math.inf, unit="video", batch=50, epochs=2).plan_run(7)
    assert (plan.sampler.expected, plan.steps, plan.sampler.sampling_prob) == (7, 2, 1.0)
    few = make_method("dp_sgd", epsilon=math.inf, unit="video", batch=50, epochs=0.001).plan_run(
        700
    )
    assert few.steps == 1


def test_the_public_part_alone_has_no_noise_and_promises_nothing() -> None:
    method = catalog.make_example("training", "public_part")
    assert plan_of(method).noise_multiplier == 0 and promise(method).kind is GuaranteeKind.NONE
    assert isinstance(method.event(plan_of(method)), NoGuaranteeDpEvent)


def test_three_segments_are_the_default_of_multi_clip() -> None:
    assert make_method("multi_clip", epsilon=1, unit="video").segments == 3
    assert make_method("dp_sgd", epsilon=1, unit="video").segments == 1


PUBLISHED = MaskDp(epsilon=1.0, unit="video", form="as_published", batch=2, epochs=10)


def test_as_published_the_noise_is_what_the_papers_accountant_asks_for() -> None:
    plan = plan_of(PUBLISHED)
    printed = renyi_epsilon(
        plan.noise_multiplier,
        delta=PUBLISHED.delta,
        sampling_prob=plan.sampler.sampling_prob,
        steps=plan.steps,
    )
    assert printed == pytest.approx(1.0, rel=1e-5)
    sound = plan_of(dataclasses.replace(PUBLISHED, form="independent"))
    assert sound.noise_multiplier > 1.5 * plan.noise_multiplier


def test_as_published_the_guarantee_is_that_of_a_revealed_batch() -> None:
    plan = plan_of(PUBLISHED)
    guarantee = promise(PUBLISHED)
    assert plan.sampler.is_revealed
    assert isinstance(plan.event().event, RevealedSampledDpEvent)
    assert guarantee.accountant is Accountant.REVEALED_EXACT
    assert guarantee.epsilon is not None and guarantee.epsilon > 4 * PUBLISHED.epsilon
    assert guarantee.published_claim is not None
    assert guarantee.published_claim.startswith("CLAIMED, NOT VALID: epsilon 1 ")
    zero_out = plan.compute_epsilon(Relation.ZERO_OUT)
    assert 2 < zero_out < guarantee.epsilon
    assert f"epsilon {zero_out:g} under zero_out" in " ".join(guarantee.caveats)
    receipt = receipt_of(PUBLISHED)
    assert Receipt.from_json(receipt.to_json()).guarantee == guarantee


def test_independent_batches_are_accounted_as_secret_and_claim_nothing_else() -> None:
    method = MaskDp(epsilon=8.0, unit="video")
    plan = plan_of(method)
    assert isinstance(plan.event().event, PoissonSampledDpEvent) and not method.is_batch_shared
    guarantee = promise(method)
    assert guarantee.published_claim is None and guarantee.relation is Relation.REPLACE_ONE
    assert "masks" in guarantee.assumed_public[-1] and "people" in guarantee.assumed_public[-1]
    assert {"labels", "the outline of the mask"} <= set(guarantee.not_protected)
    other = dataclasses.replace(method, private="person").guarantee(plan)
    assert "everything but people" in other.assumed_public[-1]


@pytest.mark.parametrize("form", ["independent", "as_published"])
def test_who_is_there_is_not_hidden_by_mask_dp(form: Any) -> None:
    with pytest.raises(ValueError, match="replace_one in training, got add_remove"):
        MaskDp(epsilon=8.0, unit="video", form=form, relation="add_remove")
    zero_out = MaskDp(epsilon=8.0, unit="video", form=form, relation="zero_out")
    assert zero_out.target_relation is Relation.ZERO_OUT
    for field, wrong in (("weight", 0.0), ("public_batch", 0)):
        with pytest.raises(ValueError, match=field):
            MaskDp(epsilon=8.0, unit="video", form=form, **{field: wrong})


def test_as_published_a_large_epsilon_is_met_or_refused_with_a_remedy() -> None:
    try:
        assert MaskDp(epsilon=1000.0, unit="video", form="as_published").plan_run(UNITS)
    except ValueError as error:
        if "Expected" not in str(error):
            raise


def test_as_published_without_an_epsilon_nothing_is_claimed() -> None:
    free = dataclasses.replace(PUBLISHED, epsilon=math.inf)
    guarantee = free.guarantee(free.plan_run(UNITS))
    assert guarantee.published_claim is None and "Gaussian" not in guarantee.numerics


def test_an_unknown_method_is_refused_with_the_list() -> None:
    with pytest.raises(ValueError, match=r"did you mean dp_sgd\?.*mask_dp, multi_clip") as error:
        make_method("dpsgd", epsilon=1, unit="video")
    assert not isinstance(error.value, BadInput)


def test_a_field_that_came_later_is_named_only_where_it_is_not_as_usual() -> None:
    usual = DpSgd(epsilon=8.0, unit="video")
    assert not {"momentum", "schedule"} & set(usual.encode_fields())
    other = dataclasses.replace(usual, momentum=0.5, schedule="constant")
    assert other.encode_fields() == usual.encode_fields() | {
        "momentum": 0.5,
        "schedule": "constant",
    }
    assert DpSgd(**other.encode_fields() | {"class_weights": ()}) == other
    assert other.has_fields(other.encode_fields() | {"mask_sha256": "0" * 64})
    assert not usual.has_fields(other.encode_fields()), "another schedule made another model"
