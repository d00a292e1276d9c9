"""What stands and hangs in rooms, made of boxes and cards.

Every function gives a piece around (0, 0) with its front towards -y. Pieces that stand against a
wall have their back at y = 0; ``depth`` of them therefore reaches to negative y.

What stands outdoors: houses, trees, cars, poles, benches, fences, things to climb on.

Every function gives a piece around (0, 0) with its front towards -y.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from masquerade.stage.solids import (
    WHITE,
    Piece,
    Tint,
    Vector,
    choose_one,
    make_box,
    make_card,
    make_ground,
    make_sheet,
    place_piece,
    repeat_textures,
)

OAK: Tint = (0.86, 0.66, 0.47)
WALNUT: Tint = (0.56, 0.42, 0.32)
PALE: Tint = (1.12, 1.08, 1.0)
STEEL: Tint = (0.8, 0.83, 0.86)
BLACK: Tint = (0.24, 0.24, 0.26)
WOODS = (OAK, WALNUT, PALE)
CLOTHS: tuple[Tint, ...] = (
    (0.62, 0.66, 0.72),
    (0.72, 0.6, 0.54),
    (0.58, 0.66, 0.58),
    (0.8, 0.76, 0.7),
    (0.5, 0.5, 0.54),
)


def _make_legs(
    width: float, depth: float, height: float, tint: Tint, *, thick: float = 0.06
) -> Piece:
    piece: Piece = []
    for x in (-1, 1):
        for y in (-1, 1):
            at = (x * (width - thick) / 2, y * (depth - thick) / 2, 0.0)
            hidden = {"top": "", "bottom": ""}
            piece += make_box((thick, thick, height), at, "plaster", tint=tint, faces=hidden)
    return piece


def make_table(width: float, depth: float, *, tint: Tint, height: float = 0.74) -> Piece:
    """A plate on four legs, its middle at (0, 0)."""
    plate = make_box(
        (width, depth, 0.06), (0, 0, height - 0.06), "narrow_planks", tint=tint, tile=1.0
    )
    return plate + _make_legs(width - 0.08, depth - 0.08, height - 0.06, tint)


def make_chair(*, tint: Tint, cloth: str = "plaster") -> Piece:
    """A chair that faces -y, its middle at (0, 0)."""
    seat = make_box((0.42, 0.42, 0.05), (0, 0, 0.43), cloth, tint=tint)
    back = make_box((0.42, 0.04, 0.42), (0, 0.2, 0.52), cloth, tint=tint)
    return seat + back + _make_legs(0.42, 0.42, 0.43, BLACK, thick=0.04)


def make_stool(*, tint: Tint) -> Piece:
    """A high stool."""
    seat = make_box((0.34, 0.34, 0.05), (0, 0, 0.68), "plaster", tint=tint)
    return seat + _make_legs(0.3, 0.3, 0.68, STEEL, thick=0.035)


def make_dining_set(*, tint: Tint, seats: Tint) -> Piece:
    """A table with four chairs."""
    piece = make_table(1.3, 0.8, tint=tint)
    for x in (-0.33, 0.33):
        piece += place_piece(make_chair(tint=seats), (x, -0.5, 0), turn_deg=180)
        piece += place_piece(make_chair(tint=seats), (x, 0.5, 0))
    return piece


def make_desk(*, tint: Tint, has_chair: bool = True) -> Piece:
    """A desk with a screen on it, to be seen from any side."""
    piece = make_table(1.4, 0.7, tint=tint)
    piece += make_box((0.56, 0.05, 0.36), (0, 0.12, 0.86), "dark", faces={"front": "screen"})
    piece += make_box((0.1, 0.1, 0.14), (0, 0.14, 0.74), "dark")
    piece += make_box((0.42, 0.14, 0.02), (0, -0.16, 0.74), "dark")
    piece += make_box(
        (0.4, 0.5, 0.6), (0.45, 0, 0.1), "plaster", tint=STEEL, faces={"front": "drawers"}
    )
    if has_chair:
        piece += place_piece(
            make_chair(tint=(0.4, 0.42, 0.48), cloth="weave"), (0, -0.6, 0), turn_deg=180
        )
    return piece


def make_school_desk(*, tint: Tint) -> Piece:
    """A pupil's desk with its chair."""
    seat = place_piece(make_chair(tint=tint), (0, -0.45, 0), turn_deg=180)
    return make_table(0.7, 0.5, tint=tint, height=0.7) + seat


