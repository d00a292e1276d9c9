"""PAMAP2: three motion sensors and a heart rate monitor during 18 activities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from masquerade import _check
from masquerade.collection import CountLine, DataSource, Labels, Medium, PublishedCounts
from masquerade.datasets.recording_files import SignalFiles
from masquerade.errors import BadInput
from masquerade.recordings import Signal

Session = Literal["protocol", "optional"]

RATE_HZ = 100.0
COLUMNS = 54
_IDENTIFIERS = (*range(1, 8), *range(9, 14), *range(16, 21), 24)
_ACTIVITIES = (
    *("lying", "sitting", "standing", "walking", "running", "cycling", "Nordic walking"),
    *("watching TV", "computer work", "car driving", "ascending stairs", "descending stairs"),
    *("vacuum cleaning", "ironing", "folding laundry", "house cleaning", "playing soccer"),
    "rope jumping",
)
_FIRST_COLUMNS = {"hand": 3, "chest": 20, "ankle": 37}  # the first column of each, from 0
_PARTS = {  # columns within a place; the last four, orientation, are invalid and never read
    "temperature": (0, 1),
    "accelerometer": (1, 4),  # 16 g
    "accelerometer_6g": (4, 7),
    "gyroscope": (7, 10),
    "magnetometer": (10, 13),
}
SENSORS = ("heart_rate", *(f"{place}_{part}" for place in _FIRST_COLUMNS for part in _PARTS))
DEFAULT_CHANNELS = tuple(
    f"{place}_{part}" for place in _FIRST_COLUMNS for part in ("accelerometer", "gyroscope")
)
_SUBJECTS = {
    "protocol": tuple(str(number) for number in range(101, 110)),
    "optional": ("101", "105", "106", "108", "109"),
}
_ROWS = {"protocol": 2_872_533, "optional": 977_972}
_SOURCE = "UCI 231 (3,850,505 rows in both sessions); its users count 2,872,533 in Protocol"


@dataclass(frozen=True, kw_only=True)
class Pamap2(SignalFiles):
    """Nine people with sensors on hand, chest and ankle, at 100 Hz [reiss2012].

    One file a person, 54 numbers a row apart by blanks, NaN where a sensor was silent::

        root/
          Protocol/subject101.dat
          Optional/subject101.dat

    A person's recording becomes several signals where it has a hole. In each channel by itself, up
    to ``max_gap`` missing samples in a row are filled by a straight line between their neighbours;
    rows that are still incomplete are left out and cut the recording, as does a step in time of
    more than one and a half samples. To find the pieces, ``labels`` reads the files. Channels that
    are not asked for cut nothing.

    Activities are numbered by their place in ``activities``, not by the file's identifier, which
    skips some; 0, which the publisher calls transient and asks to discard, is -1.

    Args:
        root: the folder that holds ``Protocol``.
        session: what everybody did, or what five of them did besides.
        sensors: of ``SENSORS``; the heart rate, at about 9 Hz, is there only if asked for.
        subjects: only these, such as ``"101"``; empty for all. The publisher has no split.
        max_gap: how many missing samples in a row are filled; 0 fills none.
    """

    ABOUT: ClassVar[DataSource] = DataSource(
        title="PAMAP2 Physical Activity Monitoring",
        kind=Medium.SIGNALS,
        licence="CC BY 4.0, as UCI states it",
        home="https://archive.ics.uci.edu/dataset/231",
        citation="reiss2012",
    )
    CLASSES: ClassVar[tuple[str, ...]] = _ACTIVITIES

    root: Path
    session: Session = "protocol"
    sensors: tuple[str, ...] = DEFAULT_CHANNELS
    subjects: tuple[str, ...] = ()
    max_gap: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        for sensor in self.sensors:
            if sensor not in SENSORS:
                raise ValueError(_check.describe_unknown("sensor", sensor, SENSORS))
        if not self.sensors or len(set(self.sensors)) != len(self.sensors):
            raise ValueError(f"Expected sensors, each once, got sensors={self.sensors!r}.")
        if isinstance(self.max_gap, bool) or not isinstance(self.max_gap, int) or self.max_gap < 0:
            raise ValueError(f"Expected max_gap as a whole number >= 0, got {self.max_gap!r}.")

    @property
    def people(self) -> tuple[str, ...]:
        """Those of the session."""
        return _SUBJECTS[self.session]

    @property
    def publisher_counts(self) -> PublishedCounts:
        """The numbers of the session."""
        return {"files": (len(self.people), _SOURCE), "rows": (_ROWS[self.session], _SOURCE)}

    def check(self) -> tuple[CountLine, ...]:
        """Count files and rows of the session, whoever is chosen."""
        every = [self._data_folder / f"subject{subject}.dat" for subject in self.people]
        there = [path for path in every if path.is_file()]
        missing = [f"{self._data_folder.name}/{path.name}" for path in every if path not in there]
        return (
            self._count_line("files", len(there), missing),
            self._count_line("rows", sum(_count_rows(path) for path in there)),
        )

    @property
    def _data_folder(self) -> Path:
        return self.root / self.session.capitalize()

    @property
    def _channel_columns(self) -> dict[str, int]:
        """Name and column of each channel."""
        found: dict[str, int] = {}
        for sensor in self.sensors:
            if sensor == "heart_rate":
                found[sensor] = 2
                continue
            place, _, part = sensor.partition("_")
            first, last = (_FIRST_COLUMNS[place] + column for column in _PARTS[part])
            axes = [f"_{axis}" for axis in "xyz"] if last - first == 3 else [""]
            found |= {f"{sensor}{axis}": first + step for step, axis in enumerate(axes)}
        return found

    def _read_filled(self, subject: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Times (T,), activities (T,) and values (T, C) with short gaps filled."""
        path = self._data_folder / f"subject{subject}.dat"
        if not path.is_file():
            raise BadInput(
                f"Expected {path}; there is none. Check the root folder, or leave out {subject}."
            )
        stat, columns = path.stat(), tuple(self._channel_columns.values())
        return _read_table(path, (stat.st_mtime_ns, stat.st_size), columns, self.max_gap)

    @cached_property
    def _piece_rows(self) -> tuple[tuple[str, int, slice], ...]:
        """Whose each is, its number among that person's, and its rows."""
        return tuple(
            (subject, number, rows)
            for subject in self.subjects or self.people
            for number, rows in enumerate(_find_whole_rows(self._read_filled(subject)))
        )

    def _find(self) -> Sequence[Labels]:
        return [
            Labels(name=f"{self._data_folder.name}/subject{subject}#{number}", subject=subject)
            for subject, number, _ in self._piece_rows
        ]

    def _load(self, index: int) -> Signal:
        subject, number, rows = self._piece_rows[index]
        _, activities, values = self._read_filled(subject)
        return Signal(
            values=values[rows].copy(),
            rate_hz=RATE_HZ,
            activity=activities[rows].copy(),
            subject=subject,
            channels=tuple(self._channel_columns),
            attributes={"session": self.session, "piece": number},
        )


