"""One person, one budget: a name may be written in several ways."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

_DIGRAPHS = (("ae", "a"), ("oe", "o"), ("ue", "u"))  # as Müller becomes Mueller
_PLAIN = str.maketrans("øłđıæœ", "oldiao")  # letters that no mark can be taken off


@lru_cache(maxsize=4096)
def key_of(name: str) -> str:
    r"""What a name is known by: case, spaces, invisible signs and forms of Unicode aside.

    Example:
        >>> key_of(" ANN\u00a0 Berg ") == key_of("ann berg")
        True
    """
    for _ in range(3):  # folding can undo a normal form, and the other way round
        name = unicodedata.normalize("NFKC", name).casefold()
    name = unicodedata.normalize("NFKC", name)
    return " ".join("".join(c for c in name if unicodedata.category(c) != "Cf").split())


def near(name: str, others: Iterable[str]) -> list[str]:
    """Those of other names that may be a slip of the pen away from this one.

    Example:
        >>> near("Mueller", ["Müller", "Muller", "Schmidt"]), near("s001", ["s002"])
        (['Müller', 'Muller'], [])
    """
    return [other for other in others if _is_near(name, other)]


def _is_near(one: str, other: str) -> bool:
    """The same letters in any order of words, or one slip (two in a long name); digits as they are.

    Codes such as s001 and s002 differ in one sign and are different people.
    """
    (letters, digits), (others, numbers) = _bones(one), _bones(other)
    if digits != numbers:
        return False
    longest = max(sum(map(len, letters)), sum(map(len, others)))
    slips = 0 if longest < 4 else 1 if longest < 8 else 2
    orders = ((letters, others), (sorted(letters), sorted(others)))
    return any(_distance("".join(a), "".join(b), most=slips) <= slips for a, b in orders)


def _bones(name: str) -> tuple[list[str], list[int]]:
    """The words without marks, and the numbers."""
    plain = unicodedata.normalize("NFKD", key_of(name)).translate(_PLAIN)
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    for two, one in _DIGRAPHS:
        plain = plain.replace(two, one)
    words = [word for word in re.split(r"[\W\d_]+", plain) if word]
    return words, [int(number) for number in re.findall(r"\d+", plain)]


def _distance(one: str, other: str, *, most: int) -> int:
    """How many letters must be put in, taken out or changed; above ``most`` anything above it."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, 1):
        before, row = row, [place]
        for at, against in enumerate(other, 1):
            row.append(min(before[at] + 1, row[-1] + 1, before[at - 1] + (letter != against)))
        if min(row) > most:
            return most + 1
    return row[-1]
