"""Any network of yours that redraws pictures, as a mechanism.

What mechanisms share that redraw every frame by a network of ours.

ALF: a network redraws every frame so that looks are hard to tell.

SPAct: a network redraws every frame so that frames of one video are hard to match.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from masquerade import _check
from masquerade._optional import lazy_module
from masquerade.errors import BadInput
from masquerade.mechanism import Frames, Heuristic, Shape
from masquerade.noise import Noise
from masquerade.vision.picture_network import (
    AxisOrder,
    ColourOrder,
    PictureConvention,
    PictureNetwork,
    load_network,
)

if TYPE_CHECKING:
    from masquerade.networks import small_networks as unet
else:
    unet = lazy_module(
        "masquerade.networks.small_networks", extra="train"
    )  # what is promised needs no network


_MIN_LINES, _MAX_LINES = 16, 2160  # lines
_TOO_FEW_REMARK = "Below, hardly anything is left to see."


@dataclass(frozen=True, kw_only=True)
class NetworkRedraw(Heuristic):
    """Redraw every frame by the network that has the mechanism's name.

    Args:
        lines: of the picture that the network sees, its shorter side; larger frames are made
            smaller first and the drawing is enlarged again. It learned from 64 to 96; with more
            it sees people larger than it ever did, and may hide less.
    """

    lines: int = 96

    def __post_init__(self) -> None:
        _check.count(lines=self.lines)
        _check.at_least(_MIN_LINES, _TOO_FEW_REMARK, lines=self.lines)
        _check.at_most(_MAX_LINES, lines=self.lines)

    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The redrawn frames."""
        return self._stream_redrawn(frames, unet.load_pretrained_unet(self.name))

    def _stream_redrawn(self, frames: Frames, net: unet.UNet) -> Frames:
        for frame in frames:
            yield unet.redraw_frame(net, frame, lines=self.lines)


@dataclass(frozen=True, kw_only=True)
class Alf(NetworkRedraw):
    """Redraw every frame by a network that was taught to make people's looks hard to tell.

    The baseline of that name in [nken2025, Sec. 4.2], after [wu2020]: a U-Net was taught together
    with a network that reads the activity, which it helps, and several that tell skin tone, gender,
    build, hair, clothing and whether a face is seen, which it fights. It learned from people who
    never lived, by ``python tools/anonymise.py --task alf``; [nken2025] teaches it on each data
    set.

    Guarantee:
        none: the network was taught against others of its time and not against those that come
            after; on other people, places and cameras than it learned from it may hide less.
    """

    @property
    def hides(self) -> str:
        """Looks."""
        return "skin tone, gender, build, hair, clothing and faces"


@dataclass(frozen=True, kw_only=True)
class Spact(NetworkRedraw):
    """Redraw every frame by a network that was taught to make frames of one video hard to match.

    The baseline of that name in [nken2025, Sec. 4.2], after [dave2022]: a U-Net was taught together
    with a network that reads the activity, which it helps, and one that tells without labels which
    two frames come from the same video, which it fights. It learned from people who never lived,
    by ``python tools/anonymise.py --task spact``; [nken2025] teaches it on each data set.

    Guarantee:
        none: the network was taught against others of its time and not against those that come
            after; on other people, places and cameras than it learned from it may hide less.
    """

    @property
    def hides(self) -> str:
        """What frames of a video have in common."""
        return "what the frames of a video have in common, such as people and places"


_BUNDLED_FILES = {"soften": Path(__file__).parents[1] / "networks" / "weights" / "soften.onnx"}
_MAX_FILE_BYTES = 1 << 32  # bytes of a network
_MAX_SIDE_PX = 65535  # pixels of a side


