"""An LSTM over windows of a worn sensor, and every record's own gradient at little extra cost.

A record's gradient needs the gates' gradients and what went into them, nothing else: the loss is
taken back through time once for all records, and two products a layer give each record its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np

from masquerade import _check
from masquerade._optional import require
from masquerade.collection import Kind
from masquerade.nets.channels import normalisation
from masquerade.nets.lstm_time import tiny_is_zero, unroll, unroll_back
from masquerade.nets.network import Network
from masquerade.recordings import Signal

torch = require("torch", extra="train")
files = require("safetensors.torch", extra="train")
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

    KIND: ClassVar[Kind] = Kind.SIGNALS
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
        net = make(len(mean), classes, hidden=self.hidden, mean=mean, scale=scale)
        return self.marked(net, public[0].rate_hz)

    def marked(self, net: LSTM, rate_hz: float) -> LSTM:
        """The same network, with what its users must know standing on it."""
        net.name, net.window, net.rate_hz = self.name, self.window, rate_hz
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

    @classmethod
    def load(cls, path: Path, said: Mapping[str, Any]) -> LSTM:
        """As `make` gave it, trained."""
        network = cls(window=int(said["window"]), hidden=said["hidden"])
        net = LSTM(said["channels"], len(said["activities"]), hidden=network.hidden)
        net.load_state_dict(files.load_file(path))
        net.eval()
        return network.marked(net, float(said["rate_hz"]))


EXAMPLE = LstmNetwork(window=16, hidden=4)
