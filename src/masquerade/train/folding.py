"""Networks with batch norm, made trainable record by record: the norm goes into the layer before.

In training a batch norm mixes the records of a batch, so no record could be bounded. With the
statistics it was published with it is a fixed scale and shift of each channel, and the layer
before it can do both. The function stays the same; the statistics must be public.
"""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any, TypeAlias

from masquerade._optional import require

torch = require("torch", extra="train")
nn = torch.nn
Network: TypeAlias = Any  # torch.nn.Module
Tensor: TypeAlias = Any  # torch.Tensor

_NORMS = nn.modules.batchnorm._BatchNorm
_LAYERS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)
_APART = 1e-4  # relative; a wrong fold is far off, rounding is far below


def fold_batch_norm(net: Network, inputs: Tensor) -> Network:
    """A copy of the network in which every batch norm is part of the layer before it.

    Each fold is tried on the inputs: the copy's output in eval mode is that of the network, or the
    fold is refused. The network itself is left alone.

    Args:
        net: with statistics from public training.
        inputs: (N, ...) some records to try it on; public or made up.

    Raises:
        ValueError: with the name of a batch norm that has no convolution or linear layer directly
            before it, whose statistics were never learned, or whose fold changes the output.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        >>> _ = net(torch.rand(8, 3, 9, 9))  # learns the statistics
        >>> fold_batch_norm(net, torch.rand(2, 3, 9, 9))[1]
        Identity()
    """
    folded = copy.deepcopy(net)
    modes = {name: layer.training for name, layer in folded.named_modules()}
    folded.eval()
    layers = dict(folded.named_modules())
    norms = [name for name, layer in layers.items() if isinstance(layer, _NORMS)]
    for name in norms:
        _refuse_untouched(name, layers[name])
    befores = _befores(folded, inputs)
    for name in norms:
        if name not in befores:
            raise ValueError(
                f"Expected a convolution or a linear layer directly before {name!r}, both used "
                "once, got none; this batch norm cannot be folded."
            )
        _fold(folded, befores[name], name, inputs)
    for name, layer in folded.named_modules():
        layer.training = modes[name]
    return folded


def _refuse_untouched(name: str, norm: Any) -> None:
    if norm.running_mean is None:
        raise ValueError(f"Expected learned statistics in {name!r}, got a batch norm without any.")
    is_first = bool((norm.running_mean == 0).all() and (norm.running_var == 1).all())
    if is_first and not int(norm.num_batches_tracked):
        raise ValueError(
            f"Expected learned statistics in {name!r}, got those it was made with; load public "
            "weights first, or choose a network without batch norm."
        )


def _befores(net: Network, inputs: Tensor) -> dict[str, str]:
    """The layer whose output each batch norm is given, where both run once."""
    made: dict[int, str] = {}  # by the tensor they gave
    held: list[Any] = []  # so that no tensor's place is taken by another
    found: dict[str, str] = {}
    runs: Counter[str] = Counter()
    hooks = []
    for name, layer in net.named_modules(remove_duplicate=False):
        if not isinstance(layer, (*_LAYERS, _NORMS)):
            continue

        def look(layer: Any, given: Any, out: Any, name: str = name) -> None:
            runs[name] += 1
            if isinstance(layer, _NORMS) and id(given[0]) in made:
                found[name] = made.pop(id(given[0]))
            elif isinstance(layer, _LAYERS):
                made[id(out)] = name
                held.append(out)

        hooks.append(layer.register_forward_hook(look))
    try:
        with torch.no_grad():
            net(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return {norm: one for norm, one in found.items() if runs[norm] == runs[one] == 1}


def _fold(net: Network, before: str, name: str, inputs: Tensor) -> None:
    """Fold one batch norm, in place."""
    with torch.no_grad():
        wanted = net(inputs)
    layer, norm = net.get_submodule(before), net.get_submodule(name)
    out = layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels
    if out == norm.num_features:
        with torch.no_grad():
            _scale(layer, norm)
        _put(net, name, nn.Identity())
        with torch.no_grad():
            got = net(inputs)
        if float((got - wanted).abs().max()) <= _APART * (float(wanted.abs().max()) + 1e-12):
            return
    raise ValueError(
        f"Expected the same output after folding {name!r} into {before!r}, got another: something "
        "else uses the output of that layer, or changes it in between."
    )


def _scale(layer: Any, norm: Any) -> None:
    """y = (W x + b - mean) * gain + shift, with gain = weight / sqrt(var + eps)."""
    gain = torch.rsqrt(norm.running_var.double() + norm.eps)
    gain = gain if norm.weight is None else gain * norm.weight.double()
    shift = 0.0 if norm.bias is None else norm.bias.double()
    bias = 0.0 if layer.bias is None else layer.bias.double()
    weight = layer.weight.double() * gain.reshape(-1, *[1] * (layer.weight.dim() - 1))
    bias = (bias - norm.running_mean.double()) * gain + shift
    layer.weight.copy_(weight.to(layer.weight.dtype))
    learns = layer.weight.requires_grad
    layer.bias = nn.Parameter(bias.to(layer.weight.dtype), requires_grad=learns)


def _put(net: Network, name: str, layer: Any) -> None:
    parent, _, last = name.rpartition(".")
    setattr(net.get_submodule(parent), last, layer)
