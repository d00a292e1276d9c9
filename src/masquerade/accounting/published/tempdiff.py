"""TEMPDIFF: teacher ensembles for wearable activity recognition [roy2023]."""

from __future__ import annotations

import math
from dataclasses import dataclass

from masquerade import _check
from masquerade._formatting import shown, shown_below, up_decimals, up_significant
from masquerade.accounting import votes
from masquerade.accounting.verdict import PublishedClaim, Verdict


@dataclass(frozen=True, kw_only=True)
class TempdiffClaim(PublishedClaim):
    """TEMPDIFF on WISDM.

    Args:
        printed: epsilon as printed.
        delta: claimed with it.
        gamma: inverse scale of the Laplace noise, an operating point of the paper.
        queries: labels released.
        teachers: in the ensemble.
        shards_per_subject: teachers that one person's data reaches; contiguous time splits spread
            a subject over at least teachers/subjects of them.
        moments: orders that the paper's accountant tried.
    """

    printed: float = 1.4
    delta: float = 1e-5
    gamma: float = 0.3
    queries: int = 1000
    teachers: int = 50
    shards_per_subject: int = 2
    moments: int = 8

    def __post_init__(self) -> None:
        _check.positive(printed=self.printed, gamma=self.gamma)
        _check.delta(delta=self.delta)
        _check.count(queries=self.queries, teachers=self.teachers, moments=self.moments)
        _check.count(shards_per_subject=self.shards_per_subject)

    def verdict(self) -> Verdict:
        """Judge the claim: a data-dependent figure at the floor of its accountant."""
        bounds = votes.lnmax_bounds(self.gamma, queries=self.queries, delta=self.delta)
        subject = votes.lnmax_bounds(
            self.gamma,
            queries=self.queries,
            delta=self.delta,
            shards_per_subject=self.shards_per_subject,
        )
        shard = up_significant(min(bounds.values()), 5)
        at_least, subject_at_least = (
            votes.lnmax_at_least(
                self.gamma,
                queries=self.queries,
                teachers=self.teachers,
                delta=self.delta,
                shards_per_subject=shards,
            )
            for shards in (1, self.shards_per_subject)
        )
        floor = math.log(1 / self.delta) / self.moments
        fixed = votes.moments_at(2 * self.gamma, self.queries, delta=self.delta, most=self.moments)
        return Verdict(
            paper="tempdiff",
            title="Temporal differential privacy for human activity recognition",
            claimed=self.printed,
            claimed_delta=self.delta,
            claimed_unit="shard",
            valid=_judge(self.printed, at_most=shard, at_least=at_least),
            why=(
                "The number depends on how the teachers voted, so it is private itself and no "
                f"guarantee; an accountant with {self.moments} moments cannot print less than "
                f"{floor:.4f}, however little is spent."
            ),
            true_epsilon={"shard": shard, "subject": up_significant(min(subject.values()), 5)},
            bound="between two bounds",
            ships=(
                "votes under Gaussian noise (`--aggregator gnmax`), shards of whole people "
                "(`--by subject`), and a data-independent epsilon with all of a subject's teachers "
                "moving together; the published form (`--by time --aggregator lnmax --gamma`) with "
                "that epsilon, and never the printed one."
            ),
            arithmetic=(
                f"gamma = {self.gamma:g}, {self.queries} queries, delta = {self.delta:g}; one "
                "changed vote costs 2 gamma a query",
                *(f"{name}, an upper bound: {shown(value, 5)}" for name, value in bounds.items()),
                f"the paper's own data-independent formula with orders up to {self.moments}: "
                f"{shown(fixed, 5)}",
                f"at least {shown_below(at_least, 5)} is lost at the worst margin of "
                f"{self.teachers} teachers (exact composition of the argmax)",
                f"ln(1/delta)/{self.moments} = {floor:.4f}: what that accountant prints when the "
                "votes cost nothing",
                f"a subject spread over {self.shards_per_subject} teachers: epsilon at least "
                f"{shown_below(subject_at_least, 5)} and at most {shown(min(subject.values()), 5)}",
            ),
            figures={
                "shard_at_least": -up_decimals(-at_least),
                "subject_at_least": -up_decimals(-subject_at_least),
                "accountant_floor": round(floor, 4),
            },
        )


def _judge(printed: float, *, at_most: float, at_least: float) -> bool | None:
    """Valid if the upper bound proves it, not if the lower bound refutes it, else unknown."""
    if at_most <= printed:
        return True
    return False if at_least > printed else None
