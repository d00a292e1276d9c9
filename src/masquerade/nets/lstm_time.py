"""The way of an LSTM layer through time and back, for one network or many side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from masquerade._optional import require

torch = require("torch", extra="train")
Tensor: TypeAlias = Any  # torch.Tensor


@contextmanager
def tiny_is_zero() -> Iterator[None]:
    """Take numbers below 1e-38 for 0 in this thread.

    Gradients fade on their way back through time until processors count them in their slowest
    way, ten times slower over 200 steps.
    """
    was_so = not bool(torch.tensor(1e-39) * 0.5)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(was_so)


class Trace(NamedTuple):
    """What a layer remembers of its way through time, the axis before the records.

    Args:
        gates: (..., L, B, 4H) input, forget, candidate and output, after their curves.
        hidden: (..., L, B, H).
        cells: (..., L, B, H).
        bent: (..., L, B, H) tanh of the cells.
    """

    gates: Tensor
    hidden: Tensor
    cells: Tensor
    bent: Tensor


def unroll(gates: Tensor, weight: Tensor) -> Trace:
    """Go through time from a state of zeros; for one network, or many with an axis in front.

    Args:
        gates: (..., L, B, 4H) the input's part of what goes into the curves; overwritten.
        weight: (..., 4H, H) what the state before is multiplied by.
    """
    size, over = weight.shape[-1], weight.mT
    hidden, cells, bent = (gates.new_empty(*gates.shape[:-1], size) for _ in range(3))
    before = None
    steps = (values.unbind(dim=-3) for values in (gates, hidden, cells, bent))
    for gate, state, cell, curve in zip(*steps, strict=True):
        if before is not None:
            (gate.addmm_ if over.dim() == 2 else gate.baddbmm_)(before[0], over)
        gate[..., : 2 * size].sigmoid_()
        gate[..., 2 * size : 3 * size].tanh_()
        gate[..., 3 * size :].sigmoid_()
        enter, keep, new, out = gate.split(size, dim=-1)
        torch.mul(enter, new, out=cell)
        if before is not None:
            cell.addcmul_(keep, before[1])
        torch.tanh(cell, out=curve)
        torch.mul(out, curve, out=state)
        before = state, cell
    return Trace(gates, hidden, cells, bent)


def unroll_back(trace: Trace, weight: Tensor, given: Tensor) -> Tensor:
    """The gradient (..., L, B, 4H) of what goes into the curves.

    Args:
        trace: of the way forwards.
        weight: as on the way forwards.
        given: (..., L, B, H) gradient of every hidden state.
    """
    size, product = weight.shape[-1], torch.addmm if weight.dim() == 2 else torch.baddbmm
    slopes, through = _slopes(trace, size)
    parts = slopes.unflatten(-1, (4, size))
    steps = [
        values.unbind(dim=-3)
        for values in (slopes, through, trace.gates[..., size : 2 * size], given)
    ]
    state = steps[3][-1]
    cell = torch.zeros_like(state)
    for at in reversed(range(len(steps[0]))):
        slope, opened, keep, _ = (values[at] for values in steps)
        cell.addcmul_(state, opened)
        part = parts.select(-4, at)  # (..., B, 4, H)
        part[..., :3, :].mul_(cell.unsqueeze(-2))
        part[..., 3, :].mul_(state)
        if at:
            cell.mul_(keep)
            state = product(steps[3][at - 1], slope, weight)
    return slopes


def _slopes(trace: Trace, size: int) -> tuple[Tensor, Tensor]:
    """How each gate moves the cell, or the output the state; and the cell the state."""
    slopes = torch.empty_like(trace.gates)
    enter, keep, new, out = trace.gates.split(size, dim=-1)
    of_enter, of_keep, of_new, of_out = slopes.split(size, dim=-1)
    torch.addcmul(enter, enter, enter, value=-1, out=of_enter).mul_(new)  # i (1 - i) g
    torch.addcmul(keep, keep, keep, value=-1, out=of_keep)  # f (1 - f) c before
    of_keep[..., 1:, :, :].mul_(trace.cells[..., :-1, :, :])
    of_keep[..., 0, :, :] = 0
    torch.mul(enter, new, out=of_new)
    torch.addcmul(enter, of_new, new, value=-1, out=of_new)  # i (1 - g^2)
    torch.addcmul(out, out, out, value=-1, out=of_out).mul_(trace.bent)  # o (1 - o) tanh c
    through = torch.addcmul(out, trace.hidden, trace.bent, value=-1)  # o (1 - tanh^2 c)
    return slopes, through
