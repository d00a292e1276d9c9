"""About how long a release takes and how large its output is, from public numbers alone.

All that is known stands in one table, made on 1280x720 of filmed people on two cores. Films are
measured; pictures, exact copies, arrays and the size of noise are guessed.
`benchmarks/full_size.py` prints the same figures for the machine that it runs on.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

from masquerade.mechanism import Mechanism, Shapes, Streams

_COUNT, _READ, _WRITE = 2.7, 7.0, 16.0  # ns a pixel: decoding alone, decoding to RGB, encoding
_KNOW = 20.0  # what a ledger knows a film by, in each of two passes
_NUMBER = 100.0  # ns a number of an array file
_BUSY = 1.7  # processors that one release keeps busy
_EXACT, _NOISE = 0.6, 3.5  # bytes a pixel of an exact copy, and of one of noise


@dataclass(frozen=True, kw_only=True)
class _Pace:
    """What one mechanism takes, a pixel of a frame.

    Args:
        time: ns of one processor.
        room: bytes of what is written, visually lossless.
        frame: ms of one processor for each frame besides, whatever its size.
    """

    time: float
    room: float
    frame: float = 0.0


_OTHERS = _Pace(time=100.0, room=0.05)  # a mechanism that nobody has measured
_PACES = {
    "alf": _Pace(time=51.0, room=0.010),
    "appearance_free": _Pace(time=130.0, room=0.11),
    "avatar": _Pace(time=130.0, room=0.015, frame=200.0),
    "blur": _Pace(time=7.0, room=0.010),
    "cosine_gaussian": _Pace(time=20.0, room=0.023),
    "cosine_gaussian local": _Pace(time=33.0, room=0.022),
    "face_blur": _Pace(time=236.0, room=0.031),
    "gaussian_noise": _Pace(time=120.0, room=1.0),
    "learned_filter": _Pace(time=29.0, room=0.020),  # soften; others take what they take
    "low_resolution": _Pace(time=7.0, room=0.005),
    "mosaic": _Pace(time=2.3, room=0.011),
    "pooled_gaussian": _Pace(time=19.0, room=0.023),
    "ppedcrf": _Pace(time=31.0, room=0.18),
    "ppedcrf people": _Pace(time=410.0, room=0.17),
    "public_mask_gaussian": _Pace(time=130.0, room=1.0),
    "random_mask": _Pace(time=5.7, room=0.092),
    "selective_privacy": _Pace(time=340.0, room=0.038),
    "selective_privacy people": _Pace(time=690.0, room=0.11),  # where nearly a third is hidden
    "spact": _Pace(time=51.0, room=0.010),
    "video_dprp": _Pace(time=490.0, room=0.067),
}
_LOCAL = ("value", "pixels")  # units for which the local step does something
_PNG = {".png": 1.5, ".jpg": 0.6, ".jpeg": 0.6}  # bytes a pixel of a picture


def seconds(mechanism: Mechanism, shapes: Shapes, *, is_charged: bool = False) -> float:
    """About how long a release takes: reading twice, the mechanism, and writing.

    Args:
        mechanism: what is done.
        shapes: of what is released.
        is_charged: whether a ledger is, which must know the recording.
    """
    numbers = sum(map(math.prod, shapes))
    if not _is_film(mechanism, shapes):
        return numbers * _NUMBER * 1e-9
    first = _READ if is_charged else _COUNT
    pace = _pace(mechanism)
    each = first + _READ + pace.time + _WRITE + 2 * _KNOW * is_charged
    total = numbers / 3 * each * 1e-9 + shapes[0][0] * pace.frame * 1e-3
    return total / min(_BUSY, os.cpu_count() or 1)


def size(mechanism: Mechanism, shapes: Shapes, *, suffix: str, is_exact: bool = False) -> int:
    """About how many bytes the output has.

    Args:
        mechanism: what is done.
        shapes: of what is released.
        suffix: of the output.
        is_exact: whether every value is kept.
    """
    numbers = sum(map(math.prod, shapes))
    if not _is_film(mechanism, shapes):
        return 8 * numbers
    room = _pace(mechanism).room
    if is_exact:
        room = _NOISE if mechanism.name == "gaussian_noise" else _EXACT
    return round(numbers / 3 * _PNG.get(suffix.lower(), room))


def _is_film(mechanism: Mechanism, shapes: Shapes) -> bool:
    return isinstance(mechanism, Streams) and len(shapes) == 1 and len(shapes[0]) == 4


def _pace(mechanism: Mechanism) -> _Pace:
    fields: dict[str, Any] = dict(mechanism.fields())
    is_local = fields.get("denoise") == "local" and fields.get("unit") in _LOCAL
    does_segment = fields.get("region") == "people" or fields.get("people") == "segmenter"
    kind = f"{mechanism.name}{' local' * is_local}{' people' * does_segment}"
    return _PACES.get(kind, _OTHERS)
