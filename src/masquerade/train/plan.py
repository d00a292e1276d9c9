"""Sampler, clipping, noise and steps bound together: what was proved together stays together."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from masquerade import _check
from masquerade._round import up_decimals
from masquerade.account.calibrate import calibrate
from masquerade.account.compose import epsilon
from masquerade.account.renyi import renyi_noise_multiplier
from masquerade.events import DpEvent
from masquerade.guarantee import Relation
from masquerade.noise import grid_for
from masquerade.train.sampling import Poisson

_LEAST = 1e-4  # epsilon


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that decides the privacy of a run; every field is public.

    Args:
        sampler: who is in a batch.
        steps: updates in all.
        clip_norm: C, the largest norm of one unit's contribution.
        noise_multiplier: z; the noise on the sum has standard deviation z C. 0 is no privacy.
        delta: of the guarantee.
    """

    sampler: Poisson
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
        return grid_for(self.sigma if self.noise_multiplier > 0 else self.clip_norm)

    def event(self) -> DpEvent:
        """The whole run, for an accountant."""
        return self.sampler.event(self.noise_multiplier, self.steps)

    def epsilon(self, relation: Relation) -> float:
        """What the run costs, rounded up."""
        return up_decimals(epsilon(self.event(), delta=self.delta, relation=relation))


def calibrated(plan: Plan, target: float, *, relation: Relation) -> Plan:
    """The plan with the least noise whose epsilon, for ``relation``, is at most ``target``.

    Epsilon is stated with four decimals, rounded up; a target is met as if it had four as well.
    """
    _check.positive(epsilon=target)
    if target < _LEAST:
        raise ValueError(f"Expected epsilon >= {_LEAST}, the least that is stated, got {target}.")
    target = math.floor(target * 1e4 * (1 + 1e-12)) / 1e4
    z = calibrate(
        target,
        delta=plan.delta,
        sampling_prob=plan.sampler.sampling_prob,
        steps=plan.steps,
        relation=relation,
        is_revealed=plan.sampler.is_revealed,
    )
    plan = replace(plan, noise_multiplier=z)
    growth = 1e-5
    while plan.epsilon(relation) > target:  # rounded up, it may be one in the last decimal above
        plan = replace(plan, noise_multiplier=plan.noise_multiplier * (1 + growth))
        growth *= 2
    return plan


def as_claimed(plan: Plan, target: float) -> Plan:
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
