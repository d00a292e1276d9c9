"""Draws a place as a camera sees it: one ray per sub-pixel, the nearest quad wins.

Along a ray ``right * x + down * y + forward`` the inverse depth ``w`` of a plane is linear in the
pixel, and so are the quad's own coordinates times ``w``. So each quad costs three linear
functions per ray in its bounding box and no division; textures are looked up for what is seen.

There are two ways through the same arithmetic, in the same order: loops that numba compiles, and
numpy over bounding boxes where numba is missing. Their depths are equal.

Draws many places at once on a torch device, as `backdrop.draw` draws one: bit for bit.

Each operation rounds on its own and in the order of `backdrop`, so that nothing differs, not even
where two quads are equally near.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from masquerade._optional import LazyNumba, has_numba, lazy_module
from masquerade.stage import prints, raster
from masquerade.stage.places import StagedPlace
from masquerade.stage.raster import Camera, SceneLight
from masquerade.stage.solids import QuadArrays
from masquerade.stage.surfaces import SIZE_PX

if TYPE_CHECKING:
    from masquerade._torch import Tensor, torch
else:
    torch = lazy_module("torch", extra="train")


HAS_NUMBA = has_numba()
_NEAR_M = 0.05
FAR_W = 1e-4  # inverse depth of what lies 10 km away: where nothing is hit
CUT = 96  # alpha from which a cut-out texture covers
_START = np.array(prints.LEVEL_STARTS, np.int64)
_SIZE = np.array(prints.LEVEL_SIZES, np.int64)
STEPS = np.array([2.0, 8.0, 32.0, 128.0, 512.0])  # of blur / w^3, to the next smaller copy


class InView(NamedTuple):
    """The quads that may be seen, as linear functions of the sub-pixel's column and row.

    Args:
        plan: (Q, 3, 3), rows inverse depth, across and down (the latter two times the inverse
            depth), columns constant, per column, per row.
        bounds: (Q, 4), first and end column, first and end row of those that can hold it.
        repeat: (Q, 2), how often the texture fits across and down.
        blur: (Q,), squared texels per sub-pixel times the inverse depth cubed.
        texture: (Q,), place in the pool.
        shade: (Q, 3), what the texture is multiplied by.
    """

    plan: np.ndarray
    bounds: np.ndarray
    repeat: np.ndarray
    blur: np.ndarray
    texture: np.ndarray
    shade: np.ndarray


def draw_backdrop(
    place: StagedPlace, camera: Camera, light: SceneLight
) -> tuple[np.ndarray, np.ndarray]:
    """Picture (H, W, 3) uint8 and depth (H, W) float32 of a place.

    Depth is in metres along the camera's forward axis, the nearest of a pixel's sub-samples.
    """
    seen = find_quads_in_view(place, camera, light)
    shape = (camera.height * 2, camera.width * 2)
    near = np.full(shape, FAR_W)  # inverse depth of the nearest quad so far
    owner = np.full(shape, -1, np.int32)  # which quad that is
    texel = np.zeros(shape, np.int32)  # and which of its texture's texels
    texels = prints.pool().texels
    find, mix = (_find_fast, _mix_fast) if HAS_NUMBA else (_find_owners, _mix_texels)
    find(seen, texels, near, owner, texel)
    image = mix(seen, texels, owner, texel)
    rows = np.maximum(near[::2], near[1::2])
    nearest = np.maximum(rows[:, ::2], rows[:, 1::2])
    return image, (1 / nearest).astype(np.float32)


def find_quads_in_view(place: StagedPlace, camera: Camera, light: SceneLight) -> InView:
    """What a camera can see of a place, as `draw` draws it."""
    return _prepare_view(place.quads, camera.enlarge_view(2), light)


def _prepare_view(quads: QuadArrays, camera: Camera, light: SceneLight) -> InView:
    """What the camera, already of sub-pixels, can see of the quads; near ones first."""
    corners = (quads.compute_corners - np.asarray(camera.eye)) @ camera.view_axes.T  # (Q, 4, 3)
    across, down = corners[:, 1] - corners[:, 0], corners[:, 3] - corners[:, 0]
    normal = _compute_cross_product(across, down)  # away from the viewer
    offset = np.einsum("qi,qi->q", normal, corners[:, 0])  # > 0: seen from the front
    bounds = _compute_quad_bounds(corners, camera)
    is_seen = (bounds[:, 0] < bounds[:, 1]) & (bounds[:, 2] < bounds[:, 3])
    is_seen &= np.where(quads.is_open, np.abs(offset) > 1e-9, offset > 1e-9)
    keep = np.flatnonzero(is_seen)
    keep = keep[np.argsort(corners[keep, :, 2].mean(axis=1), kind="stable")]
    across, down, normal, offset = across[keep], down[keep], normal[keep], offset[keep]

    square = np.einsum("qi,qi->q", normal, normal)[:, None]
    rays = np.empty((len(keep), 3, 3))  # rows act on a ray (x, y, 1)
    rays[:, 0] = normal / offset[:, None]
    for row, edge in (
        (1, _compute_cross_product(down, normal)),
        (2, _compute_cross_product(normal, across)),
    ):
        edge /= square
        shift = np.einsum("qi,qi->q", edge, corners[keep, 0])
        rays[:, row] = edge - shift[:, None] * rays[:, 0]
    plan = np.empty_like(rays)
    plan[:, :, 1:] = rays[:, :, :2] / camera.focal_px
    middle = np.array([camera.width / 2 - 0.5, camera.height / 2 - 0.5])
    plan[:, :, 0] = rays[:, :, 2] - plan[:, :, 1:] @ middle

    lengths = np.stack([np.linalg.norm(across, axis=1), np.linalg.norm(down, axis=1)], axis=1)
    texels = (quads.repeat[keep] * SIZE_PX / lengths).max(axis=1) / camera.focal_px
    height = np.abs(offset) / np.sqrt(square[:, 0])  # of the eye over the quad's plane
    return InView(
        plan=plan,
        bounds=bounds[keep],
        repeat=quads.repeat[keep],
        blur=texels**2 / height,
        texture=quads.texture[keep],
        shade=_compute_quad_shades(quads, light)[keep],
    )


def _compute_cross_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of vectors (Q, 3); quicker than numpy's for a few hundred."""
    later, last = [1, 2, 0], [2, 0, 1]
    return np.ascontiguousarray(a[:, later] * b[:, last] - a[:, last] * b[:, later])


