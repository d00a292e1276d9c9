"""Textures with colours of their own, for indoors: pictures, boards, windows, doors, fronts.

Posters and framed pictures, and the ink, paper and muted colours that other prints share.

Textures with colours of their own, for outdoors: facades, shops, trees, fences, cars, sky.

The pool of textures that all places share, each with smaller copies for what is far away.
"""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from masquerade.stage import surfaces
from masquerade.stage.surfaces import (
    SIZE_PX,
    Canvas,
    Colour,
    X,
    Y,
    fill_disc,
    fill_mask,
    fill_rectangle,
    make_canvas,
    make_grain,
    paint_all,
    paint_stroke,
)

Rng = np.random.Generator
NUM_POSTERS = 36
INK: Colour = (0.16, 0.16, 0.18)
PAPER: Colour = (0.86, 0.84, 0.79)
WOOD: Colour = (0.5, 0.38, 0.27)


def draw_each_print(seed: int) -> dict[str, Canvas]:
    """All posters, ``poster_00`` and so on."""
    return {
        f"poster_{number:02}": _paint_poster(np.random.default_rng([seed, 1000 + number]), number)
        for number in range(NUM_POSTERS)
    }


def sample_muted_colour(rng: Rng, *, low: float = 0.35, high: float = 0.8) -> Colour:
    """A colour that does not shout."""
    hue, saturation = float(rng.uniform()), float(rng.uniform(0.1, 0.38))
    return colorsys.hsv_to_rgb(hue, saturation, float(rng.uniform(low, high)))


def paint_rim(canvas: Canvas, colour: Colour, width: float) -> None:
    """Paint the rim."""
    inside = (np.abs(X - 0.5) < 0.5 - width) & (np.abs(Y - 0.5) < 0.5 - width)
    fill_mask(canvas, ~inside, colour)


def paint_writing(
    canvas: Canvas, box: tuple[float, float, float, float], rng: Rng, ink: Colour
) -> None:
    """Paint lines that look like text into left, top, right, bottom."""
    left, top, right, bottom = box
    for y in np.arange(top, bottom, 0.07):
        end = rng.uniform(left + (right - left) * 0.4, right)
        fill_rectangle(canvas, (left, y, end, y + 0.028), ink)


def _paint_poster(rng: Rng, number: int) -> Canvas:
    canvas = make_canvas(PAPER if number % 3 else sample_muted_colour(rng))
    colours = [sample_muted_colour(rng, low=0.2, high=0.85) for _ in range(5)]
    _MOTIFS[number % len(_MOTIFS)](canvas, rng, colours)
    paint_rim(canvas, (INK, WOOD, (0.8, 0.8, 0.78))[number % 3], 0.035)
    return canvas


def _paint_landscape(canvas: Canvas, rng: Rng, colours: list[Colour]) -> None:
    fill_mask(canvas, Y < 0.55, (0.6, 0.68, 0.75))
    fill_disc(canvas, (rng.uniform(0.2, 0.8), 0.25), 0.09, (0.88, 0.82, 0.6))
    for k, base in enumerate((0.45, 0.6, 0.75)):
        hill = base + 0.1 * np.sin(2 * np.pi * (X * rng.uniform(0.6, 2) + rng.uniform()))
        fill_mask(canvas, hill < Y, colours[k])


def _paint_circles(canvas: Canvas, rng: Rng, colours: list[Colour]) -> None:
    for k in range(9):
        middle = (rng.uniform(0.15, 0.85), rng.uniform(0.15, 0.85))
        fill_disc(canvas, middle, rng.uniform(0.06, 0.25), colours[k % 5])


def _paint_blocks(canvas: Canvas, rng: Rng, colours: list[Colour]) -> None:
    for k in range(8):
        x, y = rng.uniform(0.05, 0.6, 2)
        fill_rectangle(
            canvas, (x, y, x + rng.uniform(0.1, 0.4), y + rng.uniform(0.1, 0.4)), colours[k % 5]
        )
    for x in rng.uniform(0.1, 0.9, 2):
        fill_rectangle(canvas, (x, 0, x + 0.03, 1), INK)


def _paint_portrait(canvas: Canvas, rng: Rng, colours: list[Colour]) -> None:
    fill_mask(canvas, Y > 0, colours[0])
    fill_disc(canvas, (0.5, 1.05), 0.36, colours[1])
    skin = (0.78, 0.62, 0.5)
    fill_rectangle(canvas, (0.44, 0.5, 0.56, 0.75), skin)
    fill_disc(canvas, (0.5, 0.38), 0.2, colours[2])
    fill_mask(canvas, np.hypot((X - 0.5) / 0.8, Y - 0.43) < 0.19, skin)
    fill_disc(canvas, (0.43, 0.41), 0.022, INK)
    fill_disc(canvas, (0.57, 0.41), 0.022, INK)


