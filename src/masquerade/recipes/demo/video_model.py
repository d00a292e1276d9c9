"""The demo's model of videos: a small network that learns with and without privacy."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace

from masquerade._formatting import shown
from masquerade._optional import require
from masquerade.datasets.stage import Stage
from masquerade.recipes import bench, membership
from masquerade.recipes.demo.chapter import Chapter, System
from masquerade.recipes.mask_dp import MaskDpTables, run
from masquerade.recipes.mask_dp import page as mask_dp
from masquerade.recipes.mask_dp.rows import DP, MASK_DP, PIXELS, PUBLIC, RELATIONS, SHARED, Found
from masquerade.report import page
from masquerade.report.page import PagePart

torch = require("torch", extra="train")

EPSILON = 1.0
HEADING = (
    *("training", "what is protected", "epsilon, zero_out", "epsilon, replace_one"),
    "top-1 in per cent",
)
# a task is in a world below 1000: the network was taught in others, by other people and activities
WORLD = Stage(seed=1, height=64, width=64, subjects=84, videos=972, correlation=0.5)
PLAN = MaskDpTables(
    epochs=10.0,
    batch=64,
    mask_batch=64,
    public_batch=64,
    jobs=1,
    epsilons=(EPSILON,),
    membership=8,
).settled()
_WANTED: dict[str, tuple[float, ...]] = {
    DP: (math.inf, EPSILON),
    MASK_DP: (EPSILON,),
    PUBLIC: (EPSILON, math.inf),
}


def learned(told: bench.Told = bench.quiet) -> Chapter:
    """Draw people, train every way with three seeds, test on others."""
    with _one_thread():
        found = run.measure(PLAN, _WANTED, WORLD, journal=bench.Journal(), told=told)
    about = f"Stage, {WORLD.world.subjects} people, another world than the public one"
    found = replace(found, about=about)
    plan = PLAN.method(SHARED, EPSILON).plan_run(found.units)
    shared = {relation.value: plan.epsilon(relation) for relation in RELATIONS}
    rows, said = _rows(found, shared), mask_dp.sentences(found)
    return Chapter(
        sections=[
            page.Section(
                title="A model that is trained privately",
                body=page.table(HEADING, rows)
                + page.listing(said)
                + page.figure(mask_dp.class_bars(found, epsilon=EPSILON)),
                has_originals=True,
                part=PagePart.ATTACKS,
            ),
            page.Section(
                title="A model: what is kept against who is found",
                body=page.figure(membership.kept(found.members, this=(MASK_DP, EPSILON))),
                has_originals=True,
                part=PagePart.FRONTIER,
            ),
        ],
        systems=[_system(found)],
        data={
            "training": {
                "cells": [cell.plain() for cell in found.cells],
                "sentences": said,
                "shared_batch": {"claimed": EPSILON, "valid": False, "true_epsilon": shared},
            }
        },
    )


def _system(found: Found) -> System:
    """MaskDP, and who is found among those it learned from."""
    cells = {(cell.method, cell.epsilon): cell for cell in found.cells}
    cell, free = cells[MASK_DP, EPSILON], cells[DP, math.inf]
    return System(
        name="MaskDP: a model of films",
        protects=cell.unit,
        epsilon=f"{shown(cell.proved['replace_one'], 4)}, delta {PLAN.delta:g}",
        good_for=f"names {bench.percent(cell.top_1)} % of activities right; without privacy "
        f"{bench.percent(free.top_1)}",
        attack=_members(found),
    )


def _members(found: Found) -> str:
    """What the best attacker finds at 1 % false alarms, with and without noise."""
    best = {
        epsilon: max(
            one.published[0].value
            for one in found.members
            if (one.row, one.epsilon) == (MASK_DP, epsilon)
        )
        for epsilon in (None, EPSILON)
    }
    before, after = (f"{100 * best[epsilon]:.1f} %" for epsilon in (None, EPSILON))
    return f"{before}, then {after} of those it learned from, at 1 % false alarms"


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """The films are small; on a busy machine threads would mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _rows(found: Found, shared: dict[str, float]) -> list[tuple[str, ...]]:
    """Lines of the table; the published form, one batch for both parts, is only reckoned."""
    lines = []
    for cell in found.cells:
        if cell.method == PUBLIC and cell.epsilon == math.inf:
            continue  # the same run
        is_open = cell.method == DP and not cell.proved
        name = "no privacy" if is_open else cell.method
        unit = "nothing" if is_open else cell.unit
        proved = [shown(cell.proved[r.value], 4) if cell.proved else "-" for r in RELATIONS]
        lines.append((name, unit, *proved, bench.percent(cell.top_1)))
    zeroed, replaced = (shown(shared[r.value], 4) for r in RELATIONS)
    claim = f"{replaced} (CLAIMED, NOT VALID: {EPSILON:g})"
    lines.append((f"{MASK_DP} as published", PIXELS, zeroed, claim, "not trained"))
    return lines
