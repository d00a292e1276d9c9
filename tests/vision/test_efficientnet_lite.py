"""The rebuilt network reads the published weights and names what is in a picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import skimage.data

from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.vision import convolutional

torch = pytest.importorskip("torch")


CATS = {281, 282, 283, 284, 285, 287}  # tabby, tiger, Persian, Siamese, Egyptian cat, lynx
ESPRESSO, CUP = 967, 968
FLYING = {657, 744, 812}  # missile, projectile, space shuttle


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for a busy core are slower than one that works."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def net() -> object:
    try:
        path = downloads.fetch_asset("efficientnet_lite0")
    except (OSError, BadInput) as error:
        pytest.skip(f"efficientnet_lite0 cannot be had: {error}")
    return convolutional.load_efficientnet_lite(path)


def squared(image: np.ndarray) -> np.ndarray:
    side = min(image.shape[:2])
    top, left = ((length - side) // 2 for length in image.shape[:2])
    return image[top : top + side, left : left + side]


def likeliest(name: str, net: object, count: int) -> set[int]:
    image = squared(getattr(skimage.data, name)())
    features = torch.from_numpy(convolutional.embed_images(image[None], net=net))
    logits = net._fc(features)[0].numpy()  # type: ignore[attr-defined]
    return {int(number) for number in np.argsort(-logits)[:count]}


def test_a_cat_is_a_cat(net: object) -> None:
    assert likeliest("chelsea", net, 4) <= CATS


def test_a_cup_of_coffee_is_espresso(net: object) -> None:
    assert likeliest("coffee", net, 1) == {ESPRESSO}
    assert likeliest("coffee", net, 2) == {ESPRESSO, CUP}


def test_a_rocket_flies_and_an_astronaut_is_no_cat(net: object) -> None:
    assert likeliest("rocket", net, 4) >= FLYING
    assert not likeliest("astronaut", net, 20) & CATS


def test_black_is_minus_one_and_white_is_one(net: object) -> None:
    images = np.stack([np.zeros((50, 60, 3), np.uint8), np.full((50, 60, 3), 255, np.uint8)])
    ends = torch.tensor([-1.0, 1.0]).view(2, 1, 1, 1).expand(2, 3, 224, 224)
    expected = net(ends).numpy()  # type: ignore[attr-defined]
    np.testing.assert_allclose(convolutional.embed_images(images, net=net), expected, atol=1e-4)
    assert np.abs(expected[0] - expected[1]).max() > 0.1


def test_features_do_not_depend_on_the_batch(net: object) -> None:
    names = ("chelsea", "coffee", "astronaut")
    images = np.stack([squared(getattr(skimage.data, name)())[:300, :300] for name in names])
    together = convolutional.embed_images(images, net=net)
    apart = convolutional.embed_images(images, net=net, batch=1)
    assert together.shape == (3, 1280) and together.dtype == np.float32
    np.testing.assert_allclose(together, apart, atol=1e-4)
    assert 0 <= together.min() and together.max() <= 6  # means of ReLU6
    assert np.abs(together[0] - together[1]).mean() > 0.1


def test_like_pictures_have_like_features(net: object) -> None:
    cat, cup = (squared(getattr(skimage.data, name)()) for name in ("chelsea", "coffee"))
    images = [cat[:300, :300], cat[:300, :300][:, ::-1], cup[:300, :300]]
    features = convolutional.embed_images(np.stack(images), net=net)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    assert features[0] @ features[1] > 0.9 > features[0] @ features[2]


def test_other_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.pth"
    torch.save({"weight": torch.zeros(3)}, path)
    with pytest.raises(BadInput, match=r"weights of efficientnet_lite0, got .*other\.pth"):
        convolutional.load_efficientnet_lite(path)
    path.write_bytes(b"no weights at all")
    with pytest.raises(BadInput, match="fetch the asset"):
        convolutional.load_efficientnet_lite(path)


def test_pictures_of_another_shape_are_refused(net: object) -> None:
    with pytest.raises(ValueError, match="uint8"):
        convolutional.embed_images(np.zeros((2, 8, 8, 3)), net=net)
    with pytest.raises(ValueError, match=r"\(8, 8, 3\)"):
        convolutional.embed_images(np.zeros((8, 8, 3), np.uint8), net=net)
