"""Draws many films at once on a torch device, as `figure.draw_people` draws one.

The same expressions in the same float64, so the pictures are the processor's to a grey level:
only where sums are added in another order could a sample at an edge fall to the other side.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from masquerade._optional import lazy_module
from masquerade.io import devices
from masquerade.stage import look, raster
from masquerade.stage.bodies import BodyModel
from masquerade.stage.figure import SAMPLES, SKY, DrawnFilm, Person, list_joint_depths
from masquerade.stage.raster import Camera, SceneLight
from masquerade.stage.skeleton import BodyMotion

if TYPE_CHECKING:
    from masquerade._torch import Tensor, torch
else:
    torch = lazy_module("torch", extra="train")


_COLOURS = 32  # of a palette at most


class UndrawnScene(NamedTuple):
    """A film before it is drawn, without its place; N people at T times."""

    people: list[tuple[Person, BodyMotion]]
    camera: Camera
    light: SceneLight


class _Mesh(NamedTuple):
    """What all bodies share: weights (V, B), faces (F, 3), and the joints' bones and depths."""

    weights: Tensor
    faces: Tensor
    head: Tensor
    bones: Tensor
    deep: Tensor


class _Cast(NamedTuple):
    """The P people of S films of T frames; what comes first belongs to the first film.

    Args:
        scene: (P,) whose film.
        number: (P,) which person of it.
        turns: (P, T, B, 3, 3) of the bones.
        heads: (P, T, B, 3) of the bones.
        rest: (P, B, 3), the heads at rest.
        vertices: (P, V, 3) at rest.
        normals: (P, V, 3) at rest.
        joints: (P, J, 3) at rest.
        texels: (P, F, texels, texels), the colours' numbers.
        palette: (P, colours, 3).
    """

    scene: Tensor
    number: Tensor
    turns: Tensor
    heads: Tensor
    rest: Tensor
    vertices: Tensor
    normals: Tensor
    joints: Tensor
    texels: Tensor
    palette: Tensor


class _Views(NamedTuple):
    """Cameras and lights of S films: (S, 3, 3), (S, 3), (S,), (S, 3), (S, 3), (S,)."""

    axes: Tensor
    eye: Tensor
    focal: Tensor
    sun: Tensor
    tint: Tensor
    ambient: Tensor


class _TrianglesInView(NamedTuple):
    """Those that may be seen, K of them.

    Args:
        x: (K, 3) of the corners, in samples.
        y: (K, 3) of the corners, in samples.
        area: (K,), twice.
        near: (K, 3), one over the depth of the corners.
        box: (K, 4), first and end row, first and end column.
        number: (K,) int32, in the picture.
        start: (K,), the first sample of the picture.
    """

    x: Tensor
    y: Tensor
    area: Tensor
    near: Tensor
    box: Tensor
    number: Tensor
    start: Tensor


class _Buffer(NamedTuple):
    """What is seen at each sample of S T pictures, one after the other; as
    `raster.SampleBuffer`."""

    nearness: Tensor
    face: Tensor
    second: Tensor
    third: Tensor


def draw_scenes(
    model: BodyModel, scenes: Sequence[UndrawnScene], behind: tuple[Tensor, Tensor]
) -> list[DrawnFilm]:
    """The films of scenes that have the same size and length.

    Args:
        model: of all bodies.
        scenes: S of them.
        behind: pictures (S, H, W, 3) uint8 and depths (S, H, W) of the places, where to draw.
    """
    image, depth = behind
    mesh, cast = _send_mesh(model, str(depth.device)), _make_cast(scenes, str(depth.device))
    views, times = _make_views(scenes, depth.device), cast.turns.shape[1]
    vertices, normals = _compute_skins(mesh, cast)
    size = (times, *depth.shape[1:])
    seen = _project_points(vertices, cast, views, size)
    buffer = _make_buffer(depth, times)
    _fill_buffer(buffer, _cull_people_triangles(seen, mesh, cast, size), size[2] * SAMPLES)
    pictures, owner = _mix_pictures(
        _compute_lit_colours(buffer, normals, mesh, cast, views), buffer, image, mesh, size
    )
    joints, visible = _find_pixel_joints(buffer, mesh, cast, views, size)
    found = (
        pictures,
        owner,
        joints,
        visible,
        _compute_boxes(seen[..., mesh.head]),
        _compute_boxes(seen),
    )
    fetched = [devices.fetch_array(one) if one.is_cuda else one.numpy() for one in found]
    ends = np.cumsum([len(scene.people) for scene in scenes])[:-1]
    of_films = [*fetched[:2], *(np.split(one, ends) for one in fetched[2:])]
    names = ("image", "owner", "joints", "visible", "head_box", "box")
    return [DrawnFilm(**dict(zip(names, one, strict=True))) for one in zip(*of_films, strict=True)]


