"""What a guarantee means for somebody who has never heard of epsilon: two short answers.

`masquerade.wording` has the exact sentences, which stand behind a fold. These here say the same
with fewer words, and never more than it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from masquerade.guarantee import WHOLE_FILE, Guarantee, Kind, Relation, Unit, UnitName
from masquerade.wording import PERSON

_SMALL = 64  # pixels: somebody who is seen from afar
_VACUOUS = 100.0
_ALIKE = ((0.05, "almost the same"), (0.5, "similar, though not the same"))
_OF_A_PERSON = (
    "a person",
    "anything:",
    "someone seen in many frames",
    "what reaches beyond one",
)  # said here in other words
_AGAIN = "Further copies: each time the same recordings are used again, protection gets weaker."


@dataclass(frozen=True, kw_only=True)
class Plainly:
    """Two answers.

    Args:
        is_proved: whether any promise is worth the name.
        protected: what nobody can learn for sure, and how sure they can be.
        exposed: what is not protected, the most important first.
    """

    is_proved: bool
    protected: list[str]
    exposed: list[str]


def plainly(guarantee: Guarantee, *, is_film: bool, is_rehearsal: bool = False) -> Plainly:
    """The answers of one release.

    Args:
        guarantee: what is promised.
        is_film: whether it is of a film or a picture; a frame of numbers is a row.
        is_rehearsal: whether the noise can be computed by anybody who knows the seed.
    """
    others = [_sentence(each) for each in guarantee.not_protected if _is_new(each)]
    if guarantee.epsilon is None or guarantee.epsilon > _VACUOUS:
        said = _nothing(guarantee, is_rehearsal=is_rehearsal)
        return Plainly(is_proved=False, protected=said, exposed=["Anything it shows.", *others])
    person = _person(guarantee.unit, is_film=is_film)
    return Plainly(
        is_proved=True,
        protected=[_what(guarantee, is_film=is_film), _sure(guarantee)],
        exposed=[*person, *others, _AGAIN],
    )


def _nothing(guarantee: Guarantee, *, is_rehearsal: bool) -> list[str]:
    if is_rehearsal:
        return [
            "Nothing: this is a rehearsal. Its noise can be computed and taken away by anybody who "
            "knows the seed. It is not meant to be published."
        ]
    hides = guarantee.released.partition("tries to hide ")[2]
    if guarantee.kind is Kind.HEURISTIC and hides:
        return [
            f"Nothing for certain. It was made to hide {hides}; that may work, and it may fail or "
            "be undone. No proof stands behind it."
        ]
    if guarantee.epsilon is not None:
        return ["Nothing worth the name: the promise is so weak that anything may show."]
    return ["Nothing for certain. No proof stands behind what was published."]


def _what(guarantee: Guarantee, *, is_film: bool) -> str:
    """The unit in words; what is taken as public stands outside of it."""
    unit, relaxed = guarantee.unit, guarantee.kind is Kind.FORMAL_RELAXED
    said = _unit(unit, is_film=is_film)
    if relaxed:
        return f"{said}, except for the part of it that is treated as public (see the details)."
    return f"{said}."


def _unit(unit: Unit, *, is_film: bool) -> str:
    sites = unit.sites or 1
    side = max(1, math.isqrt(sites))
    match unit.name:
        case UnitName.VALUE:
            return "Any single number of the file"
        case UnitName.PIXELS:
            return (
                f"Any {sites:,} dots (pixels) of it, such as a spot of {side} by {side} that is "
                "seen for one frame"
            )
        case UnitName.TUBE:
            return f"Any spot of up to {sites:,} dots (pixels), for as long as it is seen"
        case UnitName.FRAME if is_film:
            return "Any single frame: what was to be seen in one instant"
        case UnitName.FRAME:
            return "Any single row: what was measured in one moment"
        case name if name in WHOLE_FILE and unit.is_of_a_file:
            return "Everything in this file, and so everybody who is in it"
        case UnitName.SUBJECT:
            return "Every person: all that one of them contributed"
        case UnitName.SHARD:
            return "The part of the data that one of many teachers (small models) learned from"
        case _:
            return "Any single recording of those that it was learned from"


def _sure(guarantee: Guarantee) -> str:
    """How alike results would be, and how often a change is noticed."""
    alike = next((words for most, words in _ALIKE if guarantee.noticed <= most), None)
    times = math.ceil(100 * guarantee.noticed - 1e-9)
    often = f"at most {times} times in 100" if times < 100 else "perhaps every time"
    looks = f"would have looked {alike}" if alike else "may have looked quite different"
    other = "something else" if guarantee.relation is Relation.REPLACE_ONE else "left out"
    if guarantee.relation is Relation.ZERO_OUT and guarantee.unit.is_of_a_file:
        other = "left blank"
    return (
        f"Had it been {other}, what was published {looks}. Even somebody "
        f"who knows all the rest, and may raise a false alarm once in 100 times, would notice "
        f"the change {often} (with guesses alone: once)."
    )


def _person(unit: Unit, *, is_film: bool) -> list[str]:
    """Why the unit is less than a person; nothing where it is one."""
    sites, small = unit.sites or 1, PERSON * _SMALL**2
    match unit.name:
        case UnitName.VALUE:
            why = " A person shows in many numbers."
        case UnitName.PIXELS if sites <= small:
            why = f" Even somebody far away ({_SMALL} dots tall) covers about {small:.0f} dots of "
            why += "every frame. If people cannot be made out, that is due to the blur and the "
            why += "noise you see, and about that nothing is proved."
        case UnitName.PIXELS:
            why = " Somebody covers that many dots within a few frames."
        case UnitName.TUBE:
            tall = math.isqrt(int(sites / PERSON))
            why = f" Anyone taller than about {tall} dots in the picture is larger than that spot."
        case UnitName.FRAME:
            why = f" Whoever is in several {'frames' if is_film else 'rows'} can show."
            if is_film:
                why += " A face that holds still comes out sharply if the film is long."
        case UnitName.VIDEO | UnitName.RECORD if not unit.is_of_a_file:
            why = " Somebody who is in several recordings can show."
        case UnitName.SHARD if (unit.shards_per_subject or 1) > 1:
            why = " One person's data reaches several teachers."
        case _:
            return []
    return [f"A whole person.{why}"]


def _is_new(phrase: str) -> bool:
    return not phrase.startswith(_OF_A_PERSON)


def _sentence(phrase: str) -> str:
    return f"{phrase[:1].upper()}{phrase[1:].rstrip('.')}."
