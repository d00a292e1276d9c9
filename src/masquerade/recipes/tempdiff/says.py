"""What TEMPDIFF's tables show, in sentences that are computed from them.

Whether one is ahead of another is said by one rule (`recipes.verdict`), of students that learned in
the same way: from labelled windows alone, or from the other public windows too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from masquerade import _round
from masquerade.recipes.tempdiff.rows import Examined, Pupils
from masquerade.recipes.verdict import Runs, Word, compared, overall

_BEST = ((50, 0.3), (100, 0.1))  # teachers and gamma that the paper finds good, by data set
_HOW = {True: "that learned the labels alone", False: "that learned from other public windows too"}


def sentences(found: Examined) -> list[str]:
    """What a reader wants to know, with its numbers."""
    said = [*_of_agreement(found), *_of_students(found), *_of_figure_8(found), *_of_claims(found)]
    if found.values("epsilon"):
        said += [*_of_aggregators(found), *_of_pate(found), *_of_help(found)]
        said += [*_of_private_data(found), *_of_dp_sgd(found), *_of_fewer(found)]
    return [*said, *_of_public_data(found), _of_all(found), *found.notes]


def operating(found: Examined) -> list[Pupils]:
    """The cells of Table I: for each number of queries the paper's best, both methods."""
    cells = []
    for queries, (size, gamma) in zip(found.queries, _BEST, strict=False):
        here = [cell for cell in found.scores if cell.gamma and cell.queries == queries]
        near = min({cell.teachers for cell in here}, key=lambda one: abs(one - size))
        soft = min({cell.gamma or 0.0 for cell in here}, key=lambda one: abs(one - gamma))
        cells += [cell for cell in here if (cell.teachers, cell.gamma) == (near, soft)]
    return cells


def _pair(one: Runs, other: Runs) -> str:
    return f"{one} against {other}, {compared(one, other)}"


def _question(asked: str, pairs: Sequence[tuple[str, Runs, Runs]]) -> list[str]:
    """An answer that holds for all pairs, and each pair by name."""
    if not pairs:
        return []
    word = overall([compared(one, other) for _, one, other in pairs])
    shown = "; ".join(f"{name}: {_pair(one, other)}" for name, one, other in pairs)
    return [f"{asked} {_ANSWER[word]} {shown}."]


_ANSWER: dict[Word, str] = {
    "ahead": "Yes.",
    "behind": "No.",
    "not told apart": "Not shown.",
    "not known from one run": "Not known from one teaching.",
}


def _of_agreement(found: Examined) -> list[str]:
    pairs = []
    for (who, by, size), facts in found.ensembles.items():
        other = found.ensembles.get(("pate", by, size))
        if who == "tempdiff" and other is not None:
            asked = found.person_queries * 2 if by == "subject" else max(found.queries)
            runs = [Runs(each.agreement, asked) for each in (facts, other)]
            pairs.append((f"{size} by {by}", runs[0], runs[1]))
    return _question("Does temporal partitioning raise the teachers' agreement over PATE's?", pairs)


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
    total = sum(words.values())
    return [
        f"Is a student as published ahead of PATE's at the same gamma, teachers and queries? Of "
        f"{total} pairs it is {shown}."
    ]


def public_alone(found: Examined, *, is_alone: bool) -> Runs | None:
    """The best that was made of a few labelled public windows, without any private data."""
    known = [
        found.one(who="few labels", is_alone=is_alone),
        found.one(who="nearest mean of few labels"),
    ]
    return max((one for one in known if one is not None), key=lambda one: one.mean, default=None)


def _of_figure_8(found: Examined) -> list[str]:
    truths, publics = [], []
    for cell in operating(found):
        one = found.runs(cell)
        if cell.who != "tempdiff" or one is None:
            continue
        name = f"{cell.queries} queries, {cell.teachers} teachers, gamma {cell.gamma:g}"
        truth = found.one(who="true labels", queries=cell.queries, is_alone=True)
        public = public_alone(found, is_alone=True)
        truths += [] if truth is None else [(name, one, truth)]
        publics += [] if public is None else [(name, one, public)]
    asked = "Figure 8: is the student as published ahead of"
    return [
        *_question(f"{asked} one of the true labels of its queries?", truths),
        *_question(f"{asked} public data alone?", publics),
    ]


