"""Places where people act: eight kinds of rooms and six kinds of ground, drawn up from a seed.

Convention: metres, z up, the floor at z = 0. People act within about 1.6 m of the origin; nothing
stands within 1.8 m of it nor between it and the nominal cameras. Textures, colours and models are
shared by all places; what differs is which of them a place has, and where.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade.data.world import grounds, room_kinds, rooms, textures
from masquerade.data.world.layout import NUM_VIEWS, azimuth_deg
from masquerade.data.world.solids import Quads, stacked
from masquerade.people.camera import Camera, Light, Point

_AIM_M = 0.95  # height of the point that cameras look at
KINDS = tuple(
    kind
    for pair in zip(room_kinds.KINDS, [*grounds.KINDS, "", ""], strict=True)
    for kind in pair
    if kind
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
    return f"{KINDS[index % len(KINDS)]}_{index // len(KINDS):02}"


def make(index: int, *, seed: int) -> StagedPlace:
    """The place of that number in the world of that seed; kinds take turns."""
    _check.count(index=index + 1)
    rng = np.random.default_rng([seed, index])
    kind = KINDS[index % len(KINDS)]
    is_indoor = kind in room_kinds.KINDS
    if is_indoor:
        pieces = rooms.furnish(room_kinds.KINDS[kind], rng=rng)
    else:
        pieces = grounds.lay_out(kind, rng=rng)
    azimuth, height = math.radians(rng.uniform(-150, -30)), math.radians(rng.uniform(40, 65))
    return StagedPlace(
        name=name_of(index),
        kind=kind,
        is_indoor=is_indoor,
        quads=stacked(pieces, textures=textures.pool().index),
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
