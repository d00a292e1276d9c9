"""TEMPDIFF's votes: LNMax labels at the paper's noise, against its printed epsilon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from masquerade.account import votes
from masquerade.account.published.tempdiff import EXAMPLE as PAPER
from masquerade.audit.game import Claim, Game
from masquerade.noise import Noise
from masquerade.scores import Scores


@dataclass(frozen=True, kw_only=True)
class TempdiffVotes(Game):
    """Two classes at the worst margin; one shard's teacher changes its vote in every query.

    Args:
        form: whose claim: the number as published, or our data-independent one.
        gamma: inverse scale of the Laplace noise.
        queries: labels released.
        trials: in each world.
    """

    form: Literal["published", "sound"] = "published"
    gamma: float = PAPER.gamma
    queries: int = PAPER.queries
    trials: int = 4_000

    def claim(self) -> Claim:
        """1.4 as printed, or the least of our upper bounds."""
        ours = min(votes.lnmax_bounds(self.gamma, queries=self.queries, delta=PAPER.delta).values())
        is_published = self.form == "published"
        return Claim(
            epsilon=PAPER.printed if is_published else ours,
            delta=PAPER.delta,
            unit="shard, replace_one",
            source="tempdiff as printed" if is_published else "account votes --aggregator lnmax",
        )

    def play(self, trials: int, noise: Noise) -> Scores:
        """How often the first class won: all that the released labels say."""

        def wins(margin: float) -> np.ndarray:
            won = np.zeros(trials, dtype=np.int64)
            chunk = max(1, 2_000_000 // self.queries)
            for start in range(0, trials, chunk):
                size = (min(chunk, trials - start), self.queries, 2)
                counts = noise.laplace(1 / self.gamma, size)
                won[start : start + size[0]] = (counts[..., 0] + margin > counts[..., 1]).sum(
                    axis=1
                )
            return won.astype(np.float64)

        return Scores(without=wins(0.0), within=wins(2.0), attack="label counts")


EXAMPLE = TempdiffVotes()
# a quarter of the noise is caught here
SOUND = TempdiffVotes(form="sound", gamma=0.01, trials=20_000)
