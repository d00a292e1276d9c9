"""A trained model as a file of safetensors, and read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from masquerade._optional import require
from masquerade.errors import BadInput
from masquerade.nets.network import Network, network_class

safetensors = require("safetensors", extra="train")
files = require("safetensors.torch", extra="train")


def encoded(net: Any, network: Network, classes: tuple[str, ...], more: dict[str, Any]) -> bytes:
    """A network's weights, with all that must be said of it.

    Args:
        net: the trained network.
        network: that it was made by.
        classes: what its outputs mean.
        more: of what it learned, in public words.
    """
    said = network.said | {"activities": classes} | network.told(net) | more
    tensors = {key: value.detach().cpu().contiguous() for key, value in net.state_dict().items()}
    # one key: with several their order would differ from file to file
    data: bytes = files.save(tensors, metadata={"masquerade": json.dumps(said)})
    return data


def said_of(path: Path) -> dict[str, Any]:
    """What a model's file says of it."""
    try:
        with safetensors.safe_open(path, framework="pt") as held:
            return dict(json.loads((held.metadata() or {})["masquerade"]))
    except (safetensors.SafetensorError, LookupError, TypeError, ValueError, OSError) as error:
        raise BadInput(f"Expected a model of ours in {path}, got {error}.") from error


def load_model(path: Path) -> tuple[Any, tuple[str, ...]]:
    """A model that `masquerade train` wrote, and its classes."""
    said = said_of(path)
    try:
        return network_class(said["network"]).load(path, said), tuple(said["activities"])
    except BadInput:
        raise
    except (
        safetensors.SafetensorError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
        OSError,
    ) as error:
        raise BadInput(f"Expected a model of ours in {path}, got {error}.") from error
