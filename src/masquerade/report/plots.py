"""Plots as SVG text: lines, bars, intervals, series, and the frontier of a mechanism.

The frontier of one mechanism: how much is left against how often a change is noticed.

Line plots as SVG text.

Numbers over time, before and after: every one faintly, and their running mean.

What is kept against what is given away, as SVG text: dots, whiskers, and the frontier.

Grouped bars with whiskers, as SVG text.

What attackers find before and after, as bars with their 95 % intervals: SVG text.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from masquerade import _check

WIDTH, HEIGHT = 680, 380
LEFT, RIGHT, TOP = 64, WIDTH - 176, 34  # edges of what is drawn; the legend is to the right of it
_BOTTOM_PLOT = HEIGHT - 48
COLOURS = ("#1b6ca8", "#c8553d", "#3d8361", "#8e5ea2", "#b8860b", "#555555")


@dataclass(frozen=True, kw_only=True, eq=False)
class PlotLine:
    """One curve: a name, x and y, and how it is drawn; its place decides the colour if none is."""

    name: str
    x: np.ndarray
    y: np.ndarray
    is_faint: bool = False
    colour: int | None = None


@dataclass(frozen=True, kw_only=True)
class PlotAxes:
    """Titles and scales of a plot."""

    title: str
    x_label: str
    y_label: str
    is_log: bool = False


def draw_lines(lines: Sequence[PlotLine], axes: PlotAxes) -> str:
    """Draw the lines; on logarithmic axes values that are not positive are left out."""
    xs = Ruler.fit_ruler([line.x for line in lines], LEFT, RIGHT, is_log=axes.is_log)
    ys = Ruler.fit_ruler([line.y for line in lines], _BOTTOM_PLOT, TOP, is_log=axes.is_log)
    parts = draw_head(axes)
    for tick in xs.list_ticks():
        at = xs.place_pixel(tick)
        parts.append(
            f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{_BOTTOM_PLOT}" stroke="#ddd"/>'
        )
        parts.append(
            f'<text x="{at:.1f}" y="{_BOTTOM_PLOT + 16}" text-anchor="middle">{tick:g}</text>'
        )
    parts += draw_level_lines(ys)
    for number, line in enumerate(lines):
        colour = COLOURS[(number if line.colour is None else line.colour) % len(COLOURS)]
        points = " ".join(
            f"{xs.place_pixel(x):.1f},{ys.place_pixel(y):.1f}"
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
    return "\n".join([*parts, *draw_axis_labels(axes, _BOTTOM_PLOT), "</svg>"])


def draw_head(axes: PlotAxes, *, width: int = WIDTH, height: int = HEIGHT) -> list[str]:
    """How a plot begins, and its title; larger where the legend needs the room."""
    title = html.escape(axes.title)
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{title}" font-family="system-ui, sans-serif" '
        'font-size="12">',
        f'<text x="{LEFT}" y="18" font-size="14" font-weight="600">{title}</text>',
    ]


def draw_axis_labels(axes: PlotAxes, bottom: float) -> list[str]:
    """What the axes of a plot that ends at ``bottom`` show."""
    return [
        f'<text x="{(LEFT + RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">'
        f"{html.escape(axes.x_label)}</text>",
        f'<text transform="translate(16 {(TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">'
        f"{html.escape(axes.y_label)}</text>",
    ]


def draw_level_lines(ys: Ruler) -> list[str]:
    """Lines across the plot, each with its value before it."""
    parts = []
    for tick in ys.list_ticks():
        at = ys.place_pixel(tick)
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
    def fit_ruler(
        cls, arrays: Sequence[np.ndarray], start: float, end: float, *, is_log: bool
    ) -> Ruler:
        """The scale from ``start`` to ``end`` on which all values lie."""
        values = np.concatenate([np.asarray(array, dtype=np.float64) for array in arrays])
        values = values[values > 0] if is_log else values
        low, high = float(values.min()), float(values.max())
        if not low < high:
            low, high = low - abs(low) / 2 - 1e-9, high + abs(high) / 2 + 1e-9
        return cls(low, high, start, end, is_log)

    def place_pixel(self, value: float) -> float:
        """Its pixel."""
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def list_ticks(self) -> list[float]:
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


_WIDTH_SERIES, _LEFT_SERIES, _RIGHT_SERIES, _TOP_SERIES, _BOTTOM_SERIES = 480, 58, 470, 12, 230
_MAX_POINTS = 1500  # points of a line
_COLOURS_PLOTS = {"before": "#c8553d", "published": "#1b6ca8"}


def draw_series(series: dict[str, np.ndarray]) -> str:
    """Draw one column of numbers under each name, all on one scale.

    Args:
        series: (T,) under "before" and "published"; values that are not finite are left out.

    Example:
        >>> drawn = draw_series({"published": np.arange(100.0)})
        >>> drawn.count("<polyline")
        2
    """
    shown = {name: np.asarray(values, dtype=np.float64) for name, values in series.items()}
    shown = {name: values[np.isfinite(values)] for name, values in shown.items()}
    if not shown or any(len(values) < 2 for values in shown.values()):
        raise ValueError("Expected two finite numbers or more to draw, got fewer.")
    longest = max(map(len, shown.values()))
    xs = Ruler(0.0, float(longest - 1), _LEFT_SERIES, _RIGHT_SERIES, False)
    ys = Ruler.fit_ruler(list(shown.values()), _BOTTOM_SERIES, _TOP_SERIES, is_log=False)
    tall = _BOTTOM_SERIES + 30 + 22 * len(shown)
    says = f"Numbers of the file in order: {', '.join(shown)}; faint lines are single numbers."
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH_SERIES} {tall}" '
        'class="spans" '
        f'role="img" aria-label="{html.escape(says, quote=True)}" '
        'font-family="system-ui, sans-serif" font-size="14">'
    ]
    for tick in ys.list_ticks():
        y = ys.place_pixel(tick)
        parts.append(
            f'<line x1="{_LEFT_SERIES}" y1="{y:.1f}" x2="{_RIGHT_SERIES}" y2="{y:.1f}" '
            'stroke="#ddd"/>'
            f'<text x="{_LEFT_SERIES - 6}" y="{y + 5:.1f}" text-anchor="end">{tick:g}</text>'
        )
    for number, (name, values) in enumerate(shown.items()):
        parts += _draw_one_series(name, values, number, xs, ys)
    return "\n".join([*parts, "</svg>"])


def _draw_one_series(name: str, values: np.ndarray, number: int, xs: Ruler, ys: Ruler) -> list[str]:
    width = max(3, len(values) // 24)
    colour, y = _COLOURS_PLOTS.get(name, "#1b6ca8"), _BOTTOM_SERIES + 26 + 22 * number
    smooth = np.convolve(np.pad(values, width // 2, mode="edge"), np.ones(width) / width, "valid")
    lines = ((values, 0.8, 0.35), (smooth[: len(values)], 2.5, 1.0))
    return [
        *(
            f'<polyline points="{_format_points(each, xs, ys)}" fill="none" stroke="{colour}" '
            f'stroke-width="{thick}" opacity="{solid}"/>'
            for each, thick, solid in lines
        ),
        f'<line x1="{_LEFT_SERIES}" y1="{y}" x2="{_LEFT_SERIES + 26}" y2="{y}" stroke="{colour}" '
        'stroke-width="2.5"/>',
        f'<text x="{_LEFT_SERIES + 34}" y="{y + 5}">{html.escape(name)}, averages of '
        f"{width} numbers in "
        "a row</text>",
    ]


def _format_points(values: np.ndarray, xs: Ruler, ys: Ruler) -> str:
    places = np.unique(np.linspace(0, len(values) - 1, min(len(values), _MAX_POINTS)).astype(int))
    pairs = zip(places.tolist(), values[places].tolist(), strict=True)
    return " ".join(f"{xs.place_pixel(x):.1f},{ys.place_pixel(y):.1f}" for x, y in pairs)


_BOTTOM_FRONTIER = HEIGHT - 48
_ROW_PLOTS, _LETTER = 17, 5.2  # pixels of a line of the legend, and of a letter there


@dataclass(frozen=True, kw_only=True)
class FrontierDot:
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


def draw_frontier(dots: Sequence[FrontierDot], axes: PlotAxes) -> str:
    """Draw the dots, numbered, with their names beside the plot; a line joins the best ones.

    Example:
        >>> one = FrontierDot(name="blur", given_away=40, low=38, high=42, kept=70)
        >>> two = FrontierDot(name="noise", given_away=33, low=32, high=35, kept=20, is_proved=True)
        >>> drawn = draw_frontier([one, two], PlotAxes(title="t", x_label="attack", y_label="use"))
        >>> drawn.count("<circle"), drawn.count('class="frontier"')
        (4, 1)
    """
    if not dots:
        raise ValueError("Expected at least one dot, got none.")
    ends = np.array([[dot.low, dot.high] for dot in dots])
    heights = np.array([[dot.kept - dot.spread, dot.kept + dot.spread] for dot in dots])
    xs = Ruler.fit_ruler([ends.ravel()], LEFT + 8, RIGHT - 8, is_log=False)
    ys = Ruler.fit_ruler([heights.ravel()], _BOTTOM_FRONTIER - 8, TOP + 8, is_log=False)
    room = math.ceil(RIGHT + 44 + _LETTER * max(len(dot.name) for dot in dots))
    width, height = max(WIDTH, room), max(HEIGHT, TOP + 20 + _ROW_PLOTS * len(dots))
    head = draw_head(axes, width=width, height=height)
    parts = [*head, *draw_axis_labels(axes, _BOTTOM_FRONTIER), *draw_level_lines(ys)]
    for tick in xs.list_ticks():
        at = xs.place_pixel(tick)
        parts.append(
            f'<text x="{at:.1f}" y="{_BOTTOM_FRONTIER + 16}" text-anchor="middle">{tick:g}</text>'
        )
    best = " ".join(
        f"{xs.place_pixel(x):.1f},{ys.place_pixel(y):.1f}" for x, y in find_frontier(dots)
    )
    parts.append(
        f'<polyline class="frontier" points="{best}" fill="none" stroke="#555" '
        'stroke-dasharray="4 3"/>'
    )
    for number, dot in enumerate(dots, start=1):
        parts += _draw_dot(dot, number, xs, ys)
    return "\n".join([*parts, "</svg>"])


def find_frontier(dots: Sequence[FrontierDot]) -> list[tuple[float, float]]:
    """Corners of the line from left to right: the most that is kept for no more given away.

    Example:
        >>> some = [(1.0, 2.0), (2.0, 1.0), (3.0, 4.0)]
        >>> dots = [FrontierDot(name="", given_away=x, low=x, high=x, kept=y) for x, y in some]
        >>> find_frontier(dots)
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


