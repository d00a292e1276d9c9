"""Flat pieces of the world: textured parallelograms, and the boxes and cards made of them.

Convention: metres, z up. A piece of furniture is a list of quads around the point (0, 0) of the
floor, with its front towards -y; ``placed`` moves it into a place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

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
class Quads:
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
    def corners(self) -> np.ndarray:
        """All four corners of every quad in turn, (Q, 4, 3)."""
        a, b = self.corner + self.across, self.corner + self.down
        return np.stack([self.corner, a, a + self.down, b], axis=1)


def stacked(pieces: Iterable[Piece], *, textures: dict[str, int]) -> Quads:
    """The quads of all pieces as arrays."""
    quads = [quad for piece in pieces for quad in piece]
    edges = ("corner", "across", "down")
    found = {name: np.array([getattr(q, name) for q in quads], np.float64) for name in edges}
    others = ("repeat", "tint", "is_open", "is_bright")
    found |= {name: np.array([getattr(q, name) for q in quads]) for name in others}
    texture = np.array([textures[q.texture] for q in quads], np.int64)
    return Quads(**found, texture=texture)


def box(
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
    for face, (corner, across, down) in _faces(size, at).items():
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


def _faces(size: Vector, at: Vector) -> dict[str, tuple[Vector, Vector, Vector]]:
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


def card(
    size: tuple[float, float],
    at: Vector,
    texture: str,
    *,
    turn_deg: float = 0.0,
    tint: Tint = WHITE,
    is_open: bool = False,
    is_bright: bool = False,
) -> Piece:
    """An upright picture, the middle of its lower edge at ``at``, facing -y before the turn."""
    w, h = size
    quad = Quad(
        corner=(-w / 2, 0, h),
        across=(w, 0, 0),
        down=(0, 0, -h),
        texture=texture,
        tint=tint,
        is_open=is_open,
        is_bright=is_bright,
    )
    return placed([quad], at, turn_deg=turn_deg)


def flat(
    size: tuple[float, float], at: Vector, texture: str, *, tint: Tint = WHITE, tile: float = 0.0
) -> Piece:
    """A piece of ground that faces up, its middle at ``at``."""
    w, d = size
    repeat = (w / tile, d / tile) if tile else (1.0, 1.0)
    corner = (at[0] - w / 2, at[1] + d / 2, at[2])
    return [
        Quad(
            corner=corner,
            across=(w, 0, 0),
            down=(0, -d, 0),
            texture=texture,
            repeat=repeat,
            tint=tint,
        )
    ]


def repeated(piece: Sequence[Quad], times: float) -> Piece:
    """The piece with its textures so many times across."""
    return [replace(quad, repeat=(times, 1.0)) for quad in piece]


def placed(piece: Sequence[Quad], at: Vector, *, turn_deg: float = 0.0) -> Piece:
    """The piece turned about z (from x towards y) and moved to ``at``."""
    c, s = math.cos(math.radians(turn_deg)), math.sin(math.radians(turn_deg))

    def turned(v: Vector) -> Vector:
        return c * v[0] - s * v[1], s * v[0] + c * v[1], v[2]

    def moved(v: Vector) -> Vector:
        x, y, z = turned(v)
        return x + at[0], y + at[1], z + at[2]

    return [
        replace(q, corner=moved(q.corner), across=turned(q.across), down=turned(q.down))
        for q in piece
    ]
