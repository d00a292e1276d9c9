"""Who was learned from? Scores by the loss, by LiRA and by RMIA, from models' outputs alone.

How often a unit is found at a rate of false alarms: curves, and intervals over units.

Shadow models: trained like the attacked one, each on half of the units that might be in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from masquerade import _check
from masquerade._optional import special
from masquerade.attacks.attack import ModelCase, ProgressCallback, TrainFunction
from masquerade.io.workers import WorkerPool
from masquerade.scores import MeasuredRate

_MIN_MODELS_PER_UNIT = (
    64  # models with a unit, and without it, from which each unit has a variance of its own
)
_MIN_SPREAD = 1e-6  # spread of confidences below which models are taken for the same


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitConfidences:
    """What models say of units.

    Args:
        sure: (S, U) how sure of the truth: log p / (1 - p), the mean over a unit's rows
            [carlini2022].
        chance: (S, U) log p of the truth, the mean over a unit's rows.
    """

    sure: np.ndarray
    chance: np.ndarray

    @classmethod
    def from_outputs(
        cls, outputs: np.ndarray, targets: np.ndarray, whose: np.ndarray
    ) -> UnitConfidences:
        """Of one model's outputs (R, K) for rows, as S = 1.

        Example:
            >>> outputs, labels = np.log([[0.9, 0.1], [0.5, 0.5]]), np.array([0, 0])
            >>> said = UnitConfidences.from_outputs(outputs, labels, np.array([0, 1]))
            >>> said.sure.round(3).tolist(), said.chance.round(3).tolist()
            ([[2.197, 0.0]], [[-0.105, -0.693]])
        """
        _check.shape("R K", outputs=outputs)
        outputs = np.asarray(outputs, np.float64)
        row = np.arange(len(outputs))
        right = outputs[row, targets]
        others = outputs.copy()
        others[row, targets] = -np.inf
        rest = _log_sum(others)
        count = np.bincount(whose)

        def of_units(values: np.ndarray) -> np.ndarray:
            return (np.bincount(whose, values) / count)[None]

        return cls(sure=of_units(right - rest), chance=of_units(right - _log_sum(outputs)))

    @classmethod
    def join_models(cls, several: list[UnitConfidences]) -> UnitConfidences:
        """Of one model after the other."""
        return cls(
            sure=np.concatenate([one.sure for one in several]),
            chance=np.concatenate([one.chance for one in several]),
        )

    def select_models(self, models: np.ndarray) -> UnitConfidences:
        """Of some models."""
        return UnitConfidences(sure=self.sure[models], chance=self.chance[models])


def score_by_loss(attacked: UnitConfidences) -> np.ndarray:
    """(S, U): the smaller the loss, the likelier; no shadow model is needed [yeom2018]."""
    return attacked.chance


def score_by_lira(
    attacked: UnitConfidences, shadows: UnitConfidences, members: np.ndarray
) -> np.ndarray:
    """(S, U): how much likelier the confidence is with the unit than without it.

    Confidences of shadow models are taken for bell-shaped in both worlds [carlini2022, Alg. 1];
    with few models all units share one variance in each.

    Args:
        attacked: what the attacked models say.
        shadows: what M shadow models say.
        members: (M, U) whether each unit was learned from.
    """
    inside, outside = (_fit_bell(shadows.sure, which) for which in (members, ~members))
    return np.asarray(_log_density(attacked.sure, *inside) - _log_density(attacked.sure, *outside))


def score_by_lira_offline(
    attacked: UnitConfidences, shadows: UnitConfidences, members: np.ndarray
) -> np.ndarray:
    """(S, U): how unusual the confidence is for a model without the unit [carlini2022]."""
    mean, spread = _fit_bell(shadows.sure, ~members)
    return np.asarray((attacked.sure - mean) / spread)


def score_by_rmia(
    attacked: UnitConfidences, shadows: UnitConfidences, members: np.ndarray, *, gamma: float
) -> np.ndarray:
    """(S, U): over how many other units this one stands out, each measured by what is usual for it.

    A unit's ratio is its chance under the attacked model to that under shadow models, with and
    without it alike; the score is the share of others whose ratio times ``gamma`` it reaches
    [zarifzadeh2024].
    """
    usual = np.logaddexp(*(_log_mean(shadows.chance, which) for which in (members, ~members)))
    ratio = attacked.chance - usual + np.log(2)  # (S, U)
    others = np.sort(ratio, axis=1)
    beaten = [
        np.searchsorted(row, own - np.log(gamma), side="right")
        for row, own in zip(others, ratio, strict=True)
    ]
    return np.asarray(np.array(beaten, np.float64) / ratio.shape[1])


def _fit_bell(values: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(U,) mean and spread over the models that are meant."""
    count = which.sum(axis=0)
    if count.min() < 2:
        raise ValueError(
            f"Expected at least two shadow models with and without each unit, got {count.min()}; "
            "train more."
        )
    mean = np.where(which, values, 0.0).sum(axis=0) / count
    squares = np.where(which, (values - mean) ** 2, 0.0).sum(axis=0)
    if count.min() >= _MIN_MODELS_PER_UNIT:
        variance = squares / (count - 1)
    else:
        variance = np.full(len(mean), squares.sum() / (count - 1).sum())
    return mean, np.maximum(np.sqrt(variance), _MIN_SPREAD)


