"""The demo's training: one small network learns with and without privacy, from people of Stage."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from masquerade._optional import require
from masquerade._round import shown
from masquerade.data.stage import Stage
from masquerade.nets import mvit
from masquerade.recipes import mask_dp_cells, mask_dp_rows, mask_dp_text
from masquerade.recipes.mask_dp_cells import DP, MASK_DP, PIXELS, PUBLIC, RELATIONS, SHARED, Setting
from masquerade.recipes.mask_dp_rows import Held, Wanted
from masquerade.recipes.mask_dp_text import Found
from masquerade.report import page
from masquerade.train.views import Private

torch = require("torch", extra="train")
Told = Callable[[str, int, int], None]
EPSILON = 1.0
HEADING = (
    *("training", "what is protected", "epsilon, zero_out", "epsilon, replace_one"),
    "top-1 in per cent",
)
# another world than the one whose public half taught the network: nobody here was seen before
WORLD = Stage(seed=1, height=64, width=64, subjects=84, videos=972, correlation=0.5)
SETTING = Setting(part="head", epochs=10.0, batch=64)
_WANTED: dict[str, tuple[float, ...]] = {
    DP: (math.inf, EPSILON),
    MASK_DP: (EPSILON,),
    PUBLIC: (EPSILON, math.inf),
}


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What was measured.

    Args:
        found: the cells.
        shared: what one batch for both parts, as published, would have cost, by relation.
    """

    found: Found
    shared: dict[str, float]


def learn(told: Told = lambda what, done, total: None) -> Learned:
    """Draw people, train every way with three seeds, test on others.

    Args:
        told: called with what is done, how far, and of how much.
    """
    with _one_thread():
        return _learned(told)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """The films are small; on a busy machine threads would mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _learned(told: Told) -> Learned:
    taught, tested = _splits(told)
    cells = []
    total = sum(map(len, _WANTED.values()))
    for cell in mask_dp_cells.measured(SETTING, _WANTED, (taught, tested), WORLD.activities):
        cells.append(cell)
        told("training privately", len(cells), total)
    units = len(taught.targets)
    found = Found(
        cells=tuple(cells),
        setting=SETTING,
        about=f"Stage, {WORLD.world.subjects} people, another world than the public one",
        units=units,
        tested=len(tested.targets),
    )
    return Learned(found=found, shared=_shared(units))


def _splits(told: Told) -> tuple[Held, Held]:
    """What is learned from, with its public view, and what is tested on."""
    net = SETTING.net(len(WORLD.activities))
    trunk, _ = mvit.split(net, SETTING.part)
    side = Private(SETTING.private)
    taught, tested = (
        mask_dp_rows.read(
            data,
            net,
            trunk,
            Wanted(private=side if data.split == "train" else None),
            device=SETTING.device,
            progress=partial(told, f"drawing, {data.split}"),
        )
        for data in (replace(WORLD, split="train"), replace(WORLD, split="test"))
    )
    return taught, tested


def _shared(units: int) -> dict[str, float]:
    plan = SETTING.method(SHARED, EPSILON).plan(units)
    return {relation.value: plan.epsilon(relation) for relation in RELATIONS}


def rows(learned: Learned) -> list[tuple[str, ...]]:
    """Lines of the table; the published form is only reckoned."""
    lines = []
    for cell in learned.found.cells:
        if cell.method == PUBLIC and cell.epsilon == math.inf:
            continue  # the same run
        is_open = cell.method == DP and not cell.proved
        name = "no privacy" if is_open else cell.method
        unit = "nothing" if is_open else cell.unit
        proved = [shown(cell.proved[r.value], 4) if cell.proved else "-" for r in RELATIONS]
        lines.append((name, unit, *proved, mask_dp_text.score(cell.top_1)))
    zeroed, replaced = (shown(learned.shared[r.value], 4) for r in RELATIONS)
    claim = f"{replaced} (CLAIMED, NOT VALID: {EPSILON:g})"
    lines.append((f"{MASK_DP} as published", PIXELS, zeroed, claim, "not trained"))
    return lines


def section(learned: Learned) -> page.Section:
    """The table, the sentences and a picture of every class."""
    return page.Section(
        title="A model that is trained privately",
        body=page.table(HEADING, rows(learned))
        + page.listing(mask_dp_text.sentences(learned.found))
        + page.figure(mask_dp_text.class_bars(learned.found, epsilon=EPSILON)),
        has_originals=True,
    )


def plain(learned: Learned) -> dict[str, Any]:
    """As JSON."""
    return {
        "cells": [cell.plain() for cell in learned.found.cells],
        "sentences": mask_dp_text.sentences(learned.found),
        "shared_batch": {"claimed": EPSILON, "valid": False, "true_epsilon": learned.shared},
    }
