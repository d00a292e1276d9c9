"""How like two films are, in the person and around: shares of variance, SSIM and PSNR."""

from __future__ import annotations

import math

import numpy as np
from scipy import ndimage

_WINDOW = 7
_PEAK = 255.0
_ROUNDING = 1 / 12  # squared error that rounding to bytes has: PSNR stays finite
_WORST = -1.0


def explained(guess: np.ndarray, truth: np.ndarray, where: np.ndarray) -> float:
    """The share of the variation of the true pixels that a guess has right.

    1 is perfect, 0 is as good as their mean colour; not below -1, however wrong.

    Args:
        guess: (T, H, W, 3).
        truth: the same.
        where: (T, H, W) bool.

    Example:
        >>> truth = np.arange(24.0).reshape(1, 2, 4, 3)
        >>> everywhere = np.ones((1, 2, 4), bool)
        >>> explained(truth, truth, everywhere), explained(truth + 1, truth, everywhere) < 1
        (1.0, True)
    """
    inside = truth[where].astype(np.float64)
    wrong = float(np.square(guess[where] - inside).mean())
    spread = float(np.square(inside - inside.mean(axis=0)).mean())
    return max(_WORST, 1 - wrong / max(spread, _ROUNDING))


def psnr(guess: np.ndarray, truth: np.ndarray, where: np.ndarray) -> float:
    """In dB, with the error of rounding to bytes added: at most 58.9."""
    wrong = float(np.square(guess[where] - truth[where].astype(np.float64)).mean())
    return 10 * math.log10(_PEAK**2 / (wrong + _ROUNDING))


def ssim(guess: np.ndarray, truth: np.ndarray, where: np.ndarray) -> float:
    """The mean of the structural similarity [wang2004, Eq. 13] around the pixels that are meant.

    Windows of 7 x 7 in each frame and channel, with sample covariance; at edges they are mirrored.
    """
    x, y = (each.astype(np.float64) for each in (guess, truth))
    size = (1, _WINDOW, _WINDOW, 1)
    sample = _WINDOW**2 / (_WINDOW**2 - 1)

    def mean(values: np.ndarray) -> np.ndarray:
        return np.asarray(ndimage.uniform_filter(values, size, mode="reflect"))

    mean_x, mean_y = mean(x), mean(y)
    var_x, var_y = (sample * (mean(v * v) - m * m) for v, m in ((x, mean_x), (y, mean_y)))
    both = sample * (mean(x * y) - mean_x * mean_y)
    bright, contrast = (0.01 * _PEAK) ** 2, (0.03 * _PEAK) ** 2
    found = (2 * mean_x * mean_y + bright) * (2 * both + contrast)
    found /= (mean_x**2 + mean_y**2 + bright) * (var_x + var_y + contrast)
    return float(found[where].mean())
