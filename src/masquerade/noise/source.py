"""Privacy randomness from the operating system: keys, words, and the laws drawn from them.

Bell-shaped noise for heuristics: quick, of the same secret words; nothing is proved of it.

Seeds of a rehearsal of many files; a rehearsal protects nothing.

Noise that is asked for once and drawn anew each time: for work that is captured and replayed.

A captured piece of work reads the same memory at every replay. So it is run once before, and what
it asks for is set aside as memory; captured, it gets that memory again; and `fill` draws into it
from a true stream, before each replay. Nothing else can be had, so no noise is ever captured.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module
from masquerade.noise import cells, gpu
from masquerade.noise.cells import (
    CHUNK,
    EXPONENTIAL,
    EXTRA_BITS,
    HALF_NORMAL,
    Law,
    draw_extra_bits,
    make_keystream,
    sample_cells,
)
from masquerade.noise.grid import MAX_SCALE_CELLS, Scale, find_grid, round_to_grid

if TYPE_CHECKING:
    from masquerade._torch import Tensor

if TYPE_CHECKING:
    from masquerade._torch import Tensor, torch
else:
    torch = lazy_module("torch", extra="train")


_WORDS_PER_BLOCK = 8
_BLOCKS_PER_KEY = 1 << 31
_LIVE: weakref.WeakSet[Noise] = weakref.WeakSet()


class Noise:
    """A stream of privacy noise, from the operating system unless it is a rehearsal.

    Two threads may share one; a forked child starts a stream of its own; it cannot be copied or
    pickled, because a copy would repeat it.

    Args:
        seed: makes a rehearsal: reproducible, promises nothing, and the receipt says so.

    Example:
        >>> noise = Noise()
        >>> draws = noise.sample_gaussian(3.0, 1000)
        >>> bool(np.all(draws % find_grid(3.0) == 0))
        True
        >>> Noise(seed=1).is_rehearsal
        True
    """

    def __init__(self, *, seed: int | None = None) -> None:
        self._seed = seed
        self._generation, self._forked = 0, False
        self._public_seeds: list[int] = []
        self._forget_key()
        _LIVE.add(self)

    @property
    def seed(self) -> int | None:
        """Of a rehearsal."""
        return self._seed

    @property
    def is_rehearsal(self) -> bool:
        """Whether the stream is seeded and so protects nothing."""
        return self._seed is not None

    @property
    def source(self) -> str:
        """The random source, as the receipt names it."""
        if self.is_rehearsal:
            return "rehearsal: ChaCha20 keyed by a seed"
        return "ChaCha20 (RFC 8439) keyed by the operating system"

    def draw_words(self, count: int) -> np.ndarray:
        """``count`` secret 64-bit words, as uint64."""
        return self._read_words(count)[0]

    def sample_gaussian(
        self, sigma: float, shape: int | tuple[int, ...], *, grid: float | None = None
    ) -> np.ndarray:
        """N(0, sigma^2) rounded to ``grid`` (default: `find_grid`), exactly sampled, float64."""
        return self._sample_symmetric(HALF_NORMAL, sigma, shape, grid)

    def sample_gaussian_on(
        self, device: str, sigma: float, shape: int | tuple[int, ...], *, grid: float | None = None
    ) -> Tensor:
        """The very noise of `sample_gaussian`, drawn on a torch device, in cells of the grid.

        Cells are int64, so that they add up with integer sums exactly; times ``grid`` (default:
        `find_grid`) in float64 they are what `sample_gaussian` returns from the same place of the
        stream.

        Args:
            device: "cpu", "cuda", "cuda:1".
            sigma: standard deviation.
            shape: of the result.
            grid: a power of two.
        """
        ratio = sigma / _choose_grid(sigma, grid)
        count = math.prod(_as_shape(shape))
        cells = gpu.sample_gaussian_cells(device, ratio, count, self._split_spans(count))
        return cells.reshape(_as_shape(shape))

    def add_gaussian(self, values: np.ndarray | Tensor, scale: Scale) -> np.ndarray | Tensor:
        """``values`` rounded to the grid of ``scale``, plus its Gaussian noise: what is released.

        It is computed where the values are, and the noise is the same everywhere.

        Raises:
            ValueError: if a value is 2^52 cells or more from zero; the sum would not be exact.

        Example:
            >>> scale = Scale(sigma=2.0, grid=0.5, sensitivity=1)
            >>> found = Noise(seed=1).add_gaussian(np.zeros(3), scale)
            >>> bool(np.array_equal(found, Noise(seed=1).sample_gaussian(2.0, 3, grid=0.5)))
            True
        """
        sigma, grid, shape = scale.sigma, scale.grid, tuple(values.shape)
        if isinstance(values, np.ndarray):
            return np.asarray(
                round_to_grid(values, grid) + self.sample_gaussian(sigma, shape, grid=grid)
            )
        whole = gpu.count_grid_cells(values, grid)  # before the noise, which waits for it
        return gpu.add_on_grid(
            whole, self.sample_gaussian_on(str(values.device), sigma, shape, grid=grid), grid
        )

    def sample_laplace(
        self, scale: float, shape: int | tuple[int, ...], *, grid: float | None = None
    ) -> np.ndarray:
        """Laplace noise of the given scale rounded to ``grid``, exactly sampled, float64."""
        return self._sample_symmetric(EXPONENTIAL, scale, shape, grid)

    def sample_gumbel_argmax(self, scores: np.ndarray, scale: float) -> np.ndarray:
        """Whose score plus Gumbel noise is largest, in each row, exactly sampled, as int64.

        A class wins with probability proportional to exp(score / scale), to the last bit: the
        proof is in `masquerade.noise.cells`.

        Args:
            scores: (Q, K), whole numbers of at most 2^52.
            scale: of the noise.

        Example:
            >>> Noise(seed=1).sample_gumbel_argmax(np.array([[90, 10], [10, 90]]), 2.0).tolist()
            [0, 1]
        """
        _check.positive(scale=scale)
        _check.shape("Q K", scores=scores)
        if not np.issubdtype(scores.dtype, np.integer):
            raise ValueError(f"Expected scores to be whole numbers, got dtype={scores.dtype}.")
        if not 1 <= scores.shape[1] <= cells.MAX_CLASSES:
            raise ValueError(f"Expected 1 to 2^20 classes, got {scores.shape[1]}.")
        most = cells.MAX_SCORE
        if scores.size and not -most <= scores.min() <= scores.max() <= most:
            raise ValueError("Expected scores of at most 2^52; beyond, sums are not exact.")
        won = np.empty(len(scores), dtype=np.int64)
        rows = max(_WORDS_PER_BLOCK, CHUNK // scores.shape[1] & -_WORDS_PER_BLOCK)
        for start in range(0, len(won), rows):
            part = scores[start : start + rows]
            won[start : start + rows] = cells.sample_winners(
                part, scale, *self._read_words(len(part))
            )
        return won

    def sample_uniform(self, shape: int | tuple[int, ...]) -> np.ndarray:
        """Uniform in [0, 1), rounded down to the grid 2^-53."""
        words = self.draw_words(math.prod(_as_shape(shape)))
        return np.asarray((words >> np.uint64(11)) * 2.0**-53).reshape(_as_shape(shape))

    def sample_integers(self, high: int, shape: int | tuple[int, ...]) -> np.ndarray:
        """Exactly uniform whole numbers in [0, ``high``), for ``high`` up to 2^32.

        A word w stands for the reals in [w, w+1) 2^-64; where ``high`` times that interval meets
        two integers, more bits decide.
        """
        _check.count(high=high)
        if high > 1 << 32:
            raise ValueError(f"Expected high to be at most 2^32, got high={high}.")
        words, key, first = self._read_words(math.prod(_as_shape(shape)))
        factor, low_half = np.uint64(high), np.uint64(0xFFFFFFFF)
        bottom = (words & low_half) * factor
        top = (words >> np.uint64(32)) * factor + (bottom >> np.uint64(32))
        drawn = (top >> np.uint64(32)).astype(np.int64)
        rest = (top << np.uint64(32)) | (bottom & low_half)  # (w * high) mod 2^64
        for i in np.flatnonzero(rest > np.uint64((1 << 64) - high)):
            word, bits = int(words[i]), 64
            while word * high >> bits != ((word + 1) * high - 1) >> bits:
                word = word << EXTRA_BITS | draw_extra_bits(
                    key, first + int(i), (bits - 64) // EXTRA_BITS
                )
                bits += EXTRA_BITS
            drawn[i] = word * high >> bits
        return drawn.reshape(_as_shape(shape))

    def sample_poisson_batch(self, sampling_prob: float, count: int) -> np.ndarray:
        """Who of ``count`` records is in a secret Poisson batch, as a boolean mask.

        A record is in iff its word is below floor(q 2^64), computed from the very double q that
        is accounted: the true probability is never above q.
        """
        _check.probability(sampling_prob=sampling_prob)
        threshold = math.floor(Fraction(sampling_prob) * (1 << 64))
        if threshold >= 1 << 64:
            return np.ones(count, dtype=bool)
        return self.draw_words(count) < np.uint64(threshold)

    def draw_public_seed(self) -> int:
        """A seed for *public* randomness, such as a projection; the receipt names it.

        It comes from the operating system like everything here, and tells nothing about the rest
        of the stream.
        """
        seed = int(self.draw_words(1)[0])
        self._public_seeds.append(seed)
        return seed

    def take_public_seeds(self) -> tuple[int, ...]:
        """The public seeds since the last call, for a receipt."""
        taken, self._public_seeds = tuple(self._public_seeds), []
        return taken

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "Noise cannot be copied or pickled: the copy would repeat its stream. "
            "Make a new Noise() in each process."
        )

    def _sample_symmetric(
        self, law: Law, scale: float, shape: int | tuple[int, ...], grid: float | None
    ) -> np.ndarray:
        grid = _choose_grid(scale, grid)
        ratio = scale / grid
        out = np.empty(math.prod(_as_shape(shape)), dtype=np.float64)
        for start in range(0, out.size, CHUNK):
            part = out[start : start + CHUNK]
            words, key, first = self._read_words(part.size)
            part[:] = sample_cells(law, ratio, words, key, first)
        out *= grid
        return out.reshape(_as_shape(shape))

    def _read_words(self, count: int) -> tuple[np.ndarray, bytes, int]:
        """``count`` words, the key they come from and the index of the first one under it."""
        if isinstance(count, bool) or count < 0:
            raise ValueError(f"Expected count to be >= 0, got count={count}.")
        blocks = _count_blocks(count)
        if blocks > _BLOCKS_PER_KEY:
            raise ValueError(f"Expected at most 2^34 words in one call, got count={count}.")
        with self._lock:
            key, block = self._reserve_key(blocks), self._used
            self._used += blocks
        stream = make_keystream(key, lane=bytes(12), block=block, num_bytes=8 * count)
        return np.frombuffer(stream, dtype="<u8").astype(np.uint64, copy=False), key, 8 * block

    def _split_spans(self, count: int) -> Iterator[gpu.Span]:
        """The words that `_sample_symmetric` would read, for a device to make.

        A key is replaced where `_sample_symmetric`, which reads chunk by chunk, would replace it.
        """
        while count > 0:
            with self._lock:
                key = self._reserve_key(_count_blocks(min(count, CHUNK)))
                room = _BLOCKS_PER_KEY - self._used
                fitting = (
                    count if _count_blocks(count) <= room else room // _count_blocks(CHUNK) * CHUNK
                )
                span = gpu.Span(min(fitting, gpu.MAX_SPAN), key, self._used)
                self._used += _count_blocks(span.numbers)
            count -= span.numbers
            yield span

    def _reserve_key(self, blocks: int) -> bytes:
        """The key, new if it was another process's or has fewer blocks left; under the lock."""
        if self._pid != os.getpid() or self._used + blocks > _BLOCKS_PER_KEY:
            self._renew_key()
        return self._key

    def _renew_key(self) -> None:
        self._pid, self._used = os.getpid(), 0
        self._generation += 1
        if self._seed is None:
            self._key = _read_entropy()
        else:  # a forked rehearsal must not repeat its parent either
            name = f"{self._seed}/{self._generation}/{self._forked and os.getpid()}"
            self._key = hashlib.sha256(f"masquerade rehearsal {name}".encode()).digest()

    def _forget_key(self, *, forked: bool = False) -> None:
        self._lock = threading.Lock()
        self._key, self._pid, self._used = b"", -1, 0
        self._forked = forked


