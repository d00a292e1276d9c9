"""TEMPDIFF's votes: LNMax labels at the paper's noise, against its printed epsilon."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from masquerade.accounting import votes
from masquerade.accounting.published.tempdiff import TempdiffClaim
from masquerade.audits.game import Claim, VoteGame
from masquerade.noise import Noise

PAPER = TempdiffClaim()


@dataclass(frozen=True, kw_only=True)
class TempdiffVotes(VoteGame):
    """Two classes at the worst margin; one shard's teacher changes its vote in every query.

    Args:
        form: whose claim: the number as published, or our data-independent one.
        gamma: inverse scale of the Laplace noise.
    """

    form: Literal["published", "sound"] = "published"
    gamma: float = PAPER.gamma
    queries: int = PAPER.queries
    delta: float = field(default=PAPER.delta, init=False)
    trials: int = 1_000

    aggregator = "lnmax"
    counts = ((0, 0), (2, 0))

    def epsilon(self) -> float:
        """The least of our upper bounds."""
        bounds = votes.lnmax_bounds(self.gamma, queries=self.queries, delta=self.delta)
        return min(bounds.values())

    def claim(self) -> Claim:
        """1.4 as printed, or ours."""
        ours = super().claim()
        if self.form == "sound":
            return ours
        return dataclasses.replace(ours, epsilon=PAPER.printed, source="tempdiff as printed")

    def score(self, counts: np.ndarray, size: int, noise: Noise) -> np.ndarray:
        """How often the first class won: all that the released labels say."""
        seen = noise.laplace(1 / self.gamma, (size, self.queries, 2)) + counts
        return np.asarray((seen[..., 0] > seen[..., 1]).mean(axis=1))
