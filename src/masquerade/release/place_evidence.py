"""Where a picture shows its place, without any training: edges, corners and texture that stay.

Who compares places reads structure: lines, corners, lettering, patterns. Walls, sky and streets
without marks tell little. What changes from frame to frame (leaves, water, traffic) tells little
too, since it is not there the next time. It is looked for in a small picture: networks that
compare places see a few hundred pixels a side.
"""

from __future__ import annotations

import numpy as np

from masquerade._optional import Later

cv2 = Later("cv2", extra="vision")

_GAIN = 2.0  # logits of a standard deviation
_REACH = 7  # pixels over which evidence is gathered
_CHANGE = 12.0  # shades a pixel may change before it counts as moving
_FLAT = 1.0  # shades: a picture with less structure has none
_EVEN = 1e-3  # of the logarithm: a picture with less spread is the same everywhere


def logits(small: np.ndarray, moved: np.ndarray | None) -> np.ndarray:
    """(H, W) float32: high where the place is told; 0 everywhere without structure.

    Args:
        small: (H, W, 3) uint8, a frame made smaller.
        moved: the small frame before, moved to where things are now; None where there is none.
    """
    grey = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY)
    across, down = (cv2.Scharr(grey, cv2.CV_32F, *way, scale=1 / 16) for way in ((1, 0), (0, 1)))
    strength = cv2.magnitude(across, down)
    if moved is not None:
        change = cv2.absdiff(grey, cv2.cvtColor(moved, cv2.COLOR_RGB2GRAY))
        strength *= cv2.exp(change.astype(np.float32) / -_CHANGE)
    near = cv2.blur(strength, (_REACH, _REACH))
    found = np.log1p(near)
    spread = float(found.std())
    if float(near.max()) < _FLAT or spread < _EVEN:
        return np.zeros(near.shape, np.float32)
    return np.asarray(_GAIN * (found - found.mean()) / spread, np.float32)
