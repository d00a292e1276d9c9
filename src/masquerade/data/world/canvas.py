"""A square to draw textures on: fills, discs, strokes and grain.

Convention: coordinates run from 0 to 1, x right and y down; colours from 0 to 1. The drawing
functions change the canvas that they are given, which is always one that the caller just made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

SIZE_PX = 128
Colour = tuple[float, float, float]
Canvas = np.ndarray  # (SIZE_PX, SIZE_PX, 4), the last is alpha

_CENTRES = (np.arange(SIZE_PX) + 0.5) / SIZE_PX
Y, X = np.meshgrid(_CENTRES, _CENTRES, indexing="ij")


def drawn(
    makers: Mapping[str, Callable[[np.random.Generator], Canvas]], seed: int
) -> dict[str, Canvas]:
    """What each maker draws, from a randomness of its own."""
    return {
        name: make(np.random.default_rng([seed, number]))
        for number, (name, make) in enumerate(makers.items())
    }


def blank(colour: Colour | None = None) -> Canvas:
    """A canvas of one colour, or a clear one."""
    canvas = np.zeros((SIZE_PX, SIZE_PX, 4))
    if colour is not None:
        canvas[...] = (*colour, 1.0)
    return canvas


def of_grey(grey: np.ndarray) -> Canvas:
    """A canvas from brightness (SIZE_PX, SIZE_PX)."""
    canvas = np.ones((SIZE_PX, SIZE_PX, 4))
    canvas[..., :3] = grey[..., None]
    return canvas


def fill(canvas: Canvas, where: np.ndarray, colour: Colour) -> None:
    """Paint the pixels of a mask."""
    canvas[where] = (*colour, 1.0)


def rect(canvas: Canvas, edges: tuple[float, float, float, float], colour: Colour) -> None:
    """Paint a rectangle given as left, top, right, bottom."""
    left, top, right, bottom = edges
    fill(canvas, (X >= left) & (X < right) & (Y >= top) & (Y < bottom), colour)


def disc(canvas: Canvas, middle: tuple[float, float], radius: float, colour: Colour) -> None:
    """Paint a disc."""
    fill(canvas, np.hypot(X - middle[0], Y - middle[1]) < radius, colour)


def stroke(
    canvas: Canvas, points: Sequence[tuple[float, float]], width: float, colour: Colour
) -> None:
    """Paint a line through the points."""
    for (ax, ay), (bx, by) in pairwise(points):
        dx, dy = bx - ax, by - ay
        along = ((X - ax) * dx + (Y - ay) * dy) / max(dx * dx + dy * dy, 1e-9)
        along = np.clip(along, 0, 1)
        fill(canvas, np.hypot(X - ax - along * dx, Y - ay - along * dy) < width / 2, colour)


def grain(cells: int, *, rng: np.random.Generator) -> np.ndarray:
    """Smooth randomness in [-1, 1] that repeats without a seam, (SIZE_PX, SIZE_PX)."""
    values = rng.uniform(-1, 1, (cells, cells))
    at = _CENTRES * cells
    low = np.floor(at).astype(int) % cells
    part = at - np.floor(at)
    part = part * part * (3 - 2 * part)
    rows = values[low] * (1 - part[:, None]) + values[(low + 1) % cells] * part[:, None]
    return np.asarray(rows[:, low] * (1 - part) + rows[:, (low + 1) % cells] * part)


def rough(*, rng: np.random.Generator) -> np.ndarray:
    """Grain of several sizes, about in [-1, 1]."""
    return grain(4, rng=rng) * 0.5 + grain(16, rng=rng) * 0.3 + grain(64, rng=rng) * 0.3


def cells(count: int, *, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Irregular stones that repeat without a seam: number of each and distance to its edge."""
    step = np.arange(count) / count
    points = np.stack(np.meshgrid(step, step), axis=-1).reshape(-1, 2)
    points[:, 0] += np.repeat(np.arange(count) % 2, count) * 0.5 / count
    points = (points + rng.uniform(-0.28, 0.28, points.shape) / count) % 1
    away_x = np.abs(X[..., None] - points[:, 0])
    away_y = np.abs(Y[..., None] - points[:, 1])
    away = np.hypot(np.minimum(away_x, 1 - away_x), np.minimum(away_y, 1 - away_y))
    order = np.argsort(away, axis=-1)[..., :2]
    near = np.take_along_axis(away, order, axis=-1)
    return order[..., 0], (near[..., 1] - near[..., 0]) * count
