"""What the multiscale vision transformers have in common as entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from masquerade import _check
from masquerade._optional import Later
from masquerade.collection import Medium
from masquerade.networks.network import FILM_PARTS, Network
from masquerade.recordings import Signal

if TYPE_CHECKING:
    from masquerade._torch import torch
    from masquerade.networks import mvit_layers as mvit
else:  # what a run costs needs no network
    torch = Later("torch", extra="train")
    mvit = Later("masquerade.networks.mvit_layers", extra="train")


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
        return mvit.NORMALISATION[self.name].frames

    @property
    def tokens(self) -> tuple[int, ...]:
        """Along frames, height and width: one a stride of the first layer."""
        seen = mvit.NORMALISATION[self.name]
        sizes = seen.frames, seen.size_px, seen.size_px
        return tuple(size // step for size, step in zip(sizes, mvit.STRIDE, strict=True))

    def check(self, part: str, precision: str) -> None:
        """Every part that it has can be trained, in either precision."""
        if part not in FILM_PARTS:
            raise ValueError(_check.unknown("part", part, FILM_PARTS))

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