def _send_array(array: np.ndarray | list[np.ndarray], device: torch.device | str) -> Tensor:
    return torch.tensor(np.asarray(array), device=device)


@lru_cache(maxsize=2)
def _send_mesh(model: BodyModel, device: str) -> _Mesh:
    bones = [bone for bone, _ in model.joint_places]
    kept = (
        model.weights,
        model.faces,
        model.head_vertices,
        np.array(bones),
        list_joint_depths(model),
    )
    weights, *others = (_send_array(one, device) for one in kept)
    return _Mesh(weights.double(), *others)


@lru_cache(maxsize=1024)
def _send_person(person: Person, device: str) -> tuple[Tensor, ...]:
    """A person on the device, in the order of the last fields of `_Cast`."""
    body = person.body
    palette = np.zeros((_COLOURS, 3), np.float32)
    palette[: len(person.paint.palette)] = person.paint.palette
    kept = body.heads, body.vertices, person.normals, person.joints, person.paint.texels, palette
    return tuple(_send_array(one, device) for one in kept)


def _make_cast(scenes: Sequence[UndrawnScene], device: str) -> _Cast:
    played = [(k, n, *one) for k, scene in enumerate(scenes) for n, one in enumerate(scene.people)]
    held = [_send_person(person, device) for _, _, person, _ in played]
    return _Cast(
        _send_array(np.array([scene for scene, *_ in played]), device),
        _send_array(np.array([number for _, number, *_ in played]), device),
        _send_array([posed.turns for *_, posed in played], device),
        _send_array([posed.heads for *_, posed in played], device),
        *(torch.stack(list(each)) for each in zip(*held, strict=True)),
    )


def _make_views(scenes: Sequence[UndrawnScene], device: torch.device) -> _Views:
    cameras, lights = [scene.camera for scene in scenes], [scene.light for scene in scenes]
    kept: tuple[list[object], ...] = (
        [camera.view_axes for camera in cameras],
        [camera.eye for camera in cameras],
        [camera.focal_px for camera in cameras],
        [light.towards for light in lights],
        [light.colour for light in lights],
        [light.ambient for light in lights],
    )
    return _Views(*(_send_array(np.array(one, float), device) for one in kept))


def _compute_skins(mesh: _Mesh, cast: _Cast) -> tuple[Tensor, Tensor]:
    """Vertices and normals (P, T, 3, V)."""
    shift = cast.heads - (cast.turns @ cast.rest[:, None, :, :, None]).squeeze(-1)
    both = torch.cat([cast.turns, shift[..., None]], dim=-1)  # (P, T, B, 3, 4)
    blended = both.movedim(2, 4) @ mesh.weights.T  # (P, T, 3, 4, V)

    def turn_points(points: Tensor) -> Tensor:
        x, y, z = points[:, None, None].unbind(-1)  # (P, 1, 1, V)
        return blended[..., 0, :] * x + blended[..., 1, :] * y + blended[..., 2, :] * z

    return turn_points(cast.vertices) + blended[..., 3, :], turn_points(cast.normals)


def _project_points(points: Tensor, cast: _Cast, views: _Views, size: tuple[int, ...]) -> Tensor:
    """Points (P, T, 3, n) of people as their cameras see them, (P, T, 3, n)."""
    eye, axes, focal = (each[cast.scene][:, None] for each in (views.eye, views.axes, views.focal))
    seen = axes @ (points - eye[..., None])
    depth = seen[:, :, 2]
    safe = torch.where(depth.abs() < 1e-9, 1e-9, depth)
    x = seen[:, :, 0] / safe * focal[..., None] + size[2] / 2
    y = seen[:, :, 1] / safe * focal[..., None] + size[1] / 2
    return torch.stack([x, y, depth], dim=2)