@lru_cache(maxsize=1)  # the pieces of one person come one after the other
def _read_table(
    path: Path, _stamp: tuple[int, int], columns: tuple[int, ...], max_gap: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if not _count_rows(path):
        raise BadInput(f"Expected at least one row in {path}, got none; fetch it again.")
    try:
        table = np.loadtxt(path, ndmin=2, comments=None)
    except ValueError as error:
        raise _find_fault(path) from error
    if table.shape[1] != COLUMNS:
        raise _find_fault(path)
    identifiers, values = table[:, 1], table[:, columns].astype(np.float32)
    known = np.isin(identifiers, (0, *_IDENTIFIERS))
    if not known.all() or not np.isfinite(table[:, 0]).all():
        line = int(np.argmin(known & np.isfinite(table[:, 0]))) + 1
        numbers = ", ".join(map(str, _IDENTIFIERS))
        raise BadInput(
            f"Expected a time and one of the activities {numbers} or 0 in line {line} of {path}, "
            "got another; fetch it again."
        )
    places = np.full(max(_IDENTIFIERS) + 1, -1)
    places[list(_IDENTIFIERS)] = np.arange(len(_IDENTIFIERS))
    for channel in values.T:
        _fill_channel(channel, max_gap)
    return table[:, 0], places[identifiers.astype(int)], values


def _find_fault(path: Path) -> BadInput:
    """Which line is the matter; called once it is known that one is."""
    with path.open(encoding="utf-8", errors="replace") as stream:
        for line, text in enumerate(stream, 1):
            cells = text.split()
            if cells and len(cells) != COLUMNS:
                return BadInput(
                    f"Expected {COLUMNS} numbers in line {line} of {path}, got {len(cells)}; "
                    "fetch it again."
                )
            for column, cell in enumerate(cells, 1):
                try:
                    float(cell)
                except ValueError:
                    return BadInput(
                        f"Expected a number in line {line}, column {column} of {path}, "
                        f"got {cell!r}; fetch it again."
                    )
    return BadInput(f"Expected {COLUMNS} numbers a row in {path}; it cannot be read.")


def _fill_channel(channel: np.ndarray, max_gap: int) -> None:
    """Fill gaps of at most ``max_gap`` between two samples by a straight line, in place."""
    for start, stop in _find_runs(np.isnan(channel)):
        if stop - start <= max_gap and 0 < start and stop < len(channel):
            before, after = channel[start - 1], channel[stop]
            channel[start:stop] = np.linspace(before, after, stop - start + 2)[1:-1]


def _find_whole_rows(filled: tuple[np.ndarray, np.ndarray, np.ndarray]) -> list[slice]:
    """The rows where every channel has a value and time goes on at its pace."""
    times, _, values = filled
    steps = np.diff(times)
    cuts = np.flatnonzero((steps <= 0) | (steps > 1.5 / RATE_HZ)) + 1
    found = []
    for start, stop in _find_runs(np.isfinite(values).all(axis=1)):
        edges = [start, *cuts[(cuts > start) & (cuts < stop)].tolist(), stop]
        found += [slice(*pair) for pair in pairwise(edges)]
    return found


def _find_runs(mask: np.ndarray) -> list[tuple[int, int]]:
    """Starts and stops of the stretches in which ``mask`` holds."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False]))))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def _count_rows(path: Path) -> int:
    with path.open("rb") as stream:
        return sum(1 for text in stream if text.strip())
