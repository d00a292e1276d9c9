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
from masquerade.stage.raster import Camera, Light, Point
from masquerade.stage.solids import (
    NUM_VIEWS,
    Item,
    Piece,
    Quad,
    Quads,
    Tint,
    Vector,
    azimuth_deg,
    flat,
    is_clear,
    lined_up,
    one,
    placed,
    scattered,
    stacked,
)

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
    between: Callable[[Rng], list[Piece]] = lambda rng: []
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


_PAPERS = ("plaster", "wide_stripes", "pinstripes", "dots", "rings", "lozenges", "flowers")
_HARD = ("plaster", "blocks", "metro_tiles", "tiles", "brick", "concrete")
_WOODEN = ("planks", "narrow_planks", "herringbone")
_STONE = ("tiles", "checker", "soft_checker", "small_tiles", "slabs")
_SOFT = ("carpet", "diamonds", "carpet_squares")
_CURTAINS = ("curtain_warm", "curtain_cool", "curtain_pale")
_BOOKS = ("books_three", "books_four", "books_five")


def _wood(rng: Rng) -> Tint:
    return one(f.WOODS, rng)


def _cloth(rng: Rng) -> Tint:
    return one(f.CLOTHS, rng)


def _shuffled(items: list[Item], rng: Rng) -> list[Item]:
    return [items[k] for k in rng.permutation(len(items))]


def _over(item: Item, above: Item) -> Item:
    """A low thing with something hung above it."""
    return max(item[0], above[0]), item[1] + above[1]


def _poster(rng: Rng) -> Item:
    size = float(rng.uniform(0.6, 1.2))
    tall = size * float(rng.choice([0.75, 1.0, 1.3]))
    name = f"poster_{rng.integers(NUM_POSTERS):02}"
    return size + 0.2, f.hung(name, size, tall, middle=float(rng.uniform(1.45, 1.75)))


def _window(rng: Rng, views: tuple[str, ...], curtains: tuple[str, ...] = ("",)) -> Item:
    width, height = float(rng.uniform(1.1, 1.8)), float(rng.uniform(1.1, 1.4))
    curtain = one(curtains, rng)
    piece = f.window(width, height, view=one(views, rng), curtain=curtain)
    return width + (0.8 if curtain else 0.2), piece


def _books(rng: Rng) -> Item:
    width, height = float(rng.uniform(0.9, 1.6)), float(rng.uniform(1.5, 2.2))
    return width, f.case((width, 0.34, height), one(_BOOKS, rng), tint=_wood(rng))


def _plant(rng: Rng) -> Item:
    leaves = one(("plant_broad", "plant_thin"), rng)
    return 0.8, f.plant(leaves, height=float(rng.uniform(0.9, 1.7)), tint=_wood(rng))


def _clock() -> Item:
    return 0.5, f.hung("clock", 0.36, 0.36, middle=2.1)


def _kitchen(rng: Rng) -> list[Item]:
    width = float(rng.uniform(1.8, 3.0))
    front = one(("cupboard_white", "cupboard_wood", "cupboard_green"), rng)
    tiles = one(("metro_tiles", "small_tiles", "tiles"), rng)
    has_stove = rng.uniform() < 0.8
    run = f.counter(width, front=front, top=_wood(rng), wall=tiles, has_stove=has_stove)
    fridge = 0.75, f.case((0.7, 0.65, float(rng.uniform(1.5, 1.9))), "fridge", tint=f.PALE)
    larder = 0.9, f.case((0.9, 0.5, 2.1), front, tint=f.PALE)
    rest = [fridge, _window(rng, ("window_cross", "window_wide")), larder, _poster(rng), _clock()]
    return [(width, run), *_shuffled(rest, rng)]


def _kitchen_middle(rng: Rng) -> list[Piece]:
    return [f.dining(tint=_wood(rng), seats=_cloth(rng)), f.stool(tint=_wood(rng))]


