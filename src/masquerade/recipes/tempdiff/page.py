"""TEMPDIFF's figures as tables and pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from masquerade.recipes import bench, membership
from masquerade.recipes.tempdiff.rows import COMPARED, Examined, Marks, Pupils, mean
from masquerade.recipes.tempdiff.says import between, operating, sentences
from masquerade.report import plots as plots_of_report

__all__ = ["markdown", "plots", "sentences", "title"]
KINDS = {"forest": "forests", "lstm": "LSTMs", "nearest": "nearest neighbours"}
_HELPED = {True: "", False: " + other public windows"}


def title(found: Examined, teacher: str, data: str) -> str:
    """Of the section, with whose epsilons it has."""
    return f"TEMPDIFF with {KINDS[teacher]}: {data}; epsilon for one teacher's data, and one person"


def markdown(found: Examined) -> str:
    """Tables, then what they show."""
    first = found.queries[0]
    parts = [
        f"### As published: {first} queries, epsilon for one teacher's data and for one person",
        "Figures 5 and 6: labels that are true after noise, then students of these labels, in per "
        "cent; the epsilons are upper bounds, whatever the votes were.",
        _noise(found, first),
        "### Table I and Figure 8: what the paper would print, and what holds",
        _table_1(found),
    ]
    if found.values("epsilon"):
        parts += [
            f"### Shards of whole people: {found.person_queries} queries, epsilon for one person",
            _shipped(found),
        ]
    parts += ["### What they show", bench.listing(sentences(found))]
    parts += membership.section(found.members)
    return "\n\n".join(parts) + "\n"


def _noise(found: Examined, queries: int) -> str:
    cells = [cell for cell in found.scores if cell.gamma is not None and cell.queries == queries]
    gammas = list(dict.fromkeys(cell.gamma for cell in cells))
    heading = ["ensemble", "one person reaches", "a teacher is right", "agreement"]
    heading += [f"gamma {gamma:g}" for gamma in gammas]
    rows = []
    for who, by, size in dict.fromkeys((cell.who, cell.by, cell.teachers) for cell in cells):
        facts = found.ensembles[who, by, size]
        own = [cell for cell in cells if (cell.who, cell.teachers) == (who, size)]
        rows.append(
            [
                f"{who}, {size}, by {by}",
                _counts(facts.reach),
                f"{mean(facts.teacher):.1f}",
                bench.percent(facts.agreement),
                *(f"{mean(found.scores[c].right):.1f}, {found.runs(c)}" for c in own),
            ]
        )
    for unit, name in (("teacher", "one teacher's data"), ("person", "one person")):
        by_gamma = [
            [
                getattr(c, unit)
                for cell in cells
                if cell.gamma == g
                for c in found.scores[cell].claims
            ]
            for g in gammas
        ]
        rows.append([f"epsilon at most, {name}", "", "", "", *map(between, by_gamma)])
    return bench.table(heading, rows)


def _counts(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def _table_1(found: Examined) -> str:
    heading = ["method", "queries", "teachers", "gamma", "the paper would print"]
    heading += ["epsilon at most, one teacher's data", "epsilon at most, one person", "student"]
    heading += ["student of the true labels"]
    rows = []
    for cell in operating(found):
        claims = found.scores[cell].claims
        truth = found.one(who="true labels", queries=cell.queries, is_alone=True)
        rows.append(
            [
                cell.who,
                *(f"{value:g}" for value in (cell.queries, cell.teachers, cell.gamma or 0.0)),
                f"{np.mean([claim.at_8_moments for claim in claims]):.1f}, an estimate",
                between([claim.teacher for claim in claims]),
                between([claim.person for claim in claims]),
                *(str(runs) for runs in (found.runs(cell), truth)),
            ]
        )
    return bench.table(heading, rows)


def _shipped(found: Examined) -> str:
    epsilons = found.values("epsilon")
    heading = ["students", *(f"epsilon {e:g}" for e in epsilons), "no noise"]
    rows: dict[str, list[str]] = {}
    for cell in found.scores:
        if cell.gamma is not None or not _is_beside(cell, found):
            continue
        column = 1 + (epsilons.index(cell.epsilon) if cell.epsilon else len(epsilons))
        name = cell.row + _HELPED[cell.is_alone]
        blank = [name, *["-"] * (len(heading) - 1)]
        rows.setdefault(name, blank)[column] = str(found.runs(cell))
    return bench.table(heading, rows.values())


def _is_beside(cell: Pupils, found: Examined) -> bool:
    """Whether it belongs to the table for a person's epsilon."""
    return cell.who != "true labels" or cell.queries == found.person_queries


def plots(found: Examined, stem: str) -> dict[str, str]:
    """Students as published against gamma; students for a person's epsilon against it."""
    drawn = {f"{stem}_published": _published_plot(found)}
    if found.values("epsilon"):
        drawn[f"{stem}_person"] = _person_plot(found)
    if found.members:
        drawn[f"{stem}_members"] = membership.drawn(found.members)
        drawn[f"{stem}_frontier"] = membership.kept(found.members)
    return drawn


def _published_plot(found: Examined) -> str:
    sizes = found.published_sizes
    named: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for cell, held in found.scores.items():
        if cell.gamma is not None and cell.queries == found.queries[0]:
            point = math.log10(cell.gamma), mean(held.top_1)
            named.setdefault((cell.who, cell.teachers), []).append(point)
    lines = [
        plots_of_report.Line(
            name=f"{who}, {size}",
            x=np.array(sorted(points))[:, 0],
            y=np.array(sorted(points))[:, 1],
            is_faint=who == "pate",
            colour=sizes.index(size),
        )
        for (who, size), points in named.items()
    ]
    title = f"Students as published, {found.queries[0]} queries"
    return plots_of_report.draw_lines(
        lines, plots_of_report.Axes(title=title, x_label="log10 gamma", y_label="Top-1")
    )


def _person_plot(found: Examined) -> str:
    """What students are compared with as lines from side to side."""
    lines = bench.curves(
        (cell.row + _HELPED[cell.is_alone], math.log10(cell.epsilon), mean(held.top_1))
        for cell, held in found.scores.items()
        if cell.epsilon is not None and _is_curve(cell, found)
    )
    epsilons = found.values("epsilon")
    ends = np.log10(np.array([epsilons[0], epsilons[-1]]))
    for cell, held in found.scores.items():
        if cell.who in COMPARED and not cell.is_alone and _is_beside(cell, found):
            lines.append(_level(cell, held, ends))
    axes = plots_of_report.Axes(
        title="Students for a person's epsilon",
        x_label="log10 epsilon for one person",
        y_label="Top-1",
    )
    return plots_of_report.draw_lines(lines, axes)


def _is_curve(cell: Pupils, found: Examined) -> bool:
    same = found.find(
        who=cell.who,
        teachers=cell.teachers,
        aggregator=cell.aggregator,
        is_alone=cell.is_alone,
        gamma=None,
    )
    return len(same) > 1


def _level(cell: Pupils, held: Marks, ends: np.ndarray) -> plots_of_report.Line:
    name = cell.who + _HELPED[cell.is_alone]
    return plots_of_report.Line(name=name, x=ends, y=np.full(2, mean(held.top_1)), is_faint=True)
