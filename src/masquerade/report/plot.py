"""Line plots as SVG text."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WIDTH, HEIGHT = 680, 380
LEFT, RIGHT, TOP = 64, WIDTH - 176, 34  # edges of what is drawn; the legend is to the right of it
_BOTTOM = HEIGHT - 48
COLOURS = ("#1b6ca8", "#c8553d", "#3d8361", "#8e5ea2", "#b8860b", "#555555")


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """One curve: a name, x and y, and how it is drawn; its place decides the colour if none is."""

    name: str
    x: np.ndarray
    y: np.ndarray
    is_faint: bool = False
    colour: int | None = None


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Titles and scales of a plot."""

    title: str
    x_label: str
    y_label: str
    is_log: bool = False


def svg(lines: Sequence[Line], axes: Axes) -> str:
    """Draw the lines; on logarithmic axes values that are not positive are left out."""
    xs = Ruler.around([line.x for line in lines], LEFT, RIGHT, is_log=axes.is_log)
    ys = Ruler.around([line.y for line in lines], _BOTTOM, TOP, is_log=axes.is_log)
    parts = head(axes)
    for tick in xs.ticks():
        at = xs.place(tick)
        parts.append(f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{_BOTTOM}" stroke="#ddd"/>')
        parts.append(f'<text x="{at:.1f}" y="{_BOTTOM + 16}" text-anchor="middle">{tick:g}</text>')
    parts += levels(ys)
    for number, line in enumerate(lines):
        colour = COLOURS[(number if line.colour is None else line.colour) % len(COLOURS)]
        points = " ".join(
            f"{xs.place(x):.1f},{ys.place(y):.1f}"
            for x, y in zip(line.x.tolist(), line.y.tolist(), strict=True)
            if not axes.is_log or (x > 0 and y > 0)
        )
        look = 'stroke-width="0.7" opacity="0.45"' if line.is_faint else 'stroke-width="2"'
        at = TOP + 12 + 20 * number
        parts += [
            f'<polyline points="{points}" fill="none" stroke="{colour}" {look}/>',
            f'<line x1="{RIGHT + 12}" y1="{at}" x2="{RIGHT + 32}" y2="{at}" stroke="{colour}" '
            f"{look}/>",
            f'<text x="{RIGHT + 38}" y="{at + 4}">{html.escape(line.name)}</text>',
        ]
    return "\n".join([*parts, *labels(axes, _BOTTOM), "</svg>"])


def head(axes: Axes, *, width: int = WIDTH, height: int = HEIGHT) -> list[str]:
    """How a plot begins, and its title; larger where the legend needs the room."""
    title = html.escape(axes.title)
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{title}" font-family="system-ui, sans-serif" '
        'font-size="12">',
        f'<text x="{LEFT}" y="18" font-size="14" font-weight="600">{title}</text>',
    ]


def labels(axes: Axes, bottom: float) -> list[str]:
    """What the axes of a plot that ends at ``bottom`` show."""
    return [
        f'<text x="{(LEFT + RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">'
        f"{html.escape(axes.x_label)}</text>",
        f'<text transform="translate(16 {(TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">'
        f"{html.escape(axes.y_label)}</text>",
    ]


def levels(ys: Ruler) -> list[str]:
    """Lines across the plot, each with its value before it."""
    parts = []
    for tick in ys.ticks():
        at = ys.place(tick)
        parts.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{RIGHT}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{tick:g}</text>')
    return parts


@dataclass(frozen=True)
class Ruler:
    """Maps values to pixels."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool

    @classmethod
    def around(
        cls, arrays: Sequence[np.ndarray], start: float, end: float, *, is_log: bool
    ) -> Ruler:
        """The scale from ``start`` to ``end`` on which all values lie."""
        values = np.concatenate([np.asarray(array, dtype=np.float64) for array in arrays])
        values = values[values > 0] if is_log else values
        low, high = float(values.min()), float(values.max())
        if not low < high:
            low, high = low - abs(low) / 2 - 1e-9, high + abs(high) / 2 + 1e-9
        return cls(low, high, start, end, is_log)

    def place(self, value: float) -> float:
        """Its pixel."""
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values to mark."""
        if self.is_log:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            found = [m * 10.0**d for d in decades for m in (1, 2, 5)]
            found = [10.0**d for d in decades] if len(found) > 15 else found
        else:
            step = 10.0 ** math.floor(math.log10((self.high - self.low) / 2))
            step *= next(m for m in (1, 2, 5, 10) if (self.high - self.low) / (step * m) <= 8)
            first = math.ceil(self.low / step)
            found = [step * k for k in range(first, math.floor(self.high / step) + 1)]
        return [tick for tick in found if self.low <= tick <= self.high]
