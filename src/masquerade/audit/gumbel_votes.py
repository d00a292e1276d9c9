"""Gumbel-max: labels of a teacher ensemble by the exponential mechanism."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade.account import votes
from masquerade.audit.game import Claim, Game
from masquerade.noise import Noise
from masquerade.scores import Scores


@dataclass(frozen=True, kw_only=True)
class GumbelVotes(Game):
    """Two classes, one vote apart; one shard's teacher changes sides in every query.

    Each label is then a coin whose log odds move by 2 gamma, from +gamma to -gamma: the worst that
    a loss of that span can do.

    Args:
        gamma: inverse scale of the Gumbel noise.
        queries: labels released.
        delta: of the claim.
        trials: in each world.
    """

    gamma: float = 0.04
    queries: int = 100
    delta: float = 1e-5
    trials: int = 20_000

    def __post_init__(self) -> None:
        _check.positive(gamma=self.gamma)
        _check.count(queries=self.queries, trials=self.trials)
        _check.delta(delta=self.delta)

    def claim(self) -> Claim:
        """Data-independent, by rho = k gamma^2 / 2."""
        terms = votes.Terms(aggregator="gumbel", queries=self.queries)
        return Claim(
            epsilon=terms.epsilon(1 / self.gamma, delta=self.delta),
            delta=self.delta,
            unit="shard, replace_one",
            source="account votes --aggregator gumbel",
        )

    def play(self, trials: int, noise: Noise) -> Scores:
        """How often the second class won: all that the released labels say."""

        def wins(first: int, second: int) -> np.ndarray:
            won = np.empty(trials)
            chunk = max(1, 1_000_000 // self.queries)
            for start in range(0, trials, chunk):
                size = min(chunk, trials - start)
                counts = np.broadcast_to([first, second], (size * self.queries, 2))
                labels = noise.gumbel_argmax(counts, 1 / self.gamma)
                won[start : start + size] = labels.reshape(size, self.queries).sum(axis=1)
            return won

        return Scores(without=wins(25, 24), within=wins(24, 25), attack="label counts")


EXAMPLE = GumbelVotes()
SOUND = EXAMPLE  # a claim of ours, at which a quarter of the noise is caught
