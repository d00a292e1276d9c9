"""The frontier of one mechanism: how much is left against how often a change is noticed."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from masquerade.report.plot import COLOURS, Ruler

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 480, 62, 464, 14, 250


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


def svg(curves: Sequence[ChoiceCurve], *, this: tuple[float, float], y_label: str) -> str:
    """Draw the curves and mark one point: this release.

    Args:
        curves: the first is of the release's own unit.
        this: noticed and left of the release.
        y_label: what is left, with its unit.

    Example:
        >>> one = ChoiceCurve(name="one frame", noticed=(1.0, 31.0), left=(2.0, 40.0))
        >>> drawn = svg([one], this=(31.0, 40.0), y_label="left to see, %")
        >>> drawn.count("<polyline"), drawn.count('class="this"')
        (1, 1)
    """
    highest = [max(curve.left) for curve in curves] + [this[1]]
    xs = Ruler(0.0, 100.0, _LEFT, _RIGHT, False)
    ys = Ruler(0.0, 1.05 * max(max(highest), 1e-9), _BOTTOM, _TOP, False)
    says = f"{y_label}, against how often a change is noticed; this release is marked."
    tall = _BOTTOM + 64 + 22 * len(curves)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {tall}" class="spans" '
        f'role="img" aria-label="{html.escape(says, quote=True)}" '
        'font-family="system-ui, sans-serif" font-size="14">',
    ]
    for tick in ys.ticks():
        y = ys.place(tick)
        parts.append(
            f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_RIGHT}" y2="{y:.1f}" stroke="#ddd"/>'
            f'<text x="{_LEFT - 6}" y="{y + 5:.1f}" text-anchor="end">{tick:g}</text>'
        )
    for tick in (0, 20, 40, 60, 80, 100):
        parts.append(
            f'<text x="{xs.place(tick):.1f}" y="{_BOTTOM + 18}" text-anchor="middle">{tick}</text>'
        )
    middle = (_TOP + _BOTTOM) / 2
    parts += [
        f'<text x="{(_LEFT + _RIGHT) / 2}" y="{_BOTTOM + 40}" text-anchor="middle">a change is '
        "noticed at most, % (1 = guessing)</text>",
        f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">'
        f"{html.escape(y_label)}</text>",
    ]
    for number, curve in enumerate(curves):
        parts += _drawn(curve, number, xs, ys)
    return "\n".join([*parts, *_marked(xs.place(this[0]), ys.place(this[1])), "</svg>"])


def _drawn(curve: ChoiceCurve, number: int, xs: Ruler, ys: Ruler) -> list[str]:
    """The curve, and its line of the legend below the plot."""
    colour, y = COLOURS[number % len(COLOURS)], _BOTTOM + 64 + 22 * number
    pairs = zip(curve.noticed, curve.left, strict=True)
    points = " ".join(f"{xs.place(a):.1f},{ys.place(b):.1f}" for a, b in pairs)
    width = 3 if number == 0 else 1.5
    return [
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"/>',
        f'<line x1="{_LEFT}" y1="{y}" x2="{_LEFT + 26}" y2="{y}" stroke="{colour}" '
        f'stroke-width="{width}"/>',
        f'<text x="{_LEFT + 34}" y="{y + 5}">{html.escape(curve.name)}</text>',
    ]


def _marked(x: float, y: float) -> list[str]:
    anchor, shift = ("end", -14) if x > (_LEFT + _RIGHT) / 2 else ("start", 14)
    below = 22 if y < _TOP + 40 else -12
    return [
        f'<g class="this"><circle cx="{x:.1f}" cy="{y:.1f}" r="7" fill="#c8553d"/>'
        f'<text x="{x + shift:.1f}" y="{y + below:.1f}" text-anchor="{anchor}" font-weight="700">'
        "this release</text></g>"
    ]
