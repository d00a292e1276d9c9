"""Where things may stand: clear of the stage, out of the cameras' way, not in each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np

from masquerade.data.world.solids import Piece, placed

STAGE_M = 1.8  # nothing stands nearer to the origin
NUM_VIEWS = 6
STEP_DEG = 24.0  # between neighbouring views
_FARTHEST_M = 7.5  # of any camera
_BESIDE_M = 0.5  # free on either side of a line of sight
_LOW_M, _HIGH_M = 0.05, 2.3  # what is flatter or hangs higher stands in nobody's way

Choice = TypeVar("Choice")
Item = tuple[float, Piece]  # how much of a wall it takes, and what it is


def one(choices: Sequence[Choice], rng: np.random.Generator) -> Choice:
    """One of them, each as likely."""
    return choices[int(rng.integers(len(choices)))]


def azimuth_deg(view: int) -> float:
    """Direction from the stage to the camera, from x towards y; the views fan out around -y."""
    return -90.0 + (view - (NUM_VIEWS - 1) / 2) * STEP_DEG


def _sight() -> np.ndarray:
    """Points along the nominal lines of sight, (S, 2)."""
    angles = np.radians([azimuth_deg(view) for view in range(NUM_VIEWS)])
    reach = np.arange(STAGE_M, _FARTHEST_M, 0.2)
    lines = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.asarray((lines[:, None] * reach[:, None]).reshape(-1, 2))


SIGHT = _sight()


def extent(piece: Piece) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest x and y of the parts that stand in the way, or an empty extent."""
    points = []
    for quad in piece:
        corner, across, down = (np.asarray(v) for v in (quad.corner, quad.across, quad.down))
        four = np.stack([corner, corner + across, corner + down, corner + across + down])
        if four[:, 2].min() < _HIGH_M and four[:, 2].max() > _LOW_M:
            points.append(four[:, :2])
    if not points:
        return np.full(2, np.inf), np.full(2, -np.inf)
    every = np.concatenate(points)
    return every.min(axis=0), every.max(axis=0)


def is_clear(piece: Piece) -> bool:
    """Whether the piece leaves the stage and the lines of sight free."""
    low, high = extent(piece)
    if (low > high).any():
        return True
    nearest = np.clip(0, low, high)
    if math.hypot(*nearest) < STAGE_M + 0.02:
        return False
    inside = (SIGHT > low - _BESIDE_M) & (SIGHT < high + _BESIDE_M)
    return not inside.all(axis=1).any()


def lined_up(
    items: Iterable[Item], *, start: float, end: float, rng: np.random.Generator
) -> list[tuple[float, Piece]]:
    """As many of the items as fit side by side, each with where its middle comes to lie."""
    chosen, used = [], 0.0
    for width, piece in items:
        if used + width + 0.05 <= end - start:
            chosen.append((width, piece))
            used += width + 0.05
    gaps = rng.dirichlet(np.ones(len(chosen) + 1)) * (end - start - used)
    at, found = start, []
    for (width, piece), gap in zip(chosen, gaps, strict=False):
        at += float(gap) + width / 2
        found.append((at, piece))
        at += width / 2 + 0.05
    return found


def scattered(
    pieces: Iterable[Piece],
    *,
    bounds: tuple[float, float, float, float],
    taken: list[Piece],
    turns: tuple[float, ...],
    rng: np.random.Generator,
) -> list[Piece]:
    """The pieces at random spots of the bounds (left, right, near, far) that are free.

    A piece that finds no spot in a few tries is left out.
    """
    boxes = [extent(piece) for piece in taken]
    found = []
    for piece in pieces:
        for _ in range(30):
            turn = turns[rng.integers(len(turns))] + float(rng.uniform(-8, 8))
            at = (float(rng.uniform(*bounds[:2])), float(rng.uniform(*bounds[2:])), 0.0)
            moved = placed(piece, at, turn_deg=turn)
            low, high = extent(moved)
            apart = all((low > other[1]).any() or (high < other[0]).any() for other in boxes)
            if apart and is_clear(moved):
                boxes.append((low, high))
                found.append(moved)
                break
    return found
