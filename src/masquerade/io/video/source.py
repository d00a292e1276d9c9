"""Open a video file and decode it so that damage is seen, never concealed.

FFmpeg is asked to stop at errors instead of patching over them, and only the formats of this
shelf are let in: a playlist that calls itself a video could otherwise name other files.

Files as FFmpeg gets them: by their descriptor, so that it reads and writes them by itself.

PyAV can call a Python stream instead, but an interrupt that arrives inside such a call is lost, and
the film goes on with a hole in it. Through a descriptor no Python runs inside FFmpeg: an interrupt
waits until it is done, and an error of the disk is its own. A descriptor has no name either, by
which FFmpeg would guess the format before looking inside.

How a picture was held: display matrices of videos, EXIF of pictures.

A turn is ``(a, b, c, d)``, each -1, 0 or 1: the pixel (x, y) is shown at (a x + c y, b x + d y).
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import struct
import tempfile
from collections.abc import Generator, Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

from masquerade._optional import av
from masquerade.errors import BadInput
from masquerade.io.video import MAX_PIXELS, SUFFIXES, formats, whole

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.sidedata.sidedata import SideData
    from av.video.stream import VideoStream


def file_address(file: BinaryIO) -> str:
    """What to open in the file's place; the file must stay open as long."""
    os.lseek(file.fileno(), 0, os.SEEK_SET)  # some systems share the place, others begin anew
    return f"file:/dev/fd/{file.fileno()}"


@contextlib.contextmanager
def open_as_file(stream: BinaryIO) -> Iterator[BinaryIO]:
    """The stream itself, or a temporary file whose content it gets at the end if all went well."""
    try:
        stream.fileno()
    except io.UnsupportedOperation:
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            shutil.copyfileobj(file, stream)
        return
    yield stream
    stream.seek(0, os.SEEK_END)


Turn = tuple[int, int, int, int]

NO_TURN: Turn = (1, 0, 0, 1)
_QUARTER_TURNS: dict[int, Turn] = {
    0: NO_TURN,
    90: (0, -1, 1, 0),
    180: (-1, 0, 0, -1),
    270: (0, 1, -1, 0),
}
_EXIF_TURNS: dict[int, Turn] = {
    2: (-1, 0, 0, 1),
    3: (-1, 0, 0, -1),
    4: (1, 0, 0, -1),
    5: (0, 1, 1, 0),
    6: (0, 1, -1, 0),
    7: (0, -1, -1, 0),
    8: (0, -1, 1, 0),
}
_ORIENTATION = 0x112


def read_frame_turn(frame: av.VideoFrame) -> Turn:
    """The turn that a frame's display matrix asks for; none unless it is by quarters."""
    from av.sidedata.sidedata import Type

    try:
        side_data = cast("Iterable[SideData]", frame.side_data)
        matrices = [bytes(data) for data in side_data if data.type is Type.DISPLAYMATRIX]
    except ValueError:  # PyAV does not know some other kind of side data, and gives none
        return _QUARTER_TURNS.get(frame.rotation % 360, NO_TURN)
    if not matrices:
        return NO_TURN
    values = np.frombuffer(matrices[0], dtype="<i4")
    a, b, c, d = (int(np.rint(values[place] / 65536)) for place in (0, 1, 3, 4))
    is_quarter = sorted(map(abs, (a, b, c, d))) == [0, 0, 1, 1] and a * d != b * c
    return (a, b, c, d) if is_quarter else NO_TURN


def read_picture_turn(path: Path) -> Turn:
    """The turn that the EXIF block of a JPEG, PNG or WebP asks for."""
    with path.open("rb") as stream:
        head = stream.read(1 << 18)
        if head[8:12] == b"WEBP":  # there it comes last
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - (1 << 18)))
            tail = stream.read()
            tiff = tail[tail.rfind(b"EXIF") + 8 :] if b"EXIF" in tail else b""
            return _EXIF_TURNS.get(_read_orientation(tiff.removeprefix(b"Exif\0\0")), NO_TURN)
    for mark, skip in ((b"Exif\0\0", 6), (b"eXIf", 4)):
        place = head.find(mark)
        if place >= 0:
            return _EXIF_TURNS.get(_read_orientation(head[place + skip :]), NO_TURN)
    return NO_TURN


