r"""Arithmetic of frames on the processor or a GPU: cosine transform, enlarging, 8-bit colour.

Planes of colour to 8-bit frames: the last step of a release, in one pass on a GPU.

The orthonormal cosine transform of a block of video, as matrix products.

Row f of the n-point transform is c_f cos(pi f (2i+1) / 2n). Products are used instead of a fast
transform because only a low band of frequencies is ever wanted, because a GPU multiplies matrices
faster than it transforms, and because the error of a product is known: for any order of summation
|computed - exact| <= gamma_n sum |a_i||x_i| with gamma_n = n u / (1 - n u), u = 2^-53
[higham2002, Sec. 3.1].

Bring small pictures to full size: each place mixes a few cells near it.

The mixing matrix of an axis is a narrow band. It is kept in pieces, so that enlarging is a few
small products of matrices and costs little more than writing the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, Literal, TypeAlias

import numpy as np

from masquerade.io import devices
from masquerade.io.devices import Array, empty

_UNIT = 2.0**-53


@lru_cache(maxsize=128)
def cosine_matrix(size: int, kept: int, kind: type[Any] = np.float64) -> np.ndarray:
    """Rows 0 to ``kept`` - 1 of the orthonormal cosine transform of ``size`` points.

    Angles are reduced in whole numbers first, so every entry is right to a few units in the last
    place whatever the size. The array is shared: it cannot be written to.
    """
    turns = np.outer(np.arange(kept), 2 * np.arange(size) + 1) % (4 * size)
    rows: np.ndarray = np.cos(turns * (math.pi / (2 * size))) * math.sqrt(2 / size)
    rows[0] = math.sqrt(1 / size)
    rows = rows.astype(kind, copy=False)
    rows.setflags(write=False)
    return rows


def forward(block: Array, time: Array, high: Array, wide: Array) -> Array:
    """Coefficients (F, G, K) of a block (T, H, W), with the rows of three transforms."""
    frames, height, width = block.shape
    done = (block.reshape(-1, width) @ wide.T).reshape(frames, height, -1)
    return _multiply_middle_axis(time, _multiply_middle_axis(high, done))


def backward(band: Array, time: Array, high: Array, wide: Array) -> Array:
    """The block (T, H, W) of coefficients (F, G, K); the transpose of `forward`."""
    return transform_along_time(transform_along_plane(band, high, wide), time)


def transform_along_plane(band: Array, high: Array, wide: Array) -> Array:
    """The first half of `backward`: pictures (F, H, W) of coefficients (F, G, K)."""
    first, rows, _ = band.shape
    done = (band.reshape(-1, band.shape[2]) @ wide).reshape(first, rows, -1)
    return high.T @ done


def transform_along_time(pictures: Array, time: Array) -> Array:
    """The second half: the block (T, H, W) of pictures (F, H, W)."""
    flat = time.T @ pictures.reshape(len(pictures), -1)
    return flat.reshape(-1, *pictures.shape[1:])


def _multiply_middle_axis(matrix: Array, block: Array) -> Array:
    """Multiply along the middle axis, which comes out first: (A, B, C) to (b, A, C).

    One large product is much faster than many small ones, and the copy is cheap beside it.
    """
    first, middle, last = block.shape
    flat = block.swapaxes(0, 1).reshape(middle, -1)
    return (matrix @ flat).reshape(-1, first, last)


@lru_cache(maxsize=16)
def make_half_matrices(size: int) -> tuple[np.ndarray, np.ndarray]:
    """The left halves of even and of odd rows, for a line whose ends were added or subtracted.

    Even rows are the same from both ends and odd ones change sign, so x_i + x_(n-1-i) and
    x_i - x_(n-1-i) times half a row are what x times a whole row is, at half the cost. The middle
    of an odd line meets itself, so its weight is halved.
    """
    left = cosine_matrix(size, size)[:, : -(-size // 2)].copy()
    if size % 2:
        left[:, -1] /= 2
    for rows in (even_odd := (np.ascontiguousarray(left[0::2]), np.ascontiguousarray(left[1::2]))):
        rows.setflags(write=False)
    return even_odd


def find_folded_index(frequency: np.ndarray, size: int) -> np.ndarray:
    """Where `plane_forward` puts frequencies along the width: even ones first.

    Example:
        >>> find_folded_index(np.arange(5), 5).tolist()
        [0, 3, 1, 4, 2]
    """
    return np.asarray(frequency // 2 + (frequency % 2) * -(-size // 2))


def plane_forward(added: Array, apart: Array, high: Array, even: Array, odd: Array) -> Array:
    """Coefficients (G, T, W) of planes (T, H, W) whose lines were folded; see `make_half_matrices`.

    The axis of height comes out first, and frequencies along the width as `find_folded_index` says.
    """
    frames, height, _ = added.shape
    mixed = empty((height, frames, len(even) + len(odd)), np.float64)
    for line, rows, place in (
        (added, even, slice(len(even))),
        (apart, odd, slice(len(even), None)),
    ):
        done = (line.reshape(frames * height, -1) @ rows.T).reshape(frames, height, -1)
        mixed[:, :, place] = done.swapaxes(0, 1)
    return (high @ mixed.reshape(height, -1)).reshape(-1, frames, mixed.shape[2])


def plane_backward(bands: Array, high: Array, wide: Array) -> Array:
    """Planes (T, H, W) of coefficients (G, T, K), whose order is the plain one."""
    rows, frames, _ = bands.shape
    done = (bands.reshape(-1, bands.shape[2]) @ wide).reshape(rows, frames, -1)
    return _multiply_middle_axis(high.T, done.swapaxes(0, 1)).swapaxes(0, 1)


def error_bound(size: tuple[int, int, int]) -> float:
    """A bound on |computed - exact| of one coefficient, for a block of numbers up to 1.

    Each of the three products and the rounding of its input add gamma_n; the absolute row sums
    are at most sqrt(n) each, so sum |phi_f(i)| <= sqrt(T H W). The errors of the matrices' own
    entries add up to at most 4 u sqrt(n) in a row (a test measures it), which is counted here too.
    """
    terms = sum(size) + 32
    gamma = terms * _UNIT / (1 - terms * _UNIT)
    return gamma * math.sqrt(math.prod(size)) * (1 + 1e-9)


Mix: TypeAlias = tuple[tuple[float, float, float, float], ...]


def make_plain_mix(middle: float) -> Mix:
    """The mix of planes that are red, green and blue already, about a middle."""
    return (1.0, 0.0, 0.0, middle), (0.0, 1.0, 0.0, middle), (0.0, 0.0, 1.0, middle)


def paint_frames(planes: list[Array], mix: Mix) -> Array:
    """Frames (T, H, W, 3) in 8 bits, rounded and clipped, of three planes (T, H, W) in float32.

    Args:
        planes: that are mixed.
        mix: for red, green and blue the weight of each plane, not all zero, and what is added.

    Example:
        >>> grey = [np.full((1, 1, 1), value, np.float32) for value in (-300, 0, 0.6)]
        >>> paint_frames(grey, make_plain_mix(127.0)).tolist()
        [[[[0, 127, 128]]]]
    """
    if not devices.is_cpu() and planes[0].is_cuda and _import_kernels().is_usable():
        made: Array = _import_kernels().painted(
            planes, devices.send_constant(_make_mix_weights(mix))
        )
        return made
    return devices.to_bytes(mix_planes(planes, mix))


def mix_planes(planes: list[Array], mix: Mix) -> Array:
    """The same before it is rounded and clipped: (T, H, W, 3) in float32."""
    return devices.stack([_mix_channel(planes, row) for row in mix])


def _mix_channel(planes: list[Array], row: tuple[float, ...]) -> Array:
    total: Array = row[3]
    for plane, weight in zip(planes, row, strict=False):
        if weight:
            total = total + (plane if weight == 1 else plane * weight)
    return total


@lru_cache(maxsize=16)
def _make_mix_weights(mix: Mix) -> np.ndarray:
    return np.array(mix, np.float32)


def _import_kernels() -> ModuleType:
    from masquerade.vision import transforms_kernel as frames_kernel

    return frames_kernel


Kernel = Literal["linear", "cubic"]
_CELLS_PER_PIECE = 16  # of a piece


@dataclass(frozen=True, kw_only=True, eq=False)
class AxisPiece:
    """Places ``start`` to ``stop`` of an axis, mixed from cells ``first`` to ``last``."""

    start: int
    stop: int
    first: int
    last: int
    mix: np.ndarray  # (places, cells)


@lru_cache(maxsize=32)
def enlarging_matrix(size: int, step: int, kernel: Kernel) -> np.ndarray:
    """Interpolation from the centres of cells of ``step`` places to ``size`` places, in float32.

    Cubic is Keys's with a = -1/2. Beyond the outermost centres the outermost cell goes on.
    """
    count = math.ceil(size / step)
    place = (np.arange(size) - (step - 1) / 2) / step
    if kernel == "linear":
        place = np.clip(place, 0, count - 1)
    near = np.floor(place).astype(int)
    share = place - near
    mix = np.zeros((size, count))
    for offset in (0, 1) if kernel == "linear" else (-1, 0, 1, 2):
        cell = np.clip(near + offset, 0, count - 1)
        np.add.at(mix, (np.arange(size), cell), _compute_kernel_weight(share - offset, kernel))
    return mix.astype(np.float32)


def _compute_kernel_weight(distance: np.ndarray, kernel: Kernel) -> np.ndarray:
    d = np.abs(distance)
    if kernel == "linear":
        return np.asarray(np.maximum(1 - d, 0.0))
    inner, outer = 1.5 * d**3 - 2.5 * d**2 + 1, -0.5 * d**3 + 2.5 * d**2 - 4 * d + 2
    return np.asarray(np.where(d <= 1, inner, np.where(d < 2, outer, 0.0)))


@lru_cache(maxsize=32)
def make_axis_pieces(
    size: int, step: int, kernel: Kernel, channels: int = 1
) -> tuple[AxisPiece, ...]:
    """The same matrix in pieces; numbers of ``channels`` that stand side by side do not mix."""
    mix, found = enlarging_matrix(size, step, kernel), []
    for start in range(0, size, _CELLS_PER_PIECE * step):
        stop = min(start + _CELLS_PER_PIECE * step, size)
        used = np.nonzero(mix[start:stop].any(axis=0))[0]
        first, last = int(used[0]), int(used[-1]) + 1
        small = np.kron(mix[start:stop, first:last], np.eye(channels, dtype=np.float32))
        found.append(
            AxisPiece(
                start=channels * start,
                stop=channels * stop,
                first=channels * first,
                last=channels * last,
                mix=small,
            )
        )
    return tuple(found)


def enlarge_to_bytes(small: Array, size: tuple[int, int], step: int, kernel: Kernel) -> Array:
    """Pictures (T, h, w, 3) of cells as pictures (T, H, W, 3) of bytes."""
    if devices.is_cpu():
        whole = np.empty((len(small), *size, 3), np.uint8)
        for picture, place in zip(small, whole, strict=True):
            _enlarge_picture(picture, place, step, kernel)
        return whole
    high, wide = (devices.send_constant(enlarging_matrix(n, step, kernel)) for n in size)
    return paint_frames([high @ (small[..., c] @ wide.T) for c in range(3)], make_plain_mix(0.0))


def _enlarge_picture(picture: np.ndarray, whole: np.ndarray, step: int, kernel: Kernel) -> None:
    """One picture into its place, in strips that stay in the processor's cache."""
    rows, columns, channels = picture.shape
    height, width = whole.shape[:2]
    flat = np.ascontiguousarray(picture, np.float32).reshape(rows, columns * channels)
    wide = np.empty((rows, width * channels), np.float32)
    for piece in make_axis_pieces(width, step, kernel, channels):
        wide[:, piece.start : piece.stop] = flat[:, piece.first : piece.last] @ piece.mix.T
    wide += 0.5  # rounded by what is cut off
    lines = whole.reshape(height, width * channels)
    for piece in make_axis_pieces(height, step, kernel):
        strip = piece.mix @ wide[piece.first : piece.last]
        np.clip(strip, 0, 255, out=strip)
        lines[piece.start : piece.stop] = strip