def _living_room(rng: Rng) -> list[Item]:
    width = float(rng.uniform(1.7, 2.3))
    cloth = one(("weave", "tartan", "pinstripes", "plaster"), rng)
    couch = _over((width, f.sofa(width, tint=_cloth(rng), cloth=cloth)), _poster(rng))
    shown = _over((1.6, f.television(tint=_wood(rng))), _poster(rng))
    fire = 1.7, f.fireplace(tint=_wood(rng))
    window = _window(rng, ("window_cross", "window_tall"), _CURTAINS)
    lamp = 0.6, f.floor_lamp(tint=(1.2, 1.1, 0.9))
    first = one([couch, shown, fire], rng)
    rest = [_books(rng), window, lamp, _plant(rng), _poster(rng), couch]
    return _shuffled([first, *_shuffled(rest, rng)[:4]], rng)


def _living_middle(rng: Rng) -> list[Piece]:
    low = f.table(1.0, 0.6, tint=_wood(rng), height=0.42)
    chair = placed(f.sofa(0.95, tint=_cloth(rng), cloth="weave"), (0, 0.4, 0))
    pattern = one(("diamonds", "lozenges", "rings", "tartan"), rng)
    return [f.rug(2.6, 2.0, pattern=pattern, tint=_cloth(rng)), chair, low]


def _office(rng: Rng) -> list[Item]:
    filing = 0.6, f.case((0.55, 0.5, 1.3), "filing", tint=f.STEEL)
    board = 1.9, f.hung("whiteboard", 1.8, 1.1)
    place = 1.5, placed(f.desk(tint=_wood(rng), has_chair=False), (0, -0.4, 0))
    window = _window(rng, ("window_blinds", "window_wide"))
    rest = [filing, _over(place, _poster(rng)), window, _books(rng), _plant(rng), filing]
    return _shuffled([board, *_shuffled(rest, rng)[:4]], rng)


def _office_middle(rng: Rng) -> list[Piece]:
    wood = _wood(rng)
    return [f.desk(tint=wood) for _ in range(int(rng.integers(2, 4)))]


def _corridor(rng: Rng) -> list[Item]:
    leaf = one(("door_panels", "door_plain", "door_glass", "door_two"), rng)
    doors = [(1.2, f.door(leaf)) for _ in range(2)]
    notices = 1.5, f.hung("notices", 1.4, 0.9)
    lockers = 1.6, f.case((1.6, 0.45, 1.8), "lockers", tint=f.STEEL)
    seats = _over((1.6, f.indoor_bench(1.5, tint=_wood(rng))), _poster(rng))
    rest = [notices, lockers, seats, _poster(rng), _plant(rng)]
    return [doors[0], *_shuffled([doors[1], *_shuffled(rest, rng)[:3]], rng)]


def _sideways(piece: Piece, length: float) -> Item:
    """A bed with its long side to the wall, its head to the left."""
    return length, placed(piece, (-length / 2, -0.55, 0), turn_deg=90)


def _classroom(rng: Rng) -> list[Item]:
    board = 2.5, f.hung(one(("blackboard", "blackboard", "whiteboard"), rng), 2.4, 1.2)
    window = _window(rng, ("window_tall", "window_wide", "window_cross"))
    rest = [window, _poster(rng), _poster(rng), _books(rng), _clock(), window]
    return [board, *_shuffled(rest, rng)] if rng.uniform() < 0.7 else _shuffled(rest, rng)


def _classroom_middle(rng: Rng) -> list[Piece]:
    wood = _wood(rng)
    return [f.school_desk(tint=wood) for _ in range(int(rng.integers(4, 7)))]


def _gym(rng: Rng) -> list[Item]:
    bars = 1.9, f.hung("wall_bars", 1.8, 2.4, middle=1.3)
    mats = 1.7, f.mats(tint=_cloth(rng))
    bench = 2.0, f.indoor_bench(1.9, tint=f.OAK)
    high = 2.2, f.window(2.0, 0.9, view="window_bars", sill=2.6)
    ring = 1.6, f.hoop()
    rest = [_over(mats, high), _over(bench, ring), bars, _over(bench, high)]
    return _shuffled([bars, *_shuffled(rest, rng)], rng)


