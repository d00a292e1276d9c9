"""What TEMPDIFF's figures compare: students of many kinds of labels, and all that was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from masquerade.recipes import bench
from masquerade.recipes.tempdiff.exam import Claimed
from masquerade.train.ensemble.teachers import Statistics

GAMMAS = (0.01, 0.03, 0.1, 0.3, 0.5)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
AGGREGATORS = ("gnmax", "gumbel", "lnmax", "confident")
SIZES = (10, 30, 50, 100)  # of the paper


@dataclass(frozen=True, kw_only=True)
class Students:
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
    def shown(self) -> str:
        """Mean, and spread over students."""
        return bench.percent(self.top_1)

    @property
    def name(self) -> str:
        """Its line in a table or a plot."""
        counted = "" if self.aggregator in ("none", "no noise") else f", {self.aggregator}"
        return f"{self.who}, {self.teachers}{counted}" if self.teachers else self.who


def cases(sizes: tuple[int, ...], *, unit: str, is_quick: bool) -> list[Students]:
    """What is measured, before it is; ``sizes`` of ensembles from small to large."""
    epsilons: tuple[float | None, ...] = EPSILONS[1:3] if is_quick else EPSILONS
    most = sizes[-1]
    found = [("tempdiff", most, name, e) for name in AGGREGATORS for e in epsilons]
    found += [("pate", most, "gnmax", e) for e in epsilons]
    found += [("tempdiff", size, "gnmax", e) for size in sizes[:-1] for e in epsilons]
    if unit == "subject":
        found += [("dp_sgd", 0, "none", e) for e in epsilons]
    found += [
        ("tempdiff", most, "no noise", None),
        ("true labels", 0, "no noise", None),
        ("true labels alone", 0, "no noise", None),
        ("no privacy", 0, "no noise", None),
    ]
    return [
        Students(who=who, teachers=size, aggregator=name, epsilon=epsilon)
        for who, size, name, epsilon in found
    ]


@dataclass(frozen=True, kw_only=True)
class Examined:
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
    """

    ensembles: Mapping[tuple[str, int], tuple[int, float, Statistics]]
    noise: Mapping[tuple[str, int], tuple[float, ...]]
    gammas: tuple[float, ...]
    scores: tuple[Students, ...]
    estimates: Mapping[float, Claimed]
    queries: int
    people: int
    unit: str

    def score(self, who: str, aggregator: str, epsilon: float | None) -> Students | None:
        """That one, with the most teachers, if it was measured."""
        wanted = (who, aggregator, epsilon)
        same = [s for s in self.scores if (s.who, s.aggregator, s.epsilon) == wanted]
        return max(same, key=lambda one: one.teachers, default=None)

    @property
    def sizes(self) -> list[int]:
        """Numbers of teachers, from small to large."""
        return sorted({size for _, size in self.ensembles})

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
        }
