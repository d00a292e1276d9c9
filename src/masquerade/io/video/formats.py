"""Which codec writes which kind of file, and what each of them can hold.

Between a codec's pixels and RGB: matrix and range.

YUV without a matrix tag is read as BT.709 from 720 lines on and as BT.601 below, the rule that
players follow; files are written by the same rule, so that a lost tag does no harm.

How large a picture says that it is: a few bytes can unpack to gigabytes, so look first.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import BinaryIO

import av
import numpy as np
from av.video.codeccontext import VideoCodecContext
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter

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


_HD_LINES = 720
# On few cores other work fills the time; the values are the same with any number.
_THREADS = max(1, min(4, len(os.sched_getaffinity(0)) // 4))
av.logging.set_level(None)  # FFmpeg's chatter goes nowhere

_EXACT_COLOUR = (
    Interpolation.ACCURATE_RND  # without these, swscale is faster and darkens by one level
    | Interpolation.FULL_CHR_H_INT
    | Interpolation.FULL_CHR_H_INP
    | Interpolation.BITEXACT
)
_UPSCALING = int(Interpolation.BICUBIC | _EXACT_COLOUR)
_DOWNSCALING = int(Interpolation.AREA | _EXACT_COLOUR)
_GREY_LEVELS = np.clip(np.rint((np.arange(256) - 16) * 255 / 219), 0, 255).astype(np.uint8)
_JFIF_MATRIX = np.array(
    [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]], np.float32
)
# From these swscale makes planes of RGB in a third of the time; a test compares the values.
_QUICK_FORMATS = {f"yuv{j}{chroma}p" for j in ("", "j") for chroma in ("420", "422", "444")}
# AVColorSpace -> swscale's matrix; what is not here is untagged.
_MATRICES = {
    1: Colorspace.ITU709,
    4: Colorspace.FCC,
    5: Colorspace.ITU601,
    6: Colorspace.ITU601,
    7: Colorspace.SMPTE240M,
    9: Colorspace.BT2020,
    10: Colorspace.BT2020,
}


def find_matrix(*, tag: int, height: int) -> Colorspace:
    """The matrix that a frame's tag names, or else the one its height suggests."""
    by_height = Colorspace.ITU709 if height >= _HD_LINES else Colorspace.ITU601
    return _MATRICES.get(tag, by_height)


def tag_colours(context: VideoCodecContext, *, height: int) -> None:
    """Say in the stream how ``FromRgb`` made its YUV."""
    context.colorspace = 1 if height >= _HD_LINES else 6
    context.color_range = ColorRange.MPEG
    context.color_primaries = context.color_trc = 1  # RGB is taken for BT.709's, as sRGB is


def is_full_range(frame: av.VideoFrame) -> bool:
    """Whether black is 0 rather than 16; RGB, grey and JPEG are full unless tagged otherwise."""
    if frame.format.is_rgb or frame.format.has_palette:
        return True
    if frame.color_range in (ColorRange.MPEG, ColorRange.JPEG):
        return frame.color_range == ColorRange.JPEG
    return frame.format.name.startswith("yuvj") or is_grey(frame)


def is_grey(frame: av.VideoFrame) -> bool:
    """Whether the frame has brightness and no colour."""
    return frame.format.name.startswith(("gray", "ya8", "ya16", "mono"))


class ToRgb:
    """Turn decoded frames into (H, W, 3) uint8 RGB arrays of their own memory."""

    def __init__(self) -> None:
        self._reformatter = VideoReformatter()

    def __call__(self, frame: av.VideoFrame) -> np.ndarray:
        """One frame as RGB, as it is stored: not yet upright."""
        is_full = is_full_range(frame)
        rgb = self._reformatter.reformat(
            frame,
            format="gbrp" if frame.format.name in _QUICK_FORMATS else "rgb24",
            src_colorspace=find_matrix(tag=frame.colorspace, height=frame.height),
            src_color_range=ColorRange.JPEG if is_full else ColorRange.MPEG,
            dst_color_range=ColorRange.JPEG,
            interpolation=_UPSCALING,
            threads=_THREADS,
        )
        array = rgb.to_ndarray()
        if not is_full and is_grey(frame):
            return _GREY_LEVELS[array]  # swscale takes grey for full whatever its tag says
        return array


class FromRgb:
    """Turn (H, W, 3) uint8 RGB arrays into frames of a pixel format."""

    def __init__(self, pixel_format: str, *, height: int) -> None:
        self._reformatter = VideoReformatter()
        self._format = pixel_format
        self._matrix = find_matrix(tag=-1, height=height)

    def copy_array(self, array: np.ndarray) -> av.VideoFrame:
        """The array in memory of its own, for `convert_frame`; it may change afterwards."""
        array = np.ascontiguousarray(array)
        if self._format == "yuvj444p":
            return av.VideoFrame.from_ndarray(_to_jfif(array), format="yuvj444p")
        return av.VideoFrame.from_ndarray(array, format="rgb24")

    def convert_frame(self, frame: av.VideoFrame) -> av.VideoFrame:
        """One frame of that format; YUV is of limited range, JPEG's of full range."""
        if self._format in ("rgb24", "yuvj444p"):
            return frame
        is_yuv = self._format.startswith("yuv")
        return self._reformatter.reformat(
            frame,
            format=self._format,
            src_color_range=ColorRange.JPEG,
            dst_colorspace=self._matrix,
            dst_color_range=ColorRange.MPEG if is_yuv else ColorRange.JPEG,
            interpolation=_DOWNSCALING,
            threads=_THREADS,
        )


def _to_jfif(array: np.ndarray) -> np.ndarray:
    """RGB as (3, H, W) full-range YUV; swscale's own is half a level off in chroma."""
    yuv = array.astype(np.float32) @ _JFIF_MATRIX.T + np.array([0, 128, 128], np.float32)
    rounded = np.clip(np.rint(yuv), 0, 255).astype(np.uint8)
    return np.ascontiguousarray(rounded.transpose(2, 0, 1))  # (3, H, W)


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
