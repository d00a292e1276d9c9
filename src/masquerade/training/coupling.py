"""Refuse networks in which one record can change another's gradient: clipping would be no bound."""

from __future__ import annotations

from masquerade._optional import torch

_APART = 1e-4  # relative; rounding differs a little with the size of a batch


def refuse_coupling(net: torch.nn.Module, inputs: torch.Tensor) -> None:
    """Raise if a record's output depends on who else is in the batch, and name the layer.

    Args:
        net: in the mode in which it will be trained.
        inputs: (N, ...) two records or more that differ; public or made up.

    Raises:
        ValueError: with the name of the first layer that mixes records.
    """
    for name, layer in net.named_modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm) and layer.training:
            raise ValueError(
                f"Expected no batch statistics in training, got {type(layer).__name__} at "
                f"{name!r}; put it into eval mode, in which public statistics scale and shift."
            )
    together = _outputs(net, inputs)
    every = [_outputs(net, inputs[place : place + 1]) for place in range(len(inputs))]
    for name, found in together.items():
        for place, alone in enumerate(every):
            single = alone.get(name)
            if single is None or single.shape[1:] != found.shape[1:] or len(found) % len(inputs):
                continue
            mine = found[place * len(single) : (place + 1) * len(single)]
            scale = float(single.abs().max()) + 1e-12
            if float((mine - single).abs().max()) > _APART * scale:
                raise ValueError(
                    "Expected each record to be treated alone, got a layer that mixes them: "
                    f"{name!r}."
                )


def _outputs(net: torch.nn.Module, inputs: torch.Tensor) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    hooks = []
    for name, layer in net.named_modules():
        if not list(layer.children()) or layer is net:

            def keep(
                _: torch.nn.Module,
                given: tuple[object, ...],
                out: object,
                name: str = name or "the whole network",
            ) -> None:
                for what, held in (
                    (f"what comes before {name}", given[0] if given else None),
                    (name, out),
                ):
                    if isinstance(held, torch.Tensor) and held.dim():
                        found.setdefault(what, held.detach())

            hooks.append(layer.register_forward_hook(keep))
    try:
        with torch.no_grad():
            net(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return found
