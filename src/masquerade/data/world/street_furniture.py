"""What stands outdoors: houses, trees, cars, poles, benches, fences, things to climb on.

Every function gives a piece around (0, 0) with its front towards -y.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from masquerade.data.world.furniture import BLACK, OAK, PALE, STEEL
from masquerade.data.world.layout import one
from masquerade.data.world.solids import (
    Piece,
    Quad,
    Tint,
    Vector,
    box,
    card,
    flat,
    placed,
    repeated,
)

PAINTS: tuple[Tint, ...] = (
    (0.75, 0.78, 0.82),
    (0.52, 0.58, 0.68),
    (0.68, 0.42, 0.38),
    (0.42, 0.44, 0.46),
    (0.6, 0.64, 0.54),
    (0.95, 0.93, 0.88),
)
FOREST: Tint = (0.5, 0.6, 0.42)


def house(width: float, height: float, *, facade: str, shop: str, tint: Tint) -> Piece:
    """A house front 0.4 m deep at the least, its front at y = 0; the ground floor is a shop."""
    low = 3.4 if shop else 0.0
    faces = {"front": facade, "back": "", "bottom": ""}
    upper = box((width, 6.0, height - low), (0, 3.0, low), "plaster", tint=tint, faces=faces)
    piece = [replace(upper[0], tint=tint), *upper[1:]]
    if shop:
        faces = {"front": shop, "back": "", "top": "", "bottom": ""}
        piece += box((width, 6.0, low), (0, 3.0, 0), "blocks", tint=tint, faces=faces, tile=1.5)
        piece += box((width, 0.15, 0.14), (0, -0.07, low), "plaster", tint=PALE)
    piece += box((width + 0.3, 0.3, 0.3), (0, -0.1, height), "plaster", tint=PALE)
    return piece


def wall(width: float, height: float, *, surface: str, tint: Tint, tile: float = 1.6) -> Piece:
    """A free wall with a coping, its front at y = 0."""
    piece = box((width, 0.3, height), (0, 0.15, 0), surface, tint=tint, tile=tile)
    return piece + box((width, 0.4, 0.08), (0, 0.15, height), "plaster", tint=PALE)


def tree(crown: str, *, height: float, spread: float) -> Piece:
    """A trunk and crossed cards of leaves."""
    if crown in ("conifer", "bare"):
        low, trunk = (0.25, 0.5) if crown == "conifer" else (0.0, 0.0)
    else:
        low, trunk = height * 0.35, height * 0.6
    piece: Piece = []
    if trunk:
        piece += box((0.26, 0.26, trunk), (0, 0, 0), "panels", tint=(0.5, 0.42, 0.36))
    for turn in (15, 75, 135):
        piece += card((spread, height - low), (0, 0, low), crown, turn_deg=turn, is_open=True)
    return piece


def bush(*, size: float) -> Piece:
    """A round bush."""
    piece: Piece = []
    for turn in (0, 60, 120):
        piece += card((size * 1.3, size), (0, 0, 0), "bush", turn_deg=turn, is_open=True)
    return piece


def hedge(width: float, *, height: float) -> Piece:
    """A clipped hedge with its front at y = 0."""
    return box((width, 0.7, height), (0, 0.35, 0), "leaves", tint=FOREST, tile=1.2)


def car(*, tint: Tint, has_tail: bool = False) -> Piece:
    """A parked car, its side towards -y, its nose (or tail) towards -x."""
    left, right = ("car_tail", "car_nose") if has_tail else ("car_nose", "car_tail")
    faces = {"left": left, "right": right}
    piece = box((4.2, 1.7, 0.62), (0, 0, 0.28), "plaster", tint=tint, faces=faces)
    piece[2:4] = [replace(quad, tint=tint) for quad in piece[2:4]]
    shift = 0.25 if has_tail else -0.25
    sides = {"front": "cabin_side", "back": "cabin_side", "left": "cabin_end", "right": "cabin_end"}
    piece += box((2.2, 1.5, 0.5), (-shift, 0, 0.9), "plaster", tint=tint, faces=sides)
    for x in (-1.3, 1.3):
        for y, turn in ((-0.87, 0), (0.87, 180)):
            piece += placed(card((0.64, 0.64), (0, 0, 0), "wheel"), (x, y, 0), turn_deg=turn)
    return piece


def van(*, tint: Tint) -> Piece:
    """A delivery van, its side towards -y."""
    faces = {"left": "car_nose", "right": "car_tail"}
    piece = box((4.8, 1.9, 1.9), (0, 0, 0.35), "ribs", tint=tint, faces=faces)
    piece += placed(card((1.0, 0.6), (-1.7, 0, 1.45), "cabin_side"), (0, -0.96, 0))
    piece += placed(card((2.4, 0.7), (0.8, 0, 1.2), "sign_square"), (0, -0.96, 0))
    for x in (-1.5, 1.5):
        piece += placed(card((0.7, 0.7), (0, 0, 0), "wheel"), (x, -0.98, 0))
    return piece


def lamp_post(*, height: float) -> Piece:
    """A street lamp."""
    piece = box((0.12, 0.12, height), (0, 0, 0), "plaster", tint=BLACK)
    return piece + box((0.4, 0.4, 0.45), (0, 0, height), "lamp")


def sign(texture: str) -> Piece:
    """A traffic sign on its pole."""
    piece = box((0.07, 0.07, 2.2), (0, 0.05, 0), "plaster", tint=STEEL)
    return piece + card((0.62, 0.62), (0, 0, 1.75), texture, is_open=True)


def bench(*, tint: Tint) -> Piece:
    """A park bench."""
    piece = box((1.6, 0.45, 0.06), (0, 0, 0.42), "planks", tint=tint)
    piece += box((1.6, 0.06, 0.4), (0, 0.22, 0.52), "planks", tint=tint)
    for x in (-0.65, 0.65):
        piece += box((0.08, 0.45, 0.42), (x, 0, 0), "plaster", tint=BLACK)
    return piece


def bin_(*, tint: Tint) -> Piece:
    """A dustbin on wheels."""
    piece = box((0.58, 0.7, 0.95), (0, 0, 0.05), "plaster", tint=tint)
    return piece + box((0.62, 0.76, 0.1), (0, 0, 1.0), "plaster", tint=BLACK)


def fence(texture: str, width: float, *, height: float) -> Piece:
    """A fence one can see through."""
    across = max(1.0, round(width / (1.2 * height)))
    return repeated(card((width, height), (0, 0, 0), texture, is_open=True), across)


def bicycle() -> Piece:
    """A bicycle that leans on nothing."""
    return card((1.7, 1.1), (0, 0, 0), "bicycle", is_open=True)


def fountain(*, tint: Tint) -> Piece:
    """A basin with a column."""
    piece = box((3.0, 3.0, 0.5), (0, 0, 0), "blocks", tint=tint, tile=1.0)
    piece += flat((2.6, 2.6), (0, 0, 0.51), "gravel", tint=(0.55, 0.68, 0.76))
    piece += box((0.5, 0.5, 1.6), (0, 0, 0.5), "blocks", tint=tint)
    return piece + box((1.2, 1.2, 0.18), (0, 0, 1.7), "blocks", tint=tint)


def monument(*, tint: Tint) -> Piece:
    """A stone needle on steps."""
    piece: Piece = []
    for k in range(3):
        size = 2.4 - 0.6 * k
        piece += box((size, size, 0.3), (0, 0, 0.3 * k), "blocks", tint=tint, tile=1.0)
    return piece + box((0.7, 0.7, 3.6), (0, 0, 0.9), "rubble", tint=tint)


def parasol(*, tint: Tint) -> Piece:
    """A cafe table under a parasol, with two chairs."""
    piece = box((0.7, 0.7, 0.05), (0, 0, 0.7), "plaster", tint=PALE)
    piece += box((0.06, 0.06, 2.3), (0, 0, 0), "plaster", tint=STEEL)
    piece += box((2.0, 2.0, 0.25), (0, 0, 2.2), "wide_stripes", tint=tint)
    for x in (-0.65, 0.65):
        piece += box((0.42, 0.42, 0.05), (x, 0, 0.43), "plaster", tint=OAK)
        piece += box((0.05, 0.42, 0.4), (x * 1.3, 0, 0.48), "plaster", tint=OAK)
        piece += box((0.06, 0.06, 0.43), (x, 0, 0), "plaster", tint=BLACK)
    return piece


def swing(*, tint: Tint) -> Piece:
    """Two seats under a beam."""
    piece = box((3.0, 0.12, 0.12), (0, 0, 2.3), "plaster", tint=tint)
    for x in (-1.45, 1.45):
        for y in (-0.7, 0.7):
            piece.append(_sheet((x - 0.06, 0, 2.35), (0.12, 0, 0), (0, y, -2.35), tint))
    for x in (-0.6, 0.6):
        piece += box((0.5, 0.2, 0.05), (x, 0, 0.5), "dark")
        for side in (-0.22, 0.22):
            piece += box((0.025, 0.025, 1.8), (x + side, 0, 0.5), "plaster", tint=STEEL)
    return piece


def slide(*, tint: Tint) -> Piece:
    """A tower with a roof, a ladder and a slide to the left."""
    piece: Piece = []
    for x in (-0.55, 0.55):
        for y in (-0.55, 0.55):
            piece += box((0.1, 0.1, 2.3), (x, y, 0), "plaster", tint=OAK)
    piece += box((1.2, 1.2, 0.08), (0, 0, 1.2), "planks", tint=OAK)
    piece += box((1.2, 0.05, 0.5), (0, -0.6, 1.28), "ribs", tint=tint)
    piece += box((1.5, 1.5, 0.3), (0, 0, 2.3), "siding", tint=tint)
    chute = _sheet((-2.6, 0.3, 0.15), (2.0, 0, 1.1), (0, -0.6, 0), tint)
    side = _sheet((-2.6, -0.3, 0.32), (2.0, 0, 1.1), (0, 0, -0.2), tint)
    return [*piece, chute, side]


def _sheet(corner: Vector, across: Vector, down: Vector, tint: Tint) -> Quad:
    """A thin plate that is seen from both sides."""
    return Quad(corner=corner, across=across, down=down, texture="plaster", tint=tint, is_open=True)


def climbing_frame(*, tint: Tint) -> Piece:
    """Bars to climb on."""
    piece: Piece = []
    for turn in (0, 90):
        for away in (-0.8, 0.8):
            sheet = fence("wire", 1.6, height=1.8)
            piece += placed(placed(sheet, (0, away, 0)), (0, 0, 0), turn_deg=turn)
    return piece + box((1.7, 1.7, 0.08), (0, 0, 1.8), "ribs", tint=tint)


def terrace(
    length: float,
    *,
    facades: list[str],
    shops: list[str],
    tints: list[Tint],
    rng: np.random.Generator,
) -> list[Piece]:
    """Houses side by side along x, their fronts at y = 0, the row's middle at x = 0."""
    houses: list[Piece] = []
    x = -length / 2
    while x < length / 2:
        width = float(rng.uniform(4.5, 7.5))
        facade = one(facades, rng)
        shop = one(shops, rng) if shops else ""
        tint = one(tints, rng)
        height = float(rng.uniform(7, 12))
        front = house(width, height, facade=facade, shop=shop, tint=tint)
        houses.append(placed(front, (x + width / 2, float(rng.uniform(-0.2, 0.2)), 0)))
        x += width
    return houses
