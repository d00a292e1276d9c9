"""`Game`: a claim that can be put to the test, and how a mechanism becomes one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from masquerade.audit.bounds import clopper_pearson, gaussian_tradeoff
from masquerade.guarantee import Accountant
from masquerade.mechanism import Mechanism
from masquerade.noise import Noise
from masquerade.scores import Evidence, Scores

SHAPE = (6, 3)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a game puts to the test.

    Args:
        epsilon: claimed.
        delta: claimed.
        unit: and relation, in words.
        source: whose claim it is.
    """

    epsilon: float
    delta: float
    unit: str
    source: str


class Game(ABC):
    """Two worlds that differ in one unit, an attacker who scores outputs, and a claim."""

    trials: int

    @abstractmethod
    def claim(self) -> Claim:
        """The epsilon that is put to the test."""

    @abstractmethod
    def play(self, trials: int, noise: Noise) -> Scores:
        """Scores of the best attacker that is known, ``trials`` in each world."""

    def evidence(self, scores: Scores, *, confidence: float) -> Evidence:
        """A lower bound on epsilon; by default one that assumes nothing."""
        return clopper_pearson(scores, delta=self.claim().delta, confidence=confidence)


@dataclass(frozen=True, kw_only=True)
class MechanismGame(Game):
    """A release mechanism against its own worst case.

    Args:
        mechanism: with a numeric epsilon.
        trials: enough to see most of the claim.
    """

    mechanism: Mechanism
    trials: int = 10_000

    def __post_init__(self) -> None:
        if self.mechanism.guarantee(SHAPE).epsilon is None:
            raise ValueError(
                f"Expected a mechanism with a numeric epsilon, got {self.mechanism.name}; there is "
                "no claim to put to the test."
            )

    def claim(self) -> Claim:
        """What the mechanism promises for a small input."""
        guarantee = self.mechanism.guarantee(SHAPE)
        return Claim(
            epsilon=guarantee.epsilon or 0.0,
            delta=guarantee.delta or 0.0,
            unit=f"{guarantee.unit}, {guarantee.relation.value}",
            source=f"{self.mechanism.name}, its own guarantee",
        )

    def play(self, trials: int, noise: Noise) -> Scores:
        """The optimal statistic where the mechanism has one, else a trained direction."""
        worlds = self.mechanism.worst_case(SHAPE)
        outputs = [
            np.stack([np.asarray(self.mechanism.apply(world, noise)) for _ in range(trials)])
            for world in worlds
        ]
        statistic: Callable[[np.ndarray], float] | None
        statistic = getattr(self.mechanism, "statistic", None)
        if statistic is not None:
            without, within = ([statistic(out) for out in outs] for outs in outputs)
            return Scores(
                without=np.array(without), within=np.array(within), attack="the optimal test"
            )
        return trained(*outputs)

    def evidence(self, scores: Scores, *, confidence: float) -> Evidence:
        """The Gaussian bound for Gaussian mechanisms, the assumption-free one otherwise."""
        is_gaussian = self.mechanism.guarantee(SHAPE).accountant is Accountant.ANALYTIC_GAUSSIAN
        bound = gaussian_tradeoff if is_gaussian else clopper_pearson
        return bound(scores, delta=self.claim().delta, confidence=confidence)


def trained(without: np.ndarray, within: np.ndarray) -> Scores:
    """Scores by Fisher's direction, learned on trials of its own that are not scored."""
    half = len(without) // 2
    flat = [world.reshape(len(world), -1).astype(np.float64) for world in (without, within)]
    means = [world[:half].mean(axis=0) for world in flat]
    covariances = [np.atleast_2d(np.cov(world[:half].T)) for world in flat]
    spread = covariances[0] + covariances[1]
    ridge = 1e-9 * np.trace(spread) / len(spread) * np.eye(len(spread))
    direction = np.linalg.solve(spread + ridge, means[1] - means[0])
    return Scores(
        without=flat[0][half:] @ direction,
        within=flat[1][half:] @ direction,
        attack="a trained linear test",
    )
