"""Our attention is torchvision's: the same numbers, gradients and names of parameters."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from masquerade.networks import weight_files  # noqa: E402
from masquerade.networks.mvit_layers import Attention, LastBlock, compute_pooled_shape  # noqa: E402

home = weight_files._mvit_module
SHAPES = {  # tokens, strides of queries, strides of keys and values
    "fewer keys": ((4, 8, 8), (1, 1, 1), (1, 4, 4)),
    "fewer queries": ((4, 8, 8), (1, 2, 2), (1, 1, 1)),
    "a table for other sizes": ((2, 7, 7), (1, 2, 2), (1, 4, 4)),
    "nothing pooled": ((2, 3, 5), (), ()),
}


def made(shape: Any, stride_q: Any, stride_kv: Any, **fields: Any) -> Any:
    torch.manual_seed(1)
    known = {"residual_pool": True, "residual_with_cls_embed": False, "rel_pos_embed": True}
    return home.MultiscaleAttention(
        list(shape),
        12,
        16,
        2,
        kernel_q=[3, 3, 3] if stride_q else [],
        kernel_kv=[3, 3, 3] if stride_kv else [],
        stride_q=list(stride_q),
        stride_kv=list(stride_kv),
        **(known | fields),
    ).double()


@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize("way", ["v2", "v1", "class kept"])
def test_it_is_the_same_function_with_the_same_gradients(case: str, way: str) -> None:
    shape, *strides = SHAPES[case]
    ways = {"v2": {}, "v1": {"residual_pool": False, "rel_pos_embed": False}}
    other = made(shape, *strides, **ways.get(way, {"residual_with_cls_embed": True}))
    ours = Attention(other, shape).double()
    assert [name for name, _ in ours.named_parameters()] == [n for n, _ in other.named_parameters()]
    assert list(ours.state_dict()) == list(other.state_dict())
    x = torch.rand(2, 1 + shape[0] * shape[1] * shape[2], 12, dtype=torch.float64)
    (wanted, after), (found, ours_after) = other(x, shape), ours(x, shape)
    assert tuple(after) == ours_after == compute_pooled_shape(shape, other.pool_q)
    assert torch.allclose(found, wanted, rtol=0, atol=1e-13)
    weights = list(other.parameters())
    pairs = zip(
        torch.autograd.grad(wanted.square().sum(), weights),
        torch.autograd.grad(found.square().sum(), weights),
        strict=True,
    )
    assert all(torch.allclose(one, two, rtol=1e-9, atol=1e-11) for one, two in pairs)


def test_places_count() -> None:
    shape, *strides = SHAPES["fewer keys"]
    other = made(shape, *strides)
    ours = Attention(other, shape).double()
    x = torch.rand(1, 1 + 4 * 8 * 8, 12, dtype=torch.float64)
    before = ours(x, shape)[0]
    with torch.no_grad():
        other.rel_pos_t += torch.rand_like(other.rel_pos_t)
    assert not torch.allclose(ours(x, shape)[0], before), "the very parameters"


@pytest.mark.parametrize("way", ["v2", "v1", "class kept", "project later"])
def test_of_the_last_block_the_class_token_is_the_same(way: str) -> None:
    torch.manual_seed(2)
    shape, channels = (2, 4, 4), 24 if way in ("v2", "project later") else 12
    setting = home.MSBlockConfig(2, 12, channels, [3, 3, 3], [3, 3, 3], [1, 2, 2], [1, 2, 2])
    other = home.MultiscaleBlock(
        list(shape),
        setting,
        residual_pool=way != "v1",
        residual_with_cls_embed=way == "class kept",
        rel_pos_embed=way != "v1",
        proj_after_attn=way != "project later",
    ).double()
    x = torch.rand(3, 33, 12, dtype=torch.float64)
    names = list(other.state_dict())
    wanted, after = other(x, shape)
    weights = list(other.parameters())
    true = torch.autograd.grad(wanted[:, 0].square().sum(), weights, materialize_grads=True)
    other.attn = Attention(other.attn, shape).double()
    ours = LastBlock(other)
    found, ours_after = ours(x, shape)
    assert list(ours.state_dict()) == names and ours_after == tuple(after)
    assert found.shape == (3, 1, channels)
    assert torch.allclose(found[:, 0], wanted[:, 0], rtol=0, atol=1e-13)
    got = torch.autograd.grad(found.square().sum(), weights, materialize_grads=True)
    pairs = zip(true, got, strict=True)
    assert all(torch.allclose(one, two, rtol=1e-9, atol=1e-11) for one, two in pairs)
