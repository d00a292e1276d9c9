"""What TEMPDIFF's tables show, in sentences that are computed from them.

Whether one is ahead of another is said by one rule (`recipes.verdict`), of students that learned in
the same way: from labelled windows alone, or from the other public windows too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from masquerade import _formatting
from masquerade.recipes.tempdiff.rows import Examined, Pupils
from masquerade.recipes.verdict import Runs, Word, compared

Pair = tuple[str, Runs, Runs]  # where, and what is compared there
_BEST = ((50, 0.3), (100, 0.1))  # teachers and gamma that the paper finds good, by data set
_HOW = {True: "that learned the labels alone", False: "that learned from other public windows too"}


def sentences(found: Examined) -> list[str]:
    """What a reader wants to know; numbers that the tables have are not said again."""
    said = [*_of_agreement(found), *_of_students(found), *_of_figure_8(found), _of_claims(found)]
    if found.values("epsilon"):
        said += [*_of_aggregators(found), *_of_pate(found), *_of_help(found)]
        said += [*_of_private_data(found), *_of_dp_sgd(found), *_of_fewer(found)]
    return [*said, *_of_public_data(found), " ".join([_of_all(found), *found.notes])]


def operating(found: Examined) -> list[Pupils]:
    """The cells of Table I: for each number of queries the paper's best, both methods."""
    cells = []
    for queries, (size, gamma) in zip(found.queries, _BEST, strict=False):
        here = [cell for cell in found.scores if cell.gamma and cell.queries == queries]
        near = min({cell.teachers for cell in here}, key=lambda one: abs(one - size))
        soft = min({cell.gamma or 0.0 for cell in here}, key=lambda one: abs(one - gamma))
        cells += [cell for cell in here if (cell.teachers, cell.gamma) == (near, soft)]
    return cells


def _told(pairs: Sequence[Pair]) -> str:
    """Where the first is ahead of the second, by what each pair is called."""
    named: dict[Word, list[str]] = {}
    for name, one, other in pairs:
        named.setdefault(compared(one, other), []).append(name)
    return ", ".join(f"{word} at {' '.join(names)}" for word, names in named.items())


def _said(what: str, pairs: Sequence[Pair]) -> list[str]:
    return [f"{what}: {_told(pairs)}."] if pairs else []


def _of_agreement(found: Examined) -> list[str]:
    """By the spread over teachings alone: each drew its queries, and shares of votes are no counts.

    A share of votes scatters less from query to query than right and wrong do, so an error by the
    number of queries, as for students, would ask for more than is needed.
    """
    by_shards: dict[str, list[Pair]] = {}
    for (who, by, size), facts in found.ensembles.items():
        other = found.ensembles.get(("pate", by, size))
        if who == "tempdiff" and other is not None:
            one, two = (Runs(each.agreement, tested=math.inf) for each in (facts, other))
            by_shards.setdefault(by, []).append((str(size), one, two))
    shown = "; ".join(f"by {by}, {_told(pairs)}" for by, pairs in by_shards.items())
    asked = f"Agreement of TEMPDIFF's teachers against PATE's (n = {found.seeds} teachings)"
    return [f"{asked}: {shown} teachers."] if shown else []


def _of_students(found: Examined) -> list[str]:
    """One count for all cells, as the figures have many; each of them is in the JSON."""
    words: Counter[str] = Counter()
    for cell in found.find(who="tempdiff"):
        if cell.gamma is not None:
            fields = {name: getattr(cell, name) for name in ("teachers", "queries", "gamma")}
            one, other = found.runs(cell), found.one(who="pate", **fields)
            if one is not None and other is not None:
                words[compared(one, other)] += 1
    shown = ", ".join(f"{word} in {times}" for word, times in words.most_common())
    return [
        "Students as published against PATE's, at the same gamma, teachers and queries: of "
        f"{words.total()} pairs {shown}."
    ]


def public_alone(found: Examined, *, is_alone: bool) -> Runs | None:
    """The best that was made of a few labelled public windows, without any private data."""
    known = [
        found.one(who="few labels", is_alone=is_alone),
        found.one(who="nearest mean of few labels"),
    ]
    return max((one for one in known if one is not None), key=lambda one: one.mean, default=None)


def _of_figure_8(found: Examined) -> list[str]:
    against: dict[str, list[Pair]] = {}
    for cell in operating(found):
        others = {
            "students of the true labels of their queries": found.one(
                who="true labels", queries=cell.queries, is_alone=True
            ),
            "public data alone": public_alone(found, is_alone=True),
        }
        one = found.runs(cell)
        for name, other in others.items():
            if cell.who == "tempdiff" and one is not None and other is not None:
                against.setdefault(name, []).append((str(cell.queries), one, other))
    shown = "; ".join(f"against {name}, {_told(pairs)} queries" for name, pairs in against.items())
    return [f"Figure 8, students as published: {shown}."] if shown else []


def _of_claims(found: Examined) -> str:
    claims = [claim for cell in operating(found) for claim in found.scores[cell].claims]
    printed = [claim.at_8_moments for claim in claims]
    teacher, person = (
        between([getattr(claim, unit) for claim in claims]) for unit in ("teacher", "person")
    )
    return (
        f"What the paper would print, in one teaching {min(printed):.1f} to {max(printed):.1f}, "
        f"depends on the votes: it is private itself, and no guarantee. True: {teacher} for "
        f"one teacher's data, {person} for one person."
    )


