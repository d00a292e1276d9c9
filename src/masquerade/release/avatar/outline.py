"""Masks as shapes: grown, shrunk, soft at the rim, and which of their things touch another mask.

A person's mask grows, and its rim is soft outside of what it grew to: no part of a person is mixed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade._optional import Later

cv2 = Later("cv2", extra="vision")


@dataclass(frozen=True, kw_only=True, eq=False)
class Edged:
    """A mask with its soft rim.

    Args:
        alpha: (H, W) float32, 1 on the mask grown, falling to 0 at the end of its rim.
        q: (H, W) bool, where ``alpha`` is above 0: all that may change.
    """

    alpha: np.ndarray
    q: np.ndarray


def together(mask: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(H, W) bool: those things in a mask that share a pixel with another mask.

    Example:
        >>> mask = np.array([[True, True, False, True]])
        >>> together(mask, np.array([[True, False, False, False]]))
        array([[ True,  True, False, False]])
    """
    count, labels = cv2.connectedComponents(mask.astype(np.uint8))
    found = np.zeros(count, bool)
    found[labels[other]] = True
    found[0] = False
    return np.asarray(found[labels])


def edged(mask: np.ndarray, *, grow_px: int, blend_px: int) -> Edged:
    """The mask grown, with a soft rim of ``2 * blend_px`` pixels around it.

    Example:
        >>> mask = np.zeros((9, 9), bool)
        >>> mask[4, 4] = True
        >>> soft = edged(mask, grow_px=1, blend_px=1)
        >>> int((soft.alpha == 1).sum()), int(soft.q.sum())
        (9, 49)
    """
    alpha, q = np.zeros(mask.shape, np.float32), np.zeros(mask.shape, bool)
    reach = around(mask, grow_px + 3 * blend_px)
    part, side = mask[reach], 2 * blend_px + 1
    soft = grown(part, grow_px + blend_px).astype(np.float32)
    if blend_px > 0:
        soft = cv2.GaussianBlur(soft, (side, side), blend_px / 1.5 + 0.3)
    q[reach] = grown(part, grow_px + 2 * blend_px)
    np.copyto(alpha[reach], soft, where=q[reach])
    alpha[reach][grown(part, grow_px)] = 1
    return Edged(alpha=alpha, q=q)


def around(mask: np.ndarray, margin: int) -> tuple[slice, slice]:
    """Rows and columns that a mask reaches, and a margin."""
    left, top, wide, tall = cv2.boundingRect(mask.view(np.uint8))
    return (
        slice(max(0, top - margin), top + tall + margin),
        slice(max(0, left - margin), left + wide + margin),
    )


def grown(mask: np.ndarray, by_px: int) -> np.ndarray:
    """(H, W) bool: what lies within ``by_px`` of the mask, up, down, left and right."""
    if by_px < 1:
        return mask.copy()
    side = np.ones((2 * by_px + 1, 1), np.uint8)
    wide = cv2.dilate(mask.astype(np.uint8), side)
    return np.asarray(cv2.dilate(wide, side.T) > 0)


def shrunk(mask: np.ndarray, by_px: int) -> np.ndarray:
    """(H, W) bool: what lies deeper than ``by_px`` in the mask; beyond the border it goes on."""
    return np.asarray(~grown(~mask, by_px))
