"""`Verdict`: what a paper prints beside what its algorithm gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from masquerade._round import shown, shown_below
from masquerade.guarantee import CLAIM_PREFIXES


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
            most = "none is finite" if value is None else shown(value)
            said.append(
                f"{unit}: {most if least is None else f'{shown_below(least, 5)} to {most}'}"
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


class PublishedClaim(ABC):
    """A frozen dataclass whose fields are the paper's settings."""

    @abstractmethod
    def verdict(self) -> Verdict:
        """Judge the claim at these settings."""
