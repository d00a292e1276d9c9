"""Draws people: skin that follows the bones, light, and soft edges over the place behind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade.people import look, raster
from masquerade.people.bodies import JOINTS, Body, Model
from masquerade.people.camera import Camera, Light
from masquerade.people.skeleton import Posed

_SAMPLES = 2  # along each side of a pixel
_DEPTH = 0.13  # a joint lies this deep in the body at most; what is nearer hides it
_SKIN_DEPTH = 0.05  # the same for points on the skin: nose, eyes, ears, crown


@dataclass(frozen=True, kw_only=True, eq=False)
class Person:
    """A person ready to be drawn.

    Args:
        body: with clothes.
        joints: (J, 3) of the body at rest.
        paint: (F, texels, texels, 3) colours.
        normals: (V, 3) of the body at rest.
    """

    body: Body
    joints: np.ndarray
    paint: np.ndarray
    normals: np.ndarray


def figure(model: Model, body: Body, worn: look.Look) -> Person:
    """Dress a body."""
    clothed = look.dressed(model, body, worn)
    return Person(
        body=clothed,
        joints=model.joints(body),
        paint=look.paint(model, worn),
        normals=look.normals(clothed.vertices, model.faces),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawn:
    """One picture and what is true about it.

    Args:
        image: (H, W, 3) uint8.
        owner: (H, W) int8, which person has a part in the pixel; -1 nobody.
        joints: (N, J, 2) pixels.
        visible: (N, J) bool: inside the picture and not hidden.
        head_box: (N, 4) x, y, width and height of the head in pixels.
        box: (N, 4) of the whole person, seen or not.
    """

    image: np.ndarray
    owner: np.ndarray
    joints: np.ndarray
    visible: np.ndarray
    head_box: np.ndarray
    box: np.ndarray


def joints_3d(model: Model, person: Person, posed: Posed) -> np.ndarray:
    """(T, J, 3) metres in the world."""
    bones = np.array([bone for bone, _ in model.joint_places])
    return posed.carry(person.joints, person.body.heads, bones)


def draw(
    model: Model,
    people: list[tuple[Person, Posed]],
    backdrop: tuple[np.ndarray, np.ndarray],
    *,
    time: int,
    camera: Camera,
    light: Light,
) -> Drawn:
    """The picture at one time; outside the people it is the backdrop, bit for bit."""
    image, depth = backdrop
    skinned = [_skinned(model, person, posed, time) for person, posed in people]
    seen = [camera.see(vertices) for vertices, _ in skinned]
    rows, columns = _window(seen, camera)
    buffer = raster.blank(depth[rows, columns].repeat(_SAMPLES, 0).repeat(_SAMPLES, 1))
    corner = np.array([columns.start, rows.start, 0.0])
    for number, points in enumerate(seen):
        scaled = (points - corner) * [_SAMPLES, _SAMPLES, 1]
        raster.draw(scaled, model.faces, buffer, first=number * len(model.faces))
    skins, outward = [person.paint for person, _ in people], [normal for _, normal in skinned]
    colour = _lit(model, buffer, skins, outward, light)
    share = _pooled(buffer.face >= 0) / _SAMPLES**2
    mixed = _pooled(colour) / _SAMPLES**2 + (1 - share)[..., None] * image[rows, columns]
    out, owner = image.copy(), np.full(depth.shape, -1, np.int8)
    out[rows, columns][share > 0] = np.rint(mixed[share > 0])
    whose = np.where(buffer.face >= 0, buffer.face // len(model.faces), -1)
    owner[rows, columns] = np.max([whose[i::2, j::2] for i in (0, 1) for j in (0, 1)], axis=0)
    joints, visible = _joints(model, people, buffer, time=time, camera=camera, corner=corner)
    return Drawn(
        image=out,
        owner=owner,
        joints=joints,
        visible=visible,
        head_box=np.stack([_box(points[model.head_vertices]) for points in seen]),
        box=np.stack([_box(points) for points in seen]),
    )


def _window(seen: list[np.ndarray], camera: Camera) -> tuple[slice, slice]:
    """Rows and columns of the picture that people can reach; at least one pixel."""
    points = np.concatenate(seen)
    points = points[points[:, 2] > raster.NEAR]
    if not len(points):
        return slice(0, 1), slice(0, 1)
    most = [camera.width - 1, camera.height - 1]
    low = np.clip(np.floor(points[:, :2].min(axis=0)) - 1, 0, most).astype(int)
    high = np.clip(np.ceil(points[:, :2].max(axis=0)) + 1, 0, most).astype(int)
    return slice(low[1], high[1] + 1), slice(low[0], high[0] + 1)


def _pooled(values: np.ndarray) -> np.ndarray:
    """The sum over the samples of each pixel."""
    rows = values[0::2].astype(float) + values[1::2]
    return np.asarray(rows[:, 0::2] + rows[:, 1::2])


def _skinned(
    model: Model, person: Person, posed: Posed, time: int
) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and normals at one time: each follows its bones by their weights."""
    turns, rest = posed.turns[time], person.body.heads
    shift = posed.heads[time] - np.einsum("bij,bj->bi", turns, rest)
    both = np.concatenate([turns, shift[..., None]], axis=-1).reshape(len(turns), 12)
    blended = (model.weights @ both).reshape(-1, 3, 4)
    vertices = np.einsum("vij,vj->vi", blended[..., :3], person.body.vertices) + blended[..., 3]
    outward = np.einsum("vij,vj->vi", blended[..., :3], person.normals)
    return vertices, outward


