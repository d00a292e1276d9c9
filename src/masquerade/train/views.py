"""What of a video is private and what is public, and which stretches of it are learned from.

Private pixels are filled with a constant *before* anything else is done with a frame: resizing and
patches overlap, so a mask applied later would let private pixels through. In a decoded video public
pixels beside private ones are filled too, because their colour is partly that of the private ones.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

import numpy as np

from masquerade import _check
from masquerade.errors import BadInput
from masquerade.recordings import Video

FILL = 114  # grey, near the mean that networks are normalised by; public
# In 4:2:0 video 2 x 2 pixels share one colour, and swscale's bicubic filter carries it on, up to 5
# pixels from any of them (6 where lines are interlaced).
BORDER_PX = 6


class Private(StrEnum):
    """Which side of the person mask is private."""

    BACKGROUND = "background"
    PERSON = "person"


def public_view(video: Video, private: Private) -> np.ndarray:
    """What of a video is public, on grey; less of it where it was decoded from a file."""
    return on_grey(video.frames, ~hidden_of(video, private))


def private_view(video: Video, private: Private) -> np.ndarray:
    """What of a video is private, on grey: all that its public view hides, and nothing else."""
    return on_grey(video.frames, hidden_of(video, private))


def on_grey(frames: np.ndarray, is_kept: np.ndarray) -> np.ndarray:
    """Frames (..., 3) as they are where a pixel is kept (...), and the constant elsewhere."""
    return np.where(is_kept[..., None], frames, np.uint8(FILL))


def hidden_of(video: Video, private: Private) -> np.ndarray:
    """(T, H, W): which pixels of a video nothing may use without noise; from its public mask."""
    border = BORDER_PX if video.is_decoded else 0
    return hidden(video.frames, video.person_mask, private, border=border)


def filled(
    frames: np.ndarray,
    person_mask: np.ndarray | None,
    private: Private,
    *,
    border: int = BORDER_PX,
) -> np.ndarray:
    """The same frames with every private pixel, and those near one, replaced by a constant.

    Args:
        frames: (T, H, W, 3) uint8.
        person_mask: (T, H, W) bool, True on people; it is public.
        private: which side is.
        border: pixels up, down, left and right of a private one that are filled with it.
    """
    return on_grey(frames, ~hidden(frames, person_mask, private, border=border))


def hidden(
    frames: np.ndarray, person_mask: np.ndarray | None, private: Private, *, border: int
) -> np.ndarray:
    """(T, H, W): private pixels and those near one; arguments as in `filled`."""
    if person_mask is None:
        raise BadInput("Expected a person mask with every video, got one without; give --masks.")
    _check.shape("T H W", frames=frames[..., 0], person_mask=person_mask)
    found = person_mask if private is Private.PERSON else ~person_mask
    for axis in (1, 2):
        found = _grown(found, border, axis)
    return found


def in_tokens(covered: np.ndarray, tokens: tuple[int, ...]) -> np.ndarray:
    """Whole tokens, each covered where any of its pixels is, so that none of the others is.

    Args:
        covered: (T, H, W) bool.
        tokens: along T, H and W; where there are fewer pixels, each is one.

    Example:
        >>> in_tokens(np.array([[[True, False, False, False]]]), (1, 1, 2))
        array([[[ True,  True, False, False]]])
    """
    for axis, count in enumerate(tokens):
        size = covered.shape[axis]
        fewer = min(count, size)
        starts = np.arange(fewer) * size // fewer
        lengths = np.diff(starts, append=size)
        covered = np.logical_or.reduceat(covered, starts, axis=axis).repeat(lengths, axis=axis)
    return covered


def _grown(hidden: np.ndarray, border: int, axis: int) -> np.ndarray:
    """Where something is hidden within ``border`` places along an axis."""
    before = np.moveaxis(hidden, axis, 0)
    found = before.copy()
    for step in range(1, border + 1):
        found[step:] |= before[:-step]
        found[:-step] |= before[step:]
    return np.moveaxis(found, 0, axis)


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


def mark(video: Video) -> bytes:
    """A hash of what decides which pixels of a video are public; empty where it has no mask."""
    if video.person_mask is None:
        return b""
    found = bytes.fromhex(fingerprint([video.person_mask]))
    return hashlib.sha256(b"decoded" + found).digest() if video.is_decoded else found


def fingerprint(masks: list[np.ndarray]) -> str:
    """SHA-256 over all masks, which are public: it says which ones a guarantee speaks of."""
    digest = hashlib.sha256()
    for mask in masks:
        digest.update(repr(mask.shape).encode())
        digest.update(np.packbits(mask).tobytes())
    return digest.hexdigest()
