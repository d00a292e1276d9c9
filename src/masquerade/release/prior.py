"""What a video is expected to look like, as a public spectrum; never chosen by looking at one.

Only the usefulness of a release depends on it, not what it guarantees.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

Size = tuple[int, int, int]  # T, H, W

COLOURS = (1.0, 0.05, 0.03)  # the share of luma and of the two chroma components
_MOST_FREQUENCIES = 512  # along height and width
_MOST_TEMPORAL = 128  # along time
_MANY_RADII = 8192


def in_cells(size: Size, side: int) -> Size:
    """T, H, W in cells of some sites a side; those at the far ends may be short."""
    return size[0], math.ceil(size[1] / side), math.ceil(size[2] / side)


def kept(size: Size) -> Size:
    """How many frequencies along each axis count at all."""
    return (
        min(size[0], _MOST_TEMPORAL),
        min(size[1], _MOST_FREQUENCIES),
        min(size[2], _MOST_FREQUENCIES),
    )


def whole(size: Size) -> np.ndarray:
    """The public spectrum P of luma, (F, G, K): what moves, and what stands still.

    Its few constants were chosen by hand on three real clips of 64 frames; docs/quality.md has the
    figures on others.
    """
    return spectrum(size, kept(size))


def spectrum(size: Size, box: Size, side: int = 1) -> np.ndarray:
    """The lowest frequencies of the prior, as many along each axis as ``box`` says.

    Those of cells are those of the sites, up to what a ragged border shifts.
    """
    plane = plane_of(size, box[1:], side)
    return at(plane, times_of(size, box[0])[:, None, None], size)


@lru_cache(maxsize=16)
def energy(size: Size) -> tuple[float, float]:
    """The sum of the prior, and of that part which is brightness and no picture."""
    frames, *plane_size = kept(size)
    plane, times = plane_of(size, tuple(plane_size)), times_of(size, frames)
    radii, counts = radii_of(plane, _MANY_RADII)
    total = counts @ at(radii[:, None], times, size).sum(axis=1)
    return float(total), float(at(plane[0, 0], times, size).sum())


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


def at(plane: np.ndarray, ft: np.ndarray, size: Size) -> np.ndarray:
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
