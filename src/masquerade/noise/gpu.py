"""Gaussian noise drawn on a torch device, equal to the processor's bit for bit.

The same keystream, the same rule (`masquerade.noise.cells`), another inverse: the polynomials of
`masquerade.noise.cells`, whose error is proved for any float64 that rounds as IEEE 754 says.

    A number's exact position, in cells, lies from p - e to p + e + c ratio / j, where p is the
    computed one (with the half cell already added) and e = u (4.5 p + 0.25 ratio + 4): 2.25 and
    0.25 for the inverse, one rounding each for the product and the sum, the rest for the test
    itself. Only the far end moves by the interval's length, c = sqrt(2 pi)/2 < 1.26.
    Where all of that is one cell, the cell is decided here, and exact arithmetic would agree.
    Otherwise the number goes to the processor's routine, which reads the further bits of the
    number's own index. So devices may differ in what they leave undecided, never in the noise.

About ratio 2^-48 of the numbers are left over: below one in 100 million on the default grid.
On a GPU one Triton kernel does it all; without Triton, tensor operations do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from masquerade._optional import lazy_module
from masquerade.noise import cells
from masquerade.noise.cells import CHUNK, HALF_NORMAL, make_keystream, sample_cells
from masquerade.noise.grid import MAX_WHOLE, make_range_error

if TYPE_CHECKING:
    from masquerade._torch import Tensor, torch
else:
    torch = lazy_module("torch", extra="train")


UNDECIDED_CELL = 1 << 62  # no cell: those stay below 2^34
MAX_SPAN = 1 << 26  # numbers between two looks at what is left over
_CELLS_PER_PIECE = 1 << 22  # numbers at a time by tensor operations: they need ten times the room
_PER_POSITION = (cells.ERROR_PER_MAGNITUDE + 2.25) * cells.UNIT
_TAIL_SLOPE = 1.26
_CONSTANTS = b"expand 32-byte k"
_LOW_53 = (1 << 53) - 1


class Span(NamedTuple):
    """So many numbers of a stream, from a block of the key on."""

    numbers: int
    key: bytes
    block: int


Fill: TypeAlias = "Callable[[Tensor, float, Span], None]"


def sample_gaussian_cells(
    device: str, ratio: float, count: int, spans: Iterable[Span], *, fill: Fill | None = None
) -> Tensor:
    """Signed cell numbers, int64, of a Gaussian whose sigma is ``ratio`` cells wide.

    Args:
        device: "cpu", "cuda", "cuda:1".
        ratio: sigma over the grid.
        count: how many.
        spans: where in the keystream they stand, ``count`` numbers together.
        fill: what writes a span, or `UNDECIDED_CELL`; the quickest there is if none is given.

    Raises:
        ValueError: if there is no such device, or none with float64.
        MissingExtra: if torch is not installed.
    """
    out = torch.empty(count, dtype=torch.int64, device=_check_torch_device(device))
    fill = fill or _find_fastest_fill(out.device)
    start = 0
    for span in spans:
        part = out[start : start + span.numbers]
        fill(part, ratio, span)
        _decide_the_rest(part, ratio, span)
        start += span.numbers
    return out


def count_grid_cells(values: Tensor, grid: float) -> Tensor:
    """How many cells of the grid each value is from zero, rounded, in float64.

    A power of two divides exactly, so this is `masquerade.noise.grid.round_to_grid` over the grid.
    What it would refuse is left to `add_on_grid`, which looks when the device must be waited for
    anyhow.
    """
    return (values.to(torch.float64) / grid).round_()


def add_on_grid(whole: Tensor, cells: Tensor, grid: float) -> Tensor:
    """(``whole`` + ``cells``) ``grid`` in float64: exact, since all are whole numbers below 2^53.

    Raises:
        ValueError: if a value is 2^52 cells or more from zero; the sum would not be exact.
    """
    if whole.numel() and not float(whole.abs().max()) < MAX_WHOLE:
        raise make_range_error(grid)
    return whole.add_(cells).mul_(grid)


def fill_on_processor(part: Tensor, ratio: float, span: Span) -> None:
    """Write a span by the routine of `masquerade.noise`, ten times as quick as tensors are."""
    cells = part.numpy()
    for start in range(0, len(part), CHUNK):
        piece, block = cells[start : start + CHUNK], span.block + start // 8
        stream = make_keystream(span.key, lane=bytes(12), block=block, num_bytes=8 * len(piece))
        words = np.frombuffer(stream, dtype="<u8").astype(np.uint64, copy=False)
        piece[:] = sample_cells(HALF_NORMAL, ratio, words, span.key, 8 * block)


def fill_by_tensors(part: Tensor, ratio: float, span: Span) -> None:
    """Write a span by tensor operations, on any device with float64."""
    columns = load_columns_on(part.device)
    for start in range(0, len(part), _CELLS_PER_PIECE):
        piece = part[start : start + _CELLS_PER_PIECE]
        state = start_state(span.key, bytes(12), span.block + start // 8, part.device)
        words = make_stream_words(state, -(-len(piece) // 8))[: len(piece)]
        piece.copy_(decide_cells(words, ratio, columns))


def fill_by_kernel(part: Tensor, ratio: float, span: Span) -> None:
    """Write a span by one Triton kernel."""
    state = start_state(span.key, bytes(12), span.block, part.device)
    _import_triton_kernels().fill(part, state, (ratio, *compute_margins(ratio)))


def start_state(key: bytes, lane: bytes, block: int, device: torch.device) -> Tensor:
    """ChaCha20's 16 first words of a block [rfc8439, section 2.3], as int32."""
    words = np.frombuffer(_CONSTANTS + key + block.to_bytes(4, "little") + lane, dtype="<i4")
    return copy_unblocked(torch.from_numpy(words.astype(np.int32)), device)


