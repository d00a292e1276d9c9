"""People are followed by their joints: crossing, missed for a while, gone."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("cv2")

from masquerade.vision.poses import NUM_JOINTS, PersonPose
from masquerade.vision.tracks import PersonTrack, track_poses

SHAPE = np.random.default_rng(0).uniform(-1, 1, (NUM_JOINTS, 2)) * (20, 50)


def person(
    x: float, y: float = 100.0, *, size: float = 1.0, shape: np.ndarray = SHAPE
) -> PersonPose:
    joints = np.ones((NUM_JOINTS, 4))
    joints[:, :2] = shape * size + (x, y)
    world = np.full((NUM_JOINTS, 3), x)
    nothing = np.zeros((256, 256), np.float32)
    return PersonPose(joints=joints, world=world, score=1.0, likely=nothing, to_frame=np.eye(2, 3))


def middles(track: PersonTrack) -> np.ndarray:
    return np.asarray((track.joints[..., :2] - SHAPE).mean(axis=1)[:, 0])


def test_two_who_cross_keep_their_tracks_in_whatever_order_they_are_found() -> None:
    film = [[person(10.0 * t), person(200 - 10.0 * t, 104.0)][:: (-1) ** t] for t in range(21)]
    one, other = track_poses(film)
    ways = {float(middles(each)[0]): middles(each) for each in (one, other)}
    np.testing.assert_allclose(ways[0.0], np.arange(0, 210, 10), atol=1e-9)
    np.testing.assert_allclose(ways[200.0], np.arange(200, -10, -10), atol=1e-9)


def test_a_gap_is_bridged_in_a_straight_line() -> None:
    film = [[person(3.0 * t)] if t not in (4, 5, 6) else [] for t in range(10)]
    (track,) = track_poses(film, gap=3)
    assert (track.start, track.stop_frame, len(track)) == (0, 10, 10)
    assert np.flatnonzero(~track.is_seen).tolist() == [4, 5, 6]
    np.testing.assert_allclose(middles(track), 3.0 * np.arange(10), atol=1e-9)
    np.testing.assert_allclose(track.world[:, 0, 0], 3.0 * np.arange(10), atol=1e-9)
    assert track.joints.shape == (10, NUM_JOINTS, 4) and track.world.shape == (10, NUM_JOINTS, 3)
    first = np.concatenate([SHAPE.min(axis=0), SHAPE.max(axis=0)])
    np.testing.assert_allclose(track.boxes[0] - (0, 100, 0, 100), first)


def test_a_longer_gap_ends_a_track() -> None:
    film = [[person(3.0 * t)] if t not in (4, 5, 6) else [] for t in range(10)]
    before, after = track_poses(film, gap=2)
    assert (before.start, before.stop_frame) == (0, 4) and (after.start, after.stop_frame) == (
        7,
        10,
    )


@pytest.mark.parametrize("other", [person(400.0), person(0.0, size=3.0)])
def test_who_is_far_away_or_of_another_size_is_somebody_else(other: PersonPose) -> None:
    film = [[person(0.0)]] * 3 + [[other]] * 3
    assert [(each.start, each.stop_frame) for each in track_poses(film)] == [(0, 3), (3, 6)]


def test_somebody_who_turns_round_at_once_is_followed() -> None:
    xs = [0.0, 30.0, 60.0, 30.0, 0.0]
    (track,) = track_poses([[person(x)] for x in xs])
    np.testing.assert_allclose(middles(track), xs, atol=1e-9)


def test_what_flashes_up_once_is_nobody_unless_asked_for() -> None:
    film = [[person(0.0)], [person(1.0), person(900.0)], [person(2.0)]]
    assert len(track_poses(film)) == 1
    once = track_poses(film, min_finds=1)[1]
    assert (once.start, len(once)) == (1, 1)


def test_an_empty_film_has_no_tracks() -> None:
    assert track_poses([]) == () and track_poses([[], []]) == ()


@pytest.mark.parametrize("settings", [{"gap": -1}, {"min_finds": 0}])
def test_settings_without_sense_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="Expected"):
        track_poses([], **settings)