def _compute_quad_bounds(corners: np.ndarray, camera: Camera) -> np.ndarray:
    """Columns and rows (Q, 4) that hold each quad; where it reaches behind the eye, all."""
    depth = np.maximum(corners[..., 2:], _NEAR_M)
    flat = corners[..., :2] / depth * camera.focal_px
    size = np.array([camera.width, camera.height])
    flat = np.clip(flat + size / 2, 0, size)  # (Q, 4, 2)
    low = np.floor(flat.min(axis=1)).astype(np.int64)
    high = np.ceil(flat.max(axis=1)).astype(np.int64)
    is_behind = corners[..., 2] < _NEAR_M
    low[is_behind.any(axis=1)] = 0
    high[is_behind.any(axis=1)] = size
    high[is_behind.all(axis=1)] = 0
    return np.stack([low[:, 0], high[:, 0], low[:, 1], high[:, 1]], axis=1)


def _compute_quad_shades(quads: QuadArrays, light: SceneLight) -> np.ndarray:
    """What each quad's texture is multiplied by, (Q, 3)."""
    normal = _compute_cross_product(quads.down, quads.across)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    slope = normal @ np.asarray(light.towards)
    slope = np.where(quads.is_open, np.abs(slope) * 0.5 + 0.35, np.maximum(slope, 0))
    level = light.ambient + (1 - light.ambient) * slope
    level = np.where(quads.is_bright, 1.0, level)
    return np.asarray(quads.tint * level[:, None] * np.asarray(light.colour))


