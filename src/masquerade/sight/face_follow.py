"""Frames with the boxes of all faces to be covered in them, each when enough is known."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from masquerade.sight.face_tracks import Tracks


def followed(
    found: Iterator[tuple[np.ndarray, np.ndarray]], tracks: Tracks
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each frame with its boxes (N, 4); it waits for as many more as the tracks reach.

    Args:
        found: each frame with the faces (N, 5) that were found in it.
        tracks: empty; they hold all faces in the end.
    """
    waiting: deque[tuple[int, np.ndarray]] = deque()
    for number, (newest, faces) in enumerate(found):
        tracks.add(number, faces)
        waiting.append((number, newest))
        if len(waiting) > tracks.reach:
            oldest, frame = waiting.popleft()
            yield frame, tracks.at(oldest)
    for oldest, frame in waiting:
        yield frame, tracks.at(oldest)
