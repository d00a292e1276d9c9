"""What of a video is private and what is public, and which stretches of it are learned from.

Private pixels are filled with a constant *before* anything else is done with a frame: resizing and
patches overlap, so a mask applied later would let private pixels through. In a decoded video public
pixels beside private ones are filled too, because their colour is partly that of the private ones.

Psi: what of a picture is given away, so that it can teach without noise.

A public picture must hide by being many-to-one, which means by rounding. A blur alone hides
nothing: over the real numbers it can be undone, so no two pictures would share their public one and
a promise for such pairs would be empty. Psi is therefore always whole numbers: means of blocks in a
few bits, or a blur rounded to 8 bits, of which the rounding alone protects anything.

A picture's blocks lie on its own pixels. Of a photo psi is made before anybody is cut out of it:
crops are enlarged, so that blocks of theirs would show more the smaller a box is, and all of the
photo where there are many boxes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np

from masquerade import _check
from masquerade._optional import ndimage
from masquerade.errors import BadInput
from masquerade.recordings import Video

KERNEL_PX = 25  # [sivangi2025, Sec. 4.1]: 25 x 25, sigma 10
SIGMA_PX = 10.0
_NUM_LEVELS = 256
_SHEET_PICTURES, _SHOWN_PX = (
    36,
    320,
)  # pictures that are shown to whoever wants to look, and their size


@dataclass(frozen=True, kw_only=True)
class Psi:
    """A rule that makes of every picture its public one; it looks at that picture alone.

    Args:
        kind: pool, means of blocks, or blur.
        block: side of a block in pixels, for pool.
        bits: of each mean, for pool.
    """

    kind: Literal["pool", "blur"] = "pool"
    block: int = 16
    bits: int = 4

    def __post_init__(self) -> None:
        _check.count(block=self.block, bits=self.bits)
        if self.bits > 8:
            raise ValueError(f"Expected bits from 1 to 8, got bits={self.bits}.")
        if self.kind == "pool" and self.block == 1 and self.bits == 8:
            raise ValueError(
                "Expected a public picture that hides something, got block=1 bits=8, which is the "
                "picture itself; take larger blocks."
            )

    def compute_levels(self, pictures: np.ndarray) -> np.ndarray:
        """All that is public of pictures (..., H, W, 3) uint8: whole numbers, fewer or fewer bits.

        Example:
            >>> white = np.full((4, 6, 3), 255, np.uint8)
            >>> Psi(block=4, bits=2).compute_levels(white)[..., 0].tolist()
            [[3, 3]]
        """
        if pictures.dtype != np.uint8:
            raise TypeError(f"Expected pictures of uint8, got {pictures.dtype}.")
        if self.kind == "blur":
            return _blur_pictures(pictures)
        total, pixels = pictures.astype(np.int64), np.ones(pictures.shape[-3:-1], np.int64)
        for axis, size in ((-3, pictures.shape[-3]), (-2, pictures.shape[-2])):
            starts = np.arange(0, size, self.block)
            total = np.add.reduceat(total, starts, axis=axis)
            pixels = np.add.reduceat(pixels, starts, axis=axis + 1)
        # whole numbers: the same on every machine
        found: np.ndarray = (total << self.bits) // (_NUM_LEVELS * pixels[..., None])
        return found.astype(np.uint8)

    def render_pictures(self, levels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        """Public pictures (..., H, W, 3) uint8 as a network wants to see them, from levels alone.

        Means of blocks are drawn at the blocks' middles, and run into each other between them.
        """
        if self.kind == "blur":
            return levels
        grey = (levels.astype(np.float32) + 0.5) * (_NUM_LEVELS >> self.bits) - 0.5
        for axis, pixels in ((-3, size[0]), (-2, size[1])):
            grey = _stretch_blocks(grey, axis, pixels, self.block)
        return np.asarray(np.clip(np.rint(grey), 0, 255), np.uint8)

    def __call__(self, pictures: np.ndarray) -> np.ndarray:
        """The public pictures of pictures (..., H, W, 3) uint8, of the same size."""
        return self.render_pictures(
            self.compute_levels(pictures), (pictures.shape[-3], pictures.shape[-2])
        )

    @property
    def rule_description(self) -> str:
        """In words."""
        if self.kind == "blur":
            return (
                f"every picture, blurred by {KERNEL_PX} x {KERNEL_PX} pixels (sigma "
                f"{SIGMA_PX:g}) and rounded to 8 bits"
            )
        return (
            f"every picture as means of {self.block} x {self.block} pixels in {self.bits} bits "
            "a channel"
        )

    def hash_rule(self, *, is_photo: bool) -> bytes:
        """A hash of the rule: of one recording two rules could together show more than each.

        Photos had blocks on their crops once, which is another rule.
        """
        where = " on whole photos, cut afterwards" if is_photo else ""
        return hashlib.sha256(f"{self!r}{where}".encode()).digest()

    @property
    def warning(self) -> str:
        """What a reader must know of it; empty for means of blocks of several pixels."""
        if self.kind == "pool":
            alone = (
                "Blocks of one pixel are the picture itself, in fewer shades: everybody is seen."
            )
            return alone * (self.block == 1)
        return (
            "A blur can be sharpened again, but for what rounding to 8 bits lost: only that much "
            "of a picture is protected. Means of blocks (psi pool) hide more, and how much is seen."
        )


# earlier receipts do not say it: blocks of photos were those of enlarged crops then
OF_WHOLE = (
    "that psi is of a picture's own pixels, fewer at its right and lower edge, and that a photo is "
    "cut around people only afterwards; how large each picture is"
)


class PublicPictures:
    """Takes in public pictures as they are made: their fingerprint, and some to look at."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._kept: list[np.ndarray] = []

    def add_pictures(self, psi: Psi, pictures: np.ndarray, *, cut: str = "") -> np.ndarray:
        """Psi of a recording's pictures (..., H, W, 3), taken in as well.

        Args:
            psi: the rule.
            pictures: whole, on their own pixels.
            cut: what is cut out of them afterwards, which is public too.
        """
        levels = psi.compute_levels(pictures)
        found = psi.render_pictures(levels, (pictures.shape[-3], pictures.shape[-2]))
        self._digest.update(f"{levels.shape}{cut}".encode())
        self._digest.update(np.ascontiguousarray(levels).tobytes())
        if len(self._kept) < _SHEET_PICTURES:
            step = -(-max(found.shape[-3:-1]) // _SHOWN_PX)
            self._kept.append(found.reshape(-1, *found.shape[-3:])[0, ::step, ::step])
        return found

    @property
    def sha256(self) -> str:
        """Over all that was made public: it says which pictures a guarantee speaks of."""
        return self._digest.hexdigest()

    @property
    def sheet(self) -> np.ndarray:
        """(H, W, 3) uint8: the first public pictures beside each other, to be looked at."""
        height, width = (max(one.shape[axis] for one in self._kept) for axis in (0, 1))
        columns = int(np.ceil(np.sqrt(len(self._kept))))
        rows = -(-len(self._kept) // columns)
        found = np.full((rows * height, columns * width, 3), 255, np.uint8)
        for number, one in enumerate(self._kept):
            top, left = number // columns * height, number % columns * width
            found[top : top + one.shape[0], left : left + one.shape[1]] = one
        return found


def _stretch_blocks(grey: np.ndarray, axis: int, pixels: int, block: int) -> np.ndarray:
    """Blocks along an axis as pixels, each between the middles of two blocks."""
    held = np.moveaxis(grey, axis, 0)
    place = np.clip((np.arange(pixels) + 0.5) / block - 0.5, 0, len(held) - 1)
    first = np.floor(place).astype(int)
    share = (place - first).astype(np.float32).reshape(-1, *[1] * (held.ndim - 1))
    after = np.minimum(first + 1, len(held) - 1)
    found: np.ndarray = held[first] * (1 - share) + held[after] * share
    return np.moveaxis(found, 0, axis)


def _blur_pictures(pictures: np.ndarray) -> np.ndarray:
    """A Gaussian of 25 x 25 pixels, rounded: never kept as anything finer than uint8."""
    reach = KERNEL_PX // 2
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / SIGMA_PX) ** 2)
    weights /= weights.sum()
    found = pictures.astype(np.float64)
    for axis in (-3, -2):
        found = ndimage.correlate1d(found, weights, axis=axis, mode="nearest")
    return np.asarray(np.clip(np.rint(found), 0, 255), np.uint8)


