"""MaskDP: noise on the gradient of the private tokens only [schneider2024]."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade import _check
from masquerade._round import up_decimals
from masquerade.account.calibrate import sampled_gaussian
from masquerade.account.compose import epsilon
from masquerade.account.renyi import renyi_noise_multiplier
from masquerade.account.verdict import PublishedClaim, Verdict
from masquerade.guarantee import Relation


@dataclass(frozen=True, kw_only=True)
class MaskDp(PublishedClaim):
    """MaskDP on UCF101: one shared Poisson batch for public and private gradients.

    Args:
        epsilon: claimed for the private tokens of one video.
        delta: claimed with it.
        records: N, videos in the training set.
        batch: B, expected batch size.
        epochs: passes over the data.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    records: int = 9537
    batch: int = 128
    epochs: int = 300

    def __post_init__(self) -> None:
        _check.positive(epsilon=self.epsilon)
        _check.delta(delta=self.delta)
        _check.count(records=self.records, batch=self.batch, epochs=self.epochs)
        if self.batch > self.records:
            raise ValueError(f"Expected batch <= records, got {self.batch} > {self.records}.")

    def verdict(self) -> Verdict:
        """Judge the claim: the public gradient shows who is in the batch."""
        q, steps = self.batch / self.records, self.epochs * self.records // self.batch
        z = renyi_noise_multiplier(self.epsilon, delta=self.delta, sampling_prob=q, steps=steps)
        shared, apart = (
            {
                relation: up_decimals(
                    epsilon(
                        sampled_gaussian(z, sampling_prob=q, steps=steps, is_revealed=is_revealed),
                        delta=self.delta,
                        relation=relation,
                    )
                )
                for relation in (Relation.ZERO_OUT, Relation.REPLACE_ONE)
            }
            for is_revealed in (True, False)
        )
        return Verdict(
            paper="mask_dp",
            title="Activity recognition on avatar-anonymized datasets with masked DP",
            claimed=self.epsilon,
            claimed_delta=self.delta,
            claimed_unit="record (its private tokens)",
            valid=False,
            why=(
                "One batch serves both gradients, so the un-noised public gradient shows who is "
                "in it and nothing is amplified; replacing tokens also moves a clipped gradient "
                "by 2C, not C."
            ),
            true_epsilon={f"record/{name.value}": value for name, value in shared.items()},
            ships=(
                "independent batches for the public and the private gradient, accounted for "
                "zero_out and replace_one; the shared batch only with its revealed epsilon."
            ),
            arithmetic=(
                f"q = {self.batch}/{self.records} = {q:.7f}, T = {steps} steps, delta = "
                f"{self.delta:g}",
                f"Theorem 1 (Renyi, amplified by sampling, sensitivity C) prints {self.epsilon:g} "
                f"at z = {z:.5f}",
                "with the batch revealed: delta(eps) = sum_K Bin(K; T, q) "
                "delta_gauss(eps, sqrt(K) D/z), D = 1 (zero_out) or 2 (replace_one)",
                f"shared batch: {shared[Relation.ZERO_OUT]} (zero_out), "
                f"{shared[Relation.REPLACE_ONE]} (replace_one)",
                f"same z, independent batches: {apart[Relation.ZERO_OUT]} (zero_out), "
                f"{apart[Relation.REPLACE_ONE]} (replace_one)",
            ),
            figures={
                "noise_multiplier": z,
                "independent_zero_out": apart[Relation.ZERO_OUT],
                "independent_replace_one": apart[Relation.REPLACE_ONE],
            },
        )


EXAMPLE = MaskDp()
