"""Draws people: skin that follows the bones, light, and soft edges over the place behind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade.people import look, raster
from masquerade.people.bodies import Body, Model
from masquerade.people.camera import Camera, Light
from masquerade.people.shading import SAMPLES, Dressed, mix
from masquerade.people.skeleton import Posed

_DEPTH = 0.13  # a joint lies this deep in the body at most; what is nearer hides it
_SKIN_DEPTH = 0.05  # the same for points on the skin: nose, eyes, ears, crown


@dataclass(frozen=True, kw_only=True, eq=False)
class Person:
    """A person ready to be drawn.

    Args:
        body: with clothes.
        joints: (J, 3) of the body at rest.
        paint: colours on it.
        normals: (V, 3) of the body at rest.
        model: that the body is of.
    """

    body: Body
    joints: np.ndarray
    paint: look.Paint
    normals: np.ndarray
    model: Model


def figure(model: Model, body: Body, worn: look.Look) -> Person:
    """Dress a body."""
    clothed = look.dressed(model, body, worn)
    return Person(
        body=clothed,
        joints=model.joints(body),
        paint=look.paint(model, worn),
        normals=look.normals(clothed.vertices, model.faces),
        model=model,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawn:
    """A film and what is true about it; N people at T times.

    Args:
        image: (T, H, W, 3) uint8.
        owner: (T, H, W) int8, which person has a part in the pixel; -1 nobody.
        joints: (N, T, J, 2) pixels.
        visible: (N, T, J) bool: inside the picture and not hidden.
        head_box: (N, T, 4) x, y, width and height of the head in pixels.
        box: (N, T, 4) of the whole person, seen or not.
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
    camera: Camera,
    light: Light,
) -> Drawn:
    """The pictures of all times; outside the people they are the backdrop, bit for bit."""
    place, depth = backdrop
    skins = [skinned(model, person, posed) for person, posed in people]
    seen = np.stack([camera.see(vertices) for vertices, _ in skins])  # (N, T, V, 3)
    joints = np.stack([camera.see(joints_3d(model, *one)) for one in people])  # (N, T, J, 3)
    times = seen.shape[1]
    image, owner = np.repeat(place[None], times, 0), np.full((times, *depth.shape), -1, np.int8)
    visible = np.zeros(joints.shape[:-1], bool)
    deep, paint = joint_depths(model), tuple(person.paint for person, _ in people)
    apart = np.ascontiguousarray(np.moveaxis(seen, -1, 2))  # (N, T, 3, V)
    for time, (rows, columns) in enumerate(_windows(apart, camera)):
        buffer = raster.blank(depth[rows, columns].repeat(SAMPLES, 0).repeat(SAMPLES, 1))
        corner = np.array([columns.start, rows.start, 0.0])
        scaled = (seen[:, time] - corner) * [SAMPLES, SAMPLES, 1]
        for number, points in enumerate(scaled):
            raster.draw(points, model.faces, buffer, first=number * len(model.faces))
        window = time, rows, columns
        dressed = Dressed(model.faces, paint, tuple(normals[time] for _, normals in skins))
        mix(buffer, dressed, light, image[window], owner[window])
        visible[:, time] = _visible(joints[:, time] - corner, buffer, deep)
    return Drawn(
        image=image,
        owner=owner,
        joints=joints[..., :2],
        visible=visible,
        head_box=_box(apart[..., model.head_vertices]),
        box=_box(apart),
    )


def joint_depths(model: Model) -> np.ndarray:
    """(J,) metres: how deep each joint lies in the body at most; what is nearer hides it."""
    return np.where([vertex is None for _, vertex in model.joint_places], _DEPTH, _SKIN_DEPTH)


def _windows(apart: np.ndarray, camera: Camera) -> list[tuple[slice, slice]]:
    """Rows and columns of each picture that people (N, T, 3, V) can reach; at least one pixel."""
    ahead, most = apart[:, :, 2:] > raster.NEAR, [camera.width - 1, camera.height - 1]
    low = np.where(ahead, apart[:, :, :2], np.inf).min(axis=3).min(axis=0)  # (T, 2)
    high = np.where(ahead, apart[:, :, :2], -np.inf).max(axis=3).max(axis=0)
    high = np.clip(np.ceil(high) + 1, 0, most).astype(int)
    low = np.minimum(np.clip(np.floor(low) - 1, 0, most).astype(int), high)  # of nobody: one pixel
    return [
        (slice(top, bottom + 1), slice(left, right + 1))
        for (left, top), (right, bottom) in zip(low.tolist(), high.tolist(), strict=True)
    ]


def skinned(model: Model, person: Person, posed: Posed) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and normals (T, V, 3): each follows its bones by their weights."""
    rest = person.body.vertices
    if model.bends is not None:
        rest = rest + person.body.scale * model.bends.at(posed.turns)  # (T, V, 3)
    shift = posed.heads - np.einsum("tbij,bj->tbi", posed.turns, person.body.heads)
    both = np.concatenate([posed.turns, shift[..., None]], axis=-1)  # (T, B, 3, 4)
    blended = np.moveaxis(both, 1, 3) @ model.weights.T  # (T, 3, 4, V)

    def turned(points: np.ndarray) -> np.ndarray:
        x, y, z = np.ascontiguousarray(np.moveaxis(points, -1, 0))[..., None, :]
        return np.asarray(blended[:, :, 0] * x + blended[:, :, 1] * y + blended[:, :, 2] * z)

    both = np.stack([turned(rest) + blended[:, :, 3], turned(person.normals)])
    vertices, normals = np.ascontiguousarray(np.moveaxis(both, 2, 3))
    return vertices, normals


def _visible(joints: np.ndarray, buffer: raster.Buffer, deep: np.ndarray) -> np.ndarray:
    """(N, J): which joints of one picture, counted from the window's corner, nothing hides.

    What is outside the window is outside the picture.
    """
    height, width = buffer.face.shape
    at = np.floor(joints[..., :2] * SAMPLES).astype(int)
    found = ((at >= 0) & (at < [width, height])).all(axis=-1) & (joints[..., 2] > raster.NEAR)
    j, i = at[found].T
    found[found] = 1 / buffer.nearness[i, j] > (joints[..., 2] - deep)[found]
    return np.asarray(found)


def _box(apart: np.ndarray) -> np.ndarray:
    """(N, T, 4) around points (N, T, 3, V)."""
    low, high = apart[:, :, :2].min(axis=-1), apart[:, :, :2].max(axis=-1)
    return np.concatenate([low, high - low], axis=-1)
