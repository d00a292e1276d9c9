"""Gumbel-max: labels of a teacher ensemble by the exponential mechanism."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade.accounting import votes
from masquerade.audits.game import VoteGame
from masquerade.noise import Noise


@dataclass(frozen=True, kw_only=True)
class GumbelVotes(VoteGame):
    """Two classes, one vote apart; one shard's teacher changes sides in every query.

    Each label is then a coin whose log odds move by 2 gamma, from +gamma to -gamma: the worst that
    a loss of that span can do.

    Args:
        gamma: inverse scale of the Gumbel noise.
    """

    gamma: float = 0.04

    aggregator = "gumbel"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.positive(gamma=self.gamma)

    def epsilon(self) -> float:
        """By rho = k gamma^2 / 2."""
        terms = votes.Terms(aggregator="gumbel", queries=self.queries)
        return terms.epsilon(1 / self.gamma, delta=self.delta)

    def score(self, counts: np.ndarray, size: int, noise: Noise) -> np.ndarray:
        """How often the second class won: all that the released labels say."""
        every = np.broadcast_to(counts, (size * self.queries, 2))
        labels = noise.gumbel_argmax(every, 1 / self.gamma)
        return np.asarray(labels.reshape(size, self.queries).mean(axis=1))
