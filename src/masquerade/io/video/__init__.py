"""Frames in, frames out: video files and pictures, read and written through PyAV."""

from __future__ import annotations

from pathlib import Path

WRITABLE = (".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".png", ".jpg", ".jpeg")
PICTURES = (".png", ".jpg", ".jpeg")
# What is read only, and what becomes of it where nobody says otherwise.
_WRITABLE_SUFFIX = {".webp": ".png"} | dict.fromkeys(
    (".gif", ".ts", ".mts", ".m2ts", ".flv", ".mpg", ".mpeg", ".3gp", ".3g2"), ".mp4"
)
SUFFIXES = (*WRITABLE, *_WRITABLE_SUFFIX)
MAX_PIXELS = 1 << 26  # of a frame, unless a caller asks for more; three bytes each, several copies


def is_video(path: Path) -> bool:
    """Whether the name's suffix is one of ``SUFFIXES``; a picture is a video of one frame.

    Example:
        >>> is_video(Path("A.MP4")), is_video(Path("a.npy"))
        (True, False)
    """
    return path.suffix.lower() in SUFFIXES


def choose_suffix(suffix: str) -> str:
    """The suffix of an output for an input of this one: the same where it can be written.

    Example:
        >>> choose_suffix(".MTS"), choose_suffix(".webp"), choose_suffix(".MOV")
        ('.mp4', '.png', '.MOV')
    """
    return _WRITABLE_SUFFIX.get(suffix.lower(), suffix)
