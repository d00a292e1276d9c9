"""Who watches the masks: whoever they miss is hidden, as long as they are there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from scipy import ndimage

from few_avatars import staged
from masquerade.avatars import watch
from masquerade.avatars.segment import shrink_mask
from masquerade.datasets.stage import Stage
from masquerade.vision.person_detector import PersonSegmenter
from masquerade.vision.poses import PoseLandmarks, lower_mirror_trust

SIZE = (96, 128)
NOBODY = np.zeros((0, 4))
HER = np.array([[60.0, 50.0, 30.0, 0.9]])  # hips, radius and score


def box(top: int, bottom: int, left: int, right: int) -> np.ndarray:
    mask = np.zeros(SIZE, bool)
    mask[top:bottom, left:right] = True
    return mask


class Sees:
    """A segmenter that takes the same pixels for a person's, as far as it looks."""

    def __init__(self, seen: np.ndarray) -> None:
        self.seen = seen

    def search_near(self, frame: np.ndarray, people: np.ndarray) -> np.ndarray:
        rows, columns = np.ogrid[: frame.shape[0], : frame.shape[1]]
        is_shown = np.zeros(frame.shape[:2], bool)
        for x, y, radius, *_ in people:
            is_shown |= np.maximum(abs(rows - y), abs(columns - x)) <= 1.25 * radius
        return (self.seen & is_shown).astype(np.float32)


def watchman(seen: np.ndarray, *, every: int = 5) -> watch.MissedPeopleWatch:
    def no_faces(frame: np.ndarray) -> np.ndarray:
        return np.zeros((0, 5))

    eyes = cast(PersonSegmenter, Sees(seen))
    return watch.MissedPeopleWatch(eyes, cast(Any, no_faces), every=every, size=SIZE)


def test_people_and_faces_outside_of_the_mask_are_missed_and_blurred() -> None:
    frame = np.random.default_rng(5).integers(0, 256, (*SIZE, 3), dtype=np.uint8)
    q = box(10, 90, 10, 40)
    people = np.array([[24.0, 50.0, 40.0, 0.9], [90.0, 50.0, 20.0, 0.9], [45.0, 50.0, 30.0, 0.6]])
    faces = np.array([[15.0, 15.0, 25.0, 27.0, 0.9], [60.0, 5.0, 70.0, 17.0, 0.8]])
    seen = box(10, 90, 12, 38) | box(49, 51, 38, 60) | box(35, 68, 82, 98)
    bodies = [watch.select_body(one, seen) for one in people]
    found = watch.DetectedPeople(people=people, bodies=bodies, halves=[], faces=faces)
    missed = watch.find_missed(found, q)
    assert missed[36:67, 83:97].all() and missed[5:17, 60:70].all() and not missed[q].any()
    assert not missed[22:, 42:80].any()  # the third is made of the first's pixels
    out = watch.blur_region(frame, missed)
    assert np.array_equal(out[~missed], frame[~missed])
    inside = missed & shrink_mask(missed, 3)
    assert out[inside].std() < 0.6 * frame[inside].std()


