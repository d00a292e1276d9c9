"""What is inside a video file, counted by decoding it and never believed from its header.

What the beginning of a video file says, for an estimate: its header and its first frame.

Headers lie, so a release counts frames by decoding (`video.probe`). To say beforehand what it would
take, this is enough, and it takes no longer for a long film than for a short one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from masquerade._optional import av, lazy_module
from masquerade.io import streams
from masquerade.io.video import MAX_PIXELS, read, source
from masquerade.io.video.read import TICK, FrameClock

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.stream import Stream
    from av.video.stream import VideoStream

    from masquerade.io.video import colour
else:
    colour = lazy_module("masquerade.io.video.colour")


_HDR = {16: "PQ", 18: "HLG"}


class CountSource(StrEnum):
    """Where a number of frames comes from."""

    DECODED = "decoded"
    HEADER = "header"
    ABOUT = "about"


@dataclass(frozen=True, kw_only=True)
class FileContents:
    """What a video file holds.

    Args:
        frames: how many.
        height: of a frame, after rotation.
        width: of a frame, after rotation.
        rate: frames a second; the average where the rate varies.
        codec: FFmpeg's name of the codec.
        container: FFmpeg's names of the container.
        pixel_format: FFmpeg's name of the pixel format.
        rotation: degrees clockwise by which frames are turned to be upright, flips aside.
        aspect: width of a pixel over its height, after rotation.
        is_variable_rate: whether the time between frames changes.
        times: when each frame is shown, where no rate tells it, in `clock.TICK` since the first.
        colour_range: "full" or "limited".
        has_alpha: whether there is transparency, which reading drops.
        bits: of a colour channel.
        other_streams: kind and codec of everything that is not this video.
        metadata: tags of the container, its streams and its chapters.
        chapters: number of chapters.
        header_frames: what the header says; 0 if nothing.
        warnings: sentences on what reading changes and where the header is wrong.
        counting: whether ``frames`` were counted by decoding; if not, nothing is released by it.
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
    times: tuple[int, ...] = field(default=(), repr=False)
    other_streams: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    chapters: int = 0
    header_frames: int = 0
    warnings: tuple[str, ...] = ()
    counting: CountSource = CountSource.DECODED

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
        """Playing time; the last frame is shown for a step of that rate."""
        before = self.times[-1] * TICK if self.times else (self.frames - 1) / self.rate
        return float(before + 1 / self.rate)


def probe(
    path: Path, *, max_pixels: int = MAX_PIXELS, see: Callable[[np.ndarray], None] | None = None
) -> FileContents:
    """Decode a file once and say what is in it.

    Args:
        path: the file.
        max_pixels: of a frame; larger ones are refused.
        see: gets every frame as ``read.frames`` would yield it, in the same pass.

    Raises:
        BadInput: as ``read.frames``.
    """
    with source.open_video(path, max_pixels=max_pixels) as (container, stream):
        clock, first = FrameClock(), list[av.VideoFrame]()

        def watch_frames() -> Generator[av.VideoFrame, None, None]:
            for frame in source.decode_frames(container, stream, is_counted=see is None):
                if not first:
                    first.append(frame)
                clock.note_frame(frame.pts)
                yield frame

        if see is None:
            for _ in watch_frames():
                pass
        else:
            show, pixels = read.make_rgb_converter(path, container), stream.width * stream.height
            shown = (show(frame) for frame in watch_frames())
            with closing(
                streams.read_ahead(shown, max_waiting=streams.count_waiting(3 * pixels))
            ) as frames:
                for frame in frames:
                    see(frame)
        return describe_contents(path, container, stream, first[0], clock)