def turn_array(array: np.ndarray, turn: Turn) -> np.ndarray:
    """The array turned and flipped; a copy only where that is needed."""
    a, b, c, d = turn
    if a == 0:
        array, a, d = array.transpose(1, 0, 2), c, b
    return np.ascontiguousarray(array[::d, ::a])


def turn_aspect(aspect: Fraction, turn: Turn) -> Fraction:
    """Sample aspect ratio after the turn: a quarter turn swaps width and height."""
    return aspect if turn[0] else 1 / aspect


def _read_orientation(tiff: bytes) -> int:
    """The orientation tag in the first directory of a TIFF block; 1 if there is none."""
    order = {b"II": "<", b"MM": ">"}.get(tiff[:2])
    if order is None or len(tiff) < 10:
        return 1
    directory = struct.unpack(f"{order}I", tiff[4:8])[0]
    for number in range(64):
        entry = tiff[directory + 2 + 12 * number :][:12]
        if len(entry) < 12:
            break
        tag, kind, _, value = struct.unpack(f"{order}HHIH2x", entry)
        if tag == _ORIENTATION and kind == 3:
            return int(value)
    return 1


_FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,png_pipe,jpeg_pipe"
_FORMATS += ",webp_pipe,gif,mpegts,flv,mpeg"
_PICTURES = ("png_pipe", "jpeg_pipe", "webp_pipe")
_TILE_BRANDS = {
    "mif1",
    "heic",
    "heix",
    "heim",
    "heis",
    "avif",
}  # FFmpeg would give one tile of many
_PADDING_PIXELS = 1 << 22  # pixels that a codec may count on top, because it works in blocks


@contextlib.contextmanager
def open_video(
    path: Path, *, max_pixels: int = MAX_PIXELS
) -> Iterator[tuple[InputContainer, VideoStream]]:
    """The container and its video stream; both are closed when the block ends.

    Args:
        path: the file; its content decides what it is, not its name.
        max_pixels: of a frame. Larger ones are refused by their header, before anything is
            unpacked.

    Raises:
        BadInput: if there is no such file, it holds no video, its frames are too large, or
            anything in the block finds it damaged.
    """
    if not path.is_file():
        what = "a folder" if path.is_dir() else "nothing"
        raise BadInput(f"Expected a video file at {path}, got {what}.")
    try:
        with path.open("rb") as stream:
            whole.check_whole(stream, path)
            head = stream.read(32)
            _check_size(formats.find_picture_size(stream), path, max_pixels)
            av.logging.set_level(None)  # FFmpeg's chatter goes nowhere; what matters is an error
            with av.open(
                file_address(stream),
                "r",
                format=_picture_format(head),
                metadata_errors="replace",
                options={
                    "max_pixels": str(max_pixels + _PADDING_PIXELS)
                },  # also while it looks around
                container_options={"format_whitelist": _FORMATS, "protocol_whitelist": "file"},
            ) as container:
                video = _video_stream(container, path)
                context = video.codec_context
                _check_size((context.width, context.height), path, max_pixels)
                context.options = {
                    "err_detect": "crccheck+explode",
                    "max_pixels": str(max_pixels + _PADDING_PIXELS),
                }
                yield container, video
    except BadInput as error:
        if str(path) in str(error):
            raise
        raise BadInput(f"{path}: {error}") from error
    except av.EOFError as error:
        raise BadInput(f"Expected at least one frame, got none in {path}.") from error
    except (av.FFmpegError, ValueError, OverflowError, MemoryError) as error:
        raise BadInput(
            f"Expected a video that can be decoded, got {path} ({_format_reason(error)}); convert "
            "it to a "
            f"plain .mp4 first, or give one of {', '.join(SUFFIXES)}."
        ) from error


