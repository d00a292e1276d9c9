"""TinyViT [wu2022]: four stages of convolutions and attention in windows, under timm's names.

Every batch norm follows a convolution, so it can be folded into it: the function is the same, and
no layer looks at more than one record. A folded network has convolutions with a bias and no norm of
batches; the form with batch norms is for training without privacy alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from masquerade import _check
from masquerade._torch import Tensor, nn, torch

_EXPAND = 4  # channels inside a block, for each outside


@dataclass(frozen=True, kw_only=True)
class TinyVitShape:
    """The size of a TinyViT.

    Args:
        widths: channels of each stage.
        depths: blocks of each stage.
        heads: of attention in each stage; the first has convolutions alone.
        windows: height and width of attention's windows, in tokens.
    """

    widths: tuple[int, int, int, int]
    depths: tuple[int, int, int, int]
    heads: tuple[int, int, int, int]
    windows: tuple[int, int, int, int] = (7, 7, 14, 7)

    def __post_init__(self) -> None:
        for width, heads in zip(self.widths[1:], self.heads[1:], strict=True):
            if width % heads:
                raise ValueError(f"Expected widths that heads divide, got {width} and {heads}.")


SHAPES = {
    "tiny_vit_5m": TinyVitShape(
        widths=(64, 128, 160, 320), depths=(2, 2, 6, 2), heads=(2, 4, 5, 10)
    ),
    "tiny_vit_11m": TinyVitShape(
        widths=(64, 128, 256, 448), depths=(2, 2, 6, 2), heads=(2, 4, 8, 14)
    ),
    "tiny_vit_21m": TinyVitShape(
        widths=(96, 192, 384, 576), depths=(2, 2, 6, 2), heads=(3, 6, 12, 18)
    ),
    "tiny_vit_small": TinyVitShape(
        widths=(24, 48, 96, 160), depths=(1, 1, 2, 1), heads=(1, 2, 3, 5), windows=(7, 7, 7, 7)
    ),
}


def find_tiny_vit_shape(name: str) -> TinyVitShape:
    """The size of a network by its name."""
    if name not in SHAPES:
        raise ValueError(_check.describe_unknown("network", name, tuple(SHAPES)))
    return SHAPES[name]


class ConvNorm(nn.Module):
    """A convolution, and a batch norm unless it is folded in."""

    def __init__(
        self, inside: int, out: int, size: int, *, is_folded: bool, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        shape = {"stride": stride, "padding": size // 2, "groups": groups}
        self.conv = nn.Conv2d(inside, out, size, bias=is_folded, **shape)  # type: ignore[arg-type]
        if not is_folded:
            self.bn = nn.BatchNorm2d(out)

    def forward(self, values: Tensor) -> Tensor:
        """(N, C, H, W)."""
        values = self.conv(values)
        return self.bn(values) if hasattr(self, "bn") else values


class PatchEmbed(nn.Module):
    """Two convolutions that take a picture to a quarter of its size."""

    def __init__(self, width: int, *, is_folded: bool) -> None:
        super().__init__()
        self.conv1 = ConvNorm(3, width // 2, 3, stride=2, is_folded=is_folded)
        self.conv2 = ConvNorm(width // 2, width, 3, stride=2, is_folded=is_folded)

    def forward(self, values: Tensor) -> Tensor:
        """(N, 3, H, W) as (N, C, H/4, W/4)."""
        out: Tensor = self.conv2(_apply_activation(self.conv1(values)))
        return out


class MBConv(nn.Module):
    """Wider, a convolution within each channel, and narrower again, beside what came in."""

    def __init__(self, width: int, *, is_folded: bool) -> None:
        super().__init__()
        wide = width * _EXPAND
        self.conv1 = ConvNorm(width, wide, 1, is_folded=is_folded)
        self.conv2 = ConvNorm(wide, wide, 3, groups=wide, is_folded=is_folded)
        self.conv3 = ConvNorm(wide, width, 1, is_folded=is_folded)

    def forward(self, values: Tensor) -> Tensor:
        """(N, C, H, W)."""
        wide = _apply_activation(self.conv2(_apply_activation(self.conv1(values))))
        return _apply_activation(self.conv3(wide) + values)


class PatchMerging(nn.Module):
    """Half the height and width, other channels."""

    def __init__(self, width: int, out: int, *, is_folded: bool) -> None:
        super().__init__()
        self.conv1 = ConvNorm(width, out, 1, is_folded=is_folded)
        self.conv2 = ConvNorm(out, out, 3, stride=2, groups=out, is_folded=is_folded)
        self.conv3 = ConvNorm(out, out, 1, is_folded=is_folded)

    def forward(self, values: Tensor) -> Tensor:
        """(N, C, H, W) as (N, out, H/2, W/2)."""
        out: Tensor = self.conv3(
            _apply_activation(self.conv2(_apply_activation(self.conv1(values))))
        )
        return out


class NormMlp(nn.Module):
    """A layer norm and two linear layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, width * _EXPAND)
        self.fc2 = nn.Linear(width * _EXPAND, width)

    def forward(self, values: Tensor) -> Tensor:
        """(..., C)."""
        out: Tensor = self.fc2(_apply_activation(self.fc1(self.norm(values))))
        return out


