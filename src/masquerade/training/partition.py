"""Who teaches whom: recordings are split among teachers first and cut into windows inside.

No window crosses from one teacher's data into another's, and whatever one person recorded reaches a
known number of teachers: their votes may move together, so that number enters the accounting.

Shards are whole people, whole recordings, or stretches of time. Temporal partitioning [roy2023]
then splits each shard among as many teachers as there are window lengths, one length each: whole
people (or recordings) where every shard has enough of them, so that a person still reaches one
teacher; stretches of time where not. Where pieces are dealt out, their places in the list decide,
and where time is cut, lengths: both are public, and neighbours agree in them.

Windows of a worn sensor as a few numbers each, for learners that know nothing of time.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

import numpy as np

from masquerade import _check
from masquerade.errors import BadInput
from masquerade.recordings import Signal

_NUM_BANDS = 8
_MAX_FEATURE = 1e6


def compute_window_features(values: np.ndarray) -> np.ndarray:
    """(N, F) numbers of windows (N, w, C): moments, range, change, and the lowest bands' power."""
    values = np.clip(np.nan_to_num(values), -_MAX_FEATURE, _MAX_FEATURE)  # nobody's can stop a run
    change = np.abs(np.diff(values, axis=1)).mean(axis=1)
    power = np.abs(np.fft.rfft(values, axis=1))
    edges = np.linspace(0, min(power.shape[1], 4 * _NUM_BANDS), _NUM_BANDS + 1).astype(int)
    bands = [
        power[:, low : max(high, low + 1)].mean(axis=1)
        for low, high in itertools.pairwise(edges.tolist())
    ]
    parts = [values.mean(axis=1), values.std(axis=1), values.min(axis=1), values.max(axis=1)]
    found = np.concatenate([*parts, change, *bands], axis=1)
    safe: np.ndarray = np.clip(np.nan_to_num(found), -_MAX_FEATURE, _MAX_FEATURE)
    return safe


By = Literal["subject", "record", "time"]
MIN_ACTIVITY_SHARE = 0.75  # of a window that one activity fills


@dataclass(frozen=True)
class Stretch:
    """Samples ``start`` to ``stop`` of a recording."""

    recording: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, kw_only=True)
class Extent:
    """What is public about a recording: its length, and whose it is."""

    length: int
    subject: str


@dataclass(frozen=True, kw_only=True)
class Partition:
    """What each teacher sees.

    Args:
        teachers: the stretches of each.
        windows: samples in a window of each.
        max_teachers_per_subject: s, how many votes one person can move.
    """

    teachers: tuple[tuple[Stretch, ...], ...]
    windows: tuple[int, ...]
    max_teachers_per_subject: int


def partition_recordings(
    recordings: Sequence[Extent], *, shards: int, windows: Sequence[int], by: By
) -> Partition:
    """Split recordings among ``shards`` x ``len(windows)`` teachers.

    Args:
        recordings: in a public order.
        shards: M.
        windows: w_1 .. w_N in samples, one for each teacher of a shard.
        by: whole people, whole recordings, or stretches of time.

    Raises:
        BadInput: if a teacher would get nothing, or less than one window.

    Example:
        >>> four = [Extent(length=60, subject=name) for name in "abcd"]
        >>> found = partition_recordings(four, shards=2, windows=(5, 6), by="subject")
        >>> found.max_teachers_per_subject
        1
        >>> found = partition_recordings(four, shards=4, windows=(5, 6), by="subject")
        >>> found.max_teachers_per_subject
        2
    """
    _check.count(shards=shards)
    if not windows:
        raise ValueError("Expected at least one window length, got none.")
    for window in windows:
        _check.count(window=window)
    teachers, lengths = _share_out(recordings, shards, windows, by), tuple(windows) * shards
    if not _is_enough(teachers, windows):
        _refuse_shards(recordings, shards, windows, by)
    return Partition(
        teachers=tuple(map(tuple, teachers)),
        windows=lengths,
        max_teachers_per_subject=_count_reach(recordings, teachers),
    )


def _share_out(
    recordings: Sequence[Extent], shards: int, windows: Sequence[int], by: By
) -> list[list[Stretch]]:
    """The stretches of each teacher; some may have none."""
    whole = [Stretch(number, 0, held.length) for number, held in enumerate(recordings)]
    first = (
        _cut_stretches(whole, shards)
        if by == "time"
        else _deal_groups(_group_stretches(recordings, whole, by), shards)
    )
    parts = len(windows)
    groups = [_group_stretches(recordings, shard, by) for shard in first]
    if by != "time" and all(len(held) >= parts for held in groups):
        return [each for held in groups for each in _deal_groups(held, parts)]
    return [each for shard in first for each in _cut_each(shard, parts, by)]


