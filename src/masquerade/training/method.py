"""What a training method must offer: its public fields, its parts of the equation, its promise.

What methods and ensembles have in common: public fields, and a promise that follows from them.

A receipt keeps the name, the fields and a few public numbers (``shapes``); all that it promises can
be computed from these again.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal

from masquerade import _check, _json, catalog
from masquerade._formatting import format_rounded_up
from masquerade.accounting import compute_epsilon as epsilon_of
from masquerade.accounting.power import compute_event_power
from masquerade.collection import Medium
from masquerade.events import ComposedDpEvent, DpEvent, NoGuaranteeDpEvent
from masquerade.guarantee import (
    Accountant,
    Guarantee,
    GuaranteeKind,
    Relation,
    Unit,
    UnitName,
    parse_unit_name,
    require_alike,
)
from masquerade.mechanism import Plan, Shapes
from masquerade.networks.network import Network
from masquerade.training.plan import PoissonSampling, TrainingPlan, calibrate_plan
from masquerade.wording import delta_caveat

FIRST_WEIGHTS = "first_weights"
SAME_RUN = "The same run has epsilon"  # under another relation
_WORD_FIELDS = ("mask_source", "class_source", "psi_of")  # in words, as they stand
# fields of a receipt that are no method's: of masks, public pictures, public records, classes
PUBLIC_FIELDS = (*_WORD_FIELDS, "mask_sha256", "psi_sha256", "guide_sha256", FIRST_WEIGHTS)
ORIGINS = {
    "shipped": "which come with Masquerade and learned from people who never lived",
    "made_up": "which learned from people who never lived",
    "given": "of a file that is taken as public",
    "protected": "of a model with a guarantee, which both together keep",
    "unprotected": "of a model that learned without a guarantee, or whose receipt is missing or "
    "neither yours by its signature nor in the ledger",
}


@dataclass(frozen=True, kw_only=True)
class TrainingPromise(ABC):
    """Something that learns; every field is public.

    Args:
        epsilon: of all that is published.
        delta: with it.
        unit: what is protected.
        relation: whose epsilon is met; the headline if None.
    """

    HEADLINE: ClassVar[Relation] = Relation.REPLACE_ONE
    UNITS: ClassVar[tuple[UnitName, ...]]
    # Fields that came after receipts without them were written: named only where they are not as
    # usual, so that those receipts, and the runs that were begun, are still of the same fields.
    LATER: ClassVar[tuple[str, ...]] = ()

    epsilon: float
    delta: float = 1e-5
    unit: str | None = None
    relation: str | None = None

    def __post_init__(self) -> None:
        if self.epsilon != math.inf:
            _check.positive(epsilon=self.epsilon)
        _check.delta(delta=self.delta)
        parse_unit_name(self.unit, self.UNITS)
        self._check_choices()

    def _check_choices(self) -> None:
        """Refuse a word that is not among those of its field."""
        for name, hint in typing.get_type_hints(type(self)).items():
            words = typing.get_args(hint) if typing.get_origin(hint) is Literal else ()
            if words and getattr(self, name) not in words:
                raise ValueError(_check.describe_unknown(name, getattr(self, name), words))

    @property
    def name(self) -> str:
        """Its name: its file's."""
        return catalog.find_entry_name(self)

    @property
    def target_relation(self) -> Relation:
        """The relation whose epsilon is met."""
        return self.HEADLINE if self.relation is None else Relation(self.relation)

    def encode_fields(self) -> dict[str, Any]:
        """The public fields, as plain JSON values; of later ones those that are not as usual."""
        found = {
            each.name: getattr(self, each.name)
            for each in dataclasses.fields(self)
            if each.name not in self.LATER or getattr(self, each.name) != each.default
        }
        found["epsilon"] = None if self.epsilon == math.inf else self.epsilon
        return dict(_json.encode_noun(found))

    def has_fields(self, fields: Mapping[str, Any]) -> bool:
        """Whether a receipt's fields are all of these, whatever its masks and public parts were."""
        return self.encode_fields() == {
            name: fields[name] for name in fields if name not in PUBLIC_FIELDS
        }

    @abstractmethod
    def plan(self, shapes: Shapes) -> Plan:
        """What a receipt with these public numbers must say."""


