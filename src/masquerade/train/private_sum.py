"""The clipped sum over a private batch, a piece at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from masquerade._torch import Tensor, torch
from masquerade.train import gradients
from masquerade.train.gradients import Tensors
from masquerade.train.plan import Plan
from masquerade.train.replay import Replayed
from masquerade.train.rows import Rows, picked, taken
from masquerade.train.subspace import Subspace

ALONG = "along"  # the name of a sum along the directions of a subspace
_SHORT = 4  # a short piece is so many times smaller


def sizes(count: int, physical: int) -> list[int]:
    """How many are in each piece of a batch: ``physical``, then short ones for those who are left.

    Two shapes alone, so that they can be recorded; the last piece is filled up with nobody.

    Example:
        >>> sizes(37, 16)
        [16, 16, 4, 4]
    """
    short = -(-physical // _SHORT)
    whole, left = divmod(count, physical)
    few = -(-left // short)
    rest = [physical] if few * short >= physical else [short] * few
    return [physical] * whole + rest


class PrivateSum:
    """Sums of clipped gradients, of batch after batch of the same rows.

    Kernels may round by shape and place, which the draw decides and nobody's data: whoever is
    replaced or zeroed out, all others keep theirs. That no kernel rounds one record by another's
    numbers is assumed.

    Args:
        loss: of one unit.
        weights: that are trained; changed in place from step to step.
        rows: of the units.
        plan: how contributions are clipped.
        physical: units whose gradients are computed at once.
        see: makes of inputs (B, k, ...) what the trained part is given.
        within: the subspace along which contributions are measured before they are clipped: a sum
            is then of numbers along its directions, under one name. None for all weights.
    """

    def __init__(
        self,
        loss: gradients.Loss,
        weights: Mapping[str, Tensor],
        rows: Rows,
        plan: Plan,
        *,
        physical: int,
        see: Callable[[Tensor], Tensor],
        within: Subspace | None = None,
    ) -> None:
        self._loss, self._rows, self._plan = loss, rows, plan
        self._physical, self._see, self._within = physical, see, within
        self._weights = {name: value.detach() for name, value in weights.items()}
        shapes = {name: value.shape for name, value in weights.items()}
        if within is not None:
            shapes = {ALONG: torch.Size([within.directions])}
        device = next(iter(weights.values())).device
        self._total = {
            name: torch.zeros(shape, dtype=torch.int64, device=device)
            for name, shape in shapes.items()
        }
        # A public part runs plainly, and needs the memory that records would keep for themselves.
        self._add = Replayed(self._piece, is_on=rows.public is None)

    def cells(self, units: np.ndarray) -> Tensors:
        """The sum over a batch, in cells of the plan's grid."""
        for total in self._total.values():
            total.zero_()
        pieces = sizes(len(units), self._physical)
        everyone = np.full(sum(pieces), -1)
        everyone[: len(units)] = units
        picks, start = picked(self._rows, everyone), 0
        for size in pieces:
            piece = picks.cut(start, size)
            self._add(*taken(self._rows, piece), piece.shares, piece.present)
            start += size
        return {name: total.clone() for name, total in self._total.items()}

    def _piece(self, inputs: Tensor, targets: Tensor, shares: Tensor, present: Tensor) -> None:
        """Add what some units contribute."""
        lesson = self._see(inputs), (targets, shares)
        found = gradients.per_record(self._loss, self._weights, *lesson, chunk=len(inputs))
        if self._within is not None:
            found = {ALONG: self._within.along(found)}
        scale = {"clip_norm": self._plan.clip_norm, "grid": self._plan.grid}
        for name, value in gradients.clipped_cells(found, present, **scale).items():
            self._total[name] += value
