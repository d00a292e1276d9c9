"""TEMPDIFF's figures in words and pictures: what is said is computed from what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from masquerade.report import plot
from masquerade.train.ensemble.teachers import Private

_NEAR = 5.0  # points


@dataclass(frozen=True, kw_only=True)
class Score:
    """Students of one kind of labels.

    Args:
        who: tempdiff, pate or true labels.
        aggregator: how votes were counted.
        epsilon: for one person; None without noise.
        right: share of labels that are true, one a student.
        top_1: of each student, on people whom nobody saw.
    """

    who: str
    aggregator: str
    epsilon: float | None
    right: tuple[float, ...]
    top_1: tuple[float, ...]

    @property
    def mean(self) -> float:
        """In per cent."""
        return 100 * float(np.mean(self.top_1))

    @property
    def spread(self) -> float:
        """Standard deviation over students, in points."""
        return 100 * float(np.std(self.top_1, ddof=1)) if len(self.top_1) > 1 else 0.0


@dataclass(frozen=True, kw_only=True)
class Found:
    """All that was measured.

    Args:
        ensembles: (method, teachers) to reach, a teacher's accuracy, and private statistics.
        noise: teachers to the accuracy of noisy labels at each gamma.
        gammas: of LNMax.
        scores: of students.
        estimates: gamma to epsilon for a person, and the papers' figure at 512 and 8 moments.
        queries: that were asked.
        people: who are private.
        seconds: it took.
    """

    ensembles: Mapping[tuple[str, int], tuple[int, float, Private]]
    noise: Mapping[int, tuple[float, ...]]
    gammas: tuple[float, ...]
    scores: tuple[Score, ...]
    estimates: Mapping[float, tuple[float, float, float]]
    queries: int
    people: int
    seconds: float

    def score(self, who: str, aggregator: str, epsilon: float | None) -> Score | None:
        """That one, if it was measured."""
        same = (
            s for s in self.scores if (s.who, s.aggregator, s.epsilon) == (who, aggregator, epsilon)
        )
        return next(same, None)

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
            "noise": {str(size): list(shares) for size, shares in self.noise.items()},
            "gammas": list(self.gammas),
            "scores": [asdict(score) for score in self.scores],
            "estimates": {str(gamma): list(found) for gamma, found in self.estimates.items()},
            "queries": self.queries,
            "people": self.people,
            "sentences": sentences(self),
        }


def markdown(found: Found) -> str:
    """Tables, then what they show."""
    lines = [
        "| ensemble | teachers | one person reaches | a teacher is right | agreement | failed |"
    ]
    lines.append("|---" * 6 + "|")
    for (name, size), (reach, share, more) in found.ensembles.items():
        lines.append(
            f"| {name} | {size} | {reach} | {100 * share:.1f} | {100 * more.agreement:.1f} | "
            f"{more.failed} |"
        )
    heading = ["student of", *(f"epsilon {e:g}" for e in found.epsilons), "no noise"]
    lines += ["", "| " + " | ".join(heading) + " |", "|---" * len(heading) + "|"]
    rows = dict.fromkeys((s.who, s.aggregator) for s in found.scores if s.epsilon is not None)
    for who, aggregator in rows:
        shown = [f"{who}, {aggregator}"]
        for epsilon in (*found.epsilons, None):
            one = found.score(who, aggregator if epsilon else "no noise", epsilon)
            shown.append("-" if one is None else f"{one.mean:.1f} ± {one.spread:.1f}")
        lines.append("| " + " | ".join(shown) + " |")
    lines += [
        "",
        "| LNMax, gamma | epsilon for a person | the papers' figure, 512 moments | 8 moments |",
    ]
    lines.append("|---" * 4 + "|")
    for gamma, (true, many, few) in found.estimates.items():
        lines.append(
            f"| {gamma:g} | {true:.4g} | {many:.4g}, an estimate | {few:.4g}, an estimate |"
        )
    return "\n".join([*lines, "", *(f"- {said}" for said in sentences(found))]) + "\n"


def sentences(found: Found) -> list[str]:
    """What a reader wants to know, with its numbers."""
    said = []
    both = {
        name: more
        for (name, size), (_, _, more) in found.ensembles.items()
        if size == max(found.noise)
    }
    if "pate" in both:
        first, second = (100 * both[name].agreement for name in ("tempdiff", "pate"))
        word = "Yes" if first > second else "No"
        said.append(
            f"Does temporal partitioning raise the teachers' agreement? {word}: {first:.1f} "
            f"against {second:.1f} per cent for PATE with as many teachers."
        )
    for epsilon in found.epsilons:
        known = {
            name: found.score("tempdiff", name, epsilon) for name in ("gnmax", "gumbel", "lnmax")
        }
        shown = [f"{name} {one.mean:.1f} ± {one.spread:.1f}" for name, one in known.items() if one]
        said.append(f"At epsilon {epsilon:g} for a person: {', '.join(shown)}.")
    truth, near = (
        found.score("true labels", "no noise", None),
        found.score("tempdiff", "gnmax", 2.0),
    )
    if truth is not None and near is not None:
        gap = truth.mean - near.mean
        word = "Yes" if gap <= _NEAR else "No"
        said.append(
            f"Is the student at epsilon 2 within {_NEAR:g} points of one of the true labels of "
            f"the same queries? {word}: {near.mean:.1f} against {truth.mean:.1f}."
        )
    said.append(
        f"{found.people} private people, {found.queries} queries, delta 1e-5; every epsilon is for "
        "one person, with all teachers that they reach, whatever the votes were. The papers' "
        "figure depends on the votes: it is private itself and no guarantee."
    )
    return said


def plots(found: Found) -> dict[str, str]:
    """Noisy labels against noise, and students against epsilon."""
    gammas = np.log10(np.array(found.gammas))
    noise = [
        plot.Line(name=f"{size} teachers", x=gammas, y=100 * np.array(shares))
        for size, shares in found.noise.items()
    ]
    drawn = {
        "tempdiff_noise": plot.svg(
            noise,
            plot.Axes(
                title="Noisy labels that are true", x_label="log10 gamma", y_label="per cent"
            ),
        )
    }
    lines = []
    for who, aggregator in dict.fromkeys(
        (s.who, s.aggregator) for s in found.scores if s.epsilon is not None
    ):
        mine = [s for s in found.scores if (s.who, s.aggregator) == (who, aggregator)]
        lines.append(
            plot.Line(
                name=f"{who}, {aggregator}",
                x=np.log10(np.array([s.epsilon for s in mine], dtype=float)),
                y=np.array([s.mean for s in mine]),
            )
        )
    axes = plot.Axes(title="Students", x_label="log10 epsilon for a person", y_label="Top-1")
    return drawn | {"tempdiff_students": plot.svg(lines, axes)}
