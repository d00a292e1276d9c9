"""How a picture was held: display matrices of videos, EXIF of pictures.

A turn is ``(a, b, c, d)``, each -1, 0 or 1: the pixel (x, y) is shown at (a x + c y, b x + d y).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.sidedata.sidedata import SideData, Type

Turn = tuple[int, int, int, int]

NONE: Turn = (1, 0, 0, 1)
_QUARTERS: dict[int, Turn] = {0: NONE, 90: (0, -1, 1, 0), 180: (-1, 0, 0, -1), 270: (0, 1, -1, 0)}
_EXIF: dict[int, Turn] = {
    2: (-1, 0, 0, 1),
    3: (-1, 0, 0, -1),
    4: (1, 0, 0, -1),
    5: (0, 1, 1, 0),
    6: (0, 1, -1, 0),
    7: (0, -1, -1, 0),
    8: (0, -1, 1, 0),
}
_ORIENTATION = 0x112


def of_frame(frame: av.VideoFrame) -> Turn:
    """The turn that a frame's display matrix asks for; none unless it is by quarters."""
    try:
        side_data = cast(Iterable[SideData], frame.side_data)
        matrices = [bytes(data) for data in side_data if data.type is Type.DISPLAYMATRIX]
    except ValueError:  # PyAV does not know some other kind of side data, and gives none
        return _QUARTERS.get(frame.rotation % 360, NONE)
    if not matrices:
        return NONE
    values = np.frombuffer(matrices[0], dtype="<i4")
    a, b, c, d = (int(np.rint(values[place] / 65536)) for place in (0, 1, 3, 4))
    is_quarter = sorted(map(abs, (a, b, c, d))) == [0, 0, 1, 1] and a * d != b * c
    return (a, b, c, d) if is_quarter else NONE


def of_picture(path: Path) -> Turn:
    """The turn that the EXIF block of a JPEG, PNG or WebP asks for."""
    with path.open("rb") as stream:
        head = stream.read(1 << 18)
        if head[8:12] == b"WEBP":  # there it comes last
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - (1 << 18)))
            tail = stream.read()
            tiff = tail[tail.rfind(b"EXIF") + 8 :] if b"EXIF" in tail else b""
            return _EXIF.get(_orientation(tiff.removeprefix(b"Exif\0\0")), NONE)
    for mark, skip in ((b"Exif\0\0", 6), (b"eXIf", 4)):
        place = head.find(mark)
        if place >= 0:
            return _EXIF.get(_orientation(head[place + skip :]), NONE)
    return NONE


def turned(array: np.ndarray, turn: Turn) -> np.ndarray:
    """The array turned and flipped; a copy only where that is needed."""
    a, b, c, d = turn
    if a == 0:
        array, a, d = array.transpose(1, 0, 2), c, b
    return np.ascontiguousarray(array[::d, ::a])


def turned_aspect(aspect: Fraction, turn: Turn) -> Fraction:
    """Sample aspect ratio after the turn: a quarter turn swaps width and height."""
    return aspect if turn[0] else 1 / aspect


def _orientation(tiff: bytes) -> int:
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
