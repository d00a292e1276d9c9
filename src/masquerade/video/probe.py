"""What is inside a video file, counted by decoding it and never believed from its header."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
from av.container import InputContainer
from av.video.stream import VideoStream

from masquerade.video import colour, source


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What a video file holds.

    Args:
        frames: counted by decoding.
        height: of a frame, after rotation.
        width: of a frame, after rotation.
        rate: frames a second; the average where the rate varies.
        codec: FFmpeg's name of the codec.
        container: FFmpeg's name of the container.
        pixel_format: FFmpeg's name of the pixel format.
        rotation: degrees clockwise by which frames are turned to be upright.
        aspect: width of a pixel over its height, after rotation.
        is_variable_rate: whether the time between frames changes.
        colour_range: "full" or "limited".
        has_alpha: whether there is transparency, which reading drops.
        bits: a colour channel has.
        other_streams: kind and codec of everything that is not this video.
        metadata: tags of the container and of all streams.
        chapters: number of chapters.
        header_frames: what the header says; 0 if nothing.
        warnings: sentences on what reading changes and where the header is wrong.
    """

    frames: int
    height: int
    width: int
    rate: Fraction
    codec: str
    container: str
    pixel_format: str
    rotation: int
    aspect: Fraction
    is_variable_rate: bool
    colour_range: str
    has_alpha: bool
    bits: int
    other_streams: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    chapters: int = 0
    header_frames: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of all frames together, ``(T, H, W, 3)``."""
        return (self.frames, self.height, self.width, 3)

    @property
    def rate_hz(self) -> float:
        """Frames a second."""
        return float(self.rate)

    @property
    def seconds(self) -> float:
        """Playing time at that rate."""
        return float(self.frames / self.rate)


def probe(path: Path) -> Contents:
    """Decode a file once and say what is in it.

    Raises:
        BadInput: as ``read.frames``.
    """
    with source.opened(path) as (container, stream):
        number = 0
        for frame in source.decoded(container, stream):
            if number == 0:
                first = frame
            number += 1
        turn = colour.orientation(first)
        size = (first.height, first.width) if turn[0] else (first.width, first.height)
        aspect = stream.sample_aspect_ratio or Fraction(1)
        return Contents(
            frames=number,
            height=size[0],
            width=size[1],
            rate=stream.average_rate or Fraction(25),
            codec=stream.codec_context.name,
            container=container.format.name,
            pixel_format=first.format.name,
            rotation=-first.rotation % 360,
            aspect=colour.upright_aspect(aspect, turn),
            is_variable_rate=False,
            colour_range="full" if colour.is_full_range(first) else "limited",
            has_alpha=any(part.is_alpha for part in first.format.components),
            bits=max(part.bits for part in first.format.components),
        )