def _gym_middle(rng: Rng) -> list[Piece]:
    vault = f.case((1.2, 0.5, 1.1), "drawers", tint=f.OAK)
    return [placed(f.mats(tint=_cloth(rng)), (0, 0.6, 0)), placed(vault, (0, 0.25, 0))]


def _hospital(rng: Rng) -> list[Item]:
    bed = 1.1, f.hospital_bed(tint=(0.85, 1.0, 1.05))
    drip = 0.6, f.drip()
    side = _over((0.5, f.case((0.48, 0.45, 0.75), "drawers", tint=f.PALE)), _poster(rng))
    curtain = 1.3, f.hung("curtain_cool", 1.2, 2.1, middle=1.15)
    window = _window(rng, ("window_wide", "window_blinds"))
    rest = [curtain, window, side, (1.2, f.door("door_glass"))]
    beside = _sideways(f.hospital_bed(tint=(0.85, 1.0, 1.05)), 2.1)
    return [bed if rng.uniform() < 0.7 else beside, drip, *_shuffled([*rest, bed, beside], rng)]


def _bedroom(rng: Rng) -> list[Item]:
    cover = one(("tartan", "flowers", "wide_stripes", "diamonds", "weave"), rng)
    width = float(rng.uniform(1.2, 1.8))
    bed = width + 0.1, f.bed(width, cover=cover, tint=_cloth(rng), wood=_wood(rng))
    robe = 1.6, f.case((1.5, 0.6, 2.1), "wardrobe", tint=_wood(rng))
    chest = _over((0.9, f.case((0.9, 0.45, 0.8), "drawers", tint=_wood(rng))), _poster(rng))
    window = _window(rng, ("window_cross", "window_tall"), _CURTAINS)
    night = 0.55, f.case((0.5, 0.4, 0.55), "drawers", tint=_wood(rng))
    lamp = 0.6, f.floor_lamp(tint=(1.2, 1.1, 0.9))
    head = _over(bed, _poster(rng))
    return [head, night, *_shuffled([robe, chest, window, lamp, _poster(rng)], rng)]


def _bedroom_middle(rng: Rng) -> list[Piece]:
    pattern = one(("diamonds", "lozenges", "wide_stripes"), rng)
    return [f.rug(2.4, 1.8, pattern=pattern, tint=_cloth(rng)), f.chair(tint=_cloth(rng))]


