"""Random projections of frames to k numbers and back: Gaussian, and structured orthonormal.

Frames are rows x of d = 3 H W numbers about mid-grey (or raw, as the paper has them). `forward`
gives x R for R of d x k, `backward` gives y R^+, its pseudoinverse.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache

import numpy as np

from masquerade.compute import cosine, device, public
from masquerade.compute.device import Array
from masquerade.compute.frames import painted, plain

_ROWS = 1 << 14  # of R at a time
_FAR_MORE, _ENCODED = 4, 0.3  # what an encoder leaves of a frame that was rebuilt, at least
_HELD = 1 << 24  # numbers of an R that is small enough to be kept by a processor


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

    def frames(self, rows: Array, *, middle: float) -> Array:
        """The same, plus ``middle``, in 8 bits."""
        made = self.backward(rows)
        made += middle
        return device.to_bytes(made)

    def looks_kept(self, frames: Sequence[np.ndarray], *, middle: float) -> bool | None:
        """Whether far more of each frame than k/d, as of any film, is in directions that R keeps.

        None where k is so large that nobody can tell.
        """
        least = _FAR_MORE * self.columns / math.prod(self.frame)
        if least > _ENCODED:
            return None
        return all(
            np.sum(device.fetch(self.forward(device.send(frame[None]), middle=middle)) ** 2)
            >= least * np.sum((frame - middle) ** 2)
            for frame in frames
        )

    def along(self, rows: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """(T, k) rows y' with y' R^+ = y V (R V)^+, for V of k x r with orthonormal columns.

        With r = k that is y itself: (R V)^+ = V^T R^+, and V cancels.
        """
        right = directions.T @ self._gram  # V^T R^T R
        inner = right @ directions
        return np.asarray(rows @ directions @ np.linalg.solve(inner, right))

    @property
    @abstractmethod
    def _gram(self) -> np.ndarray:
        """R^T R up to a factor, (k, k) in float64."""

    @abstractmethod
    def error_bound(self) -> float:
        """How far rounding can move one number of `forward`."""


def drawn(kind: type[Projection], seed: int, frame: tuple[int, ...], columns: int) -> Projection:
    """The projection of a seed; the last one is kept, since a video asks for it many times."""
    return _kept(kind, seed, frame, columns, device.chosen())


@lru_cache(maxsize=1)
def _kept(
    kind: type[Projection], seed: int, frame: tuple[int, ...], columns: int, where: str
) -> Projection:
    return kind(seed, frame, columns)


class GaussianProjection(Projection):
    """Entries N(0, 1/k) on a grid of 2^-14, so that products with whole numbers are exact.

    A processor holds a small R alone: the rows of a large one are drawn again from the seed when
    they are needed. A GPU has the room and keeps it, as `public.Split` whole numbers.
    """

    def _blocks(self) -> Iterator[tuple[slice, public.MatrixRows]]:
        size = math.prod(self.frame)
        most = _ROWS if device.is_cpu() else 4 * _ROWS
        for block, start in enumerate(range(0, size, most)):
            place = slice(start, min(start + most, size))
            yield place, self._held(block, (place.stop - start, self.columns))

    def _held(self, block: int, shape: tuple[int, int]) -> public.MatrixRows:
        if device.is_cpu() and math.prod(self.frame) * self.columns > _HELD:
            return public.gaussian_rows(self._seed, block, shape)
        if block not in self._kept:
            self._kept[block] = public.gaussian_rows(self._seed, block, shape)
        return self._kept[block]

    @cached_property
    def _kept(self) -> dict[int, public.MatrixRows]:
        return {}

    def forward(self, frames: Array, *, middle: float) -> Array:
        """Exact: whole multiples of 2^-15 far below 2^53 of them."""
        flat = device.send(frames.reshape(len(frames), -1))
        total: Array = 0.0
        for place, rows in self._blocks():
            total = total + rows.times(flat[:, place], middle)
        return total

    def backward(self, rows: Array) -> Array:
        """y (R^T R)^-1 R^T, by one small solve; post-processing, so float32 will do."""
        with device.coarse():
            mixed = device.solve(self._factor, (device.cast(rows, np.float32) / public.GRID).T).T
            out = device.zeros((len(rows), math.prod(self.frame)), np.float32)
            for place, block in self._blocks():
                out[:, place] = mixed @ block.whole_floats().T
        return out.reshape(len(rows), *self.frame)

    @cached_property
    def _factor(self) -> Array:
        """The Cholesky factor of R^T R, for R over 2^-14."""
        return device.cholesky(self._products)

    @property
    def _gram(self) -> np.ndarray:
        return device.fetch(self._products).astype(np.float64)

    @cached_property
    def _products(self) -> Array:
        """R^T R, for R over 2^-14."""
        total: Array = 0.0
        with device.coarse():
            for _, rows in self._blocks():
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
    def _gram(self) -> np.ndarray:
        return np.eye(self.columns)

    @cached_property
    def _signs(self) -> Array:
        return device.send(public.signs(self._seed, (3, *self.frame[:2])))

    @cached_property
    def _places(self) -> list[tuple[Array, Array, Array, Array]]:
        """For each channel: which of the k numbers, their rows, columns and folded columns."""
        chosen = public.choice(self._seed, self.columns, math.prod(self.frame))
        channel, row, column = np.unravel_index(chosen, (3, *self.frame[:2]))
        mine = [np.flatnonzero(channel == c) for c in range(3)]
        folded = cosine.folded_place(column, self.frame[1])
        return [
            (device.send(m), *(device.send(each[m]) for each in (row, column, folded)))
            for m in mine
        ]

    def forward(self, frames: Array, *, middle: float) -> Array:
        """Signs, then two products a channel; k of the results are kept."""
        height, width = self.frame[:2]
        high = device.constant(cosine.matrix(height, height))
        even, odd = (device.constant(rows) for rows in cosine.halves(width))
        found = device.zeros((self.columns, len(frames)), np.float64)
        near_signs, far_signs = _ends(self._signs)
        grey_added = device.cast(near_signs + far_signs, np.float64) * middle
        grey_apart = device.cast(near_signs - far_signs, np.float64) * middle
        for c, (mine, row, _, folded) in enumerate(self._places):
            near, far = _ends(frames[..., c] * self._signs[c])  # whole numbers below 2^9
            added = device.cast(near + far, np.float64)
            added -= grey_added[c]  # whole and half numbers: exact
            apart = device.cast(near - far, np.float64)
            apart -= grey_apart[c]
            found[mine] = cosine.plane_forward(added, apart, high, even, odd)[row, :, folded]
        return found.T

    def backward(self, rows: Array) -> Array:
        """The transpose."""
        return device.stack(self._planes(rows))

    def frames(self, rows: Array, *, middle: float) -> Array:
        """The same, plus ``middle``, in 8 bits."""
        return painted(self._planes(rows), plain(middle))

    def _planes(self, rows: Array) -> list[Array]:
        high, wide = (device.constant(cosine.matrix(n, n, np.float32)) for n in self.frame[:2])
        values = device.cast(rows, np.float32).T
        back = []
        for c, (mine, row, column, _) in enumerate(self._places):
            bands = device.zeros((self.frame[0], len(rows), self.frame[1]), np.float32)
            bands[row, :, column] = values[mine]
            with device.coarse():
                planes = cosine.plane_backward(bands, high, wide)
            planes *= self._signs[c]
            back.append(planes)
        return back

    def error_bound(self) -> float:
        """Of two products of numbers up to 128; folding lines is exact and shortens their sums."""
        return 128 * cosine.error_bound((1, self.frame[0], self.frame[1]))


def _ends(planes: Array) -> tuple[Array, Array]:
    """Both halves of every line, from its ends to its middle, which an odd one has in both."""
    half = -(-planes.shape[-1] // 2)
    return planes[..., :half], device.backwards(planes[..., planes.shape[-1] - half :])
