"""A contact sheet as SVG text: rows of pictures with words beside them and headings above."""

from __future__ import annotations

import base64
import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.report import sheet

_GAP, _LABEL, _TEXT, _LINE = 8, 200, 13, 18
_WIDE = 260  # of a picture on the sheet
_LETTERS = 30  # of a line beside pictures


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


def contact(
    title: str, said: Sequence[str], columns: Sequence[str], rows: Sequence[ContactRow]
) -> str:
    """The sheet.

    Args:
        title: above all, large.
        said: sentences below it.
        columns: headings of the pictures.
        rows: of pictures.
    """
    wide = _LABEL + len(columns) * (_WIDE + _GAP) + _GAP
    letters = int(wide / (0.56 * _TEXT))
    parts = [f'<text x="{_GAP}" y="28" font-size="20" font-weight="bold">{_safe(title)}</text>']
    top = 52
    for sentence in said:
        for line in textwrap.wrap(sentence, letters):
            parts.append(f'<text x="{_GAP}" y="{top}">{_safe(line)}</text>')
            top += _LINE
    for place, heading in enumerate(columns):
        x = _LABEL + place * (_WIDE + _GAP)
        parts.append(f'<text x="{x}" y="{top + 10}" font-weight="bold">{_safe(heading)}</text>')
    top += _LINE + _GAP
    for row in rows:
        high, across = row.pictures[0].shape[:2]
        tall = round(_WIDE * high / across)
        parts += _words(row, top)
        for place, (image, note) in enumerate(zip(row.pictures, row.notes, strict=True)):
            parts += _shown(image, note, _LABEL + place * (_WIDE + _GAP), top, tall)
        top += max(tall + _LINE, _LINE * (2 + len(row.about) // _LETTERS)) + _GAP
    size = f'viewBox="0 0 {wide} {top}" width="{wide}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" '
    head += f'font-size="{_TEXT}" role="img"><title>{_safe(title)}</title>'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>"])


def _words(row: ContactRow, top: int) -> list[str]:
    parts = [f'<text x="{_GAP}" y="{top + 14}" font-weight="bold">{_safe(row.label)}</text>']
    for place, line in enumerate(textwrap.wrap(row.about, _LETTERS)):
        y = top + 14 + (place + 1) * _LINE
        parts.append(f'<text x="{_GAP}" y="{y}" font-size="12">{_safe(line)}</text>')
    return parts


def _shown(image: np.ndarray, note: str, x: int, y: int, tall: int) -> list[str]:
    data = base64.b64encode(sheet.jpeg(image)).decode()
    return [
        f'<image x="{x}" y="{y}" width="{_WIDE}" height="{tall}" preserveAspectRatio="none" '
        f'href="data:image/jpeg;base64,{data}"/>',
        f'<text x="{x}" y="{y + tall + 14}" font-size="12" fill="#444">{_safe(note)}</text>',
    ]


def _safe(text: str) -> str:
    return html.escape(text)
