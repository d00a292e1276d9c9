"""MaskDP's tables in words and pictures: what is said is computed from the cells."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from masquerade.recipes import bench
from masquerade.recipes.bench import percent
from masquerade.recipes.mask_dp.rows import (
    DP,
    MASK_DP,
    MULTI_CLIP,
    PUBLIC,
    ROWS,
    SCRATCH,
    SHARED,
    Cell,
    Found,
)
from masquerade.report import bars, plot

_SHARED = (
    *("network", "weights", "part", "epochs", "scratch_epochs", "batch", "seeds", "device"),
    *("private", "relation"),
)
_MOSTLY = 0.9  # of what all pixels teach


def plain(found: Found) -> dict[str, Any]:
    """As JSON; of a path only that there is one."""
    setting = {name: getattr(found.plan, name) for name in _SHARED}
    return {
        "views": "real",
        "setting": setting | {"weights": found.plan.weights and "PATH"},
        "about": found.about,
        "units": found.units,
        "tested": found.tested,
        "cells": [cell.plain() for cell in found.cells],
        "sentences": sentences(found),
    }


def markdown(found: Found) -> str:
    """The table, and what it shows."""
    return f"{table(found)}\n\n{bench.listing(sentences(found))}\n"


def table(found: Found) -> str:
    """Markdown: a row a method, a column an epsilon."""
    rows = []
    for method in dict.fromkeys(cell.method for cell in found.cells):
        cells = [found.cell(method, epsilon) for epsilon in found.epsilons]
        words = ["-" if cell is None else shown(cell) for cell in cells]
        rows.append([method, ROWS[method].unit, *words])
    return bench.table(["method", "what is protected", *map(_at, found.epsilons)], rows)


def shown(cell: Cell) -> str:
    """A cell: per cent right, and what was proved under each relation."""
    proved = cell.told
    if proved and ROWS[cell.method].is_claim:
        proved = f"CLAIMED, NOT VALID: {cell.epsilon:g}; true: {proved}"
    return f"{percent(cell.top_1)} ({proved})" if proved else percent(cell.top_1)


def _at(epsilon: float) -> str:
    return "no noise" if epsilon == math.inf else f"epsilon {epsilon:g}"


def compared(one: Cell, other: Cell) -> str:
    """Whether the first is ahead by more than both spreads: ahead, behind, within the spread."""
    gap, room = one.mean - other.mean, one.spread + other.spread
    if math.isnan(room):
        return "not known from one seed"
    return "within the spread" if abs(gap) <= room else "ahead" if gap > 0 else "behind"


def _pairs(found: Found, one: str, other: str, most: float) -> list[tuple[Cell, Cell]]:
    """Cells of two rows at the same epsilon, where both were measured."""
    cells = [(found.cell(one, e), found.cell(other, e)) for e in found.epsilons if e <= most]
    return [(first, second) for first, second in cells if first and second]


def verdict(
    found: Found, question: str, one: str, other: str, *, most: float = math.inf
) -> list[str]:
    """One sentence: yes, no, within the spread or not known, and the numbers behind it.

    Args:
        found: all cells.
        question: with "at every epsilon" or the like in it, no question mark.
        one: the row that may be ahead.
        other: of this one.
        most: the largest epsilon that is looked at.

    Returns:
        The sentence, or nothing if the rows were not measured together.
    """
    pairs = _pairs(found, one, other, most)
    if not pairs:
        return []
    words = [compared(*pair) for pair in pairs]
    told = [
        f"{_at(a.epsilon)}: {percent(a.top_1)} against {percent(b.top_1)}, {word}"
        for (a, b), word in zip(pairs, words, strict=True)
    ]
    ranks = ("behind", "not known from one seed", "within the spread", "ahead")
    word = min(words, key=ranks.index)
    said = {"ahead": "yes", "behind": "no"}.get(word, word)
    return [f"{question}? {said.capitalize()}; {'; '.join(told)}."]


def sentences(found: Found) -> list[str]:
    """What the table shows, each sentence computed."""
    scratch = "Is DP fine-tuning from public pre-training ahead of training from scratch"
    equal = "Is MaskDP ahead of DP at equal epsilon, for each epsilon up to 1"
    public = "Is MaskDP ahead of its public part, at every epsilon"
    segments = "Is MultiClip ahead of DP on one segment, at every epsilon"
    return [
        *verdict(found, f"{scratch}, at every epsilon", DP, SCRATCH),
        *verdict(found, equal, MASK_DP, DP, most=1.0),
        *_equal(found),
        *verdict(found, public, MASK_DP, PUBLIC),
        *_sides(found),
        *verdict(found, segments, MULTI_CLIP, DP),
        *_claims(found),
        _ways(found),
        "Each epsilon is of one run alone; all runs of a table together cost more.",
    ]


def _equal(found: Found) -> list[str]:
    """At which epsilons the two were compared, under both relations."""
    told = [
        one.told if one.told == other.told else f"MaskDP {one.told}, DP {other.told}"
        for one, other in _pairs(found, MASK_DP, DP, 1.0)
    ]
    if not told:
        return []
    return [
        f"These two were compared at {'; '.join(told)}. Equal numbers are not equal promises: DP's "
        "is for the whole recording, MaskDP's for its private pixels alone."
    ]


def _sides(found: Found) -> list[str]:
    """How much is learned from what is public."""
    public, full = (found.cell(method, math.inf) for method in (PUBLIC, DP))
    if public is None or full is None:
        return []
    sides = ("background", "people"), ("people", "background with the outline of the people")
    private, shared = sides[found.plan.private == "person"]
    rest = "mostly" if public.mean >= _MOSTLY * full.mean else "not mostly"
    return [
        f"Private: {private}; public: {shared}. Without noise the public part alone reaches "
        f"{percent(public.top_1)} of the {percent(full.top_1)} that all pixels reach (chance: "
        f"{100 / len(found.classes):.1f}): the activity is {rest} in what is public here."
    ]


def _claims(found: Found) -> list[str]:
    """What the published form really costs."""
    told = [
        f"claims {cell.epsilon:g}, costs {cell.told}"
        for cell in found.cells
        if cell.method == SHARED and cell.proved
    ]
    if not told:
        return []
    return [
        "One batch for both parts, as published, shows who is in it, so its epsilon is CLAIMED, "
        f"NOT VALID: {'; '.join(told)}."
    ]


def _ways(found: Found) -> str:
    plan = found.plan
    scratch = (
        f" From scratch all weights are trained, with adam, for {plan.scratch_epochs:g} epochs."
        if any(cell.method == SCRATCH for cell in found.cells)
        else ""
    )
    return (
        f"Learned from {found.units} recordings: {found.about}; {plan.network}, part "
        f"{plan.part}, {plan.epochs:g} epochs, {min(plan.batch, found.units)} in a batch "
        f"on average; every epsilon is met under {plan.relation}, at delta 1e-5.{scratch} "
        f"Tested on the middle segment of {found.tested} recordings of other people, in per cent. "
        f"± is the standard deviation over {plan.seeds} seeds, and a row is ahead if it is by "
        f"more than both; so few test recordings alone leave "
        f"{50 / math.sqrt(found.tested):.1f} points unsure."
    )


def plots(found: Found) -> dict[str, str]:
    """Both pictures, by name."""
    stem = "mask_dp" if found.plan.private == "background" else "mask_dp_person"
    return {f"{stem}_top_1": _top_1(found), f"{stem}_figure_5": class_bars(found)}


def _top_1(found: Found) -> str:
    """Per cent right against epsilon; without noise as a faint level."""
    finite = [epsilon for epsilon in found.epsilons if epsilon < math.inf]
    lines = bench.curves(
        (cell.method, math.log10(cell.epsilon), 100 * cell.mean)
        for cell in found.cells
        if cell.epsilon in finite
    )
    full = found.cell(DP, math.inf)
    if full is not None:
        x = np.log10([finite[0], finite[-1]])
        level = np.full(2, 100 * full.mean)
        lines.append(plot.Line(name="DP, no noise", x=x, y=level, is_faint=True))
    axes = plot.Axes(
        title=f"Top-1 against epsilon, {found.plan.private} private",
        x_label="epsilon as a power of ten: 0 is epsilon 1",
        y_label="per cent right",
    )
    return plot.svg(lines, axes)


def class_bars(found: Found, *, epsilon: float = 1.0) -> str:
    """MaskDP's Figure 5: how each class fares with and without noise [schneider2024, Fig. 5]."""
    chosen = {
        "no privacy": found.cell(DP, math.inf),
        f"DP, epsilon {epsilon:g}": found.cell(DP, epsilon),
        f"MaskDP, epsilon {epsilon:g}": found.cell(MASK_DP, epsilon),
    }
    series = [
        bench.bars_of(name, [cell.per_class[one] for one in found.classes])
        for name, cell in chosen.items()
        if cell is not None
    ]
    axes = plot.Axes(
        title=f"Each class, {found.plan.private} private", x_label="", y_label="per cent right"
    )
    return bars.svg(series, found.classes, axes, limits=(0.0, 100.0))