def _paint_page(canvas: Canvas, rng: Rng, colours: list[Colour]) -> None:
    fill_rectangle(canvas, (0, 0, 1, 0.22), colours[0])
    fill_rectangle(canvas, (0.1, 0.08, 0.7, 0.15), PAPER)
    fill_rectangle(canvas, (0.1, 0.3, 0.48, 0.6), colours[1])
    paint_writing(canvas, (0.55, 0.3, 0.92, 0.6), rng, INK)
    paint_writing(canvas, (0.1, 0.68, 0.92, 0.92), rng, INK)


def _paint_map(canvas: Canvas, rng: Rng, colours: list[Colour]) -> None:
    fill_mask(canvas, Y > 0, (0.55, 0.66, 0.74))
    land = make_grain(5, rng=rng) + 0.4 * make_grain(12, rng=rng)
    fill_mask(canvas, land > 0.05, colours[0])
    fill_mask(canvas, land > 0.35, colours[1])
    fill_mask(canvas, np.minimum((X * 6) % 1, (Y * 6) % 1) < 0.05, (0.45, 0.52, 0.56))


def _paint_rays(canvas: Canvas, rng: Rng, colours: list[Colour]) -> None:
    cx, cy = rng.uniform(0.3, 0.7, 2)
    angle = np.arctan2(Y - cy, X - cx)
    fill_mask(canvas, (angle * rng.integers(4, 9) / np.pi) % 1 < 0.5, colours[0])
    fill_disc(canvas, (cx, cy), 0.2, colours[1])
    fill_disc(canvas, (cx, cy), 0.11, colours[2])


def _paint_chart(canvas: Canvas, rng: Rng, colours: list[Colour]) -> None:
    for k in range(6):
        top = rng.uniform(0.2, 0.8)
        fill_rectangle(canvas, (0.12 + 0.13 * k, top, 0.21 + 0.13 * k, 0.88), colours[k % 3])
    fill_rectangle(canvas, (0.08, 0.1, 0.1, 0.9), INK)
    fill_rectangle(canvas, (0.08, 0.88, 0.94, 0.9), INK)


def _paint_waves(canvas: Canvas, rng: Rng, colours: list[Colour]) -> None:
    bend = 0.08 * np.sin(2 * np.pi * X * rng.uniform(1, 3))
    band = np.floor((Y + bend) * rng.integers(5, 10)).astype(int)
    for k in range(5):
        fill_mask(canvas, band % 5 == k, colours[k])


_MOTIFS = (
    _paint_landscape,
    _paint_circles,
    _paint_blocks,
    _paint_portrait,
    _paint_page,
    _paint_map,
    _paint_rays,
    _paint_chart,
    _paint_waves,
)


def _paint_window_view(rng: Rng, *, panes: tuple[int, int], has_blinds: bool = False) -> Canvas:
    """A window seen from inside: sky, trees or houses, frame and bars."""
    canvas = make_canvas((0.72, 0.79, 0.86))
    canvas[..., :3] -= (Y * 0.1)[..., None]
    fill_mask(canvas, 0.62 + 0.14 * make_grain(6, rng=rng) < Y, (0.42, 0.52, 0.38))
    x = rng.uniform(0.1, 0.6)
    fill_rectangle(canvas, (x, 0.45, x + 0.3, 1), (0.6, 0.53, 0.47))
    if has_blinds:
        fill_mask(canvas, ((Y * 14) % 1 < 0.6) & (Y < 0.8), (0.82, 0.81, 0.77))
    white = (0.9, 0.9, 0.88)
    for k in range(1, panes[0]):
        fill_rectangle(canvas, (k / panes[0] - 0.018, 0, k / panes[0] + 0.018, 1), white)
    for k in range(1, panes[1]):
        fill_rectangle(canvas, (0, k / panes[1] - 0.018, 1, k / panes[1] + 0.018), white)
    paint_rim(canvas, white, 0.045)
    return canvas


def _paint_curtain(rng: Rng, colour: Colour) -> Canvas:
    canvas = make_canvas(colour)
    fold = np.sin(2 * np.pi * (X * 6 + 0.2 * make_grain(4, rng=rng)))
    canvas[..., :3] *= (0.85 + 0.15 * fold)[..., None]
    return canvas


