"""People in real frames, and where doubt falls."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.io.video import read
from masquerade.vision import network_files
from masquerade.vision.network_files import LiteNetwork
from masquerade.vision.person_detector import (
    NETWORKS,
    PersonDetector,
    PersonSegmenter,
    drop_twin_detections,
)

pytest.importorskip("ai_edge_litert")
pytest.importorskip("cv2")


WALKER = np.s_[480:980, 1000:1500]  # of the frame


def asset(name: str) -> Path:
    try:
        return downloads.fetch_asset(name)
    except (OSError, BadInput) as error:
        pytest.skip(f"{name} cannot be had: {error}")


@pytest.fixture(scope="module")
def frame() -> np.ndarray:
    """A real frame, in which a woman walks on the right and a man stands on the left, up."""
    for name in NETWORKS:
        asset(name)
    return read.read_segment(asset("sports2d_demo"), 80, 81)[0]


@pytest.fixture(scope="module")
def masks(frame: np.ndarray) -> dict[str, np.ndarray]:
    return {
        side: PersonSegmenter(private=side).segment_frame(frame[WALKER])
        for side in ("person", "background")
    }


def test_a_walker_is_found_where_she_is(frame: np.ndarray, masks: dict[str, np.ndarray]) -> None:
    for mask in masks.values():
        rows, columns = np.nonzero(mask)
        assert mask.dtype == bool and mask.shape == (500, 500) and 0.005 < mask.mean() < 0.5
        assert 150 < np.median(rows) < 400 and 120 < np.median(columns) < 380


def test_what_may_be_a_person_is_private_and_only_what_surely_is_one_is_public(
    masks: dict[str, np.ndarray],
) -> None:
    assert not (masks["background"] & ~masks["person"]).any()
    assert masks["person"].sum() > 1.1 * masks["background"].sum()


def test_a_larger_margin_or_threshold_makes_the_public_side_smaller(
    frame: np.ndarray, masks: dict[str, np.ndarray]
) -> None:
    surer = PersonSegmenter(private="background", threshold=0.95).segment_frame(frame[WALKER])
    wider = PersonSegmenter(private="background", margin_px=6).segment_frame(frame[WALKER])
    for mask in (surer, wider):
        assert not (mask & ~masks["background"]).any()
        assert mask.sum() < masks["background"].sum()


def test_in_an_empty_picture_nobody_is_public_also_in_another_process() -> None:
    for name in NETWORKS:
        asset(name)
    grey, segmenter = np.full((1, 60, 80, 3), 114, np.uint8), PersonSegmenter(private="background")
    assert not segmenter.segment_frames(grey).any()
    assert not pickle.loads(pickle.dumps(segmenter)).segment_frames(grey).any()


def test_small_people_in_a_large_frame_are_found(frame: np.ndarray) -> None:
    detect = PersonDetector(asset("pose_detection"), thresh=0.8, parts=(1, 2))
    people = detect(frame)
    hips = people[:, :2]
    for x, y in ((633, 280), (1229, 737)):  # the man and the woman
        assert np.hypot(*(hips - (x, y)).T).min() < 60
    assert not len(detect(np.zeros_like(frame[:64, :64])))


def test_of_two_findings_of_one_person_the_better_is_kept() -> None:
    people = np.array([[10, 10, 20, 0.6], [12, 11, 20, 0.9], [90, 10, 20, 0.7]])
    assert drop_twin_detections(people).tolist() == [people[1].tolist(), people[2].tolist()]
    assert drop_twin_detections(np.zeros((0, 4))).shape == (0, 4)


@pytest.mark.parametrize("fields", [{"threshold": 0.4}, {"threshold": 1.0}, {"margin_px": -1}])
def test_settings_that_protect_nobody_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="Expected"):
        PersonSegmenter(private="person", **fields)


def test_what_is_no_such_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        LiteNetwork(tmp_path / "no.tflite", outputs=())
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"TFL3" * 40)
    with pytest.raises(BadInput, match="Expected a TFLite network in broken"):
        LiteNetwork(broken, outputs=())
    with pytest.raises(BadInput, match="which takes"):
        LiteNetwork(asset("pose_detection"), outputs=((1, 256, 256, 1),))


def test_what_tflite_says_of_itself_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    with network_files._silence_stderr():
        os.write(2, b"INFO: Created a delegate")
    os.write(2, b"ours")
    assert capfd.readouterr().err == "ours"
