"""Shadow models: trained like the attacked one, each on half of the units that might be in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from masquerade import _check
from masquerade.attack.attack import Told
from masquerade.attack.case_model import Learn, ModelCase
from masquerade.attack.membership_scores import Said
from masquerade.attack.together import together

Attacker: TypeAlias = Callable[[Said, Said, np.ndarray], np.ndarray]
"""From what attacked models say, what shadow models say and who was in these, to (S, U) scores."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Shadows:
    """Models that were trained on known halves.

    Args:
        said: of M models, on all units.
        members: (M, U) which units each learned from; models come in pairs of opposite halves.
    """

    said: Said
    members: np.ndarray

    def in_turn(self, score: Attacker) -> np.ndarray:
        """(M, U): each model attacked with all others but its opposite.

        Without the opposite, as many of the others learned from each unit as did not, whatever the
        attacked one did; with it, their numbers would tell.
        """
        found, numbers = [], np.arange(len(self.members))
        for model in numbers:
            others = numbers // 2 != model // 2
            told = self.said.only(numbers == model)
            found.append(score(told, self.said.only(others), self.members[others]))
        return np.concatenate(found)

    def against(self, attacked: Said, score: Attacker) -> np.ndarray:
        """(S, U): attacked models that are not among them."""
        return score(attacked, self.said, self.members)


def halves(units: int, count: int, *, rng: np.random.Generator) -> np.ndarray:
    """(count, units) bool: random halves in pairs of opposites, so each unit is in half of them.

    Example:
        >>> found = halves(4, 6, rng=np.random.default_rng(0))
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


def trained(
    case: ModelCase, learn: Learn, members: np.ndarray, *, jobs: int, told: Told
) -> Shadows:
    """Train a model on each row of ``members``, several at a time, and ask each for every unit.

    Args:
        case: whose rows.
        learn: how they are trained.
        members: (M, U) bool.
        jobs: processes; 1 for none but this one.
        told: how far it is.
    """
    _check.shape("M U", members=members)
    calls = [(learn, (row, number)) for number, row in enumerate(members)]
    said = []
    for outputs in together(calls, jobs=jobs):
        if not np.isfinite(outputs).all():
            raise ValueError("Expected finite outputs of a shadow model; lower the learning rate.")
        said.append(Said.of(outputs, case.targets, case.whose))
        told("shadow models", len(said), len(calls))
    return Shadows(said=Said.joined(said), members=members)
