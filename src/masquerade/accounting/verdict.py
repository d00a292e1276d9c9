"""`Verdict`: what a paper prints beside what its algorithm gives.

The Renyi accountant that the papers used, kept to reproduce their numbers.

It serves no guarantee of ours. dp-accounting's replace-one mode does not double the distance of a
plain Gaussian event, so only Poisson-sampled events under add_remove are passed on.

A published training run: the noise behind its printed epsilon, and what that noise gives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from masquerade import _check, catalog
from masquerade._formatting import format_rounded_down, format_rounded_up, round_up_decimals
from masquerade._optional import lazy_module, optimize
from masquerade.accounting.compose import compute_epsilon, make_sampled_gaussian
from masquerade.guarantee import CLAIM_PREFIXES, Relation

if TYPE_CHECKING:
    from dp_accounting import privacy_accountant
    from dp_accounting.rdp import rdp_privacy_accountant
else:
    privacy_accountant = lazy_module("dp_accounting.privacy_accountant")
    rdp_privacy_accountant = lazy_module("dp_accounting.rdp.rdp_privacy_accountant")


_ORDERS = tuple(range(2, 257))  # whole orders, as the theorem has them
VERDICT_COLUMNS = (
    *("paper", "claimed", "valid", "true epsilon by unit: exact, or bounds"),
    "what we ship instead",
)


def renyi_epsilon(
    noise_multiplier: float,
    *,
    delta: float,
    sampling_prob: float,
    steps: int,
    relation: Relation | str = Relation.ADD_REMOVE,
) -> float:
    """Epsilon by Renyi moments of Poisson-sampled Gaussians [mironov2019].

    Example:
        >>> round(renyi_epsilon(4.0, delta=1e-5, sampling_prob=0.01, steps=1000), 5)
        0.30116
    """
    if _check.parse_choice(Relation, relation=relation) is Relation.REPLACE_ONE:
        raise ValueError(
            "Expected add_remove or zero_out for Renyi accounting, got relation=replace_one; the "
            "library below does not double the distance there. Use account.epsilon."
        )
    neighbours = privacy_accountant.NeighboringRelation.ADD_OR_REMOVE_ONE
    accountant = rdp_privacy_accountant.RdpAccountant(_ORDERS, neighbours)
    accountant.compose(
        make_sampled_gaussian(noise_multiplier, sampling_prob=sampling_prob, steps=steps)
    )
    return float(accountant.get_epsilon(delta))


@cache
def renyi_noise_multiplier(
    target: float, *, delta: float, sampling_prob: float, steps: int
) -> float:
    """The noise multiplier at which that accountant prints ``target``."""

    def excess_epsilon(z: float) -> float:
        return renyi_epsilon(z, delta=delta, sampling_prob=sampling_prob, steps=steps) - target

    low, high = 0.3, 1.0
    while excess_epsilon(high) > 0:
        low, high = high, high * 2
    return float(optimize.brentq(excess_epsilon, low, high, xtol=1e-7))


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A published claim, judged.

    Args:
        paper: short name, the entry's file.
        title: the paper's title.
        claimed: epsilon as printed.
        claimed_delta: delta as printed, or as assumed by us where the paper is silent.
        claimed_unit: the unit it is printed for.
        valid: True, False, or None where the paper does not say enough to tell.
        why: one sentence.
        true_epsilon: proved values by "unit" or "unit/relation"; None where none is finite. An
            upper bound where ``figures`` has a lower one, "unit_at_least", besides.
        ships: what Masquerade ships instead.
        arithmetic: the calculation, a line each.
        figures: further numbers, by name.
        bound: whether the true epsilons are exact, or what they bound.
    """

    paper: str
    title: str
    claimed: float
    claimed_delta: float
    claimed_unit: str
    valid: bool | None
    why: str
    true_epsilon: dict[str, float | None]
    ships: str
    arithmetic: tuple[str, ...]
    figures: dict[str, float] = field(default_factory=dict)
    bound: str = "exact"

    @property
    def values(self) -> str:
        """The true epsilons in words, and whether they are exact."""
        said = []
        for unit, value in self.true_epsilon.items():
            least = self.figures.get(f"{unit}_at_least")
            most = "none is finite" if value is None else format_rounded_up(value)
            said.append(
                f"{unit}: {most if least is None else f'{format_rounded_down(least, 5)} to {most}'}"
            )
        return f"{self.bound}: {'; '.join(said)}"

    @property
    def reason(self) -> str:
        """Why, as it applies: at other settings a claim may happen to hold."""
        holds = "At these settings the proved epsilon is not above the printed one."
        return holds if self.valid else self.why

    @property
    def claim(self) -> str:
        """The paper's number as it may appear in a guarantee: marked."""
        prefix = CLAIM_PREFIXES[{False: 0, None: 1, True: 2}[self.valid]]
        return (
            f"{prefix}({self.claimed:g}, {self.claimed_delta:g}) for one {self.claimed_unit} "
            f"[{self.paper}]. {self.reason}"
        )

    def list_cells(self) -> tuple[str, ...]:
        """One row of a table, as `VERDICT_COLUMNS` has it."""
        valid = {True: "yes", False: "no", None: "not determined"}[self.valid]
        claimed = f"({self.claimed:g}, {self.claimed_delta:g}) for one {self.claimed_unit}"
        return self.paper, claimed, valid, self.values, self.ships


class PublishedClaim(ABC):
    """A frozen dataclass whose fields are the paper's settings."""

    @abstractmethod
    def judge_claim(self) -> Verdict:
        """Judge the claim at these settings."""


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

    def true_epsilons(self, *, is_revealed: bool) -> tuple[float, float]:
        """What that noise gives, for zero_out and for replace_one."""
        event = make_sampled_gaussian(
            self.noise_multiplier,
            sampling_prob=self.sampling_prob,
            steps=self.steps,
            is_revealed=is_revealed,
        )
        zero, replaced = (
            round_up_decimals(compute_epsilon(event, delta=self.delta, relation=relation))
            for relation in (Relation.ZERO_OUT, Relation.REPLACE_ONE)
        )
        return zero, replaced

    def describe_run(self) -> str:
        """The run in one line."""
        return (
            f"q = {self.batch}/{self.records} = {self.sampling_prob:.7f}, T = {self.steps} steps, "
            f"delta = {self.delta:g}"
        )


def judge_papers(
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[Verdict]:
    """The verdicts on all papers at their own settings, in alphabetical order."""
    verdicts, names = list[Verdict](), catalog.list_entries("accounting.published")
    for name in names:
        verdicts.append(catalog.make_example("accounting.published", name).judge_claim())
        progress("judging the papers", len(verdicts), len(names))
    return verdicts