def copy_unblocked(few: Tensor, device: torch.device) -> Tensor:
    """A tensor of the processor on the device; a GPU goes on working meanwhile.

    From ordinary memory torch would wait until everything before is done.
    """
    if torch.device(device).type == "cpu":
        return few
    return few.pin_memory().to(device, non_blocking=True)


def make_stream_words(state: Tensor, blocks: int) -> Tensor:
    """Keystream words of ``blocks`` blocks from the state's own on, as int64.

    int32 sums wrap around as uint32 sums do. Rows of four words are worked on together. The
    block number is carried into the next word, as `masquerade.noise.cells` does.
    """
    start = state.view(4, 4, 1).repeat(1, 1, blocks)
    count = torch.arange(blocks, device=state.device) + (state[12].to(torch.int64) & 0xFFFFFFFF)
    start[3, 0] = count.to(torch.int32)
    start[3, 1] += (count >> 32).to(torch.int32)
    a, b, c, d = start.clone()
    for _ in range(10):
        _quarter_rounds(a, b, c, d)
        b, c, d = b.roll(-1, 0), c.roll(-2, 0), d.roll(-3, 0)
        _quarter_rounds(a, b, c, d)
        b, c, d = b.roll(1, 0), c.roll(2, 0), d.roll(3, 0)
    words = torch.stack([a, b, c, d]).add_(start).view(16, blocks)
    return words.t().reshape(-1).view(torch.int64)  # (blocks * 8)


def magnitude(whole: Tensor, columns: Tensor) -> Tensor:
    """Half-normal magnitudes at the tails ``whole`` 2^-53: whole numbers 1 to 2^53 in float64.

    The leading bits name the row of the table, the others are s.
    """
    bits = whole.view(torch.int64)
    row = (bits >> (52 - cells.ROW_BITS)) - (1023 << cells.ROW_BITS)
    s = (bits & ((1 << (52 - cells.ROW_BITS)) - 1)) - (1 << (51 - cells.ROW_BITS))
    s = s.to(torch.float64) * 2.0 ** (cells.ROW_BITS - 51)
    value = columns[cells.TERMS - 1].index_select(0, row)
    for k in reversed(range(cells.TERMS - 1)):
        value = value.mul_(s).add_(columns[k].index_select(0, row))
    return value


def compute_margins(ratio: float) -> tuple[float, float, float]:
    """The error for each unit of the position, the error always there, and c times ratio."""
    return _PER_POSITION, (cells.ERROR_AT_ZERO * ratio + 4) * cells.UNIT, _TAIL_SLOPE * ratio


def decide_cells(words: Tensor, ratio: float, columns: Tensor) -> Tensor:
    """Signed cells of the words by tensor operations, `UNDECIDED_CELL` where the bound does not
    do."""
    per_position, always, slope = compute_margins(ratio)
    whole = (((words >> 11) & _LOW_53) + 1).to(torch.float64)  # j + 1, exact
    position = magnitude(whole, columns).mul_(ratio).add_(0.5)
    cells = position.floor()
    place = position - cells
    error = position.mul_(per_position).add_(always)
    room = (1.0 - error).sub_(place).mul_(whole.sub_(1.0))
    signed = torch.where((words & 1).bool(), -cells, cells).to(torch.int64)
    return torch.where((place >= error) & (room > slope), signed, UNDECIDED_CELL)


@cache
def load_columns_on(device: torch.device) -> Tensor:
    """The table with one column a row (8, rows), kept on the device."""
    return torch.from_numpy(np.ascontiguousarray(cells.fit_quantile_table().T)).to(device)


def _find_fastest_fill(device: torch.device) -> Fill:
    if device.type == "cpu":
        return fill_on_processor
    return fill_by_kernel if _import_triton_kernels().is_usable() else fill_by_tensors


def _decide_the_rest(part: Tensor, ratio: float, span: Span) -> None:
    """Numbers that the device left undecided, by the processor's exact routine.

    To see that there are none, which is nearly always so, one number is looked at.
    """
    if int(part.max()) < UNDECIDED_CELL:
        return
    places = (part == UNDECIDED_CELL).nonzero().flatten()
    cells = [_decide_exact_cell(ratio, span.key, 8 * span.block + i) for i in places.tolist()]
    part[places] = torch.tensor(cells, dtype=torch.int64, device=part.device)


def _decide_exact_cell(ratio: float, key: bytes, index: int) -> int:
    block = make_keystream(key, lane=bytes(12), block=index // 8, num_bytes=64)
    word = np.frombuffer(block, dtype="<u8")[index % 8 :][:1].astype(np.uint64)
    return int(sample_cells(HALF_NORMAL, ratio, word, key, index)[0])


def _quarter_rounds(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> None:
    """Four quarter rounds [rfc8439, section 2.1] at once, in place."""
    for first, second in ((16, 12), (8, 7)):
        a += b
        d ^= a
        _rotate_bits(d, first)
        c += d
        b ^= c
        _rotate_bits(b, second)


def _rotate_bits(word: Tensor, bits: int) -> None:
    carried = (word >> (32 - bits)) & ((1 << bits) - 1)  # the shift brings the sign along
    word <<= bits
    word |= carried


def _check_torch_device(device: str) -> torch.device:
    """The torch device, or why not."""
    kind = device.partition(":")[0]
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"Expected cpu or cuda, got device={device!r}.")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"Expected a GPU that torch can use, got device={device!r} on a machine without; "
            "choose cpu."
        )
    return torch.device(device)


def _import_triton_kernels() -> ModuleType:
    from masquerade.noise import kernel  # importing Triton takes a second

    return kernel
