"""PPEDCRF's two networks: where a place is told, and textures that hide it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from masquerade.errors import BadInput
from masquerade.networks import place_networks

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
torch.set_num_threads(1)


def _codes(rng: np.random.Generator, size: tuple[int, int]) -> list[np.ndarray]:
    shapes = place_networks.list_code_shapes(*size)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("size", [(5, 9), (64, 107), (45, 80)])
def test_a_picture_of_any_size_gets_a_logit_for_each_pixel(size: tuple[int, int]) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    found = place_networks.predict_place_logits(picture)
    assert found.shape == size and found.dtype == np.float32
    assert abs(float(found.mean())) < 1e-3 and float(found.std()) == pytest.approx(2.0, rel=1e-3)


def test_where_nothing_stands_out_every_logit_is_0() -> None:
    net = place_networks.PlaceSensitivity()
    torch.nn.init.zeros_(net.out.weight)
    assert not place_networks.predict_place_logits(np.zeros((32, 40, 3), np.uint8), net).any()


def test_the_taught_map_sees_more_in_furniture_than_in_a_bare_wall() -> None:
    picture = np.full((64, 107, 3), 150, np.uint8)
    rng = np.random.default_rng(1)
    picture[20:44, 60:90] = rng.integers(0, 256, (6, 10, 3), np.uint8).repeat(4, 0).repeat(3, 1)
    found = place_networks.predict_place_logits(picture)
    assert found[20:44, 60:90].mean() > found[20:44, 15:45].mean() + 0.5


def test_a_canvas_has_variance_1_and_hangs_on_its_numbers_alone() -> None:
    net = place_networks.load_texture_net()
    rng = np.random.default_rng(0)
    first, second = _codes(rng, (64, 96)), _codes(rng, (64, 96))
    one, same, other = (
        place_networks.render_texture(net, codes) for codes in (first, first, second)
    )
    assert one.shape == (64, 96, 3)
    assert float(one.std()) == pytest.approx(1.0, rel=1e-3) and abs(float(one.mean())) < 1e-3
    assert np.array_equal(one, same)
    assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.3


def test_canvases_have_nothing_in_common_that_could_be_taken_out() -> None:
    net, rng = place_networks.load_texture_net(), np.random.default_rng(3)
    made = np.stack([place_networks.render_texture(net, _codes(rng, (64, 64))) for _ in range(16)])
    assert float(np.mean(made.mean(axis=0) ** 2)) < 0.15, "a 16th is left by chance"
    with torch.no_grad():
        given = ([torch.tensor(each)[None] for each in _codes(rng, (64, 64))] for _ in range(16))
        raw = torch.cat([net(each) for each in given])
    assert float(raw.mean(dim=0).square().mean()) > 0.2, "what it was before"


def test_canvases_fill_many_more_dimensions_than_a_bank_of_patterns() -> None:
    net, rng = place_networks.load_texture_net(), np.random.default_rng(0)
    rows = np.stack(
        [place_networks.render_texture(net, _codes(rng, (64, 64))).ravel() for _ in range(48)]
    )
    spread = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    share = spread / spread.sum()
    assert float(np.exp(-np.sum(share[:47] * np.log(share[:47])))) > 24, "of 47 there could be"


def test_weights_are_written_and_read_again(tmp_path: Path) -> None:
    net = place_networks.PlaceTexture()
    place_networks.save_texture(net, tmp_path / "a.safetensors", command="words")
    read = place_networks.load_texture_net(tmp_path / "a.safetensors")
    assert torch.allclose(read.out.weight, net.out.weight, atol=1e-3)
    with pytest.raises(BadInput, match="place_texture"):
        place_networks.load_texture_net(place_networks.SENSITIVITY_WEIGHTS)
    with pytest.raises(BadInput, match="no such file"):
        place_networks.load_texture_net(tmp_path / "none.safetensors")
