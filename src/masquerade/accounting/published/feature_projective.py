"""Feature-Projective DP: private pose estimation with public features [sivangi2025]."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade.accounting.verdict import PublishedRun, Verdict


@dataclass(frozen=True, kw_only=True)
class FeatureProjectiveClaim(PublishedRun):
    """Feature-projective DP on MPII; delta, batch and epochs are our assumption.

    Args:
        epsilon: claimed relative to the public features of one person crop.
        delta: assumed.
        records: person crops in the training set.
        batch: expected batch size, assumed.
        epochs: passes over the data, assumed.
    """

    epsilon: float = 0.8
    delta: float = 1e-5
    records: int = 22246
    batch: int = 64
    epochs: int = 20

    def verdict(self) -> Verdict:
        """Judge the claim: text and figure disagree on how batches are drawn."""
        zero, replaced = self.true_epsilons(is_revealed=False)
        shared_zero, shared_replaced = self.true_epsilons(is_revealed=True)
        return Verdict(
            paper="feature_projective",
            title="Differentially private 2D human pose estimation",
            claimed=self.epsilon,
            claimed_delta=self.delta,
            claimed_unit="record (a person crop, relative to its public features)",
            valid=None,
            why=(
                "delta, batch size and epochs are not printed, the algorithm draws two batches "
                "where the figure draws one, and a blur is injective, so that without "
                "quantisation no two crops share their features and the claim protects nothing."
            ),
            true_epsilon={"record/zero_out": zero, "record/replace_one": replaced},
            ships=(
                "projected, feature_dp and feature_projective: two batches drawn apart, psi in "
                "whole numbers, public photos that are nobody's private ones, and the epsilon of "
                "both relations; one batch as_published, with the epsilon of that."
            ),
            arithmetic=(
                f"assumed: {self.setting()}; a Renyi accountant prints {self.epsilon:g} at z = "
                f"{self.noise_multiplier:.4f}",
                "neighbours share psi(x) and replace x: the distance is 2C (replace_one)",
                f"two batches (the algorithm): {zero} (zero_out), {replaced} (replace_one)",
                f"one batch (the figure): {shared_zero} (zero_out), {shared_replaced} "
                "(replace_one)",
            ),
            figures={
                "noise_multiplier": self.noise_multiplier,
                "same_batch_zero_out": shared_zero,
                "same_batch_replace_one": shared_replaced,
            },
        )
