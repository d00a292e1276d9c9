"""Draws people: skin that follows the bones, light, and soft edges over the place behind.

Light on people, and soft edges over the place behind; with numba or without.

Both ways compute the same expressions, up to the order of three additions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from masquerade._optional import LazyNumba
from masquerade.stage import look, raster
from masquerade.stage.bodies import Body, BodyModel
from masquerade.stage.raster import Camera, SceneLight
from masquerade.stage.skeleton import BodyMotion

SAMPLES = 2  # along each side of a pixel
SKY = (0.85, 0.15)  # a little more light from above than from below


class DressedPeople(NamedTuple):
    """The people of a picture as light sees them; N of them.

    Args:
        faces: (F, 3), corners of the triangles.
        paint: the colours of each.
        normals: (N, V, 3), outward.
    """

    faces: np.ndarray
    paint: tuple[look.BodyPaint, ...]
    normals: tuple[np.ndarray, ...]


def mix_people(
    buffer: raster.SampleBuffer,
    people: DressedPeople,
    light: SceneLight,
    image: np.ndarray,
    owner: np.ndarray,
) -> None:
    """Draw people over a place.

    Args:
        buffer: which triangle is seen at each sample; those of person n have numbers from n F on.
        people: whose triangles.
        light: on them.
        image: (H, W, 3) uint8 of the place; is changed.
        owner: (H, W) int8, is filled with whose pixel it is; -1 nobody's.
    """
    sun, tint = np.asarray(light.towards, float), np.asarray(light.colour, float)
    if raster.HAS_NUMBA:
        seen = buffer.face, buffer.second, buffer.third
        _compiled(seen, people, sun, tint, light.ambient, image, owner)
        return
    colour = _compute_lit_colours(buffer, people, sun, tint, light.ambient)
    share = _pool_samples(buffer.face >= 0) / SAMPLES**2
    mixed = _pool_samples(colour) / SAMPLES**2 + (1 - share)[..., None] * image
    image[share > 0] = np.rint(mixed[share > 0])
    whose = np.where(buffer.face >= 0, buffer.face // len(people.faces), -1)
    owner[:] = np.max([whose[i::2, j::2] for i in (0, 1) for j in (0, 1)], axis=0)


def _pool_samples(values: np.ndarray) -> np.ndarray:
    """The sum over the samples of each pixel."""
    rows = values[0::2].astype(float) + values[1::2]
    return np.asarray(rows[:, 0::2] + rows[:, 1::2])


def _compute_lit_colours(
    buffer: raster.SampleBuffer,
    people: DressedPeople,
    sun: np.ndarray,
    tint: np.ndarray,
    ambient: float,
) -> np.ndarray:
    """Colours (H, W, 3) from 0 to 255 where a person is seen, else 0."""
    colour = np.zeros((*buffer.face.shape, 3))
    for number, (paint, normals) in enumerate(zip(people.paint, people.normals, strict=True)):
        own = buffer.face // len(people.faces) == number  # -1 where there is nobody
        face = buffer.face[own] - number * len(people.faces)
        second, third = buffer.second[own], buffer.third[own]
        i, j = (
            np.minimum((part * look.TEXELS).astype(int), look.TEXELS - 1)
            for part in (second, third)
        )
        a, b, c = (normals[people.faces[face, k]] for k in range(3))
        normal = a + second[:, None] * (b - a) + third[:, None] * (c - a)
        normal /= np.maximum(np.sqrt((normal * normal).sum(axis=1, keepdims=True)), 1e-9)
        bright = np.maximum(normal @ sun, 0)
        shade = ambient * (SKY[0] + SKY[1] * normal[:, 2]) + (1 - ambient) * bright
        lit = paint.palette[paint.texels[face, i, j]] * shade[:, None] * tint
        colour[own] = np.minimum(lit * 255, 255)
    return colour


def _mix_loops(
    seen: Any, people: Any, sun: Any, tint: Any, ambient: float, image: Any, owner: Any
) -> None:
    """As ``mix_people``; plain loops, meant to be compiled."""
    face, second, third = seen
    shown, normal = np.zeros((4, 3)), np.zeros(3)
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            owner[i, j], covered = -1, 0
            for sample in range(4):
                y, x = 2 * i + sample % 2, 2 * j + sample // 2
                shown[sample] = 0.0
                if face[y, x] < 0:
                    continue
                covered += 1
                number, own = divmod(face[y, x], len(people.faces))
                owner[i, j] = max(owner[i, j], number)
                s, t = second[y, x], third[y, x]
                p, q, r = people.faces[own]
                turned = people.normals[number]
                for k in range(3):
                    a = turned[p, k]
                    normal[k] = a + s * (turned[q, k] - a) + t * (turned[r, k] - a)
                size = np.sqrt(normal[0] ** 2 + normal[1] ** 2 + normal[2] ** 2)
                normal /= max(size, 1e-9)
                bright = max(normal[0] * sun[0] + normal[1] * sun[1] + normal[2] * sun[2], 0.0)
                shade = ambient * (SKY[0] + SKY[1] * normal[2]) + (1 - ambient) * bright
                u, v = min(int(s * look.TEXELS), look.TEXELS - 1), int(t * look.TEXELS)
                paint = people.paint[number]
                painted = paint.palette[paint.texels[own, u, min(v, look.TEXELS - 1)]]
                for k in range(3):
                    shown[sample, k] = min(painted[k] * shade * tint[k] * 255, 255.0)
            if covered:
                for k in range(3):
                    total = (shown[0, k] + shown[1, k]) + (shown[2, k] + shown[3, k])
                    image[i, j, k] = np.rint(total / 4 + (1 - covered / 4) * image[i, j, k])


_compiled = LazyNumba(_mix_loops)

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
    paint: look.BodyPaint
    normals: np.ndarray
    model: BodyModel


def make_person(model: BodyModel, body: Body, worn: look.PersonAppearance) -> Person:
    """Dress a body."""
    clothed = look.dress_body(model, body, worn)
    return Person(
        body=clothed,
        joints=model.compute_rest_joints(body),
        paint=look.paint_body(model, worn),
        normals=look.compute_vertex_normals(clothed.vertices, model.faces),
        model=model,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class DrawnFilm:
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


def compute_world_joints(model: BodyModel, person: Person, posed: BodyMotion) -> np.ndarray:
    """(T, J, 3) metres in the world."""
    bones = np.array([bone for bone, _ in model.joint_places])
    return posed.carry_points(person.joints, person.body.heads, bones)


def draw_people(
    model: BodyModel,
    people: list[tuple[Person, BodyMotion]],
    backdrop: tuple[np.ndarray, np.ndarray],
    *,
    camera: Camera,
    light: SceneLight,
) -> DrawnFilm:
    """The pictures of all times; outside the people they are the backdrop, bit for bit."""
    place, depth = backdrop
    skins = [compute_skin(model, person, posed) for person, posed in people]
    seen = np.stack([camera.project_points(vertices) for vertices, _ in skins])  # (N, T, V, 3)
    joints = np.stack(
        [camera.project_points(compute_world_joints(model, *one)) for one in people]
    )  # (N, T, J, 3)
    times = seen.shape[1]
    image, owner = np.repeat(place[None], times, 0), np.full((times, *depth.shape), -1, np.int8)
    visible = np.zeros(joints.shape[:-1], bool)
    deep, paint = list_joint_depths(model), tuple(person.paint for person, _ in people)
    apart = np.ascontiguousarray(np.moveaxis(seen, -1, 2))  # (N, T, 3, V)
    for time, (rows, columns) in enumerate(_find_windows(apart, camera)):
        buffer = raster.make_depth_buffer(
            depth[rows, columns].repeat(SAMPLES, 0).repeat(SAMPLES, 1)
        )
        corner = np.array([columns.start, rows.start, 0.0])
        scaled = (seen[:, time] - corner) * [SAMPLES, SAMPLES, 1]
        for number, points in enumerate(scaled):
            raster.rasterise_mesh(points, model.faces, buffer, first=number * len(model.faces))
        window = time, rows, columns
        dressed = DressedPeople(model.faces, paint, tuple(normals[time] for _, normals in skins))
        mix_people(buffer, dressed, light, image[window], owner[window])
        visible[:, time] = _find_visible_joints(joints[:, time] - corner, buffer, deep)
    return DrawnFilm(
        image=image,
        owner=owner,
        joints=joints[..., :2],
        visible=visible,
        head_box=_compute_boxes(apart[..., model.head_vertices]),
        box=_compute_boxes(apart),
    )


def list_joint_depths(model: BodyModel) -> np.ndarray:
    """(J,) metres: how deep each joint lies in the body at most; what is nearer hides it."""
    return np.where([vertex is None for _, vertex in model.joint_places], _DEPTH, _SKIN_DEPTH)


def _find_windows(apart: np.ndarray, camera: Camera) -> list[tuple[slice, slice]]:
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


def compute_skin(
    model: BodyModel, person: Person, posed: BodyMotion
) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and normals (T, V, 3): each follows its bones by their weights."""
    rest = person.body.vertices
    if model.bends is not None:
        rest = rest + person.body.scale * model.bends.compute_offsets(posed.turns)  # (T, V, 3)
    shift = posed.heads - np.einsum("tbij,bj->tbi", posed.turns, person.body.heads)
    both = np.concatenate([posed.turns, shift[..., None]], axis=-1)  # (T, B, 3, 4)
    blended = np.moveaxis(both, 1, 3) @ model.weights.T  # (T, 3, 4, V)

    def turn_points(points: np.ndarray) -> np.ndarray:
        x, y, z = np.ascontiguousarray(np.moveaxis(points, -1, 0))[..., None, :]
        return np.asarray(blended[:, :, 0] * x + blended[:, :, 1] * y + blended[:, :, 2] * z)

    both = np.stack([turn_points(rest) + blended[:, :, 3], turn_points(person.normals)])
    vertices, normals = np.ascontiguousarray(np.moveaxis(both, 2, 3))
    return vertices, normals


def _find_visible_joints(
    joints: np.ndarray, buffer: raster.SampleBuffer, deep: np.ndarray
) -> np.ndarray:
    """(N, J): which joints of one picture, counted from the window's corner, nothing hides.

    What is outside the window is outside the picture.
    """
    height, width = buffer.face.shape
    at = np.floor(joints[..., :2] * SAMPLES).astype(int)
    found = ((at >= 0) & (at < [width, height])).all(axis=-1) & (joints[..., 2] > raster.NEAR)
    j, i = at[found].T
    found[found] = 1 / buffer.nearness[i, j] > (joints[..., 2] - deep)[found]
    return np.asarray(found)


def _compute_boxes(apart: np.ndarray) -> np.ndarray:
    """(N, T, 4) around points (N, T, 3, V)."""
    low, high = apart[:, :, :2].min(axis=-1), apart[:, :, :2].max(axis=-1)
    return np.concatenate([low, high - low], axis=-1)
