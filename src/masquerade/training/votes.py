"""The ballot: teachers' votes in, noisy winners out.

Counts are whole numbers. Gaussian and Laplace noise lies on a grid that is a power of two and at
most 1, so counts lie on it already: nothing is rounded but the noise, sensitivity does not grow,
and what is compared is the ideal noisy count rounded to the grid, which is post-processing (so is
giving a tie to the first class). Gumbel noise takes no grid: its winner is drawn exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from masquerade import _check
from masquerade._formatting import round_up_decimals
from masquerade._optional import special
from masquerade.accounting.votes import Aggregator, VoteTerms, find_vote_scale
from masquerade.events import DpEvent
from masquerade.guarantee import Accountant, Relation
from masquerade.noise import Noise, find_grid, round_to_grid

_MAX_SCALE = 2.0**30  # cells of a grid of 1, beyond which noise is not sampled
_QUERIES_PER_BLOCK = 1 << 13  # queries at a time
_MAX_PAPER_MOMENTS = 8  # that the published accountants tried


@dataclass(frozen=True, kw_only=True)
class Ballot:
    """How votes are counted. All of it is public; the counts never are.

    The event and its epsilon are of *one* call of `sample_answers`, whatever the teachers voted.

    Args:
        aggregator: gnmax, lnmax, gumbel or confident.
        queries: the most that may be asked.
        scale: of the noise: standard deviation (gnmax, confident), or 1/gamma (lnmax, gumbel).
        teachers_per_subject: the most teachers that one person's data reaches.
        threshold: confident alone: what the largest count must reach, noise included.
        threshold_std: confident alone: standard deviation of that noise.
        cap: confident alone: the most queries that are answered.

    Example:
        >>> ballot = calibrate_ballot("gnmax", epsilon=2.0, delta=1e-5, queries=100)
        >>> ballot.compute_epsilon(1e-5)
        2.0
        >>> ballot.sample_answers(np.array([[400, 3], [1, 402]]), Noise()).tolist()
        [0, 1]
    """

    aggregator: Aggregator
    queries: int
    scale: float
    teachers_per_subject: int = 1
    threshold: float | None = None
    threshold_std: float | None = None
    cap: int | None = None

    def __post_init__(self) -> None:
        self._build_terms()
        for name in ("scale", "threshold_std"):
            value = getattr(self, name)
            if value is None:
                continue
            _check.positive(**{name: value})
            if value >= _MAX_SCALE:
                raise ValueError(f"Expected {name} below 2^30, got {name}={value:g}; ask less.")
        if (self.threshold is not None) != (self.aggregator == "confident"):
            raise ValueError(
                "Expected a threshold exactly for the aggregator confident, got "
                f"aggregator={self.aggregator} and threshold={self.threshold}."
            )
        if self.threshold is not None:
            _check.finite(threshold=self.threshold)

    def event(self, relation: Relation) -> DpEvent:
        """All queries, for an accountant that reads the event under ``relation``."""
        return self._build_terms().make_event(self.scale, relation=relation)

    def compute_epsilon(self, delta: float) -> float:
        """Whatever the votes were, under every relation; rounded up to four decimals."""
        return round_up_decimals(_prove_epsilon(self, delta)[0])

    def find_accountant(self, delta: float) -> Accountant:
        """The bound that gave this epsilon."""
        return _prove_epsilon(self, delta)[1]

    def sample_answers(self, counts: np.ndarray, noise: Noise) -> np.ndarray:
        """The winning class of each query; -1 where a confident ballot does not answer.

        Args:
            counts: (Q, K) votes of Q queries for K classes, whole numbers; left as they are.
            noise: where randomness comes from.
        """
        counts = self._check_counts(counts)
        if self.threshold is None or self.threshold_std is None:
            return self._sample_winners(counts, noise)
        largest = counts.max(axis=1, keepdims=True)
        is_sure = (
            _add_vote_noise(largest, "gaussian", self.threshold_std, noise)[:, 0] >= self.threshold
        )
        answered = np.flatnonzero(is_sure)[: self.cap]
        found = np.full(len(counts), -1, dtype=np.int64)
        found[answered] = self._sample_winners(counts[answered], noise)
        return found

    def _sample_winners(self, counts: np.ndarray, noise: Noise) -> np.ndarray:
        if self.aggregator == "gumbel":
            return noise.sample_gumbel_argmax(counts, self.scale)
        law = "laplace" if self.aggregator == "lnmax" else "gaussian"
        found = np.empty(len(counts), dtype=np.int64)
        for start in range(0, len(counts), _QUERIES_PER_BLOCK):
            rows = slice(start, start + _QUERIES_PER_BLOCK)
            found[rows] = _add_vote_noise(counts[rows], law, self.scale, noise).argmax(axis=1)
        return found

    def _check_counts(self, counts: np.ndarray) -> np.ndarray:
        """The counts, if they are votes; messages never say what is in them."""
        _check.shape("Q K", counts=counts)
        if not np.issubdtype(counts.dtype, np.integer):
            raise ValueError(f"Expected counts to be whole numbers, got dtype={counts.dtype}.")
        if len(counts) > self.queries:
            raise ValueError(
                f"Expected at most {self.queries} queries, got {len(counts)}; the noise and the "
                "epsilon are of that many."
            )
        if counts.shape[1] < 1 or (counts.size and counts.min() < 0):
            raise ValueError("Expected at least one class, and no negative counts.")
        return counts

    def _build_terms(self) -> VoteTerms:
        return VoteTerms(
            aggregator=self.aggregator,
            queries=self.queries,
            shards_per_subject=self.teachers_per_subject,
            threshold_std=self.threshold_std,
            cap=self.cap,
        )


def calibrate_ballot(
    aggregator: Aggregator, *, epsilon: float, delta: float, queries: int, **fields: Any
) -> Ballot:
    """A ballot whose epsilon, as it is printed, is at most the target and close to it.

    Args:
        aggregator: of the ballot.
        epsilon: the target.
        delta: with it.
        queries: the most that may be asked.
        fields: its others, but for its scale.
    """
    rough = Ballot(aggregator=aggregator, queries=queries, scale=1.0, **fields)
    return replace(rough, scale=find_vote_scale(rough._build_terms(), epsilon=epsilon, delta=delta))


@lru_cache(maxsize=256)
def _prove_epsilon(ballot: Ballot, delta: float) -> tuple[float, Accountant]:
    return ballot._build_terms().prove_epsilon(ballot.scale, delta=delta)


def _add_vote_noise(counts: np.ndarray, law: str, scale: float, noise: Noise) -> np.ndarray:
    grid = min(find_grid(scale), 1.0)
    draw = noise.sample_laplace if law == "laplace" else noise.sample_gaussian
    found = draw(scale, counts.shape, grid=grid)
    found += round_to_grid(counts, grid)
    return found


@dataclass(frozen=True, kw_only=True)
class PrivateEstimate:
    """What the papers' data-dependent analysis prints: a private statistic, never a guarantee.

    Args:
        value: at the best of all moments tried.
        value_at_8_moments: at the best of the first eight, as the published accountants had them.
        floor: ln(1/delta)/8, which eight moments print even for votes that cost nothing.
    """

    value: float
    value_at_8_moments: float
    floor: float


def data_dependent_epsilon(
    counts: np.ndarray, ballot: Ballot, *, delta: float, orders: int = 512
) -> PrivateEstimate:
    """The papers' figure for these very votes.

    It is computed from the votes, so it is private itself: publishing it, or letting it decide
    anything, would have to be paid for. It bounds no other data set's loss and is no guarantee.
    Only for made-up data and rehearsals.

    The log moment at order m of one query is the least of the data-independent one and one that
    falls with q, a bound on the chance that the winner is not the most voted class.

    Args:
        counts: (Q, K) votes.
        ballot: lnmax or gnmax.
        delta: of the figure.
        orders: moments 1 .. orders are tried.
    """
    _check.delta(delta=delta)
    _check.count(orders=orders)
    if ballot.aggregator not in ("lnmax", "gnmax"):
        raise ValueError(
            f"Expected lnmax or gnmax, got {ballot.aggregator}; no such analysis is published."
        )
    gaps = np.sort(ballot._check_counts(counts).astype(np.float64), axis=1)
    gaps = gaps[:, -1:] - gaps[:, :-1]  # (Q, K-1), behind the most voted class
    moments = np.arange(1.0, orders + 1)
    cost = _laplace_cost if ballot.aggregator == "lnmax" else _gaussian_cost
    total = np.zeros(orders)
    if gaps.shape[1]:
        for row, times in zip(*np.unique(gaps, axis=0, return_counts=True), strict=True):
            total += times * cost(row, ballot.scale, ballot.teachers_per_subject, moments)
    found = (total + math.log(1 / delta)) / moments
    return PrivateEstimate(
        value=float(found.min()),
        value_at_8_moments=float(found[:_MAX_PAPER_MOMENTS].min()),
        floor=math.log(1 / delta) / _MAX_PAPER_MOMENTS,
    )


def _laplace_cost(gaps: np.ndarray, scale: float, together: int, m: np.ndarray) -> np.ndarray:
    """Log moments of one LNMax query [papernot2017, Thms 2 and 3, Lemma 4].

    q is at most the sum of (2 + g d)/4 e^{-g d} over the other classes, d votes behind. For
    q <= (e^{2g} - 1)/(e^{4g} - 1), with 2g the query's pure epsilon, the moment is at most
    log((1-q) ((1-q)/(1-e^{2g} q))^m + q e^{2gm}); and always at most 2 g^2 m (m+1) and 2 g m.
    """
    pure = 2 * together / scale
    always = np.minimum(pure * pure / 2 * m * (m + 1), pure * m)
    scaled = gaps / scale
    log_q = float(special.logsumexp(np.log((2 + scaled) / 4) - scaled))
    if log_q > -np.logaddexp(0.0, pure):  # (e^x - 1)/(e^2x - 1) = 1/(e^x + 1)
        return np.asarray(always)
    stays = math.log1p(-math.exp(log_q))
    ratio = stays - math.log1p(-math.exp(pure + log_q))
    return np.asarray(np.minimum(always, np.logaddexp(stays + m * ratio, log_q + m * pure)))


def _gaussian_cost(gaps: np.ndarray, scale: float, together: int, m: np.ndarray) -> np.ndarray:
    """Log moments of one GNMax query: m times the divergence at order a = m + 1.

    [papernot2018, Thm 6, Props 7, 8 and 10]. The data-independent divergence at order a is
    a s^2/sigma^2, and q is at most the sum of erfc(d / 2 sigma)/2 over the other classes, d votes
    behind. With orders b = sqrt(log 1/q) sigma/s and b + 1, and B and B' the data-independent
    divergences there, the divergence at a <= b + 1 is at most
    log((1-q) A^m + q (e^{B'} / q^{1/b})^m) / m, A = (1-q)/(1 - (q e^B)^{1-1/b}), while q is below
    e^{(b-1) B} / ((b+1)/b b/(b-1))^b.
    """
    variance = (scale / together) ** 2
    always = m * (m + 1) / variance
    log_q = float(special.logsumexp(special.log_ndtr(-gaps / (math.sqrt(2) * scale))))
    log_q = min(log_q, math.log1p(-1 / (len(gaps) + 1)))  # the most voted class is no rarer
    b = math.sqrt(-log_q * variance)
    if b <= 1 or log_q > (b - 1) * b / variance - b * math.log((b + 1) / (b - 1)):
        return np.asarray(always)
    spread = (log_q + b / variance) * (1 - 1 / b)
    if spread >= 0:
        return np.asarray(always)
    stays = math.log1p(-math.exp(log_q))
    first = stays + m * (stays - math.log(-math.expm1(spread)))
    second = log_q + m * ((b + 1) / variance - log_q / b)
    dependent = np.logaddexp(first, second)
    return np.asarray(np.where(m <= b, np.minimum(always, dependent), always))