def _paint_door(rng: Rng, colour: Colour, *, fields: int, has_glass: bool = False) -> Canvas:
    canvas = make_canvas(colour)
    dark = tuple(part * 0.72 for part in colour)
    for k in range(fields):
        top = 0.08 + k * 0.88 / fields
        fill_rectangle(canvas, (0.16, top, 0.84, top + 0.74 / fields), (dark[0], dark[1], dark[2]))
        fill_rectangle(canvas, (0.2, top + 0.02, 0.8, top + 0.72 / fields), colour)
    if has_glass:
        fill_rectangle(canvas, (0.3, 0.1, 0.7, 0.45), (0.62, 0.7, 0.74))
    fill_disc(canvas, (0.88, 0.52), 0.03, (0.3, 0.29, 0.27))
    paint_rim(canvas, (dark[0], dark[1], dark[2]), 0.035)
    return canvas


def _paint_cupboard_fronts(colour: Colour, *, columns: int, rows: int, bar: bool = True) -> Canvas:
    """Doors or drawers side by side, each with its handle."""
    canvas = make_canvas(colour)
    x, y = (X * columns) % 1, (Y * rows) % 1
    gap = (x < 0.03 * columns / 2) | (y < 0.03 * rows / 2)
    fill_mask(canvas, gap, (colour[0] * 0.5, colour[1] * 0.5, colour[2] * 0.5))
    handle = (np.abs(y - 0.18) < 0.05) & (np.abs(x - 0.5) < 0.2)
    if bar:
        handle = (np.abs(x - 0.84) < 0.03) & (np.abs(y - 0.4) < 0.16)
    fill_mask(canvas, handle, (0.3, 0.3, 0.31))
    return canvas


def _paint_books(rng: Rng, shelves: int) -> Canvas:
    canvas = make_canvas((0.22, 0.18, 0.15))
    for shelf in range(shelves):
        floor = (shelf + 1) / shelves - 0.02
        x = 0.05
        while x < 0.92:
            width = rng.uniform(0.02, 0.055)
            top = floor - rng.uniform(0.5, 0.85) / shelves
            if rng.uniform() > 0.12:
                fill_rectangle(
                    canvas,
                    (x, top, min(x + width, 0.95), floor),
                    sample_muted_colour(rng, low=0.25, high=0.8),
                )
            x += width + 0.006
        fill_rectangle(canvas, (0, floor, 1, floor + 0.025), WOOD)
    paint_rim(canvas, WOOD, 0.04)
    return canvas


def _paint_board(rng: Rng, colour: Colour, ink: Colour, rim: Colour) -> Canvas:
    canvas = make_canvas(colour)
    for _ in range(3):
        x, y = rng.uniform(0.06, 0.6), rng.uniform(0.1, 0.55)
        paint_writing(canvas, (x, y, x + 0.35, y + 0.3), rng, ink)
    points = [(float(x), float(rng.uniform(0.3, 0.8))) for x in np.linspace(0.55, 0.9, 6)]
    paint_stroke(canvas, points, 0.015, ink)
    paint_rim(canvas, rim, 0.03)
    return canvas


def _paint_notices(rng: Rng) -> Canvas:
    canvas = make_canvas((0.62, 0.5, 0.36))
    for _ in range(14):
        x, y = rng.uniform(0.04, 0.78), rng.uniform(0.05, 0.75)
        edges = (x, y, x + rng.uniform(0.1, 0.18), y + rng.uniform(0.12, 0.22))
        fill_rectangle(canvas, edges, sample_muted_colour(rng, low=0.7, high=0.95))
    paint_rim(canvas, WOOD, 0.03)
    return canvas


def _paint_screen(rng: Rng) -> Canvas:
    canvas = make_canvas((0.24, 0.32, 0.42))
    fill_rectangle(canvas, (0.1, 0.12, 0.6, 0.7), (0.82, 0.84, 0.84))
    paint_writing(canvas, (0.14, 0.2, 0.55, 0.66), rng, (0.35, 0.4, 0.48))
    paint_rim(canvas, (0.1, 0.1, 0.11), 0.06)
    return canvas


def _paint_clock(rng: Rng) -> Canvas:
    canvas = make_canvas()
    fill_disc(canvas, (0.5, 0.5), 0.48, INK)
    fill_disc(canvas, (0.5, 0.5), 0.42, (0.9, 0.9, 0.87))
    paint_stroke(canvas, [(0.5, 0.5), (0.5, 0.18)], 0.05, INK)
    paint_stroke(canvas, [(0.5, 0.5), (0.72, 0.6)], 0.06, INK)
    return canvas