@dataclass(frozen=True, kw_only=True)
class PromiseWithPublic:
    """The promise of a method whose receipt says which public things it rests on.

    Args:
        method: whose.
        marks: fields of the receipt by their names in `PUBLIC_FIELDS`: fingerprints of public
            masks, pictures and records, where masks and classes come from, and the first weights.
    """

    method: TrainingPromise
    marks: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The method's."""
        return self.method.name

    def encode_fields(self) -> dict[str, Any]:
        """The method's, and what is public."""
        return self.method.encode_fields() | dict(self.marks)

    def plan(self, shapes: Shapes) -> Plan:
        """The method's, with what is taken as public, and with what the first weights have cost."""
        plan = self.method.plan(shapes)
        said = [str(self.marks[name]) for name in _WORD_FIELDS if name in self.marks]
        public = (*plan.guarantee.assumed_public, *said)
        plan = replace(plan, guarantee=replace(plan.guarantee, assumed_public=public))
        first = self.marks.get(FIRST_WEIGHTS)
        return plan if first is None else _add_first_weights(first, plan)


def with_public(
    promise: TrainingPromise | PromiseWithPublic, marks: Mapping[str, Any]
) -> TrainingPromise | PromiseWithPublic:
    """The promise with more that is public; the same where there is nothing more."""
    if not marks:
        return promise
    if isinstance(promise, PromiseWithPublic):
        return replace(promise, marks={**promise.marks, **marks})
    return PromiseWithPublic(method=promise, marks=marks)


def promise_from(name: str, fields: Mapping[str, Any]) -> TrainingPromise | PromiseWithPublic:
    """The promise that a receipt's name and fields state.

    Raises:
        ValueError: if they can be of no method.
    """
    own = {
        field: tuple(value) if isinstance(value, list) else value
        for field, value in fields.items()
        if field not in PUBLIC_FIELDS
    }
    make = type(catalog.make_example("training", name))
    method: TrainingPromise = make(
        **own | ({"epsilon": math.inf} if own["epsilon"] is None else {})
    )
    for mark in getattr(method, "MARKS", ()):
        if mark not in fields:
            raise ValueError(f"what is public is not named ({mark})")
    if not method.has_fields(fields):
        raise ValueError("some of its fields are missing")
    return with_public(method, {mark: fields[mark] for mark in PUBLIC_FIELDS if mark in fields})


def _add_first_weights(first: Mapping[str, Any], plan: Plan) -> Plan:
    """What is promised where a run began with these weights."""
    named = f"the first weights (SHA-256 {first['sha256']}), {ORIGINS[first['origin']]}"
    guarantee = plan.guarantee
    if first["origin"] == "unprotected":
        bare = replace(guarantee, caveats=_list_lasting_caveats(guarantee))
        return Plan(
            guarantee=bare.without_proof(f"Nothing is promised: {named}."),
            event=NoGuaranteeDpEvent("first weights without a guarantee"),
        )
    if first["origin"] == "protected":
        shapes = tuple(tuple(shape) for shape in first["shapes"])
        return _compose_plans(promise_from(first["mechanism"], first["fields"]).plan(shapes), plan)
    public = (*guarantee.assumed_public, named)
    return replace(plan, guarantee=replace(guarantee, assumed_public=public))


def _list_lasting_caveats(guarantee: Guarantee) -> tuple[str, ...]:
    """The caveats that stay true where another epsilon is stated, or none."""
    return tuple(each for each in guarantee.caveats if not each.startswith(SAME_RUN))