ROOM_KINDS: dict[str, RoomKind] = {
    "kitchen": RoomKind(
        walls=_PAPERS[:3],
        floors=_STONE,
        along=_kitchen,
        between=_kitchen_middle,
        sides=(3.2, 4.4),
        back=(3.0, 4.0),
    ),
    "living_room": RoomKind(
        walls=_PAPERS,
        floors=_WOODEN + _SOFT,
        along=_living_room,
        between=_living_middle,
        lower=("", "", "panels"),
    ),
    "office": RoomKind(walls=_HARD, floors=_SOFT, along=_office, between=_office_middle),
    "corridor": RoomKind(
        walls=_HARD,
        floors=_STONE,
        along=_corridor,
        lower=("", "tiles", "panels", "metro_tiles"),
        sides=(2.3, 2.6),
        back=(6.0, 9.0),
    ),
    "classroom": RoomKind(
        walls=_HARD,
        floors=_WOODEN + _STONE,
        along=_classroom,
        between=_classroom_middle,
        lower=("", "siding"),
        sides=(3.4, 4.6),
        back=(3.2, 4.4),
    ),
    "gym": RoomKind(
        walls=("brick", "blocks", "siding", "concrete"),
        floors=("narrow_planks", "planks", "herringbone"),
        along=_gym,
        between=_gym_middle,
        lower=("", "panels", "siding"),
        height=(4.5, 5.5),
        sides=(4.2, 5.5),
        back=(4.0, 6.0),
    ),
    "hospital_room": RoomKind(
        walls=("plaster", "tiles", "metro_tiles"),
        floors=("soft_checker", "tiles", "gravel"),
        along=_hospital,
        lower=("", "tiles", "small_tiles"),
        sides=(3.5, 4.6),
        back=(4.0, 4.7),
    ),
    "bedroom": RoomKind(
        walls=_PAPERS,
        floors=_WOODEN + _SOFT,
        along=_bedroom,
        between=_bedroom_middle,
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
    quads: Quads
    light: Light


def name_of(index: int) -> str:
    """The name of a place, whatever the seed.

    Example:
        >>> name_of(0)
        'kitchen_00'
    """
    return f"{PLACE_KINDS[index % len(PLACE_KINDS)]}_{index // len(PLACE_KINDS):02}"


def make(index: int, *, seed: int) -> StagedPlace:
    """The place of that number in the world of that seed; kinds take turns."""
    _check.count(index=index + 1)
    rng = np.random.default_rng([seed, index])
    kind = PLACE_KINDS[index % len(PLACE_KINDS)]
    is_indoor = kind in ROOM_KINDS
    if is_indoor:
        pieces = furnish(ROOM_KINDS[kind], rng=rng)
    else:
        pieces = grounds.lay_out(kind, rng=rng)
    azimuth, height = math.radians(rng.uniform(-150, -30)), math.radians(rng.uniform(40, 65))
    return StagedPlace(
        name=name_of(index),
        kind=kind,
        is_indoor=is_indoor,
        quads=stacked(pieces, textures=prints.pool().index),
        light=Light(
            towards=_direction(azimuth, height),
            colour=(1.0, 0.98, 0.95) if is_indoor else (1.02, 1.0, 0.97),
            ambient=0.62 if is_indoor else 0.55,
        ),
    )


def camera(
    place: StagedPlace, view: int, *, height: int, width: int, rng: np.random.Generator
) -> Camera:
    """A camera at one of the nominal azimuths, a little moved; rooms are filmed from nearer.

    Views are 0 to 5; neighbours are 24 degrees apart before the jitter of 2 degrees.
    """
    if not 0 <= view < NUM_VIEWS:
        raise ValueError(f"Expected view to be in 0..{NUM_VIEWS - 1}, got view={view}.")
    angle = math.radians(azimuth_deg(view) + rng.uniform(-2, 2))
    away = rng.uniform(3.7, 4.9) if place.is_indoor else rng.uniform(4.2, 6.2)
    aim = rng.uniform(-0.15, 0.15, 3)
    return Camera(
        eye=(away * math.cos(angle), away * math.sin(angle), float(rng.uniform(1.1, 2.0))),
        target=(float(aim[0]), float(aim[1]), _AIM_M + float(aim[2])),
        fov_deg=float(rng.uniform(42, 53)),
        height=height,
        width=width,
    )


def lit(place: StagedPlace, *, rng: np.random.Generator) -> Light:
    """The place's light as it happens to be during one take."""
    x, y, z = place.light.towards
    azimuth = math.atan2(y, x) + math.radians(rng.uniform(-60, 60))
    rise = math.asin(z) + math.radians(rng.uniform(-20, 20))
    bright, warm, green = rng.uniform(0.82, 1.22), rng.uniform(-0.1, 0.1), rng.uniform(-0.04, 0.04)
    red, mid, blue = place.light.colour
    return Light(
        towards=_direction(azimuth, rise),
        colour=(red * bright * (1 + warm), mid * bright * (1 + green), blue * bright * (1 - warm)),
        ambient=float(np.clip(place.light.ambient + rng.uniform(-0.12, 0.12), 0.3, 0.85)),
    )


def _direction(azimuth: float, rise: float) -> Point:
    flat = math.cos(rise)
    return flat * math.cos(azimuth), flat * math.sin(azimuth), math.sin(rise)
