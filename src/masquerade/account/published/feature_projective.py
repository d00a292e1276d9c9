"""Feature-Projective DP: private pose estimation with public features [sivangi2025]."""

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
class FeatureProjective(PublishedClaim):
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

    def __post_init__(self) -> None:
        _check.positive(epsilon=self.epsilon)
        _check.delta(delta=self.delta)
        _check.count(records=self.records, batch=self.batch, epochs=self.epochs)
        if self.batch > self.records:
            raise ValueError(f"Expected batch <= records, got {self.batch} > {self.records}.")

    def verdict(self) -> Verdict:
        """Judge the claim: text and figure disagree on how batches are drawn."""
        q, steps = self.batch / self.records, self.epochs * self.records // self.batch
        z = renyi_noise_multiplier(self.epsilon, delta=self.delta, sampling_prob=q, steps=steps)
        found = {
            (is_revealed, relation): up_decimals(
                epsilon(
                    sampled_gaussian(z, sampling_prob=q, steps=steps, is_revealed=is_revealed),
                    delta=self.delta,
                    relation=relation,
                )
            )
            for is_revealed in (False, True)
            for relation in (Relation.ZERO_OUT, Relation.REPLACE_ONE)
        }
        zero, replaced = found[False, Relation.ZERO_OUT], found[False, Relation.REPLACE_ONE]
        shared_zero = found[True, Relation.ZERO_OUT]
        shared_replaced = found[True, Relation.REPLACE_ONE]
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
                "pooled and quantised public features, independent batches, replace_one "
                "accounting, and a public set that does not overlap the private one."
            ),
            arithmetic=(
                f"assumed: q = {self.batch}/{self.records} = {q:.7f}, T = {steps}, delta = "
                f"{self.delta:g}; a Renyi accountant prints {self.epsilon:g} at z = {z:.4f}",
                "neighbours share psi(x) and replace x: the distance is 2C (replace_one)",
                f"two batches (the algorithm): {zero} (zero_out), {replaced} (replace_one)",
                f"one batch (the figure): {shared_zero} (zero_out), {shared_replaced} "
                "(replace_one)",
            ),
            figures={
                "noise_multiplier": z,
                "same_batch_zero_out": shared_zero,
                "same_batch_replace_one": shared_replaced,
            },
        )


EXAMPLE = FeatureProjective()
