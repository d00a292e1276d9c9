"""What attacks, audits and measurements return. None of it is a guarantee."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade import _check


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """An attacker's scores in the two worlds of a distinguishing game; high means "the unit is in".

    Args:
        without: (N,) scores where the neighbour was used.
        within: (M,) scores where the value was used.
        attack: the attack's name.
    """

    without: np.ndarray
    within: np.ndarray
    attack: str

    def __post_init__(self) -> None:
        for name, scores in (("without", self.without), ("within", self.within)):
            _check.shape("N", **{name: scores})
            if scores.size == 0 or np.any(np.isnan(scores)):
                raise ValueError(f"Expected {name} to hold numbers, got {scores.size} with NaN.")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A statistical lower bound on epsilon. It can refute a claim; it can never prove one.

    Args:
        epsilon_at_least: the bound.
        delta: at which delta.
        confidence: probability with which the bound holds.
        trials: plays in each world.
        attack: who played.
        assumes: what the bound takes for granted beyond independent trials.
    """

    epsilon_at_least: float
    delta: float
    confidence: float
    trials: int
    attack: str
    assumes: str

    def __post_init__(self) -> None:
        _check.not_negative(epsilon_at_least=self.epsilon_at_least, delta=self.delta)
        _check.probability(confidence=self.confidence)
        _check.count(trials=self.trials)

    def refutes(self, claimed_epsilon: float) -> bool:
        """Whether a claim of ``claimed_epsilon`` cannot be true."""
        return self.epsilon_at_least > claimed_epsilon


@dataclass(frozen=True, kw_only=True)
class Utility:
    """What data or a model is still good for, as one number.

    Args:
        measure: the measure's name, for example "PSNR".
        value: its value.
        in_unit: the value's unit, for example "dB"; empty for a ratio.
        is_private: whether it was computed from private input and must stay in the house.
    """

    measure: str
    value: float
    in_unit: str = ""
    is_private: bool = True

    def __post_init__(self) -> None:
        if not self.measure:
            raise ValueError("Expected measure to be named.")
        _check.finite(value=self.value)
