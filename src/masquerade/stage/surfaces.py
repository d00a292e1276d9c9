"""Textures that repeat: walls, floors, ground and cloth, all of the same mean brightness.

They are nearly grey; what colour a wall has is the place's choice of tint. So two walls of one
tint differ in their pattern and not in their mean.

A square to draw textures on: fills, discs, strokes and grain.

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


def paint_all(
    makers: Mapping[str, Callable[[np.random.Generator], Canvas]], seed: int
) -> dict[str, Canvas]:
    """What each maker draws, from a randomness of its own."""
    return {
        name: make(np.random.default_rng([seed, number]))
        for number, (name, make) in enumerate(makers.items())
    }


def make_canvas(colour: Colour | None = None) -> Canvas:
    """A canvas of one colour, or a clear one."""
    canvas = np.zeros((SIZE_PX, SIZE_PX, 4))
    if colour is not None:
        canvas[...] = (*colour, 1.0)
    return canvas


def make_grey_canvas(grey: np.ndarray) -> Canvas:
    """A canvas from brightness (SIZE_PX, SIZE_PX)."""
    canvas = np.ones((SIZE_PX, SIZE_PX, 4))
    canvas[..., :3] = grey[..., None]
    return canvas


def fill_mask(canvas: Canvas, where: np.ndarray, colour: Colour) -> None:
    """Paint the pixels of a mask."""
    canvas[where] = (*colour, 1.0)


def fill_rectangle(
    canvas: Canvas, edges: tuple[float, float, float, float], colour: Colour
) -> None:
    """Paint a rectangle given as left, top, right, bottom."""
    left, top, right, bottom = edges
    fill_mask(canvas, (X >= left) & (X < right) & (Y >= top) & (Y < bottom), colour)


def fill_disc(canvas: Canvas, middle: tuple[float, float], radius: float, colour: Colour) -> None:
    """Paint a disc."""
    fill_mask(canvas, np.hypot(X - middle[0], Y - middle[1]) < radius, colour)


def paint_stroke(
    canvas: Canvas, points: Sequence[tuple[float, float]], width: float, colour: Colour
) -> None:
    """Paint a line through the points."""
    for (ax, ay), (bx, by) in pairwise(points):
        dx, dy = bx - ax, by - ay
        along = ((X - ax) * dx + (Y - ay) * dy) / max(dx * dx + dy * dy, 1e-9)
        along = np.clip(along, 0, 1)
        fill_mask(canvas, np.hypot(X - ax - along * dx, Y - ay - along * dy) < width / 2, colour)


def make_grain(cells: int, *, rng: np.random.Generator) -> np.ndarray:
    """Smooth randomness in [-1, 1] that repeats without a seam, (SIZE_PX, SIZE_PX)."""
    values = rng.uniform(-1, 1, (cells, cells))
    at = _CENTRES * cells
    low = np.floor(at).astype(int) % cells
    part = at - np.floor(at)
    part = part * part * (3 - 2 * part)
    rows = values[low] * (1 - part[:, None]) + values[(low + 1) % cells] * part[:, None]
    return np.asarray(rows[:, low] * (1 - part) + rows[:, (low + 1) % cells] * part)


def make_rough_grain(*, rng: np.random.Generator) -> np.ndarray:
    """Grain of several sizes, about in [-1, 1]."""
    return (
        make_grain(4, rng=rng) * 0.5 + make_grain(16, rng=rng) * 0.3 + make_grain(64, rng=rng) * 0.3
    )


def make_stone_cells(count: int, *, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
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


MEAN_SHADE = 0.68
Rng = np.random.Generator


def paint_posters(seed: int) -> dict[str, Canvas]:
    """All surfaces by name."""
    return {
        name: make_grey_canvas(np.clip(grey + MEAN_SHADE - grey.mean(), 0.04, 1.0))
        for name, grey in paint_all(_SURFACE_SHADERS, seed).items()
    }


def _shade_plaster(rng: Rng) -> np.ndarray:
    return make_rough_grain(rng=rng) * 0.035


def _shade_bond(rng: Rng, rows: int, columns: int, *, joint: float, depth: float) -> np.ndarray:
    """Bricks in running bond; ``depth`` is how much darker (or, below 0, lighter) joints are."""
    row = np.floor(Y * rows).astype(int)
    shifted = X * columns + (row % 2) * 0.5
    column = np.floor(shifted).astype(int) % columns
    tone = rng.uniform(-0.12, 0.12, (rows, columns))[row, column]
    edge_x = np.abs((shifted % 1) - 0.5) > 0.5 - joint * columns / 2
    edge_y = np.abs((Y * rows % 1) - 0.5) > 0.5 - joint * rows / 2
    return np.where(edge_x | edge_y, -depth, tone) + make_rough_grain(rng=rng) * 0.05


def _shade_grid(rng: Rng, count: int, *, joint: float, depth: float, spread: float) -> np.ndarray:
    row, column = np.floor(Y * count).astype(int), np.floor(X * count).astype(int)
    tone = rng.uniform(-spread, spread, (count, count))[row, column]
    half = joint * count / 2
    edge = (np.abs(X * count % 1 - 0.5) > 0.5 - half) | (np.abs(Y * count % 1 - 0.5) > 0.5 - half)
    return np.where(edge, -depth, tone) + make_rough_grain(rng=rng) * 0.03


def _shade_checker(rng: Rng, count: int, contrast: float) -> np.ndarray:
    tone = (np.floor(X * count) + np.floor(Y * count)) % 2 * contrast
    return np.asarray(tone + _shade_grid(rng, count, joint=0.008, depth=0.1, spread=0.03))


def _shade_planks(rng: Rng, count: int, *, gap: float = 0.22) -> np.ndarray:
    row = np.floor(Y * count).astype(int)
    joint = rng.uniform(0, 1, count)[row]
    side = (X - joint) % 1
    tone = rng.uniform(-0.1, 0.1, (count, 2))[row, (side > 0.5).astype(int)]
    veins = np.sin(2 * np.pi * (Y * 30 + 1.3 * make_grain(4, rng=rng))) * 0.035
    edge = (Y * count % 1 < 0.012 * count) | (side % 0.5 < 0.012)
    return np.where(edge, -gap, tone + veins) + make_grain(32, rng=rng) * 0.02


def _shade_herringbone(rng: Rng) -> np.ndarray:
    count = 8
    zigzag = (X * count) % 2
    lean = np.where(zigzag < 1, Y * count * 2 + zigzag, Y * count * 2 + 2 - zigzag)
    tone = rng.uniform(-0.13, 0.13, (count, count * 2))
    column = np.floor(X * count).astype(int)
    value = tone[column, np.floor(lean).astype(int) % (count * 2)]
    return np.where((lean % 1 < 0.12) | ((X * count) % 1 < 0.05), -0.2, value)


def _shade_stripes(rng: Rng, count: int, *, contrast: float, share: float = 0.5) -> np.ndarray:
    return ((X * count) % 1 < share) * contrast + make_rough_grain(rng=rng) * 0.025


def _shade_motif(rng: Rng, count: int, shape: Callable[..., np.ndarray]) -> np.ndarray:
    """Wallpaper: one shape at every knot of a staggered grid."""
    row = np.floor(Y * count)
    x = (X * count + (row % 2) * 0.5) % 1 - 0.5
    y = (Y * count) % 1 - 0.5
    return shape(x, y) * 0.2 + make_rough_grain(rng=rng) * 0.025


def _shade_carpet(rng: Rng) -> np.ndarray:
    return rng.uniform(-0.08, 0.08, (SIZE_PX, SIZE_PX)) + make_grain(8, rng=rng) * 0.03


def _shade_diamonds(rng: Rng) -> np.ndarray:
    away = np.abs((X * 3) % 1 - 0.5) + np.abs((Y * 3) % 1 - 0.5)
    return (
        np.where(away < 0.22, 0.16, np.where(away < 0.34, -0.16, 0.02)) + _shade_carpet(rng) * 0.5
    )


def _shade_asphalt(rng: Rng) -> np.ndarray:
    return rng.uniform(-0.11, 0.11, (SIZE_PX, SIZE_PX)) + make_grain(4, rng=rng) * 0.07


def _shade_grass(rng: Rng) -> np.ndarray:
    blades = np.sin(2 * np.pi * (X * 40 + 2 * make_grain(8, rng=rng))) * make_grain(32, rng=rng)
    return np.asarray(blades * 0.16 + make_rough_grain(rng=rng) * 0.2)


def _shade_leaves(rng: Rng) -> np.ndarray:
    number, edge = make_stone_cells(14, rng=rng)
    tone = rng.uniform(-0.2, 0.2, 14 * 14)[number]
    return np.where(edge < 0.16, -0.3, tone) + make_rough_grain(rng=rng) * 0.08


def _shade_stones(rng: Rng, count: int, *, depth: float) -> np.ndarray:
    number, edge = make_stone_cells(count, rng=rng)
    tone = rng.uniform(-0.12, 0.12, count * count)[number]
    return np.where(edge < 0.14, -depth, tone) + make_rough_grain(rng=rng) * 0.05


def _shade_ribs(rng: Rng) -> np.ndarray:
    return np.sin(2 * np.pi * X * 10) * 0.14 + make_rough_grain(rng=rng) * 0.03


def _shade_siding(rng: Rng) -> np.ndarray:
    within = (Y * 8) % 1
    return np.where(within < 0.14, -0.25, within * 0.12) + make_grain(16, rng=rng) * 0.03


def _shade_concrete(rng: Rng) -> np.ndarray:
    value = make_rough_grain(rng=rng) * 0.09
    for x in (0.25, 0.75):
        for y in (0.25, 0.75):
            value[np.hypot(X - x, Y - y) < 0.022] = -0.25
    value[(X % 0.5 < 0.01) | (Y % 0.5 < 0.01)] = -0.18
    return value


def _shade_panels(rng: Rng) -> np.ndarray:
    """Wood panelling: a frame around each sunken field."""
    x, y = (X * 4) % 1, Y
    field = (x > 0.16) & (x < 0.84) & (y > 0.12) & (y < 0.9)
    rim = field & ~((x > 0.22) & (x < 0.78) & (y > 0.15) & (y < 0.87))
    veins = np.sin(2 * np.pi * (X * 24 + make_grain(4, rng=rng))) * 0.03
    return np.asarray(np.where(rim, -0.18, np.where(field, 0.05, -0.02)) + veins)


def _shade_weave(rng: Rng) -> np.ndarray:
    threads = np.sin(2 * np.pi * X * 32) * np.sin(2 * np.pi * Y * 32)
    return np.asarray(threads * 0.07 + _shade_plaster(rng))


def _shade_tartan(rng: Rng) -> np.ndarray:
    x, y = (X * 3) % 1, (Y * 3) % 1
    bands = ((x > 0.3) & (x < 0.6)) * 0.14 + ((y > 0.3) & (y < 0.6)) * 0.14
    lines = ((x > 0.8) & (x < 0.86)) | ((y > 0.8) & (y < 0.86))
    return np.asarray(np.where(lines, 0.4, bands) + _shade_plaster(rng))


_SURFACE_SHADERS: dict[str, Callable[[Rng], np.ndarray]] = {
    "plaster": _shade_plaster,
    "brick": lambda rng: _shade_bond(rng, 10, 4, joint=0.016, depth=-0.2),
    "old_brick": lambda rng: _shade_bond(rng, 8, 4, joint=0.02, depth=0.22),
    "blocks": lambda rng: _shade_bond(rng, 4, 2, joint=0.014, depth=0.2),
    "tiles": lambda rng: _shade_grid(rng, 4, joint=0.014, depth=0.22, spread=0.05),
    "small_tiles": lambda rng: _shade_grid(rng, 10, joint=0.014, depth=-0.25, spread=0.12),
    "metro_tiles": lambda rng: _shade_bond(rng, 8, 4, joint=0.012, depth=0.3) * 0.7,
    "checker": lambda rng: _shade_checker(rng, 4, 0.42),
    "soft_checker": lambda rng: _shade_checker(rng, 6, 0.2),
    "planks": lambda rng: _shade_planks(rng, 6),
    "narrow_planks": lambda rng: _shade_planks(rng, 12, gap=0.14),
    "herringbone": _shade_herringbone,
    "carpet": _shade_carpet,
    "diamonds": _shade_diamonds,
    "carpet_squares": lambda rng: (
        _shade_grid(rng, 2, joint=0.008, depth=0.06, spread=0.1) + _shade_carpet(rng)
    ),
    "wide_stripes": lambda rng: _shade_stripes(rng, 4, contrast=0.17),
    "pinstripes": lambda rng: _shade_stripes(rng, 10, contrast=0.22, share=0.25),
    "dots": lambda rng: _shade_motif(rng, 6, lambda x, y: np.hypot(x, y) < 0.2),
    "rings": lambda rng: _shade_motif(rng, 4, lambda x, y: np.abs(np.hypot(x, y) - 0.32) < 0.09),
    "lozenges": lambda rng: _shade_motif(
        rng, 4, lambda x, y: np.abs(np.abs(x) + np.abs(y) - 0.4) < 0.07
    ),
    "flowers": lambda rng: _shade_motif(
        rng, 4, lambda x, y: np.hypot(x, y) < 0.26 + 0.14 * np.cos(5 * np.arctan2(y, x))
    ),
    "panels": _shade_panels,
    "asphalt": _shade_asphalt,
    "grass": _shade_grass,
    "leaves": _shade_leaves,
    "cobbles": lambda rng: _shade_stones(rng, 8, depth=0.28),
    "rubble": lambda rng: _shade_stones(rng, 5, depth=0.2),
    "gravel": lambda rng: _shade_stones(rng, 20, depth=0.15),
    "slabs": lambda rng: _shade_bond(rng, 3, 2, joint=0.014, depth=0.2),
    "concrete": _shade_concrete,
    "ribs": _shade_ribs,
    "siding": _shade_siding,
    "weave": _shade_weave,
    "tartan": _shade_tartan,
}
