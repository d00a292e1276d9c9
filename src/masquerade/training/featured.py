"""What methods with public pictures share: which pictures they are, and how much they teach."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from masquerade import _check
from masquerade.guarantee import Relation
from masquerade.training.method import Method
from masquerade.training.plan import TrainingPlan, as_claimed
from masquerade.training.views import Psi


@dataclass(frozen=True, kw_only=True)
class Featured(Method):
    """A method whose public part sees psi of every recording, and its labels or joints.

    Neighbours share psi and labels, and differ in all else of one unit. The public gradient is then
    the same for both; the private one is a function of that unit alone, clipped to C.

    Args:
        psi: how public pictures are made: pool, means of blocks, or blur, which hides less.
        block: side of a block in pixels, for pool.
        bits: of each mean, for pool.
        weight: lambda, of the public gradient.
        fade: whether lambda stays, or falls to 0 along a cosine, so that the private part has the
            last word; no recording decides it.
        public_batch: units in a public batch.
        form: independent batches, or the shared batch of the paper's figure.
    """

    HEADLINE: ClassVar[Relation] = Relation.REPLACE_ONE
    HAS_PUBLIC: ClassVar[bool] = True
    MARKS: ClassVar[tuple[str, ...]] = ("psi_sha256",)

    psi: Literal["pool", "blur"] = "pool"
    block: int = 16
    bits: int = 4
    weight: float = 1.0
    fade: Literal["none", "cosine"] = "none"
    public_batch: int = 32
    form: Literal["independent", "as_published"] = "independent"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.positive(weight=self.weight)
        _check.count(public_batch=self.public_batch)
        self.made_public()  # says so if it hides nothing

    def made_public(self) -> Psi:
        """The rule that makes public pictures."""
        return Psi(kind=self.psi, block=self.block, bits=self.bits)

    @property
    def shares_batch(self) -> bool:
        """Only as published."""
        return self.form == "as_published"

    def public_weight(self, number: int, steps: int) -> float:
        """lambda at a step."""
        if self.fade == "none" or not self.HAS_PRIVATE:
            return self.weight
        return self.weight * 0.5 * (1 + math.cos(math.pi * number / steps))

    @property
    def public_side(self) -> str:
        """Psi."""
        return "features"

    def plan_run(self, units: int) -> TrainingPlan:
        """As every method; as published, with the noise behind which the paper prints epsilon."""
        secret = super().plan_run(units)
        if not self.shares_batch or secret.noise_multiplier == 0:
            return secret
        return as_claimed(secret, self.epsilon)

    def _public(self, plan: TrainingPlan) -> tuple[str, ...]:
        return (
            *super()._public(plan),
            f"psi: {self.made_public().said}. Look at them: everything in them is treated as "
            "public",
            "labels, joints, visibility and boxes: they are part of psi, and joints are how "
            "somebody stands",
        )

    def _not_protected(self) -> tuple[str, ...]:
        return (
            *super()._not_protected(),
            "whatever psi of a recording still shows",
            "labels, and joints where there are some",
        )

    def _caveats(self, plan: TrainingPlan) -> tuple[str, ...]:
        warning = self.made_public().warning
        return (*super()._caveats(plan), *((warning,) if warning else ()))

    def _claimed(self) -> str | None:
        if not self.shares_batch:
            return None
        return (
            f"CLAIMED, NOT VALID: epsilon {self.epsilon:g} as if the shared batch were secret "
            "[sivangi2025, Fig. 1]"
        )
