"""The demo in one picture: the clip as it was, released, with an avatar, and its place hidden."""

from __future__ import annotations

from pathlib import Path

from masquerade.io import atomic
from masquerade.io.video import read
from masquerade.recipes.demo import avatars
from masquerade.recipes.stage import gallery

FILE = "strip.png"
FILMS = ("clip.private.mp4", "clip-cosine-16-sites.mp4", avatars.FILE, "clip-place-hidden.mp4")
_LARGEST = 290_000  # bytes; it stands in the README
_SHOWN = 32  # the frame


def write(folder: Path) -> Path:
    """Draw the same frame of every film that stands in a folder, side by side."""
    films = [folder / name for name in FILMS if (folder / name).is_file()]
    frames = [read.segment(path, _SHOWN, _SHOWN + 1)[0] for path in films]
    atomic.write_whole(folder / FILE, gallery.side_by_side(*frames, largest=_LARGEST))
    return folder / FILE