def _paint_stove(rng: Rng) -> Canvas:
    canvas = make_canvas((0.72, 0.72, 0.72))
    fill_rectangle(canvas, (0.1, 0.3, 0.9, 0.85), (0.14, 0.14, 0.15))
    fill_rectangle(canvas, (0.12, 0.24, 0.88, 0.27), (0.4, 0.4, 0.4))
    for x in (0.2, 0.4, 0.6, 0.8):
        fill_disc(canvas, (x, 0.1), 0.05, INK)
    return canvas


def _paint_wall_bars(rng: Rng) -> Canvas:
    """Wall bars of a gym."""
    canvas = make_canvas((0.74, 0.72, 0.66))
    fill_mask(canvas, (Y * 14) % 1 < 0.45, (0.6, 0.44, 0.28))
    for x in (0.0, 0.47, 0.94):
        fill_rectangle(canvas, (x, 0, x + 0.06, 1), (0.5, 0.36, 0.23))
    return canvas


def _paint_hoop(rng: Rng) -> Canvas:
    canvas = make_canvas((0.88, 0.88, 0.86))
    fill_rectangle(canvas, (0.32, 0.45, 0.68, 0.9), (0.7, 0.3, 0.22))
    fill_rectangle(canvas, (0.37, 0.5, 0.63, 0.85), (0.88, 0.88, 0.86))
    paint_rim(canvas, (0.7, 0.3, 0.22), 0.04)
    return canvas


def _paint_plant(rng: Rng, *, leaves: int, broad: float) -> Canvas:
    canvas = make_canvas()
    for k in range(leaves):
        angle = np.pi * (0.08 + 0.84 * k / (leaves - 1)) + rng.uniform(-0.1, 0.1)
        reach = rng.uniform(0.4, 0.55)
        tip = (0.5 + reach * np.cos(angle) * 0.85, 0.98 - reach * np.sin(angle) * 1.6)
        bend = (0.5 + reach * np.cos(angle) * 0.35, 0.98 - reach * np.sin(angle) * 1.1)
        green = (0.2 + rng.uniform(0, 0.14), 0.36 + rng.uniform(0, 0.14), 0.2)
        paint_stroke(canvas, [(0.5, 1.0), bend, tip], broad, green)
    return canvas


INDOOR_PRINTS: dict[str, Callable[[Rng], Canvas]] = {
    "window_cross": lambda rng: _paint_window_view(rng, panes=(2, 2)),
    "window_wide": lambda rng: _paint_window_view(rng, panes=(3, 1)),
    "window_tall": lambda rng: _paint_window_view(rng, panes=(2, 4)),
    "window_bars": lambda rng: _paint_window_view(rng, panes=(6, 3)),
    "window_blinds": lambda rng: _paint_window_view(rng, panes=(2, 1), has_blinds=True),
    "curtain_warm": lambda rng: _paint_curtain(rng, (0.62, 0.5, 0.42)),
    "curtain_cool": lambda rng: _paint_curtain(rng, (0.46, 0.54, 0.6)),
    "curtain_pale": lambda rng: _paint_curtain(rng, (0.78, 0.76, 0.7)),
    "door_panels": lambda rng: _paint_door(rng, (0.66, 0.62, 0.55), fields=3),
    "door_plain": lambda rng: _paint_door(rng, (0.55, 0.43, 0.31), fields=1),
    "door_glass": lambda rng: _paint_door(rng, (0.5, 0.55, 0.58), fields=1, has_glass=True),
    "door_two": lambda rng: _paint_door(rng, (0.45, 0.5, 0.44), fields=2),
    "cupboard_white": lambda rng: _paint_cupboard_fronts((0.8, 0.79, 0.75), columns=2, rows=1),
    "cupboard_wood": lambda rng: _paint_cupboard_fronts((0.58, 0.44, 0.31), columns=2, rows=1),
    "cupboard_green": lambda rng: _paint_cupboard_fronts((0.5, 0.57, 0.5), columns=2, rows=1),
    "wardrobe": lambda rng: _paint_cupboard_fronts((0.62, 0.52, 0.42), columns=3, rows=1),
    "drawers": lambda rng: _paint_cupboard_fronts((0.66, 0.6, 0.52), columns=1, rows=3, bar=False),
    "filing": lambda rng: _paint_cupboard_fronts((0.58, 0.6, 0.62), columns=1, rows=4, bar=False),
    "lockers": lambda rng: _paint_cupboard_fronts((0.48, 0.56, 0.62), columns=4, rows=1),
    "fridge": lambda rng: _paint_cupboard_fronts((0.83, 0.83, 0.82), columns=1, rows=2),
    "stove": _paint_stove,
    "books_three": lambda rng: _paint_books(rng, 3),
    "books_five": lambda rng: _paint_books(rng, 5),
    "books_four": lambda rng: _paint_books(rng, 4),
    "blackboard": lambda rng: _paint_board(rng, (0.2, 0.28, 0.25), (0.75, 0.77, 0.74), WOOD),
    "whiteboard": lambda rng: _paint_board(
        rng, (0.86, 0.87, 0.87), (0.3, 0.36, 0.55), (0.6, 0.6, 0.6)
    ),
    "notices": _paint_notices,
    "screen": _paint_screen,
    "clock": _paint_clock,
    "wall_bars": _paint_wall_bars,
    "hoop": _paint_hoop,
    "plant_broad": lambda rng: _paint_plant(rng, leaves=9, broad=0.1),
    "plant_thin": lambda rng: _paint_plant(rng, leaves=17, broad=0.045),
    "dark": lambda rng: make_canvas((0.13, 0.13, 0.14)),
    "lamp": lambda rng: make_canvas((0.96, 0.93, 0.84)),
}
NUM_FACADES = 14
NUM_SHOPS = 8
_GLASS: Colour = (0.3, 0.36, 0.42)
_STONE: Colour = (0.8, 0.78, 0.73)


