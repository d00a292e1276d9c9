"""An LSTM over windows of a worn sensor, and every record's own gradient at little extra cost.

A record's gradient needs the gates' gradients and what went into them, nothing else: the loss is
taken back through time once for all records, and two products a layer give each record its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from masquerade import _check
from masquerade._optional import require

torch = require("torch", extra="train")
nn = torch.nn
Module: Any = nn.Module
Tensor: TypeAlias = Any  # torch.Tensor

KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")  # of a layer's weights, in torch's order


class LSTM(Module):  # type: ignore[misc]  # the checker does not see torch
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

    def __init__(self, channels: int, classes: int, hidden: int = 64, layers: int = 1) -> None:
        _check.count(channels=channels, classes=classes, hidden=hidden, layers=layers)
        super().__init__()
        self.lstm = nn.LSTM(channels, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, classes)
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("scale", torch.ones(channels))

    def forward(self, windows: Tensor) -> Tensor:
        """Windows (B, L, C) to logits (B, classes)."""
        return self.head(self.middle(windows))

    def middle(self, windows: Tensor) -> Tensor:
        """Windows (B, L, C) to what the head is given (B, hidden)."""
        hidden, _ = self.lstm((windows - self.mean) / self.scale)
        return hidden.mean(dim=1)

    def per_record(
        self, weights: Mapping[str, Tensor], inputs: Tensor, wanted: tuple[Tensor, Tensor]
    ) -> dict[str, Tensor]:
        """As `per_record`, at the given weights."""
        return per_record(self, inputs, wanted, weights=weights)


def make(
    channels: int,
    classes: int,
    *,
    hidden: int = 64,
    layers: int = 1,
    mean: Any | None = None,
    scale: Any | None = None,
) -> LSTM:
    """An `LSTM` with random weights of torch's own generator.

    Args:
        channels: of the windows.
        classes: numbers that come out.
        hidden: size of the state.
        layers: one on top of the other.
        mean: (C,) taken off first; from public data only. None for 0.
        scale: (C,) divided by next, > 0; from public data only. None for 1.
    """
    net = LSTM(channels, classes, hidden, layers)
    for name, given in (("mean", mean), ("scale", scale)):
        if given is None:
            continue
        value = torch.as_tensor(given, dtype=torch.float32)
        if value.shape != (channels,) or not bool(torch.isfinite(value).all()):
            raise ValueError(f"Expected {name} to be {channels} finite numbers, got {given!r}.")
        getattr(net, name).copy_(value)
    if not bool((net.scale > 0).all()):
        raise ValueError(
            f"Expected scale > 0 for every channel, got {scale!r}; drop constant ones."
        )
    return net


def per_record(
    net: LSTM,
    inputs: Tensor,
    wanted: tuple[Tensor, Tensor],
    *,
    weights: Mapping[str, Tensor] | None = None,
) -> dict[str, Tensor]:
    """The gradient of every record's loss: tensors with one more axis in front.

    The loss of a record is the sum over its windows of share times cross-entropy.

    Args:
        net: what is trained.
        inputs: (B, L, C), or (B, K, L, C) where a record has K windows.
        wanted: targets and shares, each (B,) or (B, K); a share may hold a class weight too.
        weights: those that are trained, by name; None for the network's own.
    """
    targets, shares = (each.flatten() for each in wanted)
    owners = inputs.shape[:-2] if inputs.dim() == 4 else (len(inputs), 1)
    if len(targets) != owners[0] * owners[1] or targets.shape != shares.shape:
        raise ValueError(
            f"Expected a target and a share for each window of {tuple(inputs.shape)}, got "
            f"{tuple(wanted[0].shape)} and {tuple(wanted[1].shape)}."
        )
    trained = dict(net.named_parameters()) if weights is None else weights
    held = {name: value.detach() for name, value in (*net.named_parameters(), *trained.items())}
    with torch.no_grad(), tiny_is_zero():
        flow = (inputs.reshape(-1, *inputs.shape[-2:]) - net.mean) / net.scale
        flow = flow.transpose(0, 1)  # (L, B*K, C)
        traces = []
        for layer in range(net.lstm.num_layers):
            into, over, bias = layer_weights(held, layer)
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
    return {name: found[name] for name in trained}


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


def layer_weights(held: Mapping[str, Tensor], layer: int) -> tuple[Tensor, Tensor, Tensor]:
    """What an LSTM layer multiplies its input by, its own state by, and what it adds."""
    into, over, *biases = (held[f"lstm.{kind}_l{layer}"] for kind in KINDS)
    return into, over, biases[0] + biases[1]


def _of_layer(
    name: str, slope: Tensor, sides: Mapping[str, Tensor], owners: tuple[int, int]
) -> dict[str, Tensor]:
    """Gradients of weights, from those of products (L, B*K, G) and what was multiplied."""

    def apart(values: Tensor) -> Tensor:  # (B, K*L, ...)
        return values.unflatten(1, owners).permute(1, 2, 0, 3).flatten(1, 2)

    mine = apart(slope)
    found = {name.format(side): torch.bmm(mine.mT, apart(seen)) for side, seen in sides.items()}
    for side in sides:
        found[name.format(side.replace("weight", "bias"))] = mine.sum(dim=1)
    return found


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
