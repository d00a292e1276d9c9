"""Random projections of frames: public matrices, the way back, and the covariance that is noised.

The noisy covariance of projected frames, and the directions that it finds: an ablation.

Rows are clipped to a public norm; the covariance of the clipped rows is released as a vector of its
upper triangle, off-diagonal entries times sqrt 2, so that equal noise on every number of the vector
is the symmetric noise that the Frobenius norm asks for.

Public randomness: matrices that everyone may know, from a seed. Never privacy noise.

A projection is drawn independently of the data and counts as known in every proof, so a fast
generator will do; its seed comes from the operating system and stands in the receipt.

Random projections of frames to k numbers and back: Gaussian, and structured orthonormal.

Frames are rows x of d = 3 H W numbers about mid-grey (or raw, as the paper has them). `forward`
gives x R for R of d x k, `backward` gives y R^+, its pseudoinverse.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from masquerade._optional import lazy_module
from masquerade.guarantee import Unit, UnitName
from masquerade.io import devices
from masquerade.io.devices import Array, cast, device_name, is_cpu
from masquerade.mechanism import Shape
from masquerade.vision import transforms
from masquerade.vision.transforms import make_plain_mix, paint_frames

if TYPE_CHECKING:
    from masquerade._torch import torch
else:
    torch = lazy_module("torch", extra="train")


GRID = 2.0**-14
_MIN_COLUMNS = 256  # columns, from which on no entry ever reaches 1


class MatrixRows(Protocol):
    """Some rows of a matrix whose entries are whole multiples of 2^-14."""

    def multiply_values(self, values: Array, middle: float) -> Array:
        """(``values`` - ``middle``) times the rows, exactly, for uint8 values."""

    def whole_floats(self) -> Array:
        """The rows over 2^-14 in float32, exactly: whole numbers."""


def gaussian_rows(seed: int, block: int, shape: tuple[int, int]) -> MatrixRows:
    """Rows with entries N(0, 1/k) rounded to 2^-14; each block of them has a stream of its own."""
    factor = 1 / (GRID * math.sqrt(shape[1]))
    if is_cpu():
        plain = np.random.Generator(np.random.PCG64((seed, block))).standard_normal(shape)
        plain *= factor
        return DoubleRows(np.rint(plain, out=plain))
    is_few = shape[1] < _MIN_COLUMNS or any(size % 8 for size in shape)  # the units want eights
    key = (seed + (block + 1) * 0x9E3779B97F4A7C15) % 2**64
    generator = torch.Generator(device=device_name()).manual_seed(key - 2**63)
    size = shape if is_few else shape[::-1]
    drawn = torch.empty(size, device=device_name(), dtype=torch.float64)
    drawn.normal_(0.0, factor, generator=generator)
    if is_few:
        return DoubleRows(drawn.round_())
    return SplitRows.split_integers(drawn.round_().to(torch.int16))


@dataclass(frozen=True, eq=False)
class DoubleRows:
    """Whole numbers j in float64, for the processor: sums far below 2^53 are exact."""

    whole: Array

    def multiply_values(self, values: Array, middle: float) -> Array:
        """One product."""
        return (cast(values, np.float64) - middle) @ self.whole * GRID

    def whole_floats(self) -> Array:
        """The rows' whole numbers."""
        return cast(self.whole, np.float32)


@dataclass(frozen=True, eq=False)
class SplitRows:
    """Whole numbers j = 128 high + low in two halves of 8 bits, for a GPU's integer units.

    |values - 128| <= 128, |high|, low < 128 and at most 2^16 rows keep every sum below 2^31. They
    are kept with the rows' numbers next to each other, as the units read them.
    """

    high: Array
    low: Array
    floating: Array  # j

    @classmethod
    def split_integers(cls, turned: Array) -> SplitRows:
        """Of int16 numbers (k, rows) below 2^14, that is sqrt(k) deviations."""
        return cls(
            high=(turned >> 7).to(torch.int8),
            low=(turned & 127).to(torch.int8),
            floating=turned.to(torch.float32),
        )

    def multiply_values(self, values: Array, middle: float) -> Array:
        """Two integer products; what 128 differs from the middle is added exactly.

        One more row, of ones, gives the sums that this takes. The units want a multiple of 8 rows,
        and more than 16.
        """
        count = len(values)
        padded = torch.nn.functional.pad(values ^ 128, (0, 0, 0, 32 - count % 32))
        centred = padded.view(torch.int8)  # values - 128
        centred[count] = 1
        whole = torch._int_mm(centred, self.high.T)[: count + 1].double() * 128
        whole += torch._int_mm(centred, self.low.T)[: count + 1]
        return (whole[:count] + (128 - middle) * whole[count]) * GRID

    def whole_floats(self) -> Array:
        """The rows' whole numbers."""
        return self.floating.T