def _draw_dot(dot: FrontierDot, number: int, xs: Ruler, ys: Ruler) -> list[str]:
    """The dot with its whiskers and number, and its line in the legend."""
    colour = COLOURS[0 if dot.is_proved else 1]
    x, y, top = (
        xs.place_pixel(dot.given_away),
        ys.place_pixel(dot.kept),
        TOP + 6 + _ROW_PLOTS * number,
    )
    low, high = (ys.place_pixel(dot.kept + way * dot.spread) for way in (-1, 1))
    name = html.escape(dot.name)
    left, right = xs.place_pixel(dot.low), xs.place_pixel(dot.high)
    across = f'x1="{left:.1f}" y1="{y:.1f}" x2="{right:.1f}" y2="{y:.1f}"'
    down = f'x1="{x:.1f}" y1="{low:.1f}" x2="{x:.1f}" y2="{high:.1f}"'
    ring = f'<circle class="this" cx="{x:.1f}" cy="{y:.1f}" r="9" fill="none" stroke="{colour}" '
    weight = ' font-weight="700"' if dot.is_this else ""
    return [
        *([f'{ring}stroke-width="2"/>'] if dot.is_this else []),
        *(f'<line {each} stroke="{colour}" opacity="0.5"/>' for each in (across, down)),
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}">'
        f"<title>{name}: {dot.given_away:.3g} given away, {dot.kept:.3g} kept</title></circle>",
        f'<text x="{x + 6:.1f}" y="{y - 5:.1f}" font-size="10">{number}</text>',
        f'<circle cx="{RIGHT + 14}" cy="{top - 4}" r="4" fill="{colour}"/>',
        f'<text x="{RIGHT + 24}" y="{top}" font-size="9.5"{weight}>{number} {name}</text>',
    ]