def paint_fronts(seed: int) -> dict[str, Canvas]:
    """The fronts of houses, ``facade_00`` and so on, ``shop_00`` and so on."""
    return {
        f"{name}_{number:02}": make(np.random.default_rng([seed, first + number]), number)
        for name, make, first, count in (
            ("facade", _paint_facade, 2000, NUM_FACADES),
            ("shop", _paint_shop, 3000, NUM_SHOPS),
        )
        for number in range(count)
    }


def _paint_facade(rng: Rng, number: int) -> Canvas:
    """Upper floors of a house: one storey grid of windows; walls are near grey, to be tinted."""
    canvas = make_canvas((0.72, 0.7, 0.67))
    rows, columns = ((3, 3), (4, 4), (3, 5), (2, 3), (4, 2), (3, 4), (5, 5))[number % 7]
    canvas[..., :3] += (make_grain(32, rng=rng) * 0.03)[..., None]
    style = number % 5
    if style == 1:  # brick courses
        canvas[..., :3] -= ((Y * 32) % 1 < 0.3)[..., None] * 0.1
    if style == 3:  # bands of glass
        x, y = X, (Y * rows) % 1
        fill_mask(canvas, (y > 0.3) & (y < 0.72), _GLASS)
        fill_mask(canvas, ((x * columns * 2) % 1 < 0.12) & (y > 0.3) & (y < 0.72), _STONE)
        return canvas
    x, y = (X * columns) % 1 - 0.5, (Y * rows) % 1 - 0.5
    half_w, half_h = rng.uniform(0.2, 0.32), rng.uniform(0.26, 0.36)
    trim = (np.abs(x) < half_w + 0.06) & (np.abs(y) < half_h + 0.06)
    fill_mask(canvas, trim, _STONE)
    opening = (np.abs(x) < half_w) & (np.abs(y) < half_h)
    if style == 2:  # round tops
        opening &= (y > -half_h + half_w) | (np.hypot(x, y + half_h - half_w) < half_w)
    fill_mask(canvas, opening, _GLASS)
    fill_mask(
        canvas, opening & ((np.abs(x) < 0.035) | (np.abs(y + 0.08) < 0.03)), (0.82, 0.8, 0.76)
    )
    if style == 4:  # shutters
        shutter = (np.abs(np.abs(x) - half_w - 0.1) < 0.08) & (np.abs(y) < half_h)
        fill_mask(canvas, shutter, sample_muted_colour(rng, low=0.3, high=0.5))
    if style == 0:  # balconies
        rail = (np.abs(y - half_h + 0.02) < 0.1) & (np.abs(x) < half_w + 0.1)
        fill_mask(canvas, rail & ((X * columns * 12) % 1 < 0.5), (0.28, 0.28, 0.29))
    return canvas


