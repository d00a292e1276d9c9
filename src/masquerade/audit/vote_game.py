"""`VoteGame`: what the games about the noisy votes of a teacher ensemble have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from masquerade import _check
from masquerade.audit.bounds import coins_composed, gaussian_tradeoff
from masquerade.audit.game import Claim, Game, in_chunks
from masquerade.noise import Noise
from masquerade.scores import Evidence, Scores


@dataclass(frozen=True, kw_only=True)
class VoteGame(Game):
    """Two classes; one shard's teacher changes its vote in every query.

    Args:
        queries: labels released.
        delta: of the claim.
        trials: in each world.
    """

    queries: int = 100
    delta: float = 1e-5
    trials: int = 10_000

    aggregator: ClassVar[str]
    attack: ClassVar[str] = "label counts"
    is_gaussian: ClassVar[bool] = False  # all that is seen; else labels, like coins
    counts: ClassVar[tuple[tuple[int, int], ...]] = ((25, 24), (24, 25))  # of the two worlds

    def __post_init__(self) -> None:
        _check.count(queries=self.queries, trials=self.trials)
        _check.delta(delta=self.delta)

    @abstractmethod
    def epsilon(self) -> float:
        """What is claimed; it does not depend on the votes."""

    @abstractmethod
    def score(self, counts: np.ndarray, size: int, noise: Noise) -> np.ndarray:
        """The best test, in ``size`` trials of a world with these counts."""

    def claim(self) -> Claim:
        """Data-independent, as ``account votes`` prints it."""
        return Claim(
            epsilon=self.epsilon(),
            delta=self.delta,
            unit="shard, replace_one",
            source=f"account votes --aggregator {self.aggregator}",
        )

    def play(self, trials: int, noise: Noise) -> Scores:
        """The same test in both worlds."""
        chunk = max(1, 1_000_000 // self.queries)
        score, worlds = partial(self.score, noise=noise), np.array(self.counts)
        return in_chunks(score, worlds, trials, chunk=chunk, attack=self.attack)

    def evidence(self, scores: Scores, *, confidence: float) -> Evidence:
        """Gaussian where all that is seen is; else scores are shares of labels, which compose."""
        if self.is_gaussian:
            return gaussian_tradeoff(scores, delta=self.delta, confidence=confidence)
        return coins_composed(scores, coins=self.queries, delta=self.delta, confidence=confidence)