def _make_buffer(depth: Tensor, times: int) -> _Buffer:
    near = (1 / depth.double()).repeat_interleave(SAMPLES, 1).repeat_interleave(SAMPLES, 2)
    near = near[:, None].expand(-1, times, -1, -1).reshape(-1)
    nobody = torch.full(near.shape, -1, dtype=torch.int32, device=near.device)
    return _Buffer(near, nobody, torch.zeros_like(near), torch.zeros_like(near))


def _cull_people_triangles(
    seen: Tensor, mesh: _Mesh, cast: _Cast, size: tuple[int, ...]
) -> _TrianglesInView:
    """As `raster` culls triangles, for all people at all times."""
    times, height, width = size[0], size[1] * SAMPLES, size[2] * SAMPLES
    corners = seen.flatten(0, 1)[:, :, mesh.faces]  # (P T, 3, F, 3)
    x, y, depth = corners[:, 0] * SAMPLES, corners[:, 1] * SAMPLES, corners[:, 2]
    (x0, x1, x2), (y0, y1, y2) = x.unbind(-1), y.unbind(-1)
    area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
    left, right = (x.amin(-1) - 0.5).ceil(), (x.amax(-1) - 0.5).floor() + 1
    top, bottom = (y.amin(-1) - 0.5).ceil(), (y.amax(-1) - 0.5).floor() + 1
    wanted = (depth.amin(-1) > raster.NEAR) & (area < raster.FLAT)
    wanted &= (right > left.clamp(min=0)) & (bottom > top.clamp(min=0))
    wanted &= (left < width) & (top < height)
    rows, face = wanted.nonzero(as_tuple=True)
    who, time = rows // times, rows % times
    from_row, from_column = (each[wanted].clamp(min=0) for each in (top, left))
    to_row, to_column = bottom[wanted].clamp(max=height), right[wanted].clamp(max=width)
    return _TrianglesInView(
        x[wanted],
        y[wanted],
        area[wanted],
        1 / depth[wanted],
        torch.stack([from_row, to_row, from_column, to_column], dim=1).long(),
        (cast.number[who] * len(mesh.faces) + face).int(),
        (cast.scene[who] * times + time) * (height * width),
    )


def _fill_buffer(buffer: _Buffer, some: _TrianglesInView, width: int) -> None:
    """Draw triangles into pictures that are ``width`` samples wide."""
    for part in raster.iter_box_parts(some.box):
        which, i, j = raster.list_candidates(some.box[part])
        which = part[which]
        second, third = _compute_corner_shares(some.x, some.y, some.area, which, i, j)
        first = 1.0 - second - third
        inside = (first >= 0.0) & (second >= 0.0) & (third >= 0.0)
        which, first, second, third = (each[inside] for each in (which, first, second, third))
        at = some.start[which] + i[inside] * width + j[inside]
        n0, n1, n2 = some.near[which].unbind(-1)
        near = first * n0 + second * n1 + third * n2
        won = raster.find_winners(buffer.nearness, at, near, some.number[which])
        buffer.face[at[won]] = some.number[which[won]]
        buffer.second[at[won]], buffer.third[at[won]] = second[won], third[won]


def _compute_corner_shares(
    x: Tensor, y: Tensor, area: Tensor, which: Tensor, i: Tensor, j: Tensor
) -> tuple[Tensor, Tensor]:
    """How much of the second and of the third corner of a triangle there is at its candidates."""
    px, py = j + 0.5, i + 0.5
    (x0, x1, x2), (y0, y1, y2) = x[which].unbind(-1), y[which].unbind(-1)
    whole = area[which]
    second = ((px - x0) * (y2 - y0) - (x2 - x0) * (py - y0)) / whole
    third = ((x1 - x0) * (py - y0) - (px - x0) * (y1 - y0)) / whole
    return second, third


