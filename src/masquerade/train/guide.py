"""The subspace of a run: found anew every so many steps, and the same again after a stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from masquerade._torch import Tensor, torch
from masquerade.train import gradients
from masquerade.train.gradients import Tensors
from masquerade.train.private_sum import ALONG
from masquerade.train.projecting import Projecting
from masquerade.train.rows import Rows, gathered
from masquerade.train.subspace import Subspace

_THEN = "then/"  # before the names of weights as they were at the last refresh


class Guide:
    """Public records that say along which directions a run's private part may go.

    Args:
        loss: of one unit.
        weights: that are trained.
        records: public ones.
        method: how many directions, and how often they are found anew.
        see: makes of inputs (B, k, ...) what the trained part is given.
        physical: records whose gradients are computed at once.
    """

    def __init__(
        self,
        loss: gradients.Loss,
        weights: Mapping[str, Tensor],
        records: Rows,
        method: Projecting,
        *,
        see: Callable[[Tensor], Tensor],
        physical: int,
    ) -> None:
        if records.units < method.public_records:
            raise ValueError(
                f"Expected {method.public_records} public records, got {records.units}; take fewer "
                "with --public-records and --directions."
            )
        self._loss, self._records, self._see = loss, records, see
        self._physical, self._refresh = physical, method.refresh
        self._then = {name: value.detach().clone() for name, value in weights.items()}
        self._is_first = method.order == "project_first"
        self.subspace = Subspace(
            weights,
            records=method.public_records,
            directions=method.directions,
            each=self._each,
        )

    @property
    def within(self) -> Subspace | None:
        """The subspace in which contributions are clipped; None if they are clipped before it."""
        return self.subspace if self._is_first else None

    @property
    def kept(self) -> Tensors:
        """What a checkpoint must hold to find the same directions again."""
        return {_THEN + name: value for name, value in self._then.items()}

    def take_up(self) -> None:
        """Find the directions of the last refresh again, after a stop."""
        self.subspace.renew(self._then, chunk=self._physical)

    def keep_up(self, number: int, weights: Mapping[str, Tensor]) -> None:
        """Before a step: find new directions if it is time."""
        if number % self._refresh:
            return
        with torch.no_grad():
            for name, value in weights.items():
                self._then[name].copy_(value)
        self.subspace.renew(self._then, chunk=self._physical)

    def project(self, found: Tensors) -> Tensors:
        """A noisy mean, of numbers along directions or of all weights, as a gradient."""
        return (
            self.subspace.back(found[ALONG]) if self._is_first else self.subspace.projected(found)
        )

    def _each(self, weights: Mapping[str, Tensor], start: int, stop: int) -> Tensors:
        inputs, *wanted = gathered(self._records, np.arange(start, stop))
        seen = self._see(inputs)
        return gradients.per_record(self._loss, weights, seen, tuple(wanted), chunk=stop - start)
