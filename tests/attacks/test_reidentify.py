"""Who is it: ranks and errors by hand, what is learned, and people recognised by what they wear."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from masquerade.attacks import reidentify
from masquerade.attacks.attack import Case, RandomRecordings, Recording, ignore_progress
from masquerade.attacks.cues import WornCue
from masquerade.attacks.known_people import Appearance, enrol_people
from masquerade.attacks.rates import Discriminants, compute_hits, equal_error
from masquerade.attacks.reidentify import By, Reidentify
from masquerade.datasets.watch import Watch
from masquerade.errors import BadInput
from masquerade.recordings import Photo, Signal, Video

pytestmark = pytest.mark.usefixtures("private_features")

RATE_HZ = 50.0


def walker(subject: int, take: int, seconds: float = 12.0) -> Signal:
    """Somebody's accelerometer: a rhythm and a reach of their own, a start of the take's."""
    rng = np.random.default_rng((subject, take))
    own = np.random.default_rng(subject)
    pace, reach = own.uniform(0.8, 2.5), own.uniform(0.5, 3.0, 3)
    time = np.arange(round(seconds * RATE_HZ)) / RATE_HZ + rng.uniform(0, 5)
    turn = 2 * np.pi * pace * time[:, None] + [0.0, 1.0, 2.0]
    values = reach * np.sin(turn) + 0.4 * reach[::-1] * np.sin(2 * turn)
    values += rng.uniform(-0.3, 0.3, values.shape)
    return Signal(values=values.astype(np.float32), rate_hz=RATE_HZ, subject=f"p{subject}")


def worn_case(people: int = 12, **changes: object) -> Case:
    known = [walker(who, take) for who in range(people) for take in (0, 1)]
    targets = [walker(who, take) for who in range(people) for take in (2, 3)]
    return replace(Case(known=known, targets=targets, raw=targets), **changes)


def test_ranks_of_distances_by_hand() -> None:
    apart = np.array([[0.1, 0.2, 0.3], [0.2, 0.1, 0.3], [0.1, 0.2, 0.3]])
    right = np.array([0, 0, 2])
    assert compute_hits(apart, right, among=1).tolist() == [1.0, 0.0, 0.0]
    assert compute_hits(apart, right, among=2).tolist() == [1.0, 1.0, 0.0]
    assert compute_hits(apart, right, among=3).tolist() == [1.0, 1.0, 1.0]


def test_ties_count_as_often_as_a_coin_would_say() -> None:
    rng = np.random.default_rng(0)
    apart = rng.integers(0, 3, (50, 6)).astype(float)
    apart[0] = np.inf
    right = rng.integers(0, 6, 50)
    for among in (1, 2, 5):
        drawn = np.zeros(50)
        for _ in range(1000):
            order = np.lexsort((rng.random((50, 6)), apart), axis=1)
            drawn += np.any(order[:, :among] == right[:, None], axis=1)
        assert np.max(np.abs(drawn / 1000 - compute_hits(apart, right, among=among))) < 0.08


def test_the_equal_error_is_where_both_errors_cross() -> None:
    rng = np.random.default_rng(1)
    for shift in (0.0, 0.3, 1.0, 3.0):
        right = rng.integers(0, 4, 300)
        is_own = np.arange(4) == right[:, None]
        apart = rng.random((300, 4)) + np.where(is_own, 0.0, shift)
        rows = rng.integers(0, 300, 300)  # some come twice, some never
        own, others = apart[rows][is_own[rows]], apart[rows][~is_own[rows]]
        levels = np.linspace(-0.1, 4.1, 20_001)
        let_in = np.mean(others[:, None] <= levels, axis=0)
        kept_out = np.mean(own[:, None] > levels, axis=0)
        at = int(np.argmin(np.abs(let_in - kept_out)))
        truth = (let_in + kept_out)[at] / 2
        assert equal_error(apart, right)(rows) == pytest.approx(truth, abs=5e-3)


def test_the_equal_error_knows_the_worst_and_nothing() -> None:
    error = equal_error(np.array([[2.0, 1.0], [np.inf, np.inf]]), np.array([0, 1]))
    assert error(np.array([0])) == 1.0 and error(np.array([1])) == 0.5
    assert np.isnan(error(np.array([], int)))


def test_a_learned_metric_looks_where_people_differ_and_not_where_one_varies() -> None:
    rng = np.random.default_rng(0)
    whose = np.repeat(np.arange(8), 6)
    rows = rng.uniform(-1, 1, (48, 5))
    rows[:, 0] *= 50  # varies within people
    rows[:, 1] = 0.05 * rows[:, 1] + whose  # tells them apart
    matrix = Discriminants().learn_metric(rows, whose).matrix * rows.std(axis=0)[:, None]
    sizes = np.linalg.norm(matrix, axis=1)
    assert sizes[1] > 2 * sizes[0]


@pytest.mark.parametrize("rows", [np.ones((4, 3)), np.zeros((4, 1))])
def test_features_that_never_change_are_no_way_to_tell_people_apart(rows: np.ndarray) -> None:
    gallery = enrol_people(
        Appearance(rows=[row[None] for row in rows], subjects=("a", "a", "b", "b"))
    )
    apart = gallery.measure_distances(Appearance(rows=[rows[:1] + 7], subjects=("a",)))
    assert np.all(apart == apart[0, 0])


def test_people_are_recognised_by_worn_sensors_and_not_in_random_data() -> None:
    (found,) = Reidentify(by="worn").run(worn_case(), told=ignore_progress)
    assert found.is_telling and found.verdict.startswith("Not stopped")
    assert found.ceiling[0].value > 0.9 and found.floor[0].value < 0.25
    assert found.published[2].value > 0.9 and found.published[0].count == 12
    assert [each.measure for each in found.floor] == ["rank-1", "rank-5", "1 - EER"]


def test_several_processes_see_what_one_sees_and_name_what_they_cannot_look_at() -> None:
    case = worn_case(people=3)
    one = Reidentify(by="worn").run(case, told=ignore_progress)
    assert Reidentify(by="worn", jobs=2).run(case, told=ignore_progress) == one
    short = replace(case, known=[*case.known, walker(1, 0, seconds=0.1)])
    with pytest.raises(BadInput, match="at least 16 samples") as caught:
        Reidentify(by="worn", jobs=2).run(short, told=ignore_progress)
    assert f"number {len(case.known)} of the known recordings" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match="at least 0"):
        Reidentify(jobs=-1)


def test_shuffled_names_give_chance() -> None:
    case = worn_case()
    order = np.random.default_rng(3).permutation(len(case.known)).tolist()
    names = [case.known[number].subject for number in order]
    known = [
        replace(each, subject=name)
        for each, name in zip(cast(list[Signal], case.known), names, strict=True)
    ]
    (found,) = Reidentify(by="worn").run(replace(case, known=known), told=ignore_progress)
    assert found.ceiling[0].value < 0.3 and not found.is_telling
    assert abs(found.ceiling[2].value - 0.5) < 0.2


def test_names_are_only_names() -> None:
    case = worn_case()

    def renamed(some: object) -> list[Recording]:
        return [replace(each, subject=f"x{each.subject}") for each in cast(list[Signal], some)]

    other = replace(
        case, known=renamed(case.known), targets=renamed(case.targets), raw=renamed(case.raw)
    )
    (one,), (same,) = (
        Reidentify(by="worn").run(each, told=ignore_progress) for each in (case, other)
    )
    assert [each.value for each in one.published] == [each.value for each in same.published]


def test_an_attacker_who_adapts_sees_through_a_change_that_stops_one_who_does_not() -> None:
    def scrambled(each: Recording) -> Recording:
        values = cast(Signal, each).values
        return replace(cast(Signal, each), values=np.tanh(3 * values[:, [2, 0, 1]]) * 40 - 7)

    targets = [scrambled(each) for each in worn_case().targets]
    case = worn_case(targets=targets, release=scrambled)
    (plain,) = Reidentify(by="worn", gallery="raw").run(case, told=ignore_progress)
    (adapted,) = Reidentify(by="worn", gallery="released").run(case, told=ignore_progress)
    assert plain.ceiling[0].value == adapted.ceiling[0].value > 0.9
    assert adapted.published[0].value > plain.published[0].value + 0.3
    assert "released in the same way" in adapted.attacker


def test_progress_is_told_and_nothing_is_changed() -> None:
    said: list[tuple[str, int, int]] = []
    case = worn_case(people=3)
    before = [each.values.copy() for each in cast(list[Signal], case.known)]
    Reidentify(by="worn").run(case, told=lambda *step: said.append(step))
    assert said[-1][1] == said[-1][2] == 6 and len({what for what, *_ in said}) == 4
    after = [each.values for each in cast(list[Signal], case.known)]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"known": []}, "at least two known people"),
        ({"known": [walker(0, 0)]}, "at least two known people"),
        ({"known": [walker(0, 0), walker(1, 0)]}, "got none of p10, p11, p2"),
        ({"known": [replace(walker(0, 0), subject=None)]}, "number 0 of the known recordings"),
        ({"known": [Photo(image=np.zeros((4, 4, 3), np.uint8), subject="a")]}, "Expected signals"),
        ({"known": [walker(0, 0, seconds=0.1)]}, "at least 16 samples"),
    ],
)
def test_what_cannot_be_attacked_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Reidentify(by="worn").run(worn_case(**change), told=ignore_progress)


def test_a_released_gallery_wants_a_receipt() -> None:
    with pytest.raises(BadInput, match="--gallery raw"):
        Reidentify(by="worn", gallery="released").run(worn_case(), told=ignore_progress)


@pytest.mark.parametrize("field", ["by", "gallery", "joints"])
def test_fields_take_what_is_listed_and_nothing_else(field: str) -> None:
    with pytest.raises(ValueError, match=f"Unknown {field}"):
        Reidentify(**{field: "nonsense"})  # type: ignore[arg-type]


@pytest.mark.parametrize("by", ["face", "body", "gait", "silhouette"])
def test_signals_are_refused_where_pictures_are_read(by: By) -> None:
    with pytest.raises(BadInput, match=f"by={by}"):
        Reidentify(by=by).run(worn_case(people=2), told=ignore_progress)


def halves(series: Signal) -> tuple[Signal, Signal]:
    middle = len(series.values) // 2
    parts = (slice(0, middle), slice(middle, None))
    first, second = (replace(series, values=series.values[p], activity=None) for p in parts)
    return first, second


def test_ten_people_are_recognised_by_their_watch() -> None:
    series = [each for each in Watch() if each.attributes["side"] == "left"]
    pairs = [halves(each) for each in series]
    targets = [second for _, second in pairs]
    case = Case(known=[first for first, _ in pairs], targets=targets, raw=targets)
    (found,) = Reidentify(by="worn").run(case, told=ignore_progress)
    assert found.is_telling and found.ceiling[0].value > 0.6 and found.ceiling[0].count == 10


def test_a_film_too_short_for_a_gait_is_named() -> None:
    film = Video(frames=np.zeros((4, 32, 32, 3), np.uint8), rate_hz=10, subject="a")
    with pytest.raises(BadInput, match="at least 1 s and 8 frames") as caught:
        Reidentify(by="gait").run(
            Case(known=[film], targets=[film], raw=[film]), told=ignore_progress
        )
    assert "number 0 of the known recordings, of a" in caught.value.__notes__[0]


@pytest.mark.parametrize("by", ["face", "body", "gait", "silhouette"])
def test_nobody_in_the_film_is_said(by: By) -> None:
    films = [
        Video(frames=np.full((8, 48, 48, 3), 90, np.uint8), rate_hz=8, subject=name)
        for name in "ab"
    ]
    with pytest.raises(BadInput, match=f"see each of the known people by {by}.*none of a, b"):
        Reidentify(by=by).run(Case(known=films, targets=films, raw=films), told=ignore_progress)


def test_random_recordings_have_no_truth_and_are_all_others() -> None:
    shades = (0, 200)
    films = [
        Video(
            frames=np.full((9, 40, 30, 3), shade, np.uint8),
            rate_hz=9,
            subject="a",
            joints_3d=np.full((9, 17, 3), shade, np.float32),
        )
        for shade in shades
    ]
    first, second = (
        cast(Video, reidentify._without_truth(each)) for each in RandomRecordings(films)
    )
    for each, shade in ((first, 0), (second, 200)):
        assert each.joints is not None and each.joints_3d is not None
        assert each.joints[..., 0].max() < 30 < each.joints.max() < 40
        assert shade not in np.unique(each.joints_3d) and np.ptp(each.joints_3d) > 1.5
    assert not np.array_equal(first.joints_3d, second.joints_3d)
    turned = RandomRecordings([replace(each, joints_3d=None) for each in films[::-1]])
    same = cast(Video, reidentify._without_truth(turned[0]))
    assert np.array_equal(first.joints_3d, same.joints_3d)  # of the number and shape alone
    worn = walker(0, 0)
    assert reidentify._without_truth(worn) is worn
    photo = reidentify._without_truth(Photo(image=np.zeros((4, 6, 3), np.uint8), subject="a"))
    assert isinstance(photo, Photo) and photo.joints is not None


def test_the_floor_is_not_one_recording_asked_many_times() -> None:
    asked: list[bytes] = []

    class Listening(WornCue):
        def __call__(self, recording: Recording) -> np.ndarray:
            asked.append(cast(Signal, recording).values.tobytes())
            return super().__call__(recording)

    case = worn_case(people=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reidentify, "cue_for", lambda by, *, is_told: Listening())
        Reidentify(by="worn").run(case, told=ignore_progress)
    assert len(set(asked[-len(case.raw) :])) == len(case.raw)