def make_sofa(width: float, *, tint: Tint, cloth: str) -> Piece:
    """A sofa with its back at y = 0."""
    piece = make_box((width, 0.85, 0.42), (0, -0.43, 0), cloth, tint=tint, tile=0.7)
    piece += make_box((width, 0.22, 0.45), (0, -0.11, 0.42), cloth, tint=tint, tile=0.7)
    for side in (-1, 1):
        at = (side * (width / 2 - 0.1), -0.43, 0.0)
        piece += make_box((0.2, 0.88, 0.62), at, cloth, tint=tint, tile=0.7)
    cushion = (tint[0] * 1.25, tint[1] * 1.15, tint[2] * 1.1)
    for x in (-0.25, 0.25):
        piece += make_box((0.42, 0.14, 0.36), (x * width, -0.3, 0.43), "dots", tint=cushion)
    return piece


def make_bed(width: float, *, cover: str, tint: Tint, wood: Tint) -> Piece:
    """A bed with its head at y = 0."""
    piece = make_box((width, 2.0, 0.28), (0, -1.0, 0.05), "plaster", tint=wood)
    piece += make_box((width - 0.04, 1.5, 0.24), (0, -1.24, 0.33), cover, tint=tint, tile=0.8)
    piece += make_box((width - 0.04, 0.5, 0.2), (0, -0.27, 0.33), "weave", tint=PALE)
    for x in (-0.25, 0.25):
        piece += make_box((width * 0.4, 0.34, 0.16), (x * width, -0.24, 0.5), "weave", tint=PALE)
    piece += make_box((width + 0.1, 0.08, 1.0), (0, -0.02, 0), "panels", tint=wood)
    return piece


def make_hospital_bed(*, tint: Tint) -> Piece:
    """A high bed with rails, a raised head and wheels."""
    piece = make_box((0.95, 2.0, 0.16), (0, -1.05, 0.5), "plaster", tint=STEEL)
    piece += make_box((0.9, 1.35, 0.14), (0, -1.35, 0.66), "weave", tint=tint)
    piece += make_box((0.9, 0.55, 0.3), (0, -0.4, 0.66), "weave", tint=PALE)
    piece += make_box((0.6, 0.34, 0.12), (0, -0.35, 0.96), "weave", tint=PALE)
    for y in (-0.06, -2.05):
        piece += make_box((0.98, 0.05, 0.8), (0, y, 0.3), "plaster", tint=PALE)
    rail = make_card((1.1, 0.32), (0, 0, 0.72), "railing", is_open=True)
    for x in (-0.5, 0.5):
        piece += place_piece(rail, (x, -0.9, 0), turn_deg=90)
    return piece + place_piece(_make_legs(0.85, 1.8, 0.5, STEEL), (0, -1.05, 0))


def make_drip_stand() -> Piece:
    """A stand with a bag, and the monitor beside it."""
    piece = make_box((0.04, 0.04, 1.9), (0, -0.3, 0), "plaster", tint=STEEL)
    piece += make_box((0.4, 0.04, 0.03), (0, -0.3, 1.9), "plaster", tint=STEEL)
    piece += make_box((0.16, 0.05, 0.28), (0.14, -0.3, 1.6), "plaster", tint=(1.1, 1.2, 1.25))
    piece += make_box((0.36, 0.2, 0.3), (0, -0.3, 1.15), "dark", faces={"front": "screen"})
    return piece + make_box((0.4, 0.4, 0.06), (0, -0.3, 0), "plaster", tint=STEEL)


def make_case(size: Vector, front: str, *, tint: Tint, base: float = 0.0) -> Piece:
    """Cupboard, shelf, fridge or lockers: a box with a drawn front, its back at y = 0."""
    return make_box(size, (0, -size[1] / 2, base), "plaster", tint=tint, faces={"front": front})


