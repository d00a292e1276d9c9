"""The vocabulary of every claim: what is protected, how, and what is not.

A `Guarantee` cannot be built so that it lies: its constructor enforces that an epsilon is a
proved number with an accountant behind it, that heuristics, estimates and rehearsals carry none,
that a paper's own number appears only as a marked claim, and that rounding moves upwards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING

from masquerade import _check
from masquerade._formatting import round_up_decimals
from masquerade._optional import lazy_module

if TYPE_CHECKING:
    from masquerade import tradeoff
else:
    tradeoff = lazy_module("masquerade.tradeoff")  # the names of units need no arithmetic


class UnitName(StrEnum):
    """What one change may touch."""

    VALUE = "value"
    PIXELS = "pixels"
    TUBE = "tube"
    FRAME = "frame"
    VIDEO = "video"
    RECORD = "record"
    SUBJECT = "subject"
    SHARD = "shard"


PROTECTS = {
    UnitName.VALUE: "one number of the file: one channel of one pixel, one sample of one sensor",
    UnitName.PIXELS: "up to m sites anywhere in the file, all channels of each",
    UnitName.TUBE: "up to m sites in every frame, for the whole length of the file",
    UnitName.FRAME: "one whole frame of a video, one row of a table, one moment of a signal",
    UnitName.VIDEO: "the whole file, every number of it",
    UnitName.RECORD: "one whole record of the data set",
    UnitName.SUBJECT: "everything that one person contributed",
    UnitName.SHARD: "the data behind one teacher",
}

# What people call a unit, and what they may mean.
_UNIT_SYNONYMS = {
    "person": (UnitName.SUBJECT, UnitName.TUBE),
    "people": (UnitName.SUBJECT, UnitName.TUBE),
    "face": (UnitName.TUBE, UnitName.PIXELS),
    "user": (UnitName.SUBJECT,),
    "patient": (UnitName.SUBJECT,),
    "file": (UnitName.VIDEO,),
    "film": (UnitName.VIDEO,),
    "image": (UnitName.FRAME, UnitName.VIDEO),
    "photo": (UnitName.RECORD, UnitName.FRAME),
    "pixel": (UnitName.PIXELS,),
}

WHOLE_FILE = (UnitName.VIDEO, UnitName.RECORD, UnitName.SUBJECT)  # a voice is part of these


class Relation(StrEnum):
    """How two neighbouring inputs differ in one unit."""

    ZERO_OUT = "zero_out"
    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"


class GuaranteeKind(StrEnum):
    """How strong a claim is."""

    FORMAL = "formal"
    FORMAL_RELAXED = "formal_relaxed"
    ESTIMATE = "estimate"
    HEURISTIC = "heuristic"
    NONE = "none"


class Accountant(StrEnum):
    """The proof behind an epsilon; NONE exactly when there is no epsilon."""

    NONE = "none"
    ANALYTIC_GAUSSIAN = "analytic-gaussian"
    GAUSSIAN_RANDOM_PROJECTION = "gaussian-random-projection"
    PLD = "PLD"
    PLD_POISSON = "PLD-poisson"
    PLD_LAPLACE = "PLD-laplace"
    REVEALED_EXACT = "revealed-exact"
    PURE = "pure"
    OPTIMAL_COMPOSITION = "KOV"
    MOMENTS = "moments"


@dataclass(frozen=True, kw_only=True)
class Unit:
    """What one change may touch, with its parameters.

    Args:
        name: which unit.
        sites: m, for pixels and tube.
        low: lower end of the public range that values are clamped to.
        high: upper end of that range.
        shards_per_subject: the most teachers that one person's data reaches.

    Example:
        >>> str(Unit(name=UnitName.PIXELS, sites=16))
        'pixels(16)'
    """

    name: UnitName
    sites: int | None = None
    low: float | None = None
    high: float | None = None
    shards_per_subject: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", _check.parse_choice(UnitName, unit=self.name))
        wants_sites = self.name in (UnitName.PIXELS, UnitName.TUBE)
        if wants_sites and self.sites is None:
            raise ValueError(
                f"Expected sites for the unit {self.name.value}, got none; say how many."
            )
        if not wants_sites and self.sites is not None:
            raise ValueError(f"Expected no sites for the unit {self.name.value}, got {self.sites}.")
        if self.sites is not None:
            _check.count(sites=self.sites)
        if self.shards_per_subject is not None:
            _check.count(shards_per_subject=self.shards_per_subject)
        if (self.low is None) != (self.high is None):
            raise ValueError("Expected both ends of the value range or neither; give low and high.")
        if self.low is not None and self.high is not None:
            _check.finite(low=self.low, high=self.high)
            if not self.low < self.high:
                raise ValueError(f"Expected low < high, got low={self.low}, high={self.high}.")

    @property
    def is_of_a_file(self) -> bool:
        """Whether it lies within one released file: only there numbers are clamped to a range."""
        return self.low is not None

    def __str__(self) -> str:
        return self.name.value if self.sites is None else f"{self.name.value}({self.sites})"


def make_unit(
    unit: str | None,
    sites: int | None,
    *,
    low: float,
    high: float,
    among: Iterable[UnitName] = tuple(UnitName),
) -> Unit:
    """The unit that a mechanism's fields name; without one, the units are listed.

    Raises:
        ValueError: if none is named, if it cannot be used here, or if sites do not fit it.
    """
    name = parse_unit_name(unit, among)
    if (name in (UnitName.PIXELS, UnitName.TUBE)) != (sites is not None):
        raise ValueError(
            f"--unit {name.value} needs --pixels N, for example --pixels 256."
            if sites is None
            else f"Expected --pixels with the units pixels and tube alone, got unit={name.value} "
            f"and pixels={sites}; leave --pixels out."
        )
    return Unit(name=name, sites=sites, low=low, high=high)


def parse_unit_name(
    unit: str | None, among: Iterable[UnitName] = tuple(UnitName), *, what: str = "an epsilon"
) -> UnitName:
    """The unit of this name; what is no name of one gets the units explained.

    Args:
        unit: as somebody wrote it.
        among: those that can be chosen here.
        what: says nothing without a unit.

    Raises:
        ValueError: if none is named, or none that can be chosen here.

    Example:
        >>> parse_unit_name("frame")
        <UnitName.FRAME: 'frame'>
    """
    allowed = tuple(among)
    if unit in allowed:
        return UnitName(unit)
    if unit is None:
        said = f"Expected a unit: {what} says nothing without it. Choose what is protected:"
    elif unit in tuple(UnitName):
        said = f"Expected another unit than {unit} here ({PROTECTS[UnitName(unit)]}); choose from"
    else:
        close = get_close_matches(unit, allowed, n=1)
        meant = [name for name in _UNIT_SYNONYMS.get(unit, close) if name in allowed]
        hint = f" (did you mean {' or '.join(meant)}?)" if meant else ""
        said = f"Unknown unit {unit!r}{hint}; choose what is protected:"
    raise ValueError(f"{said}\n{units_help(allowed)}")


FALSE_ALARM = 0.01  # how often an attacker whose power is stated may be wrong

CLAIM_PREFIXES = ("CLAIMED, NOT VALID: ", "CLAIMED, NOT DETERMINED: ", "CLAIMED, VALID: ")

EVERYTHING_RELEASED = "all that is released, the code, and every other record"


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """A claim about privacy, with all that it rests on.

    Args:
        kind: formal, formal_relaxed (relative to public features or masks), estimate, heuristic
            or none.
        unit: what one change may touch.
        relation: how neighbours differ in that unit.
        released: what leaves the house.
        adversary: what the attacker is assumed to see.
        assumed_public: what the proof takes as known to everyone.
        not_protected: what a reader might think is covered and is not.
        epsilon: a proved number, or None. Rounded up to four decimals here.
        delta: as used in the proof; kept exactly.
        accountant: the proof behind epsilon.
        numerics: the sampler, and what it assumes.
        composition: what was composed, and what was not.
        published_claim: a paper's own number, marked valid, not valid or not determined.
        estimate: a data-dependent figure; it is not a guarantee and needs kind estimate.
        caveats: anything else that a reader must know.
        power: how often at most an attacker with 1 % false alarms notices the change, by the
            accountant's own trade-off curve; None leaves it to epsilon and delta. Rounded up.
    """

    kind: GuaranteeKind
    unit: Unit
    relation: Relation
    released: str
    numerics: str
    composition: str
    epsilon: float | None = None
    delta: float | None = None
    accountant: Accountant = Accountant.NONE
    adversary: str = EVERYTHING_RELEASED
    assumed_public: tuple[str, ...] = ()
    not_protected: tuple[str, ...] = ()
    published_claim: str | None = None
    estimate: float | None = None
    caveats: tuple[str, ...] = ()
    power: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", _check.parse_choice(GuaranteeKind, kind=self.kind))
        object.__setattr__(self, "relation", _check.parse_choice(Relation, relation=self.relation))
        object.__setattr__(
            self, "accountant", _check.parse_choice(Accountant, accountant=self.accountant)
        )
        self._check_proof()
        self._check_words()
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", round_up_decimals(self.epsilon))
        if self.power is not None:
            object.__setattr__(self, "power", self._round_power(self.power))

    @property
    def detection_rate(self) -> float:
        """How often at most an attacker with 1 % false alarms notices the change."""
        if self.epsilon is None or self.delta is None:
            return 1.0
        is_gaussian = self.accountant is Accountant.ANALYTIC_GAUSSIAN
        most = tradeoff.compute_max_power(
            FALSE_ALARM, epsilon=self.epsilon, delta=self.delta, is_gaussian=is_gaussian
        )
        return most if self.power is None else min(self.power, most)

    def _round_power(self, stated: float) -> float:
        if self.epsilon is None or self.delta is None:
            raise ValueError(f"Expected no power without an epsilon, got power={stated}.")
        most = tradeoff.compute_max_power(
            FALSE_ALARM, epsilon=self.epsilon, delta=self.delta, is_gaussian=False
        )
        most, rounded = round_up_decimals(most), round_up_decimals(stated)
        if not FALSE_ALARM <= rounded <= most:  # a power that is not a number fails here, too
            raise ValueError(
                f"Expected a power from {FALSE_ALARM}, which is guessing, to {most:g}, all that "
                f"epsilon {self.epsilon:g} and delta {self.delta:g} allow; got power={stated}."
            )
        return rounded

    def _check_proof(self) -> None:
        if (self.epsilon is None) != (self.accountant is Accountant.NONE):
            raise ValueError(
                "Expected an epsilon exactly when an accountant proves it, got "
                f"epsilon={self.epsilon} and accountant={self.accountant.value}."
            )
        if (
            self.kind in (GuaranteeKind.ESTIMATE, GuaranteeKind.HEURISTIC, GuaranteeKind.NONE)
            and self.epsilon is not None
        ):
            raise ValueError(
                f"Expected no epsilon for kind {self.kind.value}, got epsilon={self.epsilon}; "
                "only a formal guarantee carries one."
            )
        if (self.estimate is not None) != (self.kind is GuaranteeKind.ESTIMATE):
            raise ValueError(
                "Expected an estimate exactly for kind estimate, got "
                f"kind={self.kind.value} and estimate={self.estimate}."
            )
        if self.estimate is not None:
            _check.not_negative(estimate=self.estimate)
        is_formal = self.kind in (GuaranteeKind.FORMAL, GuaranteeKind.FORMAL_RELAXED)
        if is_formal and self.epsilon is None:
            raise ValueError(f"Expected an epsilon for kind {self.kind.value}, got none.")
        if self.epsilon is not None:
            _check.not_negative(epsilon=self.epsilon)
            self._check_delta()
        elif self.delta is not None and self.kind is not GuaranteeKind.ESTIMATE:
            raise ValueError(f"Expected no delta without an epsilon, got delta={self.delta}.")

    def _check_delta(self) -> None:
        if self.accountant is Accountant.PURE and self.delta == 0:
            return
        if self.delta is None:
            raise ValueError("Expected a delta beside epsilon, got delta=None.")
        _check.delta(delta=self.delta)

    def _check_words(self) -> None:
        if not self.numerics or not self.composition or not self.released:
            raise ValueError(
                "Expected numerics, composition and released to be said in words; "
                "name the sampler, what was composed, and what leaves the house."
            )
        claim = self.published_claim
        if claim is not None and not claim.startswith(CLAIM_PREFIXES):
            raise ValueError(
                f"Expected published_claim to begin with one of {CLAIM_PREFIXES}, got {claim!r}."
            )

    def as_released(
        self, *, with_sound: bool, with_times: bool = False, is_rehearsal: bool
    ) -> Guarantee:
        """The claim for what leaves the house, as it leaves; sound may be refused."""
        claim = self.with_sound() if with_sound else self
        times = ("the time of each frame, counted from the first",) * with_times
        claim = dataclasses.replace(claim, assumed_public=(*claim.assumed_public, *times))
        return claim.as_rehearsal() if is_rehearsal else claim

    def as_rehearsal(self) -> Guarantee:
        """The claim for a seeded run: none, since whoever knows the seed knows the noise."""
        return self.without_proof("Rehearsal: the noise is seeded. Not for publication.")

    def without_proof(self, why: str) -> Guarantee:
        """The same claim with nothing proved, and the reason."""
        return dataclasses.replace(
            self,
            kind=GuaranteeKind.NONE,
            epsilon=None,
            delta=None,
            estimate=None,
            power=None,
            accountant=Accountant.NONE,
            caveats=(*self.caveats, why),
        )

    def with_sound(self) -> Guarantee:
        """The claim where a video's sound is copied along as it is.

        Raises:
            ValueError: if the unit is the whole file, of which the sound is a part.
        """
        if self.unit.name in WHOLE_FILE and self.epsilon is not None:
            raise ValueError(
                f"Expected the sound to be dropped for the unit {self.unit.name.value}: it is part "
                "of what is protected."
            )
        return dataclasses.replace(
            self,
            released=f"{self.released}; and the sound of the video, as it was",
            not_protected=(*self.not_protected, "the sound: voices, words and noises are audible"),
        )


def require_alike(guarantees: Iterable[Guarantee]) -> tuple[Unit, Relation]:
    """The one unit and relation of all guarantees; different ones cannot be added up."""
    # the clamped range is not part of the unit's meaning: raw values may change by any amount
    pairs = {(str(g.unit), g.relation): (g.unit, g.relation) for g in guarantees}
    if len(pairs) != 1:
        listed = ", ".join(sorted(f"{unit}/{relation.value}" for unit, relation in pairs)) or "none"
        raise ValueError(
            f"Expected one unit and one relation to compose, got {listed}; "
            "epsilons of different units mean different things."
        )
    return next(iter(pairs.values()))


def units_help(names: Iterable[UnitName] = tuple(UnitName)) -> str:
    """The units and what each protects, a line each."""
    return "\n".join(f"  {name.value:8} {PROTECTS[name]}" for name in names)
