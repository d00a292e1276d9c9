"""How often a unit is found at a rate of false alarms: curves, and intervals over units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from masquerade import _check
from masquerade.scores import Success

RATES = (0.01, 0.001)  # false alarms at which hits are counted
_DRAWS = 500
_POINTS = 200  # of a curve
_TAIL = 0.025


@dataclass(frozen=True, kw_only=True, eq=False)
class Guessed:
    """Scores of an attacker, and the truth; a high score says that the unit was learned from.

    Args:
        scores: (N,) of guesses, one for each model and unit.
        truth: (N,) bool, whether that model learned from that unit.
        whose: (N,) the unit's number.
    """

    scores: np.ndarray
    truth: np.ndarray
    whose: np.ndarray

    def __post_init__(self) -> None:
        _check.shape("N", scores=self.scores)
        _check.shape("N", truth=self.truth)
        _check.shape("N", whose=self.whose)
        if np.isnan(self.scores).any():
            raise ValueError("Expected scores that are numbers, got NaN.")
        if not 0 < self.truth.sum() < len(self.truth):
            raise ValueError("Expected guesses of units that were learned from, and of others.")

    @classmethod
    def of(cls, scores: np.ndarray, members: np.ndarray) -> Guessed:
        """From (S, U) scores of models and units."""
        whose = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
        return cls(scores=scores.ravel(), truth=members.ravel(), whose=whose.ravel())

    def only(self, which: np.ndarray, truth: np.ndarray) -> Guessed:
        """Some guesses, against another truth."""
        return Guessed(scores=self.scores[which], truth=truth[which], whose=self.whose[which])

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """False alarms and hits at every threshold, from the strictest on, thinned for a plot."""
        alarms, hits = _Ranked.of(self).rates(np.ones(int(self.whose.max()) + 1))
        at = np.unique(np.geomspace(1, len(alarms), _POINTS).astype(int)) - 1
        return alarms[at], hits[at]

    def figures(self, *, of: str, seed: int) -> tuple[Success, ...]:
        """Hits at each rate of false alarms, then the area under the curve.

        The 95 % interval of hits is the wider one of two: whole units drawn again and again, each
        time with a threshold of its own, and Clopper and Pearson's for a threshold that is given,
        counting units and not guesses.
        """
        ranked, rng = _Ranked.of(self), np.random.default_rng(seed)
        units = np.unique(self.whose)
        inside = len(np.unique(self.whose[self.truth]))
        weights = np.zeros((_DRAWS + 1, int(self.whose.max()) + 1))
        weights[0, units] = 1
        weights[1:, units] = rng.multinomial(
            len(units), np.full(len(units), 1 / len(units)), _DRAWS
        )
        drawn = np.array([ranked.measures(weight) for weight in weights])
        value, rest = drawn[0], drawn[1:]
        rest = rest[np.isfinite(rest).all(axis=1)]
        low, high = np.percentile(rest, (100 * _TAIL, 100 * (1 - _TAIL)), axis=0)
        exact = np.array([clopper_pearson(share, inside) for share in value[:-1]])
        low[:-1], high[:-1] = np.minimum(low[:-1], exact[:, 0]), np.maximum(high[:-1], exact[:, 1])
        return tuple(
            Success(
                measure=name,
                value=float(value[place]),
                low=float(min(low[place], value[place])),
                high=float(max(high[place], value[place])),
                count=len(units),
                of=of,
                chance=chance,
            )
            for place, (name, chance) in enumerate(_MEASURES)
        )


_MEASURES = (*((f"hits at {rate:.1%} false alarms", rate) for rate in RATES), ("AUC", 0.5))


def clopper_pearson(share: float, count: int) -> tuple[float, float]:
    """The exact 95 % interval of a share of ``count`` independent trials.

    Example:
        >>> [round(end, 4) for end in clopper_pearson(0.5, 10)], clopper_pearson(0.0, 10)[0]
        ([0.1871, 0.8129], 0.0)
    """
    right = share * count
    low = betaincinv(right, count - right + 1, _TAIL) if right > 0 else 0.0
    high = betaincinv(right + 1, count - right, 1 - _TAIL) if right < count else 1.0
    return float(low), float(high)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Ranked:
    """Guesses from the surest on; sums at the last of each tie are sums at a threshold."""

    whose: np.ndarray
    truth: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, guessed: Guessed) -> _Ranked:
        order = np.argsort(-guessed.scores, kind="stable")
        scores = guessed.scores[order]
        is_last = np.append(scores[1:] != scores[:-1], True)
        return cls(
            whose=guessed.whose[order], truth=guessed.truth[order], ends=np.flatnonzero(is_last)
        )

    def rates(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """False alarms and hits at every threshold, each unit counted so often."""
        times = weights[self.whose]
        hits = np.cumsum(times * self.truth)[self.ends]
        alarms = np.cumsum(times * ~self.truth)[self.ends]
        with np.errstate(invalid="ignore", divide="ignore"):  # a draw may hold one kind alone
            return alarms / alarms[-1], hits / hits[-1]

    def measures(self, weights: np.ndarray) -> list[float]:
        """Hits at each rate, and the area under the curve."""
        alarms, hits = self.rates(weights)
        if not (np.isfinite(alarms[-1]) and np.isfinite(hits[-1])):
            return [np.nan] * (len(RATES) + 1)
        places = [np.searchsorted(alarms, rate * (1 + 1e-9), side="right") for rate in RATES]
        found = [float(hits[place - 1]) if place else 0.0 for place in places]
        steps = np.diff(alarms, prepend=0.0)
        return [*found, float((steps * (hits + np.append(0.0, hits[:-1]))).sum() / 2)]
