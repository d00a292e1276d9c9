"""An LSTM over windows of a worn sensor, and every record's own gradient at little extra cost.

A record's gradient needs the gates' gradients and what went into them, nothing else: the loss is
taken back through time once for all records, and two products a layer give each record its own.

The way of an LSTM layer through time and back, for one network or many side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from masquerade import _check
from masquerade._optional import require
from masquerade._torch import Tensor, nn, torch
from masquerade.collection import Medium
from masquerade.networks.network import Network, normalisation
from masquerade.recordings import Signal

files = require("safetensors.torch", extra="train")


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


KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")  # of a layer's weights, in torch's order


class LSTM(nn.Module):
    """Layers of LSTM, then classes from the mean of the hidden states over time.

    A mean learns from few windows where the last state alone does not.

    ``lstm`` is a torch.nn.LSTM and ``head`` a torch.nn.Linear, so their weights load both ways.
    ``mean`` and ``scale`` (C,) are taken off and divided by first; they are public, and so must be
    what they are set from.

    Args:
        channels: of the windows.
        classes: numbers that come out.
        hidden: size of the state.
        layers: one on top of the other.
    """

    mean: Tensor
    scale: Tensor
    rate_hz: float  # of the sensors that it was made for

    def __init__(self, channels: int, classes: int, hidden: int = 64, layers: int = 1) -> None:
        _check.count(channels=channels, classes=classes, hidden=hidden, layers=layers)
        super().__init__()
        self.lstm = nn.LSTM(channels, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, classes)
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("scale", torch.ones(channels))

    def forward(self, windows: Tensor) -> Tensor:
        """Windows (B, L, C) to logits (B, classes)."""
        logits: Tensor = self.head(self.middle(windows))
        return logits

    def middle(self, windows: Tensor) -> Tensor:
        """Windows (B, L, C) to what the head is given (B, hidden)."""
        hidden: Tensor = self.lstm((windows - self.mean) / self.scale)[0]
        return hidden.mean(dim=1)

    def normalised_by(self, mean: np.ndarray, scale: np.ndarray) -> LSTM:
        """The same network, which takes off and divides by these numbers of public data.

        Args:
            mean: (C,) of the channels.
            scale: (C,) > 0.
        """
        for name, given in (("mean", mean), ("scale", scale)):
            value = torch.as_tensor(given, dtype=torch.float32)
            if value.shape != self.mean.shape or not bool(torch.isfinite(value).all()):
                count = len(self.mean)
                raise ValueError(f"Expected {name} to be {count} finite numbers, got {given!r}.")
            getattr(self, name).copy_(value)
        if not bool((self.scale > 0).all()):
            raise ValueError(
                f"Expected scale > 0 for every channel, got {scale!r}; drop constant ones."
            )
        return self

    def per_record(
        self, weights: Mapping[str, Tensor], inputs: Tensor, wanted: tuple[Tensor, Tensor]
    ) -> dict[str, Tensor]:
        """The gradient of every record's loss: tensors with one more axis in front.

        The loss of a record is the sum over its windows of share times cross-entropy.

        Args:
            weights: those that are trained, by name.
            inputs: (B, L, C), or (B, K, L, C) where a record has K windows.
            wanted: targets and shares, each (B,) or (B, K); a share may hold a class weight too.
        """
        targets, shares = (each.flatten() for each in wanted)
        owners = (len(inputs), inputs.shape[1] if inputs.dim() == 4 else 1)
        if len(targets) != owners[0] * owners[1] or targets.shape != shares.shape:
            raise ValueError(
                f"Expected a target and a share for each window of {tuple(inputs.shape)}, got "
                f"{tuple(wanted[0].shape)} and {tuple(wanted[1].shape)}."
            )
        named = (*self.named_parameters(), *weights.items())
        held = {name: value.detach() for name, value in named}
        with torch.no_grad(), tiny_is_zero():
            flow = (inputs.reshape(-1, *inputs.shape[-2:]) - self.mean) / self.scale
            found = _backwards(flow.transpose(0, 1), held, targets, shares, owners)
        return {name: found[name] for name in weights}


def _backwards(
    flow: Tensor,
    held: Mapping[str, Tensor],
    targets: Tensor,
    shares: Tensor,
    owners: tuple[int, int],
) -> dict[str, Tensor]:
    """The gradients of all weights, from windows (L, B*K, C)."""
    traces: list[tuple[Tensor, Trace]] = []
    while f"lstm.weight_ih_l{len(traces)}" in held:
        into, over, bias = layer_weights(held, len(traces))
        traces.append((flow, unroll(nn.functional.linear(flow, into, bias), over)))
        flow = traces[-1][1].hidden
    middle = flow.mean(dim=0, keepdim=True)  # over time
    said = nn.functional.linear(middle[0], held["head.weight"], held["head.bias"])
    slope = said.softmax(dim=1)
    slope[torch.arange(len(slope), device=slope.device), targets] -= 1
    slope *= shares[:, None]  # (B*K, classes)
    found = _of_layer("head.{}", slope[None], {"weight": middle}, owners)
    given = (slope @ held["head.weight"] / len(flow)).expand_as(flow)
    for layer, (below, trace) in reversed([*enumerate(traces)]):
        into, over, _ = layer_weights(held, layer)
        slope = unroll_back(trace, over, given)
        first = torch.zeros_like(trace.hidden[:1])
        sides = {"weight_ih": below, "weight_hh": torch.cat([first, trace.hidden[:-1]])}
        found |= _of_layer(f"lstm.{{}}_l{layer}", slope, sides, owners)
        given = slope @ into if layer else given
    return found


def layer_weights(held: Mapping[str, Tensor], layer: int) -> tuple[Tensor, Tensor, Tensor]:
    """What an LSTM layer multiplies its input by, its own state by, and what it adds."""
    into, over, *biases = (held[f"lstm.{kind}_l{layer}"] for kind in KINDS)
    return into, over, biases[0] + biases[1]


def _of_layer(
    name: str, slope: Tensor, sides: Mapping[str, Tensor], owners: tuple[int, int]
) -> dict[str, Tensor]:
    """Gradients of weights, from those of products (L, B*K, G) and what was multiplied."""

    def apart(values: Tensor) -> Tensor:  # (B, K*L, ...)
        split: Tensor = values.unflatten(1, owners)
        return split.permute(1, 2, 0, 3).flatten(1, 2)

    mine = apart(slope)
    found = {name.format(side): torch.bmm(mine.mT, apart(seen)) for side, seen in sides.items()}
    for side in sides:
        found[name.format(side.replace("weight", "bias"))] = mine.sum(dim=1)
    return found


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
    def said(self) -> dict[str, Any]:
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

    def make(self, classes: int, *, seed: int, public: Sequence[Signal] = ()) -> LSTM:
        """Random weights; channels are normalised by public signals."""
        mean, scale = normalisation([signal.values for signal in public])
        torch.manual_seed(seed)
        net = LSTM(len(mean), classes, self.hidden).normalised_by(mean, scale)
        net.rate_hz = public[0].rate_hz
        return net

    def split(self, net: LSTM, part: str) -> tuple[Any, Any]:
        """All of it is trained, or the head alone."""
        if part == "all":
            return nn.Identity(), net
        for parameter in net.lstm.parameters():
            parameter.requires_grad_(False)
        return net.middle, net.head

    def prepare(self, segments: np.ndarray) -> Tensor:
        """Windows (N, L, C) as they are."""
        return torch.from_numpy(segments)

    def told(self, net: LSTM) -> dict[str, Any]:
        """The sensors that it was made for."""
        return {"channels": len(net.mean), "rate_hz": net.rate_hz}

    def load(self, path: Path, said: Mapping[str, Any]) -> LSTM:
        """As `make` gave it, trained."""
        net = LSTM(said["channels"], len(said["activities"]), self.hidden)
        net.load_state_dict(files.load_file(path))
        net.rate_hz = float(said["rate_hz"])
        return net.eval()


EXAMPLE = LstmNetwork(window=16, hidden=4)
