"""What is kept against what is given away, as SVG text: dots, whiskers, and the frontier."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.report import plot
from masquerade.report.plot import Axes, Ruler

_BOTTOM = plot.HEIGHT - 48
_ROW, _LETTER = 17, 5.2  # pixels of a line of the legend, and of a letter there


@dataclass(frozen=True, kw_only=True)
class Dot:
    """One thing that was published.

    Args:
        name: what it is, with its epsilon and unit if it has any.
        given_away: what an attacker gets of it.
        low: the lower end of that figure's interval.
        high: its upper end.
        kept: what it is still good for.
        spread: half the length of the whisker of that; 0 draws none.
        is_proved: whether an epsilon stands behind it.
        is_this: whether the page is about it; it is ringed.
    """

    name: str
    given_away: float
    low: float
    high: float
    kept: float
    spread: float = 0.0
    is_proved: bool = False
    is_this: bool = False


def svg(dots: Sequence[Dot], axes: Axes) -> str:
    """Draw the dots, numbered, with their names beside the plot; a line joins the best ones.

    Example:
        >>> one = Dot(name="blur", given_away=40, low=38, high=42, kept=70)
        >>> two = Dot(name="noise", given_away=33, low=32, high=35, kept=20, is_proved=True)
        >>> drawn = svg([one, two], Axes(title="t", x_label="attack", y_label="use"))
        >>> drawn.count("<circle"), drawn.count('class="frontier"')
        (4, 1)
    """
    if not dots:
        raise ValueError("Expected at least one dot, got none.")
    ends = np.array([[dot.low, dot.high] for dot in dots])
    heights = np.array([[dot.kept - dot.spread, dot.kept + dot.spread] for dot in dots])
    xs = Ruler.around([ends.ravel()], plot.LEFT + 8, plot.RIGHT - 8, is_log=False)
    ys = Ruler.around([heights.ravel()], _BOTTOM - 8, plot.TOP + 8, is_log=False)
    room = math.ceil(plot.RIGHT + 44 + _LETTER * max(len(dot.name) for dot in dots))
    width, height = max(plot.WIDTH, room), max(plot.HEIGHT, plot.TOP + 20 + _ROW * len(dots))
    head = plot.head(axes, width=width, height=height)
    parts = [*head, *plot.labels(axes, _BOTTOM), *plot.levels(ys)]
    for tick in xs.ticks():
        at = xs.place(tick)
        parts.append(f'<text x="{at:.1f}" y="{_BOTTOM + 16}" text-anchor="middle">{tick:g}</text>')
    best = " ".join(f"{xs.place(x):.1f},{ys.place(y):.1f}" for x, y in frontier(dots))
    parts.append(
        f'<polyline class="frontier" points="{best}" fill="none" stroke="#555" '
        'stroke-dasharray="4 3"/>'
    )
    for number, dot in enumerate(dots, start=1):
        parts += _drawn(dot, number, xs, ys)
    return "\n".join([*parts, "</svg>"])


def frontier(dots: Sequence[Dot]) -> list[tuple[float, float]]:
    """Corners of the line from left to right: the most that is kept for no more given away.

    Example:
        >>> some = [(1.0, 2.0), (2.0, 1.0), (3.0, 4.0)]
        >>> frontier([Dot(name="", given_away=x, low=x, high=x, kept=y) for x, y in some])
        [(1.0, 2.0), (3.0, 2.0), (3.0, 4.0)]
    """
    found: list[tuple[float, float]] = []
    for dot in sorted(dots, key=lambda one: (one.given_away, -one.kept)):
        if found and dot.kept <= found[-1][1]:
            continue
        if found:
            found.append((dot.given_away, found[-1][1]))
        found.append((dot.given_away, dot.kept))
    return found


def _drawn(dot: Dot, number: int, xs: Ruler, ys: Ruler) -> list[str]:
    """The dot with its whiskers and number, and its line in the legend."""
    colour = plot.COLOURS[0 if dot.is_proved else 1]
    x, y, top = xs.place(dot.given_away), ys.place(dot.kept), plot.TOP + 6 + _ROW * number
    low, high = (ys.place(dot.kept + way * dot.spread) for way in (-1, 1))
    name = html.escape(dot.name)
    across = f'x1="{xs.place(dot.low):.1f}" y1="{y:.1f}" x2="{xs.place(dot.high):.1f}" y2="{y:.1f}"'
    down = f'x1="{x:.1f}" y1="{low:.1f}" x2="{x:.1f}" y2="{high:.1f}"'
    ring = f'<circle class="this" cx="{x:.1f}" cy="{y:.1f}" r="9" fill="none" stroke="{colour}" '
    weight = ' font-weight="700"' if dot.is_this else ""
    return [
        *([f'{ring}stroke-width="2"/>'] if dot.is_this else []),
        *(f'<line {each} stroke="{colour}" opacity="0.5"/>' for each in (across, down)),
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}">'
        f"<title>{name}: {dot.given_away:.3g} given away, {dot.kept:.3g} kept</title></circle>",
        f'<text x="{x + 6:.1f}" y="{y - 5:.1f}" font-size="10">{number}</text>',
        f'<circle cx="{plot.RIGHT + 14}" cy="{top - 4}" r="4" fill="{colour}"/>',
        f'<text x="{plot.RIGHT + 24}" y="{top}" font-size="9.5"{weight}>{number} {name}</text>',
    ]