def _lit(
    model: Model,
    buffer: raster.Buffer,
    skins: list[np.ndarray],
    turned: list[np.ndarray],
    light: Light,
) -> np.ndarray:
    """Colours (H, W, 3) from 0 to 255 where a person is seen, else 0."""
    colour = np.zeros((*buffer.face.shape, 3))
    for number, (paint, normals) in enumerate(zip(skins, turned, strict=True)):
        own = buffer.face // len(model.faces) == number  # -1 where there is nobody
        face = buffer.face[own] - number * len(model.faces)
        second, third = buffer.second[own], buffer.third[own]
        i, j = (
            np.minimum((part * look.TEXELS).astype(int), look.TEXELS - 1)
            for part in (second, third)
        )
        a, b, c = (normals[model.faces[face, k]] for k in range(3))
        normal = a + second[:, None] * (b - a) + third[:, None] * (c - a)
        normal /= np.maximum(np.sqrt((normal * normal).sum(axis=1, keepdims=True)), 1e-9)
        bright = np.maximum(normal @ np.asarray(light.towards), 0)
        sky = 0.85 + 0.15 * normal[:, 2]  # a little more from above than from below
        shade = light.ambient * sky + (1 - light.ambient) * bright
        lit = paint[face, i, j] * shade[:, None] * np.asarray(light.colour)
        colour[own] = np.minimum(lit * 255, 255)
    return colour


def _joints(
    model: Model,
    people: list[tuple[Person, Posed]],
    buffer: raster.Buffer,
    *,
    time: int,
    camera: Camera,
    corner: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Joints (N, J, 2) and which are visible; what is outside the window is outside the picture."""
    height, width = buffer.face.shape
    found = np.empty((len(people), len(JOINTS), 2))
    visible = np.zeros((len(people), len(JOINTS)), bool)
    for number, (person, posed) in enumerate(people):
        seen = camera.see(joints_3d(model, person, posed.at(np.array([time])))[0])
        found[number] = seen[:, :2]
        at = np.floor((seen[:, :2] - corner[:2]) * _SAMPLES).astype(int)
        inside = ((at >= 0) & (at < [width, height])).all(axis=1) & (seen[:, 2] > raster.NEAR)
        j, i = at[inside].T
        deep = np.where([vertex is None for _, vertex in model.joint_places], _DEPTH, _SKIN_DEPTH)
        visible[number, inside] = 1 / buffer.nearness[i, j] > (seen[:, 2] - deep)[inside]
    return found, visible


def _box(seen: np.ndarray) -> np.ndarray:
    low, high = seen[:, :2].min(axis=0), seen[:, :2].max(axis=0)
    return np.concatenate([low, high - low])
