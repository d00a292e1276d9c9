"""How a film looks, roughly: a guess at whether two files show the same footage.

A look is up to 256 signatures of frames. A signature says of a grey picture of 9 by 8 where it
gets brighter from left to right, and where darker. That outlives another codec, size or quality; a
trim has some of the signatures, a mirrored copy the mirrored ones. Crops, borders and heavy edits
escape it, and one camera on an empty room looks the same on two days.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from masquerade.mechanism import Shape

_ROWS, _COLUMNS = 8, 9
_SIZE = 2 * _ROWS * (_COLUMNS - 1) // 8  # bytes of a signature
_MOST = 256
_STEP = 4.0  # grey levels; what changes by less is flat
_FEWEST = 6  # steps; a picture with fewer says nothing
_SAME = 0.6  # of the steps that either picture has, both have them
_SHARE = 0.5  # of the signatures of one film that are found in the other


class Looker:
    """Makes the look of a film whose frames pass by one at a time."""

    def __init__(self, shape: Shape) -> None:
        self._every, self._seen, self._found = -(-shape[0] // _MOST), 0, bytearray()

    def add(self, frame: np.ndarray) -> None:
        """The next frame; few of a long film are looked at."""
        if self._seen % self._every == 0 and has_look(frame):
            steps = np.diff(_thumbnail(frame), axis=1)
            signs = np.stack([steps > _STEP, steps < -_STEP])
            if signs.sum() >= _FEWEST:
                self._found += np.packbits(signs).tobytes()
        self._seen += 1

    def look(self) -> bytes:
        """Of the frames so far; empty if there is nothing to see."""
        return bytes(self._found)


def has_look(frame: np.ndarray) -> bool:
    """Whether this is a picture: (H, W, 3) uint8, and not tiny."""
    is_picture = frame.ndim == 3 and frame.shape[2] == 3 and frame.dtype == np.uint8
    return is_picture and frame.shape[0] >= _ROWS and frame.shape[1] >= _COLUMNS


def alike(look: bytes, others: list[bytes]) -> list[int]:
    """The places of other looks that share much of one of them with this one."""
    both = (_words(look), _words(_mirrored(look)))
    return [
        place
        for place, other in enumerate(map(_words, others))
        if look and len(other) and max(_shared(each, other) for each in both) >= _SHARE
    ]


def _shared(one: np.ndarray, other: np.ndarray) -> float:
    """The share of signatures that are in the other film as well, of the film that has more."""
    common, either = (
        sum(np.bitwise_count(join(a[:, None], b)) for a, b in zip(one.T, other.T, strict=True))
        for join in (np.bitwise_and, np.bitwise_or)
    )
    same = common >= np.float32(_SAME) * either
    return float(max(same.any(0).mean(), same.any(1).mean()))


def _words(look: bytes) -> np.ndarray:
    """(N, 2) of 64 bits: where each picture gets brighter, and where darker."""
    return np.frombuffer(look, np.uint64).reshape(-1, _SIZE // 8)


def _mirrored(look: bytes) -> bytes:
    """The look of the mirrored film: from right to left, and brighter becomes darker."""
    packed = np.frombuffer(look, np.uint8).reshape(-1, _SIZE)
    signs = np.unpackbits(packed, axis=1).reshape(-1, 2, _ROWS, _COLUMNS - 1)
    return np.packbits(signs[:, ::-1, :, ::-1]).tobytes()


def _thumbnail(frame: np.ndarray) -> np.ndarray:
    """The grey picture of 9 by 8."""
    height, width = frame.shape[:2]
    rows = _means(height, _ROWS) @ frame.reshape(height, -1).astype(np.float32)
    return np.asarray(rows.reshape(_ROWS, width, 3).mean(2) @ _means(width, _COLUMNS).T)


@cache
def _means(size: int, parts: int) -> np.ndarray:
    """(parts, size): the weights that average each of equal parts of an axis."""
    edges, pixels = np.linspace(0, size, parts + 1), np.arange(size)
    covered = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return np.asarray(np.clip(covered, 0, None) * (parts / size), np.float32)
