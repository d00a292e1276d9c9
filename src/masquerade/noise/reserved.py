"""Noise that is asked for once and drawn anew each time: for work that is captured and replayed.

A captured piece of work reads the same memory at every replay. So it is run once before, and what
it asks for is set aside as memory; captured, it gets that memory again; and `fill` draws into it
from a true stream, before each replay. Nothing else can be had, so no noise is ever captured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from masquerade._optional import Later
from masquerade.noise.source import Noise

if TYPE_CHECKING:
    from masquerade._torch import Tensor, torch
else:
    torch = Later("torch", extra="train")

Order: TypeAlias = tuple[str, float, tuple[int, ...], float | None]  # device, sigma, shape, grid


@dataclass(frozen=True, eq=False)
class Slot:
    """Memory for the cells of some Gaussian noise that was asked for."""

    order: Order
    cells: Tensor


class Reserved(Noise):
    """Stands for a `Noise` while work is tried and captured; its numbers mean nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._slots: list[Slot] = []
        self._next: int | None = None  # none: slots are still being set aside

    def gaussian_on(
        self, device: str, sigma: float, shape: int | tuple[int, ...], *, grid: float | None = None
    ) -> Tensor:
        """Memory for the cells: new at first, after `rewind` what it was before."""
        size = (shape,) if isinstance(shape, int) else shape
        order = (device, sigma, size, grid)
        if self._next is None:
            zeros = torch.zeros(math.prod(size), dtype=torch.int64, device=device)
            self._slots.append(Slot(order, zeros.reshape(size)))
            return self._slots[-1].cells
        if self._next >= len(self._slots) or self._slots[self._next].order != order:
            raise RuntimeError("Expected the same noise to be asked for each time.")
        self._next += 1
        return self._slots[self._next - 1].cells

    def rewind(self) -> None:
        """From now on hand out what was set aside, from the first on."""
        self._next = 0

    def fill(self, noise: Noise) -> None:
        """Draw all that was asked for, in that order, as the work itself would."""
        for slot in self._slots:
            device, sigma, shape, grid = slot.order
            slot.cells.copy_(noise.gaussian_on(device, sigma, shape, grid=grid))

    def _key_with(self, blocks: int) -> NoReturn:
        """No bits of its own, for anybody."""
        raise RuntimeError("Expected noise of a device only; no other can be drawn anew here.")
