"""Who was learned from? Scores by the loss, by LiRA and by RMIA, from models' outputs alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade import _check

_SEVERAL = 64  # models with a unit, and without it, from which each unit has a variance of its own
_LEAST = 1e-6  # spread of confidences below which models are taken for the same


@dataclass(frozen=True, kw_only=True, eq=False)
class Said:
    """What models say of units.

    Args:
        sure: (S, U) how sure of the truth: log p / (1 - p), the mean over a unit's rows
            [carlini2022].
        chance: (S, U) log p of the truth, the mean over a unit's rows.
    """

    sure: np.ndarray
    chance: np.ndarray

    @classmethod
    def of(cls, outputs: np.ndarray, targets: np.ndarray, whose: np.ndarray) -> Said:
        """Of one model's outputs (R, K) for rows, as S = 1.

        Example:
            >>> said = Said.of(np.log([[0.9, 0.1], [0.5, 0.5]]), np.array([0, 0]), np.array([0, 1]))
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
    def joined(cls, several: list[Said]) -> Said:
        """Of one model after the other."""
        return cls(
            sure=np.concatenate([one.sure for one in several]),
            chance=np.concatenate([one.chance for one in several]),
        )

    def only(self, models: np.ndarray) -> Said:
        """Of some models."""
        return Said(sure=self.sure[models], chance=self.chance[models])


def by_loss(attacked: Said) -> np.ndarray:
    """(S, U): the smaller the loss, the likelier; no shadow model is needed [yeom2018]."""
    return attacked.chance


def lira(attacked: Said, shadows: Said, members: np.ndarray) -> np.ndarray:
    """(S, U): how much likelier the confidence is with the unit than without it.

    Confidences of shadow models are taken for bell-shaped in both worlds [carlini2022, Alg. 1];
    with few models all units share one variance in each.

    Args:
        attacked: what the attacked models say.
        shadows: what M shadow models say.
        members: (M, U) whether each unit was learned from.
    """
    inside, outside = (_bell(shadows.sure, which) for which in (members, ~members))
    return np.asarray(_log_density(attacked.sure, *inside) - _log_density(attacked.sure, *outside))


def lira_offline(attacked: Said, shadows: Said, members: np.ndarray) -> np.ndarray:
    """(S, U): how unusual the confidence is for a model without the unit [carlini2022]."""
    mean, spread = _bell(shadows.sure, ~members)
    return np.asarray((attacked.sure - mean) / spread)


def rmia(attacked: Said, shadows: Said, members: np.ndarray, *, gamma: float) -> np.ndarray:
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


def _bell(values: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(U,) mean and spread over the models that are meant."""
    count = which.sum(axis=0)
    if count.min() < 2:
        raise ValueError(
            f"Expected at least two shadow models with and without each unit, got {count.min()}; "
            "train more."
        )
    mean = np.where(which, values, 0.0).sum(axis=0) / count
    squares = np.where(which, (values - mean) ** 2, 0.0).sum(axis=0)
    if count.min() >= _SEVERAL:
        variance = squares / (count - 1)
    else:
        variance = np.full(len(mean), squares.sum() / (count - 1).sum())
    return mean, np.maximum(np.sqrt(variance), _LEAST)


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
