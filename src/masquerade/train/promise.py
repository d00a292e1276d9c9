"""What methods and ensembles have in common: public fields, and a promise that follows from them.

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
from typing import Any, ClassVar, Literal

from masquerade import _check, _json, catalog
from masquerade.account import epsilon as epsilon_of
from masquerade.account.power import power_of
from masquerade.events import ComposedDpEvent, NoGuaranteeDpEvent
from masquerade.guarantee import (
    Accountant,
    Guarantee,
    Kind,
    Relation,
    UnitName,
    named_unit,
    require_alike,
)
from masquerade.mechanism import Shapes, Stated

FIRST_WEIGHTS = "first_weights"
SAME_RUN = "The same run has epsilon"  # under another relation
_SAID = ("mask_source", "class_source", "psi_of")  # in words, as they stand
# fields of a receipt that are no method's: of masks, public pictures, public records, classes
OF_PUBLIC = (*_SAID, "mask_sha256", "psi_sha256", "guide_sha256", FIRST_WEIGHTS)
ORIGINS = {
    "shipped": "which come with Masquerade and learned from people who never lived",
    "made_up": "which learned from people who never lived",
    "given": "of a file that is taken as public",
    "protected": "of a model with a guarantee, which both together keep",
    "unprotected": "of a model that learned without a guarantee, or whose receipt is missing or "
    "neither yours by its signature nor in the ledger",
}


@dataclass(frozen=True, kw_only=True)
class Promised(ABC):
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
        named_unit(self.unit, self.UNITS)
        self._check_choices()

    def _check_choices(self) -> None:
        """Refuse a word that is not among those of its field."""
        for name, hint in typing.get_type_hints(type(self)).items():
            words = typing.get_args(hint) if typing.get_origin(hint) is Literal else ()
            if words and getattr(self, name) not in words:
                raise ValueError(_check.unknown(name, getattr(self, name), words))

    @property
    def name(self) -> str:
        """Its name: its file's."""
        return catalog.name_of(self)

    @property
    def met(self) -> Relation:
        """The relation whose epsilon is met."""
        return self.HEADLINE if self.relation is None else Relation(self.relation)

    def fields(self) -> dict[str, Any]:
        """The public fields, as plain JSON values; of later ones those that are not as usual."""
        found = {
            each.name: getattr(self, each.name)
            for each in dataclasses.fields(self)
            if each.name not in self.LATER or getattr(self, each.name) != each.default
        }
        found["epsilon"] = None if self.epsilon == math.inf else self.epsilon
        return dict(_json.encode(found))

    def made(self, fields: Mapping[str, Any]) -> bool:
        """Whether a receipt's fields are all of these, whatever its masks and public parts were."""
        return self.fields() == {name: fields[name] for name in fields if name not in OF_PUBLIC}

    @abstractmethod
    def stated(self, shapes: Shapes) -> Stated:
        """What a receipt with these public numbers must say."""


@dataclass(frozen=True, kw_only=True)
class WithPublic:
    """The promise of a method whose receipt says which public things it rests on.

    Args:
        method: whose.
        marks: fields of the receipt by their names in `OF_PUBLIC`: fingerprints of public masks,
            pictures and records, where masks and classes come from, and the first weights.
    """

    method: Promised
    marks: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The method's."""
        return self.method.name

    def fields(self) -> dict[str, Any]:
        """The method's, and what is public."""
        return self.method.fields() | dict(self.marks)

    def stated(self, shapes: Shapes) -> Stated:
        """The method's, with what is taken as public, and with what the first weights have cost."""
        stated = self.method.stated(shapes)
        said = [str(self.marks[name]) for name in _SAID if name in self.marks]
        public = (*stated.guarantee.assumed_public, *said)
        stated = replace(stated, guarantee=replace(stated.guarantee, assumed_public=public))
        first = self.marks.get(FIRST_WEIGHTS)
        return stated if first is None else _after(first, stated)


