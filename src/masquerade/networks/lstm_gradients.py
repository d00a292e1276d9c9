"""An LSTM over windows of a worn sensor, and every record's own gradient at little extra cost.

A record's gradient needs the gates' gradients and what went into them, nothing else: the loss is
taken back through time once for all records, and two products a layer give each record its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from masquerade import _check
from masquerade._torch import Tensor, nn, torch
from masquerade.networks.lstm import Trace, tiny_is_zero, unroll, unroll_back

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
