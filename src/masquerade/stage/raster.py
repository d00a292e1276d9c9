"""Which triangle is seen at each sample of a picture: a depth buffer, with numba or without.

Both ways compute the same expressions in the same precision, so that they see the same triangles;
where two are equally near, the first in the list is seen.

A pinhole camera and the light in the world: metres, z up, the floor at z = 0.

What is nearest at each sample of many pictures: the depth buffer of `raster`, with torch.

Every sample of every bounding box is a candidate; the nearest candidate is seen, and of equally
near ones the first. Neither depends on the order in which a GPU comes to them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from masquerade import _check
from masquerade._optional import LazyNumba, has_numba, lazy_module

if TYPE_CHECKING:
    from masquerade._torch import Tensor, torch
else:
    torch = lazy_module("torch", extra="train")


Point = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class SceneLight:
    """One lamp or sun far away; what it lights is ``albedo * colour * level``.

    The level is ``ambient + (1 - ambient) * max(0, n . towards)`` for a surface with normal n.

    Args:
        towards: unit vector to the light.
        colour: red, green and blue of full light.
        ambient: what surfaces turned away still get, in [0, 1].
    """

    towards: Point
    colour: Point
    ambient: float


@dataclass(frozen=True, kw_only=True)
class Camera:
    """Where the picture is taken from.

    Convention: pixel (row i, column j) has its centre at x = j + 0.5, y = i + 0.5; x grows to the
    right and y down. Pixels are square.

    Args:
        eye: where the camera is, in metres.
        target: the point in the middle of the picture.
        fov_deg: the angle between the upper and the lower edge.
        height: of the picture, in pixels.
        width: of the picture, in pixels.
        roll_deg: by which the camera is turned about its view; what is seen turns the other way.
    """

    eye: Point
    target: Point
    fov_deg: float
    height: int
    width: int
    roll_deg: float = 0.0

    def __post_init__(self) -> None:
        _check.count(height=self.height, width=self.width)
        _check.positive(fov_deg=self.fov_deg)
        if self.fov_deg >= 170:
            raise ValueError(f"Expected fov_deg < 170, got fov_deg={self.fov_deg}.")
        if math.dist(self.eye[:2], self.target[:2]) < 1e-6:
            raise ValueError(f"Expected a camera that looks sideways, got eye={self.eye}.")

    @property
    def focal_px(self) -> float:
        """Distance of the picture from the pinhole, in pixels."""
        return self.height / 2 / math.tan(math.radians(self.fov_deg) / 2)

    @cached_property
    def view_axes(self) -> np.ndarray:
        """(3, 3): the rows are right, down and forward in the world."""
        forward = np.subtract(self.target, self.eye)
        forward = forward / np.linalg.norm(forward)
        right = np.array([forward[1], -forward[0], 0.0])
        right /= np.linalg.norm(right)
        down = np.cross(forward, right)
        if self.roll_deg:
            cos, sin = math.cos(math.radians(self.roll_deg)), math.sin(math.radians(self.roll_deg))
            right, down = cos * right + sin * down, cos * down - sin * right
        return np.stack([right, down, forward])

    def project_points(self, points: np.ndarray) -> np.ndarray:
        """World points (..., 3) as x, y in pixels and depth in metres along the view, (..., 3)."""
        seen = (points - np.asarray(self.eye)) @ self.view_axes.T
        depth = seen[..., 2:]
        safe = np.where(np.abs(depth) < 1e-9, 1e-9, depth)
        middle = np.array([self.width / 2, self.height / 2])
        flat = seen[..., :2] / safe * self.focal_px + middle
        return np.concatenate([flat, depth], axis=-1)

    def enlarge_view(self, times: int) -> Camera:
        """The same view with ``times`` as many pixels along each side."""
        return replace(self, height=self.height * times, width=self.width * times)


HAS_NUMBA = has_numba()  # without it: slower, and the same pictures

NEAR = 0.05  # metres; what is nearer is not drawn
FLAT = -1e-12  # twice the area, in samples, of what is no front


@dataclass(frozen=True, kw_only=True, eq=False)
class SampleBuffer:
    """What is seen at each sample; filled in place by `rasterise_mesh`, one mesh after the other.

    Args:
        nearness: (H, W), one over the depth of what is seen so far.
        face: (H, W) int32, the triangle seen there; -1 where it is no mesh.
        second: (H, W), how much of the triangle's second corner.
        third: (H, W), how much of its third.
    """

    nearness: np.ndarray
    face: np.ndarray
    second: np.ndarray
    third: np.ndarray


class _VisibleTriangles(NamedTuple):
    """Those that may be seen: corners (F, 3), twice the area, nearness, samples, and numbers."""

    x: np.ndarray
    y: np.ndarray
    area: np.ndarray
    near: np.ndarray
    box: np.ndarray
    numbers: np.ndarray


def make_depth_buffer(depth: np.ndarray) -> SampleBuffer:
    """A buffer before any mesh; ``depth`` (H, W) of the place behind, in metres."""
    return SampleBuffer(
        nearness=1 / depth.astype(np.float64),
        face=np.full(depth.shape, -1, np.int32),
        second=np.zeros(depth.shape),
        third=np.zeros(depth.shape),
    )


def rasterise_mesh(
    seen: np.ndarray, faces: np.ndarray, buffer: SampleBuffer, *, first: int = 0
) -> None:
    """Add a mesh to a buffer.

    Args:
        seen: (V, 3), x and y in samples and depth in metres, as `Camera.project_points` gives them.
        faces: (F, 3), corners counter-clockwise as seen from outside; their backs are not drawn.
        buffer: is changed.
        first: the number of the first triangle, where several meshes share a buffer.
    """
    if HAS_NUMBA:
        held = buffer.nearness, buffer.face, buffer.second, buffer.third
        _compiled(seen, faces, first, *held)
    else:
        _fill_arrays(_cull_triangles(seen, faces, buffer.face.shape, first), buffer)


def _cull_triangles(
    seen: np.ndarray, faces: np.ndarray, size: tuple[int, ...], first: int
) -> _VisibleTriangles:
    """The triangles that may be seen in a picture of that height and width."""
    x, y, depth = (np.ascontiguousarray(seen[:, k])[faces] for k in range(3))
    area = (x[:, 1] - x[:, 0]) * (y[:, 2] - y[:, 0]) - (x[:, 2] - x[:, 0]) * (y[:, 1] - y[:, 0])
    height, width = size
    low_x, high_x = (
        np.ceil(_compute_least_corners(x) - 0.5),
        np.floor(-_compute_least_corners(-x) - 0.5),
    )
    low_y, high_y = (
        np.ceil(_compute_least_corners(y) - 0.5),
        np.floor(-_compute_least_corners(-y) - 0.5),
    )
    wanted = (_compute_least_corners(depth) > NEAR) & (
        area < FLAT
    )  # y grows down: fronts are negative
    wanted &= (high_x >= np.maximum(low_x, 0)) & (high_y >= np.maximum(low_y, 0))
    wanted &= (low_x < width) & (low_y < height)
    rows = np.flatnonzero(wanted)
    box = np.stack([low_y, high_y, low_x, high_x], axis=1)[rows]
    box = np.clip(box, 0, [height - 1, height - 1, width - 1, width - 1]).astype(np.int64)
    return _VisibleTriangles(x[rows], y[rows], area[rows], 1 / depth[rows], box, rows + first)


def _compute_least_corners(corners: np.ndarray) -> np.ndarray:
    """The least of each triangle's three; faster than a reduction over a short axis."""
    found: np.ndarray = np.minimum(np.minimum(corners[:, 0], corners[:, 1]), corners[:, 2])
    return found


