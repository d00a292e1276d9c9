"""Figure 6: one frame in six panels, from what was filmed to what is published."""

from __future__ import annotations

import numpy as np

from masquerade._optional import require
from masquerade.recipes.ppedcrf import variants
from masquerade.recordings import Video
from masquerade.report import sheet

cv2 = require("cv2", extra="vision")


SIGMA = 24.0  # as in the paper: for the eye
_ZOOM = 3  # of the crop
_BRIGHTER = 4.0  # of the difference


def drawn(film: Video) -> str:
    """The panels of a film's middle frame, as SVG.

    They show the film: only for one that may be published.
    """
    middle = len(film.frames) // 2
    frame = film.frames[middle]
    amount = variants.mapped(film)[middle].amount
    made = variants.selective.at(SIGMA).released(film, 6)[middle]
    blurred = variants.usual_blur.released(film, 6)[middle]
    away = np.abs(made.astype(int) - frame).clip(0, 255 / _BRIGHTER) * _BRIGHTER
    rows = {
        "a frame, b map": (frame, _heat(frame, amount)),
        "c noise, d diff": (made, away.astype(np.uint8)),
        "e blur, f crop": (blurred, _crop(frame, made, amount)),
    }
    return sheet.sheet(
        [
            sheet.Strip(label=label, pictures=[sheet.Picture(image=each) for each in pictures])
            for label, pictures in rows.items()
        ]
    )


def _heat(frame: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """The map in warm colours over a pale frame."""
    share = np.uint8(255 * amount / max(float(amount.max()), 1e-6))
    warm = cv2.cvtColor(cv2.applyColorMap(share, cv2.COLORMAP_INFERNO), cv2.COLOR_BGR2RGB)
    return np.asarray(cv2.addWeighted(frame, 0.35, warm, 0.65, 0))


def _crop(frame: np.ndarray, made: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """Where most noise is, before on the left and after on the right, enlarged."""
    height, width = amount.shape
    high, wide = height // _ZOOM, width // 2 // _ZOOM
    near = cv2.blur(amount, (wide, high))
    inside = near[high // 2 : height - high // 2, wide // 2 : width - wide // 2]
    top, left = np.unravel_index(int(inside.argmax()), inside.shape)
    cuts = [each[top : top + high, left : left + wide] for each in (frame, made)]
    size = (width // 2, height)
    large = [cv2.resize(cut, size, interpolation=cv2.INTER_NEAREST) for cut in cuts]
    return np.concatenate(large, axis=1)
