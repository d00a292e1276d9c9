"""The towers of CLIP and DINOv2 compute what their papers' code does, under its names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade.errors import BadInput
from masquerade.vision import vision_transformers as towers
from masquerade.vision.backbones import FeatureBackbone

torch = pytest.importorskip("torch")


F = torch.nn.functional
WIDTH, HEADS = 128, 2


def small(net: Any) -> Any:
    torch.manual_seed(0)
    for value in net.parameters():
        value.data.normal_(0, 0.3)
    return net.eval().requires_grad_(False)


def clip_tower() -> Any:
    return small(towers.ClipTower(width=WIDTH, layers=2, patch=112, size_out=16))


def attention(values: Any, weight: Any, bias: Any) -> Any:
    """By hand: a softmax over sites for each head."""
    asked, keys, said = (
        part.view(*part.shape[:2], HEADS, WIDTH // HEADS).transpose(1, 2)
        for part in (values @ weight.T + bias).chunk(3, dim=-1)
    )
    shares = (asked @ keys.transpose(2, 3) / (WIDTH // HEADS) ** 0.5).softmax(dim=-1)
    return (shares @ said).transpose(1, 2).reshape(values.shape)


def clip_by_hand(values: Any, state: dict[str, Any]) -> Any:
    def norm(inner: Any, name: str) -> Any:
        return F.layer_norm(inner, (WIDTH,), state[f"{name}.weight"], state[f"{name}.bias"])

    patches = values.unfold(2, 112, 112).unfold(3, 112, 112)  # (N, 3, 2, 2, 112, 112)
    sites = torch.einsum("nchwij,ocij->nhwo", patches, state["conv1.weight"]).flatten(1, 2)
    first = state["class_embedding"].expand(len(sites), 1, WIDTH)
    sites = norm(torch.cat([first, sites], 1) + state["positional_embedding"], "ln_pre")
    for number in range(2):
        at = f"transformer.resblocks.{number}"
        mixed = attention(
            norm(sites, f"{at}.ln_1"),
            state[f"{at}.attn.in_proj_weight"],
            state[f"{at}.attn.in_proj_bias"],
        )
        sites = sites + F.linear(
            mixed, state[f"{at}.attn.out_proj.weight"], state[f"{at}.attn.out_proj.bias"]
        )
        inner = F.linear(
            norm(sites, f"{at}.ln_2"), state[f"{at}.mlp.c_fc.weight"], state[f"{at}.mlp.c_fc.bias"]
        )
        inner = inner * torch.sigmoid(1.702 * inner)
        sites = sites + F.linear(
            inner, state[f"{at}.mlp.c_proj.weight"], state[f"{at}.mlp.c_proj.bias"]
        )
    return norm(sites[:, 0], "ln_post") @ state["proj"]


def test_clips_tower_is_the_one_by_hand() -> None:
    net, values = clip_tower(), torch.randn(2, 3, 224, 224)
    expected = clip_by_hand(values, net.state_dict())
    np.testing.assert_allclose(net(values), expected, rtol=1e-3, atol=1e-3)


def dino_by_hand(values: Any, state: dict[str, Any], positions: Any) -> Any:
    def norm(inner: Any, name: str) -> Any:
        weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
        return F.layer_norm(inner, (WIDTH,), weight, bias, eps=1e-6)

    sites = F.conv2d(values, state["patch_embed.proj.weight"], state["patch_embed.proj.bias"], 14)
    sites = torch.cat([state["cls_token"].expand(len(values), 1, WIDTH), sites.flatten(2).mT], 1)
    sites = sites + positions
    for number in range(2):
        at = f"blocks.{number}"
        mixed = attention(
            norm(sites, f"{at}.norm1"), state[f"{at}.attn.qkv.weight"], state[f"{at}.attn.qkv.bias"]
        )
        mixed = F.linear(mixed, state[f"{at}.attn.proj.weight"], state[f"{at}.attn.proj.bias"])
        sites = sites + state[f"{at}.ls1.gamma"] * mixed
        inner = F.linear(
            norm(sites, f"{at}.norm2"), state[f"{at}.mlp.fc1.weight"], state[f"{at}.mlp.fc1.bias"]
        )
        inner = F.linear(F.gelu(inner), state[f"{at}.mlp.fc2.weight"], state[f"{at}.mlp.fc2.bias"])
        sites = sites + state[f"{at}.ls2.gamma"] * inner
    return norm(sites, "norm")[:, 0]


def test_dinov2_is_the_one_by_hand_at_the_size_it_was_trained_for() -> None:
    net, values = small(towers.DinoTower(width=WIDTH, layers=2)), torch.randn(1, 3, 518, 518)
    expected = dino_by_hand(values, net.state_dict(), net.pos_embed)
    np.testing.assert_allclose(net(values), expected, rtol=1e-3, atol=1e-3)


def test_dinov2s_positions_keep_their_order_when_they_are_stretched() -> None:
    net = towers.DinoTower(width=WIDTH, layers=1).eval().requires_grad_(False)
    ramp = torch.arange(37.0).repeat(37, 1)  # grows to the right
    net.pos_embed[0, 1:, 0] = ramp.flatten()
    net.pos_embed[0, 1:, 1] = ramp.T.flatten()  # grows downwards
    found = net._resize_positions(16, 16)[0, 1:, :2].view(16, 16, 2)
    assert net._resize_positions(37, 37) is net.pos_embed
    right, down = found[8, :, 0], found[:, 8, 1]
    np.testing.assert_allclose(right.diff()[1:-1], 37 / 16.1, atol=0.12)
    np.testing.assert_allclose(right.mean(), (16 / 2) * 37 / 16.1 - 0.5, atol=0.03)
    np.testing.assert_allclose(right, down, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "tensors", "shapes"),
    [
        (
            "clip_vit_b32",
            152,
            {
                "positional_embedding": (50, 768),
                "proj": (768, 512),
                "conv1.weight": (768, 3, 32, 32),
            },
        ),
        ("clip_vit_l14", 296, {"positional_embedding": (257, 1024), "proj": (1024, 768)}),
        (
            "dinov2_vits14",
            175,
            {"pos_embed": (1, 1370, 384), "blocks.11.attn.qkv.weight": (1152, 384)},
        ),
    ],
)
def test_towers_have_the_shapes_of_the_published_files(
    name: str, tensors: int, shapes: dict[str, tuple[int, ...]]
) -> None:
    (known,) = (each for each in towers.BACKBONES if each.name == name)
    with torch.device("meta"):
        state = known.make().state_dict()
    assert len(state) == tensors
    assert {key: tuple(state[key].shape) for key in shapes} == shapes


def test_of_clips_file_the_text_tower_is_left_out_and_halves_become_whole(tmp_path: Path) -> None:
    net, path = clip_tower(), tmp_path / "clip.pt"
    visual = {f"visual.{key}": value.half() for key, value in net.state_dict().items()}
    text = {"positional_embedding": torch.zeros(77, 8), "token_embedding.weight": torch.zeros(9, 8)}
    torch.save(visual | text, path)
    known = FeatureBackbone(
        name="small", make=clip_tower, read=towers._read_clip, published="nobody's"
    )
    loaded = known.load_net(path)
    assert loaded.proj.dtype == torch.float32
    torch.testing.assert_close(loaded.proj, net.proj.half().float())
    torch.save({**visual, "visual.more": torch.zeros(1)}, path)
    with pytest.raises(BadInput, match=r"more.* too many"):
        known.load_net(path)
