"""Block means with Gaussian noise: the simple sound release of a video."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from masquerade import _check
from masquerade.account import sensitivity
from masquerade.compute import cosine
from masquerade.compute.device import Array, cast, fetch, send, to_bytes
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

    def measure(self, frames: Iterator[np.ndarray], chunk: Chunk) -> np.ndarray:
        """The sums of the chunk's blocks, (t, h, w, 3), flat."""
        block, length = self.blocks(chunk.shape)
        sums = np.zeros(_grid(chunk, block, length))
        for t, frame in enumerate(take(frames, chunk)):
            pooled = _pooled(send(frame), block)
            sums[t // length] += fetch(pooled)
        return sums.reshape(-1)

    def rebuild(
        self, measured: np.ndarray, chunk: Chunk, sigma: float, noise: Noise
    ) -> Iterator[np.ndarray]:
        """Shrink the grid of means, undo the grey at the borders, interpolate."""
        block, length = self.blocks(chunk.shape)
        volume = block**2 * length
        means = measured.reshape(_grid(chunk, block, length)) / (2 * volume)
        shrunk = _shrunk(means, chunk, (block, length), sigma / (2 * volume))
        sizes, steps = chunk.size, (length, block, block)
        for axis, (size, step) in enumerate(zip(sizes, steps, strict=True)):
            shrunk *= _fullness(size, step).reshape([-1 if i == axis else 1 for i in range(4)])
        time, high, wide = (
            send(_ramp(size, step)) for size, step in zip(sizes, steps, strict=True)
        )
        grid = send(np.moveaxis(shrunk, 3, 1).astype(np.float32))  # (t, 3, h, w)
        planes = (high @ grid) @ wide.T
        flat = planes.reshape(len(planes), -1)
        for start in range(0, chunk.length, 16):
            frames = (time[start : start + 16] @ flat).reshape(-1, *planes.shape[1:])
            yield from np.moveaxis(to_bytes(frames + 127.5), 1, 3)


def _grid(chunk: Chunk, block: int, length: int) -> tuple[int, int, int, int]:
    return (
        math.ceil(chunk.length / length),
        math.ceil(chunk.shape[1] / block),
        math.ceil(chunk.shape[2] / block),
        3,
    )


def _pooled(frame: Array, block: int) -> Array:
    """Sums of 2 x - 255 over b x b pixels; whole numbers far below 2^53, so exact."""
    height, width = frame.shape[:2]
    centred = 2 * cast(frame, np.float64) - 255
    high = send(_ones(height, block))
    wide = send(_ones(width, block))
    over_height = (high @ centred.reshape(height, -1)).reshape(len(high), width, 3)
    return wide @ over_height


@lru_cache(maxsize=16)
def _ones(size: int, step: int) -> np.ndarray:
    """Row j has ones at the places of block j."""
    mine = np.arange(size) // step == np.arange(math.ceil(size / step))[:, None]
    return np.asarray(mine, dtype=np.float64)


def _fullness(size: int, step: int) -> np.ndarray:
    """Nominal length of each block over what of it lies inside."""
    inside = np.minimum(step, size - step * np.arange(math.ceil(size / step)))
    return np.asarray(step / inside)


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


def _shrunk(means: np.ndarray, chunk: Chunk, blocks: tuple[int, int], sigma: float) -> np.ndarray:
    """Empirical-Bayes shrinkage of a grid of noisy means, in its own cosine transform."""
    block, length = blocks
    shape = means.shape[:3]
    whole = (shape[0] * length, shape[1] * block, shape[2] * block)
    spectrum = precision.prior(whole)[tuple(slice(n) for n in shape)] / (block**2 * length)
    kept = spectrum.shape  # of very fine grids the highest frequencies are dropped
    rows = [cosine.matrix(n, k) for n, k in zip(shape, kept, strict=True)]
    kinds = wiener.bins(whole, kept).reshape(-1)
    out = np.zeros(means.shape)
    for c, share in enumerate(precision.COLOURS):
        noisy = cosine.forward(means @ _BASIS[c], *rows).reshape(-1)
        variance = np.full(noisy.shape, sigma**2)
        best = wiener.shrink(noisy, share * spectrum.reshape(-1), variance, kinds).best
        out += cosine.backward(best.reshape(kept), *rows)[..., None] * _BASIS[c]
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
