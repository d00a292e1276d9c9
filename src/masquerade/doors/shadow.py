"""Train models like one that was published, on other halves of the recordings, for an attack."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from masquerade._torch import nn, torch
from masquerade.attack.case_model import Learn
from masquerade.nets.network import Network
from masquerade.noise import Noise
from masquerade.train import loop
from masquerade.train.dp_sgd import DpSgd
from masquerade.train.method import Method, planned
from masquerade.train.rows import Rows

_LONG = DpSgd(
    epsilon=math.inf,
    unit="video",
    clip_norm=100.0,
    optimiser="adam",
    learning_rate=0.01,
    epochs=200.0,
    batch=64,
)
_BATCH = 256


@dataclass(frozen=True, kw_only=True, eq=False)
class ShadowTraining:
    """Trains the part of a network that is not frozen, on what the frozen part gave once.

    Where a method has a public view all recordings stay in the run with it, and whoever is no
    member has that view in place of the private one as well: private pixels are what is protected.

    Args:
        rows: of all units.
        method: how it is trained.
        network: whose part.
        classes: there are.
        always: (A, k) rows of units that every model learns from.
        physical: units whose gradients are computed at once.
    """

    rows: Rows
    method: Method
    network: Network
    classes: int
    always: np.ndarray | None = None
    physical: int = 64

    def __call__(self, members: np.ndarray, seed: int) -> np.ndarray:
        """(R, K) outputs for all rows of a model that learned from these units."""
        return outputs_of(self.taught(members), self.rows)

    def taught(self, members: np.ndarray) -> nn.Module:
        """The part that is not frozen, after it has learned from these units."""
        rows = self._learned(members)
        net = self.network.make(self.classes, seed=self.method.public_seed)
        tail: nn.Module = self.network.split(net.to(rows.targets.device), self.method.part)[1]
        work = loop.Workload(physical=min(self.physical, rows.units))
        plan = planned(self.method, rows.units)
        run = partial(loop.run, noise=Noise(), work=work, progress=lambda done, total: None)
        run(tail, rows, self.method, plan)
        return tail

    def _learned(self, members: np.ndarray) -> Rows:
        rows, slots = self.rows, self.rows.slots
        if self.method.HAS_PUBLIC and rows.public is not None:
            hidden = slots[~members]
            private = rows.private.clone()
            private[hidden[hidden >= 0]] = rows.public[hidden[hidden >= 0]]
            return replace(rows, private=private)
        kept = slots[members]
        if self.always is not None:
            kept = np.concatenate([kept, self.always])
        return replace(rows, slots=kept, public=None)

    def overfitted(self) -> Learn:
        """The same part, trained without noise and for long: it must leak."""
        method = replace(_LONG, part=self.method.part, public_seed=self.method.public_seed)
        return replace(self, method=method, rows=replace(self.rows, public=None), always=None)


def outputs_of(tail: nn.Module, rows: Rows) -> np.ndarray:
    """(R, K) before the softmax, for the rows of all units in order."""
    at, _ = units_in(rows)
    with torch.no_grad():
        parts = [
            tail(rows.private[some].to(rows.targets.device)).float().cpu().numpy()
            for some in torch.from_numpy(at).split(_BATCH)
        ]
    return np.concatenate(parts)


def units_in(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """The rows that belong to somebody, and the unit of each."""
    unit, place = np.nonzero(rows.slots >= 0)
    return rows.slots[unit, place], unit
