"""Sheets of pictures as SVG text: rows of frames with what is known drawn over them."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from masquerade.video import write as writer

_GAP, _LABEL, _TEXT = 4, 120, 13
_HIGH = 120  # of the curves
# Which joints are joined by a line, where their names are known.
_LIMBS = (
    *(("shoulder", "elbow"), ("elbow", "wrist"), ("shoulder", "hip"), ("hip", "knee")),
    ("knee", "ankle"),
)
_ACROSS = ("shoulder", "hip")
_COLOURS = {"left": "#ffb000", "right": "#00a0ff", "": "#ffffff"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Picture:
    """One of a sheet.

    Args:
        image: (H, W, 3) uint8.
        joints: (J, 2) pixels, drawn over it.
    """

    image: np.ndarray
    joints: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Strip:
    """Pictures in a line, with a word before them."""

    label: str
    pictures: Sequence[Picture]


def jpeg(image: np.ndarray) -> bytes:
    """A picture as a JPEG file."""
    stream = io.BytesIO()
    writer.write(stream, [image], suffix=".jpg", rate=Fraction(1))
    return stream.getvalue()


def sheet(
    strips: Sequence[Strip], *, joint_names: Sequence[str] = (), wave: np.ndarray | None = None
) -> str:
    """The strips below each other.

    Args:
        strips: of pictures; all of one size within a strip.
        joint_names: of the joints drawn, such as "left_knee".
        wave: (T, C) curves drawn below the last strip, over its whole width.
    """
    parts, top, wide = [], _GAP, 0
    for strip in strips:
        high, across = strip.pictures[0].image.shape[:2]
        middle = top + high / 2 + 4
        parts.append(f'<text x="4" y="{middle:.0f}">{html.escape(strip.label)}</text>')
        for place, picture in enumerate(strip.pictures):
            parts += _picture(picture, _LABEL + place * (across + _GAP), top, joint_names)
        wide = max(wide, len(strip.pictures) * (across + _GAP))
        top += high + _GAP
    if wave is not None:
        parts += _wave(wave, _LABEL, top, wide - _GAP)
        top += _HIGH + _GAP
    size = f'viewBox="0 0 {_LABEL + wide} {top}" width="{_LABEL + wide}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" '
    head += f'font-size="{_TEXT}" role="img"><rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, *parts, "</svg>"])


def _picture(picture: Picture, x: float, y: float, names: Sequence[str]) -> list[str]:
    high, wide = picture.image.shape[:2]
    data = base64.b64encode(jpeg(picture.image)).decode()
    parts = [
        f'<image x="{x}" y="{y}" width="{wide}" height="{high}" '
        f'href="data:image/jpeg;base64,{data}"/>'
    ]
    if picture.joints is not None:
        joints = np.add(picture.joints, [x, y])
        parts += _limbs(joints, names)
        parts += [
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="1.6" fill="{_colour(name)}"/>'
            for (a, b), name in zip(joints, names, strict=True)
            if np.isfinite(a + b) and x <= a <= x + wide and y <= b <= y + high
        ]
    return parts


def _limbs(joints: np.ndarray, names: Sequence[str]) -> list[str]:
    at = dict(zip(names, joints, strict=True))
    pairs = [(f"{s}_{a}", f"{s}_{b}") for s in ("left", "right") for a, b in _LIMBS]
    pairs += [(f"left_{part}", f"right_{part}") for part in _ACROSS]
    found = []
    for first, second in pairs:
        if first in at and second in at and np.isfinite(at[first] + at[second]).all():
            (a, b), (c, d) = at[first], at[second]
            found.append(
                f'<line x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}" '
                f'stroke="{_colour(second)}" stroke-width="1.4"/>'
            )
    return found


def _colour(name: str) -> str:
    return _COLOURS.get(name.partition("_")[0], _COLOURS[""])


def _wave(values: np.ndarray, x: float, y: float, wide: float) -> list[str]:
    low, high = float(values.min()), float(values.max())
    scale = _HIGH / max(high - low, 1e-9)
    parts = [
        f'<rect x="{x}" y="{y}" width="{wide}" height="{_HIGH}" fill="#f6f6f6"/>',
        f'<text x="4" y="{y + _TEXT}" font-size="11">{high:.3g}</text>',
        f'<text x="4" y="{y + _HIGH}" font-size="11">{low:.3g}</text>',
    ]
    across = x + np.linspace(0, wide, len(values))
    for column, colour in zip(values.T, ("#c8553d", "#3d8361", "#1b6ca8", "#555555"), strict=False):
        points = " ".join(
            f"{a:.1f},{y + (high - b) * scale:.1f}" for a, b in zip(across, column, strict=True)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
    return parts
