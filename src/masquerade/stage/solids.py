"""Flat pieces of the world: textured parallelograms, and the boxes and cards made of them.

Convention: metres, z up. A piece of furniture is a list of quads around the point (0, 0) of the
floor, with its front towards -y; ``place_piece`` moves it into a place.

Where things may stand: clear of the stage, out of the cameras' way, not in each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

Vector = tuple[float, float, float]
Tint = tuple[float, float, float]
Piece = list["Quad"]
WHITE: Tint = (1.0, 1.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class Quad:
    """A parallelogram: ``corner``, then ``across`` and ``down`` as the texture runs.

    Args:
        corner: where the texture's upper left corner is.
        across: from there along the texture's upper edge.
        down: from there along its left edge; ``across`` x ``down`` points away from the viewer.
        texture: its name in the pool.
        repeat: how often the texture fits across and down.
        tint: what its colours are multiplied by.
        is_open: seen from both sides, as leaves and cloth are.
        is_bright: shines by itself, as windows and lamps do; shading does not touch it.
    """

    corner: Vector
    across: Vector
    down: Vector
    texture: str
    repeat: tuple[float, float] = (1.0, 1.0)
    tint: Tint = WHITE
    is_open: bool = False
    is_bright: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class QuadArrays:
    """Q quads as arrays, in the fields' order of ``Quad``; ``texture`` is a place in the pool."""

    corner: np.ndarray  # (Q, 3)
    across: np.ndarray  # (Q, 3)
    down: np.ndarray  # (Q, 3)
    texture: np.ndarray  # (Q,)
    repeat: np.ndarray  # (Q, 2)
    tint: np.ndarray  # (Q, 3)
    is_open: np.ndarray  # (Q,)
    is_bright: np.ndarray  # (Q,)

    @property
    def compute_corners(self) -> np.ndarray:
        """All four corners of every quad in turn, (Q, 4, 3)."""
        a, b = self.corner + self.across, self.corner + self.down
        return np.stack([self.corner, a, a + self.down, b], axis=1)


def stack_quads(pieces: Iterable[Piece], *, textures: dict[str, int]) -> QuadArrays:
    """The quads of all pieces as arrays."""
    quads = [quad for piece in pieces for quad in piece]
    edges = ("corner", "across", "down")
    found = {name: np.array([getattr(q, name) for q in quads], np.float64) for name in edges}
    others = ("repeat", "tint", "is_open", "is_bright")
    found |= {name: np.array([getattr(q, name) for q in quads]) for name in others}
    texture = np.array([textures[q.texture] for q in quads], np.int64)
    return QuadArrays(**found, texture=texture)


def make_box(
    size: Vector,
    at: Vector,
    texture: str,
    *,
    tint: Tint = WHITE,
    tile: float = 0.0,
    faces: dict[str, str] | None = None,
) -> Piece:
    """A box whose floor has its middle at ``at``.

    Args:
        size: along x, y and z.
        at: middle of its lower face.
        texture: of all faces that ``faces`` does not name.
        tint: of those; a face with a texture of its own keeps that one's colours.
        tile: edge of the texture in metres; 0 stretches it over each face.
        faces: texture by face (front is towards -y); an empty name leaves the face out.
    """
    own = {"bottom": "" if at[2] < 0.3 else texture} | (faces or {})
    piece = []
    for face, (corner, across, down) in _list_box_faces(size, at).items():
        name = own.get(face, texture)
        repeat, colour = (1.0, 1.0), WHITE
        if name == texture:
            colour = tint
            if tile:
                repeat = (math.hypot(*across) / tile, math.hypot(*down) / tile)
        if name:
            quad = Quad(corner=corner, across=across, down=down, texture=name)
            piece.append(replace(quad, repeat=repeat, tint=colour))
    return piece


def _list_box_faces(size: Vector, at: Vector) -> dict[str, tuple[Vector, Vector, Vector]]:
    """Corner, across and down of each face of a box."""
    w, d, h = size
    x, y, z = at[0] - w / 2, at[1] - d / 2, at[2]
    return {
        "front": ((x, y, z + h), (w, 0, 0), (0, 0, -h)),
        "back": ((x + w, y + d, z + h), (-w, 0, 0), (0, 0, -h)),
        "left": ((x, y + d, z + h), (0, -d, 0), (0, 0, -h)),
        "right": ((x + w, y, z + h), (0, d, 0), (0, 0, -h)),
        "top": ((x, y + d, z + h), (w, 0, 0), (0, -d, 0)),
        "bottom": ((x, y, z), (w, 0, 0), (0, d, 0)),
    }


