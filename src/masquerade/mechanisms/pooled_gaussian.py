"""Block means with Gaussian noise: the simple sound release of a video."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from masquerade import _check
from masquerade.accounting import sensitivity
from masquerade.guarantee import Unit, UnitName
from masquerade.io import devices
from masquerade.io.devices import Array
from masquerade.mechanism import Shape
from masquerade.mechanisms import expected_view as sight
from masquerade.mechanisms import gaussian_video, prior
from masquerade.mechanisms.gaussian_video import Chunk, GaussianVideo, check_frames
from masquerade.mechanisms.prior import Size
from masquerade.noise import Noise
from masquerade.vision import transforms

_FRAMES = 256  # a chunk holds about this many
_STRAY = 0.07  # of the expected error: how far outputs are from that; films are further
_MOST_BLOCKS = 5 << 19  # of a chunk, so that large frames fit into memory
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
            (`masquerade.accounting.sensitivity.of_block_means`); analytic Gaussian
            [balle2018, Thm 8].
        numerics: integer sums; exact grid Gaussian, ChaCha20.

    Args:
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

    def steps(self, shape: Shape) -> Size:
        """Length, height and width of a block, from shape, unit and budget alone."""
        block, length = _usual(self.protected_unit, shape[0])
        side = self.block or block
        return min(self.length or length, shape[0]), side, side

    def chunks(self, shape: Shape) -> list[Chunk]:
        """Whole blocks of about 256 frames, fewer where they would be too many for memory."""
        step = self._together(shape)
        return [Chunk(t, min(step, shape[0] - t), shape) for t in range(0, shape[0], step)]

    def _together(self, shape: Shape) -> int:
        length, *_ = steps = self.steps(shape)
        layer = math.prod(gaussian_video.grid(shape, steps)[1:])
        return length * max(1, min(_FRAMES // length, _MOST_BLOCKS // layer))

    def distance(self, shape: Shape, unit: Unit) -> float:
        """Of the sums of 2 x - 255 over blocks: whole numbers, so there is nothing to round."""
        length, block, _ = steps = self.steps(shape)
        means = sensitivity.of_block_means(unit, shape, block=block, length=length)
        return 2 * math.prod(steps) * means * (1 + 1e-12)

    def coordinates(self, shape: Shape, unit: Unit) -> int:
        """Three sums for every block that one unit can touch."""
        layers, *plane = gaussian_video.grid(shape, self.steps(shape))
        area, sites = math.prod(plane), unit.sites or 1
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

    def predict_quality(self, shape: Shape) -> tuple[float, float]:
        """Root mean square error of a pixel's channel, and the variation that a best guess keeps.

        Both are those of a video that is as the prior expects.
        """
        steps = self.steps(shape)
        size = min(shape[0], self._together(shape)), shape[1], shape[2]
        low = _low(size, gaussian_video.grid(size, steps))
        level = (self.scale(shape).sigma / 2) ** 2 / math.prod(steps)  # of the noise of a mean
        error = 0.0
        for share in prior.COLOURS:
            error += share * prior.energy(size)[0]
            error -= float(np.sum((share * low) ** 2 / (share * low + level)))
        picture = low.copy()
        picture[:, 0, 0] = 0.0  # brightness
        return (
            math.sqrt(max(error, 0.0) / (3 * math.prod(size))),
            sight.denoised(size, picture, 1 / level),
        )

    def looks_released(
        self, frames: Sequence[np.ndarray], shape: Shape, public_seeds: tuple[int, ...]
    ) -> bool:
        """Whether frames go straight from the middle of a block to the next."""
        _, block, _ = self.steps(shape)
        bases = (transforms.enlarging_matrix(places, block, "linear") for places in shape[1:3])
        most = max(sight.ENCODED, _STRAY * self.predict_quality(shape)[0])
        return sight.beyond(frames, *bases) <= most

    def measure(self, frames: Iterator[Array], chunk: Chunk) -> Array:
        """The sums of the chunk's blocks, (t, h, w, 3), flat."""
        length, *_ = steps = self.steps(chunk.shape)
        sums = devices.zeros((*gaussian_video.grid(chunk.size, steps), 3), np.int64)
        together = devices.batch_frames(*chunk.size[1:])
        start = 0
        while start < chunk.length:
            layer, done = divmod(start, length)
            whole = length * (together // length) or min(together, length - done)
            taken = list(itertools.islice(frames, whole))
            check_frames(taken, chunk, start=start, count=whole)
            pooled = gaussian_video.sum_pools(taken, steps)
            sums[layer : layer + len(pooled)] += pooled
            start += len(taken)
        sums += sums  # of 2 x - 255, which is whole and about zero
        sums -= devices.constant(gaussian_video.inside(chunk.size, steps, 255))
        return devices.cast(sums, np.float64).reshape(-1)

    def rebuild(self, measured: Array, chunk: Chunk, sigma: float, noise: Noise) -> Iterator[Array]:
        """Shrink the grid of means, undo the grey at the borders, interpolate."""
        steps = self.steps(chunk.shape)
        volume, grid = math.prod(steps), gaussian_video.grid(chunk.size, steps)
        means = devices.cast(devices.send(measured), np.float32).reshape(*grid, 3)
        means *= 0.5 / volume
        with devices.coarse():
            shrunk = _shrunk(means, steps, sigma / (2 * volume))
            shrunk *= volume / devices.constant(gaussian_video.inside(chunk.size, steps))
            shrunk += 127.5
            time = devices.constant(transforms.enlarging_matrix(chunk.length, steps[0], "linear"))
            together = devices.batch_frames(*chunk.size[1:])
            for start in range(0, chunk.length, together):
                now = time[start : start + together]
                small = (now @ shrunk.reshape(grid[0], -1)).reshape(-1, *grid[1:], 3)
                for some in small[:, None] if devices.is_cpu() else (small,):  # few wait in memory
                    yield transforms.to_bytes(some, chunk.size[1:], steps[1], "linear")


def _shrunk(means: Array, steps: Size, sigma: float) -> Array:
    """Empirical-Bayes shrinkage of a grid of noisy means, in its own cosine transform."""
    shape = tuple(means.shape[:3])
    size = shape[0] * steps[0], shape[1] * steps[1], shape[2] * steps[2]
    spectrum, kinds, kept = _expected(size, shape, math.prod(steps))
    rows = [
        devices.constant(transforms.cosine_matrix(n, k, np.float32))
        for n, k in zip(shape, kept, strict=True)
    ]
    basis = devices.constant(_BASIS)
    colours = means.reshape(-1, 3) @ basis.T
    noisy = devices.zeros((3, math.prod(kept)), np.float32)
    for c in range(3):
        noisy[c] = transforms.forward(colours[:, c].reshape(shape), *rows).reshape(-1)
    flat, variance = noisy.reshape(-1), sigma**2
    signal = prior.fitted(
        flat, devices.constant(spectrum), variance, devices.constant(kinds), int(kinds[-1]) + 1
    )
    best = flat * prior.gain(signal, variance)
    found = devices.cast(best, np.float32).reshape(3, *kept)
    back = devices.stack([transforms.backward(found[c], *rows) for c in range(3)])
    return (back.reshape(-1, 3) @ basis).reshape(means.shape)


def _low(size: Size, grid: Size) -> np.ndarray:
    """The prior at the frequencies that a grid of means has."""
    t, h, w = (min(n, most) for n, most in zip(grid, prior.kept(size), strict=True))
    return prior.spectrum(size, (t, h, w))


@lru_cache(maxsize=8)
def _expected(size: Size, grid: Size, volume: int) -> tuple[np.ndarray, np.ndarray, Size]:
    """Prior variances and bins of all three components of a grid of means, flat, and its band."""
    spectrum = _low(size, grid) / volume
    kept = (spectrum.shape[0], spectrum.shape[1], spectrum.shape[2])
    kinds = prior.bins(size, kept)
    number = int(kinds.max()) + 1
    return (
        np.concatenate([share * spectrum.reshape(-1) for share in prior.COLOURS]).astype(
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