_WIDTH_CHOICE, _LEFT_CHOICE, _RIGHT_CHOICE, _TOP_CHOICE, _BOTTOM_CHOICE = 480, 62, 464, 14, 250


@dataclass(frozen=True, kw_only=True)
class ChoiceCurve:
    """One unit at several strengths of protection.

    Args:
        name: what is protected.
        noticed: in per cent, how often a change is noticed at most.
        left: what is left, or how far off numbers are.
    """

    name: str
    noticed: tuple[float, ...]
    left: tuple[float, ...]


def draw_choice(curves: Sequence[ChoiceCurve], *, this: tuple[float, float], y_label: str) -> str:
    """Draw the curves and mark one point: this release.

    Args:
        curves: the first is of the release's own unit.
        this: noticed and left of the release.
        y_label: what is left, with its unit.

    Example:
        >>> one = ChoiceCurve(name="one frame", noticed=(1.0, 31.0), left=(2.0, 40.0))
        >>> drawn = draw_choice([one], this=(31.0, 40.0), y_label="left to see, %")
        >>> drawn.count("<polyline"), drawn.count('class="this"')
        (1, 1)
    """
    highest = [max(curve.left) for curve in curves] + [this[1]]
    xs = Ruler(0.0, 100.0, _LEFT_CHOICE, _RIGHT_CHOICE, False)
    ys = Ruler(0.0, 1.05 * max(max(highest), 1e-9), _BOTTOM_CHOICE, _TOP_CHOICE, False)
    says = f"{y_label}, against how often a change is noticed; this release is marked."
    tall = _BOTTOM_CHOICE + 64 + 22 * len(curves)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH_CHOICE} {tall}" '
        'class="spans" '
        f'role="img" aria-label="{html.escape(says, quote=True)}" '
        'font-family="system-ui, sans-serif" font-size="14">',
    ]
    for tick in ys.list_ticks():
        y = ys.place_pixel(tick)
        parts.append(
            f'<line x1="{_LEFT_CHOICE}" y1="{y:.1f}" x2="{_RIGHT_CHOICE}" y2="{y:.1f}" '
            'stroke="#ddd"/>'
            f'<text x="{_LEFT_CHOICE - 6}" y="{y + 5:.1f}" text-anchor="end">{tick:g}</text>'
        )
    for tick in (0, 20, 40, 60, 80, 100):
        parts.append(
            f'<text x="{xs.place_pixel(tick):.1f}" y="{_BOTTOM_CHOICE + 18}" '
            f'text-anchor="middle">{tick}</text>'
        )
    middle = (_TOP_CHOICE + _BOTTOM_CHOICE) / 2
    parts += [
        f'<text x="{(_LEFT_CHOICE + _RIGHT_CHOICE) / 2}" y="{_BOTTOM_CHOICE + 40}" '
        'text-anchor="middle">a change is '
        "noticed at most, % (1 = guessing)</text>",
        f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">'
        f"{html.escape(y_label)}</text>",
    ]
    for number, curve in enumerate(curves):
        parts += _draw_choice_curve(curve, number, xs, ys)
    return "\n".join(
        [*parts, *_mark_point(xs.place_pixel(this[0]), ys.place_pixel(this[1])), "</svg>"]
    )