def between(epsilons: Sequence[float]) -> str:
    """The smallest and the largest to one decimal, never less than they are."""
    low, high = (f"{_formatting.up_decimals(e, 1):.1f}" for e in (min(epsilons), max(epsilons)))
    return low if low == high else f"{low} to {high}"


def _by_epsilon(
    found: Examined, one: Callable[[float], Runs | None], other: Callable[[float], Runs | None]
) -> list[Pair]:
    pairs = []
    for epsilon in found.values("epsilon"):
        first, second = one(epsilon), other(epsilon)
        if first is not None and second is not None:
            pairs.append((f"{epsilon:g}", first, second))
    return pairs


def _votes(
    found: Examined, aggregator: str, *, is_alone: bool, who: str = "tempdiff"
) -> Callable[[float], Runs | None]:
    def one(epsilon: float) -> Runs | None:
        return found.one(who=who, aggregator=aggregator, epsilon=epsilon, is_alone=is_alone)

    return one


def _is_alone(found: Examined) -> bool:
    """How students learned whose votes were counted in several ways."""
    return not found.find(is_alone=False)


def _of_aggregators(found: Examined) -> list[str]:
    alone, shown = _is_alone(found), []
    mine = _votes(found, "gnmax", is_alone=alone)
    for name in ("lnmax", "gumbel", "confident"):
        pairs = _by_epsilon(found, mine, _votes(found, name, is_alone=alone))
        shown += [f"against {name}, {_told(pairs)}"] if pairs else []
    return [f"gnmax, students {_HOW[alone]}: {'; '.join(shown)}."] if shown else []


def _of_pate(found: Examined) -> list[str]:
    alone = _is_alone(found)
    mine = _votes(found, "gnmax", is_alone=alone)
    pairs = _by_epsilon(found, mine, _votes(found, "gnmax", is_alone=alone, who="pate"))
    return _said("TEMPDIFF against PATE, both by whole people", pairs)


def _of_help(found: Examined) -> list[str]:
    helped = _votes(found, "gnmax", is_alone=False)
    pairs = _by_epsilon(found, helped, _votes(found, "gnmax", is_alone=True))
    return _said("Students with the other public windows against students without", pairs)


def _of_private_data(found: Examined) -> list[str]:
    shown = []
    for alone in (True, False):
        public = public_alone(found, is_alone=alone)
        mine = _votes(found, "gnmax", is_alone=alone)
        pairs = _by_epsilon(found, mine, lambda _, public=public: public)  # type: ignore[misc]
        shown += [f"students {_HOW[alone]}, {_told(pairs)}"] if pairs else []
    return [f"Votes against public data alone: {'; '.join(shown)}."] if shown else []


def _of_dp_sgd(found: Examined) -> list[str]:
    mine = _votes(found, "gnmax", is_alone=True)
    pairs = _by_epsilon(found, mine, lambda e: found.one(who="dp_sgd", epsilon=e))
    return _said("Votes against DP-SGD on the signals, both without other public windows", pairs)


def _of_fewer(found: Examined) -> list[str]:
    alone = _is_alone(found)
    cells = found.find(who="tempdiff", aggregator="gnmax", is_alone=alone, gamma=None)
    most = max((cell.teachers for cell in cells), default=0)
    pairs = []
    for cell in cells:
        one = found.one(who="tempdiff", aggregator="gnmax", epsilon=cell.epsilon, is_alone=alone)
        other = found.runs(cell)
        if cell.teachers < most and one is not None and other is not None:
            pairs.append((f"epsilon {cell.epsilon:g} against {cell.teachers}", one, other))
    return _said(f"{most} teachers against fewer", pairs)


def _of_public_data(found: Examined) -> list[str]:
    """One sentence: students of a few labels in both ways, their nearest mean, and no privacy."""
    shown = []
    for alone in (True, False):
        few, best = (found.one(who=who, is_alone=alone) for who in ("few labels", "no privacy"))
        public = public_alone(found, is_alone=alone)
        if few is not None and best is not None and public is not None:
            gap = 100 * (best.mean - public.mean)
            shown.append(
                f"students {_HOW[alone]} {few}; all private windows without privacy {best}, "
                f"{gap:.1f} points more than the better one"
            )
    if not shown:
        return []
    nearest = found.one(who="nearest mean of few labels")
    return [
        f"Public data alone, {found.labelled} labelled by hand in each class: their nearest mean "
        f"{nearest}; {'; '.join(shown)}."
    ]


def _of_all(found: Examined) -> str:
    spread = (
        f"± is the standard deviation over {found.seeds} teachings, in each of which people are "
        "dealt, queries drawn and teachers and students trained anew"
        if found.seeds > 1
        else "one teaching, so no spread is known"
    )
    return (
        f"{found.people} private people, {found.tested} windows of other people tested, delta "
        f"{found.delta:g}; every epsilon is of one run alone; {spread}. Ahead is what is beyond "
        "twice the standard error, of teachings and of tested windows (of agreement, of teachings "
        "alone: each asks other windows)."
    )
