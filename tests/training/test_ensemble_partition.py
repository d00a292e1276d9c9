"""Who teaches whom: no sample has two teachers, and one person moves as many as is said."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from few_signals import PRIVATE, PUBLIC, FewSignals, NearestMean, pate, tempdiff
from masquerade.errors import BadInput
from masquerade.networks.lstm_stack import StackSchedule
from masquerade.networks.network import compute_channel_scales
from masquerade.recordings import Signal
from masquerade.training import teachers
from masquerade.training.partition import (
    Extent,
    Partition,
    Stretch,
    partition_recordings,
    windows_of,
)
from masquerade.training.teach import partition_of
from masquerade.training.worn import public_windows

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

each_way = pytest.mark.parametrize("by", ["subject", "record", "time"])
counts = st.integers(1, 4)
lengths = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)
recorded = st.lists(
    st.builds(Extent, length=st.integers(1, 60), subject=st.sampled_from("abcdefg")),
    min_size=1,
    max_size=14,
)


def split_or_reject(held: list[Extent], **how: Any) -> Partition:
    try:
        return partition_recordings(held, **how)
    except BadInput:
        reject()


def owners_of(held: list[Extent], split: Partition) -> list[list[list[int]]]:
    """The teachers of every sample of every recording."""
    found: list[list[list[int]]] = [[[] for _ in range(each.length)] for each in held]
    for number, stretches in enumerate(split.teachers):
        for stretch in stretches:
            assert 0 <= stretch.start < stretch.stop <= held[stretch.recording].length
            for sample in range(stretch.start, stretch.stop):
                found[stretch.recording][sample].append(number)
    return found


def signal_of(length: int, number: int) -> Signal:
    """Its values say which sample of which recording they are."""
    values = np.stack([np.full(length, number), np.arange(length)], axis=1).astype(np.float32)
    return Signal(values=values, rate_hz=1.0, activity=np.zeros(length, np.int64), subject="s")


@each_way
@settings(max_examples=60)
@given(held=recorded, shards=counts, windows=lengths)
def test_every_sample_has_one_teacher_and_a_person_reaches_what_is_said(
    by: Any, held: list[Extent], shards: int, windows: tuple[int, ...]
) -> None:
    split = split_or_reject(held, shards=shards, windows=windows, by=by)
    assert len(split.teachers) == len(split.windows) == shards * len(windows)
    assert split.windows == windows * shards
    reached = defaultdict(set)
    for recording, found in zip(held, owners_of(held, split), strict=True):
        assert all(len(owners) == 1 for owners in found), "one teacher, and nothing is lost"
        reached[recording.subject] |= {owner for (owner,) in found}
    assert split.max_teachers_per_subject == max(map(len, reached.values()))


@each_way
@settings(max_examples=30)
@given(held=recorded, shards=counts, windows=lengths, step=st.integers(1, 5))
def test_no_window_crosses_a_stretch(
    by: Any, held: list[Extent], shards: int, windows: tuple[int, ...], step: int
) -> None:
    split = split_or_reject(held, shards=shards, windows=windows, by=by)
    signals = [signal_of(each.length, number) for number, each in enumerate(held)]
    for stretches, window in zip(split.teachers, split.windows, strict=True):
        values, classes = windows_of(signals, stretches, window=window, step=step, classes=2)
        assert len(values) == len(classes) > 0, "a teacher has something to learn from"
        inside = {(s.recording, i) for s in stretches for i in range(s.start, s.stop - window + 1)}
        for number, places in ((one[0, 0], one[:, 1]) for one in values):
            assert np.array_equal(places, places[0] + np.arange(window))
            assert (int(number), int(places[0])) in inside
        starts = [range(s.start, s.stop - window + 1, step) for s in stretches]
        assert len(values) == sum(map(len, starts))


@settings(max_examples=40)
@given(people=st.integers(1, 12), shards=counts, parts=st.integers(1, 3), each=st.integers(1, 3))
def test_people_stay_whole_where_every_shard_has_enough_of_them(
    people: int, shards: int, parts: int, each: int
) -> None:
    assume(people >= shards)
    held = [Extent(length=30, subject=str(n)) for n in range(people) for _ in range(each)]
    split = partition_recordings(held, shards=shards, windows=(5,) * parts, by="subject")
    assert split.max_teachers_per_subject == (1 if people // shards >= parts else parts)


def test_recordings_stay_whole_where_there_are_enough_and_a_person_reaches_as_many() -> None:
    held = [Extent(length=30, subject="ab"[number % 2]) for number in range(8)]
    whole = partition_recordings(held, shards=2, windows=(5, 6), by="record")
    assert all(len(stretch) == 30 for found in whole.teachers for stretch in found)
    assert whole.max_teachers_per_subject == 2, "dealt in turn, so each has one person's"
    cut = partition_recordings(held, shards=8, windows=(5, 6), by="record")
    assert {len(stretch) for found in cut.teachers for stretch in found} == {15}
    assert cut.max_teachers_per_subject == 8


def test_time_is_cut_into_equal_contiguous_parts_across_recordings() -> None:
    held = [Extent(length=30, subject="a"), Extent(length=50, subject="b")]
    split = partition_recordings(held, shards=2, windows=(5, 10), by="time")
    assert split.teachers == (
        (Stretch(0, 0, 20),),
        (Stretch(0, 20, 30), Stretch(1, 0, 10)),
        (Stretch(1, 10, 30),),
        (Stretch(1, 30, 50),),
    )
    assert split.max_teachers_per_subject == 3


def test_who_is_dealt_what_hangs_on_places_in_the_list_and_not_on_names() -> None:
    held = [Extent(length=30 + number, subject=str(number)) for number in range(6)]
    renamed = [replace(each, subject="zyxwvu"[number]) for number, each in enumerate(held)]
    how: dict[str, Any] = dict(shards=3, windows=(5, 6), by="subject")
    assert partition_recordings(held, **how) == partition_recordings(renamed, **how)
    assert partition_recordings(held, **how) != partition_recordings(held[::-1], **how)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(shards=2, windows=(31,)), r"windows of 31 samples.* 30 samples at most; .*shorter"),
        (dict(shards=0), "shards to be a whole number >= 1"),
        (dict(shards=1.5), "shards"),
        (dict(windows=()), "at least one window length"),
        (dict(windows=(5, 0)), "window to be a whole number >= 1"),
    ],
)
def test_more_teachers_than_data_and_wrong_numbers_are_refused(
    change: dict[str, Any], message: str
) -> None:
    held = [Extent(length=30, subject=str(number)) for number in range(4)]
    how: dict[str, Any] = dict(shards=1, windows=(5,), by="subject") | change
    with pytest.raises(ValueError, match=message) as stop:
        partition_recordings(held, **how)
    assert isinstance(stop.value, BadInput) == ("samples" in message)


@pytest.mark.parametrize(
    ("change", "works"),
    [
        (dict(shards=50), 4),
        (dict(shards=5, by="record"), 4),
        (dict(shards=50, windows=(5, 6, 7)), 4),
        (dict(shards=4, windows=(5, 16)), 2),
        (dict(shards=100, by="time"), 24),
    ],
)
def test_too_many_shards_are_refused_with_a_number_that_works(
    change: dict[str, Any], works: int
) -> None:
    held = [Extent(length=30, subject=str(number)) for number in range(4)]
    how: dict[str, Any] = dict(windows=(5,), by="subject") | change
    with pytest.raises(BadInput, match=f"--shards {how['shards']} .*; give --shards {works}\\.$"):
        partition_recordings(held, **how)
    assert partition_recordings(held, **how | {"shards": works})


@each_way
def test_nothing_recorded_is_refused(by: Any) -> None:
    with pytest.raises(BadInput, match="got 0 recordings of 0 people"):
        partition_recordings([], shards=1, windows=(5,), by=by)


def test_a_recording_shorter_than_a_window_is_passed_over_where_another_is_long_enough() -> None:
    held = [Extent(length=length, subject="s") for length in (4, 9)]
    split = partition_recordings(held, shards=1, windows=(5,), by="subject")
    signals = [signal_of(each.length, number) for number, each in enumerate(held)]
    values, _ = windows_of(signals, split.teachers[0], window=5, step=2, classes=2)
    assert values[:, 0].tolist() == [[1, 0], [1, 2], [1, 4]]


def test_a_window_has_the_class_that_fills_three_quarters_of_it() -> None:
    activity = np.array([0] * 7 + [1] * 5 + [-1] * 4)
    signal = replace(signal_of(16, 0), activity=activity)
    values, classes = windows_of([signal], [Stretch(0, 0, 16)], window=4, step=1, classes=2)
    starts = [0, 1, 2, 3, 4, 6, 7, 8, 9]  # half and half at 5, too little that is known after 9
    assert values[:, 0, 1].tolist() == starts
    assert classes.tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    for label in (-1, 2, 10**12):  # not known, or not on the public list
        unknown = replace(signal, activity=np.full(16, label))
        values, classes = windows_of([unknown], [Stretch(0, 0, 16)], window=4, step=1, classes=2)
        assert values.shape == (0, 4, 2) and classes.shape == (0,)
    with pytest.raises(BadInput, match="labelled signals"):
        windows_of(
            [replace(signal, activity=None)], [Stretch(0, 0, 16)], window=4, step=1, classes=2
        )


QUERIES = public_windows(list(PUBLIC), 20)
KNOWN = compute_channel_scales([signal.values for signal in PUBLIC])


def differs(one: Any, other: Any) -> bool:
    pairs = [(getattr(one, n), getattr(other, n)) for n in ("values", "classes", "mean", "scale")]
    return not all(np.array_equal(*pair) for pair in pairs)


def votes_of(lessons: list[teachers.Lesson]) -> np.ndarray:
    return teachers.votes_by_estimators(
        lessons,
        QUERIES,
        make=lambda number: NearestMean(),
        num_processes=1,
        progress=lambda done, total: None,
    )


def test_a_teacher_hears_its_windows_by_public_numbers_or_by_its_own() -> None:
    signals = list(PRIVATE)
    split = partition_of(PRIVATE, signals, pate(shards=6))
    public, own = (
        teachers.lessons_of(signals, split, classes=3, public=known) for known in (KNOWN, None)
    )
    for number, (one, other) in enumerate(zip(public, own, strict=True)):
        assert np.array_equal(one.mean, KNOWN[0]) and np.array_equal(one.scale, KNOWN[1])
        assert np.allclose(other.values.mean(axis=(0, 1)), 0, atol=1e-5)
        assert np.allclose(other.values.std(axis=(0, 1)), 1, atol=1e-4)
        raw, classes = windows_of(signals, split.teachers[number], window=20, step=10, classes=3)
        for lesson in (one, other):
            assert np.allclose(lesson.values * lesson.scale + lesson.mean, raw, atol=1e-5)
            assert np.array_equal(lesson.classes, classes)
    assert len({tuple(lesson.mean.tolist()) for lesson in own}) == 6


def test_a_channel_that_never_changes_is_not_divided_by_zero() -> None:
    mean, scale = compute_channel_scales([np.array([[1.0, 7.0], [3.0, 7.0]], np.float32)])
    assert mean.tolist() == [2.0, 7.0] and scale.tolist() == [1.0, 1.0]
    mean, scale = compute_channel_scales([np.zeros((2, 5, 1)), np.ones((1, 10, 1))])
    assert mean.tolist() == [0.5] and scale.tolist() == [0.5]


@each_way
@settings(max_examples=12)
@given(
    who=st.sampled_from("abcdef"),
    shards=counts,
    windows=st.sampled_from([(20,), (10, 20), (8, 12, 16)]),
    records=st.integers(1, 2),
    normalise=st.sampled_from(["public", "shard"]),
)
def test_what_one_person_did_moves_no_more_teachers_than_is_said(
    by: Any, who: str, shards: int, windows: tuple[int, ...], records: int, normalise: str
) -> None:
    data = FewSignals(records=records, length=120)
    method = tempdiff(shards=shards, windows=windows, by=by)
    found = []
    for each in (data, replace(data, changed=who)):
        signals = list(each)
        split = partition_of(each, signals, method)
        public = KNOWN if normalise == "public" else None
        found.append((split, teachers.lessons_of(signals, split, classes=3, public=public)))
    (split, before), (same, after) = found
    assert split == same, "lengths and places alone decide"
    assert any(not np.array_equal(a.classes, b.classes) for a, b in zip(before, after, strict=True))
    moved = [differs(one, other) for one, other in zip(before, after, strict=True)]
    assert 1 <= sum(moved) <= split.max_teachers_per_subject
    kept = ~np.array(moved)
    assert np.array_equal(votes_of(before)[kept], votes_of(after)[kept])


def test_numbers_of_all_private_data_would_reach_every_teacher() -> None:
    """What the test above must be able to see."""
    found = []
    for each in (PRIVATE, replace(PRIVATE, changed="a")):
        signals = list(each)
        split = partition_of(each, signals, pate(shards=6))
        private = compute_channel_scales([signal.values for signal in signals])
        found.append(teachers.lessons_of(signals, split, classes=3, public=private))
    assert all(differs(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize("by", ["subject", "time"])
def test_lstm_teachers_who_did_not_see_the_person_vote_the_same_to_the_bit(by: Any) -> None:
    method = tempdiff(shards=3, by=by)
    course = StackSchedule(hidden=8, epochs=10, batch=8, rate=0.03)
    votes, reach = [], 0
    data = FewSignals(length=120)
    for each in (data, replace(data, changed="b"), silenced("b", length=120)):
        signals = list(each)
        split = partition_of(each, signals, method)
        lessons = teachers.lessons_of(signals, split, classes=3, public=KNOWN)
        quiet = dict(schedule=course, progress=lambda done, total: None)
        votes.append(teachers.votes_by_lstm(lessons, QUERIES, classes=3, **quiet))
        reach = split.max_teachers_per_subject
    for other in votes[1:]:
        moved = (votes[0] != other).any(axis=1)
        assert 1 <= moved.sum() <= reach < len(moved)
    assert len({tuple(row) for row in votes[0].tolist()}) > reach, "teachers that learned nothing"


def silenced(who: str, **fields: Any) -> FewSignals:
    """One person's labels are all unknown, so that their teachers have fewer windows."""

    class Silenced(FewSignals):
        def _load(self, index: int) -> Signal:
            signal = super()._load(index)
            unknown = np.full(len(signal.values), -1)
            return replace(signal, activity=unknown) if signal.subject == who else signal

    return Silenced(**fields)