def make_kitchen_counter(
    width: float, *, front: str, top: Tint, wall: str, has_stove: bool
) -> Piece:
    """A kitchen's worktop with cupboards below and above and tiles between."""
    piece: Piece = []
    num = max(2, round(width / 0.9))
    step = width / num
    for k in range(num):
        x = -width / 2 + (k + 0.5) * step
        lower = "stove" if has_stove and k == num // 2 else front
        piece += place_piece(make_case((step, 0.6, 0.86), lower, tint=PALE), (x, 0, 0))
        if has_stove and k == num // 2:
            piece += make_box((step * 0.9, 0.5, 0.3), (x, -0.25, 1.65), "ribs", tint=STEEL)
        else:
            piece += place_piece(
                make_case((step, 0.34, 0.7), front, tint=PALE, base=1.45), (x, 0, 0)
            )
    piece += make_box((width + 0.04, 0.64, 0.05), (0, -0.32, 0.86), "gravel", tint=top, tile=0.6)
    splash = make_box((width, 0.01, 0.55), (0, 0, 0.91), wall, tint=PALE, tile=0.8)
    piece += place_piece(splash, (0, -0.01, 0))
    piece += make_box((0.24, 0.2, 0.26), (width * 0.3, -0.25, 0.91), "plaster", tint=STEEL)
    piece += make_box((0.12, 0.12, 0.34), (-width * 0.3, -0.2, 0.91), "ribs", tint=OAK)
    return piece


def make_television(*, tint: Tint) -> Piece:
    """A low bench with a screen."""
    piece = make_case((1.6, 0.42, 0.45), "drawers", tint=tint)
    return piece + make_box((1.25, 0.06, 0.72), (0, -0.2, 0.52), "dark")


def make_fireplace(*, tint: Tint) -> Piece:
    """A chimney with an opening and a mantel."""
    piece = make_box((1.5, 0.4, 1.15), (0, -0.2, 0), "old_brick", tint=tint, tile=0.8)
    piece += place_piece(make_card((0.8, 0.7), (0, 0, 0.05), "dark"), (0, -0.41, 0))
    piece += make_box((1.7, 0.5, 0.08), (0, -0.25, 1.15), "plaster", tint=PALE)
    return piece + make_box((1.1, 0.3, 1.5), (0, -0.15, 1.23), "plaster", tint=PALE)


def make_potted_plant(leaves: str, *, height: float, tint: Tint) -> Piece:
    """A pot and crossed cards of leaves."""
    piece = make_box((0.34, 0.34, 0.34), (0, -0.3, 0), "plaster", tint=tint)
    for turn in (20, 110):
        size = (height * 0.8, height - 0.3)
        leaf = make_card(size, (0, 0, 0.3), leaves, is_open=True)
        piece += place_piece(leaf, (0, -0.35, 0), turn_deg=turn)
    return piece


def make_floor_lamp(*, tint: Tint) -> Piece:
    """A pole with a shade."""
    piece = make_box((0.04, 0.04, 1.4), (0, -0.3, 0), "plaster", tint=BLACK)
    piece += make_box((0.3, 0.3, 0.04), (0, -0.3, 0), "plaster", tint=BLACK)
    return piece + make_box((0.4, 0.4, 0.34), (0, -0.3, 1.35), "weave", tint=tint)


def make_window(
    width: float, height: float, *, view: str, curtain: str = "", sill: float = 0.9
) -> Piece:
    """A window in a wall, with curtains if one is named."""
    piece = make_card((width, height), (0, -0.02, sill), view, is_bright=True)
    piece += make_box((width + 0.12, 0.12, 0.05), (0, -0.06, sill - 0.05), "plaster", tint=PALE)
    if curtain:
        for side in (-1, 1):
            at = (side * (width / 2 + 0.12), -0.07, sill - 0.55)
            piece += make_card((0.5, height + 0.75), at, curtain)
    return piece


def make_wall_picture(texture: str, width: float, height: float, *, middle: float = 1.6) -> Piece:
    """A picture, board or clock on a wall."""
    return make_card((width, height), (0, -0.025, middle - height / 2), texture)


def make_doorway(texture: str, *, width: float = 0.95) -> Piece:
    """A door with its frame."""
    frame = make_box((width + 0.16, 0.05, 2.14), (0, -0.025, 0), "plaster", tint=PALE)
    return frame + make_card((width, 2.06), (0, -0.06, 0), texture)


