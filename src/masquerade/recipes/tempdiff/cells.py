"""Which students there are to teach, before any is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from masquerade.recipes.tempdiff.rows import AGGREGATORS, Pupils

if TYPE_CHECKING:
    from masquerade.recipes.tempdiff import TempdiffPlan


FEWER_AT = 2.0  # the epsilon at which fewer teachers, and DP-SGD, are tried


def published(plan: TempdiffPlan) -> list[Pupils]:
    """As published: LNMax at each gamma, both methods, each number of teachers.

    With the first number of queries, as in Figures 5 and 6; with others the largest ensembles
    alone, which the paper finds best there (Figure 7).
    """
    return [
        Pupils(
            who=who,
            by=plan.by,
            teachers=size,
            queries=queries,
            aggregator="lnmax",
            gamma=gamma,
        )
        for queries in plan.queries
        for who in ("tempdiff", "pate")
        for size in (plan.sizes if queries == plan.queries[0] else plan.sizes[-1:])
        for gamma in plan.gammas
    ]


def shipped(plan: TempdiffPlan, people: int) -> list[Pupils]:
    """For a person's epsilon: whole people in shards, as many teachers as there are people."""
    most = people - people % len(plan.windows)

    def cell(who: str, teachers: int, aggregator: str, epsilon: float, is_alone: bool) -> Pupils:
        return Pupils(
            who=who,
            by="subject",
            teachers=teachers,
            queries=plan.person_queries,
            aggregator=aggregator,
            epsilon=epsilon,
            is_alone=is_alone,
        )

    helped = plan.unlabelled == "none"
    found = [cell("tempdiff", most, "gnmax", e, True) for e in plan.epsilons]
    if not helped:
        found += [cell("tempdiff", most, "gnmax", e, False) for e in plan.epsilons]
    others = [("tempdiff", name) for name in AGGREGATORS[1:]] + [("pate", "gnmax")]
    found += [cell(who, most, name, e, helped) for who, name in others for e in plan.epsilons]
    fewer = [size for size in plan.sizes if size < most][-2:] if FEWER_AT in plan.epsilons else []
    found += [cell("tempdiff", size, "gnmax", FEWER_AT, helped) for size in fewer]
    heard = sorted({e for e in plan.epsilons if e == FEWER_AT} | set(plan.epsilons[-1:]))
    return found + [Pupils(who="dp_sgd", epsilon=e) for e in heard]


def compared(plan: TempdiffPlan) -> list[Pupils]:
    """What students are compared with: public data alone, true labels, and no privacy."""
    kinds = [True] if plan.unlabelled == "none" else [True, False]
    queries = [*plan.queries, *([plan.person_queries] if plan.epsilons else [])]
    found = [Pupils(who="nearest mean of few labels")]
    for is_alone in kinds:
        asked = queries if is_alone else queries[-1:]
        found += [Pupils(who="true labels", queries=count, is_alone=is_alone) for count in asked]
        found += [Pupils(who=who, is_alone=is_alone) for who in ("few labels", "no privacy")]
    return found
