"""People are found once each, followed, and posed without spikes, swaps or phantoms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("cv2")

import few_tracks as few
from masquerade.avatars import pose
from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.vision.poses import JOINTS, NETWORKS, PoseLandmarks
from masquerade.vision.tracks import PersonTrack

HZ = few.RATE_HZ


def walker(**settings: object) -> PersonTrack:
    person = few.someone(1)
    return few.track_of(person, few.played("walk", person, heading=1.2, **settings))  # type: ignore[arg-type]


def shifted(track: PersonTrack, pixels: float) -> PersonTrack:
    joints = track.joints.copy()
    joints[..., 0] += pixels
    return replace(track, joints=joints)


def part(track: PersonTrack, rows: slice) -> PersonTrack:
    return PersonTrack(
        start=track.start + rows.start,
        joints=track.joints[rows],
        world=track.world[rows],
        is_seen=track.is_seen[rows],
    )


@pytest.fixture(scope="module")
def eyes() -> PoseLandmarks:
    for name in NETWORKS:
        try:
            downloads.fetch_asset(name)
        except (OSError, BadInput) as error:
            pytest.skip(f"{name} cannot be had: {error}")
    return PoseLandmarks(parts=(1,))


def test_two_who_cross_are_two_and_keep_their_tracks(eyes: PoseLandmarks) -> None:
    left, right = few.someone(1), few.someone(4)
    times = np.linspace(-1, 1, 30)[:, None, None] * [1.1, 0, 0]
    cast = []
    for person, heading, way, depth in ((left, np.pi / 2, 1, 0.0), (right, -np.pi / 2, -1, 0.9)):
        posed = few.played("walk", person, seconds=1.5, heading=heading)
        hips = posed.heads[:, :1] * [1, 1, 0]
        spot = np.array([0.0, depth, 0.0])
        cast.append((person, replace(posed, heads=posed.heads - hips + way * times + spot)))
    film = few.filmed(cast)
    watched: list[int] = []

    def watch(number: int, frame: np.ndarray, poses: object, found: np.ndarray | None) -> None:
        assert np.array_equal(frame, film[number])
        assert (found is not None) == (number % pose.choose_search_interval(HZ) == 0)
        watched.append(number)

    tracks = pose.track_people(iter(film), rate_hz=HZ, landmarks=eyes, watch=watch)
    assert watched == list(range(30))
    assert len(tracks) == 2, [(each.start, each.stop_frame) for each in tracks]
    for person, posed in cast:
        truth = few.track_of(person, posed).joints[:, JOINTS.index("left_hip"), 0]
        errors = [
            np.abs(
                each.joints[:, JOINTS.index("left_hip"), 0] - truth[each.start : each.stop_frame]
            )
            for each in tracks
        ]
        assert min(each.mean() for each in errors) < 6, [each.mean() for each in errors]


def test_nobody_and_one_frame(eyes: PoseLandmarks) -> None:
    empty = np.full((2, 120, 160, 3), 127, np.uint8)
    assert pose.track_people(empty, rate_hz=HZ, landmarks=eyes) == ()
    assert pose.track_people(iter(()), rate_hz=HZ, landmarks=eyes) == ()
    person = few.someone(1)
    film = few.filmed([(person, few.played("wave", person, seconds=0.05))])
    (track,) = pose.track_people(film, rate_hz=HZ, landmarks=eyes)
    assert (track.start, track.stop_frame) == (0, 1)


def test_a_missing_network_file_is_named(tmp_path: Path) -> None:
    lost = PoseLandmarks(model=tmp_path / "lost.tflite")
    with pytest.raises(BadInput, match=r"lost\.tflite"):
        pose.track_people([np.zeros((32, 32, 3), np.uint8)] * 2, rate_hz=HZ, landmarks=lost)
        lost.load_networks()


def test_left_and_right_that_change_places_for_a_while_are_put_back() -> None:
    track = walker()
    (right,) = pose.mend_tracks([track], rate_hz=HZ)
    order = [
        JOINTS.index({"l": "right_", "r": "left_"}[name[0]] + name.partition("_")[2])
        if name.startswith(("left_", "right_")) and "eye" not in name and "ear" not in name
        else place
        for place, name in enumerate(JOINTS)
    ]
    joints, world = track.joints.copy(), track.world.copy()
    joints[12:20], world[12:20] = joints[12:20][:, order], world[12:20][:, order]
    (mended,) = pose.mend_tracks([replace(track, joints=joints, world=world)], rate_hz=HZ)
    np.testing.assert_allclose(mended.joints[..., :2], right.joints[..., :2], atol=1e-6)


def test_a_spike_is_not_believed_and_a_shake_is_smoothed() -> None:
    track = walker()
    rng = np.random.default_rng(2)
    joints = track.joints.copy()
    joints[..., :2] += rng.normal(0, 2.0, joints[..., :2].shape)
    joints[20, JOINTS.index("left_wrist"), :2] += 80
    (mended,) = pose.mend_tracks([replace(track, joints=joints)], rate_hz=HZ)
    before = np.abs(joints[..., :2] - track.joints[..., :2]).mean()
    after = np.abs(mended.joints[..., :2] - track.joints[..., :2]).mean()
    assert after < 0.85 * before
    wrist = mended.joints[20, JOINTS.index("left_wrist")]
    assert np.abs(wrist[:2] - track.joints[20, JOINTS.index("left_wrist"), :2]).max() < 8
    assert wrist[2] < 0.99


def test_trust_falls_with_the_time_since_a_joint_was_seen() -> None:
    track = walker()
    joints = track.joints.copy()
    joints[15:30, JOINTS.index("left_wrist"), 2] = 0.0
    (mended,) = pose.mend_tracks([replace(track, joints=joints)], rate_hz=HZ)
    trust = mended.joints[:, JOINTS.index("left_wrist"), 2]
    assert trust[14] > 0.95 > trust[15] > trust[18] > trust[22] and trust[22] < 0.3
    assert np.isfinite(mended.joints).all()


def test_a_body_found_twice_in_part_or_with_another_size_is_one_person() -> None:
    track = walker()
    again = part(shifted(track, 4.0), slice(10, 30))
    (one,) = pose.mend_tracks([track, again], rate_hz=HZ)
    assert (one.start, one.stop_frame) == (0, len(track))
    head = track.joints[:, :11, :2].mean(axis=1, keepdims=True)
    joints = track.joints.copy()
    joints[..., :2] = head + 0.1 * (joints[..., :2] - head)
    joints[..., 2] = 0.95
    assert (
        len(
            pose.mend_tracks([track, part(replace(track, joints=joints), slice(5, 15))], rate_hz=HZ)
        )
        == 1
    )


def test_who_is_lost_for_a_moment_is_the_same_and_who_stands_beside_is_not() -> None:
    track = walker()
    (one,) = pose.mend_tracks([part(track, slice(0, 15)), part(track, slice(22, 40))], rate_hz=HZ)
    assert (one.start, one.stop_frame) == (0, 40)
    assert np.flatnonzero(~one.is_seen).tolist() == list(range(15, 22))
    both = pose.mend_tracks([track, shifted(track, 60.0)], rate_hz=HZ)
    assert len(both) == 2


def test_what_flashes_up_or_is_doubtful_or_no_body_is_nobody() -> None:
    track = walker()
    assert pose.mend_tracks([part(track, slice(3, 5))], rate_hz=HZ, num_frames=40) == ()
    joints = track.joints.copy()
    joints[..., 2] *= 0.6
    assert pose.mend_tracks([replace(track, joints=joints)], rate_hz=HZ) == ()
    torn = np.random.default_rng(0).permutation(track.world, axis=1)
    assert pose.mend_tracks([replace(track, world=torn)], rate_hz=HZ) == ()


OWN = """
import numpy as np
from masquerade.vision.tracks import PersonTrack

