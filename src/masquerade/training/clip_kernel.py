"""Norms and sums of clipped gradients on a GPU, each in one trip to memory.

The steps are those of `masquerade.training.gradients`: squares and products in float64, cut towards
zero, summed as whole numbers. Sums are therefore the same bit for bit; norms may round otherwise,
by far less than the hair that factors stay below C over the norm.
"""

from __future__ import annotations

import contextlib
from typing import Any

from masquerade._torch import Tensor, torch
from masquerade.noise.kernel import is_usable

try:
    import triton  # type: ignore[import-not-found,unused-ignore]
    import triton.language as tl  # type: ignore[import-not-found,unused-ignore]
except ImportError:  # tensor operations give the same
    triton = None


__all__ = ["compute_squares", "is_usable", "sum_clipped"]

_BLOCK_SIZE = 1024  # numbers at a time
_BLOCKS_PER_PROGRAM = 8  # blocks that one program squares


def compute_squares(flat: Tensor) -> Tensor:
    """(N, parts) float64 whose rows add up to the squared norms of ``flat`` (N, W)."""
    records, count = flat.shape
    parts = -(-count // (_BLOCK_SIZE * _BLOCKS_PER_PROGRAM))
    out = torch.empty(records, parts, dtype=torch.float64, device=flat.device)
    with _select_device(flat):
        squares_kernel[(parts, records)](out, flat, count, _BLOCK_SIZE, _BLOCKS_PER_PROGRAM)
    return out


def sum_clipped(flat: Tensor, factor: Tensor) -> Tensor:
    """(W,) int64: the sum over records of ``flat`` (N, W) times their factors, each cut to cells.

    Args:
        flat: contiguous.
        factor: (N,) float64; a record whose factor is 0 adds nothing, whatever its numbers are.
    """
    records, count = flat.shape
    out = torch.empty(count, dtype=torch.int64, device=flat.device)
    with _select_device(flat):
        sum_kernel[(-(-count // _BLOCK_SIZE),)](out, flat, factor, count, records, _BLOCK_SIZE)
    return out


def _select_device(flat: Tensor) -> contextlib.AbstractContextManager[object]:
    return torch.cuda.device(flat.device) if flat.is_cuda else contextlib.nullcontext()


def _compile_kernel(function: Any) -> Any:
    return function if triton is None else triton.jit(function, do_not_specialize=["count"])


@_compile_kernel
def squares_kernel(
    out: tl.tensor, values: tl.tensor, count: tl.tensor, BLOCK: tl.constexpr, STEPS: tl.constexpr
) -> None:
    part, record = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    total = tl.zeros([BLOCK], dtype=tl.float64)
    for step in range(STEPS):
        place = (part * STEPS + step) * BLOCK + tl.arange(0, BLOCK)
        held = tl.load(values + record * count + place, place < count, other=0.0).to(tl.float64)
        total += held * held
    tl.store(out + record * tl.num_programs(0) + part, tl.sum(total, axis=0))


@_compile_kernel
def sum_kernel(
    out: tl.tensor,
    values: tl.tensor,
    factor: tl.tensor,
    count: tl.tensor,
    RECORDS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.int64)
    here = values + place
    for record in range(RECORDS):
        share = tl.load(factor + record)
        held = tl.load(here, place < count, other=0.0).to(tl.float64)
        cells = (held * share).to(tl.int64)  # towards zero
        total += tl.where(share > 0, cells, 0)
        here += count
    tl.store(out + place, total, place < count)
