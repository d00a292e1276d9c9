"""MaskDP: noise on the gradient of the private tokens only [schneider2024]."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade.accounting.verdict import PublishedRun, Verdict


@dataclass(frozen=True, kw_only=True)
class MaskDpClaim(PublishedRun):
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

    def verdict(self) -> Verdict:
        """Judge the claim: the public gradient shows who is in the batch."""
        zero, replaced = self.true_epsilons(is_revealed=True)
        apart_zero, apart_replaced = self.true_epsilons(is_revealed=False)
        return Verdict(
            paper="mask_dp",
            title="Activity recognition on avatar-anonymized datasets with masked DP",
            claimed=self.epsilon,
            claimed_delta=self.delta,
            claimed_unit="record (its private tokens)",
            valid=replaced <= self.epsilon,
            why=(
                "One batch serves both gradients, so the un-noised public gradient shows who is "
                "in it and nothing is amplified; replacing tokens also moves a clipped gradient "
                "by 2C, not C."
            ),
            true_epsilon={"record/zero_out": zero, "record/replace_one": replaced},
            ships=(
                "independent batches for the public and the private gradient, accounted for "
                "zero_out and replace_one; Algorithm 2 as printed, with its shared batch, only "
                "with the revealed epsilon."
            ),
            arithmetic=(
                self.setting(),
                f"Theorem 1 (Renyi, amplified by sampling, sensitivity C) prints {self.epsilon:g} "
                f"at z = {self.noise_multiplier:.5f}",
                "with the batch revealed: delta(eps) = sum_K Bin(K; T, q) "
                "delta_gauss(eps, sqrt(K) D/z), D = 1 (zero_out) or 2 (replace_one)",
                f"shared batch: {zero} (zero_out), {replaced} (replace_one)",
                f"same z, independent batches: {apart_zero} (zero_out), {apart_replaced} "
                "(replace_one)",
            ),
            figures={
                "noise_multiplier": self.noise_multiplier,
                "independent_zero_out": apart_zero,
                "independent_replace_one": apart_replaced,
            },
        )
