"""Skeletons drawn over a picture: lines between joints, a dot on each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masquerade import joints as lists

_COLOURS = {"left": (255, 176, 0), "right": (0, 160, 255)}
_OTHERS = (255, 255, 255)


def with_skeletons(
    image: np.ndarray, people: Sequence[np.ndarray], names: Sequence[str]
) -> np.ndarray:
    """A copy of a picture (H, W, 3) with the joints (J, 2) of people drawn over it.

    Joints that are not finite, and what lies outside the picture, are left out.
    """
    drawn = image.copy()
    radius = max(1.0, min(image.shape[:2]) / 150)
    for joints in people:
        for first, second in lists.limbs(names):
            _line(drawn, joints[first], joints[second], radius, _colour(names[second]))
        for place, name in enumerate(names):
            _line(drawn, joints[place], joints[place], 1.8 * radius, _colour(name))
    return drawn


def _line(
    drawn: np.ndarray, start: np.ndarray, end: np.ndarray, radius: float, colour: tuple[int, ...]
) -> None:
    """Colour the pixels whose middles are within a radius of a line."""
    if not np.isfinite([*start, *end]).all():
        return
    size = np.array([drawn.shape[1], drawn.shape[0]])
    low = np.clip(np.floor(np.minimum(start, end) - radius), 0, size).astype(int)
    high = np.clip(np.ceil(np.maximum(start, end) + radius), 0, size).astype(int)
    if (low >= high).any():
        return
    y, x = np.mgrid[low[1] : high[1], low[0] : high[0]] + 0.5
    step = end - start
    along = ((x - start[0]) * step[0] + (y - start[1]) * step[1]) / max(float(step @ step), 1e-9)
    along = np.clip(along, 0, 1)
    away = np.hypot(x - start[0] - along * step[0], y - start[1] - along * step[1])
    drawn[low[1] : high[1], low[0] : high[0]][away <= radius] = colour


def _colour(name: str) -> tuple[int, ...]:
    return _COLOURS.get(name.partition("_")[0], _OTHERS)
