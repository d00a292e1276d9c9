"""Which network a training command means, by its flags and by what the data set holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from masquerade import catalog
from masquerade.collection import Collection, Medium
from masquerade.networks.network import Network, network_class

if TYPE_CHECKING:
    NetworkName = str
else:
    NetworkName = Literal[catalog.names("networks")]  # the choices of the command line
Task = Literal["activity", "pose"]
_USUAL = {
    Medium.VIDEOS: "mvit_small",
    Medium.SIGNALS: "lstm",
    Medium.PHOTOS: "tiny_vit_small",
}


def network_meant(
    data: Collection[Any], *, task: Task | None, network: str | None
) -> tuple[str, type[Network]]:
    """The network's name and class.

    Args:
        data: what is learned from.
        task: what is learned; what the data set has first if None.
        network: its name, if it was given.
    """
    medium = Medium.PHOTOS if task == "pose" else data.kind
    name = network or _USUAL[medium]
    kind = network_class(name)
    if task is not None and (task == "pose") != (kind.KIND is Medium.PHOTOS):
        raise ValueError(f"Expected a network for --task {task}, got {name}; leave one out.")
    return name, kind