class WindowAttention(nn.Module):
    """Attention within a window, with a bias for each distance."""

    apart: Tensor

    def __init__(self, width: int, heads: int, window: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.attention_biases = nn.Parameter(torch.zeros(heads, window * window))
        self.register_buffer("apart", _list_distance_indices(window), persistent=False)

    def forward(self, values: Tensor) -> Tensor:
        """(N, L, C) of windows."""
        count, length, width = values.shape
        shared = self.qkv(self.norm(values)).view(count, length, self.heads, -1).transpose(1, 2)
        query, key, value = shared.chunk(3, dim=3)  # (N, heads, L, C/heads)
        scores = (query * (width // self.heads) ** -0.5) @ key.transpose(2, 3)
        seen = (scores + self.attention_biases[:, self.apart]).softmax(dim=3) @ value
        out: Tensor = self.proj(seen.transpose(1, 2).reshape(count, length, width))
        return out


class TinyVitBlock(nn.Module):
    """Attention in windows, a convolution within each channel, and an MLP."""

    def __init__(self, width: int, heads: int, window: int, *, is_folded: bool) -> None:
        super().__init__()
        self.window = window
        self.attn = WindowAttention(width, heads, window)
        self.local_conv = ConvNorm(width, width, 3, groups=width, is_folded=is_folded)
        self.mlp = NormMlp(width)

    def forward(self, values: Tensor) -> Tensor:
        """(N, C, H, W)."""
        values = values + self._attend_in_windows(values)
        values = self.local_conv(values)
        out: Tensor = values + self.mlp(values.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return out

    def _attend_in_windows(self, values: Tensor) -> Tensor:
        side, (count, width, height, breadth) = self.window, values.shape
        rows, columns = -(-height // side), -(-breadth // side)  # windows along each axis
        right, below = columns * side - breadth, rows * side - height
        padded = nn.functional.pad(values, (0, right, 0, below))
        cut = padded.reshape(count, width, rows, side, columns, side).permute(0, 2, 4, 3, 5, 1)
        seen = self.attn(cut.reshape(-1, side * side, width))
        laid = seen.reshape(count, rows, columns, side, side, width).permute(0, 5, 1, 3, 2, 4)
        whole = laid.reshape(count, width, rows * side, columns * side)
        back: Tensor = whole[:, :, :height, :breadth]
        return back


class ConvStage(nn.Module):
    """The first stage."""

    def __init__(self, width: int, depth: int, *, is_folded: bool) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(MBConv(width, is_folded=is_folded) for _ in range(depth)))

    def forward(self, values: Tensor) -> Tensor:
        """(N, C, H, W)."""
        out: Tensor = self.blocks(values)
        return out


class AttentionStage(nn.Module):
    """A later stage."""

    def __init__(self, shape: TinyVitShape, number: int, *, is_folded: bool) -> None:
        super().__init__()
        width, heads, window = (each[number] for each in (shape.widths, shape.heads, shape.windows))
        self.downsample = PatchMerging(shape.widths[number - 1], width, is_folded=is_folded)
        self.blocks = nn.Sequential(
            *(
                TinyVitBlock(width, heads, window, is_folded=is_folded)
                for _ in range(shape.depths[number])
            )
        )

    def forward(self, values: Tensor) -> Tensor:
        """(N, C, H, W) as (N, out, H/2, W/2)."""
        out: Tensor = self.blocks(self.downsample(values))
        return out


class TinyVit(nn.Module):
    """The backbone: a picture as a map of features at a 32nd of its size.

    Args:
        shape: its size.
        is_folded: whether batch norms are folded in.
    """

    def __init__(self, shape: TinyVitShape, *, is_folded: bool = True) -> None:
        super().__init__()
        self.width = shape.widths[-1]
        self.patch_embed = PatchEmbed(shape.widths[0], is_folded=is_folded)
        first = ConvStage(shape.widths[0], shape.depths[0], is_folded=is_folded)
        others = (AttentionStage(shape, number, is_folded=is_folded) for number in (1, 2, 3))
        self.stages = nn.Sequential(first, *others)

    def forward(self, values: Tensor) -> Tensor:
        """(N, 3, H, W) as (N, C, H/32, W/32)."""
        out: Tensor = self.stages(self.patch_embed(values))
        return out


def fold_batch_norms(tensors: dict[str, Tensor], *, eps: float = 1e-5) -> dict[str, Tensor]:
    """The tensors of a network with batch norms as those of one without; the function is the same.

    Args:
        tensors: by timm's names, batch norms as ``NAME.bn.*`` beside ``NAME.conv.weight``.
        eps: of the batch norms.
    """
    found = {}
    for name, value in tensors.items():
        place = name.rpartition(".")[0]
        outer, _, kind = place.rpartition(".")
        norm = f"{outer}.bn"
        if kind == "conv" and f"{norm}.weight" in tensors:
            scale = _compute_norm_scale(tensors, norm, eps)
            found[name] = (value.double() * scale.view(-1, 1, 1, 1)).to(value.dtype)
            shift = tensors[f"{norm}.bias"] - tensors[f"{norm}.running_mean"].double() * scale
            found[f"{place}.bias"] = shift.to(value.dtype)
        elif kind != "bn":
            found[name] = value
    return found


def _compute_norm_scale(tensors: dict[str, Tensor], norm: str, eps: float) -> Tensor:
    spread = (tensors[f"{norm}.running_var"].double() + eps).sqrt()
    return tensors[f"{norm}.weight"].double() / spread


def _apply_activation(values: Tensor) -> Tensor:
    return nn.functional.gelu(values)


def _list_distance_indices(window: int) -> Tensor:
    """(L, L): which distance each pair of tokens has, rows first, as timm numbers them."""
    place = torch.arange(window)
    row = (place[:, None] - place[None, :]).abs()
    apart = row[:, None, :, None] * window + row[None, :, None, :]
    return apart.reshape(window * window, window * window)
