"""How large a picture says that it is: a few bytes can unpack to gigabytes, so look first."""

from __future__ import annotations

import struct
from typing import BinaryIO

_NO_FRAME = (0xC4, 0xC8, 0xCC)  # among the markers C0 to CF, those that tell no size


def find(stream: BinaryIO) -> tuple[int, int] | None:
    """Width and height by the header of a PNG, JPEG, GIF or WebP; None for other files."""
    stream.seek(0)
    head = stream.read(32).ljust(32, b"\0")
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        return struct.unpack(">II", head[16:24])
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return struct.unpack("<HH", head[6:10])
    if is_webp(head):
        return _of_webp(head)
    return _of_jpeg(stream) if head[:2] == b"\xff\xd8" else None


def is_webp(head: bytes) -> bool:
    """Whether a file that begins so is a WebP."""
    return head[:4] == b"RIFF" and head[8:12] == b"WEBP"


def _of_webp(head: bytes) -> tuple[int, int] | None:
    if head[12:16] == b"VP8X":
        wide, high = (int.from_bytes(head[place : place + 3], "little") for place in (24, 27))
        return wide + 1, high + 1
    if head[12:16] == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    wide, high = struct.unpack("<HH", head[26:30])
    return wide & 0x3FFF, high & 0x3FFF


def _of_jpeg(stream: BinaryIO) -> tuple[int, int] | None:
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
