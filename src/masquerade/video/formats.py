"""Which codec writes which kind of file, and what each of them can hold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

from masquerade import _check
from masquerade.video import WRITABLE

MAX_PIXELS = 1 << 28  # of a frame that is written, whatever is allowed for reading


@dataclass(frozen=True, kw_only=True)
class Format:
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
_H264 = Format(
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
_H264_EXACT = Format(
    container="mp4",
    codec="libx264rgb",
    pixel_format="rgb24",
    longest_side=16384,
    options={"qp": "0", "preset": "veryfast"},
)
_PNG = Format(container="image2pipe", codec="png", pixel_format="rgb24")
_JPEG = Format(
    container="image2pipe",
    codec="mjpeg",
    pixel_format="yuvj444p",
    one_thread=True,
    options={"qmin": "2", "qmax": "2"},
)
_LOSSY = {
    ".mp4": _H264,
    ".m4v": _H264,
    ".mov": replace(_H264, container="mov"),
    ".mkv": replace(_H264, container="matroska"),
    ".avi": Format(
        container="avi",
        codec="mpeg4",
        pixel_format="yuv420p",
        carries_times=False,
        longest_side=8191,
        longest_tick=65535,
        one_thread=True,
        options={"qmin": "1", "qmax": "1"},
    ),
    ".webm": Format(
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
_EXACT = {
    ".mp4": _H264_EXACT,
    ".m4v": _H264_EXACT,
    ".mov": replace(_H264_EXACT, container="mov"),
    ".mkv": Format(
        container="matroska",
        codec="ffv1",
        pixel_format="bgr0",
        carries_aspect=False,
        narrowest=2,
        options={"level": "3", "slicecrc": "1"},
    ),
    ".avi": Format(
        container="avi",
        codec="utvideo",
        pixel_format="gbrp",
        carries_aspect=False,
        carries_times=False,
    ),
    ".png": _PNG,
}


def find(suffix: str, *, exact: bool) -> Format:
    """The format of a suffix; an exact one gives back the same bytes of RGB.

    Raises:
        ValueError: if the suffix is unknown or cannot hold exact pixels; lists those that can.
    """
    name = suffix.lower()
    if name not in WRITABLE:
        raise ValueError(_check.unknown("kind of video to write", suffix, WRITABLE))
    if exact and name not in _EXACT:
        raise ValueError(
            f"Expected a kind of video that keeps pixels exactly, got {suffix}; choose from "
            f"{', '.join(_EXACT)}."
        )
    return (_EXACT if exact else _LOSSY)[name]
