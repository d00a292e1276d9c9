"""What a guarantee means, in the sentences that a person reads.

Nothing here is stored: receipts keep the `Guarantee`, and these words are made from it. The first
sentence says what is protected and whether that is a whole person; how alike two releases are said
to look follows from how often an attacker tells them apart, not from epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from masquerade._formatting import format_rounded_up
from masquerade.guarantee import (
    PROTECTS,
    WHOLE_FILE,
    Guarantee,
    GuaranteeKind,
    Relation,
    Unit,
    UnitName,
)

PERSON_AREA_SHARE = 0.18  # area of a standing person over the square of their height
_SMALL_PX = 64  # pixels: someone who is seen from afar
_VACUOUS_EPSILON = 100.0  # an attacker may be e^100 times as sure as before
_ALIKE_WORDS = ((0.05, "would look almost the same"), (0.5, "would look similar, not the same,"))
NOISY_NUMBERS = "every number of the input, with noise"
BLURRED_KEY, FOUND_KEY, REPLACED_KEY = "frames_blurred", "people_found", "people_replaced"
NOT_REPLACED_KEY = "frames_with_people_not_replaced"
_CHANGE_WORDS = {
    Relation.ZERO_OUT: "had been left out",
    Relation.REPLACE_ONE: "had been anything else",
    Relation.ADD_REMOVE: "had not been there",
}


def count_people(counted: Mapping[str, int], num_frames: int) -> list[str]:
    """What a receipt's counts say of people who were to be hidden, the plainest sentence first.

    Example:
        >>> count_people({"people_found": 2, "people_replaced": 2, "frames_blurred": 0}, 60)
        ['Found at most 2 people in one of 60 frames; at most 2 avatars stand in one.']
    """
    found, replaced = counted.get(FOUND_KEY), counted.get(REPLACED_KEY)
    said = []
    if found == 0:
        said.append(f"NOBODY was found in {num_frames} frames: whoever is there stays as they are.")
    elif found is not None:
        people = "person" if found == 1 else "people"
        avatars = "avatar stands" if replaced == 1 else "avatars stand"
        said.append(
            f"Found at most {found} {people} in one of {num_frames} frames; at most {replaced} "
            f"{avatars} in one."
        )
    if fewer := counted.get(NOT_REPLACED_KEY):
        said.append(
            f"In {fewer} of {num_frames} frames fewer avatars stand than people were found: the "
            "others were taken out or blurred, and nobody repeats what they did."
        )
    if blurred := counted.get(BLURRED_KEY):
        said.append(f"In {blurred} of {num_frames} frames somebody was blurred, not replaced.")
    return said


def explain(guarantee: Guarantee, *, is_technical: bool = False) -> list[str]:
    """The sentences a person reads, in order; the first says what is protected and what is not.

    Args:
        guarantee: what is promised.
        is_technical: whether the sampler and the proof are named as well.
    """
    said = [_explain_claim(guarantee)]
    if guarantee.epsilon is not None:
        said.append(_describe_attacker(guarantee.detection_rate))
    said.append(f"Released: {guarantee.released}. The attacker sees {guarantee.adversary}.")
    if guarantee.assumed_public:
        said.append(f"Taken as public: {'; '.join(guarantee.assumed_public)}.")
    if guarantee.not_protected:
        said.append(f"Not protected: {'; '.join(guarantee.not_protected)}.")
    said.append(f"Composition: {guarantee.composition}.")
    said += _explain_noise(guarantee)
    if is_technical:
        said.append(f"Proof: {guarantee.accountant}, {guarantee.relation}. {guarantee.numerics}.")
    if guarantee.published_claim is not None:
        said.append(f"{guarantee.published_claim.rstrip('.')}.")
    return [*said, *guarantee.caveats]


def _explain_noise(guarantee: Guarantee) -> list[str]:
    """Where the noise comes from, and why numbers may leave their range."""
    said, low, high = [], guarantee.unit.low, guarantee.unit.high
    is_secret = guarantee.kind is not GuaranteeKind.NONE  # a rehearsal has a seed
    if is_secret and "ChaCha20" in guarantee.numerics:
        said.append(
            "The noise is drawn from secrets of this machine, without rounding errors that could "
            "give something away; nobody can compute it without breaking a standard cipher."
        )
    if guarantee.released == NOISY_NUMBERS and (low, high) != (0.0, 255.0):
        said.append(
            f"Released numbers may lie outside of {low:g} to {high:g}: that is the noise, and it "
            "is left so that averages stay right. Cutting them to the range afterwards costs no "
            "privacy, and shifts averages towards its middle."
        )
    return said


def delta_caveat(delta: float, units: int) -> tuple[str, ...]:
    """A sentence where delta is not well below one over the number of units, else none.

    Example:
        >>> delta_caveat(1e-5, 100)
        ()
    """
    if delta * units <= 0.1:
        return ()
    share = f"1/{units}" if units > 1 else "1"
    return (
        f"Delta {format_rounded_up(delta)} is not well below {share}: it allows that a unit is "
        "published "
        f"outright with that chance. Take at most 1/{10 * units}.",
    )


def _explain_claim(guarantee: Guarantee) -> str:
    if guarantee.epsilon is not None:
        return _explain_promise(guarantee, guarantee.epsilon)
    if guarantee.kind is GuaranteeKind.ESTIMATE:
        return (
            f"No guarantee: {guarantee.estimate:g} is an estimate that depends on the private "
            "data and may itself reveal something about it."
        )
    if guarantee.kind is GuaranteeKind.HEURISTIC:
        return "No guarantee: this is a heuristic. It may hide things; nothing is proved."
    return "No guarantee."


def _explain_promise(guarantee: Guarantee, epsilon: float) -> str:
    numbers = (
        f"epsilon {format_rounded_up(epsilon)} and delta "
        f"{format_rounded_up(guarantee.delta or 0.0)}"
    )
    protected = _name_protected(guarantee.unit)
    if epsilon > _VACUOUS_EPSILON:
        return (
            f"Protects nothing worth the name: proved is {numbers}, so large that anything may "
            f"show, for this: {protected}."
        )
    is_relaxed = guarantee.kind is GuaranteeKind.FORMAL_RELAXED
    relative = " (relative to what is public)" * is_relaxed
    protected = "what is not public (see below) of " * is_relaxed + protected
    look = next((words for most, words in _ALIKE_WORDS if guarantee.detection_rate <= most), None)
    return (
        f"Protects {protected}{_but_not_a_person(guarantee.unit)}. Differentially private with "
        f"{numbers}{relative}: what is released {look or 'may look quite different'} if that "
        f"{_describe_effect(guarantee)}."
    )


def _name_protected(unit: Unit) -> str:
    if unit.is_of_a_file and unit.name in WHOLE_FILE:
        return "this whole file, whoever is in it; other files of the same people add to it"
    if unit.name is UnitName.VIDEO:
        return "one whole recording"
    protected = PROTECTS[unit.name]
    return protected if unit.sites is None else protected.replace("m sites", f"{unit.sites} sites")


def _but_not_a_person(unit: Unit) -> str:
    """What keeps the unit from being a whole person; nothing where it is one."""
    sites, reach = unit.sites or 1, unit.shards_per_subject or 1
    small = (
        f"someone {_SMALL_PX} pixels tall covers about {PERSON_AREA_SHARE * _SMALL_PX**2:.0f} "
        "sites in every "
    )
    small += "frame of a video"
    match unit.name:
        case UnitName.VALUE:
            why = ", who shows in many numbers"
        case UnitName.PIXELS if sites <= PERSON_AREA_SHARE * _SMALL_PX**2:
            why = f": {small}"
        case UnitName.PIXELS:
            why = f" who covers more than that in all frames together; {small}"
        case UnitName.TUBE:
            tall = math.isqrt(int(sites / PERSON_AREA_SHARE))
            why = f" who covers more of a frame: anyone more than about {tall} pixels tall"
        case UnitName.FRAME:
            why = " who is in more than one of them"
        case UnitName.VIDEO | UnitName.RECORD if not unit.is_of_a_file:
            why = " who is in several of them"
        case UnitName.SHARD if reach > 1:
            why = f", whose data reaches up to {reach} teachers"
        case _:
            return ""
    return f"; does not protect a whole person{why}"


def _describe_effect(guarantee: Guarantee) -> str:
    low, high = guarantee.unit.low, guarantee.unit.high
    if guarantee.relation is Relation.ZERO_OUT and low is not None and high is not None:
        return f"had been blank (read here as {(low + high) / 2:g}, the middle of the range)"
    return _CHANGE_WORDS[guarantee.relation]


def _describe_attacker(noticed: float) -> str:
    percent = math.ceil(noticed * 1000 - 1e-9) / 10
    often = f"at most {percent:g} % of the time" if percent < 100 else "perhaps every time"
    return (
        "Someone who knows everything but that change, and who may raise a false alarm 1 % of "
        f"the time, notices it {often} (1 % would be guessing)."
    )
