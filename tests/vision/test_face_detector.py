from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import onnx_by_hand as onnx
from masquerade.errors import BadInput, MissingExtra
from masquerade.io import devices, downloads
from masquerade.io.video import read
from masquerade.mechanisms.face_blur import FaceBlur
from masquerade.noise import Noise
from masquerade.vision.face_detector import (
    OutputLayout,
    decode_boxes,
    decode_centerface,
    load_detector,
    without_doubles,
    working_size,
)
from masquerade.vision.network_files import free_sizes, num_threads


def asset(name: str) -> Path:
    try:
        return downloads.fetch_asset(name)
    except (OSError, BadInput) as error:
        pytest.skip(f"{name} cannot be had: {error}")


def tensors() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Heatmap, size and offset of a picture of 64 by 128 pixels without faces."""
    return np.zeros((1, 1, 16, 32)), np.zeros((1, 2, 16, 32)), np.zeros((1, 2, 16, 32))


def test_a_cell_is_decoded_to_its_box() -> None:
    heat, size, offset = tensors()
    heat[0, 0, 5, 20] = 0.7
    size[0, :, 5, 20] = math.log(8), math.log(4)  # 32 pixels high, 16 wide
    offset[0, :, 5, 20] = 0.25, -0.5
    (face,) = decode_centerface([heat, size, offset], thresh=0.5)
    middle = 4 * (20 + 0.5 - 0.5), 4 * (5 + 0.5 + 0.25)
    expected = [middle[0] - 8, middle[1] - 16, middle[0] + 8, middle[1] + 16, 0.7]
    assert face == pytest.approx(expected)


def test_cells_below_the_threshold_are_no_faces() -> None:
    heat, size, offset = tensors()
    heat[0, 0, 3, 3], heat[0, 0, 9, 9] = 0.2, 0.199
    assert len(decode_centerface([heat, size, offset], thresh=0.2)) == 1
    assert decode_centerface([heat, size, offset], thresh=0.3).shape == (0, 5)


def test_a_size_beyond_all_numbers_stays_finite() -> None:
    heat, size, offset = tensors()
    heat[0, 0, 3, 3], size[0, :, 3, 3] = 0.9, 500.0
    assert np.all(np.isfinite(decode_centerface([heat, size, offset], thresh=0.2)))


def test_of_boxes_that_overlap_the_best_is_kept() -> None:
    faces = np.array([[0, 0, 10, 10, 0.5], [1, 1, 11, 11, 0.9], [20, 0, 30, 10, 0.3]])
    assert without_doubles(faces).tolist() == [faces[1].tolist(), faces[2].tolist()]
    assert without_doubles(np.zeros((0, 5))).shape == (0, 5)
    assert len(without_doubles(np.zeros((3, 5)))) == 3


@pytest.mark.parametrize(
    ("size", "height", "expected"),
    [
        ((1, 1), None, (32, 32)),
        ((33, 31), None, (64, 32)),
        ((1080, 1920), None, (1088, 1920)),
        ((1920, 1080), 540, (960, 544)),
        ((2160, 3840), 540, (544, 960)),
        ((144, 176), 540, (160, 192)),
        ((2, 4000), 540, (32, 4000)),
        ((4000, 2000), 1, (32, 32)),
    ],
)
def test_the_working_size_is_a_multiple_of_32_and_never_more_than_needed(
    size: tuple[int, int], height: int | None, expected: tuple[int, int]
) -> None:
    assert working_size(*size, height=height) == expected


@pytest.mark.parametrize("scores", [[0.9, 0.1], [[0.9], [0.1]], [[0.1, 0.9], [0.9, 0.1]]])
def test_boxes_with_scores_are_decoded_whatever_axes_stand_in_front(scores: list[object]) -> None:
    boxes = np.array([[[1, 2, 3, 4], [5, 6, 7, 8]]], dtype=np.float32)
    found = decode_boxes([boxes, np.array([scores])], thresh=0.5)
    assert found == pytest.approx(np.array([[1, 2, 3, 4, 0.9]]))
    assert decode_boxes([np.zeros((1, 0, 4)), np.zeros((1, 0))], thresh=0.5).shape == (0, 5)


def network(size: tuple[onnx.Side, ...], **outputs: np.ndarray) -> bytes:
    """An ONNX file by hand: whatever the picture, these tensors come out."""
    graph = onnx.message(2, b"by hand") + onnx.message(11, onnx.tensor("picture", (1, 3, *size)))
    for name, values in outputs.items():
        stored = b"".join(onnx.number(1, side) for side in values.shape) + onnx.number(2, 1)
        stored += onnx.message(8, b"_" + name.encode())
        stored += onnx.message(9, values.astype("<f4").tobytes())
        node = onnx.message(1, b"_" + name.encode()) + onnx.message(2, name.encode())
        graph += onnx.message(1, node + onnx.message(4, b"Identity")) + onnx.message(5, stored)
        graph += onnx.message(12, onnx.tensor(name, values.shape))
    return onnx.number(1, 8) + onnx.message(7, graph) + onnx.message(8, onnx.number(2, 13))


@pytest.mark.parametrize("size", [(64, 32), ("height", "width")])
def test_any_network_with_boxes_and_scores_may_be_plugged_in(
    tmp_path: Path, size: tuple[int | str, ...]
) -> None:
    path = tmp_path / "net.onnx"
    boxes = np.array([[4, 8, 12, 24], [4, 8, 12, 24], [0, 0, 9, 9]])
    path.write_bytes(network(size, boxes=boxes, scores=np.array([0.8, 0.9, 0.1])))
    detect = load_detector(path, layout=OutputLayout.BOXES_SCORES, thresh=0.5, height=None)
    scale = [2, 1, 2, 1, 1] if size == (64, 32) else [1, 1, 1, 1, 1]  # stretched to 64 by 32
    found = detect(np.zeros((64, 64, 3), np.uint8))
    assert found == pytest.approx(np.array([[4, 8, 12, 24, 0.9]]) * scale)
    mechanism = FaceBlur(detector=str(path), detector_layout="boxes_scores", style="solid")
    white = np.full((2, 64, 64, 3), 255, np.uint8)
    released = np.asarray(mechanism.apply(white, Noise()))
    assert not np.any(released[:, 8:24, 4 * scale[0] : 12 * scale[0]])


@pytest.mark.parametrize("box", [[9, 9, 5, 5], [9, 9, 12, 5], [0.2, 0.2, 0.5, 0.9]])
def test_boxes_that_are_no_corners_in_pixels_are_refused(box: list[float]) -> None:
    with pytest.raises(BadInput, match="corners and pixels"):
        decode_boxes([np.array([box]), np.array([0.9])], thresh=0.5)
    assert not len(decode_boxes([np.array([box]), np.array([0.1])], thresh=0.5))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_network_that_answers_nonsense_ends_the_release(tmp_path: Path, wrong: float) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(network((32, 32), boxes=np.zeros((1, 4)), scores=np.array([wrong])))
    mechanism = FaceBlur(detector=str(path), detector_layout="boxes_scores")
    with pytest.raises(BadInput, match="NaN or infinity"):
        mechanism.apply(np.zeros((1, 40, 40, 3), np.uint8), Noise())


def test_a_network_of_another_layout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(network((32, 32), boxes=np.zeros((1, 4)), scores=np.array([0.5])))
    with pytest.raises(BadInput, match="layout"):
        FaceBlur(detector=str(path)).apply(np.zeros((1, 40, 40, 3), np.uint8), Noise())
    path.write_bytes(network((), boxes=np.zeros((1, 4)), scores=np.array([0.5])))
    for layout in OutputLayout:
        with pytest.raises(BadInput, match="axes"):
            load_detector(path, layout=layout, thresh=0.2, height=None)
    path.write_bytes(network((32, 32), heat=np.zeros((1, 1, 8, 8))))
    with pytest.raises(BadInput, match="layout"):
        FaceBlur(detector=str(path), detector_layout="boxes_scores").apply(
            np.zeros((1, 40, 40, 3), np.uint8), Noise()
        )


def test_a_gpu_that_onnxruntime_cannot_use_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(network((32, 32), boxes=np.zeros((1, 4)), scores=np.array([0.5])))
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    monkeypatch.setattr(devices, "device_name", lambda: "cuda:0")
    with pytest.raises(MissingExtra, match="onnxruntime-gpu"):
        load_detector(path, layout=OutputLayout.BOXES_SCORES, thresh=0.2, height=None)


@pytest.mark.parametrize(("allowed", "expected"), [("1", 1), ("0", None), ("", None)])
def test_a_worker_among_others_keeps_to_its_threads(
    monkeypatch: pytest.MonkeyPatch, allowed: str, expected: int | None
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", allowed)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    assert num_threads() == (expected or 3)


def test_sizes_are_freed_and_weights_are_no_inputs() -> None:
    model = asset("centerface").read_bytes()
    session = onnxruntime.InferenceSession(free_sizes(model), providers=["CPUExecutionProvider"])
    (picture,) = session.get_inputs()
    assert picture.shape[1] == 3 and not any(isinstance(picture.shape[i], int) for i in (0, 2, 3))
    shown = np.zeros((1, 3, 64, 96), dtype=np.float32)
    assert session.run(None, {picture.name: shown})[0].shape == (1, 1, 16, 24)


@pytest.mark.parametrize("keep", [0, 1, 40, -1])
def test_a_file_that_is_cut_off_is_refused(keep: int) -> None:
    whole = network((32, 32), boxes=np.zeros((1, 4)), scores=np.zeros(1))
    assert free_sizes(whole)
    with pytest.raises(BadInput, match="ONNX"):
        free_sizes(whole[:keep])


@pytest.mark.parametrize("height", [None, 100])
def test_centerface_finds_the_man_in_the_car_in_every_frame(height: int | None) -> None:
    path = asset("centerface")
    detect = load_detector(path, layout=OutputLayout.CENTERFACE, thresh=0.2, height=height)
    for frame in read.read_segment(asset("carphone"), 0, 10):
        (face,) = detect(frame)
        assert face[4] > 0.5
        assert np.all(np.abs((face[:2] + face[2:4]) / 2 - (85, 70)) < 25), face
        assert 35 < face[3] - face[1] < 85


def test_centerface_finds_in_a_part_what_it_finds_in_the_whole() -> None:
    path = asset("centerface")
    detect = load_detector(path, layout=OutputLayout.CENTERFACE, thresh=0.2, height=None)
    (frame,) = read.read_segment(asset("carphone"), 0, 1)
    large = np.zeros((720, 960, 3), np.uint8)
    large[200 : 200 + frame.shape[0], 300 : 300 + frame.shape[1]] = frame
    (face,) = detect(large)
    (again,) = detect.search_near(large, face[None, :4] + 6.0)
    assert again[:4] == pytest.approx(face[:4], abs=4)
    assert again[4] == pytest.approx(face[4], abs=0.15)
    assert not len(detect.search_near(large, np.array([[700.0, 20.0, 720.0, 40.0]])))


def test_a_network_that_takes_no_parts_sees_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(network((32, 32), boxes=np.array([[4, 8, 12, 24]]), scores=np.array([0.9])))
    detect = load_detector(path, layout=OutputLayout.BOXES_SCORES, thresh=0.5, height=None)
    frame = np.zeros((320, 320, 3), np.uint8)
    assert np.array_equal(detect.search_near(frame, np.array([[0, 0, 9, 9]])), detect(frame))


@pytest.mark.parametrize("size", [(1, 1), (5, 3), (31, 33), (2160, 3840)])
def test_centerface_takes_frames_of_any_size(size: tuple[int, int]) -> None:
    asset("centerface")
    values = np.zeros((1, *size, 3), dtype=np.uint8)
    assert np.asarray(FaceBlur().apply(values, Noise())).shape == values.shape
