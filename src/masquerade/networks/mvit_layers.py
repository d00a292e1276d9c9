"""Multiscale vision transformers [fan2021] [li2022]: built, fed, loaded and cut in two.

Nothing in them is random and no layer looks at more than one record, so the same network can be
trained with and without privacy. A network that is trained in its last layers only is cut before
them: what comes before the cut is computed once a record and kept.

The attention of multiscale transformers [li2022] with fewer trips to memory.

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

from masquerade import _check
from masquerade._torch import Tensor, nn, torch
from masquerade.errors import BadInput
from masquerade.networks import weight_files
from masquerade.networks.network import NORMALISATION, PARTS, InputStatistics, find_packaged_weights
from masquerade.networks.weight_files import HEAD

if TYPE_CHECKING:
    from torchvision.models.video.mvit import MultiscaleAttention, MultiscaleBlock, MViT


functional = nn.functional
_AXES = "thw"
_EQUATION = {"t": "bnthwc,tkc->bnthwk", "h": "bnthwc,hkc->bnthwk", "w": "bnthwc,wkc->bnthwk"}
_ALIGNMENT = 8  # numbers; what fused attention wants the length of a vector to be a multiple of


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
        self.shape_q, self.shape_k = (
            compute_pooled_shape(shape, self.pool_q),
            compute_pooled_shape(shape, self.pool_k),
        )
        for axis, queries, keys in zip(_AXES, self.shape_q, self.shape_k, strict=True):
            distance = torch.from_numpy(_list_relative_rows(queries, keys))
            self.register_buffer(f"distance_{axis}", distance, persistent=False)
        places = torch.from_numpy(_make_key_places(self.shape_k))
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
            longer = torch.cat([longer, self._compute_axis_terms(q)], dim=-1)
            places = self.places.to(k.dtype).expand(*k.shape[:2], -1, -1)
            keys = torch.cat([k, places], dim=-1)
        if is_low and not torch.is_grad_enabled():  # fused only where nothing is differentiated:
            found = _attend_fused(longer, keys, v)  # its backward pass adds up in any order
        else:
            found = (longer @ keys.transpose(2, 3)).softmax(dim=-1) @ v
        if self.residual_pool:
            found = found + (q if self.residual_with_cls_embed else _drop_class_token(q))
        flat = found.transpose(1, 2).flatten(2)  # (N, tokens, heads*channels)
        return self.project(flat), self.shape_q

    def attend_class_token(self, x: Tensor, thw: Sequence[int]) -> Tensor:
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

    def _compute_axis_terms(self, q: Tensor) -> Tensor:
        """(N, heads, tokens, T+H+W): each query times the table of each axis; 0 for the class."""
        grid = q[:, :, 1:].unflatten(2, self.shape_q)
        each = []
        for axis in _AXES:
            distance = getattr(self, f"distance_{axis}")
            table = _stretch_table(getattr(self, f"rel_pos_{axis}"), 2 * max(distance.shape) - 1)
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
        first = first + self.attn.attend_class_token(whole, thw)
        normed = self.norm2(first)
        if self.project is not None and not self.proj_after_attn:
            first = self.project(normed)
        return first + self.mlp(normed), self.attn.shape_q


def compute_pooled_shape(shape: Sequence[int], pool: nn.Module | None) -> tuple[int, ...]:
    """The tokens along each axis after pooling."""
    if pool is None:
        return tuple(shape)
    how: Any = pool.pool  # a convolution, or the largest of each
    sizes = zip(shape, how.padding, how.kernel_size, how.stride, strict=True)
    return tuple((size + 2 * pad - kernel) // step + 1 for size, pad, kernel, step in sizes)


def _list_relative_rows(queries: int, keys: int) -> np.ndarray:
    """(queries, keys): the row of the table; the fewer ones take longer steps."""
    to, back = max(keys / queries, 1.0), max(queries / keys, 1.0)
    rows = np.arange(queries)[:, None] * to + (keys - 1 - np.arange(keys)) * back
    found: np.ndarray = rows.astype(np.int64)
    return found


def _make_key_places(shape: Sequence[int]) -> np.ndarray:
    """(1 + tokens, T+H+W) float32: each key's place as one-hot vectors; 0 for the class."""
    along = zip(shape, np.indices(shape), strict=True)
    each = [np.eye(size, dtype=np.float32)[index.ravel()] for size, index in along]
    return np.pad(np.concatenate(each, axis=1), ((1, 0), (0, 0)))


def _stretch_table(table: Tensor, length: int) -> Tensor:
    """The table for other sizes than it was made for."""
    if len(table) == length:
        return table
    return functional.interpolate(table.t()[None], size=length, mode="linear")[0].t()


