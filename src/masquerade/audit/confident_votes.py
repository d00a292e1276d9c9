"""Confident-GNMax: a noisy threshold for every query, noisy votes for those that pass."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade.account import votes
from masquerade.audit.bounds import gaussian_tradeoff
from masquerade.audit.game import Claim, Game
from masquerade.noise import Noise
from masquerade.scores import Evidence, Scores


@dataclass(frozen=True, kw_only=True)
class ConfidentVotes(Game):
    """One shard's teacher joins the majority; noisy maxima and noisy counts are seen.

    Its vote moves from the second class to the first, so both the largest count and the two counts
    move by one, in every query; as many queries as the cap allows are answered.

    Args:
        noise_std: of the noise on each count of an answered query.
        threshold_std: of the noise on the largest count of every query.
        queries: asked.
        cap: of them answered.
        delta: of the claim.
        trials: in each world.
    """

    noise_std: float = 9.0
    threshold_std: float = 12.0
    queries: int = 100
    cap: int = 50
    delta: float = 1e-5
    trials: int = 10_000

    def __post_init__(self) -> None:
        _check.positive(noise_std=self.noise_std, threshold_std=self.threshold_std)
        _check.count(queries=self.queries, cap=self.cap, trials=self.trials)
        _check.delta(delta=self.delta)

    def claim(self) -> Claim:
        """Data-independent, by mu^2 = k / sigma_T^2 + 2 cap / sigma^2."""
        terms = votes.Terms(
            aggregator="confident",
            queries=self.queries,
            threshold_std=self.threshold_std,
            cap=self.cap,
        )
        return Claim(
            epsilon=terms.epsilon(self.noise_std, delta=self.delta),
            delta=self.delta,
            unit="shard, replace_one",
            source="account votes --aggregator confident",
        )

    def play(self, trials: int, noise: Noise) -> Scores:
        """Maxima, and first counts less second ones, each by its precision: the best test."""
        tests, answers = self.threshold_std**-2, self.noise_std**-2
        mu = math.sqrt(self.queries * tests + 2 * self.cap * answers)

        def scores(first: float, second: float) -> np.ndarray:
            found = np.empty(trials)
            chunk = max(1, 1_000_000 // (self.queries + 2 * self.cap))
            for start in range(0, trials, chunk):
                size = min(chunk, trials - start)
                largest = max(first, second) + noise.gaussian(
                    self.threshold_std, (size, self.queries)
                )
                counts = noise.gaussian(self.noise_std, (size, self.cap, 2))
                counts += np.array([first, second])
                lead = (counts[..., 0] - counts[..., 1]).sum(axis=1)
                found[start : start + size] = tests * largest.sum(axis=1) + answers * lead
            return found / mu

        return Scores(
            without=scores(25, 24), within=scores(26, 23), attack="noisy maxima and vote counts"
        )

    def evidence(self, scores: Scores, *, confidence: float) -> Evidence:
        """Gaussian: all that is seen is."""
        return gaussian_tradeoff(scores, delta=self.delta, confidence=confidence)


EXAMPLE = ConfidentVotes()
SOUND = EXAMPLE  # a claim of ours, at which a quarter of the noise is caught
