"""Posters and framed pictures, and the ink, paper and muted colours that other prints share."""

from __future__ import annotations

import colorsys

import numpy as np

from masquerade.data.world.canvas import Canvas, Colour, X, Y, blank, disc, fill, grain, rect

Rng = np.random.Generator
NUM_POSTERS = 36
INK: Colour = (0.16, 0.16, 0.18)
PAPER: Colour = (0.86, 0.84, 0.79)
WOOD: Colour = (0.5, 0.38, 0.27)


def every(seed: int) -> dict[str, Canvas]:
    """All posters, ``poster_00`` and so on."""
    return {
        f"poster_{number:02}": _poster(np.random.default_rng([seed, 1000 + number]), number)
        for number in range(NUM_POSTERS)
    }


def muted(rng: Rng, *, low: float = 0.35, high: float = 0.8) -> Colour:
    """A colour that does not shout."""
    hue, saturation = float(rng.uniform()), float(rng.uniform(0.1, 0.38))
    return colorsys.hsv_to_rgb(hue, saturation, float(rng.uniform(low, high)))


def frame(canvas: Canvas, colour: Colour, width: float) -> None:
    """Paint the rim."""
    inside = (np.abs(X - 0.5) < 0.5 - width) & (np.abs(Y - 0.5) < 0.5 - width)
    fill(canvas, ~inside, colour)


def writing(canvas: Canvas, box: tuple[float, float, float, float], rng: Rng, ink: Colour) -> None:
    """Paint lines that look like text into left, top, right, bottom."""
    left, top, right, bottom = box
    for y in np.arange(top, bottom, 0.07):
        end = rng.uniform(left + (right - left) * 0.4, right)
        rect(canvas, (left, y, end, y + 0.028), ink)


def _poster(rng: Rng, number: int) -> Canvas:
    canvas = blank(PAPER if number % 3 else muted(rng))
    colours = [muted(rng, low=0.2, high=0.85) for _ in range(5)]
    _MOTIFS[number % len(_MOTIFS)](canvas, rng, colours)
    frame(canvas, (INK, WOOD, (0.8, 0.8, 0.78))[number % 3], 0.035)
    return canvas


def _landscape(canvas: Canvas, rng: Rng, colours: list[Colour]) -> None:
    fill(canvas, Y < 0.55, (0.6, 0.68, 0.75))
    disc(canvas, (rng.uniform(0.2, 0.8), 0.25), 0.09, (0.88, 0.82, 0.6))
    for k, base in enumerate((0.45, 0.6, 0.75)):
        hill = base + 0.1 * np.sin(2 * np.pi * (X * rng.uniform(0.6, 2) + rng.uniform()))
        fill(canvas, hill < Y, colours[k])


def _circles(canvas: Canvas, rng: Rng, colours: list[Colour]) -> None:
    for k in range(9):
        middle = (rng.uniform(0.15, 0.85), rng.uniform(0.15, 0.85))
        disc(canvas, middle, rng.uniform(0.06, 0.25), colours[k % 5])


def _blocks(canvas: Canvas, rng: Rng, colours: list[Colour]) -> None:
    for k in range(8):
        x, y = rng.uniform(0.05, 0.6, 2)
        rect(canvas, (x, y, x + rng.uniform(0.1, 0.4), y + rng.uniform(0.1, 0.4)), colours[k % 5])
    for x in rng.uniform(0.1, 0.9, 2):
        rect(canvas, (x, 0, x + 0.03, 1), INK)


def _portrait(canvas: Canvas, rng: Rng, colours: list[Colour]) -> None:
    fill(canvas, Y > 0, colours[0])
    disc(canvas, (0.5, 1.05), 0.36, colours[1])
    skin = (0.78, 0.62, 0.5)
    rect(canvas, (0.44, 0.5, 0.56, 0.75), skin)
    disc(canvas, (0.5, 0.38), 0.2, colours[2])
    fill(canvas, np.hypot((X - 0.5) / 0.8, Y - 0.43) < 0.19, skin)
    disc(canvas, (0.43, 0.41), 0.022, INK)
    disc(canvas, (0.57, 0.41), 0.022, INK)


def _page(canvas: Canvas, rng: Rng, colours: list[Colour]) -> None:
    rect(canvas, (0, 0, 1, 0.22), colours[0])
    rect(canvas, (0.1, 0.08, 0.7, 0.15), PAPER)
    rect(canvas, (0.1, 0.3, 0.48, 0.6), colours[1])
    writing(canvas, (0.55, 0.3, 0.92, 0.6), rng, INK)
    writing(canvas, (0.1, 0.68, 0.92, 0.92), rng, INK)


def _map(canvas: Canvas, rng: Rng, colours: list[Colour]) -> None:
    fill(canvas, Y > 0, (0.55, 0.66, 0.74))
    land = grain(5, rng=rng) + 0.4 * grain(12, rng=rng)
    fill(canvas, land > 0.05, colours[0])
    fill(canvas, land > 0.35, colours[1])
    fill(canvas, np.minimum((X * 6) % 1, (Y * 6) % 1) < 0.05, (0.45, 0.52, 0.56))


def _rays(canvas: Canvas, rng: Rng, colours: list[Colour]) -> None:
    cx, cy = rng.uniform(0.3, 0.7, 2)
    angle = np.arctan2(Y - cy, X - cx)
    fill(canvas, (angle * rng.integers(4, 9) / np.pi) % 1 < 0.5, colours[0])
    disc(canvas, (cx, cy), 0.2, colours[1])
    disc(canvas, (cx, cy), 0.11, colours[2])


def _chart(canvas: Canvas, rng: Rng, colours: list[Colour]) -> None:
    for k in range(6):
        top = rng.uniform(0.2, 0.8)
        rect(canvas, (0.12 + 0.13 * k, top, 0.21 + 0.13 * k, 0.88), colours[k % 3])
    rect(canvas, (0.08, 0.1, 0.1, 0.9), INK)
    rect(canvas, (0.08, 0.88, 0.94, 0.9), INK)


def _waves(canvas: Canvas, rng: Rng, colours: list[Colour]) -> None:
    bend = 0.08 * np.sin(2 * np.pi * X * rng.uniform(1, 3))
    band = np.floor((Y + bend) * rng.integers(5, 10)).astype(int)
    for k in range(5):
        fill(canvas, band % 5 == k, colours[k])


_MOTIFS = (_landscape, _circles, _blocks, _portrait, _page, _map, _rays, _chart, _waves)
