"""What networks for people's joints in photos have in common as entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from masquerade import _check
from masquerade._optional import Later, torch
from masquerade.collection import Medium
from masquerade.networks.network import Network
from masquerade.recordings import Signal

if TYPE_CHECKING:
    from masquerade.networks import picture_crops as pose_crops
    from masquerade.networks import tiny_vit_pose, weight_files
else:
    pose_crops = Later("masquerade.networks.picture_crops", extra="train")
    tiny_vit_pose = Later("masquerade.networks.tiny_vit_pose", extra="train")
    weight_files = Later("masquerade.networks.weight_files", extra="train")


@dataclass(frozen=True, kw_only=True)
class PoseNetwork(Network):
    """A network that finds joints in photos, and the weights that it begins with.

    Args:
        weights: a file of public weights to begin with; ours if None, where there are some.
        from_scratch: begin with random weights instead.
        smoothing: standard deviation of a joint's target, in bins of half a pixel.
    """

    KIND: ClassVar[Medium] = Medium.PHOTOS
    OUTPUTS: ClassVar[str] = "joints"
    IN_WORDS: ClassVar[str] = "a network for joints in photos"

    weights: Path | None = None
    from_scratch: bool = False
    smoothing: float = 3.0

    def __post_init__(self) -> None:
        _check.positive(smoothing=self.smoothing)
        if self.from_scratch and self.weights is not None:
            raise ValueError("Expected weights or from_scratch, got both.")

    @property
    def length(self) -> int:
        """A photo is one frame."""
        return 1

    @property
    def said(self) -> dict[str, Any]:
        """With how sharp its answers are meant to be."""
        return super().said | {"smoothing": self.smoothing}

    def check(self, part: str, precision: str) -> None:
        """Every part can be trained, in either precision."""

    def make(self, classes: int, *, seed: int, public: Sequence[Signal] = ()) -> Any:
        """Public or random weights; the head of public ones is kept, joint by joint."""
        torch.manual_seed(seed)
        if self.has_own_weights:
            return tiny_vit_pose.pretrained(self.name, classes, smoothing=self.smoothing)
        if self.weights is None and not self.from_scratch:
            raise ValueError(
                f"Expected --weights FILE with public weights of {self.name} (joints of COCO, or "
                "ImageNet), or --from-scratch, got neither."
            )
        net = tiny_vit_pose.JointFinder(self.name, classes, smoothing=self.smoothing)
        if self.weights is not None:
            tiny_vit_pose.load_weights(net, self.weights)
        return net

    def split(self, net: Any, part: str) -> tuple[Any, Any]:
        """Cut before the first module that is trained."""
        return tiny_vit_pose.split(net, part)

    def prepare(self, segments: np.ndarray) -> Any:
        """Whole pictures (N, H, W, 3) uint8 as (N, 3, 256, 192) float32."""
        shown = [pose_crops.crop_pose(each, pose_crops.region_of(each, None)) for each in segments]
        return pose_crops.as_inputs(np.stack(shown))

    def load(self, path: Path, said: Mapping[str, Any]) -> Any:
        """With the head that was trained."""
        count = len(said[self.OUTPUTS])
        net = tiny_vit_pose.JointFinder(self.name, count, smoothing=self.smoothing)
        found, _ = weight_files.read_tensors(path)
        weight_files.fill(net, found, name=self.name, path=path)
        return net.eval()
