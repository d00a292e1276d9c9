"""What TEMPDIFF's figures compare: students of many kinds of labels, and all that was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from masquerade.recipes.membership import MembersFound
from masquerade.recipes.tempdiff.exam import Claimed
from masquerade.recipes.verdict import Runs

AGGREGATORS = ("gnmax", "gumbel", "lnmax", "confident")
COMPARED = ("nearest mean of few labels", "few labels", "true labels", "no privacy")


@dataclass(frozen=True, kw_only=True)
class Pupils:
    """Students of one kind of labels, or what they are compared with.

    Args:
        who: tempdiff, pate, dp_sgd; true labels (of the same queries), few labels (that somebody
            gave public windows by hand), nearest mean of few labels, no privacy.
        by: what shards are made of.
        teachers: there are; 0 where none.
        queries: labels that were asked for.
        aggregator: how votes were counted.
        gamma: of LNMax as published.
        epsilon: that was aimed at, for one person.
        is_alone: whether it learned from labelled windows alone; else from the other public ones
            too.
    """

    who: str
    by: str = ""
    teachers: int = 0
    queries: int = 0
    aggregator: str = ""
    gamma: float | None = None
    epsilon: float | None = None
    is_alone: bool = True

    @property
    def name(self) -> str:
        """Under which a run is noted."""
        return " ".join(f"{name}={value}" for name, value in asdict(self).items() if value)

    @property
    def row(self) -> str:
        """Its line in the table of what is shipped."""
        words = [self.who]
        words += [str(self.teachers)] if self.teachers else []
        words += [self.aggregator] if self.aggregator else []
        return ", ".join(words)


@dataclass(frozen=True, kw_only=True)
class Marks:
    """What one teaching after the other gave.

    Args:
        right: share of labels that are true.
        top_1: of the students, on people whom nobody saw.
        claims: as published alone: what the labels cost, and what papers print.
    """

    right: tuple[float, ...] = ()
    top_1: tuple[float, ...] = ()
    claims: tuple[Claimed, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Of an ensemble, one after the other teaching; private statistics.

    Args:
        reach: teachers that one person's data reaches.
        teacher: share of queries that one teacher has right, on average.
        agreement: the winner's share of the votes, on average.
        failed: teachers that always say the same.
    """

    reach: tuple[int, ...]
    teacher: tuple[float, ...]
    agreement: tuple[float, ...]
    failed: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Examined:
    """All that was measured.

    Args:
        ensembles: (method, by, teachers) to its facts.
        scores: of each cell.
        tested: windows that every student was tested on.
        people: who are private.
        queries: as published, one or more numbers of them.
        person_queries: for a person's epsilon.
        labelled: public windows of a class that somebody labelled, for few labels.
        delta: of every epsilon.
        seeds: teachings.
        notes: what the setting leaves open, and the rest that a reader should know.
        members: what an attacker found of who was learned from, if one tried.
    """

    ensembles: Mapping[tuple[str, str, int], Facts]
    scores: Mapping[Pupils, Marks]
    tested: int
    people: int
    queries: tuple[int, ...]
    person_queries: int
    labelled: int
    delta: float
    seeds: int
    notes: Sequence[str] = field(default_factory=tuple)
    members: tuple[MembersFound, ...] = ()

    def runs(self, cell: Pupils | None) -> Runs | None:
        """Its students, if there were any."""
        known = None if cell is None else self.scores.get(cell)
        return Runs(known.top_1, self.tested) if known is not None else None

    def find(self, **wanted: Any) -> list[Pupils]:
        """The cells with these fields."""
        return [
            cell
            for cell in self.scores
            if all(getattr(cell, name) == value for name, value in wanted.items())
        ]

    def one(self, **wanted: Any) -> Runs | None:
        """The students with these fields; of the most teachers, if there are several."""
        return self.runs(max(self.find(**wanted), key=lambda cell: cell.teachers, default=None))

    def values(self, name: str) -> list[Any]:
        """All values of a field of the cells, from small to large, None left out."""
        return sorted({getattr(cell, name) for cell in self.scores} - {None})

    @property
    def published_sizes(self) -> list[int]:
        """Numbers of teachers as published, from small to large."""
        return sorted({cell.teachers for cell in self.scores if cell.gamma is not None})

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "ensembles": [
                {"method": name, "by": by, "teachers": size, **asdict(facts)}
                for (name, by, size), facts in self.ensembles.items()
            ],
            "scores": [asdict(cell) | asdict(held) for cell, held in self.scores.items()],
            "tested": self.tested,
            "people": self.people,
            "queries": list(self.queries),
            "person_queries": self.person_queries,
            "labelled": self.labelled,
            "delta": self.delta,
            "seeds": self.seeds,
            "members": [asdict(one) for one in self.members],
        }


def mean(values: Sequence[float]) -> float:
    """In per cent."""
    return 100 * float(np.mean(values))
