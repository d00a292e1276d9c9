"""One person's faces are near each other in real films, and other people's are far."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import skimage.data

from conftest import python
from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.io.video import read
from masquerade.vision.face_detector import FaceDetector, OutputLayout, load_detector
from masquerade.vision.face_recogniser import (
    MAX_SAME_DISTANCE,
    NETWORKS,
    FaceRecogniser,
    compute_distances,
)

pytest.importorskip("onnxruntime")
pytest.importorskip("dlib")

import dlib

EYES = FaceRecogniser()
BOX = np.array([[66.0, 37.0, 112.0, 96.0]])  # of the man in the car, in the first frame


def asset(name: str) -> Path:
    try:
        return downloads.fetch_asset(name)
    except (OSError, BadInput) as error:
        pytest.skip(f"{name} cannot be had: {error}")


@pytest.fixture(scope="module", autouse=True)
def files() -> None:
    for name in NETWORKS:
        asset(name)


@pytest.fixture(scope="module")
def detect() -> FaceDetector:
    return load_detector(
        asset("centerface"), layout=OutputLayout.CENTERFACE, thresh=0.5, height=None
    )


@pytest.fixture(scope="module")
def car() -> np.ndarray:
    """A man talks in a car, 144 lines; his face turns and moves."""
    return read.read_segment(asset("carphone"), 0, 120)[[0, 40, 119]]


def test_one_man_is_near_himself_and_far_from_a_woman(
    car: np.ndarray, detect: FaceDetector
) -> None:
    man = np.vstack(EYES.embed_all(car, [detect(frame)[:1] for frame in car]))
    picture = skimage.data.astronaut()
    woman = EYES.embed(picture, detect(picture)[:1])
    assert man.shape == (3, 128) and man.dtype == np.float32 and woman.shape == (1, 128)
    assert (
        compute_distances(man, man).max() < MAX_SAME_DISTANCE < compute_distances(man, woman).min()
    )
    np.testing.assert_allclose(man[1], EYES.embed(car[1], detect(car[1])[:1])[0], atol=1e-4)


def test_two_small_faces_of_one_frame_are_told_apart() -> None:
    """Faces of 30 by 40 pixels: a woman from the side, and a man."""
    film = read.read_segment(asset("sports2d_demo"), 60, 81)[[0, 20], :640]
    boxes = np.array([[[1379, 560], [612, 118]], [[1196, 544], [621, 113]]])
    before, after = (
        EYES.embed(frame, np.hstack([corners, np.add(corners, (30, 40))]))
        for frame, corners in zip(film, boxes, strict=True)
    )
    apart = compute_distances(before, after)
    assert apart.diagonal().max() < min(apart[0, 1], apart[1, 0])


def test_points_and_not_the_box_decide_what_is_cut_out(car: np.ndarray) -> None:
    (chip,), (moved,) = EYES.cut_chips(car[0], BOX), EYES.cut_chips(car[0], BOX + 3)
    assert chip.shape == (150, 150, 3) and chip.dtype == np.uint8
    beside = np.roll(chip, (8, 8), axis=(0, 1))  # three pixels of the frame
    apart = [np.abs(chip.astype(float) - other).mean() for other in (moved, beside)]
    assert apart[0] < 0.5 * apart[1]


def test_no_box_is_no_face_and_the_smallest_frame_is_no_trouble(car: np.ndarray) -> None:
    assert EYES.embed(car[0], np.zeros((0, 5))).shape == (0, 128)
    assert [len(each) for each in EYES.embed_all(car[:2], [BOX, BOX[:0]])] == [1, 0]
    for frame in (car[0][:1, :1], car[0][:, :1]):
        found = EYES.embed(frame, np.array([[0.0, 0.0, 1.0, 1.0], [-50.0, -60.0, -20.0, -20.0]]))
        assert found.shape == (2, 128) and np.all(np.isfinite(found))


def test_another_process_loads_the_files_itself(car: np.ndarray) -> None:
    again = pickle.loads(pickle.dumps(EYES))
    assert again == EYES and "_network" not in vars(again)
    np.testing.assert_allclose(again.embed(car[0], BOX), EYES.embed(car[0], BOX), atol=1e-4)
    assert all(downloads.find_asset(name).sha256 in EYES.in_words for name in NETWORKS)


@pytest.mark.parametrize(
    "boxes", [np.zeros(4), np.zeros((1, 4)), np.full((1, 4), np.nan), np.array([[5, 5, 1, 9.0]])]
)
def test_boxes_without_a_size_are_refused(car: np.ndarray, boxes: np.ndarray) -> None:
    with pytest.raises(ValueError, match="Expected boxes as"):
        EYES.embed(car[0], boxes)


def test_frames_of_another_kind_are_refused(car: np.ndarray) -> None:
    for frame in (car[0] / 255, car[0][:0], car[0][..., 0]):
        with pytest.raises(ValueError, match="Expected frame"):
            EYES.embed(frame, BOX)
    with pytest.raises(ValueError, match="boxes for each of 3 frames, got 1"):
        EYES.embed_all(car, [BOX])


def test_files_that_are_no_such_models_are_refused(tmp_path: Path, car: np.ndarray) -> None:
    with pytest.raises(BadInput, match="no such file"):
        FaceRecogniser(network=tmp_path / "no.dat").load_networks()
    broken = tmp_path / "broken.dat"
    broken.write_bytes(asset(NETWORKS[0]).read_bytes()[:1000])
    for fields in ({"network": broken}, {"points": broken}, {"network": asset(NETWORKS[1])}):
        with pytest.raises(BadInput, match=r"Give that file, or none"):
            FaceRecogniser(**fields).load_networks()


def test_a_model_of_other_points_is_refused(tmp_path: Path) -> None:
    square = dlib.rectangle(0, 0, 30, 30)
    points = dlib.points()
    points.extend([dlib.point(5, 5), dlib.point(20, 20)])
    options = dlib.shape_predictor_training_options()
    options.cascade_depth, options.tree_depth, options.num_trees_per_cascade_level = 1, 1, 1
    shown = dlib.full_object_detection(square, points)
    picture = np.arange(900, dtype=np.uint8).reshape(30, 30)
    model = dlib.train_shape_predictor([picture], [[shown]], options)
    model.save(str(tmp_path / "two.dat"))
    with pytest.raises(BadInput, match=r"5 points in .*two.dat, got one of 2"):
        FaceRecogniser(points=tmp_path / "two.dat").load_networks()


def test_without_dlib_the_line_that_installs_it_is_said() -> None:
    code = (
        "import sys; sys.modules['dlib'] = None\n"
        "from masquerade.errors import MissingExtra\n"
        "from masquerade.vision.face_recogniser import FaceRecogniser\n"
        "try:\n    FaceRecogniser().load_networks()\n"
        "except MissingExtra as error:\n    print(error)\n"
    )
    assert "pip install 'masquerade[attack]'" in python(code)