def _draw_choice_curve(curve: ChoiceCurve, number: int, xs: Ruler, ys: Ruler) -> list[str]:
    """The curve, and its line of the legend below the plot."""
    colour, y = COLOURS[number % len(COLOURS)], _BOTTOM_CHOICE + 64 + 22 * number
    pairs = zip(curve.noticed, curve.left, strict=True)
    points = " ".join(f"{xs.place_pixel(a):.1f},{ys.place_pixel(b):.1f}" for a, b in pairs)
    width = 3 if number == 0 else 1.5
    return [
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"/>',
        f'<line x1="{_LEFT_CHOICE}" y1="{y}" x2="{_LEFT_CHOICE + 26}" y2="{y}" stroke="{colour}" '
        f'stroke-width="{width}"/>',
        f'<text x="{_LEFT_CHOICE + 34}" y="{y + 5}">{html.escape(curve.name)}</text>',
    ]


def _mark_point(x: float, y: float) -> list[str]:
    anchor, shift = ("end", -14) if x > (_LEFT_CHOICE + _RIGHT_CHOICE) / 2 else ("start", 14)
    below = 22 if y < _TOP_CHOICE + 40 else -12
    return [
        f'<g class="this"><circle cx="{x:.1f}" cy="{y:.1f}" r="7" fill="#c8553d"/>'
        f'<text x="{x + shift:.1f}" y="{y + below:.1f}" text-anchor="{anchor}" font-weight="700">'
        "this release</text></g>"
    ]


