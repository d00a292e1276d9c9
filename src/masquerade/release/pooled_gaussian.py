"""Block means with Gaussian noise: the simple sound release of a video."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade.account import sensitivity
from masquerade.compute import cosine
from masquerade.compute.device import (
    Array,
    batch_frames,
    cast,
    fetch,
    gather,
    send,
    to_bytes,
    zeros,
)
from masquerade.guarantee import Unit, UnitName
from masquerade.mechanism import Shape, Shapes, as_video
from masquerade.noise import Noise
from masquerade.release import precision, wiener
from masquerade.release.gaussian_video import Chunk, GaussianVideo, take

_FRAMES = 64  # a chunk holds about this many
_BASIS = np.array([[1, 1, 1], [1, 0, -1], [1, -2, 1]]) / np.sqrt([[3], [2], [6]])


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

    @property
    def released(self) -> str:
        """What leaves the house."""
        return "means over blocks of the video with noise, and frames rebuilt from them"

    def blocks(self, shape: Shape) -> tuple[int, int]:
        """Side and length of a block, from shape, unit and budget alone."""
        block, length = _usual(self.as_unit(), shape[0])
        return self.block or block, min(self.length or length, shape[0])

    def chunks(self, shape: Shape) -> list[Chunk]:
        """Whole blocks of about 64 frames."""
        length = self.blocks(shape)[1]
        step = length * max(1, _FRAMES // length)
        return [Chunk(t, min(step, shape[0] - t), shape) for t in range(0, shape[0], step)]

    def distance(self, shape: Shape, unit: Unit) -> float:
        """Of the sums of 2 x - 255 over blocks: whole numbers, so there is nothing to round."""
        block, length = self.blocks(shape)
        film = sensitivity.Film(frames=shape[0], height=shape[1], width=shape[2])
        means = sensitivity.of_block_means(unit, film, block=block, length=length)
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
        video = as_video(shape)
        block, length = self.blocks(video)
        size = min(video[0], max(length, _FRAMES)), video[1], video[2]
        spectrum = precision.prior(size)
        low = spectrum[tuple(slice(n) for n in _grid(Chunk(0, size[0], video), block, length)[:3])]
        level = (self.scale(video).sigma / 2) ** 2 / (block**2 * length)
        error = 0.0
        for share in precision.COLOURS:
            error += float(share * spectrum.sum())
            error -= float(np.sum((share * low) ** 2 / (share * low + level)))
        return math.sqrt(max(error, 0.0) / (3 * math.prod(size)))

    def measure(self, frames: Iterator[Array], chunk: Chunk) -> np.ndarray:
        """The sums of the chunk's blocks, (t, h, w, 3), flat."""
        block, length = self.blocks(chunk.shape)
        grid = _grid(chunk, block, length)
        sums = zeros(grid, np.int64)
        frames = take(frames, chunk)
        for start in range(0, chunk.length, batch_frames()):
            pooled = _pooled(gather(itertools.islice(frames, batch_frames())), block)
            first = start // length
            for layer in range(first, (start + len(pooled) - 1) // length + 1):
                low, high = (max(t - start, 0) for t in (layer * length, (layer + 1) * length))
                sums[layer] += pooled[low:high].sum(0)
        inside = _inside(chunk, block, length)
        return fetch(2.0 * cast(sums, np.float64)).reshape(-1) - 255.0 * inside.reshape(-1)

    def rebuild(
        self, measured: np.ndarray, chunk: Chunk, sigma: float, noise: Noise
    ) -> Iterator[Array]:
        """Shrink the grid of means, undo the grey at the borders, interpolate."""
        block, length = self.blocks(chunk.shape)
        volume, grid = block**2 * length, _grid(chunk, block, length)
        means = send(measured.reshape(grid).astype(np.float32)) * (0.5 / volume)
        shrunk = _shrunk(means, chunk, (block, length), sigma / (2 * volume))
        shrunk *= send((volume / _inside(chunk, block, length)).astype(np.float32))
        sizes, steps = chunk.size, (length, block, block)
        time, high, wide = (
            send(_ramp(size, step)) for size, step in zip(sizes, steps, strict=True)
        )
        planes = (high @ shrunk.reshape(grid[0], grid[1], -1)).reshape(-1, grid[2], 3)
        planes = (wide @ planes).reshape(grid[0], -1)
        for start in range(0, chunk.length, batch_frames()):
            frames = time[start : start + batch_frames()] @ planes
            frames += 127.5
            yield to_bytes(frames).reshape(-1, *chunk.shape[1:])


def _grid(chunk: Chunk, block: int, length: int) -> tuple[int, int, int, int]:
    return (
        math.ceil(chunk.length / length),
        math.ceil(chunk.shape[1] / block),
        math.ceil(chunk.shape[2] / block),
        3,
    )


def _inside(chunk: Chunk, block: int, length: int) -> np.ndarray:
    """How many sites of each block lie inside the video, (t, h, w, 1)."""
    t, h, w = (
        np.minimum(step, size - step * np.arange(math.ceil(size / step)))
        for size, step in zip(chunk.size, (length, block, block), strict=True)
    )
    return np.asarray((t[:, None, None] * h[:, None] * w)[..., None] * np.ones(3))


def _pooled(frames: Array, block: int) -> Array:
    """Sums over b x b pixels of (T, H, W, 3), in whole numbers."""
    wide = frames
    for axis in (1, 2):
        total = cast(wide[(slice(None),) * axis + (slice(0, None, block),)], np.int32) + 0
        for offset in range(1, min(block, wide.shape[axis])):
            part = wide[(slice(None),) * axis + (slice(offset, None, block),)]
            total[(slice(None),) * axis + (slice(part.shape[axis]),)] += part
        wide = total
    return wide


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


def _shrunk(means: Array, chunk: Chunk, blocks: tuple[int, int], sigma: float) -> Array:
    """Empirical-Bayes shrinkage of a grid of noisy means, in its own cosine transform."""
    block, length = blocks
    shape = means.shape[:3]
    whole = (shape[0] * length, shape[1] * block, shape[2] * block)
    spectrum = precision.prior(whole)[tuple(slice(n) for n in shape)] / (block**2 * length)
    kept = spectrum.shape  # of very fine grids the highest frequencies are dropped
    rows = [send(cosine.matrix(n, k).astype(np.float32)) for n, k in zip(shape, kept, strict=True)]
    kinds = send(wiener.bins(whole, kept))
    prior = send(spectrum.astype(np.float32).reshape(-1))
    basis = send(_BASIS.astype(np.float32))
    out = 0 * means
    for c, share in enumerate(precision.COLOURS):
        noisy = cosine.forward(means @ basis[c], *rows).reshape(-1)
        best = wiener.shrink(noisy, share * prior, sigma**2, kinds).best
        plane = cosine.backward(cast(best, np.float32).reshape(kept), *rows)
        out += plane[..., None] * basis[c]
    return out


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
            return 32, _FRAMES


EXAMPLE = PooledGaussian(epsilon=8.0, delta=1e-4, unit="pixels", pixels=4, block=2, length=2)
