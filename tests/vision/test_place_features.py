"""Networks of others are rebuilt exactly, read their own files, and refuse everybody else's."""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage.data

from masquerade.errors import BadInput
from masquerade.networks.weight_files import torchvision
from masquerade.vision import convolutional, place_features
from masquerade.vision.backbones import FeatureBackbone
from masquerade.vision.place_features import PlaceFeatures, has_weights, list_backbones

torch = pytest.importorskip("torch")


models = torchvision.models
FETCHED = [name for name in list_backbones() if has_weights(name)]
KNOWN: dict[str, FeatureBackbone] = place_features._BACKBONES


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


def trained(net: Any) -> Any:
    """Random weights, and norms that have seen something."""
    for part in net.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.uniform_(-0.1, 0.1)
            part.running_var.uniform_(0.5, 1.5)
    return net.eval().requires_grad_(False)


def saved(tensors: dict[str, Any], path: Path) -> Path:
    torch.save(tensors, path)
    return path


def pictures() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (2, 224, 224, 3), np.uint8)


def given(name: str, path: Path, values: Any) -> np.ndarray:
    """What the rebuilt network makes of standardised pictures."""
    return np.asarray(KNOWN[name].load_net(path)(values))


def test_at_least_six_networks_need_no_file_and_the_papers_others_take_one() -> None:
    assert len(FETCHED) >= 6
    others = {"resnet18", "resnet50", "clip_vit_b32", "cosplace_resnet50", "dinov2_vits14"}
    assert others <= set(list_backbones()) - set(FETCHED)


@pytest.mark.parametrize("name", FETCHED)
def test_like_pictures_have_like_features(name: str) -> None:
    cat, cup = (getattr(skimage.data, each)()[:300, :300] for each in ("chelsea", "coffee"))
    try:
        found = PlaceFeatures(backbone=name, batch=2).embed(np.stack([cat, cat[:, ::-1], cup]))
    except (OSError, BadInput) as error:
        pytest.skip(f"{name} cannot be had: {error}")
    assert found.dtype == np.float32 and len(found) == 3
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    assert found[0] @ found[1] > 0.85 and found[0] @ found[1] > found[0] @ found[2] + 0.1


@pytest.mark.parametrize(
    ("name", "make"), [("resnet18", models.resnet18), ("resnet50", models.resnet50)]
)
def test_a_resnet_is_torchvisions(name: str, make: Callable[[], Any], tmp_path: Path) -> None:
    net = trained(make())
    path = saved(net.state_dict(), tmp_path / "net.pth")
    net.fc = torch.nn.Identity()
    values = torch.randn(2, 3, 96, 64)
    np.testing.assert_allclose(given(name, path, values), net(values), rtol=1e-3, atol=1e-4)


def test_cosplace_is_a_resnet_unit_sites_a_generalised_mean_and_a_map(tmp_path: Path) -> None:
    body = torch.nn.Sequential(*list(trained(models.resnet18()).children())[:-2])
    weight, bias, power = torch.randn(512, 512), torch.randn(512), torch.tensor([2.5])
    tensors = {f"backbone.{name}": value for name, value in body.state_dict().items()}
    tensors |= {"aggregation.1.p": power, "aggregation.3.weight": weight}
    path = saved(tensors | {"aggregation.3.bias": bias}, tmp_path / "cosplace.pth")
    values = torch.randn(2, 3, 96, 64)
    sites = torch.nn.functional.normalize(body(values), dim=1).clamp(min=1e-6)
    pooled = (sites**2.5).mean(dim=(2, 3)) ** (1 / 2.5)
    expected = pooled @ weight.T + bias
    found = given("cosplace_resnet18", path, values)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def flax(state: dict[str, Any], name: str) -> bytes:
    """The kernels as a file for JAX has them: (height, width, in, out), and heads beside them."""
    layers = list(dict.fromkeys(key.rpartition(".")[0] for key in state))
    held: dict[str, Any] = {
        f"Conv_{number}": {
            "kernel": state[f"{layer}.weight"].permute(2, 3, 1, 0).numpy().copy(),
            "bias": state[f"{layer}.bias"].numpy().copy(),
        }
        for number, layer in enumerate(layers)
    }
    return pickle.dumps({name: held, "NetLinLayer_0": {}}, protocol=3)


def layers_of(name: str) -> Any:
    if name == "vgg16":
        return models.vgg.make_layers(models.vgg.cfgs["D"], batch_norm=False)[:-1]
    return models.alexnet().features[:-1]


@pytest.mark.parametrize(("name", "title"), [("vgg16", "VGG16_0"), ("alexnet", "AlexNet_0")])
def test_plain_convolutions_are_torchvisions_from_either_file(
    name: str, title: str, tmp_path: Path
) -> None:
    body = trained(layers_of(name))
    state = {f"features.{key}": value for key, value in body.state_dict().items()}
    values = torch.randn(2, 3, 96, 64)
    expected = body(values).mean(dim=(2, 3))
    theirs = saved(state | {"classifier.6.bias": torch.zeros(1000)}, tmp_path / "theirs.pth")
    jax = tmp_path / "jax.ckpt"
    jax.write_bytes(flax(state, title))
    for path in (theirs, jax):
        np.testing.assert_allclose(given(name, path, values), expected, rtol=1e-3, atol=1e-5)


