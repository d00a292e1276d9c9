"""Squares in which people are sought, and when one need not be searched again."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cv2")

from masquerade.vision.person_detector import SearchMemory, list_mirror_squares, list_squares


@pytest.mark.parametrize("size", [(1, 1), (7, 300), (64, 64), (241, 320), (1080, 1920)])
def test_squares_cover_every_pixel_and_stay_inside(size: tuple[int, int]) -> None:
    for parts in (1, 2, 4):
        seen = np.zeros(size, bool)
        for top, left, side in list_squares(*size, parts=parts):
            assert top >= 0 and left >= 0 and top + side <= size[0] and left + side <= size[1]
            seen[top : top + side, left : left + side] = True
        assert seen.all()


def test_a_square_over_an_edge_shows_the_picture_and_its_mirror() -> None:
    frame = np.random.default_rng(0).integers(0, 256, (40, 90, 3), dtype=np.uint8)
    (above, left, one), (_, right, other) = list_mirror_squares(frame, parts=1)
    half = len(one) // 2
    rows = slice(-above, -above + 40)
    assert left == -half and right == 90 - half
    assert np.array_equal(one[rows, half:], frame[:, :half])
    assert np.array_equal(other[rows, :half], frame[:, -half:])
    assert all(np.array_equal(each, each[:, ::-1]) for each in (one, other))


PICTURE = np.full((224, 224, 3), 90, np.uint8)


def looks(pictures: list[np.ndarray], key: tuple[int, ...] = (0, 0, 100)) -> list[int]:
    """At which of some pictures of a square somebody looked."""
    seen, looked = SearchMemory(), []
    for number, picture in enumerate(pictures):

        def look(at: int = number) -> np.ndarray:
            looked.append(at)
            return np.full((1, 5), float(at))

        found = seen.find_or_recall(key, picture, look)
        assert found[0, 0] == looked[-1], "the answer is that of the last look"
    return looked


def test_a_square_that_did_not_change_is_searched_once_in_five() -> None:
    assert looks([PICTURE] * 11) == [0, 5, 10]


def test_noise_of_a_camera_changes_nothing_and_a_small_thing_does() -> None:
    noise = np.random.default_rng(1).normal(0, 4, (5, 224, 224, 3))
    noisy = [np.clip(np.rint(PICTURE + each), 0, 255).astype(np.uint8) for each in noise]
    assert looks(noisy) == [0]
    somebody = noisy[1].copy()
    somebody[100:140, 50:62] += 20  # a fifth of the square, dim
    assert looks([noisy[0], somebody, noisy[2]]) == [0, 1, 2]


def test_what_changes_slowly_is_compared_with_when_it_was_searched() -> None:
    assert looks([PICTURE + shade for shade in range(0, 10, 2)]) == [0, 3]


def test_each_square_is_remembered_by_itself() -> None:
    seen = SearchMemory()
    nobody, somebody = np.zeros((0, 5)), np.ones((1, 5))
    assert len(seen.find_or_recall((0, 0, 50), PICTURE, lambda: nobody)) == 0
    assert len(seen.find_or_recall((0, 25, 50), PICTURE, lambda: somebody)) == 1
    assert len(seen.find_or_recall((0, 0, 50), PICTURE, lambda: somebody)) == 0