def make_indoor_bench(width: float, *, tint: Tint) -> Piece:
    """A long low bench without a back."""
    return place_piece(make_table(width, 0.35, tint=tint, height=0.42), (0, -0.25, 0))


def make_gym_mats(*, tint: Tint) -> Piece:
    """A stack of gym mats."""
    piece: Piece = []
    for k in range(4):
        tone = 1.0 + 0.12 * (k % 2)
        shade = (tint[0] * tone, tint[1] * tone, tint[2] * tone)
        piece += make_box((1.6, 1.0, 0.12), (0.03 * (k % 2), -0.6, k * 0.13), "weave", tint=shade)
    return piece


def make_basketball_hoop() -> Piece:
    """A basketball board on the wall with its ring."""
    piece = place_piece(make_card((1.5, 1.0), (0, 0, 2.2), "hoop"), (0, -0.5, 0))
    return piece + make_box((0.5, 0.45, 0.05), (0, -0.75, 2.35), "plaster", tint=(0.85, 0.4, 0.3))


def make_rug(width: float, depth: float, *, pattern: str, tint: Tint) -> Piece:
    """A rug on the floor; people may stand on it."""
    return make_ground((width, depth), (0, 0, 0.006), pattern, tint=tint, tile=1.2)


def make_ceiling_lamp(width: float, depth: float, *, height: float) -> Piece:
    """A bright plate just below the ceiling."""
    faces = {"bottom": "lamp"}
    return make_box((width, depth, 0.06), (0, 0, height - 0.08), "plaster", tint=WHITE, faces=faces)


PAINTS: tuple[Tint, ...] = (
    (0.75, 0.78, 0.82),
    (0.52, 0.58, 0.68),
    (0.68, 0.42, 0.38),
    (0.42, 0.44, 0.46),
    (0.6, 0.64, 0.54),
    (0.95, 0.93, 0.88),
)
FOREST: Tint = (0.5, 0.6, 0.42)


def make_house_front(width: float, height: float, *, facade: str, shop: str, tint: Tint) -> Piece:
    """A house front 0.4 m deep at the least, its front at y = 0; the ground floor is a shop."""
    low = 3.4 if shop else 0.0
    faces = {"front": facade, "back": "", "bottom": ""}
    upper = make_box((width, 6.0, height - low), (0, 3.0, low), "plaster", tint=tint, faces=faces)
    piece = [replace(upper[0], tint=tint), *upper[1:]]
    if shop:
        faces = {"front": shop, "back": "", "top": "", "bottom": ""}
        piece += make_box(
            (width, 6.0, low), (0, 3.0, 0), "blocks", tint=tint, faces=faces, tile=1.5
        )
        piece += make_box((width, 0.15, 0.14), (0, -0.07, low), "plaster", tint=PALE)
    piece += make_box((width + 0.3, 0.3, 0.3), (0, -0.1, height), "plaster", tint=PALE)
    return piece


def make_free_wall(
    width: float, height: float, *, surface: str, tint: Tint, tile: float = 1.6
) -> Piece:
    """A free wall with a coping, its front at y = 0."""
    piece = make_box((width, 0.3, height), (0, 0.15, 0), surface, tint=tint, tile=tile)
    return piece + make_box((width, 0.4, 0.08), (0, 0.15, height), "plaster", tint=PALE)


def make_tree(crown: str, *, height: float, spread: float) -> Piece:
    """A trunk and crossed cards of leaves."""
    if crown in ("conifer", "bare"):
        low, trunk = (0.25, 0.5) if crown == "conifer" else (0.0, 0.0)
    else:
        low, trunk = height * 0.35, height * 0.6
    piece: Piece = []
    if trunk:
        piece += make_box((0.26, 0.26, trunk), (0, 0, 0), "panels", tint=(0.5, 0.42, 0.36))
    for turn in (15, 75, 135):
        piece += make_card((spread, height - low), (0, 0, low), crown, turn_deg=turn, is_open=True)
    return piece


def make_bush(*, size: float) -> Piece:
    """A round bush."""
    piece: Piece = []
    for turn in (0, 60, 120):
        piece += make_card((size * 1.3, size), (0, 0, 0), "bush", turn_deg=turn, is_open=True)
    return piece


