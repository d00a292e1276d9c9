"""What a video is expected to look like, as a public spectrum; never chosen by looking at one.

Only the usefulness of a release depends on it, not what it guarantees.

Shrink noisy cosine coefficients towards what a picture looks like: post-processing only.

Two steps. `fit_prior` scales a public prior spectrum to the noisy data, bin by bin (empirical
Bayes), and `compute_wiener_gain` shrinks each coefficient accordingly. `filter_locally` then looks
at small
blocks: where the first result shows no detail, the second shows less noise.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from masquerade.io.devices import Array, clamp, send_constant, sum_bins, zeros
from masquerade.vision import transforms

Size = tuple[int, int, int]  # T, H, W

COLOUR_SHARES = (1.0, 0.05, 0.03)  # the share of luma and of the two chroma components
_MAX_SPATIAL_FREQUENCIES = 512  # along height and width
_MAX_TEMPORAL_FREQUENCIES = 128  # along time
_NUM_ENERGY_RADII = 8192


def in_cells(size: Size, side: int) -> Size:
    """T, H, W in cells of some sites a side; those at the far ends may be short."""
    return size[0], math.ceil(size[1] / side), math.ceil(size[2] / side)


def count_frequencies(size: Size) -> Size:
    """How many frequencies along each axis count at all."""
    return (
        min(size[0], _MAX_TEMPORAL_FREQUENCIES),
        min(size[1], _MAX_SPATIAL_FREQUENCIES),
        min(size[2], _MAX_SPATIAL_FREQUENCIES),
    )


def compute_full_spectrum(size: Size) -> np.ndarray:
    """The public spectrum P of luma, (F, G, K): what moves, and what stands still.

    Its few constants were chosen by hand on three real clips of 64 frames; docs/quality.md has the
    figures on others.
    """
    return compute_spectrum(size, count_frequencies(size))


def compute_spectrum(size: Size, box: Size, side: int = 1) -> np.ndarray:
    """The lowest frequencies of the prior, as many along each axis as ``box`` says.

    Those of cells are those of the sites, up to what a ragged border shifts.
    """
    plane = plane_of(size, box[1:], side)
    return evaluate_prior(plane, times_of(size, box[0])[:, None, None], size)


@lru_cache(maxsize=16)
def compute_prior_energy(size: Size) -> tuple[float, float]:
    """The sum of the prior, and of that part which is brightness and no picture."""
    frames, *plane_size = count_frequencies(size)
    plane, times = plane_of(size, tuple(plane_size)), times_of(size, frames)
    radii, counts = radii_of(plane, _NUM_ENERGY_RADII)
    total = counts @ evaluate_prior(radii[:, None], times, size).sum(axis=1)
    return float(total), float(evaluate_prior(plane[0, 0], times, size).sum())


def times_of(size: Size, count: int) -> np.ndarray:
    """The lowest temporal frequencies, (F,)."""
    return np.asarray(np.arange(count) / (2 * size[0]))


def plane_of(size: Size, counts: tuple[int, ...], side: int = 1) -> np.ndarray:
    """F^2 + (s fs)^2 at the lowest spatial frequencies, (G, K)."""
    _, height, width = size
    _, rows, columns = in_cells(size, side)
    fh = np.arange(counts[0]) / (2 * rows * side)
    fw = np.arange(counts[1]) / (2 * columns * side)
    return np.asarray(0.012**2 + height * width / 230**2 * (fh[:, None] ** 2 + fw**2))


def evaluate_prior(plane: np.ndarray, ft: np.ndarray, size: Size) -> np.ndarray:
    """P at places of the plane and temporal frequencies."""
    moving = 16 * (plane + (0.45 * ft) ** 2) ** -1.5
    still = np.where(ft == 0, size[0] * plane**-1.75, 0.0)
    return np.asarray((moving + still) * (size[1] * size[2] / 230**2))


def radii_of(plane: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """At most so many radii that stand for all of a plane, and how many places each stands for."""
    values, counts = np.unique(plane, return_counts=True)
    if len(values) <= most:
        return values, counts
    edges = np.geomspace(values[0], values[-1] * (1 + 1e-9), most + 1)
    bins = np.searchsorted(edges, plane.ravel(), side="right") - 1
    counts = np.bincount(bins, minlength=most)
    means = np.bincount(bins, weights=plane.ravel(), minlength=most)
    held = counts > 0
    return means[held] / counts[held], counts[held]


_BLOCK_SITES = 16
_BLOCK_SHIFTS = ((0, 0, 0), (8, 8, 8))  # two more gained 0.01 dB
_PRIOR_WEIGHT = 1.5  # how many coefficients the public prior is worth in a bin


@lru_cache(maxsize=16)
def assign_bins(size: Size, band: tuple[int, int, int]) -> np.ndarray:
    """A number for each coefficient (F, G, K), flat: octaves in time, half octaves in space."""
    kt, kh, kw = (np.arange(n) for n in band)
    octave = np.where(kt == 0, 0, 1 + np.floor(np.log2(np.maximum(kt, 1))).astype(int))
    radius = np.hypot(kh[:, None] / size[1], kw / size[2]) * max(size[1:])
    ring = np.where(radius == 0, 0, 1 + np.floor(2 * np.log2(np.maximum(radius, 1.0))).astype(int))
    found = octave[:, None, None] * (ring.max() + 1) + ring
    flat = np.asarray(found, dtype=np.int64).reshape(-1)
    flat.setflags(write=False)
    return flat


def fit_prior(noisy: Array, prior: Array, variance: Array, bin_of: Array, number: int) -> Array:
    """The prior, scaled in each bin to what was seen.

    Args:
        noisy: the released coefficients, as a vector.
        prior: their public prior variances.
        variance: of the noise on each, or on all.
        bin_of: the bin of each.
        number: of bins.
    """
    trust = prior / (prior + variance)
    trust *= trust
    surplus = noisy * noisy
    surplus -= variance
    surplus *= trust
    surplus /= prior
    weight = _PRIOR_WEIGHT + sum_bins(bin_of, trust, number)
    found = (_PRIOR_WEIGHT + sum_bins(bin_of, surplus, number)) / weight
    return clamp(found, 0.02, 50.0)[bin_of] * prior


def compute_wiener_gain(signal: Array, variance: Array) -> Array:
    """What a noisy coefficient is to be multiplied by, where so much signal is expected."""
    return signal / (signal + variance)


def filter_locally(best: Array, faithful: Array, simulated: Array) -> Array:
    """Wiener filtering of (T, H, W) in blocks of 16 frames, rows and columns.

    ``simulated`` is fresh noise that went through what the noise in ``faithful`` went through; its
    spectrum in blocks is the noise to be expected. ``best`` says how much signal there is. Two
    shifted grids are averaged, each block with the weight of how little noise it keeps.
    """
    size = tuple(best.shape)
    total, weights = zeros(size, np.float32), zeros(size, np.float32)
    expected = (_transform_blocks(_cut_blocks(simulated, (0, 0, 0))) ** 2).mean((0, 2))[
        :, None
    ] + 1e-12
    for shift in _BLOCK_SHIFTS:
        kept = _transform_blocks(_cut_blocks(best, shift))
        kept *= kept
        kept /= kept + expected
        noise = (kept * kept * expected).sum((1, 3))
        weight = (1 / (noise + 1e-6 * expected.sum()))[:, None, :, None]
        kept *= _transform_blocks(_cut_blocks(faithful, shift))
        kept *= weight
        total += _join_blocks(_restore_blocks(kept), size, shift)
        kept[...] = weight
        weights += _join_blocks(kept, size, shift)
    total /= weights
    return total


def _cut_blocks(block: Array, shift: tuple[int, ...]) -> Array:
    """Blocks from ``shift`` before the first place on, mirrored: (t, 16, blocks, 256)."""
    for axis, (length, before) in enumerate(zip(block.shape, shift, strict=True)):
        places = _mirror_block_indices(length, before)
        if len(places) > length:
            block = block[(slice(None),) * axis + (send_constant(places),)]
    frames, height, width = block.shape
    split = block.reshape(
        frames, height // _BLOCK_SITES, _BLOCK_SITES, width // _BLOCK_SITES, _BLOCK_SITES
    )
    return split.swapaxes(2, 3).reshape(frames // _BLOCK_SITES, _BLOCK_SITES, -1, _BLOCK_SITES**2)


def _transform_blocks(blocks: Array) -> Array:
    """The cosine transform of each block of 16 x 16 x 16."""
    time, plane = (send_constant(matrix) for matrix in _list_block_transforms())
    flat = blocks.reshape(-1, _BLOCK_SITES**2) @ plane.T
    return (time @ flat.reshape(len(blocks), _BLOCK_SITES, -1)).reshape(blocks.shape)


def _restore_blocks(blocks: Array) -> Array:
    """The transpose of `_transform_blocks`."""
    time, plane = (send_constant(matrix) for matrix in _list_block_transforms())
    flat = (time.T @ blocks.reshape(len(blocks), _BLOCK_SITES, -1)).reshape(-1, _BLOCK_SITES**2)
    return (flat @ plane).reshape(blocks.shape)


@lru_cache(maxsize=1)
def _list_block_transforms() -> tuple[np.ndarray, np.ndarray]:
    """Along time, and in the plane as one matrix: large products are the fast ones."""
    line = transforms.cosine_matrix(_BLOCK_SITES, _BLOCK_SITES, np.float32)
    return line, np.kron(line, line)


def _join_blocks(blocks: Array, size: tuple[int, ...], shift: tuple[int, ...]) -> Array:
    """The inverse of `_cut_blocks`: (T, H, W) without what lies outside."""
    rows, columns = (
        len(_mirror_block_indices(n, s)) // _BLOCK_SITES
        for n, s in zip(size[1:], shift[1:], strict=True)
    )
    split = blocks.reshape(-1, rows, columns, _BLOCK_SITES, _BLOCK_SITES).swapaxes(2, 3)
    whole = split.reshape(len(split), rows * _BLOCK_SITES, columns * _BLOCK_SITES)
    return whole[tuple(slice(s, s + n) for n, s in zip(size, shift, strict=True))]


@lru_cache(maxsize=64)
def _mirror_block_indices(length: int, shift: int) -> np.ndarray:
    """Which places to read so that whole blocks begin ``shift`` before the first: mirrored."""
    whole = math.ceil((length + shift) / _BLOCK_SITES) * _BLOCK_SITES
    place = np.arange(whole) - shift
    turn = place % (2 * length)
    return np.asarray(np.minimum(turn, 2 * length - 1 - turn))
