"""Confident-GNMax: a noisy threshold for every query, noisy votes for those that pass."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade.accounting import votes
from masquerade.audits.game import VoteGame
from masquerade.noise import Noise


@dataclass(frozen=True, kw_only=True)
class ConfidentVotes(VoteGame):
    """One shard's teacher joins the majority; noisy maxima and noisy counts are seen.

    Its vote moves from the second class to the first, so both the largest count and the two counts
    move by one, in every query; as many queries as the cap allows are answered.

    Args:
        noise_std: of the noise on each count of an answered query.
        threshold_std: of the noise on the largest count of every query.
        cap: of the queries, so many are answered.
    """

    noise_std: float = 9.0
    threshold_std: float = 12.0
    cap: int = 50

    aggregator = "confident"
    is_gaussian = True
    attack = "noisy maxima and vote counts"
    counts = ((25, 24), (26, 23))

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.positive(noise_std=self.noise_std, threshold_std=self.threshold_std)
        _check.count(cap=self.cap)

    def epsilon(self) -> float:
        """By mu^2 = k / sigma_T^2 + 2 cap / sigma^2."""
        terms = votes.Terms(
            aggregator="confident",
            queries=self.queries,
            threshold_std=self.threshold_std,
            cap=self.cap,
        )
        return terms.epsilon(self.noise_std, delta=self.delta)

    def score(self, counts: np.ndarray, size: int, noise: Noise) -> np.ndarray:
        """Maxima, and first counts less second ones, each by its precision: the best test."""
        tests, answers = self.threshold_std**-2, self.noise_std**-2
        largest = max(counts) + noise.gaussian(self.threshold_std, (size, self.queries))
        seen = noise.gaussian(self.noise_std, (size, self.cap, 2)) + counts
        lead = (seen[..., 0] - seen[..., 1]).sum(axis=1)
        mu = math.sqrt(self.queries * tests + 2 * self.cap * answers)
        return np.asarray((tests * largest.sum(axis=1) + answers * lead) / mu)
