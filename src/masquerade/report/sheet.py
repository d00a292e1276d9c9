"""Sheets of pictures as SVG text: rows of frames with what is known drawn over them.

Skeletons drawn over a picture: lines between joints, a dot on each.

A contact sheet as SVG text: rows of pictures with words beside them and headings above.
"""

from __future__ import annotations

import base64
import html
import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from masquerade import joints as lists
from masquerade.io.video import write as writer

_COLOURS_SKELETONS = {"left": (255, 176, 0), "right": (0, 160, 255)}
_OTHER_COLOUR = (255, 255, 255)


def draw_skeletons(
    image: np.ndarray, people: Sequence[np.ndarray], names: Sequence[str]
) -> np.ndarray:
    """A copy of a picture (H, W, 3) with the joints (J, 2) of people drawn over it.

    Joints that are not finite, and what lies outside the picture, are left out.
    """
    drawn = image.copy()
    radius = max(1.0, min(image.shape[:2]) / 150)
    for joints in people:
        for first, second in lists.list_limbs(names):
            _draw_line(
                drawn, joints[first], joints[second], radius, _colour_skeletons(names[second])
            )
        for place, name in enumerate(names):
            _draw_line(drawn, joints[place], joints[place], 1.8 * radius, _colour_skeletons(name))
    return drawn


def _draw_line(
    drawn: np.ndarray, start: np.ndarray, end: np.ndarray, radius: float, colour: tuple[int, ...]
) -> None:
    """Colour the pixels whose middles are within a radius of a line."""
    if not np.isfinite([*start, *end]).all():
        return
    size = np.array([drawn.shape[1], drawn.shape[0]])
    low = np.clip(np.floor(np.minimum(start, end) - radius), 0, size).astype(int)
    high = np.clip(np.ceil(np.maximum(start, end) + radius), 0, size).astype(int)
    if (low >= high).any():
        return
    y, x = np.mgrid[low[1] : high[1], low[0] : high[0]] + 0.5
    step = end - start
    along = ((x - start[0]) * step[0] + (y - start[1]) * step[1]) / max(float(step @ step), 1e-9)
    along = np.clip(along, 0, 1)
    away = np.hypot(x - start[0] - along * step[0], y - start[1] - along * step[1])
    drawn[low[1] : high[1], low[0] : high[0]][away <= radius] = colour


def _colour_skeletons(name: str) -> tuple[int, ...]:
    return _COLOURS_SKELETONS.get(name.partition("_")[0], _OTHER_COLOUR)


_GAP_SHEET, _LABEL_SHEET, _TEXT_SHEET = 4, 120, 13
_CURVE_HEIGHT = 120  # of the curves
# Which joints are joined by a line, where their names are known.
_LIMBS = (
    *(("shoulder", "elbow"), ("elbow", "wrist"), ("shoulder", "hip"), ("hip", "knee")),
    ("knee", "ankle"),
)
_CROSS_LIMBS = ("shoulder", "hip")
_COLOURS_SHEET = {"left": "#ffb000", "right": "#00a0ff", "": "#ffffff"}


@dataclass(frozen=True, kw_only=True, eq=False)
class SheetPicture:
    """One of a sheet.

    Args:
        image: (H, W, 3) uint8.
        joints: (J, 2) pixels, drawn over it.
    """

    image: np.ndarray
    joints: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class SheetStrip:
    """Pictures in a line, with a word before them."""

    label: str
    pictures: Sequence[SheetPicture]


def encode_jpeg(image: np.ndarray) -> bytes:
    """A picture as a JPEG file."""
    stream = io.BytesIO()
    writer.write_video(stream, [image], suffix=".jpg", rate=Fraction(1))
    return stream.getvalue()


def draw_sheet(
    strips: Sequence[SheetStrip], *, joint_names: Sequence[str] = (), wave: np.ndarray | None = None
) -> str:
    """The strips below each other.

    Args:
        strips: of pictures; all of one size within a strip.
        joint_names: of the joints drawn, such as "left_knee".
        wave: (T, C) curves drawn below the last strip, over its whole width.
    """
    parts, top, wide = [], _GAP_SHEET, 0
    for strip in strips:
        high, across = strip.pictures[0].image.shape[:2]
        middle = top + high / 2 + 4
        parts.append(f'<text x="4" y="{middle:.0f}">{html.escape(strip.label)}</text>')
        for place, picture in enumerate(strip.pictures):
            parts += _draw_picture(
                picture, _LABEL_SHEET + place * (across + _GAP_SHEET), top, joint_names
            )
        wide = max(wide, len(strip.pictures) * (across + _GAP_SHEET))
        top += high + _GAP_SHEET
    if wave is not None:
        parts += _draw_wave(wave, _LABEL_SHEET, top, wide - _GAP_SHEET)
        top += _CURVE_HEIGHT + _GAP_SHEET
    size = f'viewBox="0 0 {_LABEL_SHEET + wide} {top}" width="{_LABEL_SHEET + wide}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" '
    head += f'font-size="{_TEXT_SHEET}" role="img"><rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, *parts, "</svg>"])


def _draw_picture(picture: SheetPicture, x: float, y: float, names: Sequence[str]) -> list[str]:
    high, wide = picture.image.shape[:2]
    data = base64.b64encode(encode_jpeg(picture.image)).decode()
    parts = [
        f'<image x="{x}" y="{y}" width="{wide}" height="{high}" '
        f'href="data:image/jpeg;base64,{data}"/>'
    ]
    if picture.joints is not None:
        joints = np.add(picture.joints, [x, y])
        parts += _draw_limbs(joints, names)
        parts += [
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="1.6" fill="{_colour_sheet(name)}"/>'
            for (a, b), name in zip(joints, names, strict=True)
            if np.isfinite(a + b) and x <= a <= x + wide and y <= b <= y + high
        ]
    return parts


