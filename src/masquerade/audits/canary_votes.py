"""A person in or out of a teacher ensemble, put to the test through its own votes and ballot.

Everybody is made up. Half of the teachers learn one thing and half the opposite, so that the votes
of every query stand level but for those that one person's data reaches; that person learns the one
thing in one world and the opposite in the other. Teachers are deterministic: what differs from
trial to trial is the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from masquerade.audits.game import Claim, Game, in_chunks
from masquerade.collection import About, Collection, Count, Labels, Medium
from masquerade.noise import Noise
from masquerade.recordings import Signal
from masquerade.scores import Scores
from masquerade.training import teach, teachers
from masquerade.training.ensemble import Ensemble

_CHANNELS, _RATE_HZ = 3, 20.0
_STRETCHES = 4  # of one activity after the other, each of a few windows


@dataclass(frozen=True, kw_only=True)
class MadeUpWearers(Collection[Signal]):
    """People who rest and move; some of them call it the other way round.

    Args:
        turned: for each person, whether they do.
        window: the longest that is cut.
        named: what they are called, before their number.
    """

    ABOUT: ClassVar[About] = About(
        title="made-up wearers",
        kind=Medium.SIGNALS,
        licence="none",
        home="",
        citation="",
        is_made_up=True,
    )
    turned: tuple[bool, ...]
    window: int
    named: str = "wearer"

    @property
    def activities(self) -> tuple[str, ...]:
        """Two."""
        return ("rest", "move")

    def check(self) -> tuple[Count, ...]:
        """Nothing is on disk."""
        return ()

    def _find(self) -> list[Labels]:
        people = [f"{self.named} {number}" for number in range(len(self.turned))]
        return [Labels(name=name, subject=name) for name in people]

    def _load(self, index: int) -> Signal:
        is_moving = np.arange(_STRETCHES).repeat(2 * self.window) % 2
        jitter = np.random.default_rng((1, index)).normal(0, 0.1, (len(is_moving), _CHANNELS))
        named = 1 - is_moving if self.turned[index] else is_moving
        return Signal(
            values=(is_moving[:, None] + jitter).astype(np.float32),
            rate_hz=_RATE_HZ,
            activity=named.astype(np.int64),
            subject=f"{self.named} {index}",
        )


class _NearestMean:
    """The smallest teacher: the class whose mean is nearest."""

    def fit(self, rows: np.ndarray, classes: np.ndarray) -> object:
        """Learn."""
        self._names = np.unique(classes)
        self._means = np.stack([rows[classes == one].mean(axis=0) for one in self._names])
        return self

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """The class of each row."""
        apart = ((rows[:, None] - self._means[None]) ** 2).sum(axis=2)
        return np.asarray(self._names[apart.argmin(axis=1)])


@dataclass(frozen=True, kw_only=True)
class VoteCanary(Game):
    """One person turns round what they teach; labels are seen.

    Args:
        method: with its ballot.
        trials: in each world.
    """

    method: Ensemble
    trials: int = 20_000

    def claim(self) -> Claim:
        """What the receipt of a student would promise."""
        guarantee = self.method.guarantee(self._schools[0].reach)
        if guarantee.epsilon is None or guarantee.delta is None:
            raise ValueError("Expected a method with a claim to put to the test.")
        return Claim(
            epsilon=guarantee.epsilon,
            delta=guarantee.delta,
            unit=f"{guarantee.unit}, {guarantee.relation.value}",
            source=f"{self.method.name}, its guarantee",
        )

    def play(self, trials: int, noise: Noise) -> Scores:
        """How often the labels agree with what the person taught: all that they say."""
        votes = [school.votes(lambda number: _NearestMean()) for school in self._schools]
        school = self._schools[0]
        counts = [teachers.counts_of(each, school.classes) for each in votes]
        ballot = self.method.ballot(school.reach)
        taught = _most_voted(votes[1] != votes[0], votes[1])
        differs = taught >= 0

        def score(world: int, size: int) -> np.ndarray:
            drawn = np.stack([ballot.answers(counts[world], noise) for _ in range(size)])
            return np.asarray((drawn == taught)[:, differs].sum(axis=1), dtype=np.float64)

        return in_chunks(score, (0, 1), trials, chunk=1000, attack="label counts, one person")

    @cached_property
    def _schools(self) -> tuple[teach.School, teach.School]:
        return self._school(is_turned=True), self._school(is_turned=False)

    def _school(self, *, is_turned: bool) -> teach.School:
        count = self.method.teachers
        turned = [bool(number % 2) for number in range(count)]
        turned[0] = is_turned
        longest = max(self.method.windows)
        asked = (False,) * (2 + self.method.queries // _STRETCHES)
        known = MadeUpWearers(turned=asked, window=longest, named="public")
        private = MadeUpWearers(turned=tuple(turned), window=longest)
        return teach.read(private, known, self.method)


def _most_voted(is_changed: np.ndarray, votes: np.ndarray) -> np.ndarray:
    """(Q,) what the teachers whose votes changed vote for; -1 where none did."""
    found = np.full(votes.shape[1], -1)
    for query in np.flatnonzero(is_changed.any(axis=0)):
        found[query] = np.bincount(votes[is_changed[:, query], query]).argmax()
    return found
