"""Mixing, rounding, clipping and interleaving in one Triton kernel: each number is read once."""

from __future__ import annotations

from typing import Any

from masquerade._torch import Tensor, torch
from masquerade.noise.kernel import is_usable

try:
    import triton  # type: ignore[import-not-found,unused-ignore]
    import triton.language as tl  # type: ignore[import-not-found,unused-ignore]
except ImportError:  # tensor operations do the same
    triton = None


__all__ = ["is_usable", "paint_frames"]
_MAX_COLUMNS = 1024  # in a program


def paint_frames(planes: list[Tensor], weights: Tensor) -> Tensor:
    """Frames (T, H, W, 3) in 8 bits; of planes (T, H, W) and weights (3, 4), float32 on a GPU."""
    first, second, third = (_align_lines(plane) for plane in planes)
    frames, height, width = first.shape
    out = torch.empty((frames, height, width, 3), dtype=torch.uint8, device=first.device)
    size = min(_MAX_COLUMNS, 1 << (width - 1).bit_length())
    strides = [step for plane in (first, second, third) for step in plane.stride()[:2]]
    with torch.cuda.device(first.device):
        frames_kernel[(frames * height, -(-width // size))](
            out, first, second, third, weights, height, width, *strides, size
        )
    return out


def _align_lines(plane: Tensor) -> Tensor:
    """With the numbers of a line next to each other; frames and lines may stand in any order."""
    plane = plane.to(torch.float32)
    return plane if plane.stride(2) == 1 else plane.contiguous()


_SIZES = ["height", "width", "t0", "h0", "t1", "h1", "t2", "h2"]


def _compile_kernel(function: Any) -> Any:
    return function if triton is None else triton.jit(function, do_not_specialize=_SIZES)


@_compile_kernel
def frames_kernel(
    out: tl.tensor,
    first: tl.tensor,
    second: tl.tensor,
    third: tl.tensor,
    weights: tl.tensor,
    height: tl.tensor,
    width: tl.tensor,
    t0: tl.tensor,
    h0: tl.tensor,
    t1: tl.tensor,
    h1: tl.tensor,
    t2: tl.tensor,
    h2: tl.tensor,
    SIZE: tl.constexpr,
) -> None:
    line = tl.program_id(0).to(tl.int64)
    t, h = line // height, line % height
    column = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    is_in = column < width
    a = tl.load(first + (t * t0 + h * h0) + column, is_in)
    b = tl.load(second + (t * t1 + h * h1) + column, is_in)
    c = tl.load(third + (t * t2 + h * h2) + column, is_in)
    target = out + 3 * (line * width) + 3 * column
    for channel in tl.static_range(3):
        row = weights + 4 * channel
        value = a * tl.load(row) + b * tl.load(row + 1) + c * tl.load(row + 2) + tl.load(row + 3)
        value = tl.minimum(tl.maximum(value, 0.0), 255.0)
        value = (value + 8388608.0) - 8388608.0  # 2^23: to the nearest whole number, halves to even
        tl.store(target + channel, value.to(tl.uint8), is_in)
