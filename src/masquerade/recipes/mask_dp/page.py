"""MaskDP's tables in words and pictures: what is said is computed from the cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from masquerade import _json
from masquerade._formatting import shown
from masquerade.recipes import bench, membership
from masquerade.recipes.mask_dp.blocks import AVATARS
from masquerade.recipes.mask_dp.compare import PAIRS, at, comparisons, crossed_in_words, verdict
from masquerade.recipes.mask_dp.rows import (
    ALONE,
    DP,
    FREE,
    MASK_DP,
    PUBLIC,
    RELATIONS,
    ROWS,
    SCRATCH,
    SHARED,
    UNITS,
    Cell,
    Found,
    Panel,
)
from masquerade.recipes.mask_dp.settings import CHOSEN
from masquerade.recipes.verdict import Runs
from masquerade.report import bars
from masquerade.report import plots as plots_of_report

_SHARED = (
    *("setting", "network", "weights", "part", "view", "epsilons", "delta", "clip_norm", "batch"),
    *("epochs", "scratch_epochs", "warmup_epochs", "schedule", "momentum", "learning_rate"),
    "clean_learning_rate",
    *("mask_batch", "mask_learning_rate", "weight", "public_batch", "public_learning_rate"),
    *(
        "published_learning_rate",
        "seeds",
        "copies",
        "taught",
        "private",
        "relations",
        "correlations",
        "render",
        "membership",
        "device",
    ),
)
_SHORT = {ALONE: "weights alone", PUBLIC: "public part"}  # beside a plot
Score = Callable[[Cell], Runs]
TOP_1: Score = lambda cell: cell.runs  # noqa: E731
PER_CLASS: Score = lambda cell: cell.class_runs  # noqa: E731


def title(found: Found) -> str:
    """Of the section."""
    places = ", with more and less of the activity in it" if found.plan.correlations else ""
    drawn = ", people replaced by avatars" if found.plan.render else ""
    return f"MaskDP, {found.plan.private} private{places}{drawn}"


def plain(found: Found) -> dict[str, Any]:
    """As JSON; of a path only that there is one."""
    setting = {name: getattr(found.plan, name) for name in _SHARED}
    columns = ["inf" if e == math.inf else e for e in setting["epsilons"] or ()]
    return {
        "views": "real",
        "setting": setting | {"weights": found.plan.weights and "PATH", "epsilons": columns},
        "chosen": {relation: _chosen(found, relation) for relation in found.relations},
        "left_open": list(found.plan.left_open),
        "about": found.about,
        "units": found.units,
        "tested": found.tested,
        "cells": [cell.plain() for cell in found.cells],
        "comparisons": comparisons(found),
        "sentences": sentences(found),
        "members": [_json.encode(one) for one in found.members],
    }


def _chosen(found: Found, relation: str) -> dict[str, Any]:
    """What may differ between relations."""
    plan = found.plan.under(relation)
    return {name: getattr(plan, name) for name in CHOSEN}


def markdown(found: Found) -> str:
    """The tables, and what they show."""
    parts = []
    for relation in found.relations:
        said = f"epsilon of one recording under {relation}, delta {found.plan.delta:g}"
        parts += [f"### Top-1, {said}", table(found, relation, TOP_1)]
        if not is_even(found):
            parts += [f"### Mean over classes, {said}", table(found, relation, PER_CLASS)]
    parts += ["### What they show", bench.listing(sentences(found))]
    parts += membership.section(found.members)
    return "\n\n".join(parts) + "\n"


def is_even(found: Found) -> bool:
    """Whether the mean over classes is Top-1 everywhere: all classes are tested equally often."""
    return all(np.allclose(c.runs.shares, c.class_runs.shares, atol=1e-9) for c in found.cells)


def table(found: Found, relation: str, score: Score) -> str:
    """Markdown: a row a method, a column an epsilon; what the noise really gives comes last."""
    panels = [panel for panel in found.panels() if panel.relation == relation]
    rows = []
    for panel in panels:
        for method in found.methods:
            cells = [found.cell(method, epsilon, panel) for epsilon in found.epsilons]
            if any(cells):
                name = f"{method}, {panel.place}" if panel.place else method
                words = ["-" if cell is None else str(score(cell)) for cell in cells]
                rows.append([_marked(name, method), UNITS[method], *words])
    rows += _proved(found, panels[0])
    return bench.table(["method", "what is protected", *map(at, found.epsilons)], rows)


def _marked(name: str, method: str) -> str:
    is_claim = method in ROWS and ROWS[method].is_claim
    return f"{name}: epsilon CLAIMED, NOT VALID" if is_claim else name


def _proved(found: Found, panel: Panel) -> list[list[str]]:
    """What the noise of sound rows gives under the other relation, and the published one's under
    both.
    """
    other = next(r.value for r in RELATIONS if r.value != panel.relation)
    sound = [m for m in found.methods if m in ROWS and not ROWS[m].is_claim and m not in FREE]
    wanted = [(f"epsilon of the sound rows under {other}", sound, other)]
    if SHARED in found.methods:
        wanted += [
            (f"true epsilon, exact, of {SHARED} under {r.value}", [SHARED], r.value)
            for r in RELATIONS
        ]
    rows = []
    for name, methods, relation in wanted:
        words = []
        for epsilon in found.epsilons:
            cells = [found.cell(method, epsilon, panel) for method in methods]
            words.append(_range([c.proved[relation] for c in cells if c and c.proved]))
        rows.append([name, "", *words])
    return rows


def _range(values: Sequence[float]) -> str:
    """One number, or the least and the largest."""
    if not values:
        return "-"
    least, most = shown(min(values), 3), shown(max(values), 3)
    return least if least == most else f"{least} to {most}"


def sentences(found: Found) -> list[str]:
    """What the tables show, each sentence computed."""
    return [
        *(said for pair in PAIRS for said in verdict(found, pair)),
        *crossed_in_words(found),
        "Equal numbers are not equal promises: DP's is for the whole recording, MaskDP's for its "
        "private pixels alone.",
        *_sides(found),
        *_classes(found),
        *_noise(found),
        *_departs(found),
        *_drawn(found),
        _ways(found),
        *found.plan.left_open,
        "Each epsilon is of one run alone; all runs of a table together cost more.",
    ]


def _sides(found: Found) -> list[str]:
    """How much is learned from what is public."""
    told = []
    for panel in found.panels():
        public, full = (found.cell(method, math.inf, panel) for method in (PUBLIC, DP))
        if public and full and panel.relation == found.relations[0]:
            where = f"{panel.place}: " if panel.place else ""
            told.append(f"{where}{public.runs} of {full.runs}")
    if not told:
        return []
    sides = ("background", "people"), ("people", "background with the outline of the people")
    private, public_side = sides[found.plan.private == "person"]
    return [
        f"Private: {private}; public: {public_side}. Of what all pixels teach without noise the "
        f"public part alone reaches {'; '.join(told)} (chance: {100 / len(found.classes):.1f})."
    ]


def _classes(found: Found) -> list[str]:
    if not is_even(found):
        return []
    return [
        "Every class has as many test recordings as every other, so the mean over classes is the "
        "same number."
    ]


def _noise(found: Found) -> list[str]:
    """How loud the noise is beside what it hides."""
    told = []
    for method in (DP, MASK_DP):
        loud = [c for e in found.epsilons if (c := found.cell(method, e)) and c.noise_norm > 0]
        if loud:
            norms = ", ".join(f"{c.noise_norm:.2g} at {at(c.epsilon)}" for c in loud)
            told.append(f"{method} {norms}, over {loud[0].steps} steps")
    if not told:
        return []
    return [
        f"Norm of the noise in a step's mean gradient, whose private part has norm "
        f"{found.plan.clip_norm:g} at most: {'; '.join(told)}."
    ]


def _departs(found: Found) -> list[str]:
    if SHARED not in found.methods:
        return []
    return [
        f"{SHARED} is Algorithm 2 as printed: one batch for both parts, private tokens alone in "
        "the private gradient, both sums divided by the size of the batch, no momentum. One batch "
        "shows who is in it, so its epsilon is CLAIMED, NOT VALID.",
        f"{MASK_DP}, the sound form, departs: batches of their own, division by the public "
        f"expected size, and {_saw(found)} in the private gradient.",
    ]


def _drawn(found: Found) -> list[str]:
    if not found.plan.render:
        return []
    return [
        f"{AVATARS.capitalize()}: films whose people were replaced by drawn figures. Public is "
        "eroded r, what is drawn for certain; all else is private. Pose and place are taken from "
        "the private film, so MaskDP's epsilon is not for them; see the page on avatars.",
        "Original films are of the same recordings, size and length; people are public there as "
        "they are. Settings were chosen on original films of 64 x 64 pixels.",
    ]


def _saw(found: Found) -> str:
    return "whole recordings" if found.plan.view == "whole" else "private pixels alone"


def _ways(found: Found) -> str:
    plan = found.plan
    scratch = (
        f" From scratch all weights are trained, with adam, for {plan.scratch_epochs:g} epochs."
        if SCRATCH in found.methods
        else ""
    )
    return (
        f"Learned from {found.units} recordings: {found.about}; {plan.network}, part "
        f"{plan.part}, {plan.epochs:g} epochs, setting {plan.setting}.{scratch} Tested on the "
        f"middle segment of {found.tested} recordings of other people, in per cent. ± is the "
        f"standard deviation over n = {plan.seeds} runs; a row is ahead beyond twice the standard "
        "error of the difference, over runs and tested recordings."
    )


def plots(found: Found) -> dict[str, str]:
    """A picture for each table, by name: Top-1 as curves, classes as bars."""
    stem = "mask_dp" if found.plan.private == "background" else "mask_dp_person"
    stem += "_places" if found.plan.correlations else ""
    stem += "_render" if found.plan.render else ""
    drawn = {}
    for relation in found.relations:
        end = "" if relation == "replace_one" else f"_{relation}"
        drawn[f"{stem}_top_1{end}"] = _top_1(found, relation)
        drawn[f"{stem}_figure_5{end}"] = class_bars(found, relation=relation)
    if found.members:
        drawn[f"{stem}_members"] = membership.drawn(found.members)
        drawn[f"{stem}_frontier"] = membership.kept(found.members)
    return drawn


def _top_1(found: Found, relation: str) -> str:
    """Per cent right against epsilon; what has no noise as faint levels."""
    finite = [epsilon for epsilon in found.epsilons if epsilon < math.inf]
    lines: list[plots_of_report.Line] = []
    for number, panel in enumerate(one for one in found.panels() if one.relation == relation):
        cells = [c for c in found.cells if Panel.of(c) == panel]
        end = f", {panel.place}" if panel.place else ""
        drawn = bench.curves(
            (cell.method + end, math.log10(cell.epsilon), 100 * cell.runs.mean)
            for cell in cells
            if cell.epsilon in finite and cell.method not in FREE
        )
        lines += [
            replace(line, colour=len(drawn) * number + place) for place, line in enumerate(drawn)
        ]
        levels = [(name, found.cell(name, finite[0], panel)) for name in FREE if finite]
        levels.append((f"{DP}, no noise", found.cell(DP, math.inf, panel)))
        for name, cell in levels:
            if cell is not None and finite:
                x = np.log10([finite[0], finite[-1]])
                y = np.full(2, 100 * cell.runs.mean)
                colour = len(drawn) * number
                lines.append(
                    plots_of_report.Line(
                        name=_SHORT.get(name, name) + end, x=x, y=y, is_faint=True, colour=colour
                    )
                )
    axes = plots_of_report.Axes(
        title=f"Top-1 against epsilon, {found.plan.private} private",
        x_label=f"epsilon ({relation}) as a power of ten: 0 is epsilon 1",
        y_label="per cent right",
    )
    return plots_of_report.draw_lines(lines, axes)


def class_bars(found: Found, *, epsilon: float = 1.0, relation: str | None = None) -> str:
    """MaskDP's Figure 5: how each class fares with and without noise [schneider2024, Fig. 5].

    Of several worlds, the last one.
    """
    panel = [b for b in found.panels() if relation in (None, b.relation)][-1]
    chosen = {
        "no privacy": found.cell(DP, math.inf, panel),
        f"DP, epsilon {epsilon:g}": found.cell(DP, epsilon, panel),
        f"MaskDP, epsilon {epsilon:g}": found.cell(MASK_DP, epsilon, panel),
    }
    series = [
        bench.bars_of(name, [cell.per_class[one] for one in found.classes])
        for name, cell in chosen.items()
        if cell is not None
    ]
    end = f", {panel.place}" if panel.place else ""
    axes = plots_of_report.Axes(
        title=f"Each class, {found.plan.private} private{end}", x_label="", y_label="per cent right"
    )
    return bars.draw_bars(series, found.classes, axes, limits=(0.0, 100.0))
