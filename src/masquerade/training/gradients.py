"""Each record's own gradient, clipped, put on the grid and summed as whole numbers.

The sum is exact in any order, so a batch may be worked on in pieces. A contribution's norm is at
most C whatever the record was: the factor is a hair below C over the norm, the norm is taken in
float64, and truncating towards zero can only shorten it. A gradient that is not finite contributes
nothing.

Refuse networks in which one record can change another's gradient: clipping would be no bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TypeAlias

from masquerade import _check
from masquerade._optional import torch

_MAX_RELATIVE_ERROR = 1e-4  # relative; rounding differs a little with the size of a batch


def refuse_coupling(net: torch.nn.Module, inputs: torch.Tensor) -> None:
    """Raise if a record's output depends on who else is in the batch, and name the layer.

    Args:
        net: in the mode in which it will be trained.
        inputs: (N, ...) two records or more that differ; public or made up.

    Raises:
        ValueError: with the name of the first layer that mixes records.
    """
    for name, layer in net.named_modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm) and layer.training:
            raise ValueError(
                f"Expected no batch statistics in training, got {type(layer).__name__} at "
                f"{name!r}; put it into eval mode, in which public statistics scale and shift."
            )
    together = _record_outputs(net, inputs)
    every = [_record_outputs(net, inputs[place : place + 1]) for place in range(len(inputs))]
    for name, found in together.items():
        for place, alone in enumerate(every):
            single = alone.get(name)
            if single is None or single.shape[1:] != found.shape[1:] or len(found) % len(inputs):
                continue
            mine = found[place * len(single) : (place + 1) * len(single)]
            scale = float(single.abs().max()) + 1e-12
            if float((mine - single).abs().max()) > _MAX_RELATIVE_ERROR * scale:
                raise ValueError(
                    "Expected each record to be treated alone, got a layer that mixes them: "
                    f"{name!r}."
                )


def _record_outputs(net: torch.nn.Module, inputs: torch.Tensor) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    hooks = []
    for name, layer in net.named_modules():
        if not list(layer.children()) or layer is net:

            def keep_output(
                _: torch.nn.Module,
                given: tuple[object, ...],
                out: object,
                name: str = name or "the whole network",
            ) -> None:
                for what, held in (
                    (f"what comes before {name}", given[0] if given else None),
                    (name, out),
                ):
                    if isinstance(held, torch.Tensor) and held.dim():
                        found.setdefault(what, held.detach())

            hooks.append(layer.register_forward_hook(keep_output))
    try:
        with torch.no_grad():
            net(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return found


Tensors: TypeAlias = "dict[str, torch.Tensor]"
Target: TypeAlias = "torch.Tensor | tuple[torch.Tensor, ...]"
Loss: TypeAlias = "Callable[[Mapping[str, torch.Tensor], torch.Tensor, Target], torch.Tensor]"

_CLIP_FACTOR = 1 - 2.0**-20  # a hair below C
_MAX_EXACT = 2.0**53  # below it float64 adds whole numbers exactly
_NUMBERS_PER_GROUP = 1 << 25  # numbers
_MIN_LARGE_WEIGHT = 1 << 16  # weights


def per_record(
    loss: Loss,
    weights: Mapping[str, torch.Tensor],
    inputs: torch.Tensor,
    targets: Target,
    *,
    chunk: int,
) -> Tensors:
    """The gradient of every record: tensors with one more axis in front.

    Args:
        loss: of (weights, one record, its target); a scalar.
        weights: those that are trained.
        inputs: (N, ...).
        targets: (N, ...).
        chunk: records at once.
    """
    parts = [
        _compute_unshared(
            loss, weights, inputs[start : start + chunk], _slice_targets(targets, start, chunk)
        )
        for start in range(0, len(inputs), chunk)
    ]
    if len(parts) == 1:
        return parts[0]
    return {name: torch.cat([part[name] for part in parts]) for name in weights}


def _compute_unshared(
    loss: Loss, weights: Mapping[str, torch.Tensor], inputs: torch.Tensor, targets: Target
) -> Tensors:
    """Every record has weights of its own, all the same: their gradients are the record's.

    Plain differentiation of the vectorised loss: differentiating inside it would keep twice the
    memory, for derivatives of derivatives. A loss may know a way of its own.
    """
    given = getattr(loss, "per_record", None)
    if given is not None:
        found: Tensors = given(weights, inputs, targets)
        for name, gradient in found.items():
            if gradient.shape != (len(inputs), *weights[name].shape):
                raise ValueError(
                    f"Expected one gradient a record for {name}, got shape {tuple(gradient.shape)} "
                    f"for {len(inputs)} records."
                )
        return found
    own = {
        name: value.detach().expand(len(inputs), *value.shape).requires_grad_()
        for name, value in weights.items()
    }
    with torch.enable_grad():
        total = torch.func.vmap(loss)(own, inputs, targets).sum()
    each = torch.autograd.grad(total, list(own.values()), materialize_grads=True)
    return dict(zip(own, each, strict=True))


def compute_norms(gradients: Tensors) -> torch.Tensor:
    """(N,) float64: the norm over all weights together."""
    flats = [_flatten_group(gradients, names) for names in _group_weights(gradients)]
    if _has_kernel(flats[0]):
        squares = torch.cat([_load_kernel().compute_squares(flat) for flat in flats], dim=1)
        return squares.sum(dim=1).sqrt()
    each = [torch.linalg.vector_norm(flat, dim=1, dtype=torch.float64) for flat in flats]
    total: torch.Tensor = torch.linalg.vector_norm(torch.stack(each), dim=0)
    return total


def sum_clipped_cells(
    gradients: Tensors, present: torch.Tensor, *, clip_norm: float, grid: float
) -> Tensors:
    """The sum over records of clipped gradients, in cells of the grid, as int64.

    Args:
        gradients: from `per_record`.
        present: (N,) bool; records that only fill up the batch are not.
        clip_norm: C.
        grid: a power of two.
    """
    _check.positive(clip_norm=clip_norm, grid=grid)
    size = compute_norms(gradients)
    if len(size) * clip_norm / grid >= _MAX_EXACT:
        raise ValueError(
            f"Expected contributions below 2^53 cells together, got {len(size)} of {clip_norm} on "
            f"the grid {grid}; work on fewer at once."
        )
    is_good = torch.isfinite(size) & present
    factor = (clip_norm * _CLIP_FACTOR / size.clamp_min(1e-300)).clamp_max(1.0)
    factor = torch.where(is_good, factor, torch.zeros_like(factor))
    found = {}
    for names in _group_weights(gradients):
        total = _sum_cells(_flatten_group(gradients, names), factor / grid)
        widths = [gradients[name][0].numel() for name in names]
        for name, part in zip(names, total.split(widths), strict=True):
            found[name] = _as_shaped(part, gradients[name])
    return found


def _sum_cells(flat: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """(W,) int64: the sum of cells of flat gradients (N, W); whose factor is 0 adds nothing."""
    if _has_kernel(flat):
        total: torch.Tensor = _load_kernel().sum_clipped(flat, factor)
        return total
    safe = torch.where((factor > 0)[:, None], flat, 0.0)
    cells = (safe * factor[:, None]).trunc_()  # float64, as the factor is
    return cells.sum(dim=0).to(torch.int64)


def _group_weights(gradients: Tensors) -> list[list[str]]:
    """Names of weights that are worked on together: small ones, for fewer steps and little memory.

    Large ones stay alone, so that they need not be copied.
    """
    found: list[list[str]] = []
    room = 0
    for name in sorted(gradients, key=lambda name: gradients[name][0].numel() < _MIN_LARGE_WEIGHT):
        gradient = gradients[name]
        if gradient.numel() > room or gradient[0].numel() >= _MIN_LARGE_WEIGHT:
            found.append([])
            room = _NUMBERS_PER_GROUP
        found[-1].append(name)
        room = 0 if gradient[0].numel() >= _MIN_LARGE_WEIGHT else room - gradient.numel()
    return found


def _flatten_group(gradients: Tensors, names: list[str]) -> torch.Tensor:
    """(N, all of these weights), a weight's axes in the order in which they lie in memory."""
    each = [
        gradients[name].detach().permute(_find_axis_order(gradients[name])).flatten(1)
        if gradients[name].dim() > 1
        else gradients[name].detach()[:, None]
        for name in names
    ]
    return each[0].contiguous() if len(each) == 1 else torch.cat(each, dim=1)


