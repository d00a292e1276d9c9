"""Keystream, inverse and decision in one Triton kernel: a thread's block of ChaCha20 is 8 numbers.

The steps are those of `masquerade.noise.gpu`, in registers: memory is written once. Triton
may fuse products and sums; the error bound allows for it. Key and numbers are passed in tensors,
because Triton would take a float for float32 and compile a kernel anew for an int of another size.
"""

from __future__ import annotations

import os
import shutil
from functools import cache, lru_cache
from typing import Any

import numpy as np

from masquerade._torch import Tensor, torch
from masquerade.noise.cells import ROW_BITS, TERMS, fit_quantile_table

try:
    import triton  # type: ignore[import-not-found,unused-ignore]
    import triton.language as tl  # type: ignore[import-not-found,unused-ignore]
except ImportError:  # tensor operations draw the same noise
    triton = None


_BLOCKS_PER_PROGRAM = 128  # of ChaCha20 in a program: one for each thread of four warps


@cache
def is_usable() -> bool:
    """Whether Triton is installed, and the C compiler that it needs."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    return triton is not None and compiler is not None


def launch_cells_kernel(out: Tensor, state: Tensor, numbers: tuple[float, ...]) -> None:
    """Write cells to ``out``, and `UNDECIDED_CELL` where the bound does not do.

    Args:
        out: int64 on a GPU.
        state: the 16 first words of the first block.
        numbers: ratio, error for each unit of the position, error always there, c times ratio.
    """
    floats = _copy_numbers_to(out.device, numbers)
    rows, programs = _copy_rows_to(out.device), -(-len(out) // (8 * _BLOCKS_PER_PROGRAM))
    with torch.cuda.device(out.device):
        cells_kernel[(programs,)](
            out, state, floats, rows, len(out), _BLOCKS_PER_PROGRAM, ROW_BITS, TERMS
        )


def launch_stream_kernel(out: Tensor, state: Tensor) -> None:
    """Write keystream words to ``out``, int64 on a GPU: for the test vectors."""
    programs = -(-len(out) // (8 * _BLOCKS_PER_PROGRAM))
    with torch.cuda.device(out.device):
        stream_kernel[(programs,)](out, state, len(out), _BLOCKS_PER_PROGRAM)


@cache
def _copy_rows_to(device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(fit_quantile_table())).to(device)


@lru_cache(maxsize=64)
def _copy_numbers_to(device: torch.device, numbers: tuple[float, ...]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64, device=device)


def _jit_function(function: Any) -> Any:
    return function if triton is None else triton.jit(function, do_not_specialize=["count"])


@_jit_function
def quarter_round(a: tl.tensor, b: tl.tensor, c: tl.tensor, d: tl.tensor) -> Any:
    a = a + b
    d = d ^ a
    d = (d << 16) | (d >> 16)
    c = c + d
    b = b ^ c
    b = (b << 12) | (b >> 20)
    a = a + b
    d = d ^ a
    d = (d << 8) | (d >> 24)
    c = c + d
    b = b ^ c
    b = (b << 7) | (b >> 25)
    return a, b, c, d


@_jit_function
def first_word(state: tl.tensor, place: tl.constexpr, like: tl.tensor) -> Any:
    return tl.load(state + place).to(tl.uint32, bitcast=True) + tl.zeros_like(like)


@_jit_function
def join_words(low: tl.tensor, high: tl.tensor) -> Any:
    return low.to(tl.uint64) | (high.to(tl.uint64) << 32)


@_jit_function
def make_word_pair(state: tl.tensor, place: tl.constexpr, low: tl.tensor, high: tl.tensor) -> Any:
    """Two words after the rounds, plus what they were before, as one of 64 bits."""
    return join_words(low + first_word(state, place, low), high + first_word(state, place + 1, low))


@_jit_function
def make_block_words(state: tl.tensor, BLOCKS: tl.constexpr) -> Any:
    """The words of this program's blocks, (8 * BLOCKS) of uint64."""
    count = tl.program_id(0).to(tl.uint64) * BLOCKS + tl.arange(0, BLOCKS).to(tl.uint64)
    count += tl.load(state + 12).to(tl.uint32, bitcast=True).to(tl.uint64)
    low = count.to(tl.uint32)
    high = first_word(state, 13, low) + (count >> 32).to(tl.uint32)
    a0, a1 = first_word(state, 0, low), first_word(state, 1, low)
    a2, a3 = first_word(state, 2, low), first_word(state, 3, low)
    b0, b1 = first_word(state, 4, low), first_word(state, 5, low)
    b2, b3 = first_word(state, 6, low), first_word(state, 7, low)
    c0, c1 = first_word(state, 8, low), first_word(state, 9, low)
    c2, c3 = first_word(state, 10, low), first_word(state, 11, low)
    d0, d1, d2, d3 = low, high, first_word(state, 14, low), first_word(state, 15, low)
    for _ in range(10):
        a0, b0, c0, d0 = quarter_round(a0, b0, c0, d0)
        a1, b1, c1, d1 = quarter_round(a1, b1, c1, d1)
        a2, b2, c2, d2 = quarter_round(a2, b2, c2, d2)
        a3, b3, c3, d3 = quarter_round(a3, b3, c3, d3)
        a0, b1, c2, d3 = quarter_round(a0, b1, c2, d3)
        a1, b2, c3, d0 = quarter_round(a1, b2, c3, d0)
        a2, b3, c0, d1 = quarter_round(a2, b3, c0, d1)
        a3, b0, c1, d2 = quarter_round(a3, b0, c1, d2)
    w0, w1 = make_word_pair(state, 0, a0, a1), make_word_pair(state, 2, a2, a3)
    w2, w3 = make_word_pair(state, 4, b0, b1), make_word_pair(state, 6, b2, b3)
    w4, w5 = make_word_pair(state, 8, c0, c1), make_word_pair(state, 10, c2, c3)
    w6, w7 = join_words(d0 + low, d1 + high), make_word_pair(state, 14, d2, d3)
    even = tl.join(tl.join(w0, w4), tl.join(w2, w6))
    odd = tl.join(tl.join(w1, w5), tl.join(w3, w7))
    return tl.reshape(tl.join(even, odd), [8 * BLOCKS])