FILL_LEVEL = 114  # grey, near the mean that networks are normalised by; public
# In 4:2:0 video 2 x 2 pixels share one colour, and swscale's bicubic filter carries it on, up to 5
# pixels from any of them (6 where lines are interlaced).
BORDER_PX = 6


class PrivateSide(StrEnum):
    """Which side of the person mask is private."""

    BACKGROUND = "background"
    PERSON = "person"


def public_view(video: Video, private: PrivateSide) -> np.ndarray:
    """What of a video is public, on grey; less of it where it was decoded from a file."""
    return on_grey(video.frames, ~find_hidden_pixels(video, private))


def private_view(video: Video, private: PrivateSide) -> np.ndarray:
    """What of a video is private, on grey: all that its public view hides, and nothing else."""
    return on_grey(video.frames, find_hidden_pixels(video, private))


def on_grey(frames: np.ndarray, is_kept: np.ndarray) -> np.ndarray:
    """Frames (..., 3) as they are where a pixel is kept (...), and the constant elsewhere."""
    return np.where(is_kept[..., None], frames, np.uint8(FILL_LEVEL))


def find_hidden_pixels(video: Video, private: PrivateSide) -> np.ndarray:
    """(T, H, W): which pixels of a video nothing may use without noise; from its public mask."""
    border = BORDER_PX if video.is_decoded else 0
    return mask_hidden(video.frames, video.person_mask, private, border=border)


