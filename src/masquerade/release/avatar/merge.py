"""Put avatars over the emptied film, and say which pixels are drawn for certain.

`render` draws all avatars of a frame at once, the nearer over the farther. Their rims are softened
here inside what was drawn, so that nothing outside changes. A pixel is *synthetic for certain* if
nothing of what lies behind is mixed into it: its alpha is 1, and so is that of all pixels around
it, as far as the rim is soft.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade._optional import Later
from masquerade.release.avatar.outline import shrunk

cv2 = Later("cv2", extra="vision")


@dataclass(frozen=True, kw_only=True, eq=False)
class Merged:
    """A frame with avatars.

    Args:
        image: (H, W, 3) uint8.
        r: (H, W) bool, where anything was drawn.
        eroded_r: (H, W) bool, where nothing but the drawing is seen.
    """

    image: np.ndarray
    r: np.ndarray
    eroded_r: np.ndarray


def merged(behind: np.ndarray, drawn: np.ndarray, alpha: np.ndarray, *, blend_px: int) -> Merged:
    """Avatars over what is behind them.

    Args:
        behind: (H, W, 3) uint8, the emptied frame.
        drawn: of the same shape, the avatars over it, as `render.drawn` gives them.
        alpha: (H, W), how much of a pixel they cover; 1 where nothing shines through.
        blend_px: how wide the rim is softened, inside of the avatars.
    """
    r, whole = alpha > 0, alpha >= 1
    certain = shrunk(whole, blend_px)
    if not r.any():
        return Merged(image=behind.copy(), r=r, eroded_r=certain)
    rows, columns = _box(r)
    part = np.s_[rows, columns]
    share = np.where(r[part], _soft(whole[part], blend_px), np.float32(0))
    share[certain[part]] = 1.0
    mixed = behind[part] + (drawn[part].astype(np.float32) - behind[part]) * share[..., None]
    image = behind.copy()
    image[part] = np.where(r[part][..., None], np.rint(mixed), behind[part]).astype(np.uint8)
    return Merged(image=image, r=r, eroded_r=certain)


def _soft(whole: np.ndarray, blend_px: int) -> np.ndarray:
    """(H, W) float32: 1 inside, and less within ``blend_px`` of the rim, never below a half.

    What is drawn there is anti-aliased already; half of it is enough to soften a step.
    """
    if blend_px == 0:
        return np.ones(whole.shape, np.float32)
    side = 2 * blend_px + 1
    kind = cv2.BORDER_REPLICATE
    return np.asarray(cv2.blur(whole.astype(np.float32), (side, side), borderType=kind)).clip(0.5)


def _box(mask: np.ndarray) -> tuple[slice, slice]:
    """The rows and columns that a mask reaches."""
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
