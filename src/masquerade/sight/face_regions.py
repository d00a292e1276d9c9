"""Where to look for faces that are nearly known: parts of a picture around boxes.

A convolutional network answers the same for a part as for the whole picture, but for what it sees
around a face; three face widths and a rim are enough. Parts start and end on the network's grid, so
that its cells lie where they lie in the whole.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from masquerade.sight.face_boxes import centres

Region: TypeAlias = tuple[int, int, int, int]  # left, top, right, bottom

_WIDTHS = 3.0  # of a face, that a part is wide and high,
_RIM = 96  # and so many pixels on each side


def regions(boxes: np.ndarray, *, size: tuple[int, int], step: int) -> list[Region]:
    """Parts of a picture of ``size`` (height, width) that hold the boxes (N, 4); none overlap.

    Example:
        >>> regions(np.array([[100, 100, 120, 120]]), size=(640, 960), step=32)
        [(0, 0, 256, 256)]
    """
    tall, wide = size
    reach = np.max(boxes[:, 2:] - boxes[:, :2], axis=1, initial=0.0)[:, None] * _WIDTHS / 2 + _RIM
    low = np.floor((centres(boxes) - reach) / step) * step
    high = np.ceil((centres(boxes) + reach) / step) * step
    corners = np.hstack([np.maximum(low, 0), np.minimum(high, (wide, tall))]).astype(int)
    apart: list[Region] = []
    for left, top, right, bottom in corners.tolist():
        if left < right and top < bottom:
            apart = _joined(apart, (left, top, right, bottom))
    return apart


def num_pixels(parts: list[Region]) -> int:
    """What the parts hold together."""
    return sum((right - left) * (bottom - top) for left, top, right, bottom in parts)


def _joined(apart: list[Region], new: Region) -> list[Region]:
    """The parts with one more, which takes in all that it touches."""
    for part in apart:
        if max(part[0], new[0]) < min(part[2], new[2]) and max(part[1], new[1]) < min(
            part[3], new[3]
        ):
            rest = [other for other in apart if other is not part]
            low = min(part[0], new[0]), min(part[1], new[1])
            return _joined(rest, (*low, max(part[2], new[2]), max(part[3], new[3])))
    return [*apart, new]
