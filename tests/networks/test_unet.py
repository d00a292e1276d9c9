"""The U-Net takes any size, keeps frames apart, and is read again as it was written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from masquerade.errors import BadInput
from masquerade.networks import small_networks, weight_files

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")


@pytest.fixture
def net() -> small_networks.UNet:
    torch.manual_seed(0)
    return small_networks.UNet().eval()


@pytest.mark.parametrize("size", [(1, 1), (8, 8), (7, 30), (33, 17)])
def test_a_picture_of_any_size_keeps_it(net: small_networks.UNet, size: tuple[int, int]) -> None:
    drawn = net(torch.rand(2, 3, *size))
    assert drawn.shape == (2, 3, *size) and bool((drawn.abs() <= 1).all())


def test_no_picture_touches_another(net: small_networks.UNet) -> None:
    pictures = torch.rand(3, 3, 16, 24)
    changed = pictures.clone()
    changed[1] = 0
    with torch.no_grad():
        before, after = net(pictures), net(changed)
    assert torch.allclose(before[[0, 2]], after[[0, 2]], atol=1e-5)
    assert not torch.allclose(before[1], after[1], atol=1e-2)


@pytest.mark.parametrize("size", [(1, 1), (20, 31), (200, 301)])
def test_a_frame_is_redrawn_at_its_own_size(
    net: small_networks.UNet, size: tuple[int, int]
) -> None:
    frame = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    frame.setflags(write=False)
    drawn = small_networks.redraw_frame(net, frame, lines=96)
    assert drawn.shape == frame.shape and drawn.dtype == np.uint8
    assert np.array_equal(drawn, small_networks.redraw_frame(net, frame, lines=96))


def test_the_network_never_sees_more_lines_than_it_should(net: small_networks.UNet) -> None:
    seen = []
    net.register_forward_pre_hook(lambda _, given: seen.append(tuple(given[0].shape[2:])))
    for size in ((720, 1280), (1280, 720), (96, 96), (40, 4000)):
        small_networks.redraw_frame(net, np.zeros((*size, 3), np.uint8), lines=96)
    assert seen == [(96, 171), (171, 96), (96, 96), (40, 4000)]


def test_weights_are_read_as_they_were_written(net: small_networks.UNet, tmp_path: Path) -> None:
    small_networks.save_unet(net, tmp_path / "a.safetensors")
    assert (tmp_path / "a.safetensors").stat().st_size < 1_500_000
    other = small_networks.UNet()
    weight_files.load_weights(other, tmp_path / "a.safetensors", keep_head=True)
    for mine, theirs in zip(net.parameters(), other.parameters(), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-3) and theirs.dtype == torch.float32


def test_weights_that_are_not_there_are_named_with_what_makes_them() -> None:
    with pytest.raises(BadInput, match=r"python tools/anonymise.py --task nobody"):
        small_networks.load_pretrained_unet("nobody")
