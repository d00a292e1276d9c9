"""Who is in a batch. A sampler knows its own event: it and the accountant cannot disagree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade.account.calibrate import sampled_gaussian
from masquerade.events import DpEvent
from masquerade.noise import Noise


@dataclass(frozen=True, kw_only=True)
class Poisson:
    """Each unit is in a batch by a secret coin of its own; batches may be empty.

    Amplification by sampling is proved for such batches. Accounting batches of one size from a
    shuffled list as if they were these is a common mistake [chua2024].

    Args:
        units: records or people there are; public.
        expected: units in a batch on average; public.
        is_revealed: whether the update shows who was drawn, as when an un-noised public gradient
            uses the same batch; nothing is amplified then.
    """

    units: int
    expected: int
    is_revealed: bool = False

    def __post_init__(self) -> None:
        _check.count(units=self.units, expected=self.expected)
        if self.expected > self.units:
            raise ValueError(
                f"Expected a batch of at most {self.units} units, got expected={self.expected}."
            )

    @property
    def sampling_prob(self) -> float:
        """The chance of a unit to be in a batch: the very number that is accounted."""
        return self.expected / self.units

    def draw(self, noise: Noise) -> np.ndarray:
        """The units of one batch, in order."""
        return np.flatnonzero(noise.poisson_batch(self.sampling_prob, self.units))

    def event(self, noise_multiplier: float, steps: int) -> DpEvent:
        """What ``steps`` batches with this much noise cost."""
        return sampled_gaussian(
            noise_multiplier,
            sampling_prob=self.sampling_prob,
            steps=steps,
            is_revealed=self.is_revealed,
        )


@dataclass(frozen=True, kw_only=True)
class PublicBatches:
    """Batches of public views: of one size, drawn apart from the private ones.

    Args:
        units: there are.
        size: of every batch; never empty.
    """

    units: int
    size: int

    def __post_init__(self) -> None:
        _check.count(units=self.units, size=self.size)

    def draw(self, *, rng: np.random.Generator) -> np.ndarray:
        """Different units, in order."""
        found = rng.permutation(self.units)[: self.size]
        return np.sort(found)