def _find_axis_order(gradient: torch.Tensor) -> list[int]:
    """Records first, then a weight's axes as they lie: products give them in either order."""
    return [0, *sorted(range(1, gradient.dim()), key=gradient.stride, reverse=True)]


def _as_shaped(flat: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """One row of `_flatten_group` with the axes of a weight again."""
    order = [axis - 1 for axis in _find_axis_order(gradient)[1:]]
    laid = flat.reshape([gradient.shape[1 + axis] for axis in order])
    return laid.permute([order.index(axis) for axis in range(len(order))])


def _has_kernel(flat: torch.Tensor) -> bool:
    return flat.device.type == "cuda" and _load_kernel().is_usable()


def _load_kernel() -> ModuleType:
    from masquerade.training import clip_kernel  # importing Triton takes a second

    return clip_kernel


def mean_of(
    loss: Loss,
    weights: Mapping[str, torch.Tensor],
    inputs: torch.Tensor,
    targets: Target,
    *,
    chunk: int,
) -> Tensors:
    """The mean gradient of public records, un-noised."""

    held = {name: value.detach().requires_grad_() for name, value in weights.items()}
    found: Tensors = {name: torch.zeros_like(value) for name, value in weights.items()}
    for start in range(0, len(inputs), chunk):
        some = inputs[start : start + chunk], _slice_targets(targets, start, chunk)
        with torch.enable_grad():
            total = torch.func.vmap(loss, in_dims=(None, 0, 0))(held, *some).sum()
        given = torch.autograd.grad(total, list(held.values()), materialize_grads=True)
        for name, gradient in zip(held, given, strict=True):
            found[name] += gradient / len(inputs)
    return found


def _slice_targets(targets: Target, start: int, size: int) -> Target:
    """Some records of a tensor, or of each tensor of a tuple."""
    part = slice(start, start + size)
    return tuple(one[part] for one in targets) if isinstance(targets, tuple) else targets[part]
