"""The kinds of rooms: what each has along its walls and between them."""

from __future__ import annotations

import numpy as np

from masquerade.data.world import furniture as f
from masquerade.data.world.layout import Item, one
from masquerade.data.world.posters import NUM_POSTERS
from masquerade.data.world.rooms import RoomKind
from masquerade.data.world.solids import Piece, Tint, placed

Rng = np.random.Generator
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
    seats = _over((1.6, f.bench(1.5, tint=_wood(rng))), _poster(rng))
    rest = [notices, lockers, seats, _poster(rng), _plant(rng)]
    return [doors[0], *_shuffled([doors[1], *_shuffled(rest, rng)[:3]], rng)]


def _sideways(piece: Piece, length: float) -> Item:
    """A bed with its long side to the wall, its head to the left."""
    return length, placed(piece, (-length / 2, -0.55, 0), turn_deg=90)


def _nothing(rng: Rng) -> list[Piece]:
    return []


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
    bench = 2.0, f.bench(1.9, tint=f.OAK)
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
    rest = [
        curtain,
        _window(rng, ("window_wide", "window_blinds")),
        side,
        (1.2, f.door("door_glass")),
    ]
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
    return [
        _over(bed, _poster(rng)),
        night,
        *_shuffled([robe, chest, window, lamp, _poster(rng)], rng),
    ]


def _bedroom_middle(rng: Rng) -> list[Piece]:
    pattern = one(("diamonds", "lozenges", "wide_stripes"), rng)
    return [f.rug(2.4, 1.8, pattern=pattern, tint=_cloth(rng)), f.chair(tint=_cloth(rng))]


KINDS: dict[str, RoomKind] = {
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
        between=_nothing,
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
        between=_nothing,
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