class Wicked:
    def __reduce__(self) -> tuple[Any, ...]:
        return subprocess.call, (["touch", "wicked"],)


def test_a_pickle_that_names_anything_but_arrays_is_refused_and_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "vgg16.ckpt"
    for held in (Wicked(), {"VGG16_0": {"Conv_0": Wicked()}}, {"VGG16_0": np.zeros(2)}):
        path.write_bytes(pickle.dumps(held, protocol=3))
        with pytest.raises(BadInput, match="arrays of VGG16_0"):
            PlaceFeatures(backbone="vgg16", weights=path).embed(pictures())
    assert not (tmp_path / "wicked").exists()
    with pytest.raises(pickle.UnpicklingError, match="not float32"):
        convolutional._use_float32("O8", False, True)


def small_resnet(path: Path) -> tuple[FeatureBackbone, dict[str, Any]]:
    make = partial(convolutional.ResNet, (1, 1, 1, 1), is_deep=False)
    known = FeatureBackbone(
        name="small", make=make, read=KNOWN["resnet18"].read, published="nobody's"
    )
    return known, trained(make()).state_dict()


def test_weights_must_fit_tensor_by_tensor(tmp_path: Path) -> None:
    path = tmp_path / "net.pth"
    known, state = small_resnet(path)
    without = {key: value for key, value in state.items() if "num_batches" not in key}
    known.load_net(saved(without, path))  # as older files are
    for change, said in (
        ({"strange": torch.zeros(1)}, r"strange.* too many and none missing"),
        ({"bn1.weight": torch.zeros(3)}, r"other shapes of .*bn1\.weight.*\(3,\), not \(64,\)"),
        ({"bn1.weight": torch.full((64,), torch.nan)}, "finite weights"),
    ):
        with pytest.raises(BadInput, match=said):
            known.load_net(saved(without | change, path))
    without.pop("conv1.weight")
    with pytest.raises(BadInput, match=r"conv1\.weight.* missing.*state dict of nobody's"):
        known.load_net(saved(without, path))
    path.write_bytes(b"no weights")
    with pytest.raises(BadInput, match="whole file of weights") as caught:
        known.load_net(path)
    assert "weights_only" not in str(caught.value)  # torch's advice to run what is in the file
    with pytest.raises(BadInput, match="no such file"):
        known.load_net(tmp_path / "nothing.pth")


def test_pictures_are_stretched_and_standardised_before_a_network_sees_them() -> None:
    class Means(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = torch.nn.Parameter(torch.ones(1))

        def forward(self, values: Any) -> Any:
            assert values.shape[1:] == (3, 224, 224)
            return values.mean(dim=(2, 3))

    frames = np.full((3, 20, 30, 3), (255, 0, 51), np.uint8)
    found = KNOWN["resnet18"].compute_features(frames, net=Means(), batch=2)
    expected = (np.array([1, 0, 0.2]) - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
    np.testing.assert_allclose(found, np.tile(expected, (3, 1)), rtol=1e-4)


def test_a_network_without_published_weights_asks_for_a_file() -> None:
    with pytest.raises(ValueError, match=r"file of weights for clip_vit_b32.*ViT-B/32.*vgg16"):
        PlaceFeatures(backbone="clip_vit_b32")
    with pytest.raises(ValueError, match="did you mean resnet18"):
        PlaceFeatures(backbone="resnet81")
    with pytest.raises(BadInput, match="no such file"):
        _ = PlaceFeatures(backbone="resnet18", weights=Path("nowhere.pth")).fingerprint


def test_frames_are_pictures_of_any_size(tmp_path: Path) -> None:
    net = trained(models.resnet18())
    eye = PlaceFeatures(backbone="resnet18", weights=saved(net.state_dict(), tmp_path / "n.pth"))
    for shape in ((1, 1, 1, 3), (2, 3, 50, 3)):
        assert eye.embed(np.zeros(shape, np.uint8)).shape == (shape[0], 512)
    for wrong in (
        np.zeros((2, 8, 8, 3)),
        np.zeros((8, 8, 3), np.uint8),
        np.zeros((0, 8, 8, 3), "u1"),
    ):
        with pytest.raises(ValueError, match=r"\(N, H, W, 3\) uint8"):
            eye.embed(wrong)


def test_a_fingerprint_is_of_the_network_and_of_its_weights(tmp_path: Path) -> None:
    one, other = (tmp_path / name for name in ("one.pth", "other.pth"))
    one.write_bytes(b"1"), other.write_bytes(b"2")
    names = [("resnet18", one), ("resnet18", other), ("resnet50", one)]
    found = {PlaceFeatures(backbone=name, weights=path).fingerprint for name, path in names}
    assert len(found) == 3
    eye = PlaceFeatures(backbone="resnet18", weights=one)
    assert pickle.loads(pickle.dumps(eye)) == eye
