"""How much of a picture a release leaves to see, from public knowledge alone.

Only what varies within a frame counts: brightness alone is a plane of one grey. Pictures are taken
to be as the public prior expects them (`masquerade.release.prior`), so nothing here depends on a
recording. docs/video.md has what was measured beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masquerade.release import prior
from masquerade.release.prior import Size

ENCODED = 1.5  # of that, by rounding to bytes and an encoder
_SPREAD = 41.0**2  # variance of a channel within frames, by the prior


def denoised(size: Size, spectrum: np.ndarray, fidelity: np.ndarray | float) -> float:
    """Share that is left by the best linear guess from coefficients with noise.

    One of prior variance P that was released with noise of variance 1/L keeps P L / (1 + P L).

    Args:
        size: T, H, W of the chunk.
        spectrum: P of each released coefficient of luma; 0 for brightness, which does not count.
        fidelity: L of each.
    """
    whole, brightness = prior.energy(size)
    total = whole - brightness
    gain = spectrum * fidelity
    return float(np.sum(spectrum * gain / (1 + gain))) / total if total > 0 else 0.0


def raw(variance: float, *, projected: float = 1.0) -> float:
    """Share of what is shown that is the picture, where noise is shown with it.

    Args:
        variance: of the noise on each number; three of them make one luma.
        projected: share of a frame's directions that are kept; what a random projection mixes in
            of the others looks like noise as well.

    Example:
        >>> round(raw(0.0), 2), round(raw(240.0**2), 2), round(raw(0.0, projected=1 / 75), 2)
        (1.0, 0.08, 0.04)
    """
    seen = projected * _SPREAD
    return seen / (seen + ((1 - projected) * _SPREAD + variance) / 3)


def beyond(frames: Sequence[np.ndarray], high: np.ndarray, wide: np.ndarray) -> float:
    """The most of a frame's grey that no output can show, root mean square; a hint that one is not.

    Args:
        frames: (H, W, 3), of a film that is said to be an output.
        high: columns of which those of every output are made, (H, G).
        wide: the same of its rows, (W, K).
    """
    high, wide = np.linalg.qr(high)[0], np.linalg.qr(wide)[0]
    most = 0.0
    for frame in frames:
        grey = frame.mean(axis=2)
        rest = grey - high @ (high.T @ grey @ wide) @ wide.T
        most = max(most, float(np.sqrt(np.mean(rest**2))))
    return most
