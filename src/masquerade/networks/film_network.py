"""What the multiscale vision transformers have in common as entries."""

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
    from masquerade.networks import mvit_layers as mvit
else:
    mvit = Later("masquerade.networks.mvit_layers", extra="train")  # a setting is no network yet


PARTS = ("head", "last_norms", "norms", "all")
STRIDE = (2, 4, 4)  # of the first layer: frames and pixels from one token to the next


@dataclass(frozen=True, kw_only=True)
class Normalisation:
    """What a network wants to see; public, never taken from the data.

    Args:
        frames: of a film.
        size_px: height and width.
        mean: of each channel, from 0 to 1.
        std: of each channel.
        antialias: whether a larger picture is smoothed before it is made smaller.
    """

    frames: int = 16
    size_px: int = 224
    mean: tuple[float, float, float] = (0.45, 0.45, 0.45)
    std: tuple[float, float, float] = (0.225, 0.225, 0.225)
    antialias: bool = False


NORMALISATION = {
    "mvit_v1_b": Normalisation(),  # as in torchvision's preset for the Kinetics-400 weights
    "mvit_v2_s": Normalisation(),
    "mvit_small": Normalisation(size_px=64, antialias=True),
}


@dataclass(frozen=True, kw_only=True)
class FilmNetwork(Network):
    """A network for videos, and the weights that it begins with.

    Args:
        weights: a file of public weights to begin with; ours if None, where there are some.
        from_scratch: begin with random weights instead.
        keep_head: begin with the head of the public weights too, where their classes are the same;
            otherwise with zeros.
    """

    KIND: ClassVar[Medium] = Medium.VIDEOS
    IN_WORDS: ClassVar[str] = "a network for videos"

    weights: Path | None = None
    from_scratch: bool = False
    keep_head: bool = False

    def __post_init__(self) -> None:
        if self.from_scratch and self.weights is not None:
            raise ValueError("Expected weights or from_scratch, got both.")

    @property
    def length(self) -> int:
        """Frames of a film."""
        return NORMALISATION[self.name].frames

    @property
    def tokens(self) -> tuple[int, ...]:
        """Along frames, height and width: one a stride of the first layer."""
        seen = NORMALISATION[self.name]
        sizes = seen.frames, seen.size_px, seen.size_px
        return tuple(size // step for size, step in zip(sizes, STRIDE, strict=True))

    def check(self, part: str, precision: str) -> None:
        """Every part that it has can be trained, in either precision."""
        if part not in PARTS:
            raise ValueError(_check.unknown("part", part, PARTS))

    def make(self, classes: int, *, seed: int, public: Sequence[Signal] = ()) -> Any:
        """Public or random weights; a head of zeros unless it is kept."""
        torch.manual_seed(seed)
        net = self._begun(classes)
        if not self.keep_head:
            for parameter in net.head.parameters():
                torch.nn.init.zeros_(parameter)
        return net

    def _begun(self, classes: int) -> Any:
        if self.has_own_weights:
            return mvit.pretrained(self.name, classes=classes)
        if self.weights is None and not self.from_scratch:
            raise ValueError(
                f"Expected --weights FILE with public weights of {self.name} (Kinetics-400), "
                "or --from-scratch, got neither."
            )
        net = mvit.make(self.name, classes=classes)
        if self.weights is not None:
            mvit.load_weights(net, self.weights)
        return net

    def split(self, net: Any, part: str) -> tuple[Any, Any]:
        """Cut before the first module that is trained."""
        return mvit.split(net, part)

    def prepare(self, segments: np.ndarray) -> Any:
        """Films (N, T, H, W, 3) uint8 as (N, 3, T, size, size) float32."""
        return mvit.prepare(segments, self.name)

    def load(self, path: Path, said: Mapping[str, Any]) -> Any:
        """With the head that was trained."""
        net = mvit.make(self.name, classes=len(said["activities"]))
        mvit.load_weights(net, path, keep_head=True)
        return net.eval()
