"""What attackers find before and after, as bars with their 95 % intervals: SVG text."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass

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


def svg(spans: list[DrawnSpan], *, says: str, chance: float | None = None) -> str:
    """Draw one line a figure; a dashed line marks what guessing gets.

    Example:
        >>> drawn = svg([DrawnSpan(name="after", value=0.5, low=0.4, high=0.6)], says="named")
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