def _find_loops(
    seen: InView, texels: np.ndarray, near: np.ndarray, owner: np.ndarray, texel: np.ndarray
) -> None:
    """Fill in the nearest quad of every sub-pixel; plain loops, meant to be compiled."""
    plan, bounds, repeat, blur, texture, _ = seen
    for q in range(plan.shape[0]):
        w1, a1, b1 = plan[q, 0, 1], plan[q, 1, 1], plan[q, 2, 1]
        for i in range(bounds[q, 2], bounds[q, 3]):
            w0 = plan[q, 0, 0] + plan[q, 0, 2] * i
            a0 = plan[q, 1, 0] + plan[q, 1, 2] * i
            b0 = plan[q, 2, 0] + plan[q, 2, 2] * i
            for j in range(bounds[q, 0], bounds[q, 1]):
                w = w0 + w1 * j
                if w <= near[i, j]:
                    continue
                a = a0 + a1 * j
                b = b0 + b1 * j
                if a < 0 or a >= w or b < 0 or b >= w:
                    continue
                foot = blur[q] / (w * w * w)
                level = (foot > 2) + (foot > 8) + (foot > 32) + (foot > 128) + (foot > 512)
                s = a / w * repeat[q, 0]
                t = b / w * repeat[q, 1]
                column = int((s - np.floor(s)) * _SIZE[level])
                row = int((t - np.floor(t)) * _SIZE[level])
                place = _START[level] + row * _SIZE[level] + column
                if texels[texture[q], place, 3] >= CUT:
                    near[i, j], owner[i, j], texel[i, j] = w, q, place


def _find_owners(
    seen: InView, texels: np.ndarray, near: np.ndarray, owner: np.ndarray, texel: np.ndarray
) -> None:
    """As ``_find_loops``, with numpy over each quad's bounding box."""
    plan, bounds, repeat, blur, texture, _ = seen
    for q, (left, right, top, bottom) in enumerate(bounds):
        rows, columns = np.arange(top, bottom), np.arange(left, right)
        w, a, b = ((p[0] + p[2] * rows)[:, None] + p[1] * columns for p in plan[q])
        window = near[top:bottom, left:right]
        hit = np.flatnonzero((w > window) & (a >= 0) & (a < w) & (b >= 0) & (b < w))
        if not hit.size:
            continue
        w, a, b = w.ravel()[hit], a.ravel()[hit], b.ravel()[hit]
        foot = blur[q] / (w * w * w)
        level = np.searchsorted(STEPS, foot, side="left")
        s, t = a / w * repeat[q, 0], b / w * repeat[q, 1]
        column = ((s - np.floor(s)) * _SIZE[level]).astype(np.int64)
        row = ((t - np.floor(t)) * _SIZE[level]).astype(np.int64)
        place = _START[level] + row * _SIZE[level] + column
        covers = texels[texture[q], place, 3] >= CUT
        y, x = np.divmod(hit[covers], right - left)
        y, x = y + top, x + left
        near[y, x], owner[y, x], texel[y, x] = w[covers], q, place[covers]


