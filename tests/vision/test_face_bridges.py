from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from masquerade.vision.tracks import BoxBridges, FaceTracks, compute_overlap, share_inside

FRAMES = 12


def face(left: float, top: float, *, side: float = 40.0) -> np.ndarray:
    return np.array([left, top, left + side, top + side, 0.9])


def crowd(seed: int) -> list[np.ndarray]:
    """Faces of all sizes that come, go and overlap, frame by frame."""
    rng = np.random.default_rng(seed)
    return [
        np.array(
            [face(*rng.uniform(0, 150, 2), side=rng.uniform(10, 90)) for _ in range(count)]
        ).reshape(-1, 5)
        for count in rng.integers(0, 5, FRAMES)
    ]


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_between_two_finds_at_one_place_half_of_the_face_is_always_covered(
    seed: int, hold: int
) -> None:
    found = crowd(seed)
    tracks = FaceTracks(hold=hold)
    for t, faces in enumerate(found):
        tracks.link_faces(t, faces)
    covered = [tracks.list_boxes(t) for t in range(FRAMES)]
    for start, missed in product(range(FRAMES), range(1, hold + 1)):
        after = found[start + missed + 1] if start + missed + 1 < FRAMES else np.zeros((0, 5))
        for first in found[start] if len(after) else ():
            shared = compute_overlap(first, after)
            if np.max(shared) >= 0.3:
                for step in range(1, missed + 1):
                    box = first + (after[np.argmax(shared)] - first) * step / (missed + 1)
                    assert np.max(share_inside(box, covered[start + step])) >= 0.5 - 1e-9


def test_a_face_is_covered_where_its_track_went_to_another() -> None:
    stays, passes_by = face(100, 100), face(130, 100)
    tracks = FaceTracks(hold=3)
    for t in range(6):
        tracks.link_faces(t, np.array([passes_by if t == 3 else stays]))
    boxes = [tracks.list_boxes(t) for t in range(6)]
    assert np.max(share_inside(stays, boxes[3])) == 1


def test_what_a_track_covers_needs_no_bridge() -> None:
    bridges = BoxBridges(reach=3)
    bridges.add_finds(0, face(0, 0)[None])
    bridges.add_finds(3, face(6, 0)[None])
    assert bridges.find_missing_boxes(np.array([[2.0, 0.0, 42.0, 40.0]]), frame=1).shape == (0, 4)
    assert bridges.find_missing_boxes(np.zeros((0, 4)), frame=2).tolist() == [
        [4.0, 0.0, 44.0, 40.0]
    ]
    assert bridges.find_missing_boxes(np.zeros((0, 4)), frame=3).shape == (0, 4)


def test_finds_beyond_reach_or_at_other_places_are_not_joined() -> None:
    bridges = BoxBridges(reach=3)
    bridges.add_finds(0, face(0, 0)[None])
    bridges.add_finds(4, face(30, 0)[None])
    bridges.add_finds(9, face(30, 0)[None])
    assert all(not len(bridges.find_missing_boxes(np.zeros((0, 4)), frame=t)) for t in range(10))


def test_a_long_hold_does_not_grow_the_work() -> None:
    bridges = BoxBridges(reach=1000)
    for t in range(200):
        bridges.add_finds(t, face(0, 0)[None])
    assert len(bridges._bridges) < 200 * 8
