"""Draws many places at once on a torch device, as `backdrop.draw` draws one: bit for bit.

Each operation rounds on its own and in the order of `backdrop`, so that nothing differs, not even
where two quads are equally near.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from masquerade._optional import Later
from masquerade.data.world import textures
from masquerade.data.world.backdrop import CUT, FAR_W, STEPS, InView
from masquerade.people import nearest

if TYPE_CHECKING:
    from masquerade._torch import Tensor, torch
else:
    torch = Later("torch", extra="train")


class _Sent(NamedTuple):
    """`InView` on the device, of all views one after the other."""

    plan: Tensor
    bounds: Tensor
    repeat: Tensor
    blur: Tensor
    texture: Tensor
    shade: Tensor


def draw(views: Sequence[InView], height: int, width: int, *, device: str) -> tuple[Tensor, Tensor]:
    """Pictures (S, H, W, 3) uint8 and depths (S, H, W) float32, left on the device."""
    joined = [np.concatenate(each) for each in zip(*views, strict=True)]
    seen = _Sent(*(torch.tensor(each, device=device) for each in joined))
    start = np.repeat(np.arange(len(views)), [len(view.plan) for view in views])
    shape = len(views), height * 2, width * 2
    first = torch.tensor(start * (shape[1] * shape[2]), device=device)
    near = torch.full((shape[0] * shape[1] * shape[2],), FAR_W, dtype=torch.float64, device=device)
    owner, texel = (torch.full(near.shape, -1, device=device) for _ in range(2))
    box = seen.bounds[:, [2, 3, 0, 1]]
    for part in nearest.parts(box):
        which, i, j = nearest.spread(box[part])
        which = part[which]
        at = first[which] + i * shape[2] + j
        which, at, w, place = _hit(seen, which, i, j, at)
        won = nearest.winners(near, at, w, which.int())
        owner[at[won]], texel[at[won]] = which[won], place[won]
    image = _mixed(seen, owner.reshape(shape), texel.reshape(shape))
    rows = torch.maximum(near.reshape(shape)[:, ::2], near.reshape(shape)[:, 1::2])
    nearest_of = torch.maximum(rows[:, :, ::2], rows[:, :, 1::2])
    return image, (1 / nearest_of).float()


@lru_cache(maxsize=2)
def _texels(device: str) -> Tensor:
    return torch.tensor(textures.pool().texels, device=device)


def _hit(
    seen: _Sent, which: Tensor, i: Tensor, j: Tensor, at: Tensor
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
        for each in (textures.LEVEL_SIZES, textures.LEVEL_STARTS)
    )
    s, t = a / w * seen.repeat[which, 0], b / w * seen.repeat[which, 1]
    column, row = ((s - s.floor()) * sizes).long(), ((t - t.floor()) * sizes).long()
    place = starts + row * sizes + column
    covers = _texels(str(w.device))[seen.texture[which], place, 3] >= CUT
    return which[covers], at[covers], w[covers], place[covers]


def _mixed(seen: _Sent, owner: Tensor, texel: Tensor) -> Tensor:
    """Pictures, each pixel the mean of four sub-pixels."""
    shown = torch.zeros((*owner.shape, 3), dtype=torch.float64, device=owner.device)
    found = owner >= 0
    mine = owner[found]
    colours = _texels(str(owner.device))[seen.texture[mine], texel[found], :3]
    shown[found] = (colours * seen.shade[mine]).clamp(max=255.0)
    top, bottom = shown[:, ::2], shown[:, 1::2]
    total = top[:, :, ::2] + top[:, :, 1::2] + bottom[:, :, ::2] + bottom[:, :, 1::2]
    return (total / 4 + 0.5).to(torch.uint8)
