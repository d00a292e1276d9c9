"""Which codec writes which kind of file, and what each of them can hold.

How large a picture says that it is: a few bytes can unpack to gigabytes, so look first.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import BinaryIO

from masquerade import _check
from masquerade.io.video import WRITABLE

MAX_PIXELS = 1 << 28  # of a frame that is written, whatever is allowed for reading


@dataclass(frozen=True, kw_only=True)
class VideoFormat:
    """How one kind of file is encoded.

    Args:
        container: FFmpeg's name of the muxer.
        codec: FFmpeg's name of the encoder.
        pixel_format: FFmpeg's name of it.
        odd_format: for odd sizes, where it is another; H.264 halves chroma only where it can.
        longest_side: that the codec takes, in pixels.
        narrowest: picture that the codec takes.
        carries_aspect: whether the pixels' aspect ratio survives.
        carries_times: whether each frame may have a time of its own.
        longest_tick: largest number in the fraction of a rate.
        one_thread: whether the number of threads would show in the file.
        options: of the encoder.
    """

    container: str
    codec: str
    pixel_format: str
    odd_format: str | None = None
    longest_side: int = 32767
    narrowest: int = 1
    carries_aspect: bool = True
    carries_times: bool = True
    longest_tick: int = 1_000_000
    one_thread: bool = False
    options: dict[str, str] = field(default_factory=dict)

    def nearest_rate(self, rate: Fraction) -> Fraction:
        """The closest rate whose numbers the codec can count with."""
        return rate.limit_denominator(max(1, int(self.longest_tick / max(float(rate), 1.0))))


# Measured on filmed people, over all of RGB: 43.8 dB at 1768x994; 42.2 at 884x496, where halved
# chroma alone leaves 48.7. Beside preset veryfast at crf 14 that is the same or better to 0.02 dB,
# for filmed and for released frames, in -6 to +8 % of the size and 0.6 of the time (10 of 16 ms a
# frame of 1280x720). superfast's own search (subme 1) gives files a quarter larger; a fixed pattern
# of B-frames (b-adapt 0) is quicker still, and 1.6 dB worse where everything moves.
# "psnr" keeps x264 from inventing texture that looks sharper and is further from the pixels; its
# macroblock tree reads memory that it has not set, so that the same frames would give other bytes.
# swscale averages chroma between pixels: the tag spares a reader a shift by half a pixel.
_H264 = VideoFormat(
    container="mp4",
    codec="libx264",
    pixel_format="yuv420p",
    odd_format="yuv444p",
    longest_side=16384,
    options={
        "crf": "13.8",
        "preset": "superfast",
        "x264-params": "subme=2:weightp=0",
        "tune": "psnr",
        "mbtree": "0",
        "chromaoffset": "-4",
        "chroma_sample_location": "center",
    },
)
_H264_EXACT = VideoFormat(
    container="mp4",
    codec="libx264rgb",
    pixel_format="rgb24",
    longest_side=16384,
    options={"qp": "0", "preset": "veryfast"},
)
_PNG = VideoFormat(container="image2pipe", codec="png", pixel_format="rgb24")
_JPEG = VideoFormat(
    container="image2pipe",
    codec="mjpeg",
    pixel_format="yuvj444p",
    one_thread=True,
    options={"qmin": "2", "qmax": "2"},
)
_LOSSY_FORMATS = {
    ".mp4": _H264,
    ".m4v": _H264,
    ".mov": replace(_H264, container="mov"),
    ".mkv": replace(_H264, container="matroska"),
    ".avi": VideoFormat(
        container="avi",
        codec="mpeg4",
        pixel_format="yuv420p",
        carries_times=False,
        longest_side=8191,
        longest_tick=65535,
        one_thread=True,
        options={"qmin": "1", "qmax": "1"},
    ),
    ".webm": VideoFormat(
        container="webm",
        codec="libvpx-vp9",
        pixel_format="yuv420p",
        longest_side=16384,
        carries_aspect=False,
        options={"crf": "8", "b": "0", "deadline": "realtime", "cpu-used": "7", "row-mt": "1"},
    ),
    ".png": _PNG,
    ".jpg": _JPEG,
    ".jpeg": _JPEG,
}
_EXACT_FORMATS = {
    ".mp4": _H264_EXACT,
    ".m4v": _H264_EXACT,
    ".mov": replace(_H264_EXACT, container="mov"),
    ".mkv": VideoFormat(
        container="matroska",
        codec="ffv1",
        pixel_format="bgr0",
        carries_aspect=False,
        narrowest=2,
        options={"level": "3", "slicecrc": "1"},
    ),
    ".avi": VideoFormat(
        container="avi",
        codec="utvideo",
        pixel_format="gbrp",
        carries_aspect=False,
        carries_times=False,
    ),
    ".png": _PNG,
}


def find_format(suffix: str, *, exact: bool) -> VideoFormat:
    """The format of a suffix; an exact one gives back the same bytes of RGB.

    Raises:
        ValueError: if the suffix is unknown or cannot hold exact pixels; lists those that can.
    """
    name = suffix.lower()
    if name not in WRITABLE:
        raise ValueError(_check.describe_unknown("kind of video to write", suffix, WRITABLE))
    if exact and name not in _EXACT_FORMATS:
        raise ValueError(
            f"Expected a kind of video that keeps pixels exactly, got {suffix}; choose from "
            f"{', '.join(_EXACT_FORMATS)}."
        )
    return (_EXACT_FORMATS if exact else _LOSSY_FORMATS)[name]


_NO_FRAME = (0xC4, 0xC8, 0xCC)  # among the markers C0 to CF, those that tell no size


def find_picture_size(stream: BinaryIO) -> tuple[int, int] | None:
    """Width and height by the header of a PNG, JPEG, GIF or WebP; None for other files."""
    stream.seek(0)
    head = stream.read(32).ljust(32, b"\0")
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        return struct.unpack(">II", head[16:24])
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return struct.unpack("<HH", head[6:10])
    if is_webp(head):
        return _read_webp_size(head)
    return _read_jpeg_size(stream) if head[:2] == b"\xff\xd8" else None


def is_webp(head: bytes) -> bool:
    """Whether a file that begins so is a WebP."""
    return head[:4] == b"RIFF" and head[8:12] == b"WEBP"


def _read_webp_size(head: bytes) -> tuple[int, int] | None:
    if head[12:16] == b"VP8X":
        wide, high = (int.from_bytes(head[place : place + 3], "little") for place in (24, 27))
        return wide + 1, high + 1
    if head[12:16] == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    wide, high = struct.unpack("<HH", head[26:30])
    return wide & 0x3FFF, high & 0x3FFF


def _read_jpeg_size(stream: BinaryIO) -> tuple[int, int] | None:
    place = 2
    while True:
        stream.seek(place)
        head = stream.read(9)
        if len(head) < 9 or head[0] != 0xFF or head[1] == 0xDA:
            return None
        if head[1] == 0xFF:
            place += 1  # a fill byte
        elif 0xC0 <= head[1] <= 0xCF and head[1] not in _NO_FRAME:
            high, wide = struct.unpack(">HH", head[5:9])
            return wide, high
        else:
            place += 2 + struct.unpack(">H", head[2:4])[0]
