"""Who was learned from? The membership attack on rows of MaskDP's tables."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from masquerade.attack.case_model import ModelCase
from masquerade.attack.membership import Membership
from masquerade.collection import Collection
from masquerade.doors.shadow import ShadowTraining, units_in
from masquerade.recipes import bench, membership
from masquerade.recipes.mask_dp.rows import DP, MASK_DP, ROWS
from masquerade.recipes.membership import MembersFound
from masquerade.train.method import planned
from masquerade.train.rows import Rows

if TYPE_CHECKING:
    from masquerade.recipes.mask_dp import MaskDpTables

MOST = 1_000  # recordings that are attacked


def case_of(plan: MaskDpTables, name: str, epsilon: float, rows: Rows, classes: int) -> ModelCase:
    """A row of the tables as what is attacked.

    Half of the recordings are in every model; where a method has a public view, all are, and half
    of them with their private pixels.
    """
    method = plan.method(name, epsilon)
    own = rows if method.HAS_PUBLIC else replace(rows, public=None)
    training = ShadowTraining(rows=own, method=method, network=plan.begun(), classes=classes)
    at, whose = units_in(rows)
    learned = rows.units if method.HAS_PUBLIC else rows.units // 2
    run = planned(method, learned)
    allowed = None
    if run.noise_multiplier > 0:
        allowed = membership.allowed_by(run.event(), epsilon=epsilon, delta=method.delta)
    return ModelCase(
        targets=rows.targets.cpu().numpy()[at],
        whose=whose,
        learn=training,
        overfit=training.overfitted(),
        allowed=allowed,
    )


def measured(
    plan: MaskDpTables,
    rows: Rows,
    data: Collection[Any],
    *,
    journal: bench.Journal,
    told: bench.Told = bench.quiet,
) -> tuple[MembersFound, ...]:
    """DP and MaskDP at a few epsilons, unless the journal has them."""
    jobs = 1 if plan.device == "cuda" else plan.jobs
    attack = Membership(shadows=plan.membership, jobs=jobs)
    found: list[MembersFound] = []
    for name in (DP, MASK_DP):
        for epsilon in membership.columns(plan.epsilons or ()):
            case = case_of(plan, name, epsilon, rows, len(data.activities))
            work = partial(
                membership.found_in,
                case,
                row=name,
                epsilon=None if epsilon == math.inf else epsilon,
                attack=attack,
                protected=ROWS[name].unit,
                told=told,
            )
            found += membership.read(journal.measured(f"members, {name}, {epsilon:g}", work))
    return tuple(found)