@dataclass(frozen=True, kw_only=True)
class LearnedFilter(Heuristic):
    """Redraw every frame by a network from a file, ONNX or TorchScript.

    For the anonymisers of others, exported as a network from one picture to one picture of the
    same size. A TorchScript file is a program and runs as you: take none from strangers. The
    receipt has the file's SHA-256 and not the file, and nobody can say from it what it hides.

    Guarantee:
        none: what the network hides is what it was taught to hide, on pictures such as it learned
            from; nothing is known here about either.

    Args:
        network: the file; or soften, a small one that comes along to try things out, which shows
            means of 5 x 5 pixels.
        sha256: what the file must hash to; by default what it does now.
        height: of the picture that the network takes; frames are stretched to it, and what is drawn
            back. By default frames are shown as they are.
        width: of the same.
        multiple: where frames are shown as they are, they are continued at their edges until both
            sides are multiples of this.
        layout: order of the axes: nchw or nhwc.
        colours: their order: rgb or bgr.
        low: what black is, in the picture that the network takes.
        high: what white is; 0 to 1 by default, others are -1 to 1 and 0 to 255.
        out_low: what black is in the picture that it gives; by default the same as low.
        out_high: what white is there; by default the same as high.
        mean: where the network wants numbers less a mean of each colour, red first,
        std: and divided by this.
    """

    network: str
    sha256: str | None = None
    height: int | None = None
    width: int | None = None
    multiple: int = 1
    layout: str = "nchw"
    colours: str = "rgb"
    low: float = 0.0
    high: float = 1.0
    out_low: float | None = None
    out_high: float | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        _check.parse_choice(AxisOrder, layout=self.layout)
        _check.parse_choice(ColourOrder, colours=self.colours)
        _check.count(multiple=self.multiple)
        self._check_size()
        self._check_range()
        if self.sha256 is None:
            object.__setattr__(self, "sha256", hashlib.sha256(self._read_content()).hexdigest())
        elif not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError(f"Expected a SHA-256 in small letters, got sha256={self.sha256!r}.")

    def _check_size(self) -> None:
        if (self.height is None) != (self.width is None):
            raise ValueError(
                f"Expected both height and width or neither, got height={self.height} and "
                f"width={self.width}."
            )
        if self.height is not None and self.width is not None:
            _check.count(height=self.height, width=self.width)
            _check.at_most(_MAX_SIDE_PX, height=self.height, width=self.width)
        _check.at_most(_MAX_SIDE_PX, multiple=self.multiple)

    def _check_range(self) -> None:
        _check.finite(
            low=self.low,
            high=self.high,
            out_low=self._output_range[0],
            out_high=self._output_range[1],
        )
        for low, high in ((self.low, self.high), self._output_range):
            if not low < high:
                raise ValueError(f"Expected black below white, got {low} and {high}.")
        for name in ("mean", "std"):
            numbers = getattr(self, name)
            if numbers is None:
                continue
            object.__setattr__(self, name, tuple(numbers))
            if len(numbers) != 3:
                raise ValueError(f"Expected {name} with three numbers, got {name}={numbers!r}.")
            for number in numbers:
                (_check.finite if name == "mean" else _check.positive)(**{name: number})

    @property
    def _output_range(self) -> tuple[float, float]:
        """Black and white of what is drawn."""
        low = self.low if self.out_low is None else self.out_low
        return low, self.high if self.out_high is None else self.out_high

    @property
    def hides(self) -> str:
        """What nobody here knows."""
        return f"what the network {Path(self.network).name} was taught to hide"

    def encode_fields(self) -> dict[str, Any]:
        """The public fields: the file's name and hash, not where it lies."""
        return {**super().encode_fields(), "network": Path(self.network).name}

    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The redrawn frames."""
        content = self._read_content()
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise BadInput(
                f"Expected {Path(self.network).name} to have the SHA-256 {self.sha256}, got "
                "another file; name the right one."
            )
        net = load_network(content, Path(self.network).name, self._find_convention())
        return self._stream_filtered(frames, net)

    def _stream_filtered(self, frames: Frames, net: PictureNetwork) -> Frames:
        for frame in frames:
            yield net(frame)

    def _read_content(self) -> bytes:
        path = _BUNDLED_FILES.get(self.network, Path(self.network))
        if not path.is_file():
            raise BadInput(f"Expected a network at {path}; there is no such file.")
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise BadInput(f"Expected a network of at most {_MAX_FILE_BYTES} bytes at {path}.")
        return path.read_bytes()

    def _find_convention(self) -> PictureConvention:
        mean, std = self.mean or (0.0, 0.0, 0.0), self.std or (1.0, 1.0, 1.0)
        pairs = list(zip(mean, std, strict=True))
        size = None if self.height is None or self.width is None else (self.height, self.width)
        return PictureConvention(
            axes=AxisOrder(self.layout),
            is_bgr=self.colours == ColourOrder.BGR,
            low=tuple((self.low - middle) / wide for middle, wide in pairs),
            high=tuple((self.high - middle) / wide for middle, wide in pairs),
            out_low=self._output_range[0],
            out_high=self._output_range[1],
            size=size,
            multiple=self.multiple,
        )
