"""Copies of films and pictures that are small enough to stand inside a page."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np

from masquerade.report.sheet import jpeg
from masquerade.video import header, read
from masquerade.video import write as writer

SECONDS = 12  # of a film; what follows is left to the file itself
_SIDE = 640  # pixels, the longer one
_BYTES = 6 << 20  # of a copy; noise does not pack, so some are made smaller once more


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A copy for the page.

    Args:
        data: an .mp4 of H.264 with halved chroma, which every browser plays, or a JPEG.
        poster: its first frame as a JPEG.
        note: in which way it is less than the file; empty if in none.
    """

    data: bytes
    poster: bytes
    note: str


def film(path: Path) -> Copy:
    """The first seconds of a film, made smaller until they fit; odd edges are cut."""
    contents = header.told(path)
    rate = Fraction(contents.rate).limit_denominator(1001)
    most = max(1, int(SECONDS * rate))
    height, width = contents.shape[1:3]
    step = -(-max(height, width) // _SIDE)
    while True:
        stream = io.BytesIO()
        with closing(read.frames(path)) as frames:
            writer.write(stream, _smaller(islice(frames, most), step), suffix=".mp4", rate=rate)
            is_cut = next(frames, None) is not None
        size = len(stream.getvalue())
        if size <= _BYTES or step >= min(height, width) // 16:
            break
        step = max(step + 1, math.ceil(step * math.sqrt(size / _BYTES)))  # bytes as the area
    said = [f"the first {SECONDS} of about {contents.seconds:.0f} seconds"] * is_cut
    said += [_size(width, height, step)] * (step > 1)
    note = f"Shown here: {', '.join(said)}." if said else ""
    return Copy(data=stream.getvalue(), poster=still(path).data, note=note)


def still(path: Path) -> Copy:
    """The first frame of a film, or a picture."""
    with closing(read.frames(path)) as frames:
        frame = next(frames)
    step = -(-max(frame.shape[:2]) // _SIDE)
    data = jpeg(next(_smaller(iter([frame]), step)))
    height, width = frame.shape[:2]
    note = f"Shown here: {_size(width, height, step)}." if step > 1 else ""
    return Copy(data=data, poster=data, note=note)


def size(path: Path) -> tuple[int, int]:
    """Height and width of its frames, upright."""
    height, width = header.told(path).shape[1:3]
    return height, width


def _size(width: int, height: int, step: int) -> str:
    return f"{width // step} by {height // step} pixels of {width} by {height}"


def _smaller(frames: Iterator[np.ndarray], step: int) -> Iterator[np.ndarray]:
    """Means over squares of pixels, with an even number of them each way."""
    for frame in frames:
        high, wide = (max(size // step, 1) for size in frame.shape[:2])
        if step > 1 and min(frame.shape[:2]) >= step:
            parts = frame[: high * step, : wide * step].reshape(high, step, wide, step, 3)
            frame = parts.mean(axis=(1, 3)).round().astype(np.uint8)
        yield np.ascontiguousarray(frame[: high - high % 2 or 1, : wide - wide % 2 or 1])
