"""Teachers: each learns from windows of its own and gives one vote a query.

Training is deterministic given public seeds, so a teacher's votes are a function of its own data
alone: whoever reaches s teachers moves at most s votes of a query. A teacher without a window, or
one that learned nothing, still votes; nobody is left out for what the data said, and no number is
so large that a warning would speak of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module
from masquerade.io.workers import WorkerPool
from masquerade.networks.network import compute_channel_scales
from masquerade.recordings import Signal
from masquerade.training.partition import Partition, compute_window_features, step_of, windows_of

if TYPE_CHECKING:
    from masquerade._torch import torch
    from masquerade.networks import lstm_stack
else:
    torch = lazy_module("torch", extra="train")
    lstm_stack = lazy_module("masquerade.networks.lstm_stack", extra="train")


CountCallback: TypeAlias = Callable[[int, int], None]


class Estimator(Protocol):
    """Anything that learns classes from rows of numbers, as scikit-learn's classifiers do."""

    def fit(self, rows: np.ndarray, classes: np.ndarray) -> object:
        """Learn."""

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """The class of each row."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Lesson:
    """What one teacher learns from.

    Args:
        values: (N, window, C), normalised.
        classes: (N,).
        mean: (C,) that was taken off.
        scale: (C,) that was divided by.
    """

    values: np.ndarray
    classes: np.ndarray
    mean: np.ndarray
    scale: np.ndarray


@dataclass(frozen=True, kw_only=True)
class TeacherStatistics:
    """Statistics of the teachers: exact functions of private data, never to be published.

    Args:
        agreement: the winner's share of the votes, on average.
        failed: teachers that say the same whatever they are asked.
    """

    agreement: float
    failed: int


@np.errstate(all="ignore")
def lessons_of(
    signals: Sequence[Signal],
    partition: Partition,
    *,
    classes: int,
    public: tuple[np.ndarray, np.ndarray] | None,
    overlap: float = 0.5,
) -> list[Lesson]:
    """The windows of each teacher, normalised by public numbers or by its own.

    Args:
        signals: the private recordings.
        partition: of these very recordings.
        classes: on the public list.
        public: mean and scale from public data; None for each teacher's own.
        overlap: share of a window that the next one repeats.
    """
    found = []
    for stretches, window in zip(partition.teachers, partition.windows, strict=True):
        step = step_of(window, overlap)
        values, found_classes = windows_of(
            signals, stretches, window=window, step=step, classes=classes
        )
        mean, scale = public or compute_channel_scales(
            [values] if len(values) else [np.zeros((1, values.shape[2]))]
        )
        found.append(
            Lesson(values=(values - mean) / scale, classes=found_classes, mean=mean, scale=scale)
        )
    return found


def votes_by_lstm(
    lessons: Sequence[Lesson],
    queries: np.ndarray,
    *,
    classes: int,
    schedule: lstm_stack.StackSchedule,
    progress: CountCallback,
) -> np.ndarray:
    """(T, Q): the vote of each teacher for each query; teachers of one window learn together.

    Args:
        lessons: one a teacher.
        queries: (Q, L, C) public windows, not normalised; a teacher hears all of its windows in
            each and votes for what it finds in them on average.
        classes: there are.
        schedule: how they learn.
        progress: called with teachers done and their number.
    """
    found = np.zeros((len(lessons), len(queries)), dtype=np.int64)
    lengths = np.array([lesson.values.shape[1] for lesson in lessons])
    done = 0
    for window in np.unique(lengths).tolist():
        members = np.flatnonzero(lengths == window).tolist()
        held = [lessons[number] for number in members]
        found[members] = _vote_by_stack(held, queries, members, classes, schedule)
        done += len(members)
        progress(done, len(lessons))
    return found


def votes_by_estimators(
    lessons: Sequence[Lesson],
    queries: np.ndarray,
    *,
    make: Callable[[int], Estimator],
    num_processes: int = -1,
    progress: CountCallback,
) -> np.ndarray:
    """(T, Q): votes of estimators that learn from `compute_window_features`, several processes at a
    time.

    Args:
        lessons: one a teacher.
        queries: (Q, L, C) public windows, not normalised.
        make: a new estimator for a public seed.
        num_processes: at a time; -1 for all cores.
        progress: called with teachers done and their number.
    """
    asked = _compute_shared_features(lessons, queries)

    def cast_votes(task: tuple[Lesson, Estimator]) -> np.ndarray:
        lesson, estimator = task
        return _vote_by_estimator(lesson, queries, estimator, asked.get(_measure_lesson(lesson)))

    found = []
    pool = WorkerPool(jobs=max(num_processes, 0))
    for votes in pool.map_tasks(
        cast_votes, [(one, make(place)) for place, one in enumerate(lessons)]
    ):
        found.append(votes)
        progress(len(found), len(lessons))
    return np.stack(found)


def counts_of(votes: np.ndarray, classes: int) -> np.ndarray:
    """(Q, K): how many teachers voted for each class. Private.

    Example:
        >>> counts_of(np.array([[0, 2], [0, 1], [1, 1]]), 3)
        array([[2, 1, 0],
               [0, 2, 1]])
    """
    _check.shape("T Q", votes=votes)
    return np.stack([(votes == number).sum(axis=0) for number in range(classes)], axis=1)


def private_statistics(votes: np.ndarray, classes: int) -> TeacherStatistics:
    """How much teachers agree, and how many learned nothing; for made-up data and rehearsals."""
    share = counts_of(votes, classes).max(axis=1) / len(votes)
    return TeacherStatistics(
        agreement=float(share.mean()),
        failed=int((votes == votes[:, :1]).all(axis=1).sum()) if votes.shape[1] > 1 else 0,
    )


def _split_windows(queries: np.ndarray, window: int) -> np.ndarray:
    """(Q, P, window, C): the windows of one length inside each query, side by side."""
    count = queries.shape[1] // window
    if not count:
        raise ValueError(f"Expected queries of at least {window} samples, got {queries.shape[1]}.")
    first = (queries.shape[1] - count * window) // 2
    cut = queries[:, first : first + count * window]
    return cut.reshape(len(queries), count, window, queries.shape[2])


@np.errstate(all="ignore")
def _vote_by_stack(
    lessons: Sequence[Lesson],
    queries: np.ndarray,
    numbers: Sequence[int],
    classes: int,
    schedule: lstm_stack.StackSchedule,
) -> np.ndarray:
    """The votes of teachers of one window length."""
    most = max(1, max(len(lesson.classes) for lesson in lessons))
    window, channels = lessons[0].values.shape[1], queries.shape[2]
    values = np.zeros((len(lessons), most, window, channels), np.float32)
    targets = np.full((len(lessons), most), -1)
    for number, lesson in enumerate(lessons):
        size = len(lesson.classes)
        values[number, :size], targets[number, :size] = lesson.values, lesson.classes
    stack = lstm_stack.train_new_stack(
        values,
        targets,
        schedule,
        classes=classes,
        progress=lambda done, total: None,
        numbers=numbers,
    )
    found = []
    parts = _split_windows(queries, window)
    for number, lesson in enumerate(lessons):
        asked = (parts.reshape(-1, window, channels) - lesson.mean) / lesson.scale
        with torch.no_grad():
            net = stack.copy_member(number)
            out = net(torch.from_numpy(asked.astype(np.float32)).to(schedule.device))
            share = out.log_softmax(dim=1).reshape(len(queries), -1, classes).mean(dim=1)
            found.append(share.argmax(dim=1).cpu().numpy())
    return np.stack(found)


def _measure_lesson(lesson: Lesson) -> int:
    return int(lesson.values.shape[1])


def _compute_shared_features(
    lessons: Sequence[Lesson], queries: np.ndarray
) -> dict[int, np.ndarray]:
    """By window length, what all teachers are asked alike; nothing if each has a scale of its own.

    Public numbers alone decide: the same arrays of mean and scale were given to all.
    """
    first = lessons[0]
    if any(one.mean is not first.mean or one.scale is not first.scale for one in lessons):
        return {}
    return {
        length: _compute_query_features(first, queries, length)
        for length in set(map(_measure_lesson, lessons))
    }


@np.errstate(all="ignore")
def _compute_query_features(lesson: Lesson, queries: np.ndarray, window: int) -> np.ndarray:
    """(Q P, F): the features of all windows of one length inside the queries."""
    parts = _split_windows(queries, window)
    return compute_window_features(
        (parts.reshape(-1, window, parts.shape[3]) - lesson.mean) / lesson.scale
    )


@np.errstate(all="ignore")
def _vote_by_estimator(
    lesson: Lesson, queries: np.ndarray, estimator: Estimator, asked: np.ndarray | None
) -> np.ndarray:
    """A teacher that has nothing to learn votes for the first class."""
    if not len(lesson.classes):
        return np.zeros(len(queries), np.int64)
    rows = (
        _compute_query_features(lesson, queries, _measure_lesson(lesson))
        if asked is None
        else asked
    )
    estimator.fit(compute_window_features(lesson.values), lesson.classes)
    heard = np.asarray(estimator.predict(rows)).reshape(len(queries), -1)
    return np.array([np.bincount(row).argmax() for row in heard], dtype=np.int64)