def _compute_lit_colours(
    buffer: _Buffer, normals: Tensor, mesh: _Mesh, cast: _Cast, views: _Views
) -> Tensor:
    """Colours (samples, 3) from 0 to 255 where a person is seen, else 0."""
    scenes, times = len(views.eye), normals.shape[1]
    seen = (buffer.face >= 0).nonzero().squeeze(1)
    picture = seen // (len(buffer.face) // (scenes * times))
    scene, time = picture // times, picture % times
    number, face = buffer.face[seen] // len(mesh.faces), buffer.face[seen] % len(mesh.faces)
    who = torch.searchsorted(cast.scene, scene) + number  # the scene's first person, and so on
    second, third = buffer.second[seen, None], buffer.third[seen, None]
    corners = mesh.faces[face]
    a, b, c = (normals[who, time, :, corners[:, k]] for k in range(3))
    normal = a + second * (b - a) + third * (c - a)
    normal = normal / (normal * normal).sum(1, keepdim=True).sqrt().clamp(min=1e-9)
    bright = (normal * views.sun[scene]).sum(1).clamp(min=0)
    ambient = views.ambient[scene]
    shade = ambient * (SKY[0] + SKY[1] * normal[:, 2]) + (1 - ambient) * bright
    u, v = (
        (part[:, 0] * look.TEXELS).long().clamp(max=look.TEXELS - 1) for part in (second, third)
    )
    painted = cast.palette[who, cast.texels[who, face, u, v].long()]
    lit = painted * shade[:, None] * views.tint[scene]
    colour = torch.zeros((len(buffer.face), 3), dtype=torch.float64, device=seen.device)
    colour[seen] = (lit * 255).clamp(max=255)
    return colour


def _mix_pictures(
    colour: Tensor, buffer: _Buffer, image: Tensor, mesh: _Mesh, size: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Pictures (S, T, H, W, 3) and whose each pixel is (S, T, H, W)."""
    shape = len(image), size[0], size[1], SAMPLES, size[2], SAMPLES
    is_seen = (buffer.face >= 0).reshape(shape)
    share = _pool_samples(is_seen[..., None].double()) / SAMPLES**2  # (S, T, H, W, 1)
    mixed = _pool_samples(colour.reshape(*shape, 3)) / SAMPLES**2 + (1 - share) * image[:, None]
    pictures = torch.where(share > 0, mixed.round().to(torch.uint8), image[:, None])
    whose = torch.where(is_seen, buffer.face.reshape(shape) // len(mesh.faces), -1)
    return pictures, whose.amax((3, 5)).to(torch.int8)


def _pool_samples(values: Tensor) -> Tensor:
    """The sum over the samples of each pixel, of (S, T, H, samples, W, samples, C)."""
    rows = values[:, :, :, 0] + values[:, :, :, 1]
    return rows[..., 0, :] + rows[..., 1, :]


def _find_pixel_joints(
    buffer: _Buffer, mesh: _Mesh, cast: _Cast, views: _Views, size: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Joints (P, T, J, 2) in pixels and which are visible (P, T, J)."""
    times, height, width = size[0], size[1] * SAMPLES, size[2] * SAMPLES
    rest = (cast.joints - cast.rest[:, mesh.bones])[:, None, :, :, None]
    placed = (cast.turns[:, :, mesh.bones] @ rest).squeeze(-1) + cast.heads[:, :, mesh.bones]
    x, y, depth = _project_points(placed.transpose(2, 3), cast, views, size).unbind(2)  # (P, T, J)
    i, j = (y * SAMPLES).floor().long(), (x * SAMPLES).floor().long()
    inside = (i >= 0) & (i < height) & (j >= 0) & (j < width) & (depth > raster.NEAR)
    picture = cast.scene[:, None] * times + torch.arange(times, device=x.device)
    at = torch.where(inside, (picture[..., None] * height + i) * width + j, 0)
    visible = inside & (1 / buffer.nearness[at] > depth - mesh.deep)
    return torch.stack([x, y], dim=-1), visible


def _compute_boxes(seen: Tensor) -> Tensor:
    """(P, T, 4) around points (P, T, 3, n)."""
    low, high = seen[:, :, :2].amin(-1), seen[:, :, :2].amax(-1)
    return torch.cat([low, high - low], dim=-1)
