"""The attention of multiscale transformers [li2022] with fewer trips to memory.

A query q and a key at place (t, h, w) score  s q.k + q.T_t + q.H_h + q.W_w, where the tables T, H
and W hold a vector for each distance along an axis. With one-hot vectors of the key's place,

    [s q, q.T, q.H, q.W] . [k, onehot(t), onehot(h), onehot(w)],

this is one product of slightly longer vectors. What is added to the scores is never made: for the
first blocks it would be many times as large as all that is kept. The indices into the tables are
constants and lie beside the weights, so that nothing waits for the host.

Of the last block only the class token is looked at, so only its query is asked: most of that block
need not be computed, nor differentiated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from masquerade._torch import Tensor, nn, torch

if TYPE_CHECKING:
    from torchvision.models.video.mvit import MultiscaleAttention, MultiscaleBlock

functional = nn.functional
_AXES = "thw"
_EQUATION = {"t": "bnthwc,tkc->bnthwk", "h": "bnthwc,hkc->bnthwk", "w": "bnthwc,wkc->bnthwk"}
_ALIGNED = 8  # numbers; what fused attention wants the length of a vector to be a multiple of


class Attention(nn.Module):
    """The same function as torchvision's, made of the very parameters, under the same names.

    Args:
        other: torchvision's.
        shape: tokens along (T, H, W) that it is given, beside the class token.
    """

    places: Tensor
    rel_pos_h: Tensor | None

    def __init__(self, other: MultiscaleAttention, shape: Sequence[int]) -> None:
        super().__init__()
        self.num_heads, self.head_dim = other.num_heads, other.head_dim
        self.output_dim, self.scaler = other.output_dim, other.scaler
        self.residual_pool = other.residual_pool
        self.residual_with_cls_embed = other.residual_with_cls_embed
        self.qkv, self.project = other.qkv, other.project
        self.pool_q, self.pool_k, self.pool_v = other.pool_q, other.pool_k, other.pool_v
        for axis in "hwt":
            self.register_parameter(f"rel_pos_{axis}", getattr(other, f"rel_pos_{axis}"))
        self.shape_q, self.shape_k = pooled(shape, self.pool_q), pooled(shape, self.pool_k)
        for axis, queries, keys in zip(_AXES, self.shape_q, self.shape_k, strict=True):
            distance = torch.from_numpy(_distances(queries, keys))
            self.register_buffer(f"distance_{axis}", distance, persistent=False)
        places = torch.from_numpy(_places(self.shape_k))
        self.register_buffer("places", places, persistent=False)

    def forward(self, x: Tensor, thw: Sequence[int]) -> tuple[Tensor, tuple[int, ...]]:
        """As torchvision's."""
        whole = self.qkv(x).unflatten(2, (3, self.num_heads, self.head_dim))
        q, k, v = whole.transpose(1, 3).unbind(dim=2)  # (N, heads, tokens, channels)
        q = q if self.pool_q is None else self.pool_q(q, thw)[0]
        k = k if self.pool_k is None else self.pool_k(k, thw)[0]
        v = v if self.pool_v is None else self.pool_v(v, thw)[0]
        is_low = torch.is_autocast_enabled(x.device.type)
        if is_low:  # norms leave float32 behind
            low = torch.get_autocast_dtype(x.device.type)
            q, k, v = q.to(low), k.to(low), v.to(low)
        longer, keys = self.scaler * q, k
        if self.rel_pos_h is not None:
            longer = torch.cat([longer, self._along(q)], dim=-1)
            places = self.places.to(k.dtype).expand(*k.shape[:2], -1, -1)
            keys = torch.cat([k, places], dim=-1)
        if is_low and not torch.is_grad_enabled():  # fused only where nothing is differentiated:
            found = _fused(longer, keys, v)  # its backward pass adds up in any order
        else:
            found = (longer @ keys.transpose(2, 3)).softmax(dim=-1) @ v
        if self.residual_pool:
            found = found + (q if self.residual_with_cls_embed else _without_class(q))
        flat = found.transpose(1, 2).flatten(2)  # (N, tokens, heads*channels)
        return self.project(flat), self.shape_q

    def of_class(self, x: Tensor, thw: Sequence[int]) -> Tensor:
        """The first token of what `forward` gives, (N, 1, channels); it has no place."""
        width, held = self.output_dim, self.qkv
        q = functional.linear(x[:, 0], held.weight[:width], held.bias[:width])
        both = functional.linear(x, held.weight[width:], held.bias[width:])
        q = q.unflatten(1, (self.num_heads, 1, -1))  # (N, heads, 1, channels)
        k, v = both.unflatten(2, (2, self.num_heads, -1)).transpose(1, 3).unbind(dim=2)
        pool: Any = self.pool_q  # the class is never pooled, only normalised
        q = q if pool is None else pool.norm_act(q)
        k = k if self.pool_k is None else self.pool_k(k, thw)[0]
        v = v if self.pool_v is None else self.pool_v(v, thw)[0]
        found = (self.scaler * q @ k.transpose(2, 3)).softmax(dim=-1) @ v
        if self.residual_pool and self.residual_with_cls_embed:
            found = found + q
        first: Tensor = self.project(found.transpose(1, 2).flatten(2))
        return first

    def _along(self, q: Tensor) -> Tensor:
        """(N, heads, tokens, T+H+W): each query times the table of each axis; 0 for the class."""
        grid = q[:, :, 1:].unflatten(2, self.shape_q)
        each = []
        for axis in _AXES:
            distance = getattr(self, f"distance_{axis}")
            table = _stretched(getattr(self, f"rel_pos_{axis}"), 2 * max(distance.shape) - 1)
            each.append(torch.einsum(_EQUATION[axis], grid, table[distance].to(q.dtype)))
        return functional.pad(torch.cat(each, dim=-1).flatten(2, 4), (0, 0, 1, 0))