def sample_signs(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Random signs, in 8 bits."""
    count = math.prod(shape)
    drawn = np.random.Generator(np.random.PCG64((seed, 0))).bytes(-(-count // 8))
    made = np.unpackbits(np.frombuffer(drawn, np.uint8), count=count).view(np.int8)
    made *= 2
    made -= 1
    return made.reshape(shape)


def sample_places(seed: int, count: int, among: int) -> np.ndarray:
    """``count`` different places out of ``among``, in order."""
    generator = np.random.Generator(np.random.PCG64((seed, 1)))
    return np.sort(generator.choice(among, count, replace=False, shuffle=False))


_ROWS_PER_BLOCK = 1 << 14  # of R at a time
_EXCESS_FACTOR, _ENCODED_SHARE = (
    4,
    0.3,
)  # what an encoder leaves of a frame that was rebuilt, at least
_MAX_CACHED_NUMBERS = 1 << 24  # numbers of an R that is small enough to be kept by a processor


class Projection(ABC):
    """A public R, drawn from a seed before the first frame is seen."""

    def __init__(self, seed: int, frame: tuple[int, ...], columns: int) -> None:
        self.frame, self.columns, self._seed = frame, columns, seed

    @abstractmethod
    def forward(self, frames: Array, *, middle: float) -> Array:
        """(T, k) in float64, of uint8 frames (T, H, W, 3) less ``middle``."""

    @abstractmethod
    def backward(self, rows: Array) -> Array:
        """(T, H, W, 3) in float32; only noisy rows come here."""

    def expand_rows(self, rows: Array, *, middle: float) -> Array:
        """The same, plus ``middle``, in 8 bits."""
        made = self.backward(rows)
        made += middle
        return devices.to_bytes(made)

    def is_appearance_kept(self, frames: Sequence[np.ndarray], *, middle: float) -> bool | None:
        """Whether far more of each frame than k/d, as of any film, is in directions that R keeps.

        None where k is so large that nobody can tell.
        """
        least = _EXCESS_FACTOR * self.columns / math.prod(self.frame)
        if least > _ENCODED_SHARE:
            return None
        return all(
            np.sum(
                devices.fetch_array(self.forward(devices.send_array(frame[None]), middle=middle))
                ** 2
            )
            >= least * np.sum((frame - middle) ** 2)
            for frame in frames
        )

    def restrict_rows(self, rows: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """(T, k) rows y' with y' R^+ = y V (R V)^+, for V of k x r with orthonormal columns.

        With r = k that is y itself: (R V)^+ = V^T R^+, and V cancels.
        """
        right = directions.T @ self._gram_matrix  # V^T R^T R
        inner = right @ directions
        return np.asarray(rows @ directions @ np.linalg.solve(inner, right))

    @property
    @abstractmethod
    def _gram_matrix(self) -> np.ndarray:
        """R^T R up to a factor, (k, k) in float64."""

    @abstractmethod
    def error_bound(self) -> float:
        """How far rounding can move one number of `forward`."""


def make_projection(
    kind: type[Projection], seed: int, frame: tuple[int, ...], columns: int
) -> Projection:
    """The projection of a seed; the last one is kept, since a video asks for it many times."""
    return _make_cached_projection(kind, seed, frame, columns, devices.device_name())


@lru_cache(maxsize=1)
def _make_cached_projection(
    kind: type[Projection], seed: int, frame: tuple[int, ...], columns: int, where: str
) -> Projection:
    return kind(seed, frame, columns)


class GaussianProjection(Projection):
    """Entries N(0, 1/k) on a grid of 2^-14, so that products with whole numbers are exact.

    A processor holds a small R alone: the rows of a large one are drawn again from the seed when
    they are needed. A GPU has the room and keeps it, as `public.Split` whole numbers.
    """

    def _list_row_blocks(self) -> Iterator[tuple[slice, MatrixRows]]:
        size = math.prod(self.frame)
        most = _ROWS_PER_BLOCK if devices.is_cpu() else 4 * _ROWS_PER_BLOCK
        for block, start in enumerate(range(0, size, most)):
            place = slice(start, min(start + most, size))
            yield place, self._fetch_block(block, (place.stop - start, self.columns))

    def _fetch_block(self, block: int, shape: tuple[int, int]) -> MatrixRows:
        if devices.is_cpu() and math.prod(self.frame) * self.columns > _MAX_CACHED_NUMBERS:
            return gaussian_rows(self._seed, block, shape)
        if block not in self._block_cache:
            self._block_cache[block] = gaussian_rows(self._seed, block, shape)
        return self._block_cache[block]

    @cached_property
    def _block_cache(self) -> dict[int, MatrixRows]:
        return {}

    def forward(self, frames: Array, *, middle: float) -> Array:
        """Exact: whole multiples of 2^-15 far below 2^53 of them."""
        flat = devices.send_array(frames.reshape(len(frames), -1))
        total: Array = 0.0
        for place, rows in self._list_row_blocks():
            total = total + rows.multiply_values(flat[:, place], middle)
        return total

    def backward(self, rows: Array) -> Array:
        """y (R^T R)^-1 R^T, by one small solve; post-processing, so float32 will do."""
        with devices.allow_coarse_products():
            mixed = devices.solve(
                self._cholesky_factor, (devices.cast(rows, np.float32) / GRID).T
            ).T
            out = devices.zeros((len(rows), math.prod(self.frame)), np.float32)
            for place, block in self._list_row_blocks():
                out[:, place] = mixed @ block.whole_floats().T
        return out.reshape(len(rows), *self.frame)

    @cached_property
    def _cholesky_factor(self) -> Array:
        """The Cholesky factor of R^T R, for R over 2^-14."""
        return devices.cholesky(self._integer_gram)

    @property
    def _gram_matrix(self) -> np.ndarray:
        return devices.fetch_array(self._integer_gram).astype(np.float64)

    @cached_property
    def _integer_gram(self) -> Array:
        """R^T R, for R over 2^-14."""
        total: Array = 0.0
        with devices.allow_coarse_products():
            for _, rows in self._list_row_blocks():
                low = rows.whole_floats()
                total = total + low.T @ low
        return total

    def error_bound(self) -> float:
        """None: the sums are exact."""
        return 0.0


class OrthonormalProjection(Projection):
    """Random signs, the cosine transform of each channel, k of its coefficients: R^T R = 1.

    Its operator norm is one and R^+ is R^T, whatever the seed.
    """

    @property
    def _gram_matrix(self) -> np.ndarray:
        return np.eye(self.columns)

    @cached_property
    def _column_signs(self) -> Array:
        return devices.send_array(sample_signs(self._seed, (3, *self.frame[:2])))

    @cached_property
    def _channel_places(self) -> list[tuple[Array, Array, Array, Array]]:
        """For each channel: which of the k numbers, their rows, columns and folded columns."""
        chosen = sample_places(self._seed, self.columns, math.prod(self.frame))
        channel, row, column = np.unravel_index(chosen, (3, *self.frame[:2]))
        mine = [np.flatnonzero(channel == c) for c in range(3)]
        folded = transforms.find_folded_index(column, self.frame[1])
        return [
            (
                devices.send_array(m),
                *(devices.send_array(each[m]) for each in (row, column, folded)),
            )
            for m in mine
        ]

    def forward(self, frames: Array, *, middle: float) -> Array:
        """Signs, then two products a channel; k of the results are kept."""
        height, width = self.frame[:2]
        high = devices.send_constant(transforms.cosine_matrix(height, height))
        even, odd = (devices.send_constant(rows) for rows in transforms.make_half_matrices(width))
        found = devices.zeros((self.columns, len(frames)), np.float64)
        near_signs, far_signs = _split_line_halves(self._column_signs)
        grey_added = devices.cast(near_signs + far_signs, np.float64) * middle
        grey_apart = devices.cast(near_signs - far_signs, np.float64) * middle
        for c, (mine, row, _, folded) in enumerate(self._channel_places):
            near, far = _split_line_halves(
                frames[..., c] * self._column_signs[c]
            )  # whole numbers below 2^9
            added = devices.cast(near + far, np.float64)
            added -= grey_added[c]  # whole and half numbers: exact
            apart = devices.cast(near - far, np.float64)
            apart -= grey_apart[c]
            found[mine] = transforms.plane_forward(added, apart, high, even, odd)[row, :, folded]
        return found.T

    def backward(self, rows: Array) -> Array:
        """The transpose."""
        return devices.stack(self._list_channel_planes(rows))

    def expand_rows(self, rows: Array, *, middle: float) -> Array:
        """The same, plus ``middle``, in 8 bits."""
        return paint_frames(self._list_channel_planes(rows), make_plain_mix(middle))

    def _list_channel_planes(self, rows: Array) -> list[Array]:
        high, wide = (
            devices.send_constant(transforms.cosine_matrix(n, n, np.float32))
            for n in self.frame[:2]
        )
        values = devices.cast(rows, np.float32).T
        back = []
        for c, (mine, row, column, _) in enumerate(self._channel_places):
            bands = devices.zeros((self.frame[0], len(rows), self.frame[1]), np.float32)
            bands[row, :, column] = values[mine]
            with devices.allow_coarse_products():
                planes = transforms.plane_backward(bands, high, wide)
            planes *= self._column_signs[c]
            back.append(planes)
        return back

    def error_bound(self) -> float:
        """Of two products of numbers up to 128; folding lines is exact and shortens their sums."""
        return 128 * transforms.error_bound((1, self.frame[0], self.frame[1]))


def _split_line_halves(planes: Array) -> tuple[Array, Array]:
    """Both halves of every line, from its ends to its middle, which an odd one has in both."""
    half = -(-planes.shape[-1] // 2)
    return planes[..., :half], devices.flip_last_axis(planes[..., planes.shape[-1] - half :])


_UNIT_ROUNDOFF = 2.0**-53


def clip_rows(rows: np.ndarray, radius: float) -> np.ndarray:
    """Rows scaled down to a norm of at most ``radius``, rounding included."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, radius * (1 - 2.0**-40) / np.maximum(norms, 1e-300)))


def pack_triangle(matrix: np.ndarray) -> np.ndarray:
    """The upper triangle as a vector of the same Euclidean norm."""
    upper = np.triu_indices(len(matrix))
    return np.asarray(matrix[upper] * np.where(upper[0] == upper[1], 1.0, math.sqrt(2)))


def unpack_triangle(vector: np.ndarray, columns: int) -> np.ndarray:
    """The symmetric matrix of such a vector."""
    upper = np.triu_indices(columns)
    matrix = np.zeros((columns, columns))
    matrix[upper] = vector / np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
    return matrix + np.triu(matrix, 1).T


def rows_touched(shape: Shape, unit: Unit) -> tuple[int, float]:
    """How many frames one unit can touch, and the most sites that it has for them together."""
    frames, area = shape[0], shape[1] * shape[2]
    match unit.name:
        case UnitName.VALUE:
            return 1, 1 / 3
        case UnitName.PIXELS:
            sites = min(unit.sites or 1, frames * area)
            return min(sites, frames), sites
        case UnitName.TUBE:
            return frames, min(unit.sites or 1, area) * frames
        case UnitName.FRAME:
            return 1, area
        case _:
            return frames, frames * area


def compute_distance_bounds(shape: Shape, unit: Unit, radius: float) -> tuple[float, float]:
    """Of the clipped rows, and of their covariance, for an R of operator norm one.

    Clipping brings rows no further apart, and none further than two radii. The covariance's
    distances add up over the frames touched. A row that moves by D adds at most min(2 rho D,
    sqrt 2 rho^2): |p p^T - q q^T| <= |p - q| (|p| + |q|), and its square is |p|^4 + |q|^4 -
    2 (p q)^2. Set to blank, a row moves by D / 2, and an
    accountant reads replace_one as twice the distance to blank, so min(D, 4 rho) for a row and
    min(2 rho D, 2 sqrt 2 rho^2) for what it adds cover both relations. n sites of one frame move
    its row by D = 255 sqrt(3 n), in which the bound is concave in n: the worst change is spread
    evenly.
    """
    frames, sites = rows_touched(shape, unit)
    moved = 255 * math.sqrt(3 * sites / frames)
    rows = math.sqrt(frames) * min(moved, 4 * radius)
    return rows, frames * min(2 * radius * moved, 2 * math.sqrt(2) * radius**2)


def compute_unclipped_bound(shape: Shape, frames: int, apart: float, stretch: float) -> float:
    """Of the covariance P^T P of rows P = X R, none clipped, for an R that is drawn afterwards.

    A^T A - B^T B = ((A - B)^T (A + B) + (A + B)^T (A - B)) / 2 has a norm of at most |A - B| |A +
    B|, in the ``frames`` rows that differ alone. R stretches X - X', X + X' (values up to 510) and
    all of X by at most ``stretch`` each, but for its tails; the last is for rounding.
    """
    numbers = math.prod(shape[1:])
    both = 510 * math.sqrt(frames * numbers)
    terms = shape[0] + 8
    rounding = terms * _UNIT_ROUNDOFF / (1 - terms * _UNIT_ROUNDOFF) * 255**2 * numbers * shape[0]
    return stretch**2 * (apart * both + 4 * rounding) * (1 + 1e-12)


def right_directions(matrix: np.ndarray, kept: int) -> np.ndarray:
    """(k, kept) right singular vectors of the largest singular values of a square matrix."""
    return np.asarray(np.linalg.eigh(matrix.T @ matrix)[1][:, -kept:])


def clip_error(frames: int, columns: int, radius: float) -> float:
    """How far the rounding of the clip itself can move some rows."""
    return (columns + 8) * _UNIT_ROUNDOFF * radius * math.sqrt(frames)


def error_bound(shape: Shape, columns: int, radius: float) -> float:
    """How far rounding can move the packed covariance."""
    terms = shape[0] + 8
    return terms * _UNIT_ROUNDOFF / (1 - terms * _UNIT_ROUNDOFF) * shape[0] * radius**2 * 2
