"""Who was learned from? The membership attack on rows of MaskDP's tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from masquerade.attacks.attack import ModelCase
from masquerade.attacks.membership import Membership
from masquerade.attacks.membership_scores import Shadows
from masquerade.collection import Collection
from masquerade.publish.attacked import ShadowTraining, units_in
from masquerade.recipes import bench, membership, seen
from masquerade.recipes.mask_dp.rows import DP, MASK_DP, ROWS
from masquerade.recipes.membership import AttackedRow, MembersFound
from masquerade.training.method import planned
from masquerade.training.rows import Rows

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


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadTest:
    """Trains a model of some units and tests it.

    Args:
        training: of models.
        exam: rows of recordings that nobody learned from.
    """

    training: ShadowTraining
    exam: Rows

    def __call__(self, members: np.ndarray, seed: int) -> float:
        """Top-1."""
        return float(seen.is_right(self.training.taught(members), self.exam).mean())


def measured(
    plan: MaskDpTables,
    rows: Rows,
    exam: Rows,
    data: Collection[Any],
    *,
    journal: bench.Journal,
    told: bench.Told = bench.quiet,
) -> tuple[MembersFound, ...]:
    """DP and MaskDP at a few epsilons, unless the journal has them."""
    jobs = 1 if plan.device == "cuda" else plan.jobs
    attack = Membership(shadows=plan.membership, jobs=jobs)
    found: list[MembersFound] = []
    leaky: Callable[[], Shadows] | None = None  # one ceiling for all rows
    for name in (DP, MASK_DP):
        for epsilon in membership.columns(plan.epsilons or ()):
            case = case_of(plan, name, epsilon, rows, len(data.activities))
            leaky = leaky or cache(partial(attack.leaky, case, told=told))
            attacked = AttackedRow(
                name=name,
                epsilon=None if epsilon == math.inf else epsilon,
                protected=ROWS[name].unit,
                case=case,
                test=HeadTest(training=case.learn, exam=exam),  # type: ignore[arg-type]
                tested=exam.units,
            )
            work = partial(membership.found_in, attacked, attack=attack, leaky=leaky, told=told)
            found += membership.read(journal.measured(f"members, {name}, {epsilon:g}", work))
    return tuple(found)