def _paint_shop(rng: Rng, number: int) -> Canvas:
    """Ground floor with a sign, a window and a door."""
    canvas = make_canvas((0.62, 0.6, 0.57))
    fill_rectangle(canvas, (0.03, 0.05, 0.97, 0.24), sample_muted_colour(rng, low=0.3, high=0.6))
    x = 0.12
    while x < 0.85:  # letters
        width = rng.uniform(0.03, 0.07)
        fill_rectangle(canvas, (x, 0.1, x + width, 0.19), (0.87, 0.85, 0.78))
        x += width + 0.025
    if number % 2:  # awning
        fill_mask(
            canvas,
            (Y > 0.26) & (Y < 0.4) & ((X * 9) % 1 < 0.5),
            sample_muted_colour(rng, low=0.5, high=0.7),
        )
        fill_mask(canvas, (Y > 0.26) & (Y < 0.4) & ((X * 9) % 1 >= 0.5), (0.84, 0.82, 0.77))
    door = rng.choice([0.08, 0.4, 0.7])
    for left, right in ((0.05, 0.32), (0.37, 0.63), (0.68, 0.95)):
        fill_rectangle(canvas, (left, 0.42, right, 0.88), _GLASS)
        for _ in range(5):
            gx = rng.uniform(left, right - 0.06)
            gy = rng.uniform(0.55, 0.8)
            fill_rectangle(canvas, (gx, gy, gx + 0.05, 0.86), sample_muted_colour(rng))
    fill_rectangle(
        canvas, (door, 0.4, door + 0.22, 1), sample_muted_colour(rng, low=0.25, high=0.5)
    )
    fill_rectangle(canvas, (door + 0.04, 0.45, door + 0.18, 0.8), (0.5, 0.57, 0.6))
    return canvas


def _paint_crown(rng: Rng, *, colour: Colour, slim: float, gaps: float) -> Canvas:
    """A tree's leaves: a ragged ball with holes."""
    canvas = make_canvas()
    radius = np.hypot((X - 0.5) / slim, Y - 0.5)
    edge = 0.44 + 0.07 * make_grain(10, rng=rng) + 0.05 * make_grain(24, rng=rng)
    where = (radius < edge) & (make_grain(14, rng=rng) < gaps)
    fill_mask(canvas, where, colour)
    tone = 1 + 0.3 * make_grain(24, rng=rng) + 0.25 * (0.5 - Y)
    canvas[..., :3] *= tone[..., None]
    return canvas


def _paint_conifer(rng: Rng) -> Canvas:
    canvas = make_canvas()
    tooth = np.abs((Y * 7) % 1) * 0.1
    where = np.abs(X - 0.5) < Y * 0.36 + tooth + 0.03 * make_grain(24, rng=rng)
    fill_mask(canvas, where, (0.24, 0.33, 0.26))
    canvas[..., :3] *= (1 + 0.3 * make_grain(24, rng=rng))[..., None]
    return canvas


def _paint_bare_tree(rng: Rng) -> Canvas:
    """Branches in winter."""
    canvas = make_canvas()

    def grow_branch(x: float, y: float, angle: float, length: float, width: float) -> None:
        end = (x + length * np.sin(angle), y - length * np.cos(angle))
        paint_stroke(canvas, [(x, y), end], width, (0.34, 0.28, 0.23))
        if width > 0.014:
            for side in (-1, 1):
                grow_branch(
                    *end, angle + side * rng.uniform(0.25, 0.6), length * 0.78, width * 0.68
                )

    grow_branch(0.5, 1.0, 0.0, 0.26, 0.06)
    return canvas


def _paint_fence(kind: int) -> Canvas:
    canvas = make_canvas()
    if kind == 0:  # railing
        fill_mask(canvas, ((X * 12) % 1 < 0.3) | (Y % 0.85 < 0.08), (0.25, 0.27, 0.28))
    elif kind == 1:  # pickets
        fill_mask(canvas, (X * 8) % 1 < 0.68, (0.74, 0.7, 0.62))
        fill_mask(canvas, np.abs(Y - 0.3) < 0.04, (0.6, 0.56, 0.5))
        canvas[(np.abs((X * 8) % 1 - 0.34) / 4 + 0.02 > Y) & (Y < 0.1)] = 0
    else:  # wire
        mesh = np.minimum((X * 10 + Y * 10) % 1, (X * 10 - Y * 10) % 1) < 0.2
        fill_mask(canvas, mesh | (np.abs(X % 0.5 - 0.02) < 0.02) | (Y < 0.04), (0.45, 0.47, 0.47))
    return canvas


def _paint_wheel(rng: Rng) -> Canvas:
    canvas = make_canvas()
    fill_disc(canvas, (0.5, 0.5), 0.49, (0.1, 0.1, 0.11))
    fill_disc(canvas, (0.5, 0.5), 0.28, (0.55, 0.56, 0.57))
    fill_disc(canvas, (0.5, 0.5), 0.1, (0.25, 0.25, 0.26))
    return canvas