def _fill_arrays(some: _VisibleTriangles, buffer: SampleBuffer) -> None:
    """All samples of all boxes at once, boxes of like size together."""
    x, y, area, near, box, numbers = some
    width = buffer.face.shape[1]
    sides = np.maximum(box[:, 1] - box[:, 0], box[:, 3] - box[:, 2]) + 1
    groups = np.ceil(np.log2(sides)).astype(int)
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        for part in np.array_split(rows, 1 + len(rows) * 4**group // 2**22):
            step = np.arange(2**group)
            i = (box[part, 0][:, None] + step)[:, :, None]
            j = (box[part, 2][:, None] + step)[:, None, :]
            within = (i <= box[part, 1][:, None, None]) & (j <= box[part, 3][:, None, None])
            x0, y0 = x[part, :1, None], y[part, :1, None]
            x1, y1, x2, y2 = (c[part, k, None, None] for k in (1, 2) for c in (x, y))
            px, py = j + 0.5, i + 0.5
            whole = area[part][:, None, None]
            second = ((px - x0) * (y2 - y0) - (x2 - x0) * (py - y0)) / whole
            third = ((x1 - x0) * (py - y0) - (px - x0) * (y1 - y0)) / whole
            first = 1.0 - second - third
            within &= (first >= 0.0) & (second >= 0.0) & (third >= 0.0)
            n0, n1, n2 = (near[part, k, None, None] for k in range(3))
            depth = first * n0 + second * n1 + third * n2
            at = np.broadcast_to(i * width + j, within.shape)[within]
            number = np.broadcast_to(numbers[part][:, None, None], within.shape)[within]
            _keep_nearest(at, depth[within], number, second[within], third[within], buffer)


def _keep_nearest(
    at: np.ndarray,
    near: np.ndarray,
    number: np.ndarray,
    second: np.ndarray,
    third: np.ndarray,
    buffer: SampleBuffer,
) -> None:
    order = np.lexsort((number, -near, at))
    at, first = np.unique(at[order], return_index=True)
    best = order[first]
    old, held = buffer.nearness.reshape(-1)[at], buffer.face.reshape(-1)[at]
    is_new = (near[best] > old) | ((near[best] == old) & (number[best] < held))
    at, best = at[is_new], best[is_new]
    for array, values in (
        (buffer.nearness, near),
        (buffer.face, number),
        (buffer.second, second),
        (buffer.third, third),
    ):
        array.reshape(-1)[at] = values[best]


def _fill_loops(
    seen: Any, faces: Any, number: int, nearness: Any, face: Any, s: Any, t: Any
) -> None:
    """As ``_cull_triangles`` and ``_fill_arrays``; plain loops, meant to be compiled."""
    height, width = face.shape
    for k in range(len(faces)):
        x0, y0, d0 = seen[faces[k, 0]]
        x1, y1, d1 = seen[faces[k, 1]]
        x2, y2, d2 = seen[faces[k, 2]]
        area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
        if not (area < FLAT and min(d0, d1, d2) > NEAR):
            continue
        left, right = np.ceil(min(x0, x1, x2) - 0.5), np.floor(max(x0, x1, x2) - 0.5)
        top, bottom = np.ceil(min(y0, y1, y2) - 0.5), np.floor(max(y0, y1, y2) - 0.5)
        if not (right >= 0 and bottom >= 0 and left < width and top < height):
            continue
        n0, n1, n2 = 1 / d0, 1 / d1, 1 / d2
        columns = range(int(max(left, 0.0)), int(min(right, width - 1.0)) + 1)
        for i in range(int(max(top, 0.0)), int(min(bottom, height - 1.0)) + 1):
            py = i + 0.5
            for j in columns:
                px = j + 0.5
                second = ((px - x0) * (y2 - y0) - (x2 - x0) * (py - y0)) / area
                third = ((x1 - x0) * (py - y0) - (px - x0) * (y1 - y0)) / area
                first = 1.0 - second - third
                if first >= 0.0 and second >= 0.0 and third >= 0.0:
                    depth = first * n0 + second * n1 + third * n2
                    if depth > nearness[i, j]:
                        nearness[i, j] = depth
                        face[i, j] = number + k
                        s[i, j] = second
                        t[i, j] = third


_compiled = LazyNumba(_fill_loops)

_CANDIDATES_PER_PART = {"cpu": 1 << 20}  # candidates that are looked at together
_MAX_CANDIDATES = 1 << 24  # the same on a GPU: about 3 GB
_LAST = (1 << 31) - 1


def iter_box_parts(box: Tensor) -> Iterator[Tensor]:
    """The boxes' numbers, in order, in parts that are looked at together.

    Args:
        box: (K, 4) whole numbers, first and end row, first and end column.
    """
    if not len(box):
        return
    many = (box[:, 1] - box[:, 0]) * (box[:, 3] - box[:, 2])
    group = (many.cumsum(0) - 1) // _CANDIDATES_PER_PART.get(box.device.type, _MAX_CANDIDATES)
    yield from torch.arange(len(box), device=box.device).split(torch.bincount(group).tolist())


def list_candidates(box: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All candidates of boxes (K, 4): which box, row and column, (candidates,) each."""
    wide = box[:, 3] - box[:, 2]
    many = wide * (box[:, 1] - box[:, 0])
    which = torch.repeat_interleave(torch.arange(len(box), device=box.device), many)
    within = torch.arange(len(which), device=box.device) - (many.cumsum(0) - many)[which]
    row = within // wide[which]
    column = within - row * wide[which]
    return which, box[which, 0] + row, box[which, 2] + column


def find_winners(nearness: Tensor, at: Tensor, near: Tensor, number: Tensor) -> Tensor:
    """Which candidates are seen: one at most for each sample.

    Args:
        nearness: (samples,) of what is seen so far; is raised to that of the winners.
        at: (candidates,) the sample of each.
        near: (candidates,) one over its depth.
        number: (candidates,) int32, less for what comes first.
    """
    before = nearness[at]
    nearness.scatter_reduce_(0, at, near, "amax")
    ahead = torch.nonzero((near > before) & (near == nearness[at])).squeeze(1)
    at, number = at[ahead], number[ahead]
    least = torch.full(nearness.shape, _LAST, dtype=torch.int32, device=nearness.device)
    least.scatter_reduce_(0, at, number, "amin")
    return ahead[least[at] == number]