HUGE = FewSignals(odd={"values": np.full((240, 2), 3e38, np.float32)})


def test_enormous_values_of_one_person_reach_their_own_lstm_teacher_alone() -> None:
    found = []
    for each in (PRIVATE, HUGE):
        signals = list(each)
        split = partition_of(each, signals, pate(shards=6))
        with np.errstate(over="ignore"):
            lessons = teachers.lessons_of(signals, split, classes=3, public=KNOWN)
        course = StackSchedule(hidden=8, epochs=8, batch=8, rate=0.03)
        quiet = dict(schedule=course, progress=lambda done, total: None)
        found.append(teachers.votes_by_lstm(lessons, QUERIES, classes=3, **quiet))
    moved = (found[0] != found[1]).any(axis=1)
    assert moved.tolist() == [True, *[False] * 5]


def test_enormous_values_of_one_person_do_not_stop_estimators() -> None:
    """Whether a run ends would tell of one person."""
    near = pytest.importorskip("sklearn.neighbors")
    signals = list(HUGE)
    split = partition_of(HUGE, signals, pate(shards=6))
    with np.errstate(all="ignore"):
        votes = teachers.votes_by_estimators(
            teachers.lessons_of(signals, split, classes=3, public=KNOWN),
            QUERIES,
            make=lambda number: near.KNeighborsClassifier(n_neighbors=1),
            num_processes=1,
            progress=lambda done, total: None,
        )
    assert votes.shape == (6, len(QUERIES))
