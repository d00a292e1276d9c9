"""Grouped bars with whiskers, as SVG text."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade.report.plot import (
    COLOURS,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    Axes,
    Scale,
    head,
    labels,
    levels,
)

_BOTTOM = HEIGHT - 84  # room for slanted names
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


def svg(
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
        >>> drawn = svg([one], ["walk", "run"], Axes(title="t", x_label="", y_label="share"))
        >>> drawn.count('class="bar"'), drawn.count('class="whisker"')
        (2, 1)
    """
    _check_bars(series, groups, axes, limits)
    ends = [np.zeros(1), *(bars.values + np.nan_to_num(bars.spreads) for bars in series)]
    ends += [bars.values - np.nan_to_num(bars.spreads) for bars in series]
    seen = ends if limits is None else [np.array(limits)]
    ys = Scale.around(seen, _BOTTOM, TOP, is_log=False)
    parts = [*head(axes), *labels(axes, _BOTTOM), *levels(ys)]
    wide = (RIGHT - LEFT) / len(groups)
    thick = wide * _FILLED / len(series)
    for number, bars in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        parts += _legend(bars.name, colour, number)
        for place, group in enumerate(groups):
            left = LEFT + place * wide + wide * (1 - _FILLED) / 2 + number * thick
            said = f"{group}, {bars.name}"
            value, spread = float(bars.values[place]), float(bars.spreads[place])
            parts += _bar(ys, left, thick, value, spread, said=said, colour=colour)
    for place, group in enumerate(groups):
        parts.append(_slanted(group, LEFT + (place + 0.5) * wide))
    return "\n".join([*parts, "</svg>"])


def _check_bars(
    series: Sequence[Bars],
    groups: Sequence[str],
    axes: Axes,
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


def _legend(name: str, colour: str, number: int) -> list[str]:
    left, top = RIGHT + 12, TOP + 12 + 20 * number
    return [
        f'<rect x="{left}" y="{top - 5}" width="20" height="10" fill="{colour}"/>',
        f'<text x="{left + 26}" y="{top + 4}">{html.escape(name)}</text>',
    ]


def _bar(
    ys: Scale, left: float, thick: float, value: float, spread: float, *, said: str, colour: str
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
