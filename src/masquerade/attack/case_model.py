"""`ModelCase`: a published model, and what its attacker can do about it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from masquerade import _check
from masquerade.attack.attack import Told
from masquerade.errors import BadInput
from masquerade.scores import Attacked

Learn: TypeAlias = Callable[[np.ndarray, int], np.ndarray]
"""Trains on some of the units, (U,) bool, by a seed; gives (R, K) outputs for the rows of all."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelCase:
    """A way of training, rows that it may have learned from, and perhaps one trained model.

    A unit is what the guarantee protects, a recording or a person; it has one row or more. Half of
    the units are members of every model that is trained here, so that telling a unit that was
    learned from and one that was not is telling two neighbours under replace_one.

    Args:
        targets: (R,) the class of each row.
        whose: (R,) the number of each row's unit, from 0 to U - 1.
        learn: trains a model as the published one was.
        overfit: trains one that must leak: without noise and for long.
        outputs: (R, K) of the published model, before the softmax; None to attack the way of
            training, by each shadow model in turn.
        members: (U,) bool, which units the published model learned from; with the outputs.
        allowed: how often an attacker can be right at a rate of false alarms, by the guarantee.
        of: what units are, such as "recordings" or "people".
        seed: of everything random in the attack.
    """

    targets: np.ndarray
    whose: np.ndarray
    learn: Learn
    overfit: Learn
    outputs: np.ndarray | None = None
    members: np.ndarray | None = None
    allowed: Callable[[float], float] | None = None
    of: str = "recordings"
    seed: int = 0

    def __post_init__(self) -> None:
        _check.shape("R", targets=self.targets)
        if self.whose.shape != self.targets.shape or len(self.targets) == 0:
            raise BadInput(
                f"Expected a unit for each row, and a row, got {self.whose.shape} for "
                f"{self.targets.shape}."
            )
        if set(np.unique(self.whose)) != set(range(self.units)) or self.units < 4:
            raise BadInput(
                f"Expected at least 4 units, numbered from 0 on, got {self.units}; name more "
                "recordings."
            )
        if (self.outputs is None) != (self.members is None):
            raise ValueError("Expected outputs and members of the published model together.")
        if self.members is not None:
            _check.shape("U", members=self.members)
            inside = int(self.members.sum())
            if len(self.members) != self.units or not 0 < inside < self.units:
                raise BadInput(
                    f"Expected units that the model learned from and others, got {inside} of "
                    f"{len(self.members)} for {self.units} units."
                )

    @property
    def units(self) -> int:
        """How many there are."""
        return int(self.whose.max()) + 1


class ModelAttack(ABC):
    """A frozen dataclass with public fields, run on a model. Its file assigns ``EXAMPLE``."""

    @abstractmethod
    def run(self, case: ModelCase, *, told: Told) -> tuple[Attacked, ...]:
        """Attack; one answer for each attacker.

        Args:
            case: the model, and what can be trained like it.
            told: called with what is done, how far, and of how much.
        """
