"""Places where people act: eight kinds of rooms and six kinds of ground, drawn up from a seed.

Convention: metres, z up, the floor at z = 0. People act within about 1.6 m of the origin; nothing
stands within 1.8 m of it nor between it and the nominal cameras. Textures, colours and models are
shared by all places; what differs is which of them a place has, and where.

Indoor places: a shell of walls, and what each kind of room has along and between them.

The kinds of rooms: what each has along its walls and between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade.stage import furniture as f
from masquerade.stage import grounds, prints
from masquerade.stage.prints import NUM_POSTERS
from masquerade.stage.raster import Camera, Point, SceneLight
from masquerade.stage.solids import (
    NUM_VIEWS,
    Item,
    Piece,
    Quad,
    QuadArrays,
    Tint,
    Vector,
    choose_one,
    compute_azimuth_deg,
    is_clear,
    line_up_items,
    make_ground,
    place_piece,
    scatter_pieces,
    stack_quads,
)

Rng = np.random.Generator
# Few and pale, so that a wall's colour alone does not tell the place.
_WALLS: tuple[Tint, ...] = ((1.12, 1.09, 1.02), (1.04, 1.08, 1.06), (1.1, 1.05, 1.0))
_FLOORS: tuple[Tint, ...] = ((0.82, 0.74, 0.66), (0.78, 0.77, 0.75), (0.86, 0.77, 0.66))


@dataclass(frozen=True, kw_only=True)
class RoomSize:
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
    between: Callable[[Rng], list[Piece]] = lambda rng: []
    lower: tuple[str, ...] = ("",)
    height: tuple[float, float] = (2.6, 3.1)
    sides: tuple[float, float] = (2.9, 4.2)
    back: tuple[float, float] = (2.7, 3.8)


def furnish_room(plan: RoomKind, *, rng: Rng) -> list[Piece]:
    """All pieces of a room of that kind."""
    room = RoomSize(
        left=float(rng.uniform(*plan.sides)),
        right=float(rng.uniform(*plan.sides)),
        back=float(rng.uniform(*plan.back)),
        height=float(rng.uniform(*plan.height)),
        wall=choose_one(plan.walls, rng),
        lower=choose_one(plan.lower, rng),
        floor=choose_one(plan.floors, rng),
        wall_tint=choose_one(_WALLS, rng),
        floor_tint=choose_one(_FLOORS, rng),
    )
    pieces: list[Piece] = []
    spans = {"back": (-room.left + 0.1, room.right - 0.1)}
    for side, away in (("left", room.left), ("right", room.right)):
        start = 0.6 - math.tan(math.radians(30)) * (away - 0.65)  # beyond the last line of sight
        spans[side] = (start, room.back - 0.8)
    for wall, (start, end) in spans.items():
        items = plan.along(rng)
        for at, piece in line_up_items(items, start=start, end=end, rng=rng):
            pieces.append(_put_against_wall(piece, wall, at, room))
    bounds = (-room.left + 0.5, room.right - 0.5, 0.0, room.back - 0.6)
    turns = (0.0, 90.0, 180.0, -90.0)
    pieces += scatter_pieces(plan.between(rng), bounds=bounds, taken=pieces, turns=turns, rng=rng)
    return [*(piece for piece in pieces if is_clear(piece)), *_make_room_shell(room, rng)]


def _put_against_wall(piece: Piece, wall: str, at: float, room: RoomSize) -> Piece:
    if wall == "left":
        return place_piece(piece, (-room.left, at, 0), turn_deg=90)
    if wall == "right":
        return place_piece(piece, (room.right, at, 0), turn_deg=-90)
    return place_piece(piece, (at, room.back, 0))


def _make_room_shell(room: RoomSize, rng: Rng) -> list[Piece]:
    """Floor, ceiling, lamps and four walls that are seen from inside only."""
    width, front = room.left + room.right, 6.0
    depth, middle = room.back + front, ((room.right - room.left) / 2, (room.back - front) / 2)
    tile = float(rng.uniform(1.2, 2.2))
    pieces = [
        make_ground((width, depth), (*middle, 0), room.floor, tint=room.floor_tint, tile=tile)
    ]
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
            pieces.append(_make_walls(room, front, (bottom, top), (texture, tile), tint))
    pieces.append(
        _make_walls(room, front - 0.02, (0.0, 0.1), ("plaster", 1.0), (0.8, 0.76, 0.7), 0.02)
    )
    for y in (0.8, room.back - 0.6):
        lamp = f.make_ceiling_lamp(1.2, 0.25, height=room.height)
        pieces.append(place_piece(lamp, (float(rng.uniform(-1, 1)), y, 0)))
    return pieces


def _make_walls(
    room: RoomSize,
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


_PAPERS = ("plaster", "wide_stripes", "pinstripes", "dots", "rings", "lozenges", "flowers")
_HARD = ("plaster", "blocks", "metro_tiles", "tiles", "brick", "concrete")
_WOOD_FLOORS = ("planks", "narrow_planks", "herringbone")
_STONE = ("tiles", "checker", "soft_checker", "small_tiles", "slabs")
_SOFT = ("carpet", "diamonds", "carpet_squares")
_CURTAINS = ("curtain_warm", "curtain_cool", "curtain_pale")
_BOOKS = ("books_three", "books_four", "books_five")


def _sample_wood_tint(rng: Rng) -> Tint:
    return choose_one(f.WOODS, rng)


def _sample_cloth_tint(rng: Rng) -> Tint:
    return choose_one(f.CLOTHS, rng)


def _shuffle_items(items: list[Item], rng: Rng) -> list[Item]:
    return [items[k] for k in rng.permutation(len(items))]


def _hang_above(item: Item, above: Item) -> Item:
    """A low thing with something hung above it."""
    return max(item[0], above[0]), item[1] + above[1]


def _make_poster(rng: Rng) -> Item:
    size = float(rng.uniform(0.6, 1.2))
    tall = size * float(rng.choice([0.75, 1.0, 1.3]))
    name = f"poster_{rng.integers(NUM_POSTERS):02}"
    return size + 0.2, f.make_wall_picture(name, size, tall, middle=float(rng.uniform(1.45, 1.75)))


def _sample_window(rng: Rng, views: tuple[str, ...], curtains: tuple[str, ...] = ("",)) -> Item:
    width, height = float(rng.uniform(1.1, 1.8)), float(rng.uniform(1.1, 1.4))
    curtain = choose_one(curtains, rng)
    piece = f.make_window(width, height, view=choose_one(views, rng), curtain=curtain)
    return width + (0.8 if curtain else 0.2), piece


def _make_bookcase(rng: Rng) -> Item:
    width, height = float(rng.uniform(0.9, 1.6)), float(rng.uniform(1.5, 2.2))
    return width, f.make_case(
        (width, 0.34, height), choose_one(_BOOKS, rng), tint=_sample_wood_tint(rng)
    )


def _sample_plant(rng: Rng) -> Item:
    leaves = choose_one(("plant_broad", "plant_thin"), rng)
    return 0.8, f.make_potted_plant(
        leaves, height=float(rng.uniform(0.9, 1.7)), tint=_sample_wood_tint(rng)
    )


def _make_clock() -> Item:
    return 0.5, f.make_wall_picture("clock", 0.36, 0.36, middle=2.1)


def _furnish_kitchen(rng: Rng) -> list[Item]:
    width = float(rng.uniform(1.8, 3.0))
    front = choose_one(("cupboard_white", "cupboard_wood", "cupboard_green"), rng)
    tiles = choose_one(("metro_tiles", "small_tiles", "tiles"), rng)
    has_stove = rng.uniform() < 0.8
    run = f.make_kitchen_counter(
        width, front=front, top=_sample_wood_tint(rng), wall=tiles, has_stove=has_stove
    )
    fridge = 0.75, f.make_case((0.7, 0.65, float(rng.uniform(1.5, 1.9))), "fridge", tint=f.PALE)
    larder = 0.9, f.make_case((0.9, 0.5, 2.1), front, tint=f.PALE)
    rest = [
        fridge,
        _sample_window(rng, ("window_cross", "window_wide")),
        larder,
        _make_poster(rng),
        _make_clock(),
    ]
    return [(width, run), *_shuffle_items(rest, rng)]


def _furnish_kitchen_middle(rng: Rng) -> list[Piece]:
    return [
        f.make_dining_set(tint=_sample_wood_tint(rng), seats=_sample_cloth_tint(rng)),
        f.make_stool(tint=_sample_wood_tint(rng)),
    ]


def _furnish_living_room(rng: Rng) -> list[Item]:
    width = float(rng.uniform(1.7, 2.3))
    cloth = choose_one(("weave", "tartan", "pinstripes", "plaster"), rng)
    couch = _hang_above(
        (width, f.make_sofa(width, tint=_sample_cloth_tint(rng), cloth=cloth)), _make_poster(rng)
    )
    shown = _hang_above((1.6, f.make_television(tint=_sample_wood_tint(rng))), _make_poster(rng))
    fire = 1.7, f.make_fireplace(tint=_sample_wood_tint(rng))
    window = _sample_window(rng, ("window_cross", "window_tall"), _CURTAINS)
    lamp = 0.6, f.make_floor_lamp(tint=(1.2, 1.1, 0.9))
    first = choose_one([couch, shown, fire], rng)
    rest = [_make_bookcase(rng), window, lamp, _sample_plant(rng), _make_poster(rng), couch]
    return _shuffle_items([first, *_shuffle_items(rest, rng)[:4]], rng)


def _furnish_living_middle(rng: Rng) -> list[Piece]:
    low = f.make_table(1.0, 0.6, tint=_sample_wood_tint(rng), height=0.42)
    chair = place_piece(f.make_sofa(0.95, tint=_sample_cloth_tint(rng), cloth="weave"), (0, 0.4, 0))
    pattern = choose_one(("diamonds", "lozenges", "rings", "tartan"), rng)
    return [f.make_rug(2.6, 2.0, pattern=pattern, tint=_sample_cloth_tint(rng)), chair, low]


def _furnish_office(rng: Rng) -> list[Item]:
    filing = 0.6, f.make_case((0.55, 0.5, 1.3), "filing", tint=f.STEEL)
    board = 1.9, f.make_wall_picture("whiteboard", 1.8, 1.1)
    place = (
        1.5,
        place_piece(f.make_desk(tint=_sample_wood_tint(rng), has_chair=False), (0, -0.4, 0)),
    )
    window = _sample_window(rng, ("window_blinds", "window_wide"))
    rest = [
        filing,
        _hang_above(place, _make_poster(rng)),
        window,
        _make_bookcase(rng),
        _sample_plant(rng),
        filing,
    ]
    return _shuffle_items([board, *_shuffle_items(rest, rng)[:4]], rng)


def _furnish_office_middle(rng: Rng) -> list[Piece]:
    wood = _sample_wood_tint(rng)
    return [f.make_desk(tint=wood) for _ in range(int(rng.integers(2, 4)))]


def _furnish_corridor(rng: Rng) -> list[Item]:
    leaf = choose_one(("door_panels", "door_plain", "door_glass", "door_two"), rng)
    doors = [(1.2, f.make_doorway(leaf)) for _ in range(2)]
    notices = 1.5, f.make_wall_picture("notices", 1.4, 0.9)
    lockers = 1.6, f.make_case((1.6, 0.45, 1.8), "lockers", tint=f.STEEL)
    seats = _hang_above(
        (1.6, f.make_indoor_bench(1.5, tint=_sample_wood_tint(rng))), _make_poster(rng)
    )
    rest = [notices, lockers, seats, _make_poster(rng), _sample_plant(rng)]
    return [doors[0], *_shuffle_items([doors[1], *_shuffle_items(rest, rng)[:3]], rng)]


def _turn_sideways(piece: Piece, length: float) -> Item:
    """A bed with its long side to the wall, its head to the left."""
    return length, place_piece(piece, (-length / 2, -0.55, 0), turn_deg=90)


def _furnish_classroom(rng: Rng) -> list[Item]:
    board = (
        2.5,
        f.make_wall_picture(choose_one(("blackboard", "blackboard", "whiteboard"), rng), 2.4, 1.2),
    )
    window = _sample_window(rng, ("window_tall", "window_wide", "window_cross"))
    rest = [
        window,
        _make_poster(rng),
        _make_poster(rng),
        _make_bookcase(rng),
        _make_clock(),
        window,
    ]
    return [board, *_shuffle_items(rest, rng)] if rng.uniform() < 0.7 else _shuffle_items(rest, rng)


def _furnish_classroom_middle(rng: Rng) -> list[Piece]:
    wood = _sample_wood_tint(rng)
    return [f.make_school_desk(tint=wood) for _ in range(int(rng.integers(4, 7)))]


def _furnish_gym(rng: Rng) -> list[Item]:
    bars = 1.9, f.make_wall_picture("wall_bars", 1.8, 2.4, middle=1.3)
    mats = 1.7, f.make_gym_mats(tint=_sample_cloth_tint(rng))
    bench = 2.0, f.make_indoor_bench(1.9, tint=f.OAK)
    high = 2.2, f.make_window(2.0, 0.9, view="window_bars", sill=2.6)
    ring = 1.6, f.make_basketball_hoop()
    rest = [_hang_above(mats, high), _hang_above(bench, ring), bars, _hang_above(bench, high)]
    return _shuffle_items([bars, *_shuffle_items(rest, rng)], rng)


def _furnish_gym_middle(rng: Rng) -> list[Piece]:
    vault = f.make_case((1.2, 0.5, 1.1), "drawers", tint=f.OAK)
    return [
        place_piece(f.make_gym_mats(tint=_sample_cloth_tint(rng)), (0, 0.6, 0)),
        place_piece(vault, (0, 0.25, 0)),
    ]


def _furnish_hospital(rng: Rng) -> list[Item]:
    bed = 1.1, f.make_hospital_bed(tint=(0.85, 1.0, 1.05))
    drip = 0.6, f.make_drip_stand()
    side = _hang_above(
        (0.5, f.make_case((0.48, 0.45, 0.75), "drawers", tint=f.PALE)), _make_poster(rng)
    )
    curtain = 1.3, f.make_wall_picture("curtain_cool", 1.2, 2.1, middle=1.15)
    window = _sample_window(rng, ("window_wide", "window_blinds"))
    rest = [curtain, window, side, (1.2, f.make_doorway("door_glass"))]
    beside = _turn_sideways(f.make_hospital_bed(tint=(0.85, 1.0, 1.05)), 2.1)
    return [
        bed if rng.uniform() < 0.7 else beside,
        drip,
        *_shuffle_items([*rest, bed, beside], rng),
    ]


def _furnish_bedroom(rng: Rng) -> list[Item]:
    cover = choose_one(("tartan", "flowers", "wide_stripes", "diamonds", "weave"), rng)
    width = float(rng.uniform(1.2, 1.8))
    bed = (
        width + 0.1,
        f.make_bed(width, cover=cover, tint=_sample_cloth_tint(rng), wood=_sample_wood_tint(rng)),
    )
    robe = 1.6, f.make_case((1.5, 0.6, 2.1), "wardrobe", tint=_sample_wood_tint(rng))
    chest = _hang_above(
        (0.9, f.make_case((0.9, 0.45, 0.8), "drawers", tint=_sample_wood_tint(rng))),
        _make_poster(rng),
    )
    window = _sample_window(rng, ("window_cross", "window_tall"), _CURTAINS)
    night = 0.55, f.make_case((0.5, 0.4, 0.55), "drawers", tint=_sample_wood_tint(rng))
    lamp = 0.6, f.make_floor_lamp(tint=(1.2, 1.1, 0.9))
    head = _hang_above(bed, _make_poster(rng))
    return [head, night, *_shuffle_items([robe, chest, window, lamp, _make_poster(rng)], rng)]


def _furnish_bedroom_middle(rng: Rng) -> list[Piece]:
    pattern = choose_one(("diamonds", "lozenges", "wide_stripes"), rng)
    return [
        f.make_rug(2.4, 1.8, pattern=pattern, tint=_sample_cloth_tint(rng)),
        f.make_chair(tint=_sample_cloth_tint(rng)),
    ]


ROOM_KINDS: dict[str, RoomKind] = {
    "kitchen": RoomKind(
        walls=_PAPERS[:3],
        floors=_STONE,
        along=_furnish_kitchen,
        between=_furnish_kitchen_middle,
        sides=(3.2, 4.4),
        back=(3.0, 4.0),
    ),
    "living_room": RoomKind(
        walls=_PAPERS,
        floors=_WOOD_FLOORS + _SOFT,
        along=_furnish_living_room,
        between=_furnish_living_middle,
        lower=("", "", "panels"),
    ),
    "office": RoomKind(
        walls=_HARD, floors=_SOFT, along=_furnish_office, between=_furnish_office_middle
    ),
    "corridor": RoomKind(
        walls=_HARD,
        floors=_STONE,
        along=_furnish_corridor,
        lower=("", "tiles", "panels", "metro_tiles"),
        sides=(2.3, 2.6),
        back=(6.0, 9.0),
    ),
    "classroom": RoomKind(
        walls=_HARD,
        floors=_WOOD_FLOORS + _STONE,
        along=_furnish_classroom,
        between=_furnish_classroom_middle,
        lower=("", "siding"),
        sides=(3.4, 4.6),
        back=(3.2, 4.4),
    ),
    "gym": RoomKind(
        walls=("brick", "blocks", "siding", "concrete"),
        floors=("narrow_planks", "planks", "herringbone"),
        along=_furnish_gym,
        between=_furnish_gym_middle,
        lower=("", "panels", "siding"),
        height=(4.5, 5.5),
        sides=(4.2, 5.5),
        back=(4.0, 6.0),
    ),
    "hospital_room": RoomKind(
        walls=("plaster", "tiles", "metro_tiles"),
        floors=("soft_checker", "tiles", "gravel"),
        along=_furnish_hospital,
        lower=("", "tiles", "small_tiles"),
        sides=(3.5, 4.6),
        back=(4.0, 4.7),
    ),
    "bedroom": RoomKind(
        walls=_PAPERS,
        floors=_WOOD_FLOORS + _SOFT,
        along=_furnish_bedroom,
        between=_furnish_bedroom_middle,
        sides=(3.5, 4.6),
        back=(4.0, 4.7),
    ),
}

_AIM_M = 0.95  # height of the point that cameras look at
PLACE_KINDS = tuple(
    kind for pair in zip(ROOM_KINDS, [*grounds.KINDS, "", ""], strict=True) for kind in pair if kind
)


@dataclass(frozen=True, eq=False, kw_only=True)
class StagedPlace:
    """A place: textured parallelograms around an empty stage.

    Args:
        name: its kind and a number, such as ``kitchen_03``.
        kind: one of ``KINDS``.
        is_indoor: whether it has a ceiling.
        quads: all that is to be seen.
        light: how it is lit on an ordinary day.
    """

    name: str
    kind: str
    is_indoor: bool
    quads: QuadArrays
    light: SceneLight


def format_place_name(index: int) -> str:
    """The name of a place, whatever the seed.

    Example:
        >>> format_place_name(0)
        'kitchen_00'
    """
    return f"{PLACE_KINDS[index % len(PLACE_KINDS)]}_{index // len(PLACE_KINDS):02}"


def make_staged_place(index: int, *, seed: int) -> StagedPlace:
    """The place of that number in the world of that seed; kinds take turns."""
    _check.count(index=index + 1)
    rng = np.random.default_rng([seed, index])
    kind = PLACE_KINDS[index % len(PLACE_KINDS)]
    is_indoor = kind in ROOM_KINDS
    if is_indoor:
        pieces = furnish_room(ROOM_KINDS[kind], rng=rng)
    else:
        pieces = grounds.lay_out(kind, rng=rng)
    azimuth, height = math.radians(rng.uniform(-150, -30)), math.radians(rng.uniform(40, 65))
    return StagedPlace(
        name=format_place_name(index),
        kind=kind,
        is_indoor=is_indoor,
        quads=stack_quads(pieces, textures=prints.pool().index),
        light=SceneLight(
            towards=_compute_direction(azimuth, height),
            colour=(1.0, 0.98, 0.95) if is_indoor else (1.02, 1.0, 0.97),
            ambient=0.62 if is_indoor else 0.55,
        ),
    )


def place_camera(
    place: StagedPlace, view: int, *, height: int, width: int, rng: np.random.Generator
) -> Camera:
    """A camera at one of the nominal azimuths, a little moved; rooms are filmed from nearer.

    Views are 0 to 5; neighbours are 24 degrees apart before the jitter of 2 degrees.
    """
    if not 0 <= view < NUM_VIEWS:
        raise ValueError(f"Expected view to be in 0..{NUM_VIEWS - 1}, got view={view}.")
    angle = math.radians(compute_azimuth_deg(view) + rng.uniform(-2, 2))
    away = rng.uniform(3.7, 4.9) if place.is_indoor else rng.uniform(4.2, 6.2)
    aim = rng.uniform(-0.15, 0.15, 3)
    return Camera(
        eye=(away * math.cos(angle), away * math.sin(angle), float(rng.uniform(1.1, 2.0))),
        target=(float(aim[0]), float(aim[1]), _AIM_M + float(aim[2])),
        fov_deg=float(rng.uniform(42, 53)),
        height=height,
        width=width,
    )


def sample_take_light(place: StagedPlace, *, rng: np.random.Generator) -> SceneLight:
    """The place's light as it happens to be during one take."""
    x, y, z = place.light.towards
    azimuth = math.atan2(y, x) + math.radians(rng.uniform(-60, 60))
    rise = math.asin(z) + math.radians(rng.uniform(-20, 20))
    bright, warm, green = rng.uniform(0.82, 1.22), rng.uniform(-0.1, 0.1), rng.uniform(-0.04, 0.04)
    red, mid, blue = place.light.colour
    return SceneLight(
        towards=_compute_direction(azimuth, rise),
        colour=(red * bright * (1 + warm), mid * bright * (1 + green), blue * bright * (1 - warm)),
        ambient=float(np.clip(place.light.ambient + rng.uniform(-0.12, 0.12), 0.3, 0.85)),
    )


def _compute_direction(azimuth: float, rise: float) -> Point:
    flat = math.cos(rise)
    return flat * math.cos(azimuth), flat * math.sin(azimuth), math.sin(rise)
