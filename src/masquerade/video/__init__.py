"""Frames in, frames out: video files and pictures, read and written through PyAV."""

from __future__ import annotations

from pathlib import Path

SUFFIXES = (".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".png", ".jpg", ".jpeg")
PICTURES = (".png", ".jpg", ".jpeg")


def is_video(path: Path) -> bool:
    """Whether the name's suffix is one of ``SUFFIXES``; a picture is a video of one frame.

    Example:
        >>> is_video(Path("A.MP4")), is_video(Path("a.npy"))
        (True, False)
    """
    return path.suffix.lower() in SUFFIXES
