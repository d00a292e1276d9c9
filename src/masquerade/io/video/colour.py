"""Between a codec's pixels and RGB: matrix and range.

YUV without a matrix tag is read as BT.709 from 720 lines on and as BT.601 below, the rule that
players follow; files are written by the same rule, so that a lost tag does no harm.
"""

from __future__ import annotations

import os

import av
import numpy as np
from av.video.codeccontext import VideoCodecContext
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter

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