def _draw_limbs(joints: np.ndarray, names: Sequence[str]) -> list[str]:
    at = dict(zip(names, joints, strict=True))
    pairs = [(f"{s}_{a}", f"{s}_{b}") for s in ("left", "right") for a, b in _LIMBS]
    pairs += [(f"left_{part}", f"right_{part}") for part in _CROSS_LIMBS]
    found = []
    for first, second in pairs:
        if first in at and second in at and np.isfinite(at[first] + at[second]).all():
            (a, b), (c, d) = at[first], at[second]
            found.append(
                f'<line x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}" '
                f'stroke="{_colour_sheet(second)}" stroke-width="1.4"/>'
            )
    return found


def _colour_sheet(name: str) -> str:
    return _COLOURS_SHEET.get(name.partition("_")[0], _COLOURS_SHEET[""])


def _draw_wave(values: np.ndarray, x: float, y: float, wide: float) -> list[str]:
    low, high = float(values.min()), float(values.max())
    scale = _CURVE_HEIGHT / max(high - low, 1e-9)
    parts = [
        f'<rect x="{x}" y="{y}" width="{wide}" height="{_CURVE_HEIGHT}" fill="#f6f6f6"/>',
        f'<text x="4" y="{y + _TEXT_SHEET}" font-size="11">{high:.3g}</text>',
        f'<text x="4" y="{y + _CURVE_HEIGHT}" font-size="11">{low:.3g}</text>',
    ]
    across = x + np.linspace(0, wide, len(values))
    for column, colour in zip(values.T, ("#c8553d", "#3d8361", "#1b6ca8", "#555555"), strict=False):
        points = " ".join(
            f"{a:.1f},{y + (high - b) * scale:.1f}" for a, b in zip(across, column, strict=True)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
    return parts


_GAP_CONTACT, _LABEL_CONTACT, _TEXT_CONTACT, _LINE = 8, 200, 13, 18
_PICTURE_WIDTH = 260  # of a picture on the sheet
_LETTERS_PER_LINE = 30  # of a line beside pictures


@dataclass(frozen=True, kw_only=True, eq=False)
class ContactRow:
    """Pictures of one line of the sheet.

    Args:
        label: in bold, beside them.
        about: below the label.
        pictures: (H, W, 3) uint8 each, all of one size.
        notes: below each picture; empty for none.
    """

    label: str
    about: str
    pictures: Sequence[np.ndarray]
    notes: Sequence[str]


def draw_contact_sheet(
    title: str, said: Sequence[str], columns: Sequence[str], rows: Sequence[ContactRow]
) -> str:
    """The sheet.

    Args:
        title: above all, large.
        said: sentences below it.
        columns: headings of the pictures.
        rows: of pictures.
    """
    wide = _LABEL_CONTACT + len(columns) * (_PICTURE_WIDTH + _GAP_CONTACT) + _GAP_CONTACT
    letters = int(wide / (0.56 * _TEXT_CONTACT))
    parts = [
        f'<text x="{_GAP_CONTACT}" y="28" font-size="20" font-weight="bold">'
        f"{_escape_xml(title)}</text>"
    ]
    top = 52
    for sentence in said:
        for line in textwrap.wrap(sentence, letters):
            parts.append(f'<text x="{_GAP_CONTACT}" y="{top}">{_escape_xml(line)}</text>')
            top += _LINE
    for place, heading in enumerate(columns):
        x = _LABEL_CONTACT + place * (_PICTURE_WIDTH + _GAP_CONTACT)
        parts.append(
            f'<text x="{x}" y="{top + 10}" font-weight="bold">{_escape_xml(heading)}</text>'
        )
    top += _LINE + _GAP_CONTACT
    for row in rows:
        high, across = row.pictures[0].shape[:2]
        tall = round(_PICTURE_WIDTH * high / across)
        parts += _draw_row_words(row, top)
        for place, (image, note) in enumerate(zip(row.pictures, row.notes, strict=True)):
            parts += _draw_image(
                image, note, _LABEL_CONTACT + place * (_PICTURE_WIDTH + _GAP_CONTACT), top, tall
            )
        top += max(tall + _LINE, _LINE * (2 + len(row.about) // _LETTERS_PER_LINE)) + _GAP_CONTACT
    size = f'viewBox="0 0 {wide} {top}" width="{wide}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" '
    head += f'font-size="{_TEXT_CONTACT}" role="img"><title>{_escape_xml(title)}</title>'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>"])


def _draw_row_words(row: ContactRow, top: int) -> list[str]:
    parts = [
        f'<text x="{_GAP_CONTACT}" y="{top + 14}" font-weight="bold">'
        f"{_escape_xml(row.label)}</text>"
    ]
    for place, line in enumerate(textwrap.wrap(row.about, _LETTERS_PER_LINE)):
        y = top + 14 + (place + 1) * _LINE
        parts.append(f'<text x="{_GAP_CONTACT}" y="{y}" font-size="12">{_escape_xml(line)}</text>')
    return parts


def _draw_image(image: np.ndarray, note: str, x: int, y: int, tall: int) -> list[str]:
    data = base64.b64encode(encode_jpeg(image)).decode()
    return [
        f'<image x="{x}" y="{y}" width="{_PICTURE_WIDTH}" height="{tall}" '
        'preserveAspectRatio="none" '
        f'href="data:image/jpeg;base64,{data}"/>',
        f'<text x="{x}" y="{y + tall + 14}" font-size="12" fill="#444">{_escape_xml(note)}</text>',
    ]


def _escape_xml(text: str) -> str:
    return html.escape(text)
