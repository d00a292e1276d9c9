"""What mechanisms share that redraw every frame by a network of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from masquerade import _check
from masquerade._optional import Later
from masquerade.mechanism import Frames, Heuristic, Shape
from masquerade.noise import Noise

if TYPE_CHECKING:
    from masquerade.networks import unet
else:
    unet = Later("masquerade.networks.unet", extra="train")  # what is promised needs no network


_FEWEST, _MOST = 16, 2160  # lines
_TOO_FEW = "Below, hardly anything is left to see."


@dataclass(frozen=True, kw_only=True)
class Redrawn(Heuristic):
    """Redraw every frame by the network that has the mechanism's name.

    Args:
        lines: of the picture that the network sees, its shorter side; larger frames are made
            smaller first and the drawing is enlarged again. It learned from 64 to 96; with more
            it sees people larger than it ever did, and may hide less.
    """

    lines: int = 96

    def __post_init__(self) -> None:
        _check.count(lines=self.lines)
        _check.at_least(_FEWEST, _TOO_FEW, lines=self.lines)
        _check.at_most(_MOST, lines=self.lines)

    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The redrawn frames."""
        return self._stream(frames, unet.pretrained(self.name))

    def _stream(self, frames: Frames, net: unet.UNet) -> Frames:
        for frame in frames:
            yield unet.redrawn(net, frame, lines=self.lines)