def fill_private(
    frames: np.ndarray,
    person_mask: np.ndarray | None,
    private: PrivateSide,
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
    return on_grey(frames, ~mask_hidden(frames, person_mask, private, border=border))


def mask_hidden(
    frames: np.ndarray, person_mask: np.ndarray | None, private: PrivateSide, *, border: int
) -> np.ndarray:
    """(T, H, W): private pixels and those near one; arguments as in `fill_private`."""
    if person_mask is None:
        raise BadInput("Expected a person mask with every video, got one without; give --masks.")
    _check.shape("T H W", frames=frames[..., 0], person_mask=person_mask)
    found = person_mask if private is PrivateSide.PERSON else ~person_mask
    for axis in (1, 2):
        found = _grow_mask(found, border, axis)
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


def _grow_mask(hidden: np.ndarray, border: int, axis: int) -> np.ndarray:
    """Where something is hidden within ``border`` places along an axis."""
    before = np.moveaxis(hidden, axis, 0)
    found = before.copy()
    for step in range(1, border + 1):
        found[step:] |= before[:-step]
        found[:-step] |= before[step:]
    return np.moveaxis(found, 0, axis)


def spread_segments(frames: np.ndarray, *, count: int, length: int) -> np.ndarray:
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


def hash_mask_source(video: Video) -> bytes:
    """A hash of what decides which pixels of a video are public; empty where it has no mask."""
    if video.person_mask is None:
        return b""
    found = bytes.fromhex(hash_masks([video.person_mask]))
    return hashlib.sha256(b"decoded" + found).digest() if video.is_decoded else found


def hash_masks(masks: list[np.ndarray]) -> str:
    """SHA-256 over all masks, which are public: it says which ones a guarantee speaks of."""
    digest = hashlib.sha256()
    for mask in masks:
        digest.update(repr(mask.shape).encode())
        digest.update(np.packbits(mask).tobytes())
    return digest.hexdigest()
