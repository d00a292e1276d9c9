"""Block means with Gaussian noise: the simple sound release of a video."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from masquerade import _check
from masquerade.account import sensitivity
from masquerade.compute import cosine
from masquerade.compute.device import (
    Array,
    batch_frames,
    cast,
    coarse,
    constant,
    gather,
    send,
    stack,
    to_bytes,
    zeros,
)
from masquerade.guarantee import Unit, UnitName
from masquerade.mechanism import Shape, Shapes, as_video
from masquerade.noise import Noise
from masquerade.release import precision, wiener
from masquerade.release import visible as sight
from masquerade.release.gaussian_video import Chunk, GaussianVideo, take

_FRAMES = 256  # a chunk holds about this many
_MOST_BLOCKS = 1 << 24  # of a chunk, so that large frames fit into memory
_BASIS = np.array([[1, 1, 1], [1, 0, -1], [1, -2, 1]], np.float32) / np.sqrt(
    np.array([[3], [2], [6]], np.float32)
)


@dataclass(frozen=True, kw_only=True)
class PooledGaussian(GaussianVideo):
    """Sum blocks of pixels and frames, add Gaussian noise, shrink, interpolate.

    Easy to explain and to check: every sum is a whole number. Blocks that reach over the border
    count mid-grey there and are divided by their nominal volume.

    Guarantee:
        unit: as chosen: value, pixels, tube, frame, video, record or subject.
        relation: replace_one.
        bound: whole blocks and one rest, 255 sqrt(3 (floor(m/V) + ((m mod V)/V)^2)) for m sites
            (`masquerade.account.sensitivity.of_block_means`); analytic Gaussian
            [balle2018, Thm 8].
        numerics: integer sums; exact grid Gaussian, ChaCha20.

    Args:
        epsilon: target of the guarantee.
        delta: target of the guarantee.
        unit: what one change may touch: value, pixels, tube, frame, video, record, subject.
        pixels: m, for the units pixels and tube.
        block: side of a block in pixels; by default what the unit calls for.
        length: frames of a block; by default what the unit calls for.
    """

    block: int | None = None
    length: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, size in (("block", self.block), ("length", self.length)):
            if size is not None:
                _check.count(**{name: size})
        _check.at_most(65535, block=self.block)
        _check.at_most(2**31, length=self.length)

    @property
    def released(self) -> str:
        """What leaves the house."""
        return "means over blocks of the video with noise, and frames rebuilt from them"

    def blocks(self, shape: Shape) -> tuple[int, int]:
        """Side and length of a block, from shape, unit and budget alone."""
        block, length = _usual(self.as_unit(), shape[0])
        return self.block or block, min(self.length or length, shape[0])

    def chunks(self, shape: Shape) -> list[Chunk]:
        """Whole blocks of about 256 frames, fewer where they would be too many for memory."""
        step = self._step(shape)
        return [Chunk(t, min(step, shape[0] - t), shape) for t in range(0, shape[0], step)]

    def _step(self, shape: Shape) -> int:
        block, length = self.blocks(shape)
        layer = math.ceil(shape[1] / block) * math.ceil(shape[2] / block)
        return length * max(1, min(_FRAMES // length, _MOST_BLOCKS // layer))

    def distance(self, shape: Shape, unit: Unit) -> float:
        """Of the sums of 2 x - 255 over blocks: whole numbers, so there is nothing to round."""
        block, length = self.blocks(shape)
        means = sensitivity.of_block_means(unit, shape, block=block, length=length)
        return 2 * block**2 * length * means * (1 + 1e-12)

    def coordinates(self, shape: Shape, unit: Unit) -> int:
        """Three sums for every block that one unit can touch."""
        block, length = self.blocks(shape)
        area = math.ceil(shape[1] / block) * math.ceil(shape[2] / block)
        layers, sites = math.ceil(shape[0] / length), unit.sites or 1
        match unit.name:
            case UnitName.VALUE:
                return 1
            case UnitName.PIXELS:
                return 3 * min(sites, area * layers)
            case UnitName.TUBE:
                return 3 * min(sites, area) * layers
            case UnitName.FRAME:
                return 3 * area
            case _:
                return 3 * area * layers

    def expected_error(self, shape: Shape | Shapes) -> float:
        """Root mean square error of a pixel's channel, if the video is as the prior expects."""
        size, low, level = self._expected(as_video(shape))
        error = 0.0
        for share in precision.COLOURS:
            error += float(share * precision.prior(size).sum())
            error -= float(np.sum((share * low) ** 2 / (share * low + level)))
        return math.sqrt(max(error, 0.0) / (3 * math.prod(size)))

    def visible(self, shape: Shape | Shapes) -> float:
        """Share of the variation within frames that the best guess keeps, by the prior."""
        size, low, level = self._expected(as_video(shape))
        picture = low.copy()
        picture[:, 0, 0] = 0.0  # brightness
        return sight.denoised(size, picture, 1 / level)

    def _expected(self, video: Shape) -> tuple[precision.Size, np.ndarray, float]:
        """Size of a chunk, the prior at the frequencies of its block means, and their noise."""
        block, length = self.blocks(video)
        size = min(video[0], self._step(video)), video[1], video[2]
        grid = _grid(Chunk(0, size[0], video), block, length)[:3]
        low = precision.prior(size)[tuple(slice(n) for n in grid)]
        return size, low, (self.scale(video).sigma / 2) ** 2 / (block**2 * length)

    def measure(self, frames: Iterator[Array], chunk: Chunk) -> Array:
        """The sums of the chunk's blocks, (t, h, w, 3), flat."""
        block, length = self.blocks(chunk.shape)
        sums = zeros(_grid(chunk, block, length), np.int64)
        together = batch_frames(*chunk.size[1:])
        frames, start = take(frames, chunk), 0
        while start < chunk.length:
            layer, done = divmod(start, length)
            whole = length * (together // length) or min(together, length - done)
            batch = gather(itertools.islice(frames, whole))
            pooled = _pooled(batch, (length, block, block))
            sums[layer : layer + len(pooled)] += pooled
            start += len(batch)
        sums += sums  # of 2 x - 255, which is whole and about zero
        sums -= constant(_inside(chunk.size, block, length, 255))
        return cast(sums, np.float64).reshape(-1)

    def rebuild(self, measured: Array, chunk: Chunk, sigma: float, noise: Noise) -> Iterator[Array]:
        """Shrink the grid of means, undo the grey at the borders, interpolate."""
        block, length = self.blocks(chunk.shape)
        volume, grid = block**2 * length, _grid(chunk, block, length)
        means = cast(send(measured), np.float32).reshape(grid)
        means *= 0.5 / volume
        with coarse():
            shrunk = _shrunk(means, (block, length), sigma / (2 * volume))
            shrunk *= volume / constant(_inside(chunk.size, block, length, 1))
            time, high, wide = (
                constant(_ramp(size, step))
                for size, step in zip(chunk.size, (length, block, block), strict=True)
            )
            together = batch_frames(*chunk.size[1:])
            for start in range(0, chunk.length, together):
                now = time[start : start + together]
                planes = [cosine.forward(shrunk[..., c], now, high, wide) for c in range(3)]
                yield to_bytes(stack(planes) + 127.5)


def _grid(chunk: Chunk, block: int, length: int) -> tuple[int, int, int, int]:
    return (
        math.ceil(chunk.length / length),
        math.ceil(chunk.shape[1] / block),
        math.ceil(chunk.shape[2] / block),
        3,
    )


@lru_cache(maxsize=16)
def _inside(size: tuple[int, int, int], block: int, length: int, times: int) -> np.ndarray:
    """How many sites of each block lie inside the video, (t, h, w, 1), times a number."""
    t, h, w = (
        np.minimum(step, extent - step * np.arange(math.ceil(extent / step)))
        for extent, step in zip(size, (length, block, block), strict=True)
    )
    return np.asarray((t[:, None, None] * h[:, None] * w)[..., None] * times)


def _pooled(frames: Array, steps: tuple[int, int, int]) -> Array:
    """Sums over blocks of (T, H, W, 3), in whole numbers; short ones at the far ends."""
    total = frames
    kind = np.int32 if 255 * math.prod(steps) < 2**31 else np.int64
    for axis, step in enumerate(steps):
        before = (slice(None),) * axis
        wide = total
        total = cast(wide[(*before, slice(0, None, step))], kind) + 0
        for offset in range(1, min(step, wide.shape[axis])):
            part = wide[(*before, slice(offset, None, step))]
            total[(*before, slice(part.shape[axis]))] += part
    return total


@lru_cache(maxsize=16)
def _ramp(size: int, step: int) -> np.ndarray:
    """Linear interpolation from the centres of blocks to places, (size, blocks)."""
    count = math.ceil(size / step)
    place = np.clip((np.arange(size) - (step - 1) / 2) / step, 0, count - 1)
    near = np.minimum(np.floor(place).astype(int), max(count - 2, 0))
    weights = np.zeros((size, count), np.float32)
    weights[np.arange(size), near] = 1 - (place - near)
    if count > 1:
        weights[np.arange(size), near + 1] += place - near
    return weights


def _shrunk(means: Array, blocks: tuple[int, int], sigma: float) -> Array:
    """Empirical-Bayes shrinkage of a grid of noisy means, in its own cosine transform."""
    shape, (block, length) = tuple(means.shape[:3]), blocks
    size = shape[0] * length, shape[1] * block, shape[2] * block
    spectrum, kinds, kept = _expected(size, shape, block**2 * length)
    rows = [constant(cosine.matrix(n, k, np.float32)) for n, k in zip(shape, kept, strict=True)]
    basis = constant(_BASIS)
    colours = means.reshape(-1, 3) @ basis.T
    noisy = zeros((3, math.prod(kept)), np.float32)
    for c in range(3):
        noisy[c] = cosine.forward(colours[:, c].reshape(shape), *rows).reshape(-1)
    best = wiener.shrink(
        noisy.reshape(-1), constant(spectrum), sigma**2, constant(kinds), int(kinds[-1]) + 1
    ).best
    found = cast(best, np.float32).reshape(3, *kept)
    back = stack([cosine.backward(found[c], *rows) for c in range(3)])
    return (back.reshape(-1, 3) @ basis).reshape(means.shape)


@lru_cache(maxsize=8)
def _expected(
    size: precision.Size, grid: precision.Size, volume: int
) -> tuple[np.ndarray, np.ndarray, precision.Size]:
    """Prior variances and bins of all three components of a grid of means, flat, and its band."""
    spectrum = precision.prior(size)[tuple(slice(n) for n in grid)] / volume
    kept = (spectrum.shape[0], spectrum.shape[1], spectrum.shape[2])
    kinds = wiener.bins(size, kept)
    number = int(kinds.max()) + 1
    return (
        np.concatenate([share * spectrum.reshape(-1) for share in precision.COLOURS]).astype(
            np.float32
        ),
        np.concatenate([kinds + c * number for c in range(3)]),
        kept,
    )


def _usual(unit: Unit, frames: int) -> tuple[int, int]:
    """Side and length of a block; what did well on real clips, never chosen by looking."""
    sites = unit.sites or 1
    match unit.name:
        case UnitName.VALUE | UnitName.PIXELS:
            return (2, 2) if sites <= 4 else (4, 4) if sites <= 64 else (8, 16)
        case UnitName.TUBE:
            return (8 if sites <= 4 else 16 if sites <= 256 else 32), 4
        case UnitName.FRAME:
            return 16, frames
        case _:
            return 32, 64


EXAMPLE = PooledGaussian(epsilon=8.0, delta=1e-4, unit="pixels", pixels=4, block=2, length=2)