def make_card(
    size: tuple[float, float],
    at: Vector,
    texture: str,
    *,
    turn_deg: float = 0.0,
    is_open: bool = False,
    is_bright: bool = False,
) -> Piece:
    """An upright picture, the middle of its lower edge at ``at``, facing -y before the turn."""
    w, h = size
    quad = Quad(corner=(-w / 2, 0, h), across=(w, 0, 0), down=(0, 0, -h), texture=texture)
    shown = replace(quad, is_open=is_open, is_bright=is_bright)
    return place_piece([shown], at, turn_deg=turn_deg)


def make_ground(
    size: tuple[float, float], at: Vector, texture: str, *, tint: Tint = WHITE, tile: float = 0.0
) -> Piece:
    """A piece of ground that faces up, its middle at ``at``."""
    w, d = size
    repeat = (w / tile, d / tile) if tile else (1.0, 1.0)
    corner = (at[0] - w / 2, at[1] + d / 2, at[2])
    quad = Quad(corner=corner, across=(w, 0, 0), down=(0, -d, 0), texture=texture)
    return [replace(quad, repeat=repeat, tint=tint)]


def make_sheet(corner: Vector, across: Vector, down: Vector, *, tint: Tint) -> Piece:
    """A thin plate that is seen from both sides."""
    quad = Quad(corner=corner, across=across, down=down, texture="plaster")
    return [replace(quad, tint=tint, is_open=True)]


def repeat_textures(piece: Sequence[Quad], times: float) -> Piece:
    """The piece with its textures so many times across."""
    return [replace(quad, repeat=(times, 1.0)) for quad in piece]


def place_piece(piece: Sequence[Quad], at: Vector, *, turn_deg: float = 0.0) -> Piece:
    """The piece turned about z (from x towards y) and moved to ``at``."""
    c, s = math.cos(math.radians(turn_deg)), math.sin(math.radians(turn_deg))

    def turn_vector(v: Vector) -> Vector:
        return c * v[0] - s * v[1], s * v[0] + c * v[1], v[2]

    def move_vector(v: Vector) -> Vector:
        x, y, z = turn_vector(v)
        return x + at[0], y + at[1], z + at[2]

    return [
        replace(
            q, corner=move_vector(q.corner), across=turn_vector(q.across), down=turn_vector(q.down)
        )
        for q in piece
    ]


STAGE_M = 1.8  # nothing stands nearer to the origin
NUM_VIEWS = 6
STEP_DEG = 24.0  # between neighbouring views
_MAX_CAMERA_M = 7.5  # of any camera
_SIGHT_MARGIN_M = 0.5  # free on either side of a line of sight
_LOW_M, _HIGH_M = 0.05, 2.3  # what is flatter or hangs higher stands in nobody's way

Choice = TypeVar("Choice")
Item = tuple[float, Piece]  # how much of a wall it takes, and what it is


def choose_one(choices: Sequence[Choice], rng: np.random.Generator) -> Choice:
    """One of them, each as likely."""
    return choices[int(rng.integers(len(choices)))]


def compute_azimuth_deg(view: int) -> float:
    """Direction from the stage to the camera, from x towards y; the views fan out around -y."""
    return -90.0 + (view - (NUM_VIEWS - 1) / 2) * STEP_DEG


def _list_sight_points() -> np.ndarray:
    """Points along the nominal lines of sight, (S, 2)."""
    angles = np.radians([compute_azimuth_deg(view) for view in range(NUM_VIEWS)])
    reach = np.arange(STAGE_M, _MAX_CAMERA_M, 0.2)
    lines = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.asarray((lines[:, None] * reach[:, None]).reshape(-1, 2))


SIGHT_POINTS = _list_sight_points()


def compute_extent(piece: Piece) -> tuple[np.ndarray, np.ndarray]:
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
    low, high = compute_extent(piece)
    if (low > high).any():
        return True
    nearest = np.clip(0, low, high)
    if math.hypot(*nearest) < STAGE_M + 0.02:
        return False
    inside = (SIGHT_POINTS > low - _SIGHT_MARGIN_M) & (SIGHT_POINTS < high + _SIGHT_MARGIN_M)
    return not inside.all(axis=1).any()


def line_up_items(
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


def scatter_pieces(
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
    boxes = [compute_extent(piece) for piece in taken]
    found = []
    for piece in pieces:
        for _ in range(30):
            turn = turns[rng.integers(len(turns))] + float(rng.uniform(-8, 8))
            at = (float(rng.uniform(*bounds[:2])), float(rng.uniform(*bounds[2:])), 0.0)
            moved = place_piece(piece, at, turn_deg=turn)
            low, high = compute_extent(moved)
            apart = all((low > other[1]).any() or (high < other[0]).any() for other in boxes)
            if apart and is_clear(moved):
                boxes.append((low, high))
                found.append(moved)
                break
    return found
