"""Makes small video files of every kind that the tests read, with what is true about them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

RATE = Fraction(25)
SECRETS = ("+48.8500+002.3500/", "iPhone 15 of Ada", "Ada at home", "Kitchen", "2024-05-06")
SPOKEN = "Good morning Ada"


def moving(frames: int, height: int, width: int, *, seed: int = 7) -> np.ndarray:
    """Content like a film's: sharp in brightness, soft in colour, drifting; (T, H, W, 3) uint8."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width].astype(float)
    sharp, soft = rng.uniform(0.05, 0.5, (4, 2)), rng.uniform(0.01, 0.08, (3, 2, 2))
    phases = rng.uniform(0, 6.28, 10)
    out = np.full((frames, height, width, 3), 128.0)
    for t in range(frames):
        for k, (a, b) in enumerate(sharp):
            out[t] += 16 * np.sin(a * (x + 1.5 * t) + b * y + phases[k])[..., None]
        for c in range(3):
            for k, (a, b) in enumerate(soft[c]):
                out[t, ..., c] += 30 * np.sin(a * (x - 2 * t) + b * y + phases[4 + 2 * c + k])
    return np.clip(np.rint(out + rng.normal(0, 1, (height, width, 1))), 0, 255).astype(np.uint8)


def patches(height: int, width: int, *, seed: int = 3) -> np.ndarray:
    """One frame of flat 16-pixel squares in every kind of colour, black and white included."""
    rng = np.random.default_rng(seed)
    squares = rng.integers(0, 256, (-(-height // 16), -(-width // 16), 3))
    squares.reshape(-1, 3)[:5] = ((0, 0, 0), (255, 255, 255), (255, 0, 0), (0, 255, 0), (0, 0, 255))
    whole = squares.repeat(16, axis=0).repeat(16, axis=1)
    return whole[:height, :width].astype(np.uint8)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One way of making a file."""

    suffix: str = ".mp4"
    codec: str = "libx264"
    pixel_format: str = "yuv420p"
    options: dict[str, str] = field(default_factory=dict)
    container_options: dict[str, str] = field(default_factory=dict)
    rate: Fraction = RATE
    pts: Sequence[int] | None = None
    rotation: int | None = None
    hflip: bool = False
    aspect: Fraction | None = None
    matrix: int | None = None
    full_range: bool | None = None


B_FRAMES = {"bf": "3", "g": "8", "crf": "10", "preset": "fast", "mbtree": "0"}
X265 = {"x265-params": "log-level=none:keyint=8:bframes=3:pools=1", "crf": "8", "preset": "fast"}
VP9 = {"crf": "4", "b": "0", "deadline": "realtime", "cpu-used": "8", "g": "8"}
FINE = {"qmin": "2", "qmax": "2", "g": "8"}
KINDS = {
    "h264.mp4": Kind(options=B_FRAMES),
    "h264.mov": Kind(suffix=".mov", options=B_FRAMES),
    "h264.mkv": Kind(suffix=".mkv", options=B_FRAMES),
    "h264-front.mp4": Kind(options=B_FRAMES, container_options={"movflags": "faststart"}),
    "h264-fragments.mp4": Kind(options=B_FRAMES, container_options={"movflags": "frag_keyframe"}),
    "h265.mp4": Kind(codec="libx265", options=X265),
    "h265.mkv": Kind(suffix=".mkv", codec="libx265", options=X265),
    "mpeg4.avi": Kind(suffix=".avi", codec="mpeg4", options=FINE),
    "mpeg4-b.avi": Kind(suffix=".avi", codec="mpeg4", options=FINE | {"bf": "2"}),
    "mpeg4.mp4": Kind(codec="mpeg4", options=FINE | {"bf": "2"}),
    "mjpeg.avi": Kind(suffix=".avi", codec="mjpeg", pixel_format="yuvj420p", options=FINE),
    "mjpeg.mov": Kind(suffix=".mov", codec="mjpeg", pixel_format="yuvj444p", options=FINE),
    "ffv1.mkv": Kind(suffix=".mkv", codec="ffv1", pixel_format="yuv444p"),
    "ffv1.avi": Kind(suffix=".avi", codec="ffv1", pixel_format="yuv444p"),
    "vp9.webm": Kind(suffix=".webm", codec="libvpx-vp9", options=VP9),
    "vp9.mkv": Kind(suffix=".mkv", codec="libvpx-vp9", options=VP9),
}
MUXERS = {".mp4": "mp4", ".mov": "mov", ".mkv": "matroska", ".avi": "avi", ".webm": "webm"}
MUXERS |= {".gif": "gif", ".ts": "mpegts", ".mts": "mpegts", ".flv": "flv", ".mpg": "vob"}
MUXERS |= {".3gp": "3gp", ".webp": "webp"}
MUXERS |= {".png": "image2pipe", ".jpg": "image2pipe"}


def make(path: Path, frames: np.ndarray, kind: Kind) -> Path:
    """Encode RGB frames with plain FFmpeg defaults: this is what others' files look like."""
    pictures = [av.VideoFrame.from_ndarray(frame, format="rgb24") for frame in frames]
    for picture in pictures:
        picture.colorspace = 6
    return make_raw(path, [p.reformat(format=kind.pixel_format) for p in pictures], kind)


def make_raw(path: Path, pictures: Sequence[av.VideoFrame], kind: Kind) -> Path:
    """Encode frames as they are; no frames give a valid container without any."""
    with av.open(
        str(path), "w", format=MUXERS[kind.suffix], container_options=kind.container_options
    ) as container:
        stream = container.add_stream(kind.codec, rate=kind.rate, options=dict(kind.options))
        context = stream.codec_context
        context.width = pictures[0].width if pictures else 32
        context.height = pictures[0].height if pictures else 24
        context.pix_fmt = kind.pixel_format
        if kind.aspect is not None:
            context.sample_aspect_ratio = kind.aspect
        if kind.matrix is not None:
            context.colorspace = kind.matrix
        if kind.full_range is not None:
            context.color_range = 2 if kind.full_range else 1
        if kind.pts is not None:
            context.time_base = stream.time_base = Fraction(1, 1000)
        if kind.rotation is not None:
            stream.set_display_rotation(kind.rotation, hflip=kind.hflip)
        container.start_encoding()
        for number, picture in enumerate(pictures):
            picture.pts = kind.pts[number] if kind.pts is not None else number
            picture.time_base = Fraction(1, 1000) if kind.pts is not None else 1 / kind.rate
            picture.pict_type = 0
            container.mux(stream.encode(picture))
        if pictures:
            container.mux(stream.encode(None))
    return path


def planes(pixel_format: str, height: int, width: int, *values: np.ndarray) -> av.VideoFrame:
    """A frame of given planes, each of the plane's own size and depth."""
    frame = av.VideoFrame(width, height, pixel_format)
    for plane, value in zip(frame.planes, values, strict=True):
        row = np.zeros((plane.height, plane.line_size), np.uint8)
        bytes_ = np.ascontiguousarray(value).view(np.uint8).reshape(plane.height, -1)
        row[:, : bytes_.shape[1]] = bytes_
        plane.update(row.tobytes())
    return frame


def to_yuv(rgb: np.ndarray, *, red: float, blue: float, full: bool, bits: int = 8) -> np.ndarray:
    """The textbook's YUV of RGB, (3, H, W), from the weights of red and blue."""
    r, g, b = np.moveaxis(rgb.astype(float) / 255, -1, 0)
    y = red * r + (1 - red - blue) * g + blue * b
    u, v = (b - y) / (2 - 2 * blue), (r - y) / (2 - 2 * red)
    low, luma, chroma = (0, 255, 255) if full else (16, 219, 224)
    yuv = np.stack([low + luma * y, 128 + chroma * u, 128 + chroma * v]) * 2 ** (bits - 8)
    return np.clip(np.rint(yuv), 0, 2**bits - 1).astype("<u2" if bits > 8 else np.uint8)


def make_furnished(path: Path, frames: np.ndarray) -> Path:
    """A film with sound, subtitles, chapters, and tags of place, device, title and time."""
    place, device, title, chapter, day = SECRETS
    is_mp4 = path.suffix in (".mp4", ".mov")
    options = {"movflags": "use_metadata_tags"} if is_mp4 else {}
    with av.open(str(path), "w", container_options=options) as container:
        container.metadata.update(
            {"location": place, "title": title, "creation_time": f"{day}T07:08:09Z"}
            | {"com.apple.quicktime.location.ISO6709": place, "make": device}
            | {"com.apple.quicktime.model": device}
        )
        video = container.add_stream("libx264", rate=RATE, options=B_FRAMES)
        video.height, video.width = frames.shape[1:3]
        video.pix_fmt = "yuv420p"
        video.metadata.update({"handler_name": device, "title": title})
        sound = container.add_stream("aac", rate=48000)
        sound.metadata.update({"title": title, "language": "fra"})
        words = container.add_mux_stream("mov_text" if is_mp4 else "subrip")
        words.time_base = Fraction(1, 1000)
        half = len(frames) * 20
        container.set_chapters(
            [
                {"id": n, "start": n * half, "end": (n + 1) * half}
                | {"time_base": Fraction(1, 1000), "metadata": {"title": chapter}}
                for n in range(2)
            ]
        )
        container.start_encoding()
        for number, frame in enumerate(frames):
            picture = av.VideoFrame.from_ndarray(frame, format="rgb24").reformat(format="yuv420p")
            picture.pts, picture.time_base = number, 1 / RATE
            container.mux(video.encode(picture))
        container.mux(video.encode(None))
        _sing(container, sound, seconds=len(frames) / float(RATE))
        _subtitle(container, words, is_mp4=is_mp4)
    return path


def _sing(container: av.container.OutputContainer, sound: av.AudioStream, seconds: float) -> None:
    time = np.arange(int(48000 * seconds)) / 48000
    wave = np.sin(2 * np.pi * 440 * time).astype(np.float32)
    for start in range(0, len(wave) - 1023, 1024):
        chunk = np.stack([wave[start : start + 1024]] * 2)
        frame = av.AudioFrame.from_ndarray(chunk, format="fltp", layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = 48000, start, Fraction(1, 48000)
        container.mux(sound.encode(frame))
    container.mux(sound.encode(None))


def _subtitle(
    container: av.container.OutputContainer, words: av.stream.Stream, *, is_mp4: bool
) -> None:
    text = SPOKEN.encode()
    packet = av.Packet(struct.pack(">H", len(text)) + text if is_mp4 else text)
    packet.stream, packet.time_base = words, Fraction(1, 1000)
    packet.pts = packet.dts = 0
    packet.duration = 200
    container.mux(packet)


def lie_in_avi(path: Path, *, frames: int) -> Path:
    """Write another number of frames into an AVI's two headers."""
    data = bytearray(path.read_bytes())
    main = data.index(b"avih") + 8
    data[main + 16 : main + 20] = struct.pack("<I", frames)
    stream = data.index(b"strh") + 8
    data[stream + 32 : stream + 36] = struct.pack("<I", frames)
    path.write_bytes(data)
    return path


def cut(path: Path, *, share: float) -> Path:
    """A copy of the file that breaks off."""
    data = path.read_bytes()
    short = path.with_name(f"cut{share}-{path.name}")
    short.write_bytes(data[: int(len(data) * share)])
    return short


def with_exif(jpeg: Path, *, orientation: int) -> Path:
    """Give a JPEG an EXIF block that says how the camera was held."""
    tiff = b"II*\0\x08\0\0\0\x01\0" + struct.pack("<HHIHH", 0x112, 3, 1, orientation, 0) + bytes(4)
    body = b"Exif\0\0" + tiff
    data = jpeg.read_bytes()
    block = b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body
    jpeg.write_bytes(data[:2] + block + data[2:])
    return jpeg
