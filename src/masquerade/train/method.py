"""What a training method must offer: its public fields, its parts of the equation, its promise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

from masquerade import _check
from masquerade._round import shown
from masquerade.account.power import power_of
from masquerade.events import DpEvent, NoGuaranteeDpEvent
from masquerade.guarantee import Accountant, Guarantee, Kind, Relation, Unit, UnitName
from masquerade.mechanism import Shapes, Stated
from masquerade.train.plan import Plan, calibrated
from masquerade.train.promise import SAME_RUN, Promised, check_seed
from masquerade.train.sampling import Poisson
from masquerade.wording import delta_caveat

_NUMERICS = (
    "each contribution is clipped a hair below the bound in float64, truncated on a grid and "
    "summed as whole numbers; Gaussian noise exactly sampled on that grid, batches by 64-bit "
    "words, both from ChaCha20 keyed by the operating system (so the guarantee is computational)"
)
_MOMENTUM = 0.9  # unless another is given


@dataclass(frozen=True, kw_only=True)
class Method(Promised):
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
            _check.choice(Relation, relation=self.relation) is Relation.ADD_REMOVE
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
    def shares_batch(self) -> bool:
        """Whether the public part uses the private batch, which reveals who is in it."""
        return False

    @property
    def carried(self) -> float:
        """The share of the last update that the next one carries on: the momentum in use."""
        return _MOMENTUM if self.momentum is None else self.momentum

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

    def plan(self, units: int) -> Plan:
        """What a run over this many units does; known before any of them is read."""
        expected = min(self.batch, units)
        sampler = Poisson(units=units, expected=expected, is_revealed=self.shares_batch)
        plan = Plan(
            sampler=sampler,
            steps=max(1, round(self.epochs * units / expected)),
            clip_norm=self.clip_norm,
            noise_multiplier=0.0,
            delta=self.delta,
        )
        if self.epsilon == math.inf or not self.HAS_PRIVATE:
            return plan
        return calibrated(plan, self.epsilon, relation=self.met)

    def event(self, plan: Plan) -> DpEvent:
        """The run, for an accountant."""
        if plan.noise_multiplier == 0:
            return NoGuaranteeDpEvent(f"{self.name} without noise")
        return plan.event()

    def guarantee(self, plan: Plan) -> Guarantee:
        """What is promised for the model."""
        is_private = plan.noise_multiplier > 0
        epsilon = plan.epsilon(self.met) if is_private else None
        proof = Accountant.REVEALED_EXACT if self.shares_batch else Accountant.PLD_POISSON
        return Guarantee(
            kind=(Kind.FORMAL_RELAXED if self.HAS_PUBLIC else Kind.FORMAL)
            if is_private
            else Kind.NONE,
            unit=Unit(name=UnitName(str(self.unit))),
            relation=self.met,
            released="the trained weights, and every iterate on the way",
            epsilon=epsilon,
            delta=self.delta if is_private else None,
            accountant=proof if is_private else Accountant.NONE,
            numerics=_NUMERICS if is_private else "no privacy noise",
            composition=f"{plan.steps} batches of this run; if it was stopped and taken up again, "
            "those of its last continuation alone, so that its checkpoints stay private; other "
            "runs, and tuning on the same data, are not included",
            assumed_public=self._public(plan),
            not_protected=self._not_protected(),
            caveats=self._caveats(plan) if is_private else (),
            published_claim=self._claimed() if is_private else None,
            power=None
            if epsilon is None
            else power_of(plan.event(), relation=self.met, epsilon=epsilon, delta=self.delta),
        )

    def stated(self, shapes: Shapes) -> Stated:
        """What a receipt with these public shapes, the number of units, must say."""
        plan = planned(self, shapes[0][0])
        return Stated(guarantee=self.guarantee(plan), event=self.event(plan))

    def _public(self, plan: Plan) -> tuple[str, ...]:
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

    def _caveats(self, plan: Plan) -> tuple[str, ...]:
        others = [r for r in (Relation.ZERO_OUT, Relation.REPLACE_ONE) if r is not self.met]
        said = [f"{SAME_RUN} {shown(plan.epsilon(r))} under {r.value}." for r in others]
        return (*said, *delta_caveat(self.delta, plan.sampler.units))

    def _claimed(self) -> str | None:
        return None


@lru_cache(maxsize=64)
def planned(method: Method, units: int) -> Plan:
    """A method's plan, reckoned once."""
    return method.plan(units)
