"""Pictures and films inside the page: before and after with one button, the unit on a frame."""

from __future__ import annotations

import base64
import html
import io
import math
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np

from masquerade import video
from masquerade.guarantee import Unit, UnitName
from masquerade.report.sheet import jpeg
from masquerade.video import header, read
from masquerade.video import write as writer

_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg"}
_DRAWN = {
    UnitName.PIXELS: "The square is as large as the sites that are protected, all in one frame; "
    "they may lie anywhere in the film.",
    UnitName.TUBE: "The square is as large as what is protected of every frame; it may lie "
    "anywhere.",
    UnitName.FRAME: "The border marks what is protected: one such frame.",
}


def films(pairs: list[tuple[str, Path]]) -> str:
    """Pictures or films side by side, each with its caption; films share a button and a slider.

    Args:
        pairs: a caption and a file that `masquerade.video` reads, such as before and after.
    """
    shown = "\n".join(
        f"<figure>{_embedded(said, path)}<figcaption>{html.escape(said)}</figcaption></figure>"
        for said, path in pairs
    )
    if all(_is_picture(path) for _, path in pairs):
        return f'<div class="pair">{shown}</div>'
    return (
        f'<div data-films><div class="pair">{shown}</div><div class="controls">'
        '<button type="button">Play</button><input type="range" min="0" max="1000" value="0" '
        'aria-label="Place in the film"></div><p>Films are shown as copies that browsers play; '
        "the receipt is of the published file itself.</p></div>"
    )


def unit_on_frame(unit: Unit, path: Path) -> str:
    """What one unit covers, drawn on the first published frame; nothing where it has no shape."""
    if unit.name not in _DRAWN:
        return ""
    frame = first_frame(path)
    high, wide = frame.shape[:2]
    if unit.sites and unit.sites > high * wide:
        return ""  # more than a frame: a square would show too little
    side = math.sqrt(unit.sites or high * wide)
    across, down = min(side, wide), min(side, high)
    if unit.name is UnitName.FRAME:
        across, down = wide, high
    left, top = (wide - across) / 2, (high - down) / 2
    data = base64.b64encode(jpeg(frame)).decode()
    said = _DRAWN[unit.name]
    return (
        f'<figure><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" '
        f'width="{min(2 * wide, 640)}" role="img" aria-label="{html.escape(said)}">'
        f'<image width="{wide}" height="{high}" href="data:image/jpeg;base64,{data}"/>'
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{across:.1f}" height="{down:.1f}" '
        'fill="none" stroke="#ffb000" stroke-width="2" vector-effect="non-scaling-stroke"/></svg>'
        f"<figcaption>{html.escape(said)}</figcaption></figure>"
    )


def first_frame(path: Path) -> np.ndarray:
    """Of a film or a picture."""
    return next(iter(islice(read.frames(path), 1)))


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in video.PICTURES


def _embedded(said: str, path: Path) -> str:
    label = html.escape(said, quote=True)
    if _is_picture(path):
        data = base64.b64encode(path.read_bytes()).decode()
        kind = _TYPES[path.suffix.lower()]
        return f'<img alt="{label}" src="data:{kind};base64,{data}">'
    data = base64.b64encode(_playable(path)).decode()
    poster = base64.b64encode(jpeg(first_frame(path))).decode()
    return (
        f'<video muted playsinline preload="auto" aria-label="{label}" '
        f'poster="data:image/jpeg;base64,{poster}" src="data:video/mp4;base64,{data}"></video>'
    )


def _playable(path: Path) -> bytes:
    """The film as H.264 with halved chroma, which every browser plays; odd edges are cut."""
    contents = header.told(path)
    rate = Fraction(contents.rate).limit_denominator(1001)
    stream = io.BytesIO()
    even = (np.ascontiguousarray(_even(frame)) for frame in read.frames(path))
    writer.write(stream, even, suffix=".mp4", rate=rate)
    return stream.getvalue()


def _even(frame: np.ndarray) -> np.ndarray:
    high, wide = frame.shape[:2]
    return frame[: high - high % 2 or 1, : wide - wide % 2 or 1]
