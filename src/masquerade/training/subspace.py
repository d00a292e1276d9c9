"""A subspace of the weights: the directions along which public records pull.

[sivangi2025, Eq. 2] takes the first eigenvectors of the second moment of public gradients, a p x p
matrix. With m public records it has rank m at most, so that the m x m matrix of their products
(the Gram matrix) has the same eigenvalues: V = G^T U / sqrt(m Lambda). Nothing of size p x p is
ever made, and of size p only m rows, in half precision where they are many.

V looks at public records and at the weights, all of which are published: no private number is in
it. So it may come before clipping (contributions are then k numbers, clipped and noised like any)
or after the noise, and neither promise depends on how exactly V is orthonormal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from masquerade import _check
from masquerade._optional import torch
from masquerade.training.gradients import Tensors

_COLUMNS_PER_BLOCK = 1 << 16  # columns that are worked on at once
_MAX_FULL_NUMBERS = 1 << 28  # numbers; more are held in half precision
_MIN_EIGENVALUE_RATIO = 1e-5  # of the largest eigenvalue, below which a direction is rounding alone

# Gradients of some public records.
Each: TypeAlias = "Callable[[Mapping[str, torch.Tensor], int, int], Tensors]"


class Subspace:
    """k orthonormal directions among p weights, renewed from time to time.

    Args:
        weights: that are trained.
        records: public ones, m; at most as many directions are found.
        directions: k; those beyond the rank of what public records say are zero.
        each: the gradients of public records from a number to below another, at given weights.
    """

    def __init__(
        self, weights: Mapping[str, torch.Tensor], *, records: int, directions: int, each: Each
    ) -> None:
        _check.count(records=records, directions=directions)
        if directions > records:
            raise ValueError(
                f"Expected at most as many directions as public records, {records}, got "
                f"directions={directions}; take fewer, or more public records."
            )
        self._shapes = {name: value.shape for name, value in weights.items()}
        self.size, self.directions = sum(map(_count_numbers, weights.values())), directions
        self._records, self._each = records, each
        is_half = records * self.size > _MAX_FULL_NUMBERS
        device = next(iter(weights.values())).device
        kind = torch.float16 if is_half else torch.float32
        self._held = torch.zeros(records, self.size, dtype=kind, device=device)
        # entries are some 1 / sqrt(p), which half precision would cut short
        self._scale = 2.0 ** np.floor(0.5 * np.log2(self.size)) if is_half else 1.0
        self.rank = 0

    def renew_directions(self, weights: Mapping[str, torch.Tensor], *, chunk: int) -> None:
        """Find the directions at these weights, ``chunk`` records at a time.

        They lie where they lay before, so that what was recorded with them still holds.
        """
        sizes = torch.zeros(self._records, dtype=torch.float64, device=self._held.device)
        for start in range(0, self._records, chunk):
            stop = min(start + chunk, self._records)
            sizes[start:stop] = self._hold_gradients(self._each(weights, start, stop), start)
        gram = self._compute_gram() * sizes * sizes[:, None] / self._scale**2
        values, vectors = torch.linalg.eigh(gram.cpu())
        values, vectors = values.flip(0), vectors.flip(1)
        is_kept = values > _MIN_EIGENVALUE_RATIO * values[0].clamp_min(1e-300)
        is_kept[self.directions :] = False
        self.rank = int(is_kept.sum())
        scale = torch.where(is_kept, values.clamp_min(1e-300).rsqrt(), torch.zeros_like(values))
        mix = (vectors * scale)[:, : self.directions].T.to(self._held.device) * sizes  # (k, m)
        self._mix_directions(mix.float())

    def measure_along(self, gradients: Tensors) -> torch.Tensor:
        """(N, k): how far each of N gradients goes along each direction."""
        first = next(iter(gradients.values()))
        found = torch.zeros(len(first), self.directions, device=first.device)
        for name, flat in self._flatten_gradients(gradients):
            for part, columns in self._list_column_blocks(name):
                found += flat[:, part] @ self._held[: self.directions, columns].float().T
        return found / self._scale

    def expand_numbers(self, numbers: torch.Tensor) -> Tensors:
        """The weights' gradient that goes so far (k,) along each direction."""
        found = {}
        for name, shape in self._shapes.items():
            given = numbers.new_zeros(shape.numel())
            for part, columns in self._list_column_blocks(name):
                held = self._held[: self.directions, columns].float()
                given[part] = (numbers.float() / self._scale) @ held
            found[name] = given.reshape(shape)
        return found

    def project_gradient(self, gradient: Tensors) -> Tensors:
        """V V^T of one gradient [sivangi2025, Eq. 5]."""
        return self.expand_numbers(
            self.measure_along({name: one[None] for name, one in gradient.items()})[0]
        )

    def _hold_gradients(self, gradients: Tensors, start: int) -> torch.Tensor:
        """Keep gradients of some records, each brought to length 1; their lengths."""
        flats = dict(self._flatten_gradients(gradients))
        squares = sum(flat.double().square().sum(dim=1) for flat in flats.values())
        sizes = torch.as_tensor(squares).sqrt()
        is_good = torch.isfinite(sizes) & (sizes > 0)
        factor = torch.where(is_good, self._scale / sizes, torch.zeros_like(sizes)).float()
        for name, flat in flats.items():
            for part, columns in self._list_column_blocks(name):
                own = torch.where(is_good[:, None], flat[:, part], 0.0) * factor[:, None]
                self._held[start : start + len(flat), columns] = own.to(self._held.dtype)
        return torch.where(is_good, sizes, torch.zeros_like(sizes))

    def _compute_gram(self) -> torch.Tensor:
        """(m, m) float64: products of all that is held, as it is held."""
        gram = torch.zeros(self._records, self._records, device=self._held.device).double()
        for start in range(0, self.size, _COLUMNS_PER_BLOCK):
            some = self._held[:, start : start + _COLUMNS_PER_BLOCK].float()
            gram += (some @ some.T).double()
        return gram

    def _mix_directions(self, mix: torch.Tensor) -> None:
        """Make directions of gradients, in place."""
        for start in range(0, self.size, _COLUMNS_PER_BLOCK):
            some = self._held[:, start : start + _COLUMNS_PER_BLOCK]
            some[: self.directions] = (mix @ some.float()).to(some.dtype)

    def _flatten_gradients(self, gradients: Tensors) -> list[tuple[str, torch.Tensor]]:
        return [(name, gradients[name].detach().reshape(-1, n)) for name, n in self._list_widths()]

    def _list_widths(self) -> list[tuple[str, int]]:
        return [(name, shape.numel()) for name, shape in self._shapes.items()]

    def _list_column_blocks(self, wanted: str) -> list[tuple[slice, slice]]:
        """Columns of one weight, and where they are among all."""
        before = 0
        for name, width in self._list_widths():
            if name == wanted:
                return [
                    (slice(start, end), slice(before + start, before + end))
                    for start in range(0, width, _COLUMNS_PER_BLOCK)
                    for end in (min(start + _COLUMNS_PER_BLOCK, width),)
                ]
            before += width
        raise ValueError(f"Expected a weight that is trained, got {wanted!r}.")


def _count_numbers(weight: torch.Tensor) -> int:
    return weight.numel()
