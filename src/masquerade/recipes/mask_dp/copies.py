"""Recordings seen in other ways, for runs without privacy: cut a little, and mirrored by chance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from masquerade.recordings import Video

_KEPT = 0.9  # of height and width


def copied(video: Video, *, rng: np.random.Generator) -> Video:
    """A part of a video's picture, the same in all frames, mirrored in half of all cases."""
    height, width = video.frames.shape[1:3]
    cut = []
    for size in (height, width):
        kept = max(1, round(_KEPT * size))
        begin = int(rng.integers(size - kept + 1))
        cut.append(slice(begin, begin + kept))
    turn = slice(None, None, -1 if rng.random() < 0.5 else 1)
    mask = video.person_mask
    return replace(
        video,
        frames=np.ascontiguousarray(video.frames[:, *cut][:, :, turn]),
        person_mask=None if mask is None else np.ascontiguousarray(mask[:, *cut][:, :, turn]),
        joints=None,
        joints_3d=None,
    )