@_jit_function
def stream_kernel(out: tl.tensor, state: tl.tensor, count: tl.tensor, BLOCKS: tl.constexpr) -> None:
    place = tl.program_id(0).to(tl.int64) * 8 * BLOCKS + tl.arange(0, 8 * BLOCKS)
    tl.store(out + place, make_block_words(state, BLOCKS).to(tl.int64, bitcast=True), place < count)


@_jit_function
def cells_kernel(
    out: tl.tensor,
    state: tl.tensor,
    numbers: tl.tensor,
    rows: tl.tensor,
    count: tl.tensor,
    BLOCKS: tl.constexpr,
    ROW_BITS: tl.constexpr,
    TERMS: tl.constexpr,
) -> None:
    word = make_block_words(state, BLOCKS)
    whole = ((word >> 11).to(tl.int64) + 1).to(tl.float64)  # j + 1, exact
    bits = whole.to(tl.int64, bitcast=True)
    s = (bits & ((1 << (52 - ROW_BITS)) - 1)) - (1 << (51 - ROW_BITS))
    s = s.to(tl.float64) * (2.0 ** (ROW_BITS - 51))
    row = rows + ((bits >> (52 - ROW_BITS)) - (1023 << ROW_BITS)) * TERMS
    value = tl.load(row + TERMS - 1)
    for k in tl.static_range(1, TERMS):
        value = value * s + tl.load(row + (TERMS - 1 - k))
    position = value * tl.load(numbers) + 0.5
    cell = tl.floor(position)
    place = position - cell
    error = position * tl.load(numbers + 1) + tl.load(numbers + 2)
    room = (1.0 - error - place) * (whole - 1.0)
    signed = tl.where((word & 1) != 0, -cell, cell).to(tl.int64)
    decided = (place >= error) & (room > tl.load(numbers + 3))
    index = tl.program_id(0).to(tl.int64) * 8 * BLOCKS + tl.arange(0, 8 * BLOCKS)
    tl.store(out + index, tl.where(decided, signed, 1 << 62), index < count)  # or UNDECIDED