def _compose_plans(before: Plan, plan: Plan) -> Plan:
    """A run that began with weights of another, as if both had learned from the same people."""
    earlier, own = before.guarantee, plan.guarantee
    if own.epsilon is None or own.delta is None:
        return plan
    _, relation = require_alike((earlier, own))
    event = ComposedDpEvent([before.event, plan.event])
    epsilon = epsilon_of(event, delta=own.delta, relation=relation)
    kinds, proofs = {earlier.kind, own.kind}, {earlier.accountant, own.accountant}
    guarantee = replace(
        own,
        kind=own.kind if kinds == {own.kind} else GuaranteeKind.FORMAL_RELAXED,
        epsilon=epsilon,
        accountant=own.accountant if proofs == {own.accountant} else Accountant.PLD,
        composition=f"{own.composition}; and the run that made its first weights (epsilon "
        f"{earlier.epsilon:g} at delta {earlier.delta:g}), as if of the same people",
        assumed_public=tuple(dict.fromkeys((*own.assumed_public, *earlier.assumed_public))),
        not_protected=tuple(dict.fromkeys((*own.not_protected, *earlier.not_protected))),
        caveats=tuple(
            dict.fromkeys((*_list_lasting_caveats(own), *_list_lasting_caveats(earlier)))
        ),
        power=compute_event_power(event, relation=relation, epsilon=epsilon, delta=own.delta),
    )
    return Plan(guarantee=guarantee, event=event)


def check_seed(seed: object) -> None:
    """Refuse what is no seed of public randomness."""
    is_whole = isinstance(seed, int) and not isinstance(seed, bool)
    if not is_whole or not 0 <= typing.cast(int, seed) < 2**32:
        raise ValueError(
            "Expected public_seed to be a whole number from 0 to below 2^32, got "
            f"public_seed={seed!r}."
        )


_NUMERICS = (
    "each contribution is clipped a hair below the bound in float64, truncated on a grid and "
    "summed as whole numbers; Gaussian noise exactly sampled on that grid, batches by 64-bit "
    "words, both from ChaCha20 keyed by the operating system (so the guarantee is computational)"
)
Precision = Literal["float32", "bfloat16"]  # of the forward pass
_DEFAULT_MOMENTUM = 0.9  # unless another is given


