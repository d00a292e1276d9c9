"""Networks of others as a mechanism: what they draw comes out, and what is wrong is said."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

import onnx_by_hand as onnx
from masquerade.errors import BadInput
from masquerade.guarantee import GuaranteeKind
from masquerade.mechanisms import learned_filter
from masquerade.mechanisms.learned_filter import LearnedFilter
from masquerade.noise import Noise
from masquerade.receipt import Receipt, receipt_path

torch = pytest.importorskip("torch")


def some_video(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)


def released(mechanism: LearnedFilter, frames: np.ndarray) -> np.ndarray:
    return np.asarray(mechanism.apply(frames, Noise()))


def onnx_file(path: Path, operation: str, **more: Any) -> str:
    path.write_bytes(onnx.one_step(operation, **more))
    return str(path)


def script_file(path: Path, net: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.trace(net, torch.zeros(1, 3, 8, 8), check_trace=False).save(str(path))
    return str(path)


class Opposite(torch.nn.Module):
    """Black for white, in pictures from 0 to 1."""

    def forward(self, picture: Any) -> Any:
        return 1 - picture


class Tall(torch.nn.Module):
    """Twice as high."""

    def forward(self, picture: Any) -> Any:
        return torch.cat([picture, picture], dim=2)


class Twice(torch.nn.Module):
    """Two pictures."""

    def forward(self, picture: Any) -> Any:
        return picture, picture


class Broken(torch.nn.Module):
    """No numbers."""

    def forward(self, picture: Any) -> Any:
        return picture / 0 * 0


def test_the_network_that_comes_along_is_made_here_and_shows_means() -> None:
    assert learned_filter._BUNDLED_FILES["soften"].read_bytes() == onnx.soften()
    frames = some_video(2, 20, 31)
    out = released(learned_filter.LearnedFilter(network="soften"), frames)
    wanted = [ndimage.uniform_filter(frame.astype(float), (5, 5, 0)) for frame in frames]
    assert np.abs(out - np.array(wanted))[:, 2:-2, 2:-2].max() <= 0.51
    assert not np.array_equal(out, frames)


@pytest.mark.parametrize("size", [(1, 1, 1), (3, 5, 3), (2, 33, 70)])
def test_any_size_works_and_the_input_is_not_written_to(size: tuple[int, ...]) -> None:
    frames = some_video(*size)
    frames.setflags(write=False)
    out = released(LearnedFilter(network="soften", multiple=8), frames)
    assert out.shape == frames.shape and not np.shares_memory(out, frames)
    assert np.array_equal(out, released(LearnedFilter(network="soften", multiple=8), frames))


def test_onnx_and_torch_script_draw_the_same(tmp_path: Path) -> None:
    frames = some_video(2, 9, 12)
    script = script_file(tmp_path / "net.pt", Opposite())
    assert np.array_equal(released(LearnedFilter(network=script), frames), 255 - frames)
    negative = onnx_file(tmp_path / "net.onnx", "Neg")
    mechanism = LearnedFilter(network=negative, low=-1.0, high=1.0)
    assert np.array_equal(released(mechanism, frames), 255 - frames)


@pytest.mark.parametrize("colours", ["rgb", "bgr"])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (0.0, 255.0)])
def test_layout_colours_and_range_go_in_and_come_out_alike(
    tmp_path: Path, colours: str, low: float, high: float
) -> None:
    frames = some_video(1, 6, 7)
    same = onnx_file(tmp_path / "net.onnx", "Identity", shape=(1, "H", "W", 3))
    mechanism = LearnedFilter(network=same, layout="nhwc", colours=colours, low=low, high=high)
    assert np.array_equal(released(mechanism, frames), frames)


def test_what_the_network_sees_is_what_was_asked_for(tmp_path: Path) -> None:
    same = onnx_file(tmp_path / "net.onnx", "Identity")
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    net = learned_filter.load_network(
        Path(same).read_bytes(),
        "net",
        LearnedFilter(network=same, mean=mean, std=std, colours="bgr")._find_convention(),
    )
    frame = some_video(1, 4, 5)[0]
    wanted = ((frame / 255 - mean) / std)[..., ::-1].transpose(2, 0, 1)[None]
    assert np.allclose(net._make_network_input(frame), wanted, atol=1e-5)


@pytest.mark.parametrize("kind", [onnx.HALF, onnx.BYTE])
def test_networks_may_take_halves_and_bytes(tmp_path: Path, kind: int) -> None:
    frames = some_video(1, 6, 7)
    same = onnx_file(tmp_path / "net.onnx", "Identity", kind=kind)
    out = released(LearnedFilter(network=same, high=255.0), frames)
    assert np.array_equal(out, frames)


def test_a_fixed_size_is_stretched_to_and_back(tmp_path: Path) -> None:
    same = onnx_file(tmp_path / "net.onnx", "Identity", shape=(1, 3, 8, 16))
    frames = np.full((1, 30, 50, 3), 77, np.uint8)
    mechanism = LearnedFilter(network=same, height=8, width=16)
    assert np.array_equal(released(mechanism, frames), frames)
    for wrong in ({}, {"height": 8, "width": 8}):
        with pytest.raises(BadInput, match="8 x 16"):
            released(LearnedFilter(network=same, **wrong), frames)


@pytest.mark.parametrize(
    ("net", "said"),
    [(Tall(), r"size that it takes.*\(1, 3, 8, 4\)"), (Twice(), "tuple"), (Broken(), "NaN")],
    ids=["tall", "twice", "broken"],
)
def test_what_is_no_picture_ends_the_release(tmp_path: Path, net: Any, said: str) -> None:
    script = script_file(tmp_path / "net.pt", net)
    with pytest.raises(BadInput, match=said):
        released(LearnedFilter(network=script), some_video(1, 4, 4))


def test_a_network_that_takes_no_picture_is_refused(tmp_path: Path) -> None:
    flat = onnx_file(tmp_path / "net.onnx", "Identity", shape=(1, 3))
    with pytest.raises(BadInput, match="four axes"):
        released(LearnedFilter(network=flat), some_video(1, 4, 4))
    one = onnx_file(tmp_path / "one.onnx", "Identity", shape=(1, 1, "H", "W"))
    with pytest.raises(BadInput, match="layout"):
        released(LearnedFilter(network=one), some_video(1, 4, 4))


@pytest.mark.parametrize("content", [b"", b"rubbish", b"PK\x03\x04 rubbish"])
def test_a_file_that_is_no_network_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"Expected an? (ONNX|TorchScript) network in net\.onnx"):
        released(LearnedFilter(network=str(path)), some_video(1, 4, 4))


def test_a_missing_file_and_a_changed_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        LearnedFilter(network=str(tmp_path / "nothing.onnx"))
    path = tmp_path / "net.onnx"
    mechanism = LearnedFilter(network=onnx_file(path, "Identity"))
    onnx_file(path, "Neg")
    with pytest.raises(BadInput, match="SHA-256"):
        released(mechanism, some_video(1, 4, 4))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"sha256": "abc"}, "SHA-256 in small letters, got sha256='abc'"),
        ({"height": 8}, r"both height and width.*height=8 and width=None"),
        ({"height": 0, "width": 8}, "height=0"),
        ({"low": 1.0}, r"black below white, got 1\.0 and 1\.0"),
        ({"out_low": 2.0}, r"black below white, got 2\.0 and 1\.0"),
        ({"high": float("nan")}, "finite"),
        ({"mean": (0.5, 0.5)}, r"three numbers, got mean=\(0\.5, 0\.5\)"),
        ({"std": (0.5, 0.5, 0.0)}, "std"),
        ({"layout": "chw"}, "choose from nchw, nhwc"),
        ({"colours": "grey"}, "choose from rgb, bgr"),
        ({"multiple": 0}, "multiple=0"),
    ],
)
def test_bad_fields_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        LearnedFilter(network="soften", **fields)


def test_frames_are_taken_and_given_one_by_one() -> None:
    taken = []

    def source() -> Iterator[np.ndarray]:
        for number, frame in enumerate(some_video(4, 6, 6)):
            taken.append(number)
            yield frame

    stream = learned_filter.LearnedFilter(network="soften").stream(source(), (4, 6, 6, 3), Noise())
    for number, _ in enumerate(stream):
        assert len(taken) == number + 1


def test_the_receipt_has_the_hash_and_not_where_the_file_lies(tmp_path: Path, command: Any) -> None:
    network = onnx_file(tmp_path / "mine.onnx", "Neg")
    source, target = tmp_path / "in.npy", tmp_path / "out.npy"
    np.save(source, some_video(2, 6, 6))
    words = ("--mechanism", "learned_filter", "--network", network, "--low", "-1", "--high", "1")
    assert command("release", source, target, *words).code == 0
    text = receipt_path(target).read_text()
    receipt = Receipt.from_json(text)
    assert receipt.guarantee.kind is GuaranteeKind.HEURISTIC and receipt.guarantee.epsilon is None
    assert receipt.fields["sha256"] == hashlib.sha256(Path(network).read_bytes()).hexdigest()
    assert "mine.onnx" in text and str(tmp_path) not in text
    Path(network).unlink()  # whoever checks a receipt need not have the network
    assert command("receipt", "check", target).code == 0
