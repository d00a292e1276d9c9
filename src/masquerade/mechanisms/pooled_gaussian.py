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

_CHUNK_FRAMES = 256  # a chunk holds about this many
_STRAY_SHARE = 0.07  # of the expected error: how far outputs are from that; films are further
_MAX_CHUNK_BLOCKS = 5 << 19  # of a chunk, so that large frames fit into memory
_COLOUR_BASIS = np.array([[1, 1, 1], [1, 0, -1], [1, -2, 1]], np.float32) / np.sqrt(
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
        bound: whole blocks and one rest, 255 sqrt(3 (floor(m/V) + ((m mod
            V)/V)^2)) for m sites (`masquerade.accounting.sensitivity.block_means_sensitivity`);
            analytic Gaussian [balle2018, Thm 8].
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
    def output_description(self) -> str:
        """What leaves the house."""
        return "means over blocks of the video with noise, and frames rebuilt from them"

    def choose_block_steps(self, shape: Shape) -> Size:
        """Length, height and width of a block, from shape, unit and budget alone."""
        block, length = _choose_usual_block(self.privacy_unit, shape[0])
        side = self.block or block
        return min(self.length or length, shape[0]), side, side

    def list_chunks(self, shape: Shape) -> list[Chunk]:
        """Whole blocks of about 256 frames, fewer where they would be too many for memory."""
        step = self._choose_batch_frames(shape)
        return [Chunk(t, min(step, shape[0] - t), shape) for t in range(0, shape[0], step)]

    def _choose_batch_frames(self, shape: Shape) -> int:
        length, *_ = steps = self.choose_block_steps(shape)
        layer = math.prod(gaussian_video.count_blocks(shape, steps)[1:])
        return length * max(1, min(_CHUNK_FRAMES // length, _MAX_CHUNK_BLOCKS // layer))

    def compute_distance_bound(self, shape: Shape, unit: Unit) -> float:
        """Of the sums of 2 x - 255 over blocks: whole numbers, so there is nothing to round."""
        length, block, _ = steps = self.choose_block_steps(shape)
        means = sensitivity.block_means_sensitivity(unit, shape, block=block, length=length)
        return 2 * math.prod(steps) * means * (1 + 1e-12)

    def coordinates(self, shape: Shape, unit: Unit) -> int:
        """Three sums for every block that one unit can touch."""
        layers, *plane = gaussian_video.count_blocks(shape, self.choose_block_steps(shape))
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
        steps = self.choose_block_steps(shape)
        size = min(shape[0], self._choose_batch_frames(shape)), shape[1], shape[2]
        low = _build_grid_prior(size, gaussian_video.count_blocks(size, steps))
        level = (self.compute_scale(shape).sigma / 2) ** 2 / math.prod(
            steps
        )  # of the noise of a mean
        error = 0.0
        for share in prior.COLOUR_SHARES:
            error += share * prior.compute_prior_energy(size)[0]
            error -= float(np.sum((share * low) ** 2 / (share * low + level)))
        picture = low.copy()
        picture[:, 0, 0] = 0.0  # brightness
        return (
            math.sqrt(max(error, 0.0) / (3 * math.prod(size))),
            sight.compute_denoised_share(size, picture, 1 / level),
        )

    def is_appearance_released(
        self, frames: Sequence[np.ndarray], shape: Shape, public_seeds: tuple[int, ...]
    ) -> bool:
        """Whether frames go straight from the middle of a block to the next."""
        _, block, _ = self.choose_block_steps(shape)
        bases = (transforms.enlarging_matrix(places, block, "linear") for places in shape[1:3])
        most = max(sight.ENCODING_ERROR, _STRAY_SHARE * self.predict_quality(shape)[0])
        return sight.measure_stray_detail(frames, *bases) <= most

    def measure_chunk(self, frames: Iterator[Array], chunk: Chunk) -> Array:
        """The sums of the chunk's blocks, (t, h, w, 3), flat."""
        length, *_ = steps = self.choose_block_steps(chunk.shape)
        sums = devices.zeros((*gaussian_video.count_blocks(chunk.size, steps), 3), np.int64)
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
        sums -= devices.send_constant(gaussian_video.count_sites_inside(chunk.size, steps, 255))
        return devices.cast(sums, np.float64).reshape(-1)

    def rebuild_frames(
        self, measured: Array, chunk: Chunk, sigma: float, noise: Noise
    ) -> Iterator[Array]:
        """Shrink the grid of means, undo the grey at the borders, interpolate."""
        steps = self.choose_block_steps(chunk.shape)
        volume, grid = math.prod(steps), gaussian_video.count_blocks(chunk.size, steps)
        means = devices.cast(devices.send_array(measured), np.float32).reshape(*grid, 3)
        means *= 0.5 / volume
        with devices.allow_coarse_products():
            shrunk = _shrink_means(means, steps, sigma / (2 * volume))
            shrunk *= volume / devices.send_constant(
                gaussian_video.count_sites_inside(chunk.size, steps)
            )
            shrunk += 127.5
            time = devices.send_constant(
                transforms.enlarging_matrix(chunk.length, steps[0], "linear")
            )
            together = devices.batch_frames(*chunk.size[1:])
            for start in range(0, chunk.length, together):
                now = time[start : start + together]
                small = (now @ shrunk.reshape(grid[0], -1)).reshape(-1, *grid[1:], 3)
                for some in small[:, None] if devices.is_cpu() else (small,):  # few wait in memory
                    yield transforms.enlarge_to_bytes(some, chunk.size[1:], steps[1], "linear")


def _shrink_means(means: Array, steps: Size, sigma: float) -> Array:
    """Empirical-Bayes shrinkage of a grid of noisy means, in its own cosine transform."""
    shape = tuple(means.shape[:3])
    size = shape[0] * steps[0], shape[1] * steps[1], shape[2] * steps[2]
    spectrum, kinds, kept = _build_mean_prior(size, shape, math.prod(steps))
    rows = [
        devices.send_constant(transforms.cosine_matrix(n, k, np.float32))
        for n, k in zip(shape, kept, strict=True)
    ]
    basis = devices.send_constant(_COLOUR_BASIS)
    colours = means.reshape(-1, 3) @ basis.T
    noisy = devices.zeros((3, math.prod(kept)), np.float32)
    for c in range(3):
        noisy[c] = transforms.forward(colours[:, c].reshape(shape), *rows).reshape(-1)
    flat, variance = noisy.reshape(-1), sigma**2
    signal = prior.fit_prior(
        flat,
        devices.send_constant(spectrum),
        variance,
        devices.send_constant(kinds),
        int(kinds[-1]) + 1,
    )
    best = flat * prior.compute_wiener_gain(signal, variance)
    found = devices.cast(best, np.float32).reshape(3, *kept)
    back = devices.stack([transforms.backward(found[c], *rows) for c in range(3)])
    return (back.reshape(-1, 3) @ basis).reshape(means.shape)


def _build_grid_prior(size: Size, grid: Size) -> np.ndarray:
    """The prior at the frequencies that a grid of means has."""
    t, h, w = (min(n, most) for n, most in zip(grid, prior.count_frequencies(size), strict=True))
    return prior.compute_spectrum(size, (t, h, w))


@lru_cache(maxsize=8)
def _build_mean_prior(size: Size, grid: Size, volume: int) -> tuple[np.ndarray, np.ndarray, Size]:
    """Prior variances and bins of all three components of a grid of means, flat, and its band."""
    spectrum = _build_grid_prior(size, grid) / volume
    kept = (spectrum.shape[0], spectrum.shape[1], spectrum.shape[2])
    kinds = prior.assign_bins(size, kept)
    number = int(kinds.max()) + 1
    return (
        np.concatenate([share * spectrum.reshape(-1) for share in prior.COLOUR_SHARES]).astype(
            np.float32
        ),
        np.concatenate([kinds + c * number for c in range(3)]),
        kept,
    )


def _choose_usual_block(unit: Unit, frames: int) -> tuple[int, int]:
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
