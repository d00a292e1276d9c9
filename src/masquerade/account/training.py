"""A published training run: the noise behind its printed epsilon, and what that noise gives."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade import _check
from masquerade._round import up_decimals
from masquerade.account.calibrate import sampled_gaussian
from masquerade.account.compose import epsilon
from masquerade.account.renyi import renyi_noise_multiplier
from masquerade.account.verdict import PublishedClaim
from masquerade.guarantee import Relation


@dataclass(frozen=True, kw_only=True)
class PublishedRun(PublishedClaim):
    """DP-SGD as a paper reports it.

    Args:
        epsilon: as printed by a Renyi accountant.
        delta: with it.
        records: N, size of the training set.
        batch: B, expected batch size.
        epochs: passes over the data.
    """

    epsilon: float
    delta: float
    records: int
    batch: int
    epochs: int

    def __post_init__(self) -> None:
        _check.positive(epsilon=self.epsilon)
        _check.delta(delta=self.delta)
        _check.count(records=self.records, batch=self.batch, epochs=self.epochs)
        if self.batch > self.records:
            raise ValueError(
                f"Expected batch <= records, got batch={self.batch}, records={self.records}."
            )

    @property
    def sampling_prob(self) -> float:
        """Chance of a record to be in a batch."""
        return self.batch / self.records

    @property
    def steps(self) -> int:
        """Batches in all."""
        return self.epochs * self.records // self.batch

    @property
    def noise_multiplier(self) -> float:
        """z at which the paper's accountant prints its epsilon."""
        return renyi_noise_multiplier(
            self.epsilon, delta=self.delta, sampling_prob=self.sampling_prob, steps=self.steps
        )

    def true_epsilon(self, relation: Relation, *, is_revealed: bool) -> float:
        """What that noise gives, with secret batches or with revealed ones."""
        event = sampled_gaussian(
            self.noise_multiplier,
            sampling_prob=self.sampling_prob,
            steps=self.steps,
            is_revealed=is_revealed,
        )
        return up_decimals(epsilon(event, delta=self.delta, relation=relation))

    def setting(self) -> str:
        """The run in one line."""
        return (
            f"q = {self.batch}/{self.records} = {self.sampling_prob:.7f}, T = {self.steps} steps, "
            f"delta = {self.delta:g}"
        )
