"""A trained model as a file of safetensors, and read again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from masquerade._optional import Later
from masquerade.errors import BadInput
from masquerade.networks.network import Network, network_of

files = Later("safetensors.torch", extra="train")

safetensors = Later("safetensors", extra="train")


class Trained(NamedTuple):
    """A trained network, the entry that it was made by, its classes, and what its file says."""

    net: Any
    network: Network
    classes: tuple[str, ...]
    said: dict[str, Any]


def encoded(net: Any, network: Network, classes: tuple[str, ...], more: dict[str, Any]) -> bytes:
    """A network's weights, with all that must be said of it.

    Args:
        net: the trained network.
        network: that it was made by.
        classes: what its outputs mean.
        more: of what it learned, in public words.
    """
    said = network.said | {network.OUTPUTS: classes} | network.told(net) | more
    tensors = {key: value.detach().cpu().contiguous() for key, value in net.state_dict().items()}
    # one key: with several their order would differ from file to file
    data: bytes = files.save(tensors, metadata={"masquerade": json.dumps(said)})
    return data


def said_of(path: Path) -> dict[str, Any]:
    """What a model's file says of it."""
    with _ours(path), safetensors.safe_open(path, framework="pt") as held:
        return dict(json.loads((held.metadata() or {})["masquerade"]))


def load_model(path: Path) -> Trained:
    """A model that `masquerade train` wrote."""
    said = said_of(path)
    with _ours(path):
        network = network_of(said)
        return Trained(network.load(path, said), network, tuple(said[network.OUTPUTS]), said)


@contextlib.contextmanager
def _ours(path: Path) -> Iterator[None]:
    try:
        yield
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
