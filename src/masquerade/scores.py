"""What attacks, audits and measurements return. None of it is a guarantee."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade._formatting import format_rounded_down


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """An attacker's scores in the two worlds of a distinguishing game; high means "the unit is in".

    Args:
        without: (N,) scores where the neighbour was used.
        within: (M,) scores where the value was used.
        attack: the attack's name.
    """

    without: np.ndarray
    within: np.ndarray
    attack: str

    def __post_init__(self) -> None:
        for name, scores in (("without", self.without), ("within", self.within)):
            _check.shape("N", **{name: scores})
            if scores.size == 0 or np.any(np.isnan(scores)):
                raise ValueError(f"Expected {name} to hold numbers, got {scores.size} with NaN.")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A statistical lower bound on epsilon. It can refute a claim; it can never prove one.

    Args:
        epsilon_at_least: the bound.
        delta: at which delta.
        confidence: probability with which the bound holds.
        trials: plays in each world.
        attack: who played.
        assumes: what the bound takes for granted beyond independent trials.
        most: the bound that as many trials would give, had each been decided rightly.
    """

    epsilon_at_least: float
    delta: float
    confidence: float
    trials: int
    attack: str
    assumes: str
    most: float | None = None

    def __post_init__(self) -> None:
        _check.not_negative(epsilon_at_least=self.epsilon_at_least, delta=self.delta)
        _check.probability(confidence=self.confidence)
        _check.count(trials=self.trials)

    def refutes(self, claimed_epsilon: float) -> bool:
        """Whether a claim of ``claimed_epsilon`` cannot be true."""
        return self.epsilon_at_least > claimed_epsilon

    def can_refute(self, claimed_epsilon: float) -> bool:
        """Whether as many trials could refute a claim of ``claimed_epsilon`` at all."""
        return self.most is None or self.most > claimed_epsilon

    @property
    def limit_words(self) -> str:
        """What as many trials could show, in words."""
        most = (
            "an unknown most"
            if self.most is None
            else f"at most {format_rounded_down(self.most, 4)}"
        )
        return f"{self.trials} trials show {most}"

    def describe_verdict(self, claimed_epsilon: float) -> str:
        """In a sentence or two."""
        if self.refutes(claimed_epsilon):
            return "REFUTED: more leaks than is claimed."
        if not self.can_refute(claimed_epsilon):
            return f"Cannot refute this claim: {self.limit_words}."
        return "Not refuted. An audit can only refute; it never proves."


@dataclass(frozen=True, kw_only=True)
class Utility:
    """What data or a model is still good for, as one number.

    Args:
        measure: the measure's name, for example "PSNR".
        value: its value.
        in_unit: the value's unit, for example "dB"; empty for a ratio.
        is_private: whether it was computed from private input and must stay in the house.
    """

    measure: str
    value: float
    in_unit: str = ""
    is_private: bool = True

    def __post_init__(self) -> None:
        if not self.measure:
            raise ValueError("Expected measure to be named.")
        _check.finite(value=self.value)


@dataclass(frozen=True, kw_only=True)
class MeasuredRate:
    """How well an attacker did, as one number with its interval. It is private.

    Args:
        measure: the measure's name, such as "rank-1" or "cMAP"; larger is better for the attacker.
        value: what was measured.
        low: the lower end of the 95 % interval.
        high: its upper end.
        count: people, places or whatever else was drawn again and again to find the interval.
        of: what was counted, such as "people".
        chance: what guessing gets, where that is known.
    """

    measure: str
    value: float
    low: float
    high: float
    count: int
    of: str
    chance: float | None = None

    def __post_init__(self) -> None:
        _check.finite(value=self.value, low=self.low, high=self.high)
        _check.count(count=self.count)
        if not self.low <= self.value <= self.high:
            raise ValueError(
                f"Expected an interval around {self.value}, got {self.low} to {self.high}."
            )


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """What one attacker learned from what was published, between what bounds it. It is private.

    Args:
        attack: the attack's name.
        attacker: what this attacker knows, in words.
        published: against what was published; the first figure is the headline.
        ceiling: the same against the raw recordings, where the attack must succeed.
        floor: the same against random data, where it must fail.
        notes: what a reader has to know besides.
    """

    attack: str
    attacker: str
    published: tuple[MeasuredRate, ...]
    ceiling: tuple[MeasuredRate, ...]
    floor: tuple[MeasuredRate, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [[each.measure for each in some] for some in (self.ceiling, self.floor)]
        if not self.published or any(own != [f.measure for f in self.published] for own in names):
            raise ValueError("Expected the same measures of what was published, raw and random.")

    @property
    def is_telling(self) -> bool:
        """Whether the attack works on raw recordings, so that its failure would mean something."""
        return self.ceiling[0].low > self.floor[0].high

    @property
    def verdict(self) -> str:
        """In one sentence, from the headline's intervals alone."""
        found, top, bottom = self.published[0], self.ceiling[0], self.floor[0]
        if not self.is_telling:
            return (
                f"Too weak to say anything: {found.measure} on raw recordings is "
                f"{_format_success(top)}, on "
                f"random ones {_format_success(bottom)}."
            )
        if found.low <= bottom.high:
            return (
                f"Not told apart from random data: {_format_success(found)} beside "
                f"{_format_success(bottom)}."
            )
        if found.high < top.low:
            return f"Weakened, not stopped: {_format_success(found)}; raw {_format_success(top)}."
        return f"Not stopped: {_format_success(found)}; raw {_format_success(top)}."


def _format_success(figure: MeasuredRate) -> str:
    return f"{figure.value:.3g} ({figure.low:.3g} to {figure.high:.3g})"
