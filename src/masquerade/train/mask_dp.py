"""MaskDP: noise only for what is private in a video; the rest teaches without any."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from masquerade import _check
from masquerade.account.renyi import renyi_noise_multiplier
from masquerade.guarantee import Relation
from masquerade.train.method import Method
from masquerade.train.plan import Plan


@dataclass(frozen=True, kw_only=True)
class MaskDp(Method):
    """Learn from public pixels without noise and from whole videos with it [schneider2024].

    By default the public part draws batches of its own. ``as_published`` uses one batch for both,
    which reveals who is in it: nothing is amplified, and the epsilon is the one of that.

    Guarantee:
        unit: the private pixels of one recording, or of one person's recordings.
        relation: replace_one; zero_out (the private gradient is absent) is printed beside it.
        bound: norm C after clipping; Poisson-sampled Gaussians by PLD, or revealed batches exactly.
        numerics: clipped below C, summed on a grid, exact Gaussian, ChaCha20.

    Args:
        form: independent batches, or the shared batch as published.
        private: which side of the person mask is: background (people are avatars) or person.
        weight: lambda, of the public gradient.
        public_batch: recordings in a public batch.
    """

    HEADLINE: ClassVar[Relation] = Relation.REPLACE_ONE
    HAS_PUBLIC: ClassVar[bool] = True

    form: Literal["independent", "as_published"] = "independent"
    private: Literal["background", "person"] = "background"
    weight: float = 1.0
    public_batch: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.positive(weight=self.weight)
        _check.count(public_batch=self.public_batch)
        if self.met is Relation.ADD_REMOVE:
            raise ValueError(
                "Expected zero_out or replace_one for mask_dp, got add_remove: the public part "
                "shows who is there."
            )

    @property
    def shares_batch(self) -> bool:
        """One batch for both parts, as published."""
        return self.form == "as_published"

    @property
    def public_weight(self) -> float:
        """lambda."""
        return self.weight

    def plan(self, units: int) -> Plan:
        """As every method; as published, with the noise behind which the paper prints epsilon."""
        secret = super().plan(units)
        if self.form == "independent" or secret.noise_multiplier == 0:
            return secret
        z = renyi_noise_multiplier(
            self.epsilon,
            delta=self.delta,
            sampling_prob=secret.sampler.sampling_prob,
            steps=secret.steps,
        )
        return replace(secret, noise_multiplier=z)

    def _public(self, plan: Plan) -> tuple[str, ...]:
        side = "people" if self.private == "background" else "everything but people"
        return (*super()._public(plan), f"the masks, the labels, and {side} in every video")

    def _not_protected(self) -> tuple[str, ...]:
        kept = (
            "people in the videos, their pose and gait"
            if self.private == "background"
            else ("the place, and everything around people")
        )
        return (*super()._not_protected(), kept, "labels", "the outline of the mask")

    def _claimed(self) -> str | None:
        if self.form == "independent":
            return None
        return (
            f"CLAIMED, NOT VALID: epsilon {self.epsilon:g} as if the shared batch were secret "
            "[schneider2024, Thm 1]"
        )


EXAMPLE = MaskDp(epsilon=8.0, unit="video")
