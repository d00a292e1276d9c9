"""The pose tables in words and pictures: what is said is computed from the cells."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from masquerade import _json
from masquerade._formatting import shown
from masquerade.recipes import bench
from masquerade.recipes.pose.rows import (
    BOTH,
    DP,
    FEATURE,
    FEATURES_ONLY,
    FREE,
    NO_PRIVACY,
    PHOTOS_ONLY,
    PROJECTED,
    STRATEGY_WORDS,
    UNITS,
    PoseCell,
    PoseFound,
)
from masquerade.recipes.verdict import Runs
from masquerade.report import plots as plots_of_report

_RIVALS = (DP, PROJECTED, FEATURE)
_OUTSIDE = ("out", "page", "weights", "quick")  # of a plan: not what it measures


def title(found: PoseFound) -> str:
    """Of the section."""
    coarse = "; how coarse psi may be" if found.coarse else ""
    return f"Poses, {found.plan.settled().network}, setting {found.plan.setting}{coarse}"


def plain(found: PoseFound) -> dict[str, Any]:
    """As JSON."""
    setting = {name: value for name, value in vars(found.plan).items() if name not in _OUTSIDE}
    return {
        "setting": _json.encode(setting),
        "left_open": list(found.plan.left_open),
        "about": found.about,
        "units": found.taught,
        "tested": found.tested,
        "cells": [_cell(cell) for cell in found.cells],
        "coarse": [_cell(cell) for cell in found.coarse],
        "sentences": sentences(found),
    }


def _cell(cell: PoseCell) -> dict[str, Any]:
    known = dict(_json.encode(cell))
    return known | {"epsilon": None if cell.epsilon == math.inf else cell.epsilon}


def markdown(found: PoseFound) -> str:
    """The tables, and what they show."""
    parts = [
        f"{found.about}. {found.taught} private photos, {found.tested} to test on; PCKh@0.5 in per "
        f"cent, mean and spread over {found.plan.seeds} runs. Each private cell has the best of "
        f"the clip norms {', '.join(f'{c:g}' for c in found.plan.clip_norms or ())}."
    ]
    for strategy in found.strategies:
        for relation in found.relations or ["replace_one"]:
            parts += [
                f"### Trained: {STRATEGY_WORDS[strategy]}; epsilon of one record under {relation}, "
                f"delta {found.plan.delta:.3g}",
                table(found, strategy, relation),
            ]
    if found.coarse:
        parts += ["### How coarse the public picture may be", coarse_table(found)]
        whole = found.named.get("")
        if whole is not None:
            parts.append(
                f"The attacker knows half of the photos of {whole.count} people by name and sees "
                f"psi of the others; by whole photos {_reads(found, '')} per cent, by guessing "
                f"{100 * (whole.chance or 0):.0f}."
            )
    parts += ["### What they show", bench.listing(sentences(found))]
    parts += [bench.listing(found.plan.left_open)]
    return "\n\n".join(parts) + "\n"


def table(found: PoseFound, strategy: str, relation: str) -> str:
    """Markdown: a row a method, a column an epsilon; what the noise really gives comes last."""
    epsilons = sorted(found.plan.epsilons or ())
    rows = []
    for name in FREE:
        cell = found.free(name, strategy)
        if cell is not None:
            rows.append([name, UNITS[name], *[str(cell.runs)] * len(epsilons)])
    known = {"strategy": strategy, "relation": relation}
    for name in found.plan.methods:
        cells = [found.best(name, epsilon, **known) for epsilon in epsilons]
        words = [_worded(cell) for cell in cells]
        rows.append([name, UNITS[name], *words])
    other = "zero_out" if relation == "replace_one" else "replace_one"
    cells = [_any(found, epsilon, **known) for epsilon in epsilons]
    said = ["-" if cell is None else shown(cell.proved[other]) for cell in cells]
    rows.append([f"epsilon of the same runs under {other}", "", *said])
    return bench.table(["method", "what is protected", *(f"{e:g}" for e in epsilons)], rows)


def _any(found: PoseFound, epsilon: float, **known: str) -> PoseCell | None:
    """A cell of that epsilon: all methods have one noise."""
    every = (found.best(name, epsilon, **known) for name in found.plan.methods)
    return next((cell for cell in every if cell is not None), None)


def _worded(cell: PoseCell | None) -> str:
    return "-" if cell is None else f"{cell.runs} (C {cell.clip_norm:g})"


def coarse_table(found: PoseFound) -> str:
    """Markdown: how coarse psi is, and what is learned with it."""
    rows = []
    for cell in found.coarse:
        epsilon = "-" if cell.epsilon == math.inf else f"{cell.epsilon:g}"
        rows.append([cell.psi, cell.method, epsilon, str(cell.runs), _reads(found, cell.psi)])
    heading = ["psi", "method", "epsilon", "PCKh@0.5"]
    heading.append("an attacker names by psi, per cent (95 % interval)")
    return bench.table(heading, rows)


def _reads(found: PoseFound, psi: str) -> str:
    one = found.named.get(psi)
    return (
        "-"
        if one is None
        else f"{100 * one.value:.0f} ({100 * one.low:.0f} to {100 * one.high:.0f})"
    )


def sentences(found: PoseFound) -> list[str]:
    """Feature-projective against every other row, at each epsilon."""
    said = []
    for strategy in found.strategies:
        for relation in found.relations:
            for epsilon in sorted(found.plan.epsilons or ()):
                said += _compared(found, strategy, relation, epsilon)
    return said


def _compared(found: PoseFound, strategy: str, relation: str, epsilon: float) -> list[str]:
    known = {"strategy": strategy, "relation": relation}
    ours = found.best(BOTH, epsilon, **known)
    if ours is None:
        return []
    others: dict[str, PoseCell | None] = {
        name: found.best(name, epsilon, **known) for name in _RIVALS
    }
    others |= {name: found.free(name, strategy) for name in (FEATURES_ONLY, PHOTOS_ONLY)}
    others |= {NO_PRIVACY: found.free(NO_PRIVACY, strategy)}
    words = [
        f"{ours.beside(cell)} ({_gap(ours.runs, cell.runs)}) {name}"
        for name, cell in others.items()
        if cell is not None
    ]
    where = f"{STRATEGY_WORDS[strategy]}, epsilon {epsilon:g} under {relation}"
    return [f"{where}: {BOTH}, beside each other row: {'; '.join(words)}."] if words else []


def _gap(one: Runs, other: Runs) -> str:
    return f"{100 * (one.mean - other.mean):+.1f} points, n = {len(one.shares)} runs"


def plots(found: PoseFound) -> dict[str, str]:
    """A figure a strategy, relation and clip norm: PCKh over epsilon; and the frontier."""
    drawn = {}
    for strategy in found.strategies:
        for relation in found.relations:
            for clip_norm in found.plan.clip_norms or ():
                name = f"pose_{strategy}_{relation}_{clip_norm:g}".replace(".", "_")
                lines = _lines(found, strategy, relation, clip_norm)
                if not lines:
                    continue
                axes = plots_of_report.Axes(
                    title=f"{STRATEGY_WORDS[strategy]}, C {clip_norm:g}, {relation}",
                    x_label="epsilon",
                    y_label="PCKh@0.5, per cent",
                )
                drawn[name] = plots_of_report.draw_lines(lines, axes)
    return drawn | ({"pose_coarse": coarse_plot(found)} if found.coarse else {})


def _lines(
    found: PoseFound, strategy: str, relation: str, clip_norm: float
) -> list[plots_of_report.Line]:
    points = [
        (cell.method, cell.epsilon, 100 * cell.runs.mean)
        for cell in found.cells
        if (cell.strategy, cell.relation, cell.clip_norm) == (strategy, relation, clip_norm)
        and cell.proved
    ]
    lines = bench.curves(points)
    if not lines:
        return []
    ends = np.array([min(found.plan.epsilons or (1,)), max(found.plan.epsilons or (1,))])
    for name in FREE:
        cell = found.free(name, strategy)
        if cell is not None:
            level = np.full(2, 100 * cell.runs.mean)
            lines.append(plots_of_report.Line(name=name, x=ends, y=level, is_faint=True))
    return lines


def coarse_plot(found: PoseFound) -> str:
    """PCKh over what psi gives away: people named by it, or the side of a block if nobody asked."""
    if not found.named:
        sides = dict(zip([c.psi for c in found.coarse[::2]], found.plan.blocks, strict=True))
        points = [(c.method, float(sides[c.psi]), 100 * c.runs.mean) for c in found.coarse]
        axes = plots_of_report.Axes(
            title="How coarse psi is, and what is learned",
            x_label="side of a block in pixels of a 256 x 192 crop",
            y_label="PCKh@0.5, per cent",
        )
        return plots_of_report.draw_lines(bench.curves(points), axes)
    dots = []
    for cell in found.coarse:
        one, error = found.named[cell.psi], 100 * cell.runs.spread
        dots.append(
            plots_of_report.Dot(
                name=f"{cell.method}, {_short(cell.psi)}",
                given_away=100 * one.value,
                low=100 * one.low,
                high=100 * one.high,
                kept=100 * cell.runs.mean,
                spread=0.0 if math.isnan(error) else error,
                is_proved=bool(cell.proved),
            )
        )
    axes = plots_of_report.Axes(
        title="What psi gives away, and what is learned with it",
        x_label="people whom an attacker names by psi, per cent",
        y_label="PCKh@0.5, per cent",
    )
    return plots_of_report.draw_frontier(dots, axes)


def _short(psi: str) -> str:
    """The size of psi's blocks alone."""
    return psi.partition("means of ")[2].partition(" pixels")[0] or psi