def people(frames, rate_hz):
    count = sum(1 for _ in frames)
    rng = np.random.default_rng(0)
    places = rng.uniform(20, 60, (33, 2))
    joints = np.tile(np.append(places, np.ones((33, 2)), axis=1), (count, 1, 1))
    world = np.zeros((count, 33, 3))
    world[..., :2] = (joints[..., :2] - 40) / 40
    return [PersonTrack(start=0, joints=joints, world=world, is_seen=np.ones(count, bool))]
"""


def test_an_estimator_of_the_users_own_is_used(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    numbers: list[int] = []
    film = np.zeros((12, 80, 80, 3), np.uint8)
    (track,) = pose.track_people(
        film, rate_hz=HZ, module=path, watch=lambda number, *_: numbers.append(number)
    )
    assert len(track) == 12 and numbers == list(range(12))


@pytest.mark.parametrize(
    "text, message",
    [
        ("x = 1", "has none"),
        ("import no_such_package_here", "cannot be run"),
        ("def people(frames, rate_hz):\n    return [3]", "Expected tracks"),
        (OWN.replace("world=world", "world=world[:, :17]"), "17"),
        (OWN.replace("rng.uniform(20, 60, (33, 2))", "np.full((33, 2), np.nan)"), "finite"),
    ],
)
def test_an_estimator_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(BadInput, match=message):
        pose.track_people(np.zeros((3, 40, 40, 3), np.uint8), rate_hz=HZ, module=path)
    with pytest.raises(BadInput, match="Expected a Python file"):
        pose.from_module(tmp_path / "none.py")
