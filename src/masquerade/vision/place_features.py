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
from masquerade._optional import lazy_module
from masquerade._torch import nn
from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.vision import convolutional, vision_transformers
from masquerade.vision.backbones import FeatureBackbone, move_to_chosen_device

cv2 = lazy_module("cv2", extra="vision")

_BACKBONES = {
    each.name: each
    for each in (
        *convolutional.EFFICIENTNETS,
        *convolutional.MOBILENETS,
        *convolutional.PLAIN_BACKBONES,
        *convolutional.RESIDUAL_BACKBONES,
        *vision_transformers.BACKBONES,
    )
}
_MIN_FEATURE_NORM = 1e-12  # a shorter feature has no direction


def list_backbones() -> tuple[str, ...]:
    """Names of the networks; see `has_weights` for those that need no file.

    Example:
        >>> list_backbones()[:4]
        ('efficientnet_lite0', 'efficientnet_lite1', 'efficientnet_lite2', 'mobilenet_v2')
    """
    return tuple(_BACKBONES)


def has_weights(backbone: str) -> bool:
    """Whether a network's weights can be fetched.

    Example:
        >>> has_weights("vgg16"), has_weights("dinov2_vits14")
        (True, False)
    """
    return bool(_find_backbone(backbone).asset)


def find_weights_remedy(backbone: str) -> str:
    """Which file of weights a network takes.

    Example:
        >>> find_weights_remedy("resnet18")
        "Give the state dict of torchvision's resnet18."
    """
    return _find_backbone(backbone).weights_remedy


def _find_backbone(name: str) -> FeatureBackbone:
    if name not in _BACKBONES:
        raise ValueError(_check.describe_unknown("backbone", name, list_backbones()))
    return _BACKBONES[name]


def backbone_of(name: str) -> FeatureBackbone:
    """The network of that name, without weights."""
    return _find_backbone(name)


@dataclass(frozen=True, kw_only=True)
class PlaceFeatures:
    """Turns frames into features by one public network.

    Args:
        backbone: which network, one of `list_backbones`.
        weights: a file of its weights; the published ones if not given, where there are some.
        batch: frames that it sees at a time.
    """

    backbone: str = "efficientnet_lite0"
    weights: Path | None = None
    batch: int = 32

    def __post_init__(self) -> None:
        known = _find_backbone(self.backbone)
        _check.count(batch=self.batch)
        if self.weights is None and not known.asset:
            fetched = ", ".join(name for name in list_backbones() if has_weights(name))
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
            return downloads.fetch_asset(_find_backbone(self.backbone).asset)
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
    def _backbone_net(self) -> nn.Module:
        return _find_backbone(self.backbone).load_net(self.path)

    def embed(self, frames: np.ndarray) -> np.ndarray:
        """Features (N, D) float32 of unit length, of frames (N, H, W, 3) uint8.

        Raises:
            BadInput: if the weights are not this network's, or it gives no numbers.
        """
        net = move_to_chosen_device(self._backbone_net)
        found = _find_backbone(self.backbone).compute_features(frames, net=net, batch=self.batch)
        length = np.linalg.norm(found, axis=1, keepdims=True)
        if not np.all(np.isfinite(length)):
            raise BadInput(f"Expected numbers from {self.backbone}, got NaN or infinity.")
        return np.asarray(found / np.maximum(length, _MIN_FEATURE_NORM), np.float32)
