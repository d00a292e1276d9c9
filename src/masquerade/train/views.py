"""What of a video is private and what is public, and which stretches of it are learned from.

Private pixels are filled with a constant *before* anything else is done with a frame: resizing and
patches overlap, so a mask applied later would let private pixels through.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

import numpy as np

from masquerade import _check
from masquerade.errors import BadInput

FILL = 114  # grey, near the mean that networks are normalised by; public


class Private(StrEnum):
    """Which side of the person mask is private."""

    BACKGROUND = "background"
    PERSON = "person"


def filled(frames: np.ndarray, person_mask: np.ndarray | None, private: Private) -> np.ndarray:
    """The public view: the same frames with every private pixel replaced by a constant.

    Args:
        frames: (T, H, W, 3) uint8.
        person_mask: (T, H, W) bool, True on people; it is public.
        private: which side is.
    """
    if person_mask is None:
        raise BadInput("Expected a person mask with every video, got one without; see mask_dp.")
    _check.shape("T H W", frames=frames[..., 0], person_mask=person_mask)
    hidden = person_mask if private is Private.PERSON else ~person_mask
    return np.where(hidden[..., None], np.uint8(FILL), frames)


def segments(frames: np.ndarray, *, count: int, length: int) -> np.ndarray:
    """(count, length, H, W, 3): stretches spread evenly; a short video is played to and fro.

    The rule looks at the number of frames alone, which is public.
    """
    _check.count(count=count, length=length)
    total = len(frames)
    step = max(1, total // length)  # the whole of a long video, thinned
    reach = (length - 1) * step + 1
    last = max(0, total - reach)
    spread = np.linspace(0, last, count) if count > 1 else np.array([last / 2])  # or the middle
    starts = np.floor(spread + 0.5).astype(int)
    times = starts[:, None] + step * np.arange(length)
    cycle = max(1, 2 * total - 2)
    folded = times % cycle
    found: np.ndarray = frames[np.where(folded < total, folded, cycle - folded)]
    return found


def fingerprint(masks: list[np.ndarray]) -> str:
    """SHA-256 over all masks, which are public: it says which ones a guarantee speaks of."""
    digest = hashlib.sha256()
    for mask in masks:
        digest.update(repr(mask.shape).encode())
        digest.update(np.packbits(mask).tobytes())
    return digest.hexdigest()
