"""How a ledger knows a recording: by one fingerprint, whatever file or data set it comes from.

The fingerprint is of the decoded numbers: whole ones from 0 to 255, such as pixels, as bytes, all
others rounded to little-endian float32. Axes of length 1 do not count, so that a photo is a film of
one frame and a column a list; what such a recording costs is that of the form with the fewest
frames (`is_one_frame`). Two recordings that differ by less are charged as one.

How a film looks, roughly: a guess at whether two files show the same footage.

A look is up to 256 signatures of frames. A signature says of a grey picture of 9 by 8 where it
gets brighter from left to right, and where darker. That outlives another codec, size or quality; a
trim has some of the signatures, a mirrored copy the mirrored ones. Crops, borders and heavy edits
escape it, and one camera on an empty room looks the same on two days.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from masquerade.mechanism import Shape, Shapes, Value, arrays_of, shapes_of

_PICTURE_ROWS, _PICTURE_COLUMNS = 8, 9
_SIGNATURE_BYTES = 2 * _PICTURE_ROWS * (_PICTURE_COLUMNS - 1) // 8  # bytes of a signature
_MAX_PICTURES = 256
_MIN_STEP = 4.0  # grey levels; what changes by less is flat
_MIN_STEPS = 6  # steps; a picture with fewer says nothing
_MIN_SAME_STEPS = 0.6  # of the steps that either picture has, both have them
_MIN_SHARED = 0.5  # of the signatures of one film that are found in the other


class FootageHasher:
    """Makes the look of a film whose frames pass by one at a time."""

    def __init__(self, shape: Shape) -> None:
        self._every, self._seen, self._found = -(-shape[0] // _MAX_PICTURES), 0, bytearray()

    def add_frame(self, frame: np.ndarray) -> None:
        """The next frame; few of a long film are looked at."""
        if self._seen % self._every == 0 and has_footage_hash(frame):
            steps = np.diff(_make_thumbnail(frame), axis=1)
            signs = np.stack([steps > _MIN_STEP, steps < -_MIN_STEP])
            if signs.sum() >= _MIN_STEPS:
                self._found += np.packbits(signs).tobytes()
        self._seen += 1

    def compute_footage_hash(self) -> bytes:
        """Of the frames so far; empty if there is nothing to see."""
        return bytes(self._found)


def has_footage_hash(frame: np.ndarray) -> bool:
    """Whether this is a picture: (H, W, 3) uint8, and not tiny."""
    is_picture = frame.ndim == 3 and frame.shape[2] == 3 and frame.dtype == np.uint8
    return is_picture and frame.shape[0] >= _PICTURE_ROWS and frame.shape[1] >= _PICTURE_COLUMNS


def find_alike(look: bytes, others: list[bytes]) -> list[int]:
    """The places of other looks that share much of one of them with this one."""
    both = (_unpack_words(look), _unpack_words(_mirror_footage_hash(look)))
    return [
        place
        for place, other in enumerate(map(_unpack_words, others))
        if look
        and len(other)
        and max(_compute_overlap(each, other) for each in both) >= _MIN_SHARED
    ]


def _compute_overlap(one: np.ndarray, other: np.ndarray) -> float:
    """The share of signatures that are in the other film as well, of the film that has more."""
    common, either = (
        sum(np.bitwise_count(join(a[:, None], b)) for a, b in zip(one.T, other.T, strict=True))
        for join in (np.bitwise_and, np.bitwise_or)
    )
    same = common >= np.float32(_MIN_SAME_STEPS) * either
    return float(max(same.any(0).mean(), same.any(1).mean()))


def _unpack_words(look: bytes) -> np.ndarray:
    """(N, 2) of 64 bits: where each picture gets brighter, and where darker."""
    return np.frombuffer(look, np.uint64).reshape(-1, _SIGNATURE_BYTES // 8)


def _mirror_footage_hash(look: bytes) -> bytes:
    """The look of the mirrored film: from right to left, and brighter becomes darker."""
    packed = np.frombuffer(look, np.uint8).reshape(-1, _SIGNATURE_BYTES)
    signs = np.unpackbits(packed, axis=1).reshape(-1, 2, _PICTURE_ROWS, _PICTURE_COLUMNS - 1)
    return np.packbits(signs[:, ::-1, :, ::-1]).tobytes()


def _make_thumbnail(frame: np.ndarray) -> np.ndarray:
    """The grey picture of 9 by 8."""
    height, width = frame.shape[:2]
    rows = _make_mean_weights(height, _PICTURE_ROWS) @ frame.reshape(height, -1).astype(np.float32)
    return np.asarray(
        rows.reshape(_PICTURE_ROWS, width, 3).mean(2)
        @ _make_mean_weights(width, _PICTURE_COLUMNS).T
    )


@cache
def _make_mean_weights(size: int, parts: int) -> np.ndarray:
    """(parts, size): the weights that average each of equal parts of an axis."""
    edges, pixels = np.linspace(0, size, parts + 1), np.arange(size)
    covered = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return np.asarray(np.clip(covered, 0, None) * (parts / size), np.float32)


_PIXEL_TYPE, _NUMBER_TYPE = "u1", "<f4"


@dataclass(frozen=True, kw_only=True)
class Content:
    """What a ledger needs to know of a recording: its shape, and a hash that never leaves it.

    Args:
        shapes: of the arrays; a picture is a film of one frame.
        fingerprint: the hash.
        former: those by which earlier versions may know it.
        look: of a film or picture (see `ledger.looks`); it stays in the ledger, too.
    """

    shapes: Shapes
    fingerprint: bytes
    former: tuple[bytes, ...] = field(default=(), compare=False, repr=False)
    look: bytes = field(default=b"", compare=False, repr=False)

    @classmethod
    def from_value(cls, value: Value | Content) -> Content:
        """Of a value in memory; of a content, itself."""
        if isinstance(value, Content):
            return value
        arrays, shapes = [_canonicalize(array) for array in arrays_of(value)], shapes_of(value)
        if len(arrays) == 1 and _is_film(arrays[0]):
            film = arrays[0] if arrays[0].ndim == 4 else arrays[0][None]
            return cls.from_frames(film.shape, film)
        return cls(
            shapes=shapes,
            fingerprint=_hash_arrays(arrays),
            former=_list_former_hashes(value, arrays),
        )

    @property
    def is_one_frame(self) -> bool:
        """Whether all of it is one index of the first axis, such as a picture's one frame."""
        return len(self.shapes) == 1 and len(self.shapes[0]) > 1 and self.shapes[0][0] == 1

    @classmethod
    def from_frames(cls, shape: Shape, frames: Iterable[np.ndarray]) -> Content:
        """Of a video that comes frame by frame; equal to that of the same frames in memory."""
        watcher = ContentHasher(shape)
        for frame in frames:
            watcher.add_video_frame(frame)
        return watcher.make_content()


