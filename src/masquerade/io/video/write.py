"""Write frames, and nothing but frames: no tags, no clock, no trace of the machine."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from masquerade import _check
from masquerade._optional import av, lazy_module
from masquerade.errors import BadInput
from masquerade.io import streams
from masquerade.io.video import PICTURES, audio, formats, source
from masquerade.io.video.read import TICK

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.video.stream import VideoStream

    from masquerade.io.video import colour
else:
    colour = lazy_module("masquerade.io.video.colour")


_MAX_RATE_HZ = 1000
_LONGEST_STEP = 6 * 3600  # seconds: a .mp4 counts them in 31 bits of ticks
_THREADS = 4  # and not as many as there are cores: the file would depend on the machine
_NOT_READABLE = "Expected to read back what was written"
_NO_MESSAGES = "filter_units=remove_types=6"  # x264 writes its settings and threads into one


@dataclass(frozen=True, kw_only=True)
class FilmOutline:
    """What is written, as everyone may know it before its first frame.

    Args:
        suffix: of the file, such as ".mp4".
        frames: how many must come; None if nobody knows.
        height: of each.
        width: of each.
        rate: frames a second.
        times: when each frame is shown, in `clock.TICK` since the first; at the rate if none.
        aspect: width of a pixel over its height.
        exact: keep every value; ``read.read_frames`` then gives back the same arrays.
    """

    suffix: str
    frames: int | None
    height: int
    width: int
    rate: Fraction = Fraction(25)
    times: tuple[int, ...] = ()
    aspect: Fraction = Fraction(1)
    exact: bool = False

    @property
    def frame_bytes(self) -> int:
        """Of a frame in memory."""
        return self.height * self.width * 3

    def check_outline(self) -> None:
        """Refuse what cannot be written, before anything is computed.

        Raises:
            ValueError: for an unknown suffix, several frames in a picture, an exact copy in a
                format that has none, a size, an aspect ratio or times that the format does not
                take, or a rate outside (0, 1000].
        """
        form, suffix = formats.find_format(self.suffix, exact=self.exact), self.suffix
        frames = 1 if self.frames is None else self.frames
        _check.count(frames=frames, height=self.height, width=self.width)
        if frames > 1 and suffix.lower() in PICTURES:
            raise ValueError(
                f"Expected one frame for a {suffix}, got {frames}; write a video such as .mp4."
            )
        pixels = self.height * self.width
        if max(self.height, self.width) > form.longest_side or pixels > formats.MAX_PIXELS:
            raise ValueError(
                f"Expected at most {form.longest_side} pixels a side and {formats.MAX_PIXELS} in "
                f"all for a {suffix}, got {self.width}x{self.height}; scale it down first."
            )
        if self.width < form.narrowest:
            raise ValueError(
                f"Expected a width of {form.narrowest} or more for a lossless {suffix}, got "
                f"{self.width}; write a .mp4."
            )
        if not 0 < self.rate <= _MAX_RATE_HZ:
            raise ValueError(
                f"Expected a rate in (0, {_MAX_RATE_HZ}] frames a second, got {self.rate}; "
                "give the true one."
            )
        if self.times and not form.carries_times:
            raise ValueError(
                f"Expected a constant rate for a {suffix}, got a film whose time between frames "
                "varies or is extreme; write a .mp4, which keeps the time of each frame."
            )
        if self.times and (len(self.times) != frames or sorted({*self.times}) != [*self.times]):
            raise ValueError(f"Expected {frames} times that rise, got {len(self.times)} others.")
        longest = max((after - time for time, after in pairwise(self.times)), default=0) * TICK
        if longest > _LONGEST_STEP:
            raise ValueError(
                f"Expected at most {_LONGEST_STEP // 3600} hours between two frames, got "
                f"{float(longest / 3600):.3g}; cut the film there."
            )
        if self.aspect <= 0 or (self.aspect != 1 and not form.carries_aspect):
            raise ValueError(
                f"Expected square pixels for a {'lossless ' * self.exact}{suffix}, got an aspect "
                f"ratio of {self.aspect}; write a .mp4, which keeps it."
            )


def write_video(
    stream: BinaryIO,
    frames: Iterable[np.ndarray],
    *,
    suffix: str,
    rate: Fraction,
    exact: bool = False,
) -> int:
    """Encode frames to a stream and return how many there were.

    Args:
        stream: seekable and writable; it stays open.
        frames: (H, W, 3) uint8 RGB arrays of one size.
        suffix: of the file, such as ".mp4".
        rate: frames a second.
        exact: keep every value; ``read.read_frames`` then gives back the same arrays.

    Raises:
        BadInput: if there are no frames.
        ValueError: if `FilmOutline.check_outline` refuses, or a frame has another size or type.
    """
    frames = iter(frames)
    first = next(frames, None)
    if first is None:
        raise BadInput("Expected at least one frame to write, got none.")
    _check.shape("H W 3", frame=first)
    height, width = first.shape[:2]
    is_long = suffix.lower() in PICTURES and next(frames, None) is not None
    num_frames = 2 if is_long else None  # two at least; refused
    film = FilmOutline(
        suffix=suffix, frames=num_frames, height=height, width=width, rate=rate, exact=exact
    )
    with open_encoder(stream, film) as encoder:
        for frame in chain([first], frames):
            encoder.encode_array(frame)
    return encoder.count


@contextlib.contextmanager
def open_encoder(
    stream: BinaryIO, film: FilmOutline, *, audio_from: Path | None = None, threads: int = 0
) -> Iterator[VideoEncoder]:
    """Encode to a stream what is added, frame by frame.

    By default visually lossless: H.264 with halved chroma (full chroma for odd sizes), VP9 in a
    .webm, MPEG-4 in an .avi, all of limited range and with the matrix of ``colour``; full-chroma
    JPEG. The bytes depend on the frames, the arguments and the number of threads alone. At the end
    what was written is read back. A thread of its own converts and encodes.

    Args:
        stream: seekable and writable; it stays open.
        film: what will come.
        audio_from: a video whose first audio stream is copied along, as it is.
        threads: of the encoder; 0 is four, on every machine.
    """
    film.check_outline()
    if film.suffix.lower() in PICTURES and audio_from is not None:
        raise ValueError(f"Expected no sound for a {film.suffix}, got audio_from; write a video.")
    form = formats.find_format(film.suffix, exact=film.exact)
    with source.open_as_file(stream) as file:
        with (
            _explain_disk_full(),
            av.open(
                source.file_address(file),
                "w",
                format=form.container,
                container_options={"fflags": "+bitexact"},
            ) as container,
        ):
            video = _add_video(container, form, film)
            video.codec_context.thread_count = 1 if form.one_thread else threads or _THREADS
            with audio.copy_audio(audio_from, container, suffix=film.suffix) as copy_sound:
                container.start_encoding()
                codec = _FrameCodec(container, video, film, copy_sound=copy_sound)
                with streams.hand_over(
                    codec.encode_copy, max_waiting=streams.count_waiting(film.frame_bytes)
                ) as hand:
                    encoder = VideoEncoder(film, codec, hand=hand)
                    yield encoder
                encoder.finish()
        _check_written(file, (encoder.count, film.height, film.width))


@contextlib.contextmanager
def _explain_disk_full() -> Iterator[None]:
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
    """Read back what was written: all packets, and the last keyframe as a picture.

    A film that cannot be read must not get a name and a receipt, whatever lost its bytes.

    Raises:
        OSError: unless the file is whole and has these frames.
    """
    last: av.Packet[VideoStream] | None = None
    count, size = 0, (0, 0)
    path = Path(f"/dev/fd/{file.fileno()}")
    try:
        with source.open_video(path, max_pixels=formats.MAX_PIXELS) as (container, stream):
            source.prepare_decoder(stream, threads=1, is_counted=True)
            for packet in source.demux_packets(container, stream):
                last = packet if packet.is_keyframe else last
                count += packet.size > 0
            decoder = stream.codec_context
            for frame in (*decoder.decode(last), *decoder.decode(None)):
                size = (frame.height, frame.width)
    except BadInput as error:
        raise OSError(errno.EIO, f"{_NOT_READABLE}: {error}") from error
    if (count, *size) != shape[:3]:
        got = f"{count} of {size[1]}x{size[0]}"
        raise OSError(errno.EIO, f"{_NOT_READABLE}, {shape[0]} frames, got {got}; write elsewhere")


class VideoEncoder:
    """Takes frames, if they are all alike and as many as announced."""

    def __init__(
        self, film: FilmOutline, codec: _FrameCodec, *, hand: Callable[[av.VideoFrame], None]
    ) -> None:
        self._film, self._codec, self._hand, self.count = film, codec, hand, 0

    def encode_array(self, array: np.ndarray) -> None:
        """The next frame; what goes wrong with one may be raised at a later one."""
        shape = (self._film.height, self._film.width, 3)
        if array.shape != shape or array.dtype != np.uint8:
            raise ValueError(
                f"Expected frames of shape {shape} and dtype uint8, got {array.shape} and "
                f"{array.dtype} at frame {self.count}."
            )
        if self.count == self._film.frames:
            raise self._other_than_announced("more")
        self._hand(self._codec.copied(array))
        self.count += 1

    def finish(self) -> None:
        """What the codec still holds; every frame has been taken before."""
        if self._film.frames not in (None, self.count):
            raise self._other_than_announced(str(self.count))
        self._codec.finish()

    def _other_than_announced(self, got: str) -> BadInput:
        return BadInput(
            f"Expected {self._film.frames} frames to write, got {got}; count them again."
        )


class _FrameCodec:
    """Converts and encodes frames, and writes their packets and the sound that goes with them."""

    def __init__(
        self,
        container: OutputContainer,
        video: VideoStream,
        film: FilmOutline,
        *,
        copy_sound: Callable[[Fraction], None],
    ) -> None:
        context = video.codec_context
        self._container, self._video, self._count = container, video, 0
        self._copy_sound = copy_sound
        self._rate = formats.find_format(film.suffix, exact=film.exact).nearest_rate(film.rate)
        self._times, self._tick = film.times, TICK if film.times else 1 / self._rate
        self._from_rgb = colour.FromRgb(context.pix_fmt or "", height=context.height)
        self.copied = self._from_rgb.copy_array
        is_h264 = context.name.startswith("libx264")
        self._silence = (
            av.bitstream.BitStreamFilterContext(_NO_MESSAGES, in_stream=video) if is_h264 else None
        )

    def encode_copy(self, copy: av.VideoFrame) -> None:
        """The next frame."""
        time = self._times[self._count] if self._times else self._count
        self._copy_sound(time * self._tick)
        frame = self._from_rgb.convert_frame(copy)
        frame.pts, frame.time_base = time, self._tick
        self._mux_packets(self._video.encode(frame))
        self._count += 1

    def finish(self) -> None:
        """What is still held."""
        last = self._times[-1] * TICK + 1 / self._rate if self._times else self._count / self._rate
        self._copy_sound(last)
        self._mux_packets(self._video.encode(None))

    def _mux_packets(self, packets: list[av.Packet[VideoStream]]) -> None:
        for packet in packets:
            for kept in self._silence.filter(packet) if self._silence else [packet]:
                kept.stream = self._video
                self._container.mux(kept)


def _add_video(
    container: OutputContainer, form: formats.VideoFormat, film: FilmOutline
) -> VideoStream:
    options = form.options | {"flags": "+bitexact"}
    rate = form.nearest_rate(film.rate)
    video = container.add_stream(form.codec, rate=rate, options=options)
    if not isinstance(video, av.video.stream.VideoStream):
        raise TypeError(f"Expected a video codec, got {form.codec}.")
    context = video.codec_context
    context.height, context.width = film.height, film.width
    if film.times:
        context.time_base = TICK
    is_even = context.height % 2 == 0 and context.width % 2 == 0
    context.pix_fmt = form.pixel_format if is_even else form.odd_format or form.pixel_format
    context.sample_aspect_ratio = film.aspect
    if context.pix_fmt in ("yuv420p", "yuv444p"):
        colour.tag_colours(context, height=context.height)
    else:
        context.color_range = av.video.reformatter.ColorRange.JPEG
    return video
