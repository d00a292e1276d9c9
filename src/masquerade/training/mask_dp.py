"""MaskDP: noise only for what is private in a video; the rest teaches without any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from masquerade.training.masked import Masked
from masquerade.training.plan import TrainingPlan, as_claimed

_VIEW = "whole"


@dataclass(frozen=True, kw_only=True)
class MaskDp(Masked):
    """Learn from public pixels without noise, and with it from what is private [schneider2024].

    By default the public part draws batches of its own. ``as_published`` is [schneider2024, Alg. 2]
    as it is printed: one batch for both parts, private gradients of private tokens alone, both sums
    divided by the size of the batch, plain gradient descent. The batch shows who is in it: nothing
    is amplified, and the epsilon is the one of that.

    What the private gradient sees changes no promise. Neighbours share masks, labels and public
    pixels, and differ in the private pixels of one unit. Whether its gradient is of whole
    recordings or of their private pixels on grey, it is a function of that unit alone, clipped to
    C: absent it moves the sum by at most C, replaced by at most 2 C, and no other term moves.

    Guarantee:
        unit: the private pixels of one recording, or of one person's recordings.
        relation: replace_one; zero_out (the private gradient is absent) is printed beside it.
        bound: norm C after clipping; Poisson-sampled Gaussians by PLD, or revealed batches exactly.
        numerics: clipped below C, summed on a grid, exact Gaussian, ChaCha20.

    Args:
        form: independent batches, or the shared batch as published.
        view: what the private gradient sees: whole recordings, or their private pixels alone.
    """

    LATER: ClassVar[tuple[str, ...]] = (*Masked.LATER, "view")

    form: Literal["independent", "as_published"] = "independent"
    view: Literal["whole", "private"] = "whole"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shares_batch and self.view != _VIEW:
            raise ValueError(
                f"Expected no view with form=as_published, got view={self.view}: Algorithm 2 sees "
                "private tokens; take form=independent."
            )

    @property
    def shares_batch(self) -> bool:
        """One batch for both parts, as published."""
        return self.form == "as_published"

    @property
    def private_side(self) -> Literal["whole", "private", "tokens"]:
        """As published, private tokens alone."""
        return "tokens" if self.shares_batch else self.view

    @property
    def carried(self) -> float:
        """As published, nothing, unless a momentum is given."""
        return 0.0 if self.shares_batch and self.momentum is None else super().carried

    def plan_run(self, units: int) -> TrainingPlan:
        """As every method; as published, with the noise behind which the paper prints epsilon."""
        secret = super().plan_run(units)
        if self.form == "independent" or secret.noise_multiplier == 0:
            return secret
        return as_claimed(secret, self.epsilon)

    def _claimed(self) -> str | None:
        if self.form == "independent":
            return None
        return (
            f"CLAIMED, NOT VALID: epsilon {self.epsilon:g} as if the shared batch were secret "
            "[schneider2024, Thm 1]"
        )