def _log_density(value: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    return np.asarray(-0.5 * ((value - mean) / spread) ** 2 - np.log(spread))


def _log_sum(values: np.ndarray) -> np.ndarray:
    """Log of the sum of exponentials along the last axis."""
    top = values.max(axis=-1)
    return np.asarray(top + np.log(np.exp(values - top[..., None]).sum(axis=-1)))


def _log_mean(values: np.ndarray, which: np.ndarray) -> np.ndarray:
    """(U,) log of the mean chance over the models that are meant."""
    held = np.where(which, values, -np.inf)
    return np.asarray(_log_sum(held.T) - np.log(which.sum(axis=0)))


FALSE_ALARM_RATES = (0.01, 0.001)  # false alarms at which hits are counted
_NUM_DRAWS = 500
_CURVE_POINTS = 200  # of a curve
_INTERVAL_TAIL = 0.025


@dataclass(frozen=True, kw_only=True, eq=False)
class MemberGuesses:
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
    def from_scores(cls, scores: np.ndarray, members: np.ndarray) -> MemberGuesses:
        """From (S, U) scores of models and units."""
        whose = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
        return cls(scores=scores.ravel(), truth=members.ravel(), whose=whose.ravel())

    def select_guesses(self, which: np.ndarray, truth: np.ndarray) -> MemberGuesses:
        """Some guesses, against another truth."""
        return MemberGuesses(scores=self.scores[which], truth=truth[which], whose=self.whose[which])

    def compute_curve(self) -> tuple[np.ndarray, np.ndarray]:
        """False alarms and hits at every threshold, from the strictest on, thinned for a plot."""
        alarms, hits = _RankedGuesses.from_guesses(self).compute_rates(
            np.ones(int(self.whose.max()) + 1)
        )
        at = np.unique(np.geomspace(1, len(alarms), _CURVE_POINTS).astype(int)) - 1
        return alarms[at], hits[at]

    def compute_figures(self, *, of: str, seed: int) -> tuple[MeasuredRate, ...]:
        """Hits at each rate of false alarms, then the area under the curve.

        The 95 % interval of hits is the wider one of two: whole units drawn again and again, each
        time with a threshold of its own, and Clopper and Pearson's for a threshold that is given,
        counting units and not guesses.
        """
        ranked, rng = _RankedGuesses.from_guesses(self), np.random.default_rng(seed)
        units = np.unique(self.whose)
        inside = len(np.unique(self.whose[self.truth]))
        weights = np.zeros((_NUM_DRAWS + 1, int(self.whose.max()) + 1))
        weights[0, units] = 1
        weights[1:, units] = rng.multinomial(
            len(units), np.full(len(units), 1 / len(units)), _NUM_DRAWS
        )
        drawn = np.array([ranked.compute_measures(weight) for weight in weights])
        value, rest = drawn[0], drawn[1:]
        rest = rest[np.isfinite(rest).all(axis=1)]
        low, high = np.percentile(rest, (100 * _INTERVAL_TAIL, 100 * (1 - _INTERVAL_TAIL)), axis=0)
        exact = np.array([clopper_pearson(share, inside) for share in value[:-1]])
        low[:-1], high[:-1] = np.minimum(low[:-1], exact[:, 0]), np.maximum(high[:-1], exact[:, 1])
        return tuple(
            MeasuredRate(
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


_MEASURES = (
    *((f"hits at {rate:.1%} false alarms", rate) for rate in FALSE_ALARM_RATES),
    ("AUC", 0.5),
)


def clopper_pearson(share: float, count: int) -> tuple[float, float]:
    """The exact 95 % interval of a share of ``count`` independent trials.

    Example:
        >>> [round(end, 4) for end in clopper_pearson(0.5, 10)], clopper_pearson(0.0, 10)[0]
        ([0.1871, 0.8129], 0.0)
    """
    right = share * count
    low = special.betaincinv(right, count - right + 1, _INTERVAL_TAIL) if right > 0 else 0.0
    high = (
        special.betaincinv(right + 1, count - right, 1 - _INTERVAL_TAIL) if right < count else 1.0
    )
    return float(low), float(high)


@dataclass(frozen=True, kw_only=True, eq=False)
class _RankedGuesses:
    """Guesses from the surest on; sums at the last of each tie are sums at a threshold."""

    whose: np.ndarray
    truth: np.ndarray
    ends: np.ndarray

    @classmethod
    def from_guesses(cls, guessed: MemberGuesses) -> _RankedGuesses:
        order = np.argsort(-guessed.scores, kind="stable")
        scores = guessed.scores[order]
        is_last = np.append(scores[1:] != scores[:-1], True)
        return cls(
            whose=guessed.whose[order], truth=guessed.truth[order], ends=np.flatnonzero(is_last)
        )

    def compute_rates(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """False alarms and hits at every threshold, each unit counted so often."""
        times = weights[self.whose]
        hits = np.cumsum(times * self.truth)[self.ends]
        alarms = np.cumsum(times * ~self.truth)[self.ends]
        with np.errstate(invalid="ignore", divide="ignore"):  # a draw may hold one kind alone
            return alarms / alarms[-1], hits / hits[-1]

    def compute_measures(self, weights: np.ndarray) -> list[float]:
        """Hits at each rate, and the area under the curve."""
        alarms, hits = self.compute_rates(weights)
        if not (np.isfinite(alarms[-1]) and np.isfinite(hits[-1])):
            return [np.nan] * (len(FALSE_ALARM_RATES) + 1)
        places = [
            np.searchsorted(alarms, rate * (1 + 1e-9), side="right") for rate in FALSE_ALARM_RATES
        ]
        found = [float(hits[place - 1]) if place else 0.0 for place in places]
        steps = np.diff(alarms, prepend=0.0)
        return [*found, float((steps * (hits + np.append(0.0, hits[:-1]))).sum() / 2)]


Attacker: TypeAlias = Callable[[UnitConfidences, UnitConfidences, np.ndarray], np.ndarray]
"""From what attacked models say, what shadow models say and who was in these, to (S, U) scores."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ShadowModels:
    """Models that were trained on known halves.

    Args:
        said: of M models, on all units.
        members: (M, U) which units each learned from; models come in pairs of opposite halves.
    """

    said: UnitConfidences
    members: np.ndarray

    def score_in_turn(self, score: Attacker) -> np.ndarray:
        """(M, U): each model attacked with all others but its opposite.

        Without the opposite, as many of the others learned from each unit as did not, whatever the
        attacked one did; with it, their numbers would tell.
        """
        found, numbers = [], np.arange(len(self.members))
        for model in numbers:
            others = numbers // 2 != model // 2
            told = self.said.select_models(numbers == model)
            found.append(score(told, self.said.select_models(others), self.members[others]))
        return np.concatenate(found)

    def score_outputs(self, attacked: UnitConfidences, score: Attacker) -> np.ndarray:
        """(S, U): attacked models that are not among them."""
        return score(attacked, self.said, self.members)


def sample_halves(units: int, count: int, *, rng: np.random.Generator) -> np.ndarray:
    """(count, units) bool: random halves in pairs of opposites, so each unit is in half of them.

    Example:
        >>> found = sample_halves(4, 6, rng=np.random.default_rng(0))
        >>> found.sum(axis=0).tolist(), found.sum(axis=1).tolist()
        ([3, 3, 3, 3], [2, 2, 2, 2, 2, 2])
    """
    if count % 2 or count < 6:
        raise ValueError(f"Expected an even number of shadow models, 6 or more, got {count}.")
    found = np.zeros((count, units), bool)
    for pair in range(0, count, 2):
        found[pair, rng.permutation(units)[: units // 2]] = True
        found[pair + 1] = ~found[pair]
    return found


def train_shadows(
    case: ModelCase, learn: TrainFunction, members: np.ndarray, *, jobs: int, told: ProgressCallback
) -> ShadowModels:
    """Train a model on each row of ``members``, several at a time, and ask each for every unit.

    Args:
        case: whose rows.
        learn: how they are trained.
        members: (M, U) bool.
        jobs: processes; 1 for none but this one.
        told: how far it is.
    """
    _check.shape("M U", members=members)
    rows = [(row, number) for number, row in enumerate(members)]
    said = []
    for outputs in WorkerPool(jobs=jobs, threads=1).map_tasks(lambda row: learn(*row), rows):
        if not np.isfinite(outputs).all():
            raise ValueError("Expected finite outputs of a shadow model; lower the learning rate.")
        said.append(UnitConfidences.from_outputs(outputs, case.targets, case.whose))
        told("shadow models", len(said), len(rows))
    return ShadowModels(said=UnitConfidences.join_models(said), members=members)
