"""TEMPDIFF's figures in words and pictures: what is said is computed from what was measured."""

from __future__ import annotations

import math

import numpy as np

from masquerade import _round
from masquerade.recipes import bench
from masquerade.recipes.tempdiff.rows import Examined, Students
from masquerade.report import plot

KINDS = {"forest": "forests", "lstm": "LSTMs", "nearest": "nearest neighbours"}
_NEAR = 5.0  # points
_COMPARED = ("true labels", "true labels alone", "no privacy")


def markdown(found: Examined) -> str:
    """Tables, then what they show."""
    parts = [_ensembles(found), _students(found), _claims(found)]
    parts.append(bench.listing(sentences(found)))
    return "\n\n".join(parts) + "\n"


def _ensembles(found: Examined) -> str:
    gammas = [f"gamma {gamma:g}" for gamma in found.gammas]
    heading = ["ensemble", "teachers", "one person reaches", "a teacher is right", "agreement"]
    rows = [
        [
            name,
            str(size),
            str(reach),
            f"{100 * share:.1f}",
            f"{100 * more.agreement:.1f}",
            str(more.failed),
            *(f"{100 * one:.0f}" for one in found.noise[name, size]),
        ]
        for (name, size), (reach, share, more) in found.ensembles.items()
    ]
    return bench.table([*heading, "failed", *gammas], rows)


def _students(found: Examined) -> str:
    heading = ["top-1", *(f"epsilon {e:g}" for e in found.epsilons), "no noise"]
    rows: dict[str, list[str]] = {}
    for score in found.scores:
        column = 1 + (found.epsilons.index(score.epsilon) if score.epsilon else len(found.epsilons))
        blank = [score.name, *["-"] * (len(heading) - 1)]
        rows.setdefault(score.name, blank)[column] = score.shown
    return bench.table(heading, list(rows.values()))


def _claims(found: Examined) -> str:
    heading = [
        *("LNMax, gamma", "epsilon for one teacher's data", "epsilon for a person"),
        *("the papers' figure, 512 moments", "with 8 moments"),
    ]
    rows = [
        [
            f"{gamma:g}",
            _round.shown(one.teacher, 4),
            _round.shown(one.person, 4),
            f"{one.figure:.4g}, an estimate",
            f"{one.at_8_moments:.4g}, an estimate",
        ]
        for gamma, one in found.estimates.items()
    ]
    return bench.table(heading, rows)


def sentences(found: Examined) -> list[str]:
    """What a reader wants to know, with its numbers."""
    return [
        *_of_agreement(found),
        *_of_aggregators(found),
        *_of_the_goal(found),
        *_of_others(found),
        f"{found.people} private people, {found.queries} queries answered, delta 1e-5; an epsilon "
        f"is for one {found.unit}, whatever the votes were, of one run alone; {_spread(found)}. "
        "The papers' figure depends on the votes: it is private itself and no guarantee.",
    ]


def _spread(found: Examined) -> str:
    students = max(len(score.top_1) for score in found.scores)
    if students == 1:
        return "one student each, so no spread is known"
    return f"± is the standard deviation over {students} students"


def _of_agreement(found: Examined) -> list[str]:
    pairs = [
        tuple(100 * found.ensembles[name, size][2].agreement for name in ("tempdiff", "pate"))
        for size in found.sizes
    ]
    ahead = sum(first > second for first, second in pairs)
    word = "Yes" if ahead == len(pairs) else "No" if not ahead else "Sometimes"
    shown = ", ".join(
        f"{first:.1f} against {second:.1f} with {size} teachers"
        for size, (first, second) in zip(found.sizes, pairs, strict=True)
    )
    return [
        f"Does temporal partitioning raise the teachers' agreement over PATE's? {word}: {shown}."
    ]


def _of_aggregators(found: Examined) -> list[str]:
    said = []
    for epsilon in found.epsilons:
        names = ("gnmax", "gumbel", "confident", "lnmax")
        known = [(name, found.score("tempdiff", name, epsilon)) for name in names]
        shown = [
            f"{name} {one.shown} ({100 * float(np.mean(one.right or 0.0)):.0f} % of labels true)"
            for name, one in known
            if one is not None
        ]
        said.append(f"At epsilon {epsilon:g} for one {found.unit}: {', '.join(shown)}.")
    return said


def _of_the_goal(found: Examined) -> list[str]:
    truth = found.score("true labels", "no noise", None)
    near = found.score("tempdiff", "gnmax", 2.0)
    if truth is None or near is None:
        return []
    word = "Yes" if truth.mean - near.mean <= _NEAR else "No"
    return [
        f"Is the student at epsilon 2 for one {found.unit} within {_NEAR:g} points of one of the "
        f"true labels of the same queries? {word}: {near.mean:.1f} against {truth.mean:.1f}."
    ]


def _of_others(found: Examined) -> list[str]:
    said = []
    alone = found.score("true labels alone", "no noise", None)
    near = found.score("tempdiff", "gnmax", 2.0)
    if alone is not None and near is not None:
        word = "Yes" if near.mean > alone.mean else "No"
        said.append(
            "Is it ahead of a network that learned the true labels of those queries and nothing "
            f"else, the public data alone? {word}: {near.mean:.1f} against {alone.mean:.1f}."
        )
    for epsilon in found.epsilons:
        mine, other = (
            found.score("tempdiff", "gnmax", epsilon),
            found.score("dp_sgd", "none", epsilon),
        )
        if mine is not None and other is not None:
            said.append(
                f"DP-SGD on the signals themselves at epsilon {epsilon:g}: {other.shown}, votes "
                f"{mine.shown}."
            )
    return said


def plots(found: Examined, stem: str) -> dict[str, str]:
    """Noisy labels against noise; students against epsilon, by votes and by teachers."""
    noise = [
        plot.Line(
            name=f"{name}, {size}",
            x=np.log10(np.array(found.gammas)),
            y=100 * np.array(shares),
            is_faint=name == "pate",
            colour=found.sizes.index(size),
        )
        for (name, size), shares in found.noise.items()
    ]
    axes = plot.Axes(title="Noisy labels that are true", x_label="log10 gamma", y_label="per cent")
    by_votes = {score: _counted(score) for score in found.scores}
    by_votes = {s: name for s, name in by_votes.items() if s.teachers in (0, found.sizes[-1])}
    by_size = {
        score: f"{score.teachers} teachers"
        for score in sorted(found.scores, key=lambda one: one.teachers)
        if (score.who, score.aggregator) == ("tempdiff", "gnmax")
    }
    return {
        f"{stem}_noise": plot.svg(noise, axes),
        f"{stem}_votes": _students_plot("Students, by votes", by_votes, found),
        f"{stem}_teachers": _students_plot("Students, by teachers", by_size, found),
    }


def _counted(score: Students) -> str:
    return score.who if score.aggregator == "none" else f"{score.who}, {score.aggregator}"


def _students_plot(title: str, names: dict[Students, str], found: Examined) -> str:
    """Against epsilon; what students are compared with as lines from side to side."""
    lines = bench.curves(
        (name, math.log10(score.epsilon), score.mean)
        for score, name in names.items()
        if score.epsilon is not None
    )
    ends = np.log10(np.array([found.epsilons[0], found.epsilons[-1]]))
    for name in _COMPARED:
        one = found.score(name, "no noise", None)
        if one is not None:
            level = np.full(2, one.mean)
            lines.append(plot.Line(name=name, x=ends, y=level, is_faint=True))
    label = f"log10 epsilon for one {found.unit}"
    return plot.svg(lines, plot.Axes(title=title, x_label=label, y_label="Top-1"))
