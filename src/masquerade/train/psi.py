"""Psi: what of a picture is given away, so that it can teach without noise.

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
from typing import Literal

import numpy as np
from scipy.ndimage import correlate1d

from masquerade import _check

KERNEL_PX = 25  # [sivangi2025, Sec. 4.1]: 25 x 25, sigma 10
SIGMA_PX = 10.0
_LEVELS = 256
_SHEET, _SHOWN_PX = 36, 320  # pictures that are shown to whoever wants to look, and their size


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

    def levels(self, pictures: np.ndarray) -> np.ndarray:
        """All that is public of pictures (..., H, W, 3) uint8: whole numbers, fewer or fewer bits.

        Example:
            >>> white = np.full((4, 6, 3), 255, np.uint8)
            >>> Psi(block=4, bits=2).levels(white)[..., 0].tolist()
            [[3, 3]]
        """
        if pictures.dtype != np.uint8:
            raise TypeError(f"Expected pictures of uint8, got {pictures.dtype}.")
        if self.kind == "blur":
            return _blurred(pictures)
        total, pixels = pictures.astype(np.int64), np.ones(pictures.shape[-3:-1], np.int64)
        for axis, size in ((-3, pictures.shape[-3]), (-2, pictures.shape[-2])):
            starts = np.arange(0, size, self.block)
            total = np.add.reduceat(total, starts, axis=axis)
            pixels = np.add.reduceat(pixels, starts, axis=axis + 1)
        # whole numbers: the same on every machine
        found: np.ndarray = (total << self.bits) // (_LEVELS * pixels[..., None])
        return found.astype(np.uint8)

    def pictures(self, levels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        """Public pictures (..., H, W, 3) uint8 as a network wants to see them, from levels alone.

        Means of blocks are drawn at the blocks' middles, and run into each other between them.
        """
        if self.kind == "blur":
            return levels
        grey = (levels.astype(np.float32) + 0.5) * (_LEVELS >> self.bits) - 0.5
        for axis, pixels in ((-3, size[0]), (-2, size[1])):
            grey = _stretched(grey, axis, pixels, self.block)
        return np.asarray(np.clip(np.rint(grey), 0, 255), np.uint8)

    def __call__(self, pictures: np.ndarray) -> np.ndarray:
        """The public pictures of pictures (..., H, W, 3) uint8, of the same size."""
        return self.pictures(self.levels(pictures), (pictures.shape[-3], pictures.shape[-2]))

    @property
    def said(self) -> str:
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

    def mark(self, *, is_photo: bool) -> bytes:
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

    def made(self, psi: Psi, pictures: np.ndarray, *, cut: str = "") -> np.ndarray:
        """Psi of a recording's pictures (..., H, W, 3), taken in as well.

        Args:
            psi: the rule.
            pictures: whole, on their own pixels.
            cut: what is cut out of them afterwards, which is public too.
        """
        levels = psi.levels(pictures)
        found = psi.pictures(levels, (pictures.shape[-3], pictures.shape[-2]))
        self._digest.update(f"{levels.shape}{cut}".encode())
        self._digest.update(np.ascontiguousarray(levels).tobytes())
        if len(self._kept) < _SHEET:
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


def _stretched(grey: np.ndarray, axis: int, pixels: int, block: int) -> np.ndarray:
    """Blocks along an axis as pixels, each between the middles of two blocks."""
    held = np.moveaxis(grey, axis, 0)
    place = np.clip((np.arange(pixels) + 0.5) / block - 0.5, 0, len(held) - 1)
    first = np.floor(place).astype(int)
    share = (place - first).astype(np.float32).reshape(-1, *[1] * (held.ndim - 1))
    after = np.minimum(first + 1, len(held) - 1)
    found: np.ndarray = held[first] * (1 - share) + held[after] * share
    return np.moveaxis(found, 0, axis)


def _blurred(pictures: np.ndarray) -> np.ndarray:
    """A Gaussian of 25 x 25 pixels, rounded: never kept as anything finer than uint8."""
    reach = KERNEL_PX // 2
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / SIGMA_PX) ** 2)
    weights /= weights.sum()
    found = pictures.astype(np.float64)
    for axis in (-3, -2):
        found = correlate1d(found, weights, axis=axis, mode="nearest")
    return np.asarray(np.clip(np.rint(found), 0, 255), np.uint8)
