"""Read frames: as a stream, or any stretch of them by number."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from masquerade.errors import BadInput
from masquerade.video import colour, source


def frames(path: Path, *, threads: int = 0) -> Iterator[np.ndarray]:
    """Yield every frame as an upright (H, W, 3) uint8 RGB array.

    Memory holds one frame and what the codec keeps. Rotation is baked into the pixels; colour
    matrix and range are honoured (untagged: BT.709 from 720 lines on, BT.601 below); grey becomes
    RGB, more than 8 bits become 8, alpha is dropped; fields stay interlaced and the sample aspect
    ratio stays a tag.

    Args:
        path: a file of one of ``SUFFIXES``; its content decides, not its name.
        threads: of the decoder; 0 lets it choose.

    Raises:
        BadInput: if the file is missing, truncated, damaged, empty, or changes its size.
    """
    with source.opened(path) as (container, stream):
        to_rgb = colour.ToRgb()
        for frame in source.decoded(container, stream, threads=threads):
            yield to_rgb(frame)


def segment(path: Path, start: int, stop: int) -> np.ndarray:
    """Frames ``start`` to ``stop`` (not included) as a (T, H, W, 3) array."""
    if not 0 <= start < stop:
        raise ValueError(f"Expected 0 <= start < stop, got start={start}, stop={stop}.")
    stream = frames(path)
    found = list(islice(stream, start, stop))
    stream.close()  # type: ignore[attr-defined]
    if len(found) < stop - start:
        raise BadInput(
            f"Expected frames {start} to {stop} in {path}, got {start + len(found)} at most; "
            "ask for fewer."
        )
    return np.stack(found)
