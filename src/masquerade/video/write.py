"""Write frames, and nothing but frames: no tags, no clock, no trace of the machine."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import av
import numpy as np
from av.bitstream import BitStreamFilterContext
from av.container import OutputContainer
from av.video.reformatter import ColorRange
from av.video.stream import VideoStream

from masquerade import _check
from masquerade.errors import BadInput
from masquerade.video import PICTURES, audio, colour, formats, handle, source

_MAX_RATE_HZ = 1000
_THREADS = 4  # and not as many as there are cores: the file would depend on the machine
_NOT_READABLE = "Expected to read back what was written"
_NO_MESSAGES = "filter_units=remove_types=6"  # x264 writes its settings and threads into one


def check(
    suffix: str,
    *,
    frames: int,
    height: int,
    width: int,
    exact: bool = False,
    rate: Fraction = Fraction(25),
    aspect: Fraction = Fraction(1),
) -> None:
    """Refuse what cannot be written, before anything is computed.

    Raises:
        ValueError: for an unknown suffix, several frames in a picture, an exact copy in a format
            that has none, a size or an aspect ratio that the format does not take, or a rate
            outside (0, 1000].
    """
    form = formats.find(suffix, exact=exact)
    _check.count(frames=frames, height=height, width=width)
    if frames > 1 and suffix.lower() in PICTURES:
        raise ValueError(
            f"Expected one frame for a {suffix}, got {frames}; write a video such as .mp4."
        )
    if max(height, width) > form.longest_side or height * width > formats.MAX_PIXELS:
        raise ValueError(
            f"Expected at most {form.longest_side} pixels a side and {formats.MAX_PIXELS} in all "
            f"for a {suffix}, got {width}x{height}; scale it down first."
        )
    if width < form.narrowest:
        raise ValueError(
            f"Expected a width of {form.narrowest} or more for a lossless {suffix}, got {width}; "
            "write a .mp4."
        )
    if not 0 < rate <= _MAX_RATE_HZ:
        raise ValueError(
            f"Expected a rate in (0, {_MAX_RATE_HZ}] frames a second, got {rate}; "
            "give the true one."
        )
    if aspect <= 0 or (aspect != 1 and not form.carries_aspect):
        raise ValueError(
            f"Expected square pixels for a {'lossless ' * exact}{suffix}, got an aspect ratio of "
            f"{aspect}; write a .mp4, which keeps it."
        )


def write(
    stream: BinaryIO,
    frames: Iterable[np.ndarray],
    *,
    suffix: str,
    rate: Fraction,
    aspect: Fraction = Fraction(1),
    exact: bool = False,
    audio_from: Path | None = None,
    num_frames: int | None = None,
    threads: int = 0,
) -> int:
    """Encode frames to a stream and return how many there were.

    By default visually lossless: H.264 with halved chroma (full chroma for odd sizes), VP9 in a
    .webm, MPEG-4 in an .avi, all of limited range and with the matrix of ``colour``; full-chroma
    JPEG. The bytes depend on the frames, the arguments and the number of threads alone.

    Args:
        stream: seekable and writable; it stays open.
        frames: (H, W, 3) uint8 RGB arrays of one size.
        suffix: of the file, such as ".mp4".
        rate: frames a second.
        aspect: width of a pixel over its height.
        exact: keep every value; ``read.frames`` then gives back the same arrays.
        audio_from: a video whose first audio stream is copied along, as it is.
        num_frames: how many frames must come.
        threads: of the encoder; 0 is four, on every machine.

    Raises:
        BadInput: if there are no frames, or not as many as ``num_frames``.
        ValueError: if ``check`` refuses, or a frame has another size or type.
    """
    frames = iter(frames)
    first = next(frames, None)
    if first is None:
        raise BadInput(f"Expected {num_frames or 'at least one'} frames to write, got none.")
    is_picture = suffix.lower() in PICTURES
    expected = num_frames or 1 + (is_picture and next(frames, None) is not None)
    _check.shape("H W 3", frame=first)
    if first.dtype != np.uint8:
        raise ValueError(f"Expected frames of dtype uint8, got {first.dtype}; convert them first.")
    check(
        suffix,
        frames=expected,
        height=first.shape[0],
        width=first.shape[1],
        exact=exact,
        rate=rate,
        aspect=aspect,
    )
    if is_picture and audio_from is not None:
        raise ValueError(f"Expected no sound for a {suffix}, got audio_from; write a video.")
    form = formats.find(suffix, exact=exact)
    rate = form.nearest_rate(rate)
    every = _same(chain([first], frames), shape=first.shape, num_frames=num_frames)
    with handle.as_file(stream) as file:
        with (
            _room(),
            av.open(
                handle.address(file),
                "w",
                format=form.container,
                container_options={"fflags": "+bitexact"},
            ) as container,
        ):
            video = _add_video(container, form, size=first.shape, rate=rate, aspect=aspect)
            video.codec_context.thread_count = 1 if form.one_thread else threads or _THREADS
            with audio.copied(audio_from, container, suffix=suffix) as copy_sound:
                container.start_encoding()
                count = _encode(container, video, every, rate=rate, copy_sound=copy_sound)
        _check_written(file, (count, *first.shape))
    return count


@contextlib.contextmanager
def _room() -> Iterator[None]:
    """Say of an error of the disk what can be done about it."""
    try:
        yield
    except av.OSError as error:
        raise OSError(
            error.errno,
            f"Expected room for the output, got {error.strerror}; free some space, or "
            "write elsewhere",
        ) from error


def _check_written(file: BinaryIO, shape: tuple[int, ...]) -> None:
    """Read back what was written: all packets, and the frames from the last keyframe on.

    A film that cannot be read must not get a name and a receipt, whatever lost its bytes.

    Raises:
        OSError: unless the file is whole and has these frames.
    """
    tail: list[av.Packet[VideoStream]] = []
    count, size = 0, (0, 0)
    path = Path(f"/dev/fd/{file.fileno()}")
    try:
        with source.opened(path, max_pixels=formats.MAX_PIXELS) as (container, stream):
            source.prepare(stream, threads=_THREADS)
            for packet in source.packets(container, stream):
                if packet.is_keyframe:
                    tail.clear()
                tail.append(packet)
                count += packet.size > 0
            for packet in tail:
                for frame in packet.decode():
                    size = (frame.height, frame.width)
    except BadInput as error:
        raise OSError(errno.EIO, f"{_NOT_READABLE}: {error}") from error
    if (count, *size) != shape[:3]:
        got = f"{count} of {size[1]}x{size[0]}"
        raise OSError(errno.EIO, f"{_NOT_READABLE}, {shape[0]} frames, got {got}; write elsewhere")


def _encode(
    container: OutputContainer,
    video: VideoStream,
    frames: Iterator[np.ndarray],
    *,
    rate: Fraction,
    copy_sound: Callable[[Fraction], None],
) -> int:
    context = video.codec_context
    from_rgb = colour.FromRgb(context.pix_fmt or "", height=context.height)
    is_h264 = context.name.startswith("libx264")
    silence = BitStreamFilterContext(_NO_MESSAGES, in_stream=video) if is_h264 else None
    count = 0

    def mux(packets: list[av.Packet[VideoStream]]) -> None:
        for packet in packets:
            for kept in silence.filter(packet) if silence else [packet]:
                kept.stream = video
                container.mux(kept)

    for array in frames:
        copy_sound(count / rate)
        frame = from_rgb(array)
        frame.pts, frame.time_base = count, 1 / rate
        mux(video.encode(frame))
        count += 1
    copy_sound(count / rate)
    mux(video.encode(None))
    return count


def _same(
    frames: Iterable[np.ndarray], *, shape: tuple[int, ...], num_frames: int | None
) -> Iterator[np.ndarray]:
    """The frames, if they are all alike and as many as announced."""
    count = 0
    for frame in frames:
        if frame.shape != shape or frame.dtype != np.uint8:
            raise ValueError(
                f"Expected frames of shape {shape} and dtype uint8, got {frame.shape} and "
                f"{frame.dtype} at frame {count}."
            )
        count += 1
        if num_frames is not None and count > num_frames:
            break
        yield frame
    if num_frames is not None and count != num_frames:
        many = "more" if count > num_frames else str(count)
        raise BadInput(f"Expected {num_frames} frames to write, got {many}; count them again.")


def _add_video(
    container: OutputContainer,
    form: formats.Format,
    *,
    size: tuple[int, ...],
    rate: Fraction,
    aspect: Fraction,
) -> VideoStream:
    options = form.options | {"flags": "+bitexact"}
    video = container.add_stream(form.codec, rate=rate, options=options)
    if not isinstance(video, VideoStream):
        raise TypeError(f"Expected a video codec, got {form.codec}.")
    context = video.codec_context
    context.height, context.width = size[:2]
    is_even = context.height % 2 == 0 and context.width % 2 == 0
    context.pix_fmt = form.pixel_format if is_even else form.odd_format or form.pixel_format
    context.sample_aspect_ratio = aspect
    if context.pix_fmt in ("yuv420p", "yuv444p"):
        colour.tag(context, height=context.height)
    elif form.full_range:
        context.color_range = ColorRange.JPEG
    return video
