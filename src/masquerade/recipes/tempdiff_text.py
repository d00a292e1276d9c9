"""TEMPDIFF's figures in words and pictures: what is said is computed from what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from masquerade import _round
from masquerade.recipes.tempdiff_cells import Claimed
from masquerade.report import plot
from masquerade.train.ensemble.teachers import Statistics

KINDS = {"forest": "forests", "lstm": "LSTMs", "nearest": "nearest neighbours"}
_NEAR = 5.0  # points
_COMPARED = ("true labels", "true labels alone", "no privacy")


@dataclass(frozen=True, kw_only=True)
class Score:
    """Students of one kind of labels, or what they are compared with.

    Args:
        who: tempdiff, pate, dp_sgd, true labels (of the same queries), true labels alone (without
            the other public windows) or no privacy.
        teachers: there are; 0 where none.
        aggregator: how votes were counted.
        epsilon: for the unit; None without noise.
        right: share of labels that are true, one a student.
        top_1: of each student, on people whom nobody saw.
    """

    who: str
    teachers: int
    aggregator: str
    epsilon: float | None
    right: tuple[float, ...] = ()
    top_1: tuple[float, ...] = ()

    @property
    def mean(self) -> float:
        """In per cent."""
        return 100 * float(np.mean(self.top_1))

    @property
    def spread(self) -> float:
        """Standard deviation over students, in points."""
        return 100 * float(np.std(self.top_1, ddof=1)) if len(self.top_1) > 1 else 0.0

    @property
    def shown(self) -> str:
        """Mean and spread."""
        return f"{self.mean:.1f} ± {self.spread:.1f}"

    @property
    def name(self) -> str:
        """Its line in a table or a plot."""
        counted = "" if self.aggregator in ("none", "no noise") else f", {self.aggregator}"
        return f"{self.who}, {self.teachers}{counted}" if self.teachers else self.who


@dataclass(frozen=True, kw_only=True)
class Found:
    """All that was measured.

    Args:
        ensembles: (method, teachers) to reach, a teacher's accuracy, and private statistics.
        noise: (method, teachers) to the accuracy of noisy labels at each gamma.
        gammas: of LNMax.
        scores: of students.
        estimates: gamma to what the labels cost, and what papers print.
        queries: that were asked.
        people: who are private.
        unit: that an epsilon protects.
        seconds: it took.
    """

    ensembles: Mapping[tuple[str, int], tuple[int, float, Statistics]]
    noise: Mapping[tuple[str, int], tuple[float, ...]]
    gammas: tuple[float, ...]
    scores: tuple[Score, ...]
    estimates: Mapping[float, Claimed]
    queries: int
    people: int
    unit: str
    seconds: float

    def score(self, who: str, aggregator: str, epsilon: float | None) -> Score | None:
        """That one, with the most teachers, if it was measured."""
        same = [
            s for s in self.scores if (s.who, s.aggregator, s.epsilon) == (who, aggregator, epsilon)
        ]
        return max(same, key=lambda one: one.teachers, default=None)

    @property
    def most(self) -> int:
        """Teachers of the largest ensemble."""
        return max(size for _, size in self.ensembles)

    @property
    def epsilons(self) -> list[float]:
        """From small to large."""
        return sorted({score.epsilon for score in self.scores if score.epsilon is not None})

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "ensembles": [
                {"method": name, "teachers": size, "reach": reach, "teacher": share, **asdict(more)}
                for (name, size), (reach, share, more) in self.ensembles.items()
            ],
            "noise": {
                f"{name} {size}": list(shares) for (name, size), shares in self.noise.items()
            },
            "gammas": list(self.gammas),
            "scores": [asdict(score) for score in self.scores],
            "estimates": {str(gamma): asdict(found) for gamma, found in self.estimates.items()},
            "queries": self.queries,
            "people": self.people,
            "unit": self.unit,
            "sentences": sentences(self),
        }


def markdown(found: Found) -> str:
    """Tables, then what they show."""
    parts = [_ensembles(found), _students(found), _claims(found)]
    parts.append("\n".join(f"- {said}" for said in sentences(found)))
    return "\n\n".join(parts) + "\n"


def _ensembles(found: Found) -> str:
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
    return _table([*heading, "failed", *gammas], rows)


def _students(found: Found) -> str:
    heading = ["top-1", *(f"epsilon {e:g}" for e in found.epsilons), "no noise"]
    rows: dict[str, list[str]] = {}
    for score in found.scores:
        column = 1 + (found.epsilons.index(score.epsilon) if score.epsilon else len(found.epsilons))
        blank = [score.name, *["-"] * (len(heading) - 1)]
        rows.setdefault(score.name, blank)[column] = score.shown
    return _table(heading, list(rows.values()))


def _claims(found: Found) -> str:
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
    return _table(heading, rows)


def _table(heading: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (heading, *rows)]
    return "\n".join([lines[0], "|---" * len(heading) + "|", *lines[1:]])


def sentences(found: Found) -> list[str]:
    """What a reader wants to know, with its numbers."""
    return [
        *_of_agreement(found),
        *_of_aggregators(found),
        *_of_the_goal(found),
        *_of_others(found),
        f"{found.people} private people, {found.queries} queries answered, delta 1e-5; an epsilon "
        f"is for one {found.unit}, whatever the votes were, of one run alone; ± is the standard "
        "deviation over students. The papers' figure depends on the votes: it is private itself "
        "and no guarantee.",
    ]


def _of_agreement(found: Found) -> list[str]:
    sizes = sorted({size for _, size in found.ensembles})
    pairs = [
        tuple(100 * found.ensembles[name, size][2].agreement for name in ("tempdiff", "pate"))
        for size in sizes
    ]
    ahead = sum(first > second for first, second in pairs)
    word = "Yes" if ahead == len(pairs) else "No" if not ahead else "Sometimes"
    shown = ", ".join(
        f"{first:.1f} against {second:.1f} with {size} teachers"
        for size, (first, second) in zip(sizes, pairs, strict=True)
    )
    return [
        f"Does temporal partitioning raise the teachers' agreement over PATE's? {word}: {shown}."
    ]


def _of_aggregators(found: Found) -> list[str]:
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


def _of_the_goal(found: Found) -> list[str]:
    truth = found.score("true labels", "no noise", None)
    near = found.score("tempdiff", "gnmax", 2.0)
    if truth is None or near is None:
        return []
    word = "Yes" if truth.mean - near.mean <= _NEAR else "No"
    return [
        f"Is the student at epsilon 2 for one {found.unit} within {_NEAR:g} points of one of the "
        f"true labels of the same queries? {word}: {near.mean:.1f} against {truth.mean:.1f}."
    ]


def _of_others(found: Found) -> list[str]:
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


def plots(found: Found, stem: str) -> dict[str, str]:
    """Noisy labels against noise; students against epsilon, by votes and by teachers."""
    sizes = sorted({size for _, size in found.noise})
    noise = [
        plot.Line(
            name=f"{name}, {size}",
            x=np.log10(np.array(found.gammas)),
            y=100 * np.array(shares),
            is_faint=name == "pate",
            colour=sizes.index(size),
        )
        for (name, size), shares in found.noise.items()
    ]
    axes = plot.Axes(title="Noisy labels that are true", x_label="log10 gamma", y_label="per cent")
    private = [score for score in found.scores if score.epsilon is not None]
    largest = [score for score in private if score.teachers in (0, found.most)]
    by_size = [s for s in private if (s.who, s.aggregator) == ("tempdiff", "gnmax")]
    by_size.sort(key=lambda one: one.teachers)
    return {
        f"{stem}_noise": plot.svg(noise, axes),
        f"{stem}_votes": plot.svg(
            [*_lines(largest, _counted), *_levels(found)], _of_students("Students, by votes", found)
        ),
        f"{stem}_teachers": plot.svg(
            [*_lines(by_size, _sized), *_levels(found)],
            _of_students("Students, by teachers", found),
        ),
    }


def _of_students(title: str, found: Found) -> plot.Axes:
    return plot.Axes(title=title, x_label=f"log10 epsilon for one {found.unit}", y_label="Top-1")


def _counted(score: Score) -> str:
    return score.who if score.aggregator == "none" else f"{score.who}, {score.aggregator}"


def _sized(score: Score) -> str:
    return f"{score.teachers} teachers"


def _lines(scores: list[Score], name: Callable[[Score], str]) -> list[plot.Line]:
    found = []
    for shown in dict.fromkeys(map(name, scores)):
        mine = sorted((s.epsilon or 0.0, s.mean) for s in scores if name(s) == shown)
        x, y = (np.array(axis) for axis in zip(*mine, strict=True))
        found.append(plot.Line(name=shown, x=np.log10(x), y=y))
    return found


def _levels(found: Found) -> list[plot.Line]:
    """What students are compared with, as lines from side to side."""
    ends = np.log10(np.array([found.epsilons[0], found.epsilons[-1]]))
    known = [(name, found.score(name, "no noise", None)) for name in _COMPARED]
    return [
        plot.Line(name=name, x=ends, y=np.full(2, one.mean), is_faint=True)
        for name, one in known
        if one is not None
    ]