def _of_claims(found: Examined) -> list[str]:
    said = []
    for cell in operating(found):
        claims = found.scores[cell].claims
        printed = float(np.mean([claim.at_8_moments for claim in claims]))
        teacher, person = (
            _round.up_decimals(max(getattr(claim, unit) for claim in claims), 1)
            for unit in ("teacher", "person")
        )
        said.append(
            f"{cell.who}, {cell.teachers} teachers, gamma {cell.gamma:g}, {cell.queries} queries: "
            f"printed {printed:.1f} (it depends on the votes: private itself, and no guarantee); "
            f"true {teacher:.1f} for one teacher's data, {person:.1f} for one person."
        )
    return said


def _by_epsilon(
    found: Examined, one: Callable[[float], Runs | None], other: Callable[[float], Runs | None]
) -> list[tuple[str, Runs, Runs]]:
    pairs = []
    for epsilon in found.values("epsilon"):
        first, second = one(epsilon), other(epsilon)
        if first is not None and second is not None:
            pairs.append((f"epsilon {epsilon:g}", first, second))
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
    alone, said = _is_alone(found), []
    mine = _votes(found, "gnmax", is_alone=alone)
    for name in ("lnmax", "gumbel", "confident"):
        pairs = _by_epsilon(found, mine, _votes(found, name, is_alone=alone))
        said += _question(f"Is GNMax ahead of {name}, for students {_HOW[alone]}?", pairs)
    return said


def _of_pate(found: Examined) -> list[str]:
    alone = _is_alone(found)
    mine = _votes(found, "gnmax", is_alone=alone)
    pairs = _by_epsilon(found, mine, _votes(found, "gnmax", is_alone=alone, who="pate"))
    return _question("Is TEMPDIFF by whole people ahead of PATE by whole people?", pairs)


def _of_help(found: Examined) -> list[str]:
    helped = _votes(found, "gnmax", is_alone=False)
    pairs = _by_epsilon(found, helped, _votes(found, "gnmax", is_alone=True))
    return _question("Does a student gain from the other public windows?", pairs)


def _of_private_data(found: Examined) -> list[str]:
    said = []
    for alone in (True, False):
        public = public_alone(found, is_alone=alone)
        mine = _votes(found, "gnmax", is_alone=alone)
        pairs = _by_epsilon(found, mine, lambda _, public=public: public)  # type: ignore[misc]
        said += _question(
            "Does private data add anything: is the student by votes ahead of public data alone, "
            f"for students {_HOW[alone]}?",
            pairs,
        )
    return said


def _of_dp_sgd(found: Examined) -> list[str]:
    mine = _votes(found, "gnmax", is_alone=True)
    pairs = _by_epsilon(found, mine, lambda e: found.one(who="dp_sgd", epsilon=e))
    asked = "Are votes ahead of DP-SGD on the signals, both without the other public windows?"
    return _question(asked, pairs)


def _of_fewer(found: Examined) -> list[str]:
    alone = _is_alone(found)
    cells = found.find(who="tempdiff", aggregator="gnmax", is_alone=alone, gamma=None)
    most = max((cell.teachers for cell in cells), default=0)
    pairs = []
    for cell in cells:
        one = found.one(who="tempdiff", aggregator="gnmax", epsilon=cell.epsilon, is_alone=alone)
        other = found.runs(cell)
        if cell.teachers < most and one is not None and other is not None:
            pairs.append((f"{most} against {cell.teachers}, epsilon {cell.epsilon:g}", one, other))
    return _question("Are more teachers, down to one person each, ahead of fewer?", pairs)


def _of_public_data(found: Examined) -> list[str]:
    said = []
    nearest = found.one(who="nearest mean of few labels")
    for alone in (True, False):
        few, best = (found.one(who=who, is_alone=alone) for who in ("few labels", "no privacy"))
        public = public_alone(found, is_alone=alone)
        if few is not None and best is not None and public is not None:
            gap = 100 * (best.mean - public.mean)
            said.append(
                f"Public data alone, windows labelled by hand in each class: {found.labelled}; "
                f"students {_HOW[alone]}: {few}, their nearest mean: {nearest}; all private "
                f"windows without privacy: {best}, {gap:.1f} points more than the better one."
            )
    return said


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
        "twice the standard error, of teachings and of tested windows."
    )
