"""GNMax: noisy vote histograms of a teacher ensemble."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade.accounting import votes
from masquerade.audits.game import VoteGame
from masquerade.noise import Noise


@dataclass(frozen=True, kw_only=True)
class GnmaxVotes(VoteGame):
    """One shard changes its teacher's vote in every query; the noisy counts are seen.

    Args:
        noise_std: of the noise on each count.
    """

    noise_std: float = 9.0

    aggregator = "gnmax"
    is_gaussian = True
    attack = "vote counts"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.positive(noise_std=self.noise_std)

    def epsilon(self) -> float:
        """By mu = sqrt(2 k) / sigma."""
        terms = votes.Terms(aggregator="gnmax", queries=self.queries)
        return terms.epsilon(self.noise_std, delta=self.delta)

    def score(self, counts: np.ndarray, size: int, noise: Noise) -> np.ndarray:
        """Sum of (second count - first count) over the queries: the likelihood ratio."""
        seen = noise.gaussian(self.noise_std, (size, self.queries, 2)) + counts
        lead = (seen[..., 1] - seen[..., 0]).sum(axis=1)
        return np.asarray(lead * (1 / math.sqrt(self.queries)))
