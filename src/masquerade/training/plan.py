"""Sampler, clipping, noise and steps bound together: what was proved together stays together.

Who is in a batch. A sampler knows its own event: it and the accountant cannot disagree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from masquerade import _check
from masquerade._formatting import round_up_decimals
from masquerade.accounting.compose import (
    compute_epsilon,
    find_noise_multiplier,
    make_sampled_gaussian,
)
from masquerade.accounting.verdict import renyi_noise_multiplier
from masquerade.events import DpEvent
from masquerade.guarantee import Relation
from masquerade.noise import Noise, find_grid


@dataclass(frozen=True, kw_only=True)
class PoissonSampling:
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

    def sample_batch(self, noise: Noise) -> np.ndarray:
        """The units of one batch, in order."""
        return np.flatnonzero(noise.sample_poisson_batch(self.sampling_prob, self.units))

    def event(self, noise_multiplier: float, steps: int) -> DpEvent:
        """What ``steps`` batches with this much noise cost."""
        return make_sampled_gaussian(
            noise_multiplier,
            sampling_prob=self.sampling_prob,
            steps=steps,
            is_revealed=self.is_revealed,
        )


def public_batch(units: int, size: int, *, rng: np.random.Generator) -> np.ndarray:
    """Different units, in order, of whose public views a batch is made, apart from private ones."""
    return np.sort(rng.permutation(units)[:size])


_MIN_EPSILON = 1e-4  # epsilon


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """All that decides the privacy of a run; every field is public.

    Args:
        sampler: who is in a batch.
        steps: updates in all.
        clip_norm: C, the largest norm of one unit's contribution.
        noise_multiplier: z; the noise on the sum has standard deviation z C. 0 is no privacy.
        delta: of the guarantee.
    """

    sampler: PoissonSampling
    steps: int
    clip_norm: float
    noise_multiplier: float
    delta: float

    def __post_init__(self) -> None:
        _check.count(steps=self.steps)
        _check.positive(clip_norm=self.clip_norm)
        _check.not_negative(noise_multiplier=self.noise_multiplier)
        _check.delta(delta=self.delta)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on a sum of contributions."""
        return self.noise_multiplier * self.clip_norm

    @property
    def grid(self) -> float:
        """The grid on which contributions and noise are summed as whole numbers."""
        return find_grid(self.sigma if self.noise_multiplier > 0 else self.clip_norm)

    def event(self) -> DpEvent:
        """The whole run, for an accountant."""
        return self.sampler.event(self.noise_multiplier, self.steps)

    def compute_epsilon(self, relation: Relation) -> float:
        """What the run costs, rounded up."""
        return round_up_decimals(compute_epsilon(self.event(), delta=self.delta, relation=relation))


def calibrate_plan(plan: TrainingPlan, target: float, *, relation: Relation) -> TrainingPlan:
    """The plan with the least noise whose epsilon, for ``relation``, is at most ``target``.

    Epsilon is stated with four decimals, rounded up; a target is met as if it had four as well.
    """
    _check.positive(epsilon=target)
    if target < _MIN_EPSILON:
        raise ValueError(
            f"Expected epsilon >= {_MIN_EPSILON}, the least that is stated, got {target}."
        )
    target = math.floor(target * 1e4 * (1 + 1e-12)) / 1e4
    z = find_noise_multiplier(
        target,
        delta=plan.delta,
        sampling_prob=plan.sampler.sampling_prob,
        steps=plan.steps,
        relation=relation,
        is_revealed=plan.sampler.is_revealed,
    )
    plan = replace(plan, noise_multiplier=z)
    growth = 1e-5
    while (
        plan.compute_epsilon(relation) > target
    ):  # rounded up, it may be one in the last decimal above
        plan = replace(plan, noise_multiplier=plan.noise_multiplier * (1 + growth))
        growth *= 2
    return plan


def as_claimed(plan: TrainingPlan, target: float) -> TrainingPlan:
    """The plan with the noise behind which a paper that takes batches to be secret prints epsilon.

    What that noise gives is another number: the plan's own.
    """
    try:
        z = renyi_noise_multiplier(
            target,
            delta=plan.delta,
            sampling_prob=plan.sampler.sampling_prob,
            steps=plan.steps,
        )
    except ValueError as error:
        raise ValueError(
            f"Expected an epsilon that the paper's accountant can give, got {target:g}; take a "
            "smaller one."
        ) from error
    return replace(plan, noise_multiplier=z)