def _paint_cabin(rng: Rng, *, posts: int) -> Canvas:
    canvas = make_canvas((0.2, 0.24, 0.28))
    canvas[..., :3] += (0.16 * (X - Y))[..., None].clip(0)
    for k in range(posts + 1):
        x = k / posts
        fill_rectangle(canvas, (x - 0.04, 0, x + 0.04, 1), (0.35, 0.35, 0.36))
    return canvas


def _paint_car_nose(rng: Rng, lamp: Colour) -> Canvas:
    canvas = make_canvas((0.7, 0.7, 0.7))
    fill_rectangle(canvas, (0.05, 0.2, 0.25, 0.45), lamp)
    fill_rectangle(canvas, (0.75, 0.2, 0.95, 0.45), lamp)
    fill_rectangle(canvas, (0.3, 0.25, 0.7, 0.5), (0.15, 0.15, 0.16))
    fill_rectangle(canvas, (0.35, 0.62, 0.65, 0.78), (0.87, 0.87, 0.84))
    fill_rectangle(canvas, (0, 0.85, 1, 1), (0.2, 0.2, 0.21))
    return canvas


def _paint_sign(rng: Rng, colour: Colour, *, is_round: bool) -> Canvas:
    canvas = make_canvas()
    where = np.hypot(X - 0.5, Y - 0.5) < 0.49 if is_round else (Y > 0.1) & (Y < 0.9)
    fill_mask(canvas, where, colour)
    fill_mask(canvas, where & (np.abs(Y - 0.5) < 0.1) & (np.abs(X - 0.5) < 0.33), (0.9, 0.9, 0.88))
    return canvas


def _paint_bicycle(rng: Rng) -> Canvas:
    canvas = make_canvas()
    ink = (0.2, 0.24, 0.3)
    for x in (0.22, 0.78):
        ring = np.abs(np.hypot(X - x, Y - 0.72) - 0.19) < 0.025
        fill_mask(canvas, ring, (0.15, 0.15, 0.16))
    paint_stroke(
        canvas, [(0.22, 0.72), (0.4, 0.4), (0.7, 0.4), (0.48, 0.74), (0.22, 0.72)], 0.04, ink
    )
    paint_stroke(canvas, [(0.48, 0.74), (0.37, 0.3), (0.3, 0.3), (0.44, 0.3)], 0.04, ink)
    paint_stroke(canvas, [(0.78, 0.72), (0.68, 0.28), (0.78, 0.26)], 0.04, ink)
    return canvas


def _paint_ivy(rng: Rng) -> Canvas:
    canvas = make_canvas()
    where = make_grain(7, rng=rng) + 0.6 * make_grain(20, rng=rng) + (0.35 - Y) > 0
    fill_mask(canvas, where, (0.3, 0.4, 0.26))
    canvas[..., :3] *= (1 + 0.35 * make_grain(32, rng=rng))[..., None]
    return canvas


def _paint_graffiti(rng: Rng) -> Canvas:
    canvas = make_canvas()
    colour = sample_muted_colour(rng, low=0.5, high=0.8)
    at = [(0.1 + 0.1 * k, float(rng.uniform(0.2, 0.8))) for k in range(9)]
    paint_stroke(canvas, at, 0.17, (0.15, 0.15, 0.17))
    paint_stroke(canvas, at, 0.1, colour)
    return canvas


def _paint_arches(rng: Rng) -> Canvas:
    canvas = make_canvas((0.72, 0.7, 0.66))
    x = (X * 3) % 1 - 0.5
    hole = (np.abs(x) < 0.33) & ((Y > 0.5) | (np.hypot(x, (Y - 0.5) * 1.4) < 0.33))
    fill_mask(canvas, hole, (0.25, 0.24, 0.24))
    fill_mask(canvas, np.abs(Y - 0.08) < 0.04, _STONE)
    return canvas


def _paint_sky(rng: Rng, *, cloud: float) -> Canvas:
    """Upper edge high in the sky, lower edge at the horizon."""
    canvas = make_canvas((0.6, 0.68, 0.78))
    canvas[..., :3] += (Y * 0.2)[..., None]
    puff = (
        make_grain(3, rng=rng) * 0.5 + make_grain(6, rng=rng) * 0.4 + make_grain(12, rng=rng) * 0.2
    )
    part = np.clip((puff + cloud) * 3, 0, 1)[..., None] * 0.7
    canvas[..., :3] = canvas[..., :3] * (1 - part) + 0.86 * part
    return canvas