class ContentHasher:
    """Makes the `Content` of a video whose frames pass by one at a time: (H, W, 3) uint8."""

    def __init__(self, shape: Shape) -> None:
        self._shape, self._digest = shape, hashlib.sha256(_format_heading(shape, _PIXEL_TYPE))
        known = [shape, shape[1:]] if shape[0] == 1 else [shape]
        self._former = [hashlib.sha256(repr(each).encode()) for each in known]
        self._looker = FootageHasher(shape)

    def add_video_frame(self, frame: np.ndarray) -> None:
        """The next frame."""
        self._digest.update(np.ascontiguousarray(frame).tobytes())
        wide = np.ascontiguousarray(frame, dtype="<f8").tobytes()
        for digest in self._former:
            digest.update(wide)
        self._looker.add_frame(frame)

    def make_content(self) -> Content:
        """Of the frames so far."""
        return Content(
            shapes=(self._shape,),
            fingerprint=self._digest.digest(),
            former=tuple(digest.digest() for digest in self._former),
            look=self._looker.compute_footage_hash(),
        )


def _is_film(array: np.ndarray) -> bool:
    """Whether these are frames, or one picture."""
    return array.dtype == np.uint8 and array.ndim in (3, 4) and array.shape[-1] == 3


def _canonicalize(array: np.ndarray) -> np.ndarray:
    """The same numbers as bytes if they are pixels', else as float32; one zero, one NaN."""
    if array.dtype == np.uint8:
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.asarray(array.astype(_NUMBER_TYPE) + np.float32(0))
        as_pixels = rounded.astype(np.uint8)
    if np.array_equal(as_pixels, rounded):
        return as_pixels
    rounded[np.isnan(rounded)] = np.nan
    return rounded


def _format_heading(shape: Shape, kind: str) -> bytes:
    return repr((*(int(size) for size in shape if size != 1), kind)).encode()


def _hash_arrays(arrays: Sequence[np.ndarray]) -> bytes:
    found = hashlib.sha256()
    for array in arrays:
        kind = _PIXEL_TYPE if array.dtype == np.uint8 else _NUMBER_TYPE
        found.update(_format_heading(array.shape, kind))
        found.update(np.ascontiguousarray(array, dtype=kind).tobytes())
    return found.digest()


def _list_former_hashes(value: Value, rounded: Sequence[np.ndarray]) -> tuple[bytes, ...]:
    """As earlier versions did: every number in float64, rounded or not, and axes of length 1 count.

    Args:
        value: as it is now.
        rounded: its arrays as a data set has them.
    """
    found: list[bytes] = []
    for arrays in (arrays_of(value), rounded):
        bare = arrays[0].squeeze().shape
        shapes = [arrays[0].shape, bare, (1, *bare), (*bare, 1)][: 4 if len(bare) == 1 else 3]
        several = [arrays]
        if len(arrays) == 1:
            several = [[arrays[0].reshape(shape)] for shape in dict.fromkeys(shapes)]
        found += map(_hash_arrays_before, several)
    return tuple(dict.fromkeys(found))


def _hash_arrays_before(arrays: Sequence[np.ndarray]) -> bytes:
    found = hashlib.sha256()
    for array in arrays:
        found.update(repr(array.shape).encode())
        found.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return found.digest()
