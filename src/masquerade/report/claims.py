"""Claim and evidence beside each other: what is promised, and what the best attack could show."""

from __future__ import annotations

import html

from masquerade._round import shown as up
from masquerade._round import shown_below as down

_WIDTH, _LEFT, _RIGHT = 480, 150, 400


def svg(claim: float, shown: float) -> str:
    """Two bars: the leak that is allowed, and the leak that was shown at least.

    Example:
        >>> svg(8.0, 4.5).count("<rect")
        2
    """
    most = max(claim, shown, 1e-9)
    is_refuted = shown > claim
    most_said, least_said = up(claim, 3), down(shown, 3)
    says = f"At most {most_said} is claimed, at least {least_said} was shown."
    rows = [
        ("claimed: at most", claim, most_said, "#1b6ca8"),
        ("shown: at least", shown, least_said, "#c8553d" if is_refuted else "#3d8361"),
    ]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} 76" class="spans" '
        f'role="img" aria-label="{html.escape(says)}" font-family="system-ui, sans-serif" '
        'font-size="14">'
    ]
    for number, (name, value, said, colour) in enumerate(rows):
        y = 8 + 34 * number
        wide = (_RIGHT - _LEFT) * value / most
        parts += [
            f'<text x="0" y="{y + 17}">{name}</text>',
            f'<rect x="{_LEFT}" y="{y}" width="{wide:.1f}" height="24" rx="3" fill="{colour}"/>',
            f'<text x="{_LEFT + wide + 8:.1f}" y="{y + 17}">{said}</text>',
        ]
    return "\n".join([*parts, "</svg>"])