def make_hedge(width: float, *, height: float) -> Piece:
    """A clipped hedge with its front at y = 0."""
    return make_box((width, 0.7, height), (0, 0.35, 0), "leaves", tint=FOREST, tile=1.2)


def make_car(*, tint: Tint, has_tail: bool = False) -> Piece:
    """A parked car, its side towards -y, its nose (or tail) towards -x."""
    left, right = ("car_tail", "car_nose") if has_tail else ("car_nose", "car_tail")
    faces = {"left": left, "right": right}
    piece = make_box((4.2, 1.7, 0.62), (0, 0, 0.28), "plaster", tint=tint, faces=faces)
    piece[2:4] = [replace(quad, tint=tint) for quad in piece[2:4]]
    shift = 0.25 if has_tail else -0.25
    sides = {"front": "cabin_side", "back": "cabin_side", "left": "cabin_end", "right": "cabin_end"}
    piece += make_box((2.2, 1.5, 0.5), (-shift, 0, 0.9), "plaster", tint=tint, faces=sides)
    for x in (-1.3, 1.3):
        for y, turn in ((-0.87, 0), (0.87, 180)):
            piece += place_piece(
                make_card((0.64, 0.64), (0, 0, 0), "wheel"), (x, y, 0), turn_deg=turn
            )
    return piece


def make_van(*, tint: Tint) -> Piece:
    """A delivery van, its side towards -y."""
    faces = {"left": "car_nose", "right": "car_tail"}
    piece = make_box((4.8, 1.9, 1.9), (0, 0, 0.35), "ribs", tint=tint, faces=faces)
    piece += place_piece(make_card((1.0, 0.6), (-1.7, 0, 1.45), "cabin_side"), (0, -0.96, 0))
    piece += place_piece(make_card((2.4, 0.7), (0.8, 0, 1.2), "sign_square"), (0, -0.96, 0))
    for x in (-1.5, 1.5):
        piece += place_piece(make_card((0.7, 0.7), (0, 0, 0), "wheel"), (x, -0.98, 0))
    return piece


def make_lamp_post(*, height: float) -> Piece:
    """A street lamp."""
    piece = make_box((0.12, 0.12, height), (0, 0, 0), "plaster", tint=BLACK)
    return piece + make_box((0.4, 0.4, 0.45), (0, 0, height), "lamp")


def make_traffic_sign(texture: str) -> Piece:
    """A traffic sign on its pole."""
    piece = make_box((0.07, 0.07, 2.2), (0, 0.05, 0), "plaster", tint=STEEL)
    return piece + make_card((0.62, 0.62), (0, 0, 1.75), texture, is_open=True)


def make_street_bench(*, tint: Tint) -> Piece:
    """A park bench."""
    piece = make_box((1.6, 0.45, 0.06), (0, 0, 0.42), "planks", tint=tint)
    piece += make_box((1.6, 0.06, 0.4), (0, 0.22, 0.52), "planks", tint=tint)
    for x in (-0.65, 0.65):
        piece += make_box((0.08, 0.45, 0.42), (x, 0, 0), "plaster", tint=BLACK)
    return piece


def make_dustbin(*, tint: Tint) -> Piece:
    """A dustbin on wheels."""
    piece = make_box((0.58, 0.7, 0.95), (0, 0, 0.05), "plaster", tint=tint)
    return piece + make_box((0.62, 0.76, 0.1), (0, 0, 1.0), "plaster", tint=BLACK)


def make_fence(texture: str, width: float, *, height: float) -> Piece:
    """A fence one can see through."""
    across = max(1.0, round(width / (1.2 * height)))
    return repeat_textures(make_card((width, height), (0, 0, 0), texture, is_open=True), across)


def make_bicycle() -> Piece:
    """A bicycle that leans on nothing."""
    return make_card((1.7, 1.1), (0, 0, 0), "bicycle", is_open=True)


