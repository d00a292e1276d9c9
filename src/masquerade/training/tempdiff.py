"""TEMPDIFF: teachers of several window lengths vote, with noise, on what people do."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade.training.ensemble import Ensemble


@dataclass(frozen=True, kw_only=True)
class Tempdiff(Ensemble):
    """Learn from worn sensors by teachers that see time at several scales [roy2023].

    By default shards are whole people and votes get Gaussian noise. The published form has
    stretches of time (``--by time``), windows that do not overlap (``--overlap 0``) and Laplace
    noise (``--aggregator lnmax --gamma 0.1``), and prints an epsilon that depends on the votes: no
    guarantee, and never printed as one here.

    Guarantee:
        unit: one person, with all teachers that their data reaches; or one teacher's data.
        relation: replace_one; zero_out is the same number.
        bound: s votes move between two classes in each query; data-independent.
        numerics: whole votes, exact noise, ChaCha20; only winners leave.
    """

    windows: tuple[int, ...] = (64, 96, 128)