@dataclass(frozen=True, kw_only=True)
class Method(TrainingPromise):
    """How a model is learned; every field is public.

    Args:
        epsilon: of the whole run; inf trains without privacy, and the receipt says so.
        delta: with it.
        unit: what is protected: video, one recording; record, one person in one photo; or subject,
            all recordings of a person.
        relation: zero_out or replace_one: the one whose epsilon is met.
        batch: units in a private batch, on average.
        epochs: how often a unit is drawn, on average.
        clip_norm: C, the most that one unit can add.
        learning_rate: the largest; it warms up, then follows the schedule.
        warmup: share of the steps in which it rises.
        schedule: after that: down along a cosine, constant, or a step: a tenth in the last fifth.
        optimiser: sgd, adam or adamw.
        momentum: of sgd; 0.9 if None, and 0 in a form as published.
        part: what is trained: head, last_norms, norms, all, or in photos last_stage, with all
            norms.
        segments: stretches of a recording that are averaged before clipping.
        recordings: of one subject that are averaged before clipping.
        class_weights: public weights of the classes in the loss; empty for 1 each.
        public_seed: of public randomness: the new head, public batches. Never of noise.
    """

    HEADLINE: ClassVar[Relation] = Relation.ZERO_OUT
    UNITS: ClassVar[tuple[UnitName, ...]] = (UnitName.VIDEO, UnitName.RECORD, UnitName.SUBJECT)
    LATER: ClassVar[tuple[str, ...]] = ("schedule", "momentum")
    HAS_PRIVATE: ClassVar[bool] = True
    HAS_PUBLIC: ClassVar[bool] = False
    HAS_SUBSPACE: ClassVar[bool] = False
    MARKS: ClassVar[tuple[str, ...]] = ()  # fingerprints of what is public, in its receipts

    batch: int = 32
    epochs: float = 20.0
    clip_norm: float = 1.0
    learning_rate: float = 0.05
    warmup: float = 0.1
    schedule: Literal["cosine", "constant", "step"] = "cosine"
    optimiser: Literal["sgd", "adam", "adamw"] = "sgd"
    momentum: float | None = None
    part: Literal["head", "last_norms", "norms", "last_stage", "all"] = "head"
    segments: int = 1
    recordings: int = 4
    class_weights: tuple[float, ...] = ()
    public_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.positive(epochs=self.epochs, clip_norm=self.clip_norm)
        _check.positive(learning_rate=self.learning_rate)
        _check.count(batch=self.batch, segments=self.segments, recordings=self.recordings)
        if not 0 <= self.warmup < 1:
            raise ValueError(f"Expected warmup from 0 to below 1, got warmup={self.warmup}.")
        if self.momentum is not None and not 0 <= self.momentum < 1:
            raise ValueError(f"Expected momentum from 0 to below 1, got momentum={self.momentum}.")
        if self.relation is not None and (
            _check.parse_choice(Relation, relation=self.relation) is Relation.ADD_REMOVE
        ):
            raise ValueError(
                "Expected zero_out or replace_one in training, got add_remove: the number of units "
                "is public and decides the plan, so it cannot be what neighbours differ in."
            )
        check_seed(self.public_seed)
        object.__setattr__(self, "class_weights", tuple(self.class_weights))
        for number, weight in enumerate(self.class_weights):
            _check.not_negative(**{f"class_weights[{number}]": weight})

    @property
    def is_batch_shared(self) -> bool:
        """Whether the public part uses the private batch, which reveals who is in it."""
        return False

    @property
    def active_momentum(self) -> float:
        """The share of the last update that the next one carries on: the momentum in use."""
        return _DEFAULT_MOMENTUM if self.momentum is None else self.momentum

    @property
    def private_side(self) -> Literal["whole", "private", "tokens"]:
        """What of each recording is used with noise: all, private pixels, or private tokens."""
        return "whole"

    def public_weight(self, number: int, steps: int) -> float:
        """lambda at a step."""
        return 0.0

    @property
    def public_side(self) -> str:
        """What of each recording is used without noise: nothing, people or background."""
        return "nothing"

    def plan_run(self, units: int) -> TrainingPlan:
        """What a run over this many units does; known before any of them is read."""
        expected = min(self.batch, units)
        sampler = PoissonSampling(units=units, expected=expected, is_revealed=self.is_batch_shared)
        plan = TrainingPlan(
            sampler=sampler,
            steps=max(1, round(self.epochs * units / expected)),
            clip_norm=self.clip_norm,
            noise_multiplier=0.0,
            delta=self.delta,
        )
        if self.epsilon == math.inf or not self.HAS_PRIVATE:
            return plan
        return calibrate_plan(plan, self.epsilon, relation=self.target_relation)

    def event(self, plan: TrainingPlan) -> DpEvent:
        """The run, for an accountant."""
        if plan.noise_multiplier == 0:
            return NoGuaranteeDpEvent(f"{self.name} without noise")
        return plan.event()

    def guarantee(self, plan: TrainingPlan) -> Guarantee:
        """What is promised for the model."""
        is_private = plan.noise_multiplier > 0
        epsilon = plan.compute_epsilon(self.target_relation) if is_private else None
        proof = Accountant.REVEALED_EXACT if self.is_batch_shared else Accountant.PLD_POISSON
        return Guarantee(
            kind=(GuaranteeKind.FORMAL_RELAXED if self.HAS_PUBLIC else GuaranteeKind.FORMAL)
            if is_private
            else GuaranteeKind.NONE,
            unit=Unit(name=UnitName(str(self.unit))),
            relation=self.target_relation,
            released="the trained weights, and every iterate on the way",
            epsilon=epsilon,
            delta=self.delta if is_private else None,
            accountant=proof if is_private else Accountant.NONE,
            numerics=_NUMERICS if is_private else "no privacy noise",
            composition=f"{plan.steps} batches of this run; if it was stopped and taken up again, "
            "those of its last continuation alone, so that its checkpoints stay private; other "
            "runs, and tuning on the same data, are not included",
            assumed_public=self._list_public_notes(plan),
            not_protected=self._not_protected(),
            caveats=self._list_caveats(plan) if is_private else (),
            published_claim=self._describe_claim() if is_private else None,
            power=None
            if epsilon is None
            else compute_event_power(
                plan.event(), relation=self.target_relation, epsilon=epsilon, delta=self.delta
            ),
        )

    def plan(self, shapes: Shapes) -> Plan:
        """What a receipt with these public shapes, the number of units, must say."""
        run = make_training_plan(self, shapes[0][0])
        return Plan(guarantee=self.guarantee(run), event=self.event(run))

    def _list_public_notes(self, plan: TrainingPlan) -> tuple[str, ...]:
        sampler = plan.sampler
        return (
            f"that there are {sampler.units} units, and that a batch has {sampler.expected} on "
            f"average over {plan.steps} steps",
            "the list of classes, class weights, normalisation and the network's first weights",
            *(("which recordings are of one person",) if self.unit == "subject" else ()),
        )

    def _not_protected(self) -> tuple[str, ...]:
        if self.unit == "subject":
            return ("people who are seen beside the one named with a recording",)
        if self.unit == "record":
            return (
                "a photo of several people who each have joints: it is one record for each of them",
                "a person who is in several photos: choose --unit subject",
            )
        return ("a person who is in several recordings: choose --unit subject",)

    def _list_caveats(self, plan: TrainingPlan) -> tuple[str, ...]:
        others = [
            r for r in (Relation.ZERO_OUT, Relation.REPLACE_ONE) if r is not self.target_relation
        ]
        said = [
            f"{SAME_RUN} {format_rounded_up(plan.compute_epsilon(r))} under {r.value}."
            for r in others
        ]
        return (*said, *delta_caveat(self.delta, plan.sampler.units))

    def _describe_claim(self) -> str | None:
        return None


