"""Outdoor places: ground, sky, and what each kind of ground has on and around it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from masquerade.stage import furniture as s
from masquerade.stage.prints import NUM_FACADES, NUM_SHOPS
from masquerade.stage.solids import (
    Piece,
    Quad,
    Tint,
    Vector,
    choose_one,
    is_clear,
    make_card,
    make_ground,
    place_piece,
    repeat_textures,
    scatter_pieces,
)

Rng = np.random.Generator
# Few and pale, as indoors.
_STUCCO: list[Tint] = [(1.1, 1.06, 1.0), (1.04, 1.04, 1.02), (1.1, 1.0, 0.92)]
_GREY: Tint = (0.68, 0.68, 0.69)
_PAVING_TINT: Tint = (0.84, 0.81, 0.77)
_LAWN: Tint = (0.58, 0.66, 0.44)
_SAND: Tint = (0.98, 0.88, 0.72)
_SKY_M, _SKY_HIGH_M = 90.0, 60.0
_QUARTER_TURNS_DEG = (0.0, 45.0, 90.0, 180.0)
_TREES = ("crown_green", "crown_dark", "crown_autumn", "conifer", "bare")


def lay_out(kind: str, *, rng: Rng) -> list[Piece]:
    """All pieces of a ground of that kind."""
    return [*(piece for piece in KINDS[kind](rng) if is_clear(piece)), _make_sky(rng)]


def _sample_paint(rng: Rng) -> Tint:
    return choose_one(s.PAINTS, rng)


def _make_sky(rng: Rng) -> Piece:
    texture, d, h = choose_one(("sky_clear", "sky_cloudy"), rng), _SKY_M, _SKY_HIGH_M
    edges: tuple[tuple[Vector, Vector, Vector], ...] = (
        ((-d, d, h), (2 * d, 0, 0), (0, 0, -h)),
        ((-d, -d, h), (0, 2 * d, 0), (0, 0, -h)),
        ((d, d, h), (0, -2 * d, 0), (0, 0, -h)),
        ((d, -d, h), (-2 * d, 0, 0), (0, 0, -h)),
        ((-d, -d, h), (2 * d, 0, 0), (0, 2 * d, 0)),
    )
    return [
        Quad(corner=corner, across=across, down=down, texture=texture, is_bright=True)
        for corner, across, down in edges
    ]


def _make_ground(texture: str, tint: Tint, rng: Rng) -> Piece:
    tile = float(rng.uniform(1.4, 2.4))
    return make_ground((2 * _SKY_M, 2 * _SKY_M), (0, 0, 0), texture, tint=tint, tile=tile)


def _sample_fronts(rng: Rng, *, has_shops: bool) -> tuple[list[str], list[str]]:
    facades = [f"facade_{k:02}" for k in rng.choice(NUM_FACADES, 3, replace=False)]
    shops = [f"shop_{k:02}" for k in rng.choice(NUM_SHOPS, 4, replace=False)]
    return facades, shops if has_shops else []


def _make_house_row(
    rng: Rng, *, length: float, at: Vector, turn_deg: float = 0.0, has_shops: bool = False
) -> list[Piece]:
    facades, shops = _sample_fronts(rng, has_shops=has_shops)
    houses = s.make_terrace(length, facades=facades, shops=shops, tints=_STUCCO, rng=rng)
    return [place_piece(house, at, turn_deg=turn_deg) for house in houses]


def _sample_tree(rng: Rng, names: tuple[str, ...] = _TREES) -> Piece:
    height = float(rng.uniform(3.5, 6.5))
    return s.make_tree(
        choose_one(names, rng), height=height, spread=height * float(rng.uniform(0.55, 0.8))
    )


def _build_street(rng: Rng) -> list[Piece]:
    far = float(rng.uniform(4.6, 7.0))
    kerb = far - float(rng.uniform(2.0, 2.6))
    pieces = [_make_ground("asphalt", _GREY, rng)]
    paving = choose_one(("slabs", "tiles", "cobbles", "soft_checker"), rng)
    middle = (0, (far + kerb) / 2, 0.01)
    pieces.append(make_ground((120, far - kerb), middle, paving, tint=_PAVING_TINT, tile=1.5))
    pieces.append(
        make_ground((120, 0.14), (0, kerb - 0.9, 0.006), "plaster", tint=(1.3, 1.3, 1.26))
    )
    pieces += _make_house_row(rng, length=56, at=(0, far, 0), has_shops=bool(rng.uniform() < 0.75))
    for side in (-1, 1):
        pieces += _make_house_row(rng, length=40, at=(side * 27.0, 0, 0), turn_deg=-side * 90.0)
    x = float(rng.uniform(-13, -10))
    while x < 13:
        kind = rng.uniform()
        thing = (
            s.make_van(tint=_sample_paint(rng))
            if kind < 0.12
            else s.make_car(tint=_sample_paint(rng), has_tail=kind > 0.5)
        )
        if rng.uniform() < 0.6:
            pieces.append(place_piece(thing, (x, kerb - 1.0, 0)))
        x += float(rng.uniform(5.0, 6.5))
    small: list[Piece] = [
        s.make_traffic_sign(choose_one(("sign_round", "sign_square"), rng)),
        s.make_lamp_post(height=3.6),
    ]
    small += [
        s.make_bicycle(),
        s.make_dustbin(tint=_sample_paint(rng)),
        _sample_tree(rng, _TREES[:3]),
    ]
    small += [
        s.make_lamp_post(height=3.6),
        _sample_tree(rng, _TREES[:3]),
        s.make_street_bench(tint=_sample_paint(rng)),
    ]
    bounds = (-7.0, 7.0, kerb + 0.2, far - 0.7)
    return pieces + scatter_pieces(small, bounds=bounds, taken=[], turns=(0.0,), rng=rng)


def _build_park(rng: Rng) -> list[Piece]:
    pieces = [_make_ground("grass", _LAWN, rng)]
    path = choose_one(("gravel", "slabs", "cobbles", "asphalt"), rng)
    turn = float(rng.uniform(-50, 50))
    way = make_ground((80, 2.4), (0, 0, 0.006), path, tint=_PAVING_TINT, tile=1.4)
    pieces.append(place_piece(way, (0, 0, 0), turn_deg=turn))
    if rng.uniform() < 0.4:
        pond = make_ground((9, 5), (0, 0, 0.008), "plaster", tint=(0.6, 0.74, 0.82))
        pieces.append(place_piece(pond, (float(rng.uniform(-6, 6)), 7.5, 0), turn_deg=20))
    if rng.uniform() < 0.6:
        pieces.append(place_piece(s.make_hedge(26, height=float(rng.uniform(1, 2))), (0, 11, 0)))
    if rng.uniform() < 0.5:
        pieces += _make_house_row(rng, length=70, at=(0, 38, 0))
    kinds = tuple(_TREES[k] for k in rng.choice(len(_TREES), 2, replace=False))
    near = [_sample_tree(rng, kinds) for _ in range(int(rng.integers(5, 9)))]
    near += [s.make_bush(size=float(rng.uniform(0.7, 1.5))) for _ in range(3)]
    things = [
        s.make_street_bench(tint=_sample_paint(rng)),
        s.make_lamp_post(height=3.2),
        s.make_dustbin(tint=_sample_paint(rng)),
    ]
    things.append(s.make_street_bench(tint=_sample_paint(rng)))
    placed_things = scatter_pieces(things, bounds=(-5, 5, 1.0, 4), taken=[], turns=(0.0,), rng=rng)
    wide = (-9.0, 9.0, 0.5, 9.0)
    pieces += placed_things
    pieces += scatter_pieces(
        near, bounds=wide, taken=placed_things, turns=_QUARTER_TURNS_DEG, rng=rng
    )
    far = [_sample_tree(rng) for _ in range(22)]
    return pieces + scatter_pieces(
        far, bounds=(-30, 30, 13, 26), taken=[], turns=_QUARTER_TURNS_DEG, rng=rng
    )


def _build_courtyard(rng: Rng) -> list[Piece]:
    pieces = [
        _make_ground(
            choose_one(("cobbles", "slabs", "gravel", "old_brick"), rng), _PAVING_TINT, rng
        )
    ]
    back, side = float(rng.uniform(4.5, 7)), float(rng.uniform(5.0, 7))
    surface = choose_one(("brick", "old_brick", "rubble", "blocks", "siding"), rng)
    tint: Tint = (0.98, 0.86, 0.76)
    sides = (((0.0, back, 0.0), 0.0), ((-side, 7.0, 0.0), 90.0), ((side, 7.0, 0.0), -90.0))
    for at, turn in sides:
        if rng.uniform() < 0.55:
            wall = s.make_free_wall(17, float(rng.uniform(2.4, 8)), surface=surface, tint=tint)
            for spot in (-6.5, -3.5, -0.5, 2.5, 5.5):
                wall += _hang_on_wall(spot + float(rng.uniform(-0.8, 0.8)), rng)
            pieces.append(place_piece(wall, at, turn_deg=turn))
        else:
            pieces += _make_house_row(rng, length=17, at=at, turn_deg=turn)
    things = [s.make_dustbin(tint=_sample_paint(rng)) for _ in range(2)]
    things += [
        s.make_bicycle(),
        s.make_bicycle(),
        s.make_street_bench(tint=_sample_paint(rng)),
        _sample_tree(rng, _TREES[:2]),
        s.make_bush(size=1.2),
    ]
    bounds = (-side + 0.6, side - 0.6, 0.5, back - 0.5)
    return pieces + scatter_pieces(things, bounds=bounds, taken=[], turns=(0.0,), rng=rng)


def _hang_on_wall(at: float, rng: Rng) -> Piece:
    """A door, a window, ivy or graffiti on a wall whose front is at y = 0."""
    openings = ("door_two", "door_plain", "window_cross", "window_tall")
    kind = choose_one((*openings, "ivy", "ivy", "graffiti"), rng)
    if kind.startswith("door"):
        return make_card((1.1, 2.1), (at, -0.03, 0), kind)
    if kind.startswith("window"):
        return make_card((1.0, 1.2), (at, -0.03, 1.0), kind)
    size = (2.4, 2.3) if kind == "ivy" else (2.0, 1.0)
    return make_card(size, (at, -0.04, 0 if kind == "ivy" else 0.5), kind)


def _build_square(rng: Rng) -> list[Piece]:
    pieces = [
        _make_ground(
            choose_one(("slabs", "cobbles", "checker", "soft_checker"), rng), _PAVING_TINT, rng
        )
    ]
    back = float(rng.uniform(10, 15))
    if rng.uniform() < 0.5:
        facade = f"facade_{rng.integers(NUM_FACADES):02}"
        hall = s.make_house_front(16, 11, facade=facade, shop="arches", tint=_STUCCO[0])
        pieces.append(place_piece(hall, (float(rng.uniform(-5, 5)), back - 1, 0)))
    pieces += _make_house_row(rng, length=44, at=(0, back, 0), has_shops=True)
    for side in (-1, 1):
        at, turn = (side * 17.0, 0, 0), -side * 90.0
        pieces += _make_house_row(rng, length=34, at=at, turn_deg=turn, has_shops=True)
    centre = s.make_fountain if rng.uniform() < 0.5 else s.make_monument
    things = [centre(tint=_PAVING_TINT)]
    tint = _sample_paint(rng)
    things += [s.make_parasol_table(tint=tint) for _ in range(int(rng.integers(0, 4)))]
    things += [
        s.make_street_bench(tint=_sample_paint(rng)),
        s.make_lamp_post(height=3.6),
        s.make_lamp_post(height=3.6),
    ]
    things += [_sample_tree(rng, _TREES[:2]) for _ in range(2)]
    bounds = (-6.5, 6.5, 1.0, 7.5)
    return pieces + scatter_pieces(things, bounds=bounds, taken=[], turns=(0.0,), rng=rng)


def _build_car_park(rng: Rng) -> list[Piece]:
    pieces = [_make_ground("asphalt", _GREY, rng)]
    near = float(rng.uniform(3.2, 4.2))
    for row in (near, near + 10.5):
        bays = make_ground((45, 5.0), (0, row + 2.5, 0.006), "bays")
        pieces.append(repeat_textures(bays, 18))
        for k in range(-7, 8):
            if rng.uniform() < 0.62:
                car = s.make_car(tint=_sample_paint(rng), has_tail=bool(rng.uniform() < 0.5))
                pieces.append(place_piece(car, (k * 2.5 + 1.25, row + 2.5, 0), turn_deg=90))
    back = near + float(rng.uniform(17, 20))
    style = rng.uniform()
    if style < 0.4:
        surface = choose_one(("ribs", "concrete", "blocks"), rng)
        pieces.append(
            place_piece(
                s.make_free_wall(50, 7, surface=surface, tint=_STUCCO[1], tile=3), (0, back, 0)
            )
        )
        pieces.append(make_card((7, 2), (float(rng.uniform(-8, 8)), back - 0.1, 4), "sign_square"))
    elif style < 0.7:
        pieces += _make_house_row(rng, length=60, at=(0, back, 0))
    else:
        pieces.append(place_piece(s.make_hedge(60, height=2.2), (0, back, 0)))
    for side in (-1, 1):
        pieces += _make_house_row(rng, length=50, at=(side * 26.0, 6, 0), turn_deg=-side * 90.0)
    things: list[Piece] = [
        s.make_lamp_post(height=4.5),
        s.make_traffic_sign("sign_square"),
        s.make_dustbin(tint=_sample_paint(rng)),
    ]
    things += [_sample_tree(rng), s.make_traffic_sign("sign_round")]
    bounds = (-6.0, 6.0, 1.6, near - 0.2)
    pieces += scatter_pieces(things, bounds=bounds, taken=[], turns=(0.0,), rng=rng)
    trees = [_sample_tree(rng) for _ in range(8)]
    bounds = (-22, 22, near + 6, near + 10)
    return pieces + scatter_pieces(
        trees, bounds=bounds, taken=[], turns=_QUARTER_TURNS_DEG, rng=rng
    )


def _build_playground(rng: Rng) -> list[Piece]:
    pieces = [_make_ground("grass", _LAWN, rng)]
    rubber, tiled = ("soft_checker", (0.84, 0.62, 0.54)), ("tiles", (0.6, 0.68, 0.64))
    cover, tint = choose_one((("gravel", _SAND), ("carpet", _SAND), rubber, tiled), rng)
    pieces.append(make_ground((15, 13), (0, 2.5, 0.006), cover, tint=tint, tile=2.0))
    far = float(rng.uniform(8, 10))
    rail = choose_one(("pickets", "railing", "wire"), rng)
    pieces.append(place_piece(s.make_fence(rail, 30, height=1.1), (0, far, 0)))
    toys = [
        make(tint=_sample_paint(rng))
        for make in (s.make_swing_set, s.make_slide_tower, s.make_climbing_frame)
    ]
    toys += [
        toys[rng.integers(3)],
        s.make_street_bench(tint=_sample_paint(rng)),
        s.make_street_bench(tint=_sample_paint(rng)),
    ]
    turns = (0.0, 30.0, -30.0, 180.0)
    pieces += scatter_pieces(toys, bounds=(-6, 6, 1.0, 6.5), taken=[], turns=turns, rng=rng)
    if rng.uniform() < 0.6:
        pieces += _make_house_row(rng, length=70, at=(0, 24, 0))
    trees = [_sample_tree(rng) for _ in range(16)]
    return pieces + scatter_pieces(
        trees, bounds=(-20, 20, far + 1.5, 20), taken=[], turns=_QUARTER_TURNS_DEG, rng=rng
    )


KINDS: dict[str, Callable[[Rng], list[Piece]]] = {
    "street": _build_street,
    "park": _build_park,
    "courtyard": _build_courtyard,
    "square": _build_square,
    "car_park": _build_car_park,
    "playground": _build_playground,
}
