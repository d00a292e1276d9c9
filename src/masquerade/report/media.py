"""Pictures and films inside the page: before and after with one button, the unit on a frame.

Copies of films and pictures that are small enough to stand inside a page.
"""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np

from masquerade.guarantee import Unit, UnitName
from masquerade.io import video
from masquerade.io.video import probe, read
from masquerade.io.video import write as writer
from masquerade.report.sheet import encode_jpeg

MAX_SECONDS = 12  # of a film; what follows is left to the file itself
_MAX_SIDE = 640  # pixels, the longer one
_MAX_COPY_BYTES = 6 << 20  # of a copy; noise does not pack, so some are made smaller once more


@dataclass(frozen=True, kw_only=True)
class MediaCopy:
    """A copy for the page.

    Args:
        data: an .mp4 of H.264 with halved chroma, which every browser plays, or a JPEG.
        poster: its first frame as a JPEG.
        note: in which way it is less than the file; empty if in none.
    """

    data: bytes
    poster: bytes
    note: str


def shrink_film(path: Path) -> MediaCopy:
    """The first seconds of a film, made smaller until they fit; odd edges are cut."""
    contents = probe.probe_header(path)
    rate = Fraction(contents.rate).limit_denominator(1001)
    most = max(1, int(MAX_SECONDS * rate))
    height, width = contents.shape[1:3]
    step = -(-max(height, width) // _MAX_SIDE)
    while True:
        stream = io.BytesIO()
        with closing(read.read_frames(path)) as frames:
            writer.write_video(
                stream, _shrink_frames(islice(frames, most), step), suffix=".mp4", rate=rate
            )
            is_cut = next(frames, None) is not None
        size = len(stream.getvalue())
        if size <= _MAX_COPY_BYTES or step >= min(height, width) // 16:
            break
        step = max(
            step + 1, math.ceil(step * math.sqrt(size / _MAX_COPY_BYTES))
        )  # bytes as the area
    said = [f"the first {MAX_SECONDS} of about {contents.seconds:.0f} seconds"] * is_cut
    said += [_format_size(width, height, step)] * (step > 1)
    note = f"Shown here: {', '.join(said)}." if said else ""
    return MediaCopy(data=stream.getvalue(), poster=copy_still(path).data, note=note)


def copy_still(path: Path) -> MediaCopy:
    """The first frame of a film, or a picture."""
    with closing(read.read_frames(path)) as frames:
        frame = next(frames)
    step = -(-max(frame.shape[:2]) // _MAX_SIDE)
    data = encode_jpeg(next(_shrink_frames(iter([frame]), step)))
    height, width = frame.shape[:2]
    note = f"Shown here: {_format_size(width, height, step)}." if step > 1 else ""
    return MediaCopy(data=data, poster=data, note=note)


def read_size(path: Path) -> tuple[int, int]:
    """Height and width of its frames, upright."""
    height, width = probe.probe_header(path).shape[1:3]
    return height, width


def _format_size(width: int, height: int, step: int) -> str:
    return f"{width // step} by {height // step} pixels of {width} by {height}"


def _shrink_frames(frames: Iterator[np.ndarray], step: int) -> Iterator[np.ndarray]:
    """Means over squares of pixels, with an even number of them each way."""
    for frame in frames:
        high, wide = (max(size // step, 1) for size in frame.shape[:2])
        if step > 1 and min(frame.shape[:2]) >= step:
            parts = frame[: high * step, : wide * step].reshape(high, step, wide, step, 3)
            frame = parts.mean(axis=(1, 3)).round().astype(np.uint8)
        yield np.ascontiguousarray(frame[: high - high % 2 or 1, : wide - wide % 2 or 1])


_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg"}
_MAX_PICTURE_BYTES = 2 << 20  # of a picture that is shown as it is
_STROKE = 'stroke="#ffb000" stroke-width="2" vector-effect="non-scaling-stroke"'
_TINY_SHARE = 0.04  # of the width; what is smaller gets a ring
_COPY_NOTE = "Films are shown as copies that browsers play; the receipt is of the file itself."
_UNIT_CAPTIONS = {
    UnitName.PIXELS: "The square is as large as what is protected, on a published frame. It may be "
    "anywhere, and need not be a square.",
    UnitName.TUBE: "The square is as large as what is protected of every frame. It may be "
    "anywhere.",
    UnitName.FRAME: "The border marks what is protected: one such frame.",
}


def draw_side_by_side(pairs: list[tuple[str, Path]], *, is_still: bool = False) -> str:
    """Pictures or films beside each other, each with its caption; one button plays all films.

    Args:
        pairs: a caption and a file that `masquerade.io.video` reads, such as before and after.
        is_still: show the first frame of films alone, where a page would get too large.
    """
    shown, notes = [], []
    for said, path in pairs:
        inside, note = _embed_file(said, path, is_still=is_still)
        caption = f"<figcaption>{html.escape(said)}</figcaption>"
        shown.append(f"<figure>{inside}{caption}</figure>")
        notes.append(note)
    side = f'<div class="pair">{"".join(shown)}</div>'
    said = "".join(f'<p class="small">{html.escape(note)}</p>' for note in _list_distinct(notes))
    if is_still or all(_is_picture(path) for _, path in pairs):
        return side + said
    return (
        f'<div data-films>{side}<div class="controls"><button type="button">Play</button>'
        '<input type="range" min="0" max="1000" value="0" aria-label="Place in the film"></div>'
        f"{said}</div>"
    )


def draw_unit_on_frame(unit: Unit, path: Path) -> str:
    """What one unit covers, drawn on the first published frame; nothing where it has no shape."""
    if unit.name not in _UNIT_CAPTIONS:
        return ""
    copy, (high, wide) = copy_still(path), read_size(path)
    if unit.sites and unit.sites > high * wide:
        return ""  # more than a frame: a square would show too little
    across, down = float(wide), float(high)
    if unit.name is not UnitName.FRAME:
        down = min(math.sqrt(unit.sites or 1), high)
        across = (unit.sites or 1) / down
    left, top, said = (wide - across) / 2, (high - down) / 2, _UNIT_CAPTIONS[unit.name]
    parts = [
        f'<image width="{wide}" height="{high}" preserveAspectRatio="none" '
        f'href="{_make_data_url("image/jpeg", copy.data)}"/>',
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{across:.1f}" height="{down:.1f}" '
        f'fill="none" {_STROKE}/>',
    ]
    if max(across, down) < _TINY_SHARE * wide:  # so that it is found
        ring = f'<circle cx="{wide / 2}" cy="{high / 2}" r="{_TINY_SHARE * wide:.1f}" fill="none" '
        parts.append(f"{ring}{_STROKE}/>")
        said = f"In the middle of the ring: {said[:1].lower()}{said[1:]}"
    return (
        f'<figure class="unit"><svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {wide} {high}" aria-label="{html.escape(said)}">{"".join(parts)}</svg>'
        f"<figcaption>{html.escape(said)}</figcaption></figure>"
    )


def _list_distinct(notes: list[str]) -> list[str]:
    return [note for note in dict.fromkeys(notes) if note]


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in video.PICTURES


def _embed_file(said: str, path: Path, *, is_still: bool) -> tuple[str, str]:
    """What is shown of a file, and in which way that is less than the file."""
    label = html.escape(said, quote=True)
    kind = _TYPES.get(path.suffix.lower())
    if kind is not None and path.stat().st_size <= _MAX_PICTURE_BYTES:
        return f'<img alt="{label}" src="{_make_data_url(kind, path.read_bytes())}">', ""
    if is_still or kind is not None:
        copy = copy_still(path)
        note = copy.note if kind else "Shown here: the first frame, so that this page stays small."
        return f'<img alt="{label}" src="{_make_data_url("image/jpeg", copy.data)}">', note
    film = shrink_film(path)
    poster, source = (
        _make_data_url("image/jpeg", film.poster),
        _make_data_url("video/mp4", film.data),
    )
    return (
        f'<video muted playsinline loop preload="auto" aria-label="{label}" '
        f'poster="{poster}" src="{source}"></video>',
        film.note or _COPY_NOTE,
    )


def _make_data_url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