def _attend_fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    width = -(-q.shape[-1] // _ALIGNMENT) * _ALIGNMENT
    q, k, padded = (functional.pad(one, (0, width - one.shape[-1])) for one in (q, k, v))
    found = functional.scaled_dot_product_attention(q, k, padded, scale=1.0)
    return found[..., : v.shape[-1]]


def _drop_class_token(q: Tensor) -> Tensor:
    return functional.pad(q[:, :, 1:], (0, 0, 1, 0))


load_weights = weight_files.load_weights
save_weights = weight_files.save_weights
_NUM_LAST_BLOCKS = 2  # blocks whose norms are trained [schneider2024, Sec. 13]

_POOL, _KEEP, _HALF, _QUARTER = [3, 3, 3], (), (1, 2, 2), (1, 4, 4)
# (heads, channels in, channels out, stride of queries, stride of keys and values); the queries
# are pooled only where there are fewer of them afterwards: pooling is half the time of a step
_SMALL_SETTINGS = (
    (1, 32, 64, _HALF, _QUARTER),
    (2, 64, 64, _KEEP, _HALF),
    (2, 64, 128, _HALF, _HALF),
    (4, 128, 128, _KEEP, _HALF),
    (4, 128, 128, _KEEP, _HALF),
    (4, 128, 128, _KEEP, _HALF),
)


def make_mvit(name: str, *, classes: int) -> MViT:
    """A network with random weights, from torch's generator; nothing in it is random later.

    Args:
        name: mvit_v1_b, mvit_v2_s, or mvit_small: version 2 in six blocks, for 64 x 64 pixels.
        classes: numbers that come out.

    Example:
        >>> make_mvit("mvit_small", classes=12)(torch.zeros(1, 3, 16, 64, 64)).shape
        torch.Size([1, 12])
    """
    seen = _input_statistics(name)
    _check.count(classes=classes)
    if name == "mvit_small":
        built = weight_files.MViT(
            spatial_size=(seen.size_px, seen.size_px),
            temporal_size=seen.frames,
            block_setting=[_make_block_setting(*row) for row in _SMALL_SETTINGS],
            residual_pool=True,
            residual_with_cls_embed=False,
            rel_pos_embed=True,
            proj_after_attn=True,
            num_classes=classes,
        )
    else:
        published = {"mvit_v1_b": weight_files.mvit_v1_b, "mvit_v2_s": weight_files.mvit_v2_s}[name]
        built = published(num_classes=classes, stochastic_depth_prob=0.0)
    built.head[0] = nn.Identity()  # in place of dropout
    for block, shape in zip(built.blocks, _list_block_shapes(built), strict=True):
        block.attn = Attention(block.attn, shape)
    built.blocks[-1] = LastBlock(built.blocks[-1])
    built.name = name
    net: MViT = built
    return net


def _input_statistics(name: str) -> InputStatistics:
    if name not in NORMALISATION:
        raise ValueError(_check.describe_unknown("network", name, tuple(NORMALISATION)))
    return NORMALISATION[name]


def _make_block_setting(
    heads: int, size_in: int, size_out: int, stride_q: tuple[int, ...], stride_kv: tuple[int, ...]
) -> Any:
    return weight_files.BlockSetting(
        num_heads=heads,
        input_channels=size_in,
        output_channels=size_out,
        kernel_q=_POOL if stride_q else [],
        kernel_kv=_POOL,
        stride_q=list(stride_q),
        stride_kv=list(stride_kv),
    )


def prepare_films(frames: np.ndarray, name: str) -> Tensor:
    """Films (N, T, H, W, 3) uint8 as a network wants them: (N, 3, T, size, size) float32.

    A frame is resized as a whole, bilinearly; nothing is cut off.
    """
    seen = _input_statistics(name)
    if frames.ndim != 5 or frames.shape[4] != 3 or frames.dtype != np.uint8 or not frames.size:
        raise ValueError(
            "Expected frames to be (N, T, H, W, 3) uint8 with N >= 1, "
            f"got {frames.shape} {frames.dtype}."
        )
    if frames.shape[1] != seen.frames:
        raise ValueError(
            f"Expected {seen.frames} frames a film for {name}, got {frames.shape[1]}; "
            "take a segment of that length."
        )
    films = torch.from_numpy(np.ascontiguousarray(frames)).permute(0, 4, 1, 2, 3)
    return fit_films(films.float() / 255, name)


def fit_films(films: Tensor, name: str) -> Tensor:
    """Films (N, 3, T, H, W) with values from 0 to 1, resized and normalised for a network."""
    seen = _input_statistics(name)
    size = (seen.size_px, seen.size_px)
    if films.shape[3:] != size:
        flat = films.transpose(1, 2).flatten(0, 1)  # (N*T, 3, H, W)
        flat = nn.functional.interpolate(
            flat, size=size, mode="bilinear", align_corners=False, antialias=seen.antialias
        )
        films = flat.unflatten(0, (films.shape[0], films.shape[2])).transpose(1, 2)
    mean, std = (
        torch.tensor(of, device=films.device).view(3, 1, 1, 1) for of in (seen.mean, seen.std)
    )
    return ((films - mean) / std).contiguous()


def list_trainable_names(net: MViT, part: str) -> tuple[str, ...]:
    """The names of the parameters that are trained.

    Args:
        net: from `make_mvit`.
        part: the head; with the norms of the last two blocks and the final one
            [schneider2024, Sec. 13]; with every norm; or all.
    """
    if part not in PARTS:
        raise ValueError(_check.describe_unknown("part", part, PARTS))
    every = tuple(name for name, _ in net.named_parameters())
    if part == "all":
        return every
    last = [f"blocks.{number}." for number in range(len(net.blocks))][-_NUM_LAST_BLOCKS:]
    scopes = {"head": (), "last_norms": (*last, "norm"), "norms": ("blocks.", "norm")}[part]
    norms = {name for name, module in net.named_modules() if isinstance(module, nn.LayerNorm)}
    chosen = {name for name in norms if name.startswith(scopes)}
    return tuple(name for name in every if name in HEAD or name.rpartition(".")[0] in chosen)


def split_mvit(net: MViT, part: str) -> tuple[nn.Module, nn.Module]:
    """Cut before the first module that is trained: ``tail(trunk(films))`` is ``net(films)``.

    Both are made of the network's own modules, under their own names, so that training the tail
    trains the network; parameters that are not trained no longer ask for gradients. The trunk
    gives one tensor a record: tokens (N, L, C), or for the head alone (N, C).
    """
    wanted = set(list_trainable_names(net, part))
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(name in wanted)
    blocks = len(net.blocks)  # the embedding is step 0, then these, then the norm, then the head
    cut = {"all": 0, "norms": 1, "last_norms": 1 + blocks - _NUM_LAST_BLOCKS, "head": blocks + 2}[
        part
    ]
    trunk = _NetPiece(net, range(cut)) if cut else nn.Identity()
    return trunk, _NetPiece(net, range(cut, blocks + 3))


class _NetPiece(nn.Module):
    """Some steps of a network: embedding, blocks, final norm, head.

    The number of tokens along each axis is a constant of each block here.
    """

    def __init__(self, net: MViT, steps: range) -> None:
        super().__init__()
        count = len(net.blocks)
        if 0 in steps:
            self.conv_proj, self.pos_encoding = net.conv_proj, net.pos_encoding
        chosen = [number for number in range(count) if number + 1 in steps]
        self.blocks = nn.ModuleDict({str(number): net.blocks[number] for number in chosen})
        shapes = _list_block_shapes(net)
        self.shapes = [shapes[number] for number in chosen]
        if count + 1 in steps:
            self.norm = net.norm
        if count + 2 in steps:
            self.head = net.head

    def forward(self, values: Tensor) -> Tensor:
        """Run the steps."""
        if hasattr(self, "conv_proj"):
            values = self.conv_proj(values).flatten(2).transpose(1, 2)  # (N, T*H*W, C)
            values = self.pos_encoding(values)  # one more token: the class
        for block, shape in zip(self.blocks.values(), self.shapes, strict=True):
            values, _ = block(values, shape)
        if hasattr(self, "norm"):
            values = self.norm(values)[:, 0].contiguous()  # (N, C)
        return self.head(values) if hasattr(self, "head") else values


def _list_block_shapes(net: MViT) -> list[tuple[int, ...]]:
    """The tokens along (T, H, W) that each block is given."""
    place, found = net.pos_encoding, list[tuple[int, ...]]()
    shape: tuple[int, ...] = (place.temporal_size, *place.spatial_size)
    for block in net.blocks:
        found.append(shape)
        shape = compute_pooled_shape(shape, cast(Attention, block.attn).pool_q)
    return found


def load_pretrained_mvit(name: str, *, classes: int | None = None) -> MViT:
    """A network with the weights that come with this package, learned from nobody.

    Args:
        name: of the network.
        classes: numbers that come out; another number than the weights' gives a fresh head.

    Raises:
        BadInput: if there are none.
    """
    _input_statistics(name)
    path = find_packaged_weights(name)
    if not path.is_file():
        there = sorted(file.stem for file in path.parent.glob("*.safetensors"))
        raise BadInput(
            f"Expected weights of {name} in this package, got those of "
            f"{', '.join(there) or 'no network'}; make them with python tools/pretrain.py "
            f"--network {name} --out FILE, and read them with load_weights."
        )
    net = make_mvit(name, classes=classes or weight_files.count_head_classes(path))
    load_weights(net, path)
    return net
