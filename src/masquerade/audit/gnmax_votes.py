"""GNMax: noisy vote histograms of a teacher ensemble."""

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
class GnmaxVotes(Game):
    """One shard changes its teacher's vote in every query; the noisy counts are seen.

    Args:
        noise_std: of the noise on each count.
        queries: labels released.
        delta: of the claim.
        trials: in each world.
    """

    noise_std: float = 9.0
    queries: int = 100
    delta: float = 1e-5
    trials: int = 10_000

    def __post_init__(self) -> None:
        _check.positive(noise_std=self.noise_std)
        _check.count(queries=self.queries, trials=self.trials)
        _check.delta(delta=self.delta)

    def claim(self) -> Claim:
        """Data-independent, by mu = sqrt(2 k) / sigma."""
        terms = votes.Terms(aggregator="gnmax", queries=self.queries)
        return Claim(
            epsilon=terms.epsilon(self.noise_std, delta=self.delta),
            delta=self.delta,
            unit="shard, replace_one",
            source="account votes --aggregator gnmax",
        )

    def play(self, trials: int, noise: Noise) -> Scores:
        """Sum of (second count - first count) over the queries: the likelihood ratio."""

        def scores(first: float, second: float) -> np.ndarray:
            found = np.empty(trials)
            chunk = max(1, 1_000_000 // self.queries)
            for start in range(0, trials, chunk):
                size = min(chunk, trials - start)
                counts = noise.gaussian(self.noise_std, (size, self.queries, 2))
                counts += np.array([first, second])
                found[start : start + size] = (counts[..., 1] - counts[..., 0]).sum(axis=1)
            return found

        scale = 1 / math.sqrt(self.queries)
        return Scores(
            without=scores(25, 24) * scale, within=scores(24, 25) * scale, attack="vote counts"
        )

    def evidence(self, scores: Scores, *, confidence: float) -> Evidence:
        """Gaussian: the histogram is one."""
        return gaussian_tradeoff(scores, delta=self.delta, confidence=confidence)


EXAMPLE = GnmaxVotes()
SOUND = EXAMPLE  # a claim of ours, at which a quarter of the noise is caught
