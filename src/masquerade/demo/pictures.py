"""Stage in pictures: its clip and sheets, and frames side by side, as docs and demo show them."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path

import numpy as np

from masquerade.collection import Medium
from masquerade.datasets.stage import Stage
from masquerade.demo.chapter import Chapter
from masquerade.io import atomic
from masquerade.io.video import read
from masquerade.io.video import write as writer
from masquerade.publish import sheets
from masquerade.recordings import Video
from masquerade.report import page

FILM = Stage(height=120, width=160, frames=64, rate_hz=25.0, bystanders=0.0)
_SHEET = Stage(height=96, width=96, split="test")
_PHOTOS = Stage(kind=Medium.PHOTOS, split="test", joints="coco")
_TOGETHER = 2  # someone who jumps
ZOOM, _GAP = 2, 4
_STEPS, _OWN_STEP = (4, 8, 16, 32, 64), 8  # colours are rounded until a file is small
STRIP = "strip.png"
FILMS = ("clip.private.mp4", "clip-cosine-16-sites.mp4", "clip-avatar.mp4", "clip-place-hidden.mp4")
_MOST_BYTES = 290_000  # of the strip, which stands in the README
_SHOWN = 32  # its frame


def make_clip(index: int = 0) -> Video:
    """A short video of somebody who never lived."""
    made = FILM[index]
    if not isinstance(made, Video):
        raise TypeError(f"Expected a video, got {type(made).__name__}.")
    return made


def make_portrait(subject: int = 1) -> Video:
    """Another one from near by."""
    return FILM.portrait(subject)


def write_clip(path: Path | str, video: Video | None = None) -> Path:
    """Write the clip, or another video, to a file such as ``clip.mp4``; give back its path."""
    video, path = video or make_clip(), Path(path)
    rate = Fraction(video.rate_hz).limit_denominator(1001)
    with atomic.staged(path) as part:
        writer.write(part.stream, iter(video.frames), suffix=path.suffix, rate=rate)
        part.seal()
        part.name()
    return path


def draw_sheets() -> dict[str, str]:
    """The sheets, as SVG text by file name."""
    chosen = [_SHEET[index] for index in sheets.pick(_SHEET, 12)]
    photos = [_PHOTOS[index] for index in range(16)]
    return {
        "sheet.svg": sheets.video_sheet(chosen),  # type: ignore[arg-type]
        "photos.svg": sheets.photo_sheet(photos, _PHOTOS.joint_names),  # type: ignore[arg-type]
        "together.svg": sheets.together(_SHEET, _TOGETHER),
    }


def write_sections(drawn: dict[str, str]) -> list[page.Section]:
    """Stage on the page: nobody in it ever lived, so it can be shown to all."""
    words = {
        "together.svg": "One video, its person mask, its joints, and what an accelerometer at the "
        "wrist would have read (m/s2).",
        "sheet.svg": "The activities, done by people of the test split at places drawn by chance.",
    }
    body = page.paragraphs(
        ["Bodies, motion, places and sensors are generated; every label is exact."]
    )
    for name, said in words.items():
        body += page.paragraphs([said]) + page.figure(drawn[name])
    return [
        page.Section(title="Stage: people who never lived", body=body, part=page.PagePart.APPENDIX)
    ]


def make_stage_chapter(folder: Path) -> Chapter:
    """Stage's pictures, also as files."""
    drawn = draw_sheets()
    for name, text in drawn.items():
        atomic.write_whole(folder / f"stage-{name}", text.encode())
    return Chapter(sections=write_sections(drawn))


def join_frames(before: np.ndarray, *after: np.ndarray, most_bytes: int = 60_000) -> bytes:
    """A small PNG of frames of one size, enlarged, with white gaps between them."""
    gap = np.full((len(before), _GAP // ZOOM, 3), 255, np.uint8)
    for step in _STEPS:  # noise takes the room, and does not show that it was rounded
        row = [_round_colours(before, min(step, _OWN_STEP))]
        for one in after:
            row += [gap, _round_colours(one, step)]
        large = np.concatenate(row, axis=1).repeat(ZOOM, axis=0).repeat(ZOOM, axis=1)
        stream = io.BytesIO()
        writer.write(stream, [large], suffix=".png", rate=Fraction(1))
        if stream.tell() <= most_bytes:
            break
    return stream.getvalue()


def _round_colours(frame: np.ndarray, step: int) -> np.ndarray:
    return np.asarray(np.minimum(np.rint(frame / step) * step, 255)).astype(np.uint8)


def write_strip(folder: Path) -> Path:
    """Draw the same frame of every film that stands in a folder, side by side."""
    films = [folder / name for name in FILMS if (folder / name).is_file()]
    frames = [read.segment(path, _SHOWN, _SHOWN + 1)[0] for path in films]
    atomic.write_whole(folder / STRIP, join_frames(*frames, most_bytes=_MOST_BYTES))
    return folder / STRIP