def with_public(promise: Promised | WithPublic, marks: Mapping[str, Any]) -> Promised | WithPublic:
    """The promise with more that is public; the same where there is nothing more."""
    if not marks:
        return promise
    if isinstance(promise, WithPublic):
        return replace(promise, marks={**promise.marks, **marks})
    return WithPublic(method=promise, marks=marks)


def promise_from(name: str, fields: Mapping[str, Any]) -> Promised | WithPublic:
    """The promise that a receipt's name and fields state.

    Raises:
        ValueError: if they can be of no method.
    """
    own = {
        field: tuple(value) if isinstance(value, list) else value
        for field, value in fields.items()
        if field not in OF_PUBLIC
    }
    make = type(catalog.example("train", name))
    method: Promised = make(**own | ({"epsilon": math.inf} if own["epsilon"] is None else {}))
    for mark in getattr(method, "MARKS", ()):
        if mark not in fields:
            raise ValueError(f"what is public is not named ({mark})")
    if not method.made(fields):
        raise ValueError("some of its fields are missing")
    return with_public(method, {mark: fields[mark] for mark in OF_PUBLIC if mark in fields})


def _after(first: Mapping[str, Any], stated: Stated) -> Stated:
    """What is promised where a run began with these weights."""
    named = f"the first weights (SHA-256 {first['sha256']}), {ORIGINS[first['origin']]}"
    guarantee = stated.guarantee
    if first["origin"] == "unprotected":
        bare = replace(guarantee, caveats=_lasting(guarantee))
        return Stated(
            guarantee=bare.without_proof(f"Nothing is promised: {named}."),
            event=NoGuaranteeDpEvent("first weights without a guarantee"),
        )
    if first["origin"] == "protected":
        shapes = tuple(tuple(shape) for shape in first["shapes"])
        return _both(promise_from(first["mechanism"], first["fields"]).stated(shapes), stated)
    public = (*guarantee.assumed_public, named)
    return replace(stated, guarantee=replace(guarantee, assumed_public=public))


def _lasting(guarantee: Guarantee) -> tuple[str, ...]:
    """The caveats that stay true where another epsilon is stated, or none."""
    return tuple(each for each in guarantee.caveats if not each.startswith(SAME_RUN))


def _both(before: Stated, stated: Stated) -> Stated:
    """A run that began with weights of another, as if both had learned from the same people."""
    earlier, own = before.guarantee, stated.guarantee
    if own.epsilon is None or own.delta is None:
        return stated
    _, relation = require_alike((earlier, own))
    event = ComposedDpEvent([before.event, stated.event])
    epsilon = epsilon_of(event, delta=own.delta, relation=relation)
    kinds, proofs = {earlier.kind, own.kind}, {earlier.accountant, own.accountant}
    guarantee = replace(
        own,
        kind=own.kind if kinds == {own.kind} else Kind.FORMAL_RELAXED,
        epsilon=epsilon,
        accountant=own.accountant if proofs == {own.accountant} else Accountant.PLD,
        composition=f"{own.composition}; and the run that made its first weights (epsilon "
        f"{earlier.epsilon:g} at delta {earlier.delta:g}), as if of the same people",
        assumed_public=tuple(dict.fromkeys((*own.assumed_public, *earlier.assumed_public))),
        not_protected=tuple(dict.fromkeys((*own.not_protected, *earlier.not_protected))),
        caveats=tuple(dict.fromkeys((*_lasting(own), *_lasting(earlier)))),
        power=power_of(event, relation=relation, epsilon=epsilon, delta=own.delta),
    )
    return Stated(guarantee=guarantee, event=event)


def check_seed(seed: object) -> None:
    """Refuse what is no seed of public randomness."""
    is_whole = isinstance(seed, int) and not isinstance(seed, bool)
    if not is_whole or not 0 <= typing.cast(int, seed) < 2**32:
        raise ValueError(
            "Expected public_seed to be a whole number from 0 to below 2^32, got "
            f"public_seed={seed!r}."
        )