_BOTTOM = HEIGHT - 84  # room for slanted names
_FILLED_SHARE = 0.8  # of the width of a group; the rest is air


@dataclass(frozen=True, kw_only=True, eq=False)
class BarSeries:
    """One bar in every group.

    Args:
        name: what they show.
        values: one a group.
        spreads: half the length of each whisker; 0 or NaN draws none.
    """

    name: str
    values: np.ndarray
    spreads: np.ndarray


def draw_bars(
    series: Sequence[BarSeries],
    groups: Sequence[str],
    axes: PlotAxes,
    *,
    limits: tuple[float, float] | None = None,
) -> str:
    """Draw the bars of every group beside each other, from zero up.

    Args:
        series: what is compared.
        groups: their names.
        axes: titles; the scale is linear.
        limits: within which all values lie, such as 0 and 100; whiskers end there.

    Example:
        >>> one = BarSeries(name="DP", values=np.array([0.5, 0.9]), spreads=np.array([0.1, 0.0]))
        >>> axes = PlotAxes(title="t", x_label="", y_label="share")
        >>> drawn = draw_bars([one], ["walk", "run"], axes)
        >>> drawn.count('class="bar"'), drawn.count('class="whisker"')
        (2, 1)
    """
    _check_bars(series, groups, axes, limits)
    ends = [np.zeros(1), *(bars.values + np.nan_to_num(bars.spreads) for bars in series)]
    ends += [bars.values - np.nan_to_num(bars.spreads) for bars in series]
    seen = ends if limits is None else [np.array(limits)]
    ys = Ruler.fit_ruler(seen, _BOTTOM, TOP, is_log=False)
    parts = [*draw_head(axes), *draw_axis_labels(axes, _BOTTOM), *draw_level_lines(ys)]
    wide = (RIGHT - LEFT) / len(groups)
    thick = wide * _FILLED_SHARE / len(series)
    for number, bars in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        parts += _legend_line(bars.name, colour, number)
        for place, group in enumerate(groups):
            left = LEFT + place * wide + wide * (1 - _FILLED_SHARE) / 2 + number * thick
            said = f"{group}, {bars.name}"
            value, spread = float(bars.values[place]), float(bars.spreads[place])
            parts += _draw_bar(ys, left, thick, value, spread, said=said, colour=colour)
    for place, group in enumerate(groups):
        parts.append(_slant_name(group, LEFT + (place + 0.5) * wide))
    return "\n".join([*parts, "</svg>"])


def _check_bars(
    series: Sequence[BarSeries],
    groups: Sequence[str],
    axes: PlotAxes,
    limits: tuple[float, float] | None,
) -> None:
    if not series or not groups:
        raise ValueError("Expected at least one series and one group of bars, got none.")
    if axes.is_log:
        raise ValueError("Expected a linear axis for bars, which begin at zero, got is_log=True.")
    for bars in series:
        _check.shape("G", values=bars.values, spreads=bars.spreads)
        if len(bars.values) != len(groups):
            raise ValueError(
                f"Expected a value for each of {len(groups)} groups, got {len(bars.values)} "
                f"for {bars.name!r}."
            )
        low, high = limits or (-np.inf, np.inf)
        is_fit = np.isfinite(bars.values) & (bars.values >= low) & (bars.values <= high)
        if not is_fit.all():
            raise ValueError(
                f"Expected finite values from {low:g} to {high:g}, got others for {bars.name!r}."
            )


def _legend_line(name: str, colour: str, number: int) -> list[str]:
    left, top = RIGHT + 12, TOP + 12 + 20 * number
    return [
        f'<rect x="{left}" y="{top - 5}" width="20" height="10" fill="{colour}"/>',
        f'<text x="{left + 26}" y="{top + 4}">{html.escape(name)}</text>',
    ]


def _draw_bar(
    ys: Ruler, left: float, thick: float, value: float, spread: float, *, said: str, colour: str
) -> list[str]:
    """The bar, what it says when pointed at, and its whisker."""
    ends = sorted((ys.place_pixel(0.0), ys.place_pixel(value)))
    parts = [
        f'<rect class="bar" x="{left:.1f}" y="{ends[0]:.1f}" width="{thick:.1f}" '
        f'height="{ends[1] - ends[0]:.1f}" fill="{colour}">'
        f"<title>{html.escape(said)}: {value:.3g}</title></rect>"
    ]
    if spread > 0:
        middle = left + thick / 2
        low, high = max(value - spread, ys.low), min(value + spread, ys.high)
        parts.append(
            f'<line class="whisker" x1="{middle:.1f}" y1="{ys.place_pixel(low):.1f}" '
            f'x2="{middle:.1f}" y2="{ys.place_pixel(high):.1f}" stroke="#1c2430"/>'
        )
    return parts