def make_fountain(*, tint: Tint) -> Piece:
    """A basin with a column."""
    piece = make_box((3.0, 3.0, 0.5), (0, 0, 0), "blocks", tint=tint, tile=1.0)
    piece += make_ground((2.6, 2.6), (0, 0, 0.51), "gravel", tint=(0.55, 0.68, 0.76))
    piece += make_box((0.5, 0.5, 1.6), (0, 0, 0.5), "blocks", tint=tint)
    return piece + make_box((1.2, 1.2, 0.18), (0, 0, 1.7), "blocks", tint=tint)


def make_monument(*, tint: Tint) -> Piece:
    """A stone needle on steps."""
    piece: Piece = []
    for k in range(3):
        size = 2.4 - 0.6 * k
        piece += make_box((size, size, 0.3), (0, 0, 0.3 * k), "blocks", tint=tint, tile=1.0)
    return piece + make_box((0.7, 0.7, 3.6), (0, 0, 0.9), "rubble", tint=tint)


def make_parasol_table(*, tint: Tint) -> Piece:
    """A cafe table under a parasol, with two chairs."""
    piece = make_box((0.7, 0.7, 0.05), (0, 0, 0.7), "plaster", tint=PALE)
    piece += make_box((0.06, 0.06, 2.3), (0, 0, 0), "plaster", tint=STEEL)
    piece += make_box((2.0, 2.0, 0.25), (0, 0, 2.2), "wide_stripes", tint=tint)
    for x in (-0.65, 0.65):
        piece += make_box((0.42, 0.42, 0.05), (x, 0, 0.43), "plaster", tint=OAK)
        piece += make_box((0.05, 0.42, 0.4), (x * 1.3, 0, 0.48), "plaster", tint=OAK)
        piece += make_box((0.06, 0.06, 0.43), (x, 0, 0), "plaster", tint=BLACK)
    return piece


def make_swing_set(*, tint: Tint) -> Piece:
    """Two seats under a beam."""
    piece = make_box((3.0, 0.12, 0.12), (0, 0, 2.3), "plaster", tint=tint)
    for x in (-1.45, 1.45):
        for y in (-0.7, 0.7):
            piece += make_sheet((x - 0.06, 0, 2.35), (0.12, 0, 0), (0, y, -2.35), tint=tint)
    for x in (-0.6, 0.6):
        piece += make_box((0.5, 0.2, 0.05), (x, 0, 0.5), "dark")
        for side in (-0.22, 0.22):
            piece += make_box((0.025, 0.025, 1.8), (x + side, 0, 0.5), "plaster", tint=STEEL)
    return piece


def make_slide_tower(*, tint: Tint) -> Piece:
    """A tower with a roof, a ladder and a slide to the left."""
    piece: Piece = []
    for x in (-0.55, 0.55):
        for y in (-0.55, 0.55):
            piece += make_box((0.1, 0.1, 2.3), (x, y, 0), "plaster", tint=OAK)
    piece += make_box((1.2, 1.2, 0.08), (0, 0, 1.2), "planks", tint=OAK)
    piece += make_box((1.2, 0.05, 0.5), (0, -0.6, 1.28), "ribs", tint=tint)
    piece += make_box((1.5, 1.5, 0.3), (0, 0, 2.3), "siding", tint=tint)
    piece += make_sheet((-2.6, 0.3, 0.15), (2.0, 0, 1.1), (0, -0.6, 0), tint=tint)
    return piece + make_sheet((-2.6, -0.3, 0.32), (2.0, 0, 1.1), (0, 0, -0.2), tint=tint)


def make_climbing_frame(*, tint: Tint) -> Piece:
    """Bars to climb on."""
    piece: Piece = []
    for turn in (0, 90):
        for away in (-0.8, 0.8):
            bars = place_piece(make_fence("wire", 1.6, height=1.8), (0, away, 0))
            piece += place_piece(bars, (0, 0, 0), turn_deg=turn)
    return piece + make_box((1.7, 1.7, 0.08), (0, 0, 1.8), "ribs", tint=tint)


def make_terrace(
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
        facade = choose_one(facades, rng)
        shop = choose_one(shops, rng) if shops else ""
        tint = choose_one(tints, rng)
        height = float(rng.uniform(7, 12))
        front = make_house_front(width, height, facade=facade, shop=shop, tint=tint)
        houses.append(place_piece(front, (x + width / 2, float(rng.uniform(-0.2, 0.2)), 0)))
        x += width
    return houses
