from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masquerade.vision.tracks import FaceTracks, compute_overlap

FRAMES = 25
speeds = st.floats(-8.0, 8.0)
holds = st.integers(0, 6)


def face(left: float, top: float, *, side: float = 40.0) -> np.ndarray:
    return np.array([left, top, left + side, top + side, 0.9])


def walk(across: float, down: float, *, start: tuple[float, float] = (500, 500)) -> np.ndarray:
    """A face in each frame, at constant velocity."""
    return np.array([face(start[0] + across * t, start[1] + down * t) for t in range(FRAMES)])


def follow(faces: dict[int, list[np.ndarray]], *, hold: int) -> list[np.ndarray]:
    """The boxes to cover in each frame, asked for as late as a stream may."""
    tracks = FaceTracks(hold=hold)
    boxes = []
    for frame in range(FRAMES + hold):
        if frame < FRAMES:
            tracks.link_faces(frame, np.array(faces.get(frame, [])).reshape(-1, 5))
        if frame >= hold:
            boxes.append(tracks.list_boxes(frame - hold))
    return boxes


def is_covered(boxes: np.ndarray, truth: np.ndarray, *, least: float = 0.8) -> bool:
    return bool(np.any(compute_overlap(truth, boxes) >= least))


@settings(max_examples=30)
@given(speeds, speeds, holds, st.data())
def test_gaps_of_up_to_hold_frames_are_covered_in_every_frame(
    across: float, down: float, hold: int, data: st.DataObject
) -> None:
    truth = walk(across, down)
    found: dict[int, list[np.ndarray]] = {}
    frame = data.draw(st.integers(0, FRAMES - 1))
    while frame < FRAMES:
        found[frame] = [truth[frame]]
        frame += 1 + data.draw(st.integers(0, hold))
    boxes = follow(found, hold=hold)
    for t in range(min(found), max(found) + 1):
        assert is_covered(boxes[t], truth[t]), t


@settings(max_examples=30)
@given(speeds, speeds, holds, st.integers(1, 12))
def test_a_face_is_held_at_both_ends_for_less_long_than_it_was_found(
    across: float, down: float, hold: int, length: int
) -> None:
    truth = walk(across, down)
    boxes = follow({t: [truth[t]] for t in range(8, 8 + length)}, hold=hold)
    before, after = min(hold // 2, length - 1), min(hold, length - 1)  # half of what lies ahead
    for t in range(FRAMES):
        is_held = 8 - before <= t < 8 + length + after
        assert len(boxes[t]) == is_held
        if is_held and (length > 4 or 8 <= t < 8 + length):  # the velocity is known
            assert is_covered(boxes[t], truth[t])


def test_a_face_found_once_is_covered_there_and_one_found_twice_a_frame_longer() -> None:
    boxes = follow({20: [face(7, 9)]}, hold=3)
    assert [len(each) for each in boxes] == [t == 20 for t in range(FRAMES)]
    boxes = follow({15: [face(7, 9)], 18: [face(7, 9)]}, hold=3)
    assert [len(each) for each in boxes] == [15 <= t <= 19 for t in range(FRAMES)]
    assert all(np.array_equal(boxes[t][0], face(7, 9)[:4]) for t in range(15, 20))


def test_finds_may_be_farther_apart_where_fewer_frames_are_searched() -> None:
    tracks = FaceTracks(hold=0, every=4)
    for t in range(0, FRAMES, 4):
        tracks.link_faces(t, np.array([face(7, 9)] if t in (8, 12) else []).reshape(-1, 5))
    assert [len(tracks.list_boxes(t)) for t in range(FRAMES)] == [
        8 <= t <= 12 for t in range(FRAMES)
    ]


@pytest.mark.parametrize(("score", "held"), [(0.2, 1), (0.3, 2), (0.5, 3), (1.0, 3)])
def test_a_face_that_was_not_sure_is_held_for_less_long(score: float, held: int) -> None:
    found = {t: [face(7, 9) * [1, 1, 1, 1, score / 0.9]] for t in (10, 11, 12, 13)}
    boxes = follow(found, hold=6)
    assert [t for t in range(FRAMES) if len(boxes[t])] == list(range(10 - held, 14 + held))


def test_two_faces_that_cross_keep_their_ways() -> None:
    one, other = walk(6, 0, start=(100, 200)), walk(-6, 0, start=(244, 210))
    blind = range(10, 14)  # they cross in frame 12, while nobody sees them
    found = {t: [one[t], other[t]] for t in range(FRAMES) if t not in blind}
    tracks = FaceTracks(hold=4)
    for t in range(FRAMES):
        tracks.link_faces(t, np.array(found.get(t, [])).reshape(-1, 5))
    assert len(tracks.live) == 2
    for t, boxes in enumerate(follow(found, hold=4)):
        assert len(boxes) == 2
        assert is_covered(boxes, one[t], least=0.95) and is_covered(boxes, other[t], least=0.95)


def test_a_face_that_jumps_is_covered_on_both_sides_of_the_jump() -> None:
    found = {9: [face(0, 0)], 10: [face(0, 0)], 12: [face(900, 900)], 13: [face(900, 900)]}
    boxes = follow(found, hold=2)
    assert [len(boxes[t]) for t in range(7, 16)] == [0, 1, 1, 1, 2, 1, 1, 1, 0]
    assert is_covered(boxes[11], face(0, 0)) and is_covered(boxes[11], face(900, 900))


def test_a_small_face_inside_a_big_one_is_another_face() -> None:
    boxes = follow({t: [face(0, 0, side=200 if t < 20 else 40)] for t in range(FRAMES)}, hold=1)
    assert len(boxes[20]) == 2


@settings(max_examples=30)
@given(st.lists(st.floats(20.0, 60.0), min_size=FRAMES, max_size=FRAMES), holds)
def test_what_was_found_is_covered_whole(sides: list[float], hold: int) -> None:
    found = {t: [face(300 - side / 2, 300 - side / 2, side=side)] for t, side in enumerate(sides)}
    for t, boxes in enumerate(follow(found, hold=hold)):
        box = found[t][0]
        holds_it = (boxes[:, :2] <= box[:2] + 1e-9) & (boxes[:, 2:] >= box[2:4] - 1e-9)
        assert np.any(np.all(holds_it, axis=1)), t


@settings(max_examples=30)
@given(st.data(), holds)
def test_a_stream_covers_what_is_covered_when_all_is_known(data: st.DataObject, hold: int) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    found = {
        t: [face(*rng.uniform(0, 200, 2), side=rng.uniform(10, 90)) for _ in range(rng.integers(4))]
        for t in range(FRAMES)
    }
    tracks = FaceTracks(hold=hold)
    for t in range(FRAMES):
        tracks.link_faces(t, np.array(found[t]).reshape(-1, 5))
    for t, boxes in enumerate(follow(found, hold=hold)):
        assert np.array_equal(boxes, tracks.list_boxes(t))


def test_overlap_of_boxes_without_area_is_nothing() -> None:
    point = np.array([3.0, 3.0, 3.0, 3.0])
    assert compute_overlap(point, point[None]) == pytest.approx(0)
    assert compute_overlap(point, np.zeros((0, 4))).shape == (0,)
