"""Multiscale vision transformers [fan2021] [li2022]: built, fed, loaded and cut in two.

Nothing in them is random and no layer looks at more than one record, so the same network can be
trained with and without privacy. A network that is trained in its last layers only is cut before
them: what comes before the cut is computed once a record and kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from masquerade import _check
from masquerade._torch import Tensor, nn, torch
from masquerade.errors import BadInput
from masquerade.nets import torchvision, weight_files
from masquerade.nets.attention import Attention, LastBlock, pooled
from masquerade.nets.network import shipped
from masquerade.nets.weight_files import HEAD

if TYPE_CHECKING:
    from torchvision.models.video.mvit import MViT

PARTS = ("head", "last_norms", "norms", "all")
load_weights = weight_files.load_weights
save_weights = weight_files.save_weights
STRIDE = (2, 4, 4)  # of the first layer: frames and pixels from one token to the next
_LAST = 2  # blocks whose norms are trained [schneider2024, Sec. 13]


@dataclass(frozen=True, kw_only=True)
class Normalisation:
    """What a network wants to see; public, never taken from the data.

    Args:
        frames: of a film.
        size_px: height and width.
        mean: of each channel, from 0 to 1.
        std: of each channel.
        antialias: whether a larger picture is smoothed before it is made smaller.
    """

    frames: int = 16
    size_px: int = 224
    mean: tuple[float, float, float] = (0.45, 0.45, 0.45)
    std: tuple[float, float, float] = (0.225, 0.225, 0.225)
    antialias: bool = False


NORMALISATION = {
    "mvit_v1_b": Normalisation(),  # as in torchvision's preset for the Kinetics-400 weights
    "mvit_v2_s": Normalisation(),
    "mvit_small": Normalisation(size_px=64, antialias=True),
}
_POOL, _KEEP, _HALF, _QUARTER = [3, 3, 3], (), (1, 2, 2), (1, 4, 4)
# (heads, channels in, channels out, stride of queries, stride of keys and values); the queries
# are pooled only where there are fewer of them afterwards: pooling is half the time of a step
_SMALL = (
    (1, 32, 64, _HALF, _QUARTER),
    (2, 64, 64, _KEEP, _HALF),
    (2, 64, 128, _HALF, _HALF),
    (4, 128, 128, _KEEP, _HALF),
    (4, 128, 128, _KEEP, _HALF),
    (4, 128, 128, _KEEP, _HALF),
)


def make(name: str, *, classes: int) -> MViT:
    """A network with random weights, from torch's generator; nothing in it is random later.

    Args:
        name: mvit_v1_b, mvit_v2_s, or mvit_small: version 2 in six blocks, for 64 x 64 pixels.
        classes: numbers that come out.

    Example:
        >>> make("mvit_small", classes=12)(torch.zeros(1, 3, 16, 64, 64)).shape
        torch.Size([1, 12])
    """
    seen = _seen(name)
    _check.count(classes=classes)
    if name == "mvit_small":
        built = torchvision.MViT(
            spatial_size=(seen.size_px, seen.size_px),
            temporal_size=seen.frames,
            block_setting=[_setting(*row) for row in _SMALL],
            residual_pool=True,
            residual_with_cls_embed=False,
            rel_pos_embed=True,
            proj_after_attn=True,
            num_classes=classes,
        )
    else:
        published = {"mvit_v1_b": torchvision.mvit_v1_b, "mvit_v2_s": torchvision.mvit_v2_s}[name]
        built = published(num_classes=classes, stochastic_depth_prob=0.0)
    built.head[0] = nn.Identity()  # in place of dropout
    for block, shape in zip(built.blocks, _shapes(built), strict=True):
        block.attn = Attention(block.attn, shape)
    built.blocks[-1] = LastBlock(built.blocks[-1])
    built.name = name
    net: MViT = built
    return net


def _seen(name: str) -> Normalisation:
    if name not in NORMALISATION:
        raise ValueError(_check.unknown("network", name, tuple(NORMALISATION)))
    return NORMALISATION[name]


def _setting(
    heads: int, size_in: int, size_out: int, stride_q: tuple[int, ...], stride_kv: tuple[int, ...]
) -> Any:
    return torchvision.BlockSetting(
        num_heads=heads,
        input_channels=size_in,
        output_channels=size_out,
        kernel_q=_POOL if stride_q else [],
        kernel_kv=_POOL,
        stride_q=list(stride_q),
        stride_kv=list(stride_kv),
    )


def prepare(frames: np.ndarray, name: str) -> Tensor:
    """Films (N, T, H, W, 3) uint8 as a network wants them: (N, 3, T, size, size) float32.

    A frame is resized as a whole, bilinearly; nothing is cut off.
    """
    seen = _seen(name)
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
    return fitted(films.float() / 255, name)


def fitted(films: Tensor, name: str) -> Tensor:
    """Films (N, 3, T, H, W) with values from 0 to 1, resized and normalised for a network."""
    seen = _seen(name)
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


def trainable(net: MViT, part: str) -> tuple[str, ...]:
    """The names of the parameters that are trained.

    Args:
        net: from `make`.
        part: the head; with the norms of the last two blocks and the final one
            [schneider2024, Sec. 13]; with every norm; or all.
    """
    if part not in PARTS:
        raise ValueError(_check.unknown("part", part, PARTS))
    every = tuple(name for name, _ in net.named_parameters())
    if part == "all":
        return every
    last = [f"blocks.{number}." for number in range(len(net.blocks))][-_LAST:]
    scopes = {"head": (), "last_norms": (*last, "norm"), "norms": ("blocks.", "norm")}[part]
    norms = {name for name, module in net.named_modules() if isinstance(module, nn.LayerNorm)}
    chosen = {name for name in norms if name.startswith(scopes)}
    return tuple(name for name in every if name in HEAD or name.rpartition(".")[0] in chosen)


def split(net: MViT, part: str) -> tuple[nn.Module, nn.Module]:
    """Cut before the first module that is trained: ``tail(trunk(films))`` is ``net(films)``.

    Both are made of the network's own modules, under their own names, so that training the tail
    trains the network; parameters that are not trained no longer ask for gradients. The trunk
    gives one tensor a record: tokens (N, L, C), or for the head alone (N, C).
    """
    wanted = set(trainable(net, part))
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(name in wanted)
    blocks = len(net.blocks)  # the embedding is step 0, then these, then the norm, then the head
    cut = {"all": 0, "norms": 1, "last_norms": 1 + blocks - _LAST, "head": blocks + 2}[part]
    trunk = _Piece(net, range(cut)) if cut else nn.Identity()
    return trunk, _Piece(net, range(cut, blocks + 3))


class _Piece(nn.Module):
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
        shapes = _shapes(net)
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


def _shapes(net: MViT) -> list[tuple[int, ...]]:
    """The tokens along (T, H, W) that each block is given."""
    place, found = net.pos_encoding, list[tuple[int, ...]]()
    shape: tuple[int, ...] = (place.temporal_size, *place.spatial_size)
    for block in net.blocks:
        found.append(shape)
        shape = pooled(shape, cast(Attention, block.attn).pool_q)
    return found


def pretrained(name: str, *, classes: int | None = None) -> MViT:
    """A network with the weights that come with this package, learned from nobody.

    Args:
        name: of the network.
        classes: numbers that come out; another number than the weights' gives a fresh head.

    Raises:
        BadInput: if there are none.
    """
    _seen(name)
    path = shipped(name)
    if not path.is_file():
        there = sorted(file.stem for file in path.parent.glob("*.safetensors"))
        raise BadInput(
            f"Expected weights of {name} in this package, got those of "
            f"{', '.join(there) or 'no network'}; make them with masquerade recipe pretrain "
            f"--network {name} --out FILE, and read them with load_weights."
        )
    net = make(name, classes=classes or weight_files.classes(path))
    load_weights(net, path)
    return net
