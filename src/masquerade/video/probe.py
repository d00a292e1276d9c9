"""What is inside a video file, counted by decoding it and never believed from its header."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import av
from av.container import InputContainer
from av.stream import Stream
from av.video.stream import VideoStream

from masquerade.video import MAX_PIXELS, colour, source, upright
from masquerade.video.clock import Clock

_HDR = {16: "PQ", 18: "HLG"}


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What a video file holds.

    Args:
        frames: counted by decoding.
        height: of a frame, after rotation.
        width: of a frame, after rotation.
        rate: frames a second; the average where the rate varies.
        codec: FFmpeg's name of the codec.
        container: FFmpeg's names of the container.
        pixel_format: FFmpeg's name of the pixel format.
        rotation: degrees clockwise by which frames are turned to be upright, flips aside.
        aspect: width of a pixel over its height, after rotation.
        is_variable_rate: whether the time between frames changes.
        colour_range: "full" or "limited".
        has_alpha: whether there is transparency, which reading drops.
        bits: of a colour channel.
        other_streams: kind and codec of everything that is not this video.
        metadata: tags of the container, its streams and its chapters.
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


def probe(path: Path, *, max_pixels: int = MAX_PIXELS) -> Contents:
    """Decode a file once and say what is in it.

    Raises:
        BadInput: as ``read.frames``.
    """
    with source.opened(path, max_pixels=max_pixels) as (container, stream):
        clock = Clock()
        first: av.VideoFrame | None = None
        for frame in source.decoded(container, stream):
            first = first or frame
            clock.tick(frame.pts)
        if first is None:
            raise RuntimeError("decoded() yields a frame or raises")
        turn = upright.of_picture(path) if source.is_picture(container) else upright.of_frame(first)
        return _contents(container, stream, first, clock, turn)


def _contents(
    container: InputContainer,
    stream: VideoStream,
    first: av.VideoFrame,
    clock: Clock,
    turn: upright.Turn,
) -> Contents:
    size = (first.height, first.width) if turn[0] else (first.width, first.height)
    is_picture = source.is_picture(container)
    rate, doubt = clock.rate(stream) if not is_picture else (Fraction(25), "")
    tags = _tags(container)
    has_alpha = any(part.is_alpha for part in first.format.components)
    has_alpha |= any(key.endswith("alpha_mode") and tags[key] == "1" for key in tags)
    header_frames = 0 if is_picture else stream.frames
    if container.format.name.startswith("mov") and header_frames < clock.count:
        header_frames = 0  # the file is in fragments, and its header knows only the first
    aspect = stream.sample_aspect_ratio or Fraction(1)
    found = Contents(
        frames=clock.count,
        height=size[0],
        width=size[1],
        rate=rate,
        codec=stream.codec_context.name,
        container=container.format.name,
        pixel_format=first.format.name,
        rotation=round(math.degrees(math.atan2(turn[1], turn[0]))) % 360,
        aspect=upright.turned_aspect(aspect if aspect > 0 else Fraction(1), turn),
        is_variable_rate=clock.is_variable,
        colour_range="full" if colour.is_full_range(first) else "limited",
        has_alpha=has_alpha,
        bits=max(part.bits for part in first.format.components),
        other_streams=tuple(_name(each) for each in container.streams if each is not stream),
        metadata=tags,
        chapters=len(container.chapters()),
        header_frames=header_frames,
    )
    is_tilted = turn == upright.NONE and first.rotation % 360 != 0
    return replace(found, warnings=_warnings(found, first, doubt=doubt, is_tilted=is_tilted))


def _warnings(
    found: Contents, first: av.VideoFrame, *, doubt: str, is_tilted: bool
) -> tuple[str, ...]:
    """What reading changes, and where the header is wrong."""
    lies = found.header_frames not in (0, found.frames)
    notes = {
        f"The header says {found.header_frames} frames; decoding gives {found.frames}.": lies,
        doubt: bool(doubt),
        f"The time between frames varies; {found.rate_hz:g} Hz is the average.": (
            found.is_variable_rate
        ),
        "Transparency is dropped.": found.has_alpha,
        f"{found.bits} bits a channel are reduced to 8.": found.bits > 8,
        "Fields are left interlaced.": first.interlaced_frame,
        "A turn by other than a quarter is left out.": is_tilted,
        f"{_HDR.get(first.color_trc)} brightness is left as it is.": first.color_trc in _HDR,
    }
    return tuple(note for note, holds in notes.items() if holds)


def _tags(container: InputContainer) -> dict[str, str]:
    """Every tag, with the name of the stream or chapter that it belongs to."""
    tags = dict(container.metadata)
    for stream in container.streams:
        tags |= {
            f"{stream.type} {stream.index}: {key}": stream.metadata[key] for key in stream.metadata
        }
    for number, chapter in enumerate(container.chapters()):
        tags |= {f"chapter {number}: {key}": text for key, text in chapter["metadata"].items()}
    return tags


def _name(stream: Stream) -> str:
    name = getattr(stream, "name", None)
    return f"{stream.type} {name or 'unknown'}"