@lru_cache(maxsize=64)
def make_training_plan(method: Method, units: int) -> TrainingPlan:
    """A method's plan, reckoned once."""
    return method.plan_run(units)


def check_pairing(method: Method, network: Network, precision: Precision = "float32") -> None:
    """Refuse a network that cannot be trained so, before anything is read."""
    if network.KIND is Medium.SIGNALS:
        if method.HAS_PUBLIC or method.HAS_SUBSPACE or not method.HAS_PRIVATE:
            raise ValueError(
                f"Expected a method without a public part for worn sensors, got {method.name}; use "
                "dp_sgd or multi_clip."
            )
    elif network.KIND is Medium.PHOTOS:
        _check_photos(method)
    elif method.unit == UnitName.RECORD:
        raise ValueError("Expected --unit video or --unit subject with videos, got --unit record.")
    network.check(method.part, precision)


def _check_photos(method: Method) -> None:
    """Refuse what photos do not have: masks, classes, several segments."""
    if UnitName(str(method.unit)) not in (UnitName.RECORD, UnitName.SUBJECT):
        raise ValueError(
            f"Expected --unit record or --unit subject with photos, got --unit {method.unit}; a "
            "record is one person in one photo."
        )
    if method.segments != 1:
        raise ValueError(
            f"Expected segments=1 with photos, which have one frame, got {method.segments}."
        )
    if method.class_weights:
        raise ValueError("Expected no class_weights with joints, which are no classes, got some.")
    if method.HAS_PUBLIC and hasattr(method, "private"):
        raise ValueError(
            f"Expected a method without masks for photos, got {method.name}; use dp_sgd."
        )
