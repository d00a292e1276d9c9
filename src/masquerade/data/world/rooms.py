"""Indoor places: a shell of walls, and what each kind of room has along and between them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from masquerade.data.world import furniture as f
from masquerade.data.world.layout import Item, is_clear, lined_up, one, scattered
from masquerade.data.world.solids import Piece, Quad, Tint, Vector, flat, placed

Rng = np.random.Generator
# Few and pale, so that a wall's colour alone does not tell the place.
_WALLS: tuple[Tint, ...] = ((1.12, 1.09, 1.02), (1.04, 1.08, 1.06), (1.1, 1.05, 1.0))
_FLOORS: tuple[Tint, ...] = ((0.82, 0.74, 0.66), (0.78, 0.77, 0.75), (0.86, 0.77, 0.66))


@dataclass(frozen=True, kw_only=True)
class Room:
    """How far the walls are from the stage, how high the ceiling is, and what covers them."""

    left: float
    right: float
    back: float
    height: float
    wall: str
    lower: str  # the lower part of the walls; "" where there is none
    floor: str
    wall_tint: Tint
    floor_tint: Tint


@dataclass(frozen=True, kw_only=True)
class RoomKind:
    """What makes a kind of room: coverings, things along the walls, things between them."""

    walls: tuple[str, ...]
    floors: tuple[str, ...]
    along: Callable[[Rng], list[Item]]
    between: Callable[[Rng], list[Piece]]
    lower: tuple[str, ...] = ("",)
    height: tuple[float, float] = (2.6, 3.1)
    sides: tuple[float, float] = (2.9, 4.2)
    back: tuple[float, float] = (2.7, 3.8)


def furnish(plan: RoomKind, *, rng: Rng) -> list[Piece]:
    """All pieces of a room of that kind."""
    room = Room(
        left=float(rng.uniform(*plan.sides)),
        right=float(rng.uniform(*plan.sides)),
        back=float(rng.uniform(*plan.back)),
        height=float(rng.uniform(*plan.height)),
        wall=one(plan.walls, rng),
        lower=one(plan.lower, rng),
        floor=one(plan.floors, rng),
        wall_tint=one(_WALLS, rng),
        floor_tint=one(_FLOORS, rng),
    )
    pieces: list[Piece] = []
    spans = {"back": (-room.left + 0.1, room.right - 0.1)}
    for side, away in (("left", room.left), ("right", room.right)):
        start = 0.6 - math.tan(math.radians(30)) * (away - 0.65)  # beyond the last line of sight
        spans[side] = (start, room.back - 0.8)
    for wall, (start, end) in spans.items():
        items = plan.along(rng)
        for at, piece in lined_up(items, start=start, end=end, rng=rng):
            pieces.append(_against(piece, wall, at, room))
    bounds = (-room.left + 0.5, room.right - 0.5, 0.0, room.back - 0.6)
    turns = (0.0, 90.0, 180.0, -90.0)
    pieces += scattered(plan.between(rng), bounds=bounds, taken=pieces, turns=turns, rng=rng)
    return [*(piece for piece in pieces if is_clear(piece)), *_shell(room, rng)]


def _against(piece: Piece, wall: str, at: float, room: Room) -> Piece:
    if wall == "left":
        return placed(piece, (-room.left, at, 0), turn_deg=90)
    if wall == "right":
        return placed(piece, (room.right, at, 0), turn_deg=-90)
    return placed(piece, (at, room.back, 0))


def _shell(room: Room, rng: Rng) -> list[Piece]:
    """Floor, ceiling, lamps and four walls that are seen from inside only."""
    width, front = room.left + room.right, 6.0
    depth, middle = room.back + front, ((room.right - room.left) / 2, (room.back - front) / 2)
    tile = float(rng.uniform(1.2, 2.2))
    pieces = [flat((width, depth), (*middle, 0), room.floor, tint=room.floor_tint, tile=tile)]
    ceiling = Quad(
        corner=(-room.left, -front, room.height),
        across=(width, 0, 0),
        down=(0, depth, 0),
        texture="tiles" if rng.uniform() < 0.4 else "plaster",
        repeat=(width / 2.4, depth / 2.4),
        tint=(1.42, 1.42, 1.38),
    )
    pieces.append([ceiling])
    tile = float(rng.uniform(1.0, 1.8))
    low = 1.0 if room.lower else 0.0
    for bottom, top, texture in ((0.0, low, room.lower), (low, room.height, room.wall)):
        if top > bottom:
            tint = room.wall_tint if texture == room.wall else (0.85, 0.78, 0.68)
            pieces.append(_walls(room, front, (bottom, top), (texture, tile), tint))
    pieces.append(_walls(room, front - 0.02, (0.0, 0.1), ("plaster", 1.0), (0.8, 0.76, 0.7), 0.02))
    for y in (0.8, room.back - 0.6):
        lamp = f.ceiling_lamp(1.2, 0.25, height=room.height)
        pieces.append(placed(lamp, (float(rng.uniform(-1, 1)), y, 0)))
    return pieces


def _walls(
    room: Room,
    front: float,
    heights: tuple[float, float],
    cover: tuple[str, float],
    tint: Tint,
    inset: float = 0.0,
) -> Piece:
    left, right, back = room.left - inset, room.right - inset, room.back - inset
    (bottom, top), (texture, tile) = heights, cover
    starts: tuple[tuple[Vector, Vector], ...] = (
        ((-left, back, top), (left + right, 0, 0)),
        ((-left, -front, top), (0, back + front, 0)),
        ((right, back, top), (0, -back - front, 0)),
        ((right, -front, top), (-left - right, 0, 0)),
    )
    return [
        Quad(
            corner=corner,
            across=across,
            down=(0, 0, bottom - top),
            texture=texture,
            repeat=(float(np.linalg.norm(across)) / tile, (top - bottom) / tile),
            tint=tint,
        )
        for corner, across in starts
    ]
