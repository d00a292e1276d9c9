"""The picture towers of CLIP [radford2021] and DINOv2 [oquab2024], under their published names."""

from __future__ import annotations

import functools
import math
from pathlib import Path

from masquerade._torch import Tensor, nn, torch
from masquerade.networks import weight_files
from masquerade.vision.backbones import FeatureBackbone, State, make_state_reader

_CLIP_COLOURS = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
_VISUAL = "visual."
_DINO_EPSILON = 1e-6
_DINO_LEARNED = 37  # patches a side for which DINOv2's positions were learned
_DINO_OFFSET = 0.1  # by which it makes them larger when it stretches them


class QuickGelu(nn.Module):
    """The activation that CLIP was trained with."""

    def forward(self, values: Tensor) -> Tensor:
        """Any shape."""
        return values * torch.sigmoid(1.702 * values)


class ClipBlock(nn.Module):
    """Attention, then two layers at each site, each beside its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        parts = {"c_fc": nn.Linear(width, 4 * width), "gelu": QuickGelu()}
        self.mlp = nn.Sequential()
        for name, part in (*parts.items(), ("c_proj", nn.Linear(4 * width, width))):
            self.mlp.add_module(name, part)

    def forward(self, values: Tensor) -> Tensor:
        """Pass (N, sites, width) through the block."""
        asked = self.ln_1(values)
        values = values + self.attn(asked, asked, asked, need_weights=False)[0]
        found: Tensor = values + self.mlp(self.ln_2(values))
        return found


class ClipTower(nn.Module):
    """CLIP's picture tower.

    Args:
        width: numbers at each site.
        layers: blocks.
        patch: side of a patch of 224 x 224 pixels.
        size_out: features.
    """

    def __init__(self, *, width: int, layers: int, patch: int, size_out: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, patch, patch, bias=False)
        self.class_embedding = nn.Parameter(torch.zeros(width))
        self.positional_embedding = nn.Parameter(torch.zeros((224 // patch) ** 2 + 1, width))
        self.ln_pre, self.ln_post = nn.LayerNorm(width), nn.LayerNorm(width)
        self.transformer = nn.ModuleDict(
            {"resblocks": nn.ModuleList(ClipBlock(width, width // 64) for _ in range(layers))}
        )
        self.proj = nn.Parameter(torch.zeros(width, size_out))

    def forward(self, values: Tensor) -> Tensor:
        """Features (N, D) of standardised pictures (N, 3, 224, 224)."""
        sites = self.conv1(values).flatten(2).transpose(1, 2)  # (N, patches, width)
        first = self.class_embedding.expand(len(sites), 1, -1)
        sites = self.ln_pre(torch.cat([first, sites], dim=1) + self.positional_embedding)
        for block in self.transformer["resblocks"]:  # type: ignore[attr-defined]
            sites = block(sites)
        found: Tensor = self.ln_post(sites[:, 0]) @ self.proj
        return found


def _read_clip(path: Path) -> State:
    """The picture tower's tensors in single precision; the text tower's are left out."""
    found, _ = weight_files.read_tensors(path)
    return {
        name.removeprefix(_VISUAL): value.float()
        for name, value in found.items()
        if name.startswith(_VISUAL)
    }


class LayerScale(nn.Module):
    """Each number times its own learned factor."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, values: Tensor) -> Tensor:
        """(N, sites, width)."""
        return values * self.gamma


class JointAttention(nn.Module):
    """Attention whose queries, keys and values come from one layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, values: Tensor) -> Tensor:
        """Pass (N, sites, width)."""
        count, sites, width = values.shape
        parts = self.qkv(values).view(count, sites, 3, self.heads, width // self.heads)
        asked, keys, said = parts.permute(2, 0, 3, 1, 4)  # (N, heads, sites, width / heads) each
        mixed = nn.functional.scaled_dot_product_attention(asked, keys, said)
        found: Tensor = self.proj(mixed.transpose(1, 2).reshape(count, sites, width))
        return found


class DinoBlock(nn.Module):
    """Attention, then two layers at each site, each scaled and beside its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, eps=_DINO_EPSILON) for _ in range(2))
        self.attn = JointAttention(width, heads)
        self.ls1, self.ls2 = LayerScale(width), LayerScale(width)
        self.mlp = nn.ModuleDict(
            {"fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width)}
        )

    def forward(self, values: Tensor) -> Tensor:
        """Pass (N, sites, width) through the block."""
        values = values + self.ls1(self.attn(self.norm1(values)))
        inner = nn.functional.gelu(self.mlp["fc1"](self.norm2(values)))
        found: Tensor = values + self.ls2(self.mlp["fc2"](inner))
        return found


class DinoTower(nn.Module):
    """DINOv2 with patches of 14 x 14 pixels; its class token is the feature."""

    def __init__(self, *, width: int, layers: int) -> None:
        super().__init__()
        self.cls_token, self.mask_token = (
            nn.Parameter(torch.zeros(shape)) for shape in ((1, 1, width), (1, width))
        )
        self.pos_embed = nn.Parameter(torch.zeros(1, _DINO_LEARNED**2 + 1, width))
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, width, 14, 14)})
        self.blocks = nn.ModuleList(DinoBlock(width, width // 64) for _ in range(layers))
        self.norm = nn.LayerNorm(width, eps=_DINO_EPSILON)

    def forward(self, values: Tensor) -> Tensor:
        """Features (N, D) of standardised pictures (N, 3, H, W), sides multiples of 14."""
        sites = self.patch_embed["proj"](values)
        where = self._resize_positions(sites.shape[2], sites.shape[3])
        sites = sites.flatten(2).transpose(1, 2)  # (N, patches, width)
        sites = torch.cat([self.cls_token.expand(len(sites), 1, -1), sites], dim=1) + where
        for block in self.blocks:
            sites = block(sites)
        found: Tensor = self.norm(sites)[:, 0]
        return found

    def _resize_positions(self, height: int, width: int) -> Tensor:
        """Those that were learned, stretched to this many patches as DINOv2 does it."""
        first, others = self.pos_embed[:, :1], self.pos_embed[:, 1:]
        side = math.isqrt(others.shape[1])
        if (height, width) == (side, side):
            return self.pos_embed
        grid = others.view(1, side, side, -1).permute(0, 3, 1, 2)
        factors = tuple((length + _DINO_OFFSET) / side for length in (height, width))
        grid = nn.functional.interpolate(grid, scale_factor=factors, mode="bicubic")
        return torch.cat([first, grid.flatten(2).transpose(1, 2)], dim=1)


BACKBONES = (
    *(
        FeatureBackbone(
            name=f"clip_vit_{name}",
            make=functools.partial(
                ClipTower, width=width, layers=layers, patch=patch, size_out=size_out
            ),
            read=_read_clip,
            published=f"CLIP {title} (of an archive of programs, save its state_dict() first)",
            colours=_CLIP_COLOURS,
        )
        for name, title, width, layers, patch, size_out in (
            ("b32", "ViT-B/32", 768, 12, 32, 512),
            ("l14", "ViT-L/14", 1024, 24, 14, 768),
        )
    ),
    FeatureBackbone(
        name="dinov2_vits14",
        make=functools.partial(DinoTower, width=384, layers=12),
        read=make_state_reader(),
        published="DINOv2 ViT-S/14 without registers (dinov2_vits14_pretrain.pth)",
    ),
)
