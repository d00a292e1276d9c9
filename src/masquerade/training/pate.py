"""PATE: teachers of one window length vote, with noise, on what people do."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade.training.ensemble import Ensemble


@dataclass(frozen=True, kw_only=True)
class Pate(Ensemble):
    """Learn from worn sensors by teachers on disjoint shards [papernot2017], to compare with.

    Guarantee:
        unit: one person, with all teachers that their data reaches; or one teacher's data.
        relation: replace_one; zero_out is the same number.
        bound: s votes move between two classes in each query; data-independent.
        numerics: whole votes, exact noise, ChaCha20; only winners leave.
    """