def _paint_parking_bays(rng: Rng) -> Canvas:
    canvas = make_canvas((0.42, 0.42, 0.43))
    canvas[..., :3] += (make_grain(64, rng=rng) * 0.04)[..., None]
    fill_mask(canvas, (X < 0.04) & (Y < 0.9), (0.82, 0.82, 0.8))
    return canvas


STREET_PRINTS: dict[str, Callable[[Rng], Canvas]] = {
    "crown_green": lambda rng: _paint_crown(rng, colour=(0.36, 0.45, 0.28), slim=1.0, gaps=0.62),
    "crown_dark": lambda rng: _paint_crown(rng, colour=(0.27, 0.37, 0.26), slim=0.75, gaps=0.8),
    "crown_autumn": lambda rng: _paint_crown(rng, colour=(0.56, 0.42, 0.25), slim=1.05, gaps=0.5),
    "bush": lambda rng: _paint_crown(rng, colour=(0.33, 0.42, 0.27), slim=1.1, gaps=0.9),
    "conifer": _paint_conifer,
    "bare": _paint_bare_tree,
    "railing": lambda rng: _paint_fence(0),
    "pickets": lambda rng: _paint_fence(1),
    "wire": lambda rng: _paint_fence(2),
    "wheel": _paint_wheel,
    "cabin_side": lambda rng: _paint_cabin(rng, posts=3),
    "cabin_end": lambda rng: _paint_cabin(rng, posts=1),
    "car_nose": lambda rng: _paint_car_nose(rng, (0.88, 0.87, 0.8)),
    "car_tail": lambda rng: _paint_car_nose(rng, (0.6, 0.2, 0.18)),
    "sign_round": lambda rng: _paint_sign(rng, (0.66, 0.25, 0.22), is_round=True),
    "sign_square": lambda rng: _paint_sign(rng, (0.3, 0.42, 0.58), is_round=False),
    "bicycle": _paint_bicycle,
    "ivy": _paint_ivy,
    "graffiti": _paint_graffiti,
    "arches": _paint_arches,
    "sky_clear": lambda rng: _paint_sky(rng, cloud=-0.3),
    "sky_cloudy": lambda rng: _paint_sky(rng, cloud=0.15),
    "bays": _paint_parking_bays,
}

LEVEL_SIZES = tuple(SIZE_PX >> level for level in range(6))
LEVEL_STARTS = tuple(sum(size * size for size in LEVEL_SIZES[:level]) for level in range(6))
_POOL_SEED = 7  # the pool is the same in every world; places differ in what they take from it


@dataclass(frozen=True, eq=False, kw_only=True)
class TexturePool:
    """All textures.

    Args:
        texels: (textures, texels, 4) uint8, red, green, blue, alpha; the levels of one texture
            follow each other, each row by row, each half as wide as the one before.
        index: place of each name.
    """

    texels: np.ndarray
    index: dict[str, int]

    def read_texture(self, name: str) -> np.ndarray:
        """One texture at full size, (SIZE_PX, SIZE_PX, 4) uint8."""
        full = self.texels[self.index[name], : SIZE_PX * SIZE_PX]
        return full.reshape(SIZE_PX, SIZE_PX, 4)


@cache
def pool() -> TexturePool:
    """The pool; drawn once and kept, not to be written to."""
    every = (
        surfaces.paint_posters(_POOL_SEED)
        | draw_each_print(_POOL_SEED)
        | paint_all(INDOOR_PRINTS, _POOL_SEED)
    )
    every |= paint_all(STREET_PRINTS, _POOL_SEED) | paint_fronts(_POOL_SEED)
    texels = np.stack([_make_texture_levels(canvas) for canvas in every.values()])
    texels.setflags(write=False)
    return TexturePool(texels=texels, index={name: number for number, name in enumerate(every)})


def _make_texture_levels(canvas: Canvas) -> np.ndarray:
    """The texture and its halvings as one row of texels; clear texels lend no colour."""
    alpha = canvas[..., 3:]
    level = np.concatenate([np.clip(canvas[..., :3], 0, 1) * alpha, alpha], axis=2)
    rows = []
    for size in LEVEL_SIZES:
        solid = np.where(level[..., 3:] > 0, level[..., :3] / np.maximum(level[..., 3:], 1e-9), 0)
        shown = np.concatenate([solid, level[..., 3:]], axis=2)
        rows.append((shown * 255 + 0.5).astype(np.uint8).reshape(-1, 4))
        level = level.reshape(size // 2, 2, size // 2, 2, 4).mean(axis=(1, 3))
    return np.concatenate(rows)
