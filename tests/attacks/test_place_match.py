"""Galleries, hard distractors and shares of right answers, all checked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from masquerade.attacks.place_matching import (
    PlaceGallery,
    PlaceMatch,
    PlaceQueries,
    PlaceViews,
    among_first,
    find_hardest_places,
    group_places,
)
from masquerade.attacks.rates import Discriminants
from masquerade.errors import BadInput


def unit(rows: object) -> np.ndarray:
    array = np.array(rows, float)
    return np.asarray(array / np.linalg.norm(array, axis=-1, keepdims=True))


def seen(places: list[str]) -> PlaceViews:
    return PlaceViews(chosen=list(range(len(places))), places=places, features={})


def asked(known: list[str], wanted: list[str], count: int | None = None) -> PlaceQueries:
    return PlaceQueries.from_views(seen(known), seen(wanted), count=count or len(wanted))


def match(known: list[str], wanted: list[str], anchor: np.ndarray, *sizes: int) -> PlaceMatch:
    return PlaceMatch(asked=asked(known, wanted), sizes=sizes, anchor=anchor, seed=0)


def test_a_place_scores_by_its_likest_picture() -> None:
    gallery = PlaceGallery(features=unit([[1, 0], [0, 1], [1, 1]]), owner=np.array([0, 0, 1]))
    scores = gallery.score_places(unit([[1, 0], [1, 1]]), np.array([0, 1]))
    np.testing.assert_allclose(scores, [[1, 2**-0.5], [2**-0.5, 1]])


def test_shares_by_hand_and_ties_fall_at_random() -> None:
    scores = np.array([[0.9, 0.5, 0.1, 0.3], [0.2, 0.2, 0.2, 0.8], [1.0, 1.0, 1.0, 1.0]])
    right = np.array([3, 0, 2])
    assert among_first(scores, right, count=1).tolist() == [0, 0, 0.25]
    assert among_first(scores, right, count=2).tolist() == [0, 1 / 3, 0.5]
    assert among_first(scores, right, count=3).tolist() == [1, 2 / 3, 0.75]
    assert among_first(scores, right, count=4).tolist() == [1, 1, 1]


def test_distractors_are_the_places_likest_to_any_that_is_asked_for() -> None:
    angles = np.deg2rad([0, 90, 80, 40, 5, 44])
    gallery = PlaceGallery(
        features=np.stack([np.cos(angles), np.sin(angles)], 1), owner=np.array([0, 1, 2, 3, 4, 3])
    )
    paired = np.array([0, 1])  # at 0 and 90 degrees
    assert find_hardest_places(gallery, paired=paired, count=1).tolist() == [4]  # 5 degrees off
    assert find_hardest_places(gallery, paired=paired, count=3).tolist() == [
        4,
        2,
        3,
    ]  # 10 and 40 off
    assert find_hardest_places(gallery, paired=paired, count=0).tolist() == []
    with pytest.raises(ValueError, match="at most 3 distractors"):
        find_hardest_places(gallery, paired=paired, count=4)


def test_every_place_is_asked_for_once() -> None:
    found = group_places(np.arange(30), size=12, seed=1)
    assert [len(group) for group in found] == [12, 12, 6]
    assert sorted(np.concatenate(found)) == list(range(30))
    assert not np.array_equal(found[0], group_places(np.arange(30), size=12, seed=2)[0])


def test_shares_in_galleries_of_every_size_by_hand() -> None:
    names = [f"{number:02}" for number in range(16)]
    features = np.eye(16)
    one = match(names, names[:4], features, 8, 16, 64)
    queries = features[[0, 1, 2, 9]]  # three are right
    top_1, top_5, top_10, *smaller = one.measure_successes(queries, features, is_adaptive=False)
    assert top_1.measure == "Top-1 of 16" and top_1.chance == 1 / 16
    assert top_1.value == 0.75 and top_1.low < 0.75 < top_1.high
    assert top_1.count == 4 and top_1.of == "places"
    assert 0.75 < top_5.value < top_10.value < 1  # the fourth ties with all but one
    assert [each.measure for each in smaller] == ["Top-1 of 8", "Top-5 of 8"]
    assert any("No gallery of 64: 16 places" in note for note in one.notes)
    assert any("Too few places: with 4" in note for note in one.notes)


def test_hard_distractors_make_a_gallery_harder_than_its_size_says() -> None:
    rng = np.random.default_rng(0)
    names = [f"{number:02}" for number in range(60)]
    features = unit(rng.uniform(-1, 1, (60, 24)))
    features[30:42] = unit(features[:12] + 0.15 * rng.uniform(-1, 1, (12, 24)))  # look alike
    queries = unit(features[:12] + 0.35 * rng.uniform(-1, 1, (12, 24)))
    one = match(names, names[:12], features, 12, 24)
    found = {
        each.measure: each.value
        for each in one.measure_successes(queries, features, is_adaptive=False)
    }
    easy = PlaceGallery(features=features, owner=np.arange(60)).score_places(
        queries, np.r_[:12, 42:54]
    )
    assert found["Top-1 of 12"] == 1 > found["Top-1 of 24"] + 0.2
    assert among_first(easy, np.arange(12), count=1).mean() > found["Top-1 of 24"] + 0.2


def nuisance(places: int, views: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Features whose first axes tell places apart and whose others vary twice as much."""
    own = np.repeat(np.arange(places), views)
    signal = rng.uniform(-1, 1, (places, 24))[own] + 0.2 * rng.uniform(-1, 1, (len(own), 24))
    return np.hstack([signal, 2 * rng.uniform(-1, 1, (len(own), 16))]), own


def test_what_is_learned_from_other_places_sees_through_what_varies_within_a_place() -> None:
    rng = np.random.default_rng(0)
    rows, own = nuisance(48, 5, rng)
    names = [f"{number:02}" for number in own]
    queries, held = rows[::5], np.delete(rows, np.s_[::5], axis=0)
    known = [name for number, name in enumerate(names) if number % 5]
    one = match(known, names[::5], unit(held), 48)
    plain, *_ = one.measure_successes(unit(queries), unit(held), is_adaptive=False)
    clever, *_ = one.measure_successes(queries, held, is_adaptive=True)
    assert plain.value < 0.6 and clever.value > 0.9
    assert clever.low > plain.high


def test_a_map_is_learned_where_there_is_one_picture_a_place_or_nothing_varies() -> None:
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (10, 4))
    for features, own in ((rows, np.arange(10)), (np.ones((10, 4)), np.arange(10) // 2)):
        for is_between in (False, True):
            found = Discriminants(is_between=is_between).learn_metric(features, own)(rows)
            assert np.all(np.isfinite(found))


def test_learning_needs_recordings_of_other_places() -> None:
    names = [f"{number:02}" for number in range(12)]
    one = match(names, names, np.eye(12), 12)
    with pytest.raises(BadInput, match="at least 8 recordings of places that are not asked for"):
        one.measure_successes(np.eye(12), np.eye(12), is_adaptive=True)


def test_places_that_the_attacker_does_not_know_are_left_out_and_said() -> None:
    found = asked(["b", "a", "b"], ["c", "a", "b"], count=5)
    assert found.owner.tolist() == [1, 0, 1] and found.truth.tolist() == [0, 1]
    assert found.rows.tolist() == [1, 2] and found.left_out == 3
    with pytest.raises(BadInput, match="at least two places"):
        asked(["a", "a"], ["a"])
    with pytest.raises(BadInput, match=r"none of 1.*other recordings of the same places"):
        asked(["a", "b"], ["c"])
