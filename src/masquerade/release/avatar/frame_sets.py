"""Sets of frames that a network of short films sees in turn, so that a film can have any length.

After [schneider2024, Sec. 3]: sets at several strides overlap, and what the network says of a frame
in each of them is averaged. Near frames keep movement smooth; far ones keep a figure who they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from masquerade import _check

STRIDES = (1, 2, 4)


def frame_sets(count: int, *, length: int, strides: Sequence[int] = STRIDES) -> list[np.ndarray]:
    """Numbers of frames, a set at a time: each frame is in one set of each stride, at least.

    A stride is used only while half of it does not see the whole film at once.

    Args:
        count: frames of the film.
        length: frames that the network sees at a time, at most.
        strides: between the frames of a set; the first is 1.

    Example:
        >>> [each.tolist() for each in frame_sets(5, length=4, strides=(1, 2))]
        [[0, 1, 2, 3], [1, 2, 3, 4], [0, 2, 4], [1, 3]]
    """
    _check.count(count=count, length=length)
    if not strides or strides[0] != 1:
        raise ValueError(f"Expected strides that begin with 1, got strides={tuple(strides)}.")
    found = []
    for stride in strides:
        if stride > 1 and count <= length * stride // 2:
            continue
        for first in range(stride):
            line = np.arange(first, count, stride)
            last = max(0, len(line) - length)
            starts = [*range(0, last, max(1, length // 2)), last]
            found += [line[start : start + length] for start in starts if len(line)]
    return found


def shares(sets: Sequence[np.ndarray], count: int) -> list[np.ndarray]:
    """How much each set says of each of its frames; over all sets that is 1 for every frame.

    A frame in the middle of a set has more around it than one at its ends, and counts for more.
    """
    raw = [np.minimum(np.arange(len(one)), np.arange(len(one))[::-1]) + 1.0 for one in sets]
    total = np.zeros(count)
    for one, weight in zip(sets, raw, strict=True):
        total[one] += weight
    if not total.all():
        raise ValueError("Expected sets that hold every frame, got a frame that is in none.")
    return [weight / total[one] for one, weight in zip(sets, raw, strict=True)]


def averaged(said: Iterable[np.ndarray], sets: Sequence[np.ndarray], count: int) -> np.ndarray:
    """(T, ...) float32: the mean of what was said of each frame.

    Args:
        said: (frames of the set, ...) for each set; taken one at a time.
        sets: as `frame_sets` gives them.
        count: frames of the film.
    """
    total: np.ndarray | None = None
    for one, share, values in zip(sets, shares(sets, count), said, strict=True):
        if total is None:
            total = np.zeros((count, *values.shape[1:]))
        total[one] += values * share.reshape(-1, *[1] * (values.ndim - 1))
    assert total is not None  # a film has a frame
    return total.astype(np.float32)
