"""ALF: a network redraws every frame so that looks are hard to tell."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade import _check
from masquerade.mechanism import Frames, Heuristic, Shape
from masquerade.nets import unet
from masquerade.noise import Noise

_FEWEST, _MOST = 16, 2160  # lines
_TOO_FEW = "Below, hardly anything is left to see."


@dataclass(frozen=True, kw_only=True)
class Alf(Heuristic):
    """Redraw every frame by a network that was taught to make people's looks hard to tell.

    The baseline of that name in [nken2025, Sec. 4.2], after [wu2020]: a U-Net was taught together
    with a network that reads the activity, which it helps, and several that tell skin tone, gender,
    build, hair, clothing and whether a face is seen, which it fights. It learned from people who
    never lived, by ``masquerade recipe anonymise --task alf``; [nken2025] teaches it on each data
    set.

    Guarantee:
        none: the network was taught against others of its time and not against those that come
            after; on other people, places and cameras than it learned from it may hide less.

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

    @property
    def hides(self) -> str:
        """Looks."""
        return "skin tone, gender, build, hair, clothing and faces"

    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The redrawn frames."""
        return self._stream(frames, unet.pretrained("alf"))

    def _stream(self, frames: Frames, net: unet.UNet) -> Frames:
        for frame in frames:
            yield unet.redrawn(net, frame, lines=self.lines)


EXAMPLE = Alf()