def _is_enough(teachers: Sequence[Sequence[Stretch]], windows: Sequence[int]) -> bool:
    return all(
        any(len(stretch) >= windows[number % len(windows)] for stretch in held)
        for number, held in enumerate(teachers)
    )


def _refuse_shards(
    recordings: Sequence[Extent], shards: int, windows: Sequence[int], by: By
) -> NoReturn:
    """Name a number of shards that works; all that is looked at is public."""
    people, lengths = {held.subject for held in recordings}, [held.length for held in recordings]
    most = {"subject": len(people), "record": len(lengths), "time": sum(lengths) // sum(windows)}
    fewer = min(shards - 1, most[by])
    while fewer and not _is_enough(_share_out(recordings, fewer, windows, by), windows):
        fewer = 7 * fewer // 8
    raise BadInput(
        f"Expected enough for --shards {shards} by {by}, {shards * len(windows)} teachers with "
        f"windows of {' and '.join(map(str, windows))} samples, got {len(lengths)} recordings of "
        f"{len(people)} people, {max(lengths, default=0)} samples at most; "
        + (f"give --shards {fewer}." if fewer else "give shorter --windows.")
    )


def step_of(window: int, overlap: float) -> int:
    """Samples from the start of a window to that of the next.

    Example:
        >>> step_of(6, 0.0), step_of(6, 0.5), step_of(1, 0.5)
        (6, 3, 1)
    """
    return max(1, window - math.ceil(window * overlap))


def windows_of(
    signals: Sequence[Signal],
    stretches: Sequence[Stretch],
    *,
    window: int,
    step: int,
    classes: int,
) -> tuple[np.ndarray, np.ndarray]:
    """(N, window, C) values and (N,) classes of the windows inside stretches.

    A window's class is on the public list and fills at least three quarters of it; others are left
    out, so that nobody's labels can stop a run.
    """
    _check.count(window=window, step=step)
    values, found = [], []
    for stretch in stretches:
        signal = signals[stretch.recording]
        if signal.activity is None:
            raise BadInput("Expected labelled signals to learn from, got one without labels.")
        for start in range(stretch.start, stretch.stop - window + 1, step):
            labels = signal.activity[start : start + window]
            known = labels[(labels >= 0) & (labels < classes)]
            counts = np.bincount(known) if len(known) else np.zeros(1, int)
            if counts.max() >= MIN_ACTIVITY_SHARE * window:
                values.append(signal.values[start : start + window])
                found.append(int(counts.argmax()))
    if not values:
        channels = signals[0].values.shape[1]
        return np.empty((0, window, channels), np.float32), np.empty(0, np.int64)
    return np.stack(values), np.array(found, dtype=np.int64)


def _group_stretches(
    recordings: Sequence[Extent], stretches: Sequence[Stretch], by: By
) -> list[list[Stretch]]:
    """Pieces that stay together: a person's, or each recording by itself."""
    if by != "subject":
        return [[stretch] for stretch in stretches]
    held: dict[str, list[Stretch]] = defaultdict(list)
    for stretch in stretches:
        held[recordings[stretch.recording].subject].append(stretch)
    return list(held.values())


def _deal_groups(groups: list[list[Stretch]], hands: int) -> list[list[Stretch]]:
    """Group i goes to hand i modulo ``hands``."""
    found: list[list[Stretch]] = [[] for _ in range(hands)]
    for place, group in enumerate(groups):
        found[place % hands] += group
    return found


def _cut_each(shard: Sequence[Stretch], parts: int, by: By) -> list[list[Stretch]]:
    """Contiguous parts: of the whole shard where it is one of time, else of each recording."""
    if by == "time":
        return _cut_stretches(shard, parts)
    pieces = [_cut_stretches([stretch], parts) for stretch in shard]
    return [[each for piece in pieces for each in piece[part]] for part in range(parts)]


def _cut_stretches(stretches: Sequence[Stretch], parts: int) -> list[list[Stretch]]:
    """Contiguous parts of equal length, as if the stretches were one after the other."""
    total = sum(map(len, stretches))
    edges = [total * part // parts for part in range(parts + 1)]
    found: list[list[Stretch]] = [[] for _ in range(parts)]
    begun = 0
    for stretch in stretches:
        for part in range(parts):
            low = max(edges[part], begun)
            high = min(edges[part + 1], begun + len(stretch))
            if low < high:
                shift = stretch.start - begun
                found[part].append(Stretch(stretch.recording, low + shift, high + shift))
        begun += len(stretch)
    return found


def _count_reach(recordings: Sequence[Extent], teachers: Sequence[Sequence[Stretch]]) -> int:
    reached: dict[str, set[int]] = defaultdict(set)
    for number, held in enumerate(teachers):
        for stretch in held:
            reached[recordings[stretch.recording].subject].add(number)
    return max(map(len, reached.values()))
