"""Each record's own gradient, clipped, put on the grid and summed as whole numbers.

The sum is exact in any order, so a batch may be worked on in pieces. A contribution's norm is at
most C whatever the record was: the factor is a hair below C over the norm, the norm is taken in
float64, and truncating towards zero can only shorten it. A gradient that is not finite contributes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from masquerade import _check
from masquerade._optional import require

torch = require("torch", extra="train")
Tensor: TypeAlias = Any  # torch.Tensor
Tensors: TypeAlias = dict[str, Any]
Loss: TypeAlias = Callable[[Mapping[str, Any], Any, Any], Any]

_BELOW = 1 - 2.0**-20  # a hair below C
_EXACT = 2.0**53  # below it float64 adds whole numbers exactly


def per_record(
    loss: Loss, weights: Mapping[str, Any], inputs: Any, targets: Any, *, chunk: int
) -> Tensors:
    """The gradient of every record: tensors with one more axis in front.

    Args:
        loss: of (weights, one record, its target); a scalar.
        weights: those that are trained.
        inputs: (N, ...).
        targets: (N, ...).
        chunk: records at once.
    """
    size = None if chunk >= len(inputs) else chunk  # joining one chunk would copy all of it
    every = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0), chunk_size=size)
    found: Tensors = every(dict(weights), inputs, targets)
    for name, gradient in found.items():
        if gradient.shape != (len(inputs), *weights[name].shape):
            raise ValueError(
                f"Expected one gradient a record for {name}, got shape {tuple(gradient.shape)} "
                f"for {len(inputs)} records; something before it mixes records."
            )
    return found


def norms(gradients: Tensors) -> Tensor:
    """(N,) float64: the norm over all weights together."""
    each = [
        torch.linalg.vector_norm(g.detach().reshape(len(g), -1), dim=1, dtype=torch.float64)
        for g in gradients.values()
    ]
    return torch.linalg.vector_norm(torch.stack(each), dim=0)


def clipped_cells(gradients: Tensors, present: Any, *, clip_norm: float, grid: float) -> Tensors:
    """The sum over records of clipped gradients, in cells of the grid, as int64.

    Args:
        gradients: from `per_record`.
        present: (N,) bool; records that only fill up the batch are not.
        clip_norm: C.
        grid: a power of two.
    """
    _check.positive(clip_norm=clip_norm, grid=grid)
    size = norms(gradients)
    is_good = torch.isfinite(size) & present
    factor = (clip_norm * _BELOW / size.clamp_min(1e-300)).clamp_max(1.0)
    factor = torch.where(is_good, factor, torch.zeros_like(factor))
    if len(size) * clip_norm / grid >= _EXACT:
        raise ValueError(
            f"Expected contributions below 2^53 cells together, got {len(size)} of {clip_norm} on "
            f"the grid {grid}; work on fewer at once."
        )
    found = {}
    for name, gradient in gradients.items():
        shape = (-1, *[1] * (gradient.dim() - 1))
        cells = gradient.detach().to(torch.float64, copy=True)  # the only copy; in place from here
        cells.masked_fill_(~is_good.reshape(shape), 0.0)
        cells.mul_((factor / grid).reshape(shape)).trunc_()
        found[name] = cells.sum(dim=0).to(torch.int64)
    return found


def mean_of(
    loss: Loss, weights: Mapping[str, Any], inputs: Any, targets: Any, *, chunk: int
) -> Tensors:
    """The mean gradient of public records, un-noised."""

    def total(held: Mapping[str, Any], some: Any, wanted: Any) -> Any:
        return torch.func.vmap(loss, in_dims=(None, 0, 0))(held, some, wanted).sum()

    found: Tensors = {name: torch.zeros_like(value) for name, value in weights.items()}
    for start in range(0, len(inputs), chunk):
        part = slice(start, start + chunk)
        some = torch.func.grad(total)(dict(weights), inputs[part], _cut(targets, part))
        for name, gradient in some.items():
            found[name] += gradient / len(inputs)
    return found


def _cut(targets: Any, part: slice) -> Any:
    """Some records of a tensor, or of each tensor of a tuple."""
    return tuple(one[part] for one in targets) if isinstance(targets, tuple) else targets[part]
