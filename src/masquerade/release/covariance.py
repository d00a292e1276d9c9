"""The noisy covariance of projected frames, and the directions that it finds: an ablation.

Rows are clipped to a public norm; the covariance of the clipped rows is released as a vector of its
upper triangle, off-diagonal entries times sqrt 2, so that equal noise on every number of the vector
is the symmetric noise that the Frobenius norm asks for.
"""

from __future__ import annotations

import math

import numpy as np

from masquerade.guarantee import Unit, UnitName
from masquerade.mechanism import Shape

_UNIT = 2.0**-53


def clipped(rows: np.ndarray, radius: float) -> np.ndarray:
    """Rows scaled down to a norm of at most ``radius``, rounding included."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, radius * (1 - 2.0**-40) / np.maximum(norms, 1e-300)))


def packed(matrix: np.ndarray) -> np.ndarray:
    """The upper triangle as a vector of the same Euclidean norm."""
    upper = np.triu_indices(len(matrix))
    return np.asarray(matrix[upper] * np.where(upper[0] == upper[1], 1.0, math.sqrt(2)))


def unpacked(vector: np.ndarray, columns: int) -> np.ndarray:
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


def distances(shape: Shape, unit: Unit, radius: float) -> tuple[float, float]:
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


def unclipped_distance(shape: Shape, frames: int, apart: float, stretch: float) -> float:
    """Of the covariance P^T P of rows P = X R, none clipped, for an R that is drawn afterwards.

    A^T A - B^T B = ((A - B)^T (A + B) + (A + B)^T (A - B)) / 2 has a norm of at most |A - B| |A +
    B|, in the ``frames`` rows that differ alone. R stretches X - X', X + X' (values up to 510) and
    all of X by at most ``stretch`` each, but for its tails; the last is for rounding.
    """
    numbers = math.prod(shape[1:])
    both = 510 * math.sqrt(frames * numbers)
    terms = shape[0] + 8
    rounding = terms * _UNIT / (1 - terms * _UNIT) * 255**2 * numbers * shape[0]
    return stretch**2 * (apart * both + 4 * rounding) * (1 + 1e-12)


def right_directions(matrix: np.ndarray, kept: int) -> np.ndarray:
    """(k, kept) right singular vectors of the largest singular values of a square matrix."""
    return np.asarray(np.linalg.eigh(matrix.T @ matrix)[1][:, -kept:])


def clip_error(frames: int, columns: int, radius: float) -> float:
    """How far the rounding of the clip itself can move some rows."""
    return (columns + 8) * _UNIT * radius * math.sqrt(frames)


def error_bound(shape: Shape, columns: int, radius: float) -> float:
    """How far rounding can move the packed covariance."""
    terms = shape[0] + 8
    return terms * _UNIT / (1 - terms * _UNIT) * shape[0] * radius**2 * 2
