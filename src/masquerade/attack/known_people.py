"""People whom an attacker knows, and how near recordings of somebody are to each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.attack.metric import Discriminants, Metric
from masquerade.errors import BadInput

_TINY = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class Looks:
    """What was seen in some recordings.

    Args:
        rows: of each recording (K, D), one row a look; K is 0 where nobody was seen.
        subjects: who is in each.
    """

    rows: Sequence[np.ndarray]
    subjects: tuple[str, ...]

    @property
    def is_seen(self) -> np.ndarray:
        """(N,) bool: in which recordings somebody was seen."""
        return np.array([len(rows) > 0 for rows in self.rows])


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownPeople:
    """Known people.

    Args:
        people: their names, sorted.
        metric: in which they are compared.
        middles: (P, K) where each lies in it, of unit length; NaN for who was never seen.
    """

    people: tuple[str, ...]
    metric: Metric
    middles: np.ndarray

    def distances(self, looks: Looks) -> np.ndarray:
        """(N, P) from 0 to 2, one minus a cosine; infinite where one of both was never seen."""
        found = np.full((len(looks.rows), len(self.people)), np.inf)
        for number in np.flatnonzero(looks.is_seen).tolist():
            found[number] = 1.0 - self.middles @ _middle(self.metric(looks.rows[number]))
        return np.where(np.isnan(found), np.inf, found)

    def columns(self, subjects: Sequence[str]) -> np.ndarray:
        """(N,) the place of each name among the people.

        Raises:
            BadInput: if somebody is not among them.
        """
        missing = sorted(set(subjects) - set(self.people))
        if missing:
            raise BadInput(
                f"Expected known recordings of everybody who is published, got none of "
                f"{', '.join(missing)}; add some, or leave out what is published of them."
            )
        return np.array([self.people.index(each) for each in subjects])


def enrolled(looks: Looks) -> KnownPeople:
    """Learn how people differ, and where each of them lies.

    Raises:
        BadInput: if there are fewer than two people who are seen.
    """
    people = tuple(sorted(set(looks.subjects)))
    whose = np.array([people.index(each) for each in looks.subjects], int)
    seen = np.flatnonzero(looks.is_seen).tolist()
    if len(set(whose[seen].tolist())) < 2:
        raise BadInput(
            f"Expected recordings of at least two known people in which they are seen, got "
            f"{len(looks.rows)} of {len(people)} people, and {len(seen)} in which somebody is."
        )
    rows = np.concatenate([looks.rows[n] for n in seen])
    metric = Discriminants().learned(
        rows, np.concatenate([[whose[n]] * len(looks.rows[n]) for n in seen])
    )
    middles = np.full((len(people), metric.matrix.shape[1]), np.nan)
    for number in set(whose[seen].tolist()):
        own = [_middle(metric(looks.rows[n])) for n in seen if whose[n] == number]
        middles[number] = _middle(np.array(own))
    return KnownPeople(people=people, metric=metric, middles=middles)


def _middle(rows: np.ndarray) -> np.ndarray:
    """The mean of rows (N, K), of unit length."""
    mean = rows.mean(axis=0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), _TINY))