def _forget_all() -> None:
    for noise in list(_LIVE):
        noise._forget_key(forked=True)


os.register_at_fork(after_in_child=_forget_all)


def _read_entropy() -> bytes:
    return os.urandom(32)


def _count_blocks(words: int) -> int:
    return -(-words // _WORDS_PER_BLOCK)


def _choose_grid(scale: float, grid: float | None) -> float:
    _check.positive(scale=scale)
    grid = find_grid(scale) if grid is None else grid
    if math.frexp(grid)[0] != 0.5 or not scale / grid < MAX_SCALE_CELLS:
        raise ValueError(
            f"Expected grid to be a power of two above scale 2^-30, got grid={grid} for "
            f"scale={scale}."
        )
    return grid


def _as_shape(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else shape


STEPS_PER_STD = 4096  # what a standard deviation is in `sample_rough_steps`
_NUM_LEVELS = 1 << 16


def sample_rough_gaussian(shape: tuple[int, ...], noise: Noise) -> np.ndarray:
    """Float32 numbers of mean 0 and variance 1, one of 65,536 levels each, up to 4.3.

    No guarantee may rest on it: `Noise.sample_gaussian` is for that.
    """
    return _sample_levels(_compute_levels(), shape, noise)


def sample_rough_steps(shape: tuple[int, ...], noise: Noise, *, power: float = 1.0) -> np.ndarray:
    """The same times ``STEPS_PER_STD`` in whole numbers, int16; ``power`` is the variance, up to
    1."""
    return _sample_levels(_compute_steps(power), shape, noise)


def _sample_levels(levels: np.ndarray, shape: tuple[int, ...], noise: Noise) -> np.ndarray:
    """A level for each number, some at a time: what is worked on fits the cache."""
    out = np.empty(math.prod(shape), levels.dtype)
    for start in range(0, out.size, 4 * CHUNK):
        part = out[start : start + 4 * CHUNK]
        picked = noise.draw_words(-(-part.size // 4)).view(np.uint16)[: part.size]
        np.take(levels, picked, out=part, mode="clip")  # none is clipped; "raise" would copy
    return out.reshape(shape)


@lru_cache(maxsize=1)
def _compute_levels() -> np.ndarray:
    """Quantiles of the bell at the middles of equal shares, stretched to variance 1."""
    from scipy.special import ndtri  # scipy is not loaded until noise is asked for

    middles = ndtri((np.arange(_NUM_LEVELS) + 0.5) / _NUM_LEVELS)
    made = (middles / math.sqrt(float(np.mean(middles**2)))).astype(np.float32)
    made.setflags(write=False)
    return made


@lru_cache(maxsize=8)
def _compute_steps(power: float) -> np.ndarray:
    made = np.rint(_compute_levels() * (STEPS_PER_STD * math.sqrt(power))).astype(np.int16)
    made.setflags(write=False)
    return made


_SEED_STRIDE = 1_000_003  # between two folders' seeds: more than a folder has files


def make_file_seed(seed: int, place: int) -> int:
    """The seed of one file of a folder that is rehearsed.

    Args:
        seed: of the whole rehearsal.
        place: of the file, in the order of private names.

    Example:
        >>> make_file_seed(0, 3), make_file_seed(2, 0)
        (3, 2000006)
    """
    return seed * _SEED_STRIDE + place


Order: TypeAlias = tuple[str, float, tuple[int, ...], float | None]  # device, sigma, shape, grid


@dataclass(frozen=True, eq=False)
class NoiseSlot:
    """Memory for the cells of some Gaussian noise that was asked for."""

    order: Order
    cells: Tensor


class PresampledNoise(Noise):
    """Stands for a `Noise` while work is tried and captured; its numbers mean nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._slots: list[NoiseSlot] = []
        self._next: int | None = None  # none: slots are still being set aside

    def sample_gaussian_on(
        self, device: str, sigma: float, shape: int | tuple[int, ...], *, grid: float | None = None
    ) -> Tensor:
        """Memory for the cells: new at first, after `rewind_slots` what it was before."""
        size = (shape,) if isinstance(shape, int) else shape
        order = (device, sigma, size, grid)
        if self._next is None:
            zeros = torch.zeros(math.prod(size), dtype=torch.int64, device=device)
            self._slots.append(NoiseSlot(order, zeros.reshape(size)))
            return self._slots[-1].cells
        if self._next >= len(self._slots) or self._slots[self._next].order != order:
            raise RuntimeError("Expected the same noise to be asked for each time.")
        self._next += 1
        return self._slots[self._next - 1].cells

    def rewind_slots(self) -> None:
        """From now on hand out what was set aside, from the first on."""
        self._next = 0

    def fill_slots(self, noise: Noise) -> None:
        """Draw all that was asked for, in that order, as the work itself would."""
        for slot in self._slots:
            device, sigma, shape, grid = slot.order
            slot.cells.copy_(noise.sample_gaussian_on(device, sigma, shape, grid=grid))

    def _reserve_key(self, blocks: int) -> NoReturn:
        """No bits of its own, for anybody."""
        raise RuntimeError("Expected noise of a device only; no other can be drawn anew here.")