def describe_contents(
    path: Path,
    container: InputContainer,
    stream: VideoStream,
    first: av.VideoFrame,
    clock: FrameClock,
) -> FileContents:
    """What an open file holds, by its first frame and a clock that all of them have passed."""
    is_picture = source.is_picture(container)
    turn = source.read_picture_turn(path) if is_picture else source.read_frame_turn(first)
    size = (first.height, first.width) if turn[0] else (first.width, first.height)
    rate, doubt = clock.find_rate(stream) if not is_picture else (Fraction(25), "")
    tags = _list_tags(container)
    has_alpha = any(part.is_alpha for part in first.format.components)
    has_alpha |= any(key.endswith("alpha_mode") and tags[key] == "1" for key in tags)
    header_frames = 0 if is_picture else stream.frames
    if container.format.name.startswith("mov") and header_frames < clock.count:
        header_frames = 0  # the file is in fragments, and its header knows only the first
    aspect = stream.sample_aspect_ratio or Fraction(1)
    found = FileContents(
        frames=clock.count,
        height=size[0],
        width=size[1],
        rate=rate,
        codec=stream.codec_context.name,
        container=container.format.name,
        pixel_format=first.format.name,
        rotation=round(math.degrees(math.atan2(turn[1], turn[0]))) % 360,
        aspect=source.turn_aspect(aspect if aspect > 0 else Fraction(1), turn),
        is_variable_rate=clock.is_variable,
        times=() if is_picture else clock.list_times(stream),
        colour_range="full" if colour.is_full_range(first) else "limited",
        has_alpha=has_alpha,
        bits=max(part.bits for part in first.format.components),
        other_streams=tuple(_name_stream(each) for each in container.streams if each is not stream),
        metadata=tags,
        chapters=len(container.chapters()),
        header_frames=header_frames,
    )
    is_tilted = turn == source.NO_TURN and first.rotation % 360 != 0
    return replace(found, warnings=_list_warnings(found, first, doubt=doubt, is_tilted=is_tilted))


def _list_warnings(
    found: FileContents, first: av.VideoFrame, *, doubt: str, is_tilted: bool
) -> tuple[str, ...]:
    """What reading changes, and where the header is wrong."""
    lies = found.header_frames not in (0, found.frames)
    notes = {
        f"The header says {found.header_frames} frames; decoding gives {found.frames}.": lies,
        doubt: bool(doubt),
        f"The time between frames varies; {found.rate_hz:g} Hz is the average.": (
            found.is_variable_rate and not doubt
        ),
        "Transparency is dropped.": found.has_alpha,
        f"{found.bits} bits a channel are reduced to 8.": found.bits > 8,
        "Fields are left interlaced.": first.interlaced_frame,
        "A turn by other than a quarter is left out.": is_tilted,
        f"{_HDR.get(first.color_trc)} brightness is left as it is.": first.color_trc in _HDR,
    }
    return tuple(note for note, holds in notes.items() if holds)


def _list_tags(container: InputContainer) -> dict[str, str]:
    """Every tag, with the name of the stream or chapter that it belongs to."""
    tags = dict(container.metadata)
    for stream in container.streams:
        tags |= {
            f"{stream.type} {stream.index}: {key}": stream.metadata[key] for key in stream.metadata
        }
    for number, chapter in enumerate(container.chapters()):
        tags |= {f"chapter {number}: {key}": text for key, text in chapter["metadata"].items()}
    return tags


def _name_stream(stream: Stream) -> str:
    name = getattr(stream, "name", None)
    return f"{stream.type} {name or 'unknown'}"


_MICROSECOND = Fraction(1, 1_000_000)
_MIN_AGREEMENT = 10  # count and duration agree if they differ by less than one in so many


def probe_header(path: Path, *, max_pixels: int = MAX_PIXELS) -> FileContents:
    """What the header tells of a file; only its first frame is decoded.

    Where the header has no count, or one that its duration contradicts, the count is about right
    (`CountSource.ABOUT`); without either, packets are counted.

    Raises:
        BadInput: if the file is missing, breaks off, is of no kind that is read or too large, or
            its first frame cannot be decoded. Damage further on is not found.
    """
    with source.open_video(path, max_pixels=max_pixels) as (container, stream):
        with closing(source.decode_frames(container, stream, threads=1)) as frames:
            first = next(frames)
        found = describe_contents(path, container, stream, first, FrameClock())
        count, counting = _count_stream_frames(container, stream, found.rate)
        return replace(found, frames=count, counting=counting, warnings=())


def _count_stream_frames(
    container: InputContainer, stream: VideoStream, rate: Fraction
) -> tuple[int, CountSource]:
    if source.is_picture(container):
        return 1, CountSource.DECODED
    seconds = (stream.duration or 0) * (stream.time_base or Fraction(0))
    seconds = seconds or (container.duration or 0) * _MICROSECOND
    by_time, said = round(seconds * rate), stream.frames
    if said > 0 and abs(said - by_time) * _MIN_AGREEMENT <= max(by_time, 2 * _MIN_AGREEMENT):
        return said, CountSource.HEADER
    if max(by_time, said) > 0:
        return max(by_time, said), CountSource.ABOUT
    container.seek(0)
    packets = sum(packet.size > 0 for packet in source.demux_packets(container, stream))
    return max(packets, 1), CountSource.ABOUT
