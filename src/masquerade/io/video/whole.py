"""Does a file end where its own structure says that it ends?

FFmpeg plays a truncated file to the cut and reports success. Durations and frame counts in headers
are no proof either way, since healthy files lie about them; the nesting of boxes, chunks and
elements is, and walking it touches a few bytes of each.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO

from masquerade.errors import BadInput

_BOXES = {b"ftyp", b"moov", b"mdat", b"moof", b"free", b"skip", b"wide", b"uuid", b"mfra", b"sidx"}
_BOXES |= {b"styp", b"pnot", b"meta", b"emsg", b"prft", b"udta", b"ssix"}
_SEGMENT, _CLUSTER = 0x18538067, 0x1F43B675
_PNG = b"\x89PNG\r\n\x1a\n"


def check_whole(stream: BinaryIO, path: Path) -> None:
    """Refuse a file that breaks off; leaves the stream at its beginning.

    Raises:
        BadInput: if the file is empty or shorter than its structure says.
    """
    size = stream.seek(0, os.SEEK_END)
    head = _read_at(stream, 0, 12)
    if not head:
        raise BadInput(f"Expected a video, got the empty file {path}.")
    ends = {
        b"RIFF": _end_of_riff,
        b"\x1a\x45\xdf\xa3": _end_of_ebml,
        _PNG: _end_of_png,
        b"\xff\xd8": _end_of_jpeg,
        b"GIF8": _end_of_gif,
        b"FLV": _end_of_flv,
    }
    known = [end_of for mark, end_of in ends.items() if head.startswith(mark)]
    end_of = _end_of_boxes if head[4:8] in _BOXES else (*known, _end_of_transport)[0]
    end = end_of(stream, size)
    stream.seek(0)
    if end > size:
        raise BadInput(
            f"Expected a whole video, got {path} which breaks off: it has {size} bytes and its "
            f"structure says at least {end}; copy it again, or re-encode what is left."
        )


def _read_at(stream: BinaryIO, place: int, count: int) -> bytes:
    stream.seek(place)
    return stream.read(count)


def _end_of_boxes(stream: BinaryIO, size: int) -> int:
    """ISO base media: boxes one after the other; a length of 0 reaches to the end."""
    place, has_fragments = 0, False
    while place + 8 <= size:
        head = _read_at(stream, place, 16)
        length, kind = struct.unpack(">I4s", head[:8])
        has_fragments |= kind == b"moof"
        if kind not in _BOXES and has_fragments:
            raise BadInput(_format_damaged_at(place))
        if kind not in _BOXES or length == 0:
            break  # something that players ignore follows the video
        if length == 1 and len(head) == 16:
            length = struct.unpack(">Q", head[8:])[0]
        if length < 8:
            break
        place += length
    return place


def _end_of_riff(stream: BinaryIO, size: int) -> int:
    """AVI: RIFF chunks, of 1 GB each in long files; a length of 0 was never filled in."""
    place = 0
    while place + 8 <= size:
        kind, length = struct.unpack("<4sI", _read_at(stream, place, 8))
        if kind != b"RIFF" or length in (0, 0xFFFFFFFF):
            break
        place += 8 + length
    return place


def _end_of_ebml(stream: BinaryIO, size: int) -> int:
    """Matroska and WebM: a segment of clusters of blocks; live recordings leave lengths open."""
    place, kind = 0, 0
    while place < size and kind != _SEGMENT:
        found = _read_element(stream, place)
        if found is None:
            return place  # let the decoder say what is wrong
        kind, start, length = found
        place = start + max(length, 0)
    stop = size if length < 0 else place
    return _walk_elements(stream, start, stop) if stop <= size else stop


def _walk_elements(stream: BinaryIO, place: int, stop: int) -> int:
    """Follow element after element, and into clusters; where the last one ends.

    FFmpeg skips what it cannot follow, with all its frames, and says nothing. A cluster inside of
    a cluster is nothing that anyone writes.
    """
    cluster = (0, 0)  # where the one that we are in begins and ends
    while place < stop:
        found = _read_element(stream, place)
        if found is None or (found[2] < 0 and found[0] != _CLUSTER):
            raise BadInput(_format_damaged_at(place))
        kind, start, length = found
        after = start + max(length, 0)
        is_inside = place < cluster[1]
        if is_inside and (kind == _CLUSTER or after > cluster[1]):
            raise BadInput(_format_damaged_at(cluster[0]))
        if kind == _CLUSTER and 0 <= length <= stop - start:
            cluster, after = (start, after), start
        place = after
    return place


def _read_element(stream: BinaryIO, place: int) -> tuple[int, int, int] | None:
    """Identifier, start of the content and length (-1: open) of the element at a place."""
    head = _read_at(stream, place, 12).ljust(12, b"\xff")
    id_bytes = 9 - head[0].bit_length()
    length_bytes = 9 - head[min(id_bytes, 4)].bit_length()
    if id_bytes > 4 or length_bytes > 8:
        return None
    start = place + id_bytes + length_bytes
    value = int.from_bytes(head[id_bytes : id_bytes + length_bytes], "big")
    is_open = value == (1 << 7 * length_bytes + 1) - 1
    length = -1 if is_open else value - (1 << 7 * length_bytes)
    return int.from_bytes(head[:id_bytes], "big"), start, length


def _end_of_png(stream: BinaryIO, size: int) -> int:
    """PNG: chunks up to IEND."""
    place = len(_PNG)
    while place + 8 <= size:
        length, kind = struct.unpack(">I4s", _read_at(stream, place, 8))
        place += 12 + int(length)
        if kind == b"IEND":
            return place
    return max(place, size + 12)


def _end_of_jpeg(stream: BinaryIO, size: int) -> int:
    """JPEG: segments up to the first scan, then the marker that ends the picture."""
    place = 2
    while place + 4 <= size:
        marker, length = struct.unpack(">HH", _read_at(stream, place, 4))
        if marker == 0xFFDA:
            return place if b"\xff\xd9" in _read_at(stream, place, -1) else size + 2
        if marker == 0xFFFF:
            place += 1  # a fill byte
        elif marker < 0xFF00:
            return place  # not a marker: let the decoder say what is wrong
        else:
            place += 2 + length
    return max(place, size + 2)


def _end_of_gif(stream: BinaryIO, size: int) -> int:
    """GIF: blocks of sub-blocks up to the trailer."""
    place = 13 + _gif_colours(_read_at(stream, 10, 1))
    while place < size:
        head = _read_at(stream, place, 10).ljust(10, b"\0")
        if head[0] == 0x3B:
            return place + 1
        if head[0] not in (0x21, 0x2C):
            raise BadInput(_format_damaged_at(place))
        place += 2 if head[0] == 0x21 else 11 + _gif_colours(head[9:])
        length = b"\1"
        while length and length != b"\0":
            length = _read_at(stream, place, 1)
            place += 1 + sum(length)
    return size + 1


def _gif_colours(flags: bytes) -> int:
    """Bytes of the table of colours that such a flag announces."""
    return 6 << (flags[0] & 7) if flags and flags[0] & 0x80 else 0


def _end_of_flv(stream: BinaryIO, size: int) -> int:
    """FLV: tags, each with its length before and behind it."""
    place = int.from_bytes(_read_at(stream, 5, 4), "big") + 4
    while place < size:
        head = _read_at(stream, place, 4)
        if head[0] & 0x1F not in (8, 9, 18):
            return place  # let the decoder say what is wrong
        place += 15 + int.from_bytes(head[1:].ljust(3, b"\0"), "big")
    return place


def _end_of_transport(stream: BinaryIO, size: int) -> int:
    """Transport stream: whole packets, a camera's with a time in front; all else ends anywhere."""
    head = _read_at(stream, 0, 5 * 192)
    for length, first in ((188, 0), (192, 4)):
        marks = head[first::length]
        if len(marks) > 1 and set(marks) == {0x47}:
            return -(-size // length) * length
    return size


def _format_damaged_at(place: int) -> str:
    return (
        f"Expected a whole video, got one that is damaged at or after byte {place}; "
        "copy it again, or re-encode what is left."
    )