@pytest.mark.parametrize("looks", [(0,), (2,), (1,)])
def test_who_was_missed_once_is_hidden_as_long_as_the_place_looks_the_same(
    looks: tuple[int, ...],
) -> None:
    """Detectors see somebody who stands still in one frame, and not in another."""
    rng = np.random.default_rng(1)
    frames = np.repeat(rng.integers(0, 256, (1, *SIZE, 3), dtype=np.uint8), 4, axis=0)
    frames[3] = rng.integers(0, 256, (*SIZE, 3))  # another place: nobody knows
    her = box(30, 70, 50, 70)
    with closing(watchman(her)) as watched:
        for number in range(20):
            found = HER if number // 5 in looks else NOBODY
            watched.look_at_frame(number, frames[number // 5], found)
        watched.compare_masks(np.zeros((4, *SIZE), bool))
        for number in (0, 3, 5, 9, 10):
            missed = watched.find_missed_mask(number)
            assert missed is not None and missed[her].all()
        assert watched.count_missed == 3 and watched.find_missed_mask(15) is None


def test_noise_of_a_camera_is_no_other_place_and_somebody_who_left_is() -> None:
    rng = np.random.default_rng(2)
    place = ndimage.gaussian_filter(rng.uniform(0, 255, (*SIZE, 3)), (6, 6, 0)) * 3 % 255
    her = box(30, 70, 50, 70)
    noisy, empty = place + rng.normal(0, 4, place.shape), place.copy()
    empty[her] = 255 - empty[her]
    frames = [np.clip(each, 0, 255).astype(np.uint8) for each in (place, noisy, empty)]
    with closing(watchman(her, every=1)) as watched:
        for number, frame in enumerate(frames):
            watched.look_at_frame(number, frame, HER if number == 0 else NOBODY)
        watched.compare_masks(np.zeros((3, *SIZE), bool))
        assert watched.find_missed_mask(1) is not None and watched.find_missed_mask(2) is None


@pytest.mark.parametrize("side", ["left", "right"])
def test_of_half_a_body_all_is_hidden_though_it_seems_smaller(side: str) -> None:
    """The detector sees the legs, is in doubt, and takes them for somebody small."""
    her, hips = (box(4, 92, 0, 10), 2.0) if side == "left" else (box(4, 92, 118, 128), 126.0)
    with closing(watchman(her, every=1)) as watched:
        for number in range(2):
            found = np.array([[hips, 70.0, 28.0, 0.3]]) if number == 0 else NOBODY
            watched.look_at_frame(number, np.zeros((*SIZE, 3), np.uint8), found)
        watched.compare_masks(np.zeros((2, *SIZE), bool))
        for number in range(2):
            missed = watched.find_missed_mask(number)
            assert missed is not None and missed[her].all() and missed.sum() < 1.5 * her.sum()


@pytest.mark.parametrize(("score", "num_missed"), [(0.6, 0), (0.9, 1)])
def test_what_fills_the_frame_is_somebody_only_if_that_is_sure(
    score: float, num_missed: int
) -> None:
    floor = box(20, 96, 30, 110)
    with closing(watchman(floor, every=1)) as watched:
        watched.look_at_frame(
            0, np.zeros((*SIZE, 3), np.uint8), np.array([[70.0, 60.0, 50.0, score]])
        )
        watched.compare_masks(np.zeros((1, *SIZE), bool))
        assert watched.count_missed == num_missed


def test_a_doubtful_find_at_the_border_is_nobody_if_the_segmenter_sees_nobody_there() -> None:
    with closing(watchman(box(40, 60, 40, 60), every=1)) as watched:
        watched.look_at_frame(0, np.zeros((*SIZE, 3), np.uint8), np.array([[2.0, 50.0, 30.0, 0.3]]))
        watched.compare_masks(np.zeros((1, *SIZE), bool))
        assert watched.count_missed == 0


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_tall_strip_at_the_border_is_somebody_and_a_wide_or_a_low_one_is_not(side: str) -> None:
    def strip(top: int, bottom: int, wide: int) -> np.ndarray:
        return box(top, bottom, 0, wide) if side == "left" else box(top, bottom, 128 - wide, 128)

    frame, nowhere = np.zeros((*SIZE, 3), np.uint8), np.zeros((1, *SIZE), bool)
    for shape, is_somebody in (((20, 80, 8), True), ((20, 80, 30), False), ((60, 90, 6), False)):
        with closing(watchman(strip(*shape), every=1)) as watched:
            watched.look_at_frame(0, frame, NOBODY)
            watched.compare_masks(nowhere)
            assert (watched.find_missed_mask(0) is not None) == is_somebody
            assert not is_somebody or watched.find_missed_mask(0)[strip(*shape)].all()  # type: ignore[index]


# Half a body at the border, on Stage.


@pytest.fixture(scope="module")
def world(world_cache: Path) -> Iterator[Stage]:
    with staged(world_cache, height=360, width=480, videos=24, bystanders=0.0) as stage:
        yield stage


def halves(world: Stage) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Frames that show half of somebody at the left or the right border, and where they are."""
    for number in range(6):
        film = world.make_staged_film(number)
        middle = int(np.median(np.nonzero(film.owner[0] >= 0)[1]))
        for kept in (slice(middle, None), slice(0, middle)):
            yield np.ascontiguousarray(film.frames[0][:, kept]), film.owner[0][:, kept] >= 0


def test_the_segmenter_sees_half_a_body_at_the_border(world: Stage) -> None:
    segmenter, shares = PersonSegmenter(private="person"), []
    for frame, true in halves(world):
        rows, columns = np.nonzero(true)
        side = 0.0 if columns.min() == 0 else float(frame.shape[1])
        around = np.array([[side, rows.mean(), 0.55 * np.ptp(rows)]])
        shares.append((segmenter.search_near(frame, around) > 0.5)[true].mean())
    assert np.median(shares) > 0.9  # with black beyond the border instead of a mirror: below 0.6


def test_what_a_mirror_adds_to_half_a_body_is_not_trusted(world: Stage) -> None:
    frame, true = next(halves(world))
    poses = PoseLandmarks().find_poses(frame)
    best = max(poses, key=lambda one: float((one.project_mask(*true.shape) > 0.5)[true].mean()))
    half = lower_mirror_trust(best, frame)
    is_out = half.joints[:, 0] < 0
    assert 3 < is_out.sum() < 30 and not half.joints[is_out, 2].any()
    np.testing.assert_allclose(half.joints[~is_out, 2], 0.8 * best.joints[~is_out, 2])
