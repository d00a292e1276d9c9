"""Measure the table of avatars: films are released once; each row is learned and tested.

Needs no camera, no ledger and no screen.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from joblib import delayed

from masquerade import _json
from masquerade.recipes import bench, seen
from masquerade.recipes.avatar.rows import NAMES, AvatarFound, AvatarRow
from masquerade.recipes.mask_dp import MaskDpTables
from masquerade.recipes.mask_dp import run as shared
from masquerade.recipes.mask_dp.cells import PHYSICAL
from masquerade.recipes.mask_dp.rows import DP
from masquerade.recipes.released.film import Shown
from masquerade.recipes.released.films import AvatarFilms, Summary
from masquerade.training.method import planned
from masquerade.training.rows import Rows

if TYPE_CHECKING:
    from masquerade.recipes.avatar import AvatarTable


def measure(
    plan: AvatarTable,
    films: AvatarFilms,
    *,
    journal: bench.Journal,
    told: bench.Told = bench.quiet,
) -> AvatarFound:
    """Every row, unless the journal has it.

    Args:
        plan: that all share.
        films: of a world, which need not be made yet.
        journal: of the run.
        told: how far it is.
    """
    films.make(jobs=plan.jobs, told=told)
    taught, tested = films.used
    summary = journal.measured("films", lambda: _summary(films))
    if set(NAMES) - set(journal.held):
        exams = {shown: _read(plan, tested, shown, told) for shown in NAMES}
        for shown in NAMES:
            work = partial(_row, plan, taught, shown, exams, told)
            journal.measured(shown, work)
    return AvatarFound(
        rows=tuple(_json.decode(AvatarRow, journal.held[shown]) for shown in NAMES),
        plan=plan,
        about=shared.about(films.stage, plan.learning),
        units=len(taught),
        summary=_json.decode(Summary, summary),
    )


def _summary(films: AvatarFilms) -> Summary:
    return Summary.of(part.film(number) for part in films.used for number in range(len(part)))


def _read(plan: AvatarTable, films: AvatarFilms, shown: Shown, told: bench.Told) -> Rows:
    return shared.read(plan.learning, films.as_shown(shown), {DP}, told)[DP]


def _row(
    plan: AvatarTable, taught: AvatarFilms, shown: Shown, exams: dict[Shown, Rows], told: bench.Told
) -> AvatarRow:
    """Learn from films in one way, several times; test on films in that way and on real ones."""
    rows = _read(plan, taught, shown, told)
    asked = [exams[shown], exams["real"]]
    classes = len(taught.activities)
    jobs = 1 if plan.device == "cuda" else plan.jobs or plan.repeats
    calls = (
        delayed(_hits)(plan.learning, rows, asked, classes, seed) for seed in range(plan.repeats)
    )
    hits = np.empty((2, plan.repeats, asked[0].units), bool)
    for seed, found in enumerate(bench.together(calls, jobs=jobs)):
        hits[:, seed] = found
        told(f"learning from {NAMES[shown]}", seed + 1, plan.repeats)
    own, real = ((tuple(of.mean(axis=1).tolist()), tuple(of.mean(axis=0).tolist())) for of in hits)
    return AvatarRow(shown=shown, own=own[0], own_each=own[1], real=real[0], real_each=real[1])


def _hits(
    plan: MaskDpTables, rows: Rows, exams: list[Rows], classes: int, seed: int
) -> list[np.ndarray]:
    """Which test films one network names rightly."""
    method = plan.method(DP, public_seed=seed)
    net = plan.begun().make(classes, seed=seed).to(plan.device)
    tail = seen.taught(net, rows, method, planned(method, rows.units), physical=PHYSICAL)
    return [seen.is_right(tail, exam) for exam in exams]
