"""The LSTM for worn sensors as an entry: its settings, without torch until it is made.

The way of an LSTM layer through time and back, for one network or many side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module, torch
from masquerade.collection import Medium
from masquerade.networks.network import Network, compute_channel_scales
from masquerade.recordings import Signal

if TYPE_CHECKING:
    from safetensors import torch as files
    from torch import Tensor

    from masquerade.networks import lstm_stack as lstm_gradients
else:
    files = lazy_module("safetensors.torch", extra="train")
    lstm_gradients = lazy_module("masquerade.networks.lstm_stack", extra="train")


@contextmanager
def flush_tiny_to_zero() -> Iterator[None]:
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


class LayerTrace(NamedTuple):
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


def unroll_lstm(gates: Tensor, weight: Tensor) -> LayerTrace:
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
    return LayerTrace(gates, hidden, cells, bent)


def backpropagate_lstm(trace: LayerTrace, weight: Tensor, given: Tensor) -> Tensor:
    """The gradient (..., L, B, 4H) of what goes into the curves.

    Args:
        trace: of the way forwards.
        weight: as on the way forwards.
        given: (..., L, B, H) gradient of every hidden state.
    """
    size, product = weight.shape[-1], torch.addmm if weight.dim() == 2 else torch.baddbmm
    slopes, through = _compute_gate_slopes(trace, size)
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


def _compute_gate_slopes(trace: LayerTrace, size: int) -> tuple[Tensor, Tensor]:
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


@dataclass(frozen=True, kw_only=True)
class LstmNetwork(Network):
    """An LSTM for worn sensors, from random weights.

    A method's ``segments`` is the number of windows of a recording that are averaged before
    clipping, spread evenly over those that one activity fills. Its usual 1 is little to learn from:
    32, with ``part="all"``, is sensible. ``part="head"`` leaves the LSTM as random as it began.

    Args:
        window: samples that the network sees at once.
        hidden: size of its state.
    """

    KIND: ClassVar[Medium] = Medium.SIGNALS
    IN_WORDS: ClassVar[str] = "lstm, which always begins with random weights"

    window: int = 128
    hidden: int = 64

    def __post_init__(self) -> None:
        _check.count(window=self.window, hidden=self.hidden)

    @property
    def length(self) -> int:
        """Samples of a window."""
        return self.window

    @property
    def file_fields(self) -> dict[str, Any]:
        """Its name, its state's size and its window."""
        return {"network": self.name, "hidden": self.hidden, "window": self.window}

    def check(self, part: str, precision: str) -> None:
        """It has no norms, and no other precision."""
        if part not in ("all", "head"):
            raise ValueError(
                f"Expected part all or head with an LSTM, which has no norms, got part={part}; "
                "use part=all."
            )
        if precision != "float32":
            raise ValueError(
                f"Expected precision=float32 with an LSTM, got precision={precision}; it has no "
                "other."
            )

    def make(
        self, classes: int, *, seed: int, public: Sequence[Signal] = ()
    ) -> lstm_gradients.LSTM:
        """Random weights; channels are normalised by public signals."""
        mean, scale = compute_channel_scales([signal.values for signal in public])
        torch.manual_seed(seed)
        net = lstm_gradients.LSTM(len(mean), classes, self.hidden).with_normalisation(mean, scale)
        net.rate_hz = public[0].rate_hz
        return net

    def split(self, net: lstm_gradients.LSTM, part: str) -> tuple[Any, Any]:
        """All of it is trained, or the head alone."""
        if part == "all":
            return torch.nn.Identity(), net
        for parameter in net.lstm.parameters():
            parameter.requires_grad_(False)
        return net.compute_mean_state, net.head

    def prepare(self, segments: np.ndarray) -> torch.Tensor:
        """Windows (N, L, C) as they are."""
        return torch.from_numpy(segments)

    def describe_net(self, net: lstm_gradients.LSTM) -> dict[str, Any]:
        """The sensors that it was made for."""
        return {"channels": len(net.mean), "rate_hz": net.rate_hz}

    def load(self, path: Path, said: Mapping[str, Any]) -> lstm_gradients.LSTM:
        """As `make` gave it, trained."""
        net = lstm_gradients.LSTM(said["channels"], len(said["activities"]), self.hidden)
        net.load_state_dict(files.load_file(path))
        net.rate_hz = float(said["rate_hz"])
        return net.eval()
