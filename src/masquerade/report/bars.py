"""Grouped bars with whiskers, as SVG text.

What attackers find before and after, as bars with their 95 % intervals: SVG text.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade.report import plots
from masquerade.report.plots import Axes, Ruler

_BOTTOM = plots.HEIGHT - 84  # room for slanted names
_FILLED = 0.8  # of the width of a group; the rest is air


@dataclass(frozen=True, kw_only=True, eq=False)
class Bars:
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
    series: Sequence[Bars],
    groups: Sequence[str],
    axes: Axes,
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
        >>> one = Bars(name="DP", values=np.array([0.5, 0.9]), spreads=np.array([0.1, 0.0]))
        >>> drawn = draw_bars([one], ["walk", "run"], Axes(title="t", x_label="", y_label="share"))
        >>> drawn.count('class="bar"'), drawn.count('class="whisker"')
        (2, 1)
    """
    _check_bars(series, groups, axes, limits)
    ends = [np.zeros(1), *(bars.values + np.nan_to_num(bars.spreads) for bars in series)]
    ends += [bars.values - np.nan_to_num(bars.spreads) for bars in series]
    seen = ends if limits is None else [np.array(limits)]
    ys = Ruler.around(seen, _BOTTOM, plots.TOP, is_log=False)
    parts = [*plots.draw_head(axes), *plots.labels(axes, _BOTTOM), *plots.levels(ys)]
    wide = (plots.RIGHT - plots.LEFT) / len(groups)
    thick = wide * _FILLED / len(series)
    for number, bars in enumerate(series):
        colour = plots.COLOURS[number % len(plots.COLOURS)]
        parts += _legend(bars.name, colour, number)
        for place, group in enumerate(groups):
            left = plots.LEFT + place * wide + wide * (1 - _FILLED) / 2 + number * thick
            said = f"{group}, {bars.name}"
            value, spread = float(bars.values[place]), float(bars.spreads[place])
            parts += _bar(ys, left, thick, value, spread, said=said, colour=colour)
    for place, group in enumerate(groups):
        parts.append(_slanted(group, plots.LEFT + (place + 0.5) * wide))
    return "\n".join([*parts, "</svg>"])


def _check_bars(
    series: Sequence[Bars], groups: Sequence[str], axes: Axes, limits: tuple[float, float] | None
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


def _legend(name: str, colour: str, number: int) -> list[str]:
    left, top = plots.RIGHT + 12, plots.TOP + 12 + 20 * number
    return [
        f'<rect x="{left}" y="{top - 5}" width="20" height="10" fill="{colour}"/>',
        f'<text x="{left + 26}" y="{top + 4}">{html.escape(name)}</text>',
    ]


def _bar(
    ys: Ruler, left: float, thick: float, value: float, spread: float, *, said: str, colour: str
) -> list[str]:
    """The bar, what it says when pointed at, and its whisker."""
    ends = sorted((ys.place(0.0), ys.place(value)))
    parts = [
        f'<rect class="bar" x="{left:.1f}" y="{ends[0]:.1f}" width="{thick:.1f}" '
        f'height="{ends[1] - ends[0]:.1f}" fill="{colour}">'
        f"<title>{html.escape(said)}: {value:.3g}</title></rect>"
    ]
    if spread > 0:
        middle = left + thick / 2
        low, high = max(value - spread, ys.low), min(value + spread, ys.high)
        parts.append(
            f'<line class="whisker" x1="{middle:.1f}" y1="{ys.place(low):.1f}" '
            f'x2="{middle:.1f}" y2="{ys.place(high):.1f}" stroke="#1c2430"/>'
        )
    return parts


def _slanted(name: str, middle: float) -> str:
    return (
        f'<text transform="translate({middle:.1f} {_BOTTOM + 14}) rotate(-35)" '
        f'text-anchor="end">{html.escape(name)}</text>'
    )


_WIDTH, _ROW, _TOP = 480, 34, 8
_LEFT, _RIGHT = 116, 322  # of the scale; words on both sides
_COLOURS = {"before": "#c8553d", "after": "#1b6ca8", "random data": "#555555"}


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

    def at(value: float) -> float:
        return _LEFT + (value - low) / (high - low) * (_RIGHT - _LEFT)

    bottom = _TOP + _ROW * len(spans)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + 22}" '
        f'class="spans" role="img" aria-label="{html.escape(says, quote=True)}" '
        'font-family="system-ui, sans-serif" font-size="14">',
        f'<line x1="{_LEFT}" y1="{bottom}" x2="{_RIGHT}" y2="{bottom}" stroke="#ddd"/>',
    ]
    for end, anchor in ((low, "start"), (high, "end")):
        parts.append(
            f'<text x="{at(end):.1f}" y="{bottom + 16}" text-anchor="{anchor}" font-size="12">'
            f"{_shown(end, is_share=is_share)}</text>"
        )
    if chance is not None:
        x = f"{at(chance):.1f}"
        parts.append(
            f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}" stroke="#555" '
            'stroke-dasharray="3 3"><title>guessing</title></line>'
        )
    for number, span in enumerate(spans):
        parts += _drawn(span, at, _TOP + _ROW * (number + 0.5), is_share=is_share)
    return "\n".join([*parts, "</svg>"])


def _drawn(span: DrawnSpan, at: Callable[[float], float], y: float, *, is_share: bool) -> list[str]:
    colour = _COLOURS.get(span.name, "#1b6ca8")
    said = _said(span, is_share=is_share)
    return [
        f'<text x="0" y="{y + 5:.1f}">{html.escape(span.name)}</text>',
        f'<line x1="{at(span.low):.1f}" y1="{y:.1f}" x2="{at(span.high):.1f}" y2="{y:.1f}" '
        f'stroke="{colour}" stroke-width="6" stroke-linecap="round" opacity="0.45"/>',
        f'<circle cx="{at(span.value):.1f}" cy="{y:.1f}" r="6" fill="{colour}"/>',
        f'<text x="{_RIGHT + 14}" y="{y + 5:.1f}">{said}</text>',
    ]


def _said(span: DrawnSpan, *, is_share: bool) -> str:
    if is_share:
        low, high = (f"{100 * end:.0f}" for end in (span.low, span.high))
        return f"{100 * span.value:.0f} % ({low} to {high})"
    return f"{span.value:.3g} ({span.low:.3g} to {span.high:.3g})"


def _shown(end: float, *, is_share: bool) -> str:
    return f"{100 * end:.0f} %" if is_share else f"{end:.3g}"
