"""Which rows of MaskDP's tables are ahead of which, epsilon by epsilon."""

from __future__ import annotations

import math
from typing import Any

from masquerade.recipes.mask_dp.blocks import ACROSS, AVATARS, REAL
from masquerade.recipes.mask_dp.rows import (
    ALONE,
    DP,
    MASK_DP,
    MULTI_CLIP,
    PUBLIC,
    SCRATCH,
    Cell,
    Found,
    Panel,
)
from masquerade.recipes.verdict import Word, compared, overall

_MOST = 1.0  # epsilon up to which rows are compared as a whole
PAIRS = (
    (MASK_DP, PUBLIC),
    (MASK_DP, DP),
    (MASK_DP, ALONE),
    (DP, ALONE),
    (DP, SCRATCH),
    (MULTI_CLIP, DP),
)


def words_of(found: Found, panel: Panel, pair: tuple[str, str]) -> dict[float, Word]:
    """Whether the first row is ahead of the second in Top-1, at each epsilon that both have."""
    words: dict[float, Word] = {}
    for epsilon in found.epsilons:
        one, other = (found.cell(method, epsilon, panel) for method in pair)
        if one and other:
            words[epsilon] = compared(one.runs, other.runs)
    return words


def comparisons(found: Found) -> list[dict[str, Any]]:
    """Every pair of rows in every panel, and between films, for machines."""
    return [
        {
            "one": pair[0],
            "other": pair[1],
            "relation": panel.relation,
            "correlation": panel.correlation,
            "films": panel.films,
            "words": {at(e): word for e, word in words_of(found, panel, pair).items()},
        }
        for panel in found.panels()
        for pair in PAIRS
        if words_of(found, panel, pair)
    ] + [
        {**each, "words": {at(e): word for e, word in each["words"].items()}}
        for each in crossed(found)
    ]


def verdict(found: Found, pair: tuple[str, str]) -> list[str]:
    """Where the first row is ahead of the second: by epsilons, and up to 1 as a whole."""
    told: dict[str, list[str]] = {}  # where, by what is said
    small: list[Word] = []
    for panel in found.panels():
        words = words_of(found, panel, pair)
        if words:
            small += [word for epsilon, word in words.items() if epsilon <= _MOST]
            where = " ".join(part for part in (panel.place, _under(found, panel)) if part)
            told.setdefault(grouped(words), []).append(where)
    if not told:
        return []
    is_one = len(told) == 1
    parts = [said if is_one else f"{', '.join(where)}: {said}" for said, where in told.items()]
    whole = f" Up to epsilon {_MOST:g} as a whole: {overall(small)}." if small else ""
    return [f"{pair[0]} against {pair[1]}: {'; '.join(parts)}.{whole}"]


def _under(found: Found, panel: Panel) -> str:
    return panel.relation if len(found.relations) > 1 else ""


def grouped(words: dict[float, Word]) -> str:
    """What is said at which epsilons."""
    groups: dict[str, list[str]] = {}
    for epsilon, word in words.items():
        groups.setdefault(word, []).append(at(epsilon))
    if len(groups) == 1:
        return f"{next(iter(groups))} at every epsilon"
    return ", ".join(f"{word} at {' '.join(each)}" for word, each in groups.items())


def at(epsilon: float) -> str:
    """A column's heading."""
    return "no noise" if epsilon == math.inf else f"{epsilon:g}"


_CROSSED = (  # between films: rows, each with its own
    ((MASK_DP, AVATARS), (DP, REAL)),
    ((MASK_DP, ACROSS), (DP, REAL)),
    ((MASK_DP, AVATARS), (MASK_DP, REAL)),
    ((DP, AVATARS), (DP, REAL)),
    ((PUBLIC, AVATARS), (PUBLIC, REAL)),
    ((PUBLIC, ACROSS), (PUBLIC, REAL)),
)


def crossed(found: Found) -> list[dict[str, Any]]:
    """Rows of one kind of films beside rows of another, under each relation."""
    told = []
    for relation in found.relations:
        for pair in _CROSSED:
            words = {
                epsilon: compared(one.runs, other.runs)
                for epsilon in found.epsilons
                for one, other in [[_cell(found, relation, epsilon, *each) for each in pair]]
                if one and other
            }
            if words:
                one, other = (f"{method}, {films}" for method, films in pair)
                told.append({"one": one, "other": other, "relation": relation, "words": words})
    return told


def _cell(found: Found, relation: str, epsilon: float, method: str, films: str) -> Cell | None:
    return found.cell(method, epsilon, Panel(relation=relation, films=films))


def crossed_in_words(found: Found) -> list[str]:
    """The same as sentences."""
    sentences = []
    for each in crossed(found):
        under = f" under {each['relation']}" if len(found.relations) > 1 else ""
        small = [word for epsilon, word in each["words"].items() if epsilon <= _MOST]
        whole = f" Up to epsilon {_MOST:g} as a whole: {overall(small)}." if small else ""
        said = grouped(each["words"])
        sentences.append(f"{each['one']}, against {each['other']}{under}: {said}.{whole}")
    return sentences
