"""MaskDP: noise only for what is private in a video; the rest teaches without any."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from masquerade.account.renyi import renyi_noise_multiplier
from masquerade.train.masked import Masked
from masquerade.train.plan import Plan


@dataclass(frozen=True, kw_only=True)
class MaskDp(Masked):
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
    """

    form: Literal["independent", "as_published"] = "independent"

    @property
    def shares_batch(self) -> bool:
        """One batch for both parts, as published."""
        return self.form == "as_published"

    def plan(self, units: int) -> Plan:
        """As every method; as published, with the noise behind which the paper prints epsilon."""
        secret = super().plan(units)
        if self.form == "independent" or secret.noise_multiplier == 0:
            return secret
        try:
            z = renyi_noise_multiplier(
                self.epsilon,
                delta=self.delta,
                sampling_prob=secret.sampler.sampling_prob,
                steps=secret.steps,
            )
        except ValueError as error:
            raise ValueError(
                f"Expected an epsilon that the paper's accountant can give, got {self.epsilon:g}; "
                "take a smaller one."
            ) from error
        return replace(secret, noise_multiplier=z)

    def _claimed(self) -> str | None:
        if self.form == "independent":
            return None
        return (
            f"CLAIMED, NOT VALID: epsilon {self.epsilon:g} as if the shared batch were secret "
            "[schneider2024, Thm 1]"
        )


EXAMPLE = MaskDp(epsilon=8.0, unit="video")
