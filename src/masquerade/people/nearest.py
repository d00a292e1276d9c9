"""What is nearest at each sample of many pictures: the depth buffer of `raster`, with torch.

Every sample of every bounding box is a candidate; the nearest candidate is seen, and of equally
near ones the first. Neither depends on the order in which a GPU comes to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from masquerade._optional import Later

if TYPE_CHECKING:
    from masquerade._torch import Tensor, torch
else:
    torch = Later("torch", extra="train")

_TOGETHER = {"cpu": 1 << 20}  # candidates that are looked at together
_MANY = 1 << 24  # the same on a GPU: about 3 GB
_LAST = (1 << 31) - 1


def parts(box: Tensor) -> Iterator[Tensor]:
    """The boxes' numbers, in order, in parts that are looked at together.

    Args:
        box: (K, 4) whole numbers, first and end row, first and end column.
    """
    if not len(box):
        return
    many = (box[:, 1] - box[:, 0]) * (box[:, 3] - box[:, 2])
    group = (many.cumsum(0) - 1) // _TOGETHER.get(box.device.type, _MANY)
    yield from torch.arange(len(box), device=box.device).split(torch.bincount(group).tolist())


def spread(box: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All candidates of boxes (K, 4): which box, row and column, (candidates,) each."""
    wide = box[:, 3] - box[:, 2]
    many = wide * (box[:, 1] - box[:, 0])
    which = torch.repeat_interleave(torch.arange(len(box), device=box.device), many)
    within = torch.arange(len(which), device=box.device) - (many.cumsum(0) - many)[which]
    row = within // wide[which]
    column = within - row * wide[which]
    return which, box[which, 0] + row, box[which, 2] + column


def winners(nearness: Tensor, at: Tensor, near: Tensor, number: Tensor) -> Tensor:
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
