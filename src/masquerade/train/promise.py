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
from masquerade.guarantee import Relation, UnitName, named_unit
from masquerade.mechanism import Shapes, Stated

OF_MASKS = ("mask_sha256", "mask_source")  # fields of a receipt that are no method's
OF_PUBLIC = ("psi_sha256", "guide_sha256")  # nor these: of public pictures and public records


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
        others = (*OF_MASKS, *OF_PUBLIC)
        return self.fields() == {name: fields[name] for name in fields if name not in others}

    @abstractmethod
    def stated(self, shapes: Shapes) -> Stated:
        """What a receipt with these public numbers must say."""


@dataclass(frozen=True, kw_only=True)
class WithMasks:
    """The promise of a method whose receipt says of which public masks it speaks.

    Args:
        method: whose.
        mask_sha256: their fingerprint.
        mask_source: where they come from, in public words; empty where the data set has its own.
    """

    method: Promised
    mask_sha256: str
    mask_source: str = ""

    @property
    def name(self) -> str:
        """The method's."""
        return self.method.name

    def fields(self) -> dict[str, Any]:
        """The method's, and which masks they were."""
        source = {"mask_source": self.mask_source} if self.mask_source else {}
        return self.method.fields() | {"mask_sha256": self.mask_sha256} | source

    def stated(self, shapes: Shapes) -> Stated:
        """The method's, and that masks from elsewhere are taken as public."""
        stated = self.method.stated(shapes)
        if not self.mask_source:
            return stated
        public = (*stated.guarantee.assumed_public, self.mask_source)
        return replace(stated, guarantee=replace(stated.guarantee, assumed_public=public))


@dataclass(frozen=True, kw_only=True)
class WithMarks:
    """The promise of a method whose receipt says of which public pictures or records it speaks.

    Args:
        method: whose.
        marks: their fingerprints by name: the method's ``MARKS``.
    """

    method: Promised
    marks: Mapping[str, str]

    @property
    def name(self) -> str:
        """The method's."""
        return self.method.name

    def fields(self) -> dict[str, Any]:
        """The method's, and which public parts they were."""
        return self.method.fields() | dict(self.marks)

    def stated(self, shapes: Shapes) -> Stated:
        """The method's."""
        return self.method.stated(shapes)


def check_seed(seed: object) -> None:
    """Refuse what is no seed of public randomness."""
    is_whole = isinstance(seed, int) and not isinstance(seed, bool)
    if not is_whole or not 0 <= typing.cast(int, seed) < 2**32:
        raise ValueError(
            "Expected public_seed to be a whole number from 0 to below 2^32, got "
            f"public_seed={seed!r}."
        )