def demux_packets(
    container: InputContainer, stream: VideoStream
) -> Iterator[av.Packet[VideoStream]]:
    """Packets of the video; the last one is empty and flushes the decoder.

    Raises:
        BadInput: if one is cut short, or there are fewer than the file's own index lists: FFmpeg
            steps over a part of an AVI that it cannot follow.
    """
    number = -1
    for number, packet in enumerate(container.demux(stream)):
        if packet.is_corrupt:
            raise BadInput(
                f"Expected a whole video, got one that is damaged at packet {number}; "
                "re-encode it, or cut it before that."
            )
        yield packet
    has_full_index = container.format.name == "avi" or container.format.name.startswith("mov")
    listed = sum(entry.size > 0 for entry in stream.index_entries) if has_full_index else 0
    if number < listed:
        raise BadInput(
            f"Expected the {listed} packets that the index lists, got {number}: the video is "
            "damaged; re-encode what is left."
        )


def is_picture(container: InputContainer) -> bool:
    """Whether the file is a PNG, a JPEG or a WebP, a video of one frame."""
    return container.format.name in _PICTURES


def decode_frames(
    container: InputContainer, stream: VideoStream, *, threads: int = 0, is_counted: bool = False
) -> Generator[av.VideoFrame, None, None]:
    """Decoded frames in the order in which they are shown; a picture has one.

    Args:
        container: an open file.
        stream: of that file.
        threads: of the decoder; 0 lets it choose.
        is_counted: nobody looks at the frames, so edges of blocks are not smoothed, which takes a
            fifth of the time of H.264; everything in the file is read all the same.

    Raises:
        BadInput: if the data breaks off or is damaged, the size changes, or there is no frame.
    """
    prepare_decoder(stream, threads=threads, is_counted=is_counted)
    number, size = 0, (0, 0)
    try:
        for packet in demux_packets(container, stream):
            for frame in packet.decode():
                if frame.is_corrupt:
                    raise BadInput(_format_damaged_after(number))
                if number and (frame.width, frame.height) != size:
                    raise BadInput(
                        f"Expected frames of one size, got {frame.width}x{frame.height} after "
                        f"{size[0]}x{size[1]} at frame {number}; re-encode the video at one size, "
                        "or cut it there."
                    )
                size = (frame.width, frame.height)
                number += 1
                yield frame
                if is_picture(container):
                    return  # what follows in the file is a thumbnail or a gain map
    except av.FFmpegError as error:
        raise BadInput(_format_damaged_after(number)) from error
    if number == 0:
        raise BadInput("Expected at least one frame, got a video without any.")


def prepare_decoder(stream: VideoStream, *, threads: int = 0, is_counted: bool = False) -> None:
    """Choose the decoder's threads, and what it need not do."""
    context = stream.codec_context
    context.thread_type, context.thread_count = "AUTO", threads
    if is_counted and context.name == "h264":  # others may check the filtered picture by a hash
        context.options = {**context.options, "skip_loop_filter": "all"}


def _check_size(size: tuple[int, int] | None, path: Path, max_pixels: int) -> None:
    if size is not None and size[0] * size[1] > max_pixels:
        raise BadInput(
            f"Expected frames of at most {max_pixels} pixels, got {size[0]}x{size[1]} in {path}; "
            "scale it down, or allow more with --max-pixels."
        )


def _picture_format(head: bytes) -> str | None:
    """By name, because FFmpeg takes a photo with a second picture in it for a film of JPEGs."""
    if head.startswith(b"\xff\xd8"):
        return "jpeg_pipe"
    if formats.is_webp(head):
        if head[12:16] == b"VP8X" and head[20] & 2:
            raise BadInput("Expected a still picture, got an animated WebP; convert it to .mp4.")
        return "webp_pipe"
    return "png_pipe" if head.startswith(b"\x89PNG") else None


def _video_stream(container: InputContainer, path: Path) -> VideoStream:
    if container.metadata.get("major_brand", "").strip() in _TILE_BRANDS:
        raise BadInput(f"Expected a video, a JPEG or a PNG, got a HEIF picture at {path}.")
    for stream in container.streams.video:
        if not stream.disposition & av.stream.Disposition.attached_pic:
            if stream.codec_context is None:
                raise BadInput(f"Expected a known video codec in {path}; convert it first.")
            return stream
    raise BadInput(f"Expected a video stream in {path}, got none; give a file that holds one.")


def _format_damaged_after(number: int) -> str:
    return (
        f"Expected a whole video, got one that breaks off or is damaged after frame {number}; "
        "re-encode it, or cut it before that."
    )


def _format_reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
