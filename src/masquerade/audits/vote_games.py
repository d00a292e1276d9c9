"""Games about the noisy votes of teachers: GNMax, Gumbel-max, thresholds, TEMPDIFF, one person.

A person in or out of a teacher ensemble, put to the test through its own votes and ballot.

Everybody is made up. Half of the teachers learn one thing and half the opposite, so that the votes
of every query stand level but for those that one person's data reaches; that person learns the one
thing in one world and the opposite in the other. Teachers are deterministic: what differs from
trial to trial is the noise.

Confident-GNMax: a noisy threshold for every query, noisy votes for those that pass.

GNMax: noisy vote histograms of a teacher ensemble.

Gumbel-max: labels of a teacher ensemble by the exponential mechanism.

TEMPDIFF's votes: LNMax labels at the paper's noise, against its printed epsilon.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from masquerade import _check
from masquerade.accounting import votes
from masquerade.accounting.published import TempdiffClaim
from masquerade.audits.game import Claim, Game, VoteGame, in_chunks
from masquerade.collection import Collection, CountLine, DataSource, Labels, Medium
from masquerade.noise import Noise
from masquerade.recordings import Signal
from masquerade.scores import Scores
from masquerade.training import teach, teachers
from masquerade.training.ensemble import Ensemble


@dataclass(frozen=True, kw_only=True)
class ConfidentVotes(VoteGame):
    """One shard's teacher joins the majority; noisy maxima and noisy counts are seen.

    Its vote moves from the second class to the first, so both the largest count and the two counts
    move by one, in every query; as many queries as the cap allows are answered.

    Args:
        noise_std: of the noise on each count of an answered query.
        threshold_std: of the noise on the largest count of every query.
        cap: of the queries, so many are answered.
    """

    noise_std: float = 9.0
    threshold_std: float = 12.0
    cap: int = 50

    aggregator = "confident"
    is_gaussian = True
    attack = "noisy maxima and vote counts"
    counts = ((25, 24), (26, 23))

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.positive(noise_std=self.noise_std, threshold_std=self.threshold_std)
        _check.count(cap=self.cap)

    def compute_epsilon(self) -> float:
        """By mu^2 = k / sigma_T^2 + 2 cap / sigma^2."""
        terms = votes.VoteTerms(
            aggregator="confident",
            queries=self.queries,
            threshold_std=self.threshold_std,
            cap=self.cap,
        )
        return terms.vote_epsilon(self.noise_std, delta=self.delta)

    def score_trials(self, counts: np.ndarray, size: int, noise: Noise) -> np.ndarray:
        """Maxima, and first counts less second ones, each by its precision: the best test."""
        tests, answers = self.threshold_std**-2, self.noise_std**-2
        largest = max(counts) + noise.sample_gaussian(self.threshold_std, (size, self.queries))
        seen = noise.sample_gaussian(self.noise_std, (size, self.cap, 2)) + counts
        lead = (seen[..., 0] - seen[..., 1]).sum(axis=1)
        mu = math.sqrt(self.queries * tests + 2 * self.cap * answers)
        return np.asarray((tests * largest.sum(axis=1) + answers * lead) / mu)


@dataclass(frozen=True, kw_only=True)
class GnmaxVotes(VoteGame):
    """One shard changes its teacher's vote in every query; the noisy counts are seen.

    Args:
        noise_std: of the noise on each count.
    """

    noise_std: float = 9.0

    aggregator = "gnmax"
    is_gaussian = True
    attack = "vote counts"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.positive(noise_std=self.noise_std)

    def compute_epsilon(self) -> float:
        """By mu = sqrt(2 k) / sigma."""
        terms = votes.VoteTerms(aggregator="gnmax", queries=self.queries)
        return terms.vote_epsilon(self.noise_std, delta=self.delta)

    def score_trials(self, counts: np.ndarray, size: int, noise: Noise) -> np.ndarray:
        """Sum of (second count - first count) over the queries: the likelihood ratio."""
        seen = noise.sample_gaussian(self.noise_std, (size, self.queries, 2)) + counts
        lead = (seen[..., 1] - seen[..., 0]).sum(axis=1)
        return np.asarray(lead * (1 / math.sqrt(self.queries)))


@dataclass(frozen=True, kw_only=True)
class GumbelVotes(VoteGame):
    """Two classes, one vote apart; one shard's teacher changes sides in every query.

    Each label is then a coin whose log odds move by 2 gamma, from +gamma to -gamma: the worst that
    a loss of that span can do.

    Args:
        gamma: inverse scale of the Gumbel noise.
    """

    gamma: float = 0.04

    aggregator = "gumbel"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.positive(gamma=self.gamma)

    def compute_epsilon(self) -> float:
        """By rho = k gamma^2 / 2."""
        terms = votes.VoteTerms(aggregator="gumbel", queries=self.queries)
        return terms.vote_epsilon(1 / self.gamma, delta=self.delta)

    def score_trials(self, counts: np.ndarray, size: int, noise: Noise) -> np.ndarray:
        """How often the second class won: all that the released labels say."""
        every = np.broadcast_to(counts, (size * self.queries, 2))
        labels = noise.sample_gumbel_argmax(every, 1 / self.gamma)
        return np.asarray(labels.reshape(size, self.queries).mean(axis=1))


PAPER_CLAIM = TempdiffClaim()


@dataclass(frozen=True, kw_only=True)
class TempdiffVotes(VoteGame):
    """Two classes at the worst margin; one shard's teacher changes its vote in every query.

    Args:
        form: whose claim: the number as published, or our data-independent one.
        gamma: inverse scale of the Laplace noise.
    """

    form: Literal["published", "sound"] = "published"
    gamma: float = PAPER_CLAIM.gamma
    queries: int = PAPER_CLAIM.queries
    delta: float = field(default=PAPER_CLAIM.delta, init=False)
    trials: int = 1_000

    aggregator = "lnmax"
    counts = ((0, 0), (2, 0))

    def compute_epsilon(self) -> float:
        """The least of our upper bounds."""
        bounds = votes.lnmax_bounds(self.gamma, queries=self.queries, delta=self.delta)
        return min(bounds.values())

    def claim(self) -> Claim:
        """1.4 as printed, or ours."""
        ours = super().claim()
        if self.form == "sound":
            return ours
        return dataclasses.replace(ours, epsilon=PAPER_CLAIM.printed, source="tempdiff as printed")

    def score_trials(self, counts: np.ndarray, size: int, noise: Noise) -> np.ndarray:
        """How often the first class won: all that the released labels say."""
        seen = noise.sample_laplace(1 / self.gamma, (size, self.queries, 2)) + counts
        return np.asarray((seen[..., 0] > seen[..., 1]).mean(axis=1))


_CHANNELS, _RATE_HZ = 3, 20.0
_NUM_STRETCHES = 4  # of one activity after the other, each of a few windows


@dataclass(frozen=True, kw_only=True)
class MadeUpWearers(Collection[Signal]):
    """People who rest and move; some of them call it the other way round.

    Args:
        turned: for each person, whether they do.
        window: the longest that is cut.
        named: what they are called, before their number.
    """

    ABOUT: ClassVar[DataSource] = DataSource(
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

    def check(self) -> tuple[CountLine, ...]:
        """Nothing is on disk."""
        return ()

    def _find(self) -> list[Labels]:
        people = [f"{self.named} {number}" for number in range(len(self.turned))]
        return [Labels(name=name, subject=name) for name in people]

    def _load(self, index: int) -> Signal:
        is_moving = np.arange(_NUM_STRETCHES).repeat(2 * self.window) % 2
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
        guarantee = self.method.guarantee(self._ensemble_runs[0].reach)
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
        votes = [
            school.collect_votes(lambda number: _NearestMean()) for school in self._ensemble_runs
        ]
        school = self._ensemble_runs[0]
        counts = [teachers.counts_of(each, school.classes) for each in votes]
        ballot = self.method.make_ballot(school.reach)
        taught = _most_voted(votes[1] != votes[0], votes[1])
        differs = taught >= 0

        def score_world(world: int, size: int) -> np.ndarray:
            drawn = np.stack([ballot.sample_answers(counts[world], noise) for _ in range(size)])
            return np.asarray((drawn == taught)[:, differs].sum(axis=1), dtype=np.float64)

        return in_chunks(score_world, (0, 1), trials, chunk=1000, attack="label counts, one person")

    @cached_property
    def _ensemble_runs(self) -> tuple[teach.EnsembleRun, teach.EnsembleRun]:
        return self._make_ensemble_run(is_turned=True), self._make_ensemble_run(is_turned=False)

    def _make_ensemble_run(self, *, is_turned: bool) -> teach.EnsembleRun:
        count = self.method.num_teachers
        turned = [bool(number % 2) for number in range(count)]
        turned[0] = is_turned
        longest = max(self.method.windows)
        asked = (False,) * (2 + self.method.queries // _NUM_STRETCHES)
        known = MadeUpWearers(turned=asked, window=longest, named="public")
        private = MadeUpWearers(turned=tuple(turned), window=longest)
        return teach.read_ensemble(private, known, self.method)


def _most_voted(is_changed: np.ndarray, votes: np.ndarray) -> np.ndarray:
    """(Q,) what the teachers whose votes changed vote for; -1 where none did."""
    found = np.full(votes.shape[1], -1)
    for query in np.flatnonzero(is_changed.any(axis=0)):
        found[query] = np.bincount(votes[is_changed[:, query], query]).argmax()
    return found