def _mix_loops(
    seen: InView, texels: np.ndarray, owner: np.ndarray, texel: np.ndarray
) -> np.ndarray:
    """Picture (H, W, 3) uint8, each pixel the mean of four sub-pixels; meant to be compiled."""
    image = np.zeros((owner.shape[0] // 2, owner.shape[1] // 2, 3), np.uint8)
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            for c in range(3):
                total = 0.0
                for y in range(2 * i, 2 * i + 2):
                    for x in range(2 * j, 2 * j + 2):
                        q = owner[y, x]
                        if q >= 0:
                            shown = texels[seen.texture[q], texel[y, x], c] * seen.shade[q, c]
                            total += min(shown, 255.0)
                image[i, j, c] = int(total / 4 + 0.5)
    return image


def _mix_texels(
    seen: InView, texels: np.ndarray, owner: np.ndarray, texel: np.ndarray
) -> np.ndarray:
    """As ``_mix_loops``, with numpy."""
    shown = np.zeros((*owner.shape, 3))
    found = owner >= 0
    mine = owner[found]
    shown[found] = np.minimum(
        texels[seen.texture[mine], texel[found], :3] * seen.shade[mine], 255.0
    )
    total = shown[::2, ::2] + shown[::2, 1::2] + shown[1::2, ::2] + shown[1::2, 1::2]
    return np.asarray(total / 4 + 0.5).astype(np.uint8)


_find_fast, _mix_fast = LazyNumba(_find_loops), LazyNumba(_mix_loops)


class _DeviceView(NamedTuple):
    """`InView` on the device, of all views one after the other."""

    plan: Tensor
    bounds: Tensor
    repeat: Tensor
    blur: Tensor
    texture: Tensor
    shade: Tensor


def draw_backdrops(
    views: Sequence[InView], height: int, width: int, *, device: str
) -> tuple[Tensor, Tensor]:
    """Pictures (S, H, W, 3) uint8 and depths (S, H, W) float32, left on the device."""
    joined = [np.concatenate(each) for each in zip(*views, strict=True)]
    seen = _DeviceView(*(torch.tensor(each, device=device) for each in joined))
    start = np.repeat(np.arange(len(views)), [len(view.plan) for view in views])
    shape = len(views), height * 2, width * 2
    first = torch.tensor(start * (shape[1] * shape[2]), device=device)
    near = torch.full((shape[0] * shape[1] * shape[2],), FAR_W, dtype=torch.float64, device=device)
    owner, texel = (torch.full(near.shape, -1, device=device) for _ in range(2))
    box = seen.bounds[:, [2, 3, 0, 1]]
    for part in raster.iter_box_parts(box):
        which, i, j = raster.list_candidates(box[part])
        which = part[which]
        at = first[which] + i * shape[2] + j
        which, at, w, place = _find_hits(seen, which, i, j, at)
        won = raster.find_winners(near, at, w, which.int())
        owner[at[won]], texel[at[won]] = which[won], place[won]
    image = _mix_subpixels(seen, owner.reshape(shape), texel.reshape(shape))
    rows = torch.maximum(near.reshape(shape)[:, ::2], near.reshape(shape)[:, 1::2])
    nearest_of = torch.maximum(rows[:, :, ::2], rows[:, :, 1::2])
    return image, (1 / nearest_of).float()


@lru_cache(maxsize=2)
def _send_texels(device: str) -> Tensor:
    return torch.tensor(prints.pool().texels, device=device)


def _find_hits(
    seen: _DeviceView, which: Tensor, i: Tensor, j: Tensor, at: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Those candidates whose quad covers them: quad, sample, inverse depth and texel."""
    p = seen.plan[which]  # (candidates, 3, 3)
    w, a, b = ((p[:, k, 0] + p[:, k, 2] * i) + p[:, k, 1] * j for k in range(3))
    inside = (w > FAR_W) & (a >= 0) & (a < w) & (b >= 0) & (b < w)
    which, at, w, a, b = (each[inside] for each in (which, at, w, a, b))
    foot = seen.blur[which] / (w * w * w)
    level = sum((foot > step).long() for step in STEPS)
    sizes, starts = (
        torch.tensor(each, device=w.device)[level]
        for each in (prints.LEVEL_SIZES, prints.LEVEL_STARTS)
    )
    s, t = a / w * seen.repeat[which, 0], b / w * seen.repeat[which, 1]
    column, row = ((s - s.floor()) * sizes).long(), ((t - t.floor()) * sizes).long()
    place = starts + row * sizes + column
    covers = _send_texels(str(w.device))[seen.texture[which], place, 3] >= CUT
    return which[covers], at[covers], w[covers], place[covers]


def _mix_subpixels(seen: _DeviceView, owner: Tensor, texel: Tensor) -> Tensor:
    """Pictures, each pixel the mean of four sub-pixels."""
    shown = torch.zeros((*owner.shape, 3), dtype=torch.float64, device=owner.device)
    found = owner >= 0
    mine = owner[found]
    colours = _send_texels(str(owner.device))[seen.texture[mine], texel[found], :3]
    shown[found] = (colours * seen.shade[mine]).clamp(max=255.0)
    top, bottom = shown[:, ::2], shown[:, 1::2]
    total = top[:, :, ::2] + top[:, :, 1::2] + bottom[:, :, ::2] + bottom[:, :, 1::2]
    return (total / 4 + 0.5).to(torch.uint8)
