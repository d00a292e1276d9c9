"""Canaries: secret coins, and what an attacker who sees every update makes of them.

A canary's contribution to a private sum is a direction of its own and as long as it may be, so
that it shows along that direction and nowhere else [nasr2023]. Out it is absent or, where it is
replaced by a neighbour, turned round.
"""

from __future__ import annotations

import numpy as np

from masquerade import _check
from masquerade.guarantee import Relation
from masquerade.noise import Noise
from masquerade.scores import Scores


def tossed(count: int, noise: Noise) -> np.ndarray:
    """A fair coin for each canary: whether it is in."""
    _check.count(canaries=count)
    return np.asarray(noise.poisson_batch(0.5, count), dtype=bool)


def by_coins(score: np.ndarray, is_in: np.ndarray, *, attack: str) -> Scores:
    """What canaries scored, parted by their coins.

    Raises:
        ValueError: if all coins fell alike, which for more than a few does not happen.
    """
    if is_in.all() or not is_in.any():
        raise ValueError("Expected canaries that are in and canaries that are out; take more.")
    return Scores(without=score[~is_in], within=score[is_in], attack=attack)


class Likelihood:
    """The log likelihood ratio of "in" against "out" for each canary, from every noisy sum.

    Args:
        count: of canaries.
        sampling_prob: of the batches.
        noise_multiplier: that is claimed.
        relation: zero_out (out is absent) or replace_one (out is turned round).
    """

    def __init__(
        self, count: int, *, sampling_prob: float, noise_multiplier: float, relation: Relation
    ) -> None:
        _check.count(count=count)
        _check.positive(noise_multiplier=noise_multiplier)
        _check.probability(sampling_prob=sampling_prob)
        self.total = np.zeros(count)
        self._q, self._z, self._relation = sampling_prob, noise_multiplier, relation

    def see(self, along: np.ndarray, is_drawn: np.ndarray | None = None) -> None:
        """Take in one noisy sum.

        Args:
            along: (count,) the sum along each canary's direction, in units of the clipping norm.
            is_drawn: (count,) who was in the batch, where that shows.
        """
        if is_drawn is not None:
            self.total += np.where(is_drawn, along, 0.0)  # of the same order as the ratio
            return
        self.total += self._ratio(along)
        if self._relation is Relation.REPLACE_ONE:
            self.total -= self._ratio(-along)

    def _ratio(self, along: np.ndarray) -> np.ndarray:
        """Of a contribution of +1, by chance q, to none."""
        if self._q == 1:
            return np.asarray((2 * along - 1) / (2 * self._z**2))
        drawn = np.log(self._q) + (2 * along - 1) / (2 * self._z**2)
        return np.asarray(np.logaddexp(np.log1p(-self._q), drawn))