def _slant_name(name: str, middle: float) -> str:
    return (
        f'<text transform="translate({middle:.1f} {_BOTTOM + 14}) rotate(-35)" '
        f'text-anchor="end">{html.escape(name)}</text>'
    )


_WIDTH, _ROW_BARS, _TOP = 480, 34, 8
_LEFT, _RIGHT = 116, 322  # of the scale; words on both sides
_COLOURS_BARS = {"before": "#c8553d", "after": "#1b6ca8", "random data": "#555555"}


@dataclass(frozen=True, kw_only=True)
class DrawnSpan:
    """A figure with its interval.

    Args:
        name: before, after or random data.
        value: what was measured.
        low: lower end of the interval.
        high: upper end.
    """

    name: str
    value: float
    low: float
    high: float


def draw_intervals(spans: list[DrawnSpan], *, says: str, chance: float | None = None) -> str:
    """Draw one line a figure; a dashed line marks what guessing gets.

    Example:
        >>> span = DrawnSpan(name="after", value=0.5, low=0.4, high=0.6)
        >>> drawn = draw_intervals([span], says="named")
        >>> drawn.count("<circle"), "50 % (40 to 60)" in drawn
        (1, True)
    """
    ends = [end for span in spans for end in (span.low, span.high)] + [chance or 0.0]
    is_share = 0 <= min(ends) and max(ends) <= 1
    low, high = (0.0, 1.0) if is_share else (min(0.0, *ends), max(ends) or 1.0)

    def place_value(value: float) -> float:
        return _LEFT + (value - low) / (high - low) * (_RIGHT - _LEFT)

    bottom = _TOP + _ROW_BARS * len(spans)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + 22}" '
        f'class="spans" role="img" aria-label="{html.escape(says, quote=True)}" '
        'font-family="system-ui, sans-serif" font-size="14">',
        f'<line x1="{_LEFT}" y1="{bottom}" x2="{_RIGHT}" y2="{bottom}" stroke="#ddd"/>',
    ]
    for end, anchor in ((low, "start"), (high, "end")):
        parts.append(
            f'<text x="{place_value(end):.1f}" y="{bottom + 16}" text-anchor="{anchor}" '
            'font-size="12">'
            f"{_format_end(end, is_share=is_share)}</text>"
        )
    if chance is not None:
        x = f"{place_value(chance):.1f}"
        parts.append(
            f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}" stroke="#555" '
            'stroke-dasharray="3 3"><title>guessing</title></line>'
        )
    for number, span in enumerate(spans):
        parts += _draw_span(span, place_value, _TOP + _ROW_BARS * (number + 0.5), is_share=is_share)
    return "\n".join([*parts, "</svg>"])


def _draw_span(
    span: DrawnSpan, at: Callable[[float], float], y: float, *, is_share: bool
) -> list[str]:
    colour = _COLOURS_BARS.get(span.name, "#1b6ca8")
    said = _describe_span(span, is_share=is_share)
    return [
        f'<text x="0" y="{y + 5:.1f}">{html.escape(span.name)}</text>',
        f'<line x1="{at(span.low):.1f}" y1="{y:.1f}" x2="{at(span.high):.1f}" y2="{y:.1f}" '
        f'stroke="{colour}" stroke-width="6" stroke-linecap="round" opacity="0.45"/>',
        f'<circle cx="{at(span.value):.1f}" cy="{y:.1f}" r="6" fill="{colour}"/>',
        f'<text x="{_RIGHT + 14}" y="{y + 5:.1f}">{said}</text>',
    ]


def _describe_span(span: DrawnSpan, *, is_share: bool) -> str:
    if is_share:
        low, high = (f"{100 * end:.0f}" for end in (span.low, span.high))
        return f"{100 * span.value:.0f} % ({low} to {high})"
    return f"{span.value:.3g} ({span.low:.3g} to {span.high:.3g})"


def _format_end(end: float, *, is_share: bool) -> str:
    return f"{100 * end:.0f} %" if is_share else f"{end:.3g}"
