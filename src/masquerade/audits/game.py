"""`Game`: a claim that can be put to the test, and how a mechanism becomes one.

`VoteGame`: what the games about the noisy votes of a teacher ensemble have in common.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np

from masquerade import _check
from masquerade.audits.bounds import clopper_pearson, compose_coins, gaussian_tradeoff
from masquerade.guarantee import Accountant, Guarantee
from masquerade.mechanism import Mechanism, Shape, VideoMechanism, first_unit
from masquerade.noise import Noise
from masquerade.scores import Evidence, Scores

_NUMBERS_SHAPE = (6, 3)
_VIDEO_SHAPE = (4, 6, 6, 3)
_GAUSSIAN_ACCOUNTANTS = (Accountant.ANALYTIC_GAUSSIAN, Accountant.GAUSSIAN_RANDOM_PROJECTION)


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

    def compute_evidence(self, scores: Scores, *, confidence: float) -> Evidence:
        """A lower bound on epsilon; by default one that assumes nothing."""
        return clopper_pearson(scores, delta=self.claim().delta, confidence=confidence)


@dataclass(frozen=True, kw_only=True)
class MechanismGame(Game):
    """A release mechanism against its own worst case.

    Args:
        mechanism: with a numeric epsilon, or with a published claim.
        trials: enough to see most of the claim.
        shape: of the input; by default a small one.
        sees: numbers (all that the guarantee covers) or video (the released frames alone).
    """

    mechanism: Mechanism
    trials: int = 10_000
    shape: Shape | None = None
    sees: Literal["numbers", "video"] = "numbers"

    def __post_init__(self) -> None:
        if self.guarantee.epsilon is None:
            raise ValueError(
                f"Expected a mechanism with a numeric epsilon, got {self.mechanism.name}; there is "
                "no claim to put to the test."
            )

    @property
    def input_shape(self) -> Shape:
        """Of the two worlds."""
        if self.shape is not None:
            return self.shape
        return _VIDEO_SHAPE if isinstance(self.mechanism, VideoMechanism) else _NUMBERS_SHAPE

    @cached_property
    def guarantee(self) -> Guarantee:
        """What the mechanism promises for such an input."""
        return self.mechanism.plan(self.input_shape).guarantee

    def claim(self) -> Claim:
        """What the mechanism promises for a small input; a paper's form, what the paper claims."""
        guarantee = self.guarantee
        fields = self.mechanism.encode_fields()
        is_published = guarantee.published_claim is not None
        return Claim(
            epsilon=fields["epsilon"] if is_published else guarantee.epsilon or 0.0,
            delta=fields["delta"] if is_published else guarantee.delta or 0.0,
            unit=f"{guarantee.unit}, {guarantee.relation.value}",
            source=f"{self.mechanism.name}, {'as published' if is_published else 'its guarantee'}",
        )

    def play(self, trials: int, noise: Noise) -> Scores:
        """The optimal test where the mechanism knows it, else a trained direction."""
        worlds = self.mechanism.worst_case(self.input_shape)
        best = getattr(self.mechanism, "play", None)
        if best is not None and self.sees == "numbers":
            without, within = (best(worlds, truth, trials, noise) for truth in (0, 1))
            return Scores(without=without, within=within, attack="the optimal test")
        outputs = [
            np.stack([np.asarray(self.mechanism.apply(world, noise)) for _ in range(trials)])
            for world in worlds
        ]
        statistic, attack = getattr(self.mechanism, "statistic", None), "the optimal test"
        if self.sees == "video":
            unit = self.guarantee.unit
            attack = "the brightness of the unit in the released frames"

            def statistic(output: np.ndarray) -> float:
                return float(first_unit(output, unit).mean())

        if statistic is None:
            return score_by_direction(*outputs)
        without, within = (np.array([statistic(out) for out in outs]) for outs in outputs)
        return Scores(without=without, within=within, attack=attack)

    def compute_evidence(self, scores: Scores, *, confidence: float) -> Evidence:
        """The Gaussian bound for Gaussian mechanisms, the assumption-free one otherwise."""
        accountant = self.guarantee.accountant
        is_gaussian = accountant in _GAUSSIAN_ACCOUNTANTS and self.sees == "numbers"
        bound = gaussian_tradeoff if is_gaussian else clopper_pearson
        return bound(scores, delta=self.claim().delta, confidence=confidence)


def in_chunks(
    score: Callable[[Any, int], np.ndarray],
    worlds: Iterable[Any],
    trials: int,
    *,
    chunk: int,
    attack: str,
) -> Scores:
    """The scores of all trials in both worlds, of which ``score`` gives ``chunk`` at a time."""
    sizes = [min(chunk, trials - start) for start in range(0, trials, chunk)]
    without, within = (np.concatenate([score(world, size) for size in sizes]) for world in worlds)
    return Scores(without=without, within=within, attack=attack)


def score_by_direction(without: np.ndarray, within: np.ndarray) -> Scores:
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
    def compute_epsilon(self) -> float:
        """What is claimed; it does not depend on the votes."""

    @abstractmethod
    def score_trials(self, counts: np.ndarray, size: int, noise: Noise) -> np.ndarray:
        """The best test, in ``size`` trials of a world with these counts."""

    def claim(self) -> Claim:
        """Data-independent, as ``account votes`` prints it."""
        return Claim(
            epsilon=self.compute_epsilon(),
            delta=self.delta,
            unit="shard, replace_one",
            source=f"account votes --aggregator {self.aggregator}",
        )

    def play(self, trials: int, noise: Noise) -> Scores:
        """The same test in both worlds."""
        chunk = max(1, 1_000_000 // self.queries)
        score, worlds = partial(self.score_trials, noise=noise), np.array(self.counts)
        return in_chunks(score, worlds, trials, chunk=chunk, attack=self.attack)

    def compute_evidence(self, scores: Scores, *, confidence: float) -> Evidence:
        """Gaussian where all that is seen is; else scores are shares of labels, which compose."""
        if self.is_gaussian:
            return gaussian_tradeoff(scores, delta=self.delta, confidence=confidence)
        return compose_coins(scores, coins=self.queries, delta=self.delta, confidence=confidence)
