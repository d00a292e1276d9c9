"""Numbers over time, before and after: every one faintly, and their running mean."""

from __future__ import annotations

import html

import numpy as np

from masquerade.report.plot import Ruler

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 480, 58, 470, 12, 230
_MOST = 1500  # points of a line
_COLOURS = {"before": "#c8553d", "published": "#1b6ca8"}


def svg(series: dict[str, np.ndarray]) -> str:
    """Draw one column of numbers under each name, all on one scale.

    Args:
        series: (T,) under "before" and "published"; values that are not finite are left out.

    Example:
        >>> drawn = svg({"published": np.arange(100.0)})
        >>> drawn.count("<polyline")
        2
    """
    shown = {name: np.asarray(values, dtype=np.float64) for name, values in series.items()}
    shown = {name: values[np.isfinite(values)] for name, values in shown.items()}
    if not shown or any(len(values) < 2 for values in shown.values()):
        raise ValueError("Expected two finite numbers or more to draw, got fewer.")
    longest = max(map(len, shown.values()))
    xs = Ruler(0.0, float(longest - 1), _LEFT, _RIGHT, False)
    ys = Ruler.around(list(shown.values()), _BOTTOM, _TOP, is_log=False)
    tall = _BOTTOM + 30 + 22 * len(shown)
    says = f"Numbers of the file in order: {', '.join(shown)}; faint lines are single numbers."
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {tall}" class="spans" '
        f'role="img" aria-label="{html.escape(says, quote=True)}" '
        'font-family="system-ui, sans-serif" font-size="14">'
    ]
    for tick in ys.ticks():
        y = ys.place(tick)
        parts.append(
            f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_RIGHT}" y2="{y:.1f}" stroke="#ddd"/>'
            f'<text x="{_LEFT - 6}" y="{y + 5:.1f}" text-anchor="end">{tick:g}</text>'
        )
    for number, (name, values) in enumerate(shown.items()):
        parts += _drawn(name, values, number, xs, ys)
    return "\n".join([*parts, "</svg>"])


def _drawn(name: str, values: np.ndarray, number: int, xs: Ruler, ys: Ruler) -> list[str]:
    width = max(3, len(values) // 24)
    colour, y = _COLOURS.get(name, "#1b6ca8"), _BOTTOM + 26 + 22 * number
    smooth = np.convolve(np.pad(values, width // 2, mode="edge"), np.ones(width) / width, "valid")
    lines = ((values, 0.8, 0.35), (smooth[: len(values)], 2.5, 1.0))
    return [
        *(
            f'<polyline points="{_points(each, xs, ys)}" fill="none" stroke="{colour}" '
            f'stroke-width="{thick}" opacity="{solid}"/>'
            for each, thick, solid in lines
        ),
        f'<line x1="{_LEFT}" y1="{y}" x2="{_LEFT + 26}" y2="{y}" stroke="{colour}" '
        'stroke-width="2.5"/>',
        f'<text x="{_LEFT + 34}" y="{y + 5}">{html.escape(name)}, averages of {width} numbers in '
        "a row</text>",
    ]


def _points(values: np.ndarray, xs: Ruler, ys: Ruler) -> str:
    places = np.unique(np.linspace(0, len(values) - 1, min(len(values), _MOST)).astype(int))
    pairs = zip(places.tolist(), values[places].tolist(), strict=True)
    return " ".join(f"{xs.place(x):.1f},{ys.place(y):.1f}" for x, y in pairs)
