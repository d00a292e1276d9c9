"""Features by which places are recognised: a public network's view of a frame, of unit length.

Six networks come with published weights that are fetched on first use; for the others the user
brings the file, in the names under which it is usually published.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np

from masquerade import _check
from masquerade._torch import nn
from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.vision import mobile_networks, residual_networks, vision_transformers
from masquerade.vision.backbones import Backbone, on_chosen_device

_BACKBONES = {
    each.name: each
    for each in (
        *mobile_networks.EFFICIENTNETS,
        *mobile_networks.MOBILENETS,
        *residual_networks.PLAIN_BACKBONES,
        *residual_networks.RESIDUAL_BACKBONES,
        *vision_transformers.BACKBONES,
    )
}
_LEAST = 1e-12  # a shorter feature has no direction


def backbones() -> tuple[str, ...]:
    """Names of the networks; see `has_weights` for those that need no file.

    Example:
        >>> backbones()[:4]
        ('efficientnet_lite0', 'efficientnet_lite1', 'efficientnet_lite2', 'mobilenet_v2')
    """
    return tuple(_BACKBONES)


def has_weights(backbone: str) -> bool:
    """Whether a network's weights can be fetched.

    Example:
        >>> has_weights("vgg16"), has_weights("dinov2_vits14")
        (True, False)
    """
    return bool(_found(backbone).asset)


def remedy(backbone: str) -> str:
    """Which file of weights a network takes.

    Example:
        >>> remedy("resnet18")
        "Give the state dict of torchvision's resnet18."
    """
    return _found(backbone).remedy


def _found(name: str) -> Backbone:
    if name not in _BACKBONES:
        raise ValueError(_check.unknown("backbone", name, backbones()))
    return _BACKBONES[name]


def backbone_of(name: str) -> Backbone:
    """The network of that name, without weights."""
    return _found(name)


@dataclass(frozen=True, kw_only=True)
class PlaceFeatures:
    """Turns frames into features by one public network.

    Args:
        backbone: which network, one of `backbones`.
        weights: a file of its weights; the published ones if not given, where there are some.
        batch: frames that it sees at a time.
    """

    backbone: str = "efficientnet_lite0"
    weights: Path | None = None
    batch: int = 32

    def __post_init__(self) -> None:
        known = _found(self.backbone)
        _check.count(batch=self.batch)
        if self.weights is None and not known.asset:
            fetched = ", ".join(name for name in backbones() if has_weights(name))
            raise ValueError(
                f"Expected a file of weights for {self.backbone}, which cannot be fetched: give "
                f"the state dict of {known.published}, or choose from {fetched}."
            )

    def __getstate__(self) -> dict[str, object]:
        """The fields alone: another process loads the network itself."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def path(self) -> Path:
        """The file of weights; the published one is fetched if it is not there yet.

        Raises:
            BadInput: if there is no such file.
        """
        if self.weights is None:
            return downloads.fetch(_found(self.backbone).asset)
        if not self.weights.is_file():
            raise BadInput(
                f"Expected the weights of {self.backbone} at {self.weights}; there is no such file."
            )
        return self.weights

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the network's name and of its weights."""
        with self.path.open("rb") as stream:
            weights = hashlib.file_digest(stream, "sha256").hexdigest()
        return hashlib.sha256(f"{self.backbone} {weights}".encode()).hexdigest()

    @cached_property
    def _net(self) -> nn.Module:
        return _found(self.backbone).load(self.path)

    def embed(self, frames: np.ndarray) -> np.ndarray:
        """Features (N, D) float32 of unit length, of frames (N, H, W, 3) uint8.

        Raises:
            BadInput: if the weights are not this network's, or it gives no numbers.
        """
        net = on_chosen_device(self._net)
        found = _found(self.backbone).features(frames, net=net, batch=self.batch)
        length = np.linalg.norm(found, axis=1, keepdims=True)
        if not np.all(np.isfinite(length)):
            raise BadInput(f"Expected numbers from {self.backbone}, got NaN or infinity.")
        return np.asarray(found / np.maximum(length, _LEAST), np.float32)
