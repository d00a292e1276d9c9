"""Yes-or-no labels from what is known of recordings: what an onlooker is asked about people.

Stage says what somebody looks like in words, such as skin_tone: dark; every word becomes a label,
but one of two words says both. VISPR [orekondy2017] has 0 or 1 for each attribute, PA-HMDB51
[wu2020] a number a frame that is 0 where nobody can tell. Where an attacker learned from the first
and looks at the second, both are asked about what they share, the five attributes of PA-HMDB51.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from masquerade import _check
from masquerade.errors import BadInput
from masquerade.recordings import Attributes

Told: TypeAlias = Mapping[str, str | int]

WORDS = ("skin_tone", "gender", "face", "build", "hair", "clothing")
_SHARED = {
    "skin_color": ("a17_color",),
    "face": ("a9_face_complete", "a10_face_partial"),
    "gender": ("a4_gender",),
    "nudity": ("a12_semi_nudity",),
    "relationship": ("a64_rel_personal", "a65_rel_social"),
}
_VISPR = re.compile(r"a\d+_\w+")


@dataclass(frozen=True, kw_only=True)
class LooksQuestion:
    """One yes-or-no question: whether an attribute has a value."""

    attribute: str
    value: str | int

    def __str__(self) -> str:
        return self.attribute if self.value == 1 else f"{self.attribute}: {self.value}"

    def holds(self, told: Told) -> bool:
        """The answer, of somebody of whom the attribute is known."""
        return told[self.attribute] == self.value


def told_at(attributes: Attributes, frame: int) -> dict[str, str | int]:
    """What is known about people at one frame; what is not is left out.

    Example:
        >>> told_at({"face": (0, 2, -1), "gender": (1, 1, 3)}, 1)
        {'face': 1, 'gender': 1}
        >>> told_at({"a9_face_complete": 0, "a10_face_partial": 1}, 0)["face"]
        1
    """
    found: dict[str, str | int] = {}
    for name, value in attributes.items():
        if isinstance(value, tuple):
            at = value[frame] if frame < len(value) else -1
            if name in _SHARED and at >= 0:
                found[name] = int(at > 0)
        elif name in WORDS or name in _SHARED or _VISPR.fullmatch(name):
            found[name] = value
    for name, names in _SHARED.items():
        known = [found[each] for each in names if each in found]
        if known and name not in found:
            found[name] = int(any(known))
    return found


def questions(
    known: Sequence[Told], targets: Sequence[Told], names: Sequence[str]
) -> list[LooksQuestion]:
    """What can be asked: attributes that both sides have, and that vary on both.

    Args:
        known: of the attacker's own records.
        targets: of what was published.
        names: of the attributes that are wanted; all if empty.

    Raises:
        BadInput: if nothing can be asked.
        ValueError: if a wanted attribute is not there.
    """
    both = _common(known) & _common(targets)
    if any(_VISPR.fullmatch(name) for name in both):
        both -= {name for name, parts in _SHARED.items() if both & set(parts)}  # said twice else
    for name in names:
        if name not in both:
            raise ValueError(_check.unknown("attribute", name, sorted(both)))
    asked = []
    for name in sorted(names or both):
        values = sorted({told[name] for told in known}, key=str)
        wanted = values[1:] if len(values) == 2 else values
        asked += [LooksQuestion(attribute=name, value=value) for value in wanted]
    found = [one for one in asked if _varies(one, known) and _varies(one, targets)]
    if not found:
        raise BadInput(
            "Expected attributes of people that both the attacker's recordings and the published "
            f"ones have and that vary in both, got {', '.join(sorted(both)) or 'none'}; take a "
            "data set that has them (stage, vispr, pa_hmdb51), and publish more people."
        )
    return found


def _common(told: Sequence[Told]) -> set[str]:
    return set.intersection(*(set(each) for each in told)) if told else set()


def _varies(asked: LooksQuestion, told: Sequence[Told]) -> bool:
    return len({asked.holds(each) for each in told}) == 2