class LastBlock(nn.Module):
    """A block of which only the class token goes on, made of torchvision's parameters.

    Args:
        other: torchvision's, with `Attention`.
    """

    def __init__(self, other: MultiscaleBlock) -> None:
        super().__init__()
        self.proj_after_attn = other.proj_after_attn
        self.pool_skip = other.pool_skip
        self.norm1, self.norm2 = other.norm1, other.norm2
        self.attn = cast(Attention, other.attn)
        self.mlp, self.project = other.mlp, other.project

    def forward(self, x: Tensor, thw: Sequence[int]) -> tuple[Tensor, tuple[int, ...]]:
        """The first token of what torchvision's gives."""
        whole = self.norm1(x)
        first = x[:, :1]  # what is pooled on the way past is never the class
        if self.project is not None and self.proj_after_attn:
            first = self.project(whole[:, :1].contiguous())
        first = first + self.attn.of_class(whole, thw)
        normed = self.norm2(first)
        if self.project is not None and not self.proj_after_attn:
            first = self.project(normed)
        return first + self.mlp(normed), self.attn.shape_q


def pooled(shape: Sequence[int], pool: nn.Module | None) -> tuple[int, ...]:
    """The tokens along each axis after pooling."""
    if pool is None:
        return tuple(shape)
    how: Any = pool.pool  # a convolution, or the largest of each
    sizes = zip(shape, how.padding, how.kernel_size, how.stride, strict=True)
    return tuple((size + 2 * pad - kernel) // step + 1 for size, pad, kernel, step in sizes)


def _distances(queries: int, keys: int) -> np.ndarray:
    """(queries, keys): the row of the table; the fewer ones take longer steps."""
    to, back = max(keys / queries, 1.0), max(queries / keys, 1.0)
    rows = np.arange(queries)[:, None] * to + (keys - 1 - np.arange(keys)) * back
    found: np.ndarray = rows.astype(np.int64)
    return found


def _places(shape: Sequence[int]) -> np.ndarray:
    """(1 + tokens, T+H+W) float32: each key's place as one-hot vectors; 0 for the class."""
    along = zip(shape, np.indices(shape), strict=True)
    each = [np.eye(size, dtype=np.float32)[index.ravel()] for size, index in along]
    return np.pad(np.concatenate(each, axis=1), ((1, 0), (0, 0)))


def _stretched(table: Tensor, length: int) -> Tensor:
    """The table for other sizes than it was made for."""
    if len(table) == length:
        return table
    return functional.interpolate(table.t()[None], size=length, mode="linear")[0].t()


def _fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    width = -(-q.shape[-1] // _ALIGNED) * _ALIGNED
    q, k, padded = (functional.pad(one, (0, width - one.shape[-1])) for one in (q, k, v))
    found = functional.scaled_dot_product_attention(q, k, padded, scale=1.0)
    return found[..., : v.shape[-1]]


def _without_class(q: Tensor) -> Tensor:
    return functional.pad(q[:, :, 1:], (0, 0, 1, 0))
