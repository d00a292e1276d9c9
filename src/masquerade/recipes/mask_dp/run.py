"""Measure MaskDP's tables: recordings are read once, in all views; each cell is trained and tested.

Needs no camera, no ledger and no screen: numpy, scipy, torch, torchvision and safetensors, and what
the accountant and the noise need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from masquerade import _json
from masquerade.collection import Collection
from masquerade.data.stage import Stage
from masquerade.recipes import bench, seen
from masquerade.recipes.mask_dp.rows import (
    DP,
    MASK_DP,
    MULTI_CLIP,
    PUBLIC,
    RELATIONS,
    ROWS,
    SCRATCH,
    Cell,
    Found,
)
from masquerade.train.rows import Rows

if TYPE_CHECKING:
    from masquerade.recipes.mask_dp import MaskDpTables

Views = Mapping[str, Rows]  # by the row whose method has this view
_TOGETHER = 8  # recordings that are held at once as they are
_PHYSICAL = {"cpu": 64, "cuda": 192}  # units whose gradients are computed at once
_SCRATCH_PHYSICAL = {"cpu": 8, "cuda": 64}


def measure(
    plan: MaskDpTables,
    wanted: Mapping[str, tuple[float, ...]],
    data: Collection[Any],
    *,
    journal: bench.Journal,
    told: bench.Told = bench.quiet,
) -> Found:
    """Every cell, unless the journal has it.

    The public part has no noise, so it is trained once and stands at every epsilon.

    Args:
        plan: that all share.
        wanted: the epsilons of each row.
        data: with a training and a test split.
        journal: of the run.
        told: how far it is.
    """
    taught, tested = (
        read(plan, split, {view(name, is_test=place == 1) for name in wanted}, told)
        for place, split in enumerate(bench.parts(data))
    )
    pairs = [(name, epsilon) for name, several in wanted.items() for epsilon in several]
    cells = []
    for name, epsilon in pairs:
        asked = wanted[name][0] if name == PUBLIC else epsilon
        work = partial(_cell, plan, (name, asked), taught, tested, data.activities)
        found = _json.decode(Cell, journal.measured(f"{name}, epsilon {asked:g}", work))
        cells.append(replace(found, epsilon=epsilon))
        told("training", len(cells), len(pairs))
    return Found(
        cells=tuple(cells),
        plan=plan,
        about=_about(data),
        units=taught[MASK_DP].units,
        tested=tested[DP].units,
    )


def view(name: str, *, is_test: bool = False) -> str:
    """The row whose view of the recordings serves this one: whole, and for learning filled too."""
    if is_test:
        return name if name == SCRATCH else DP
    return name if name in (SCRATCH, MULTI_CLIP) else MASK_DP


def read(
    plan: MaskDpTables, data: Collection[Any], names: set[str], told: bench.Told = bench.quiet
) -> Views:
    """Read every recording of a split once, in the views of these rows."""
    network = plan.begun()
    net = network.make(len(data.activities), seed=0).to(plan.device)
    ways = {name: plan.method(name) for name in sorted(names)}
    trunks = {name: network.split(net, method.part)[0] for name, method in ways.items()}
    found: dict[str, list[Rows]] = {name: [] for name in ways}
    for start in range(0, len(data), _TOGETHER):
        numbers = range(start, min(start + _TOGETHER, len(data)))
        films = seen.InMemory(films=[data[one] for one in numbers], classes=data.activities)
        for name, method in ways.items():
            rows = seen.rows_of(films, method, network, trunks[name], device=plan.device)
            found[name].append(rows)
        told("reading", numbers[-1] + 1, len(data))
    return {name: seen.joined(parts) for name, parts in found.items()}


def _cell(
    plan: MaskDpTables,
    asked: tuple[str, float],
    taught: Views,
    tested: Views,
    classes: tuple[str, ...],
) -> Cell:
    name, epsilon = asked
    row, method = ROWS[name], plan.method(name, epsilon)
    rows = taught[view(name)]
    rows = rows if method.HAS_PUBLIC else replace(rows, public=None)
    physical = (_SCRATCH_PHYSICAL if row.from_scratch else _PHYSICAL)[plan.device]
    exam, steps = tested[view(name, is_test=True)], method.plan(rows.units)
    truth, scores = exam.targets.cpu().numpy(), []
    for seed in range(plan.seeds):
        net = plan.begun(from_scratch=row.from_scratch).make(len(classes), seed=seed)
        again = plan.method(name, epsilon, public_seed=seed)
        tail = seen.taught(net.to(plan.device), rows, again, steps, physical=physical)
        scores.append(seen.is_right(tail, exam))
    return Cell(
        method=name,
        unit=row.unit,
        epsilon=epsilon,
        top_1=tuple(float(right.mean()) for right in scores),
        per_class={
            classes[one]: tuple(float(right[truth == one].mean()) for right in scores)
            for one in np.unique(truth)
        },
        proved={r.value: steps.epsilon(r) for r in RELATIONS} if steps.noise_multiplier > 0 else {},
        noise_multiplier=steps.noise_multiplier,
        steps=steps.steps,
    )


def _about(data: Collection[Any]) -> str:
    if not isinstance(data, Stage):
        return data.ABOUT.title
    world = data.world
    return (
        f"Stage, {world.subjects} people in {world.videos} videos of {world.frames} frames, "
        f"{world.height} x {world.width}, world {world.seed}, activity and place together with "
        f"chance {world.correlation:g}"
    )
