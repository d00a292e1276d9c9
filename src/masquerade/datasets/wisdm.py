"""WISDM: phones and watches worn during daily activities, of 2019 and of 2010."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from masquerade.collection import CountLine, DataSource, Labels, Medium, PublishedCounts
from masquerade.datasets.recording_files import SignalFiles
from masquerade.errors import BadInput
from masquerade.recordings import Signal

Version = Literal["2019", "1.1"]
Device = Literal["phone", "watch"]
Sensors = Literal["accelerometer", "gyroscope", "both"]

RATE_HZ = 20.0
STEP_NS = 50_000_000  # of the grid
MAX_NEAR_NS = STEP_NS  # a row further away than this stands for nothing
MAX_PAUSE_NS = 20 * STEP_NS  # a pause longer than this begins a new stretch of the grid
_LETTERS = dict(
    zip(
        "ABCDEFGHIJKLMOPQRS",
        """walking jogging stairs sitting standing typing teeth soup chips pasta drinking sandwich
        kicking catch dribbling writing clapping folding""".split(),
        strict=True,
    )
)
_OLD = ("Walking", "Jogging", "Upstairs", "Downstairs", "Sitting", "Standing")
_OLD_FILE = "WISDM_ar_v1.1_raw.txt"
_FOLDERS = {"accelerometer": "accel", "gyroscope": "gyro"}
_ROWS = {
    ("phone", "accelerometer"): 4_804_403,
    ("phone", "gyroscope"): 3_608_635,
    ("watch", "accelerometer"): 3_777_046,
    ("watch", "gyroscope"): 3_440_342,
}
_SOURCE = "WISDM-dataset-description.pdf; 15,630,426 rows in all"
_OLD_SOURCE = "cis.fordham.edu/wisdm/dataset.php"

_Table = tuple[np.ndarray, np.ndarray, np.ndarray]  # times (T,), activities (T,), values (T, 3)
_Tables = tuple[dict[str, _Table], int]  # of each person, and how many rows were malformed


@dataclass(frozen=True, kw_only=True)
class Wisdm(SignalFiles):
    """One signal per person: 18 activities of 2019 [weiss2019] or 6 of 2010 [kwapisz2010].

    Layout::

        root/                                            version "2019" (UCI 507)
          activity_key.txt
          raw/phone/accel/data_1600_accel_phone.txt      1600,A,252207666810782,-0.36,8.79,1.06;
          raw/watch/gyro/data_1600_gyro_watch.txt        persons 1600 to 1650

        root/WISDM_ar_v1.1_raw.txt                       version "1.1": 33,Jogging,4910...,12.7,0.5;

    Rows stay as they are and in their order, all activities one after the other. The publisher
    says 20 Hz, and that is ``rate_hz``; in truth some recordings of 2019 run at 25, 50 or 100 Hz,
    which the attribute ``median_interval_ns`` shows. ``on_grid`` mends that, and ``both`` needs it,
    as the two sensors share no instants: within each activity, and each stretch of it without a
    pause of more than a second, instants 50 ms apart take the nearest row of each sensor. Where a
    sensor has none within 50 ms the instant is left out. Timestamps are read as nanoseconds.

    What is not certain: units (m/s2 and rad/s are likely) and the clock of version 1.1, whose
    timestamps are partly 0, so that it has no grid. Rows that are not six values are known in 1.1.

    Args:
        root: the folder with ``raw``, or with the file of version 1.1.
        version: which of the two.
        worn: phone or watch; 1.1 has the phone only.
        sensors: 1.1 has the accelerometer only.
        subjects: only these, such as ``"1600"``; empty for all. The publisher has no split.
        on_grid: whether to put rows on the 20 Hz grid.
        skip_malformed: leave malformed rows out, counted by ``check``; they are an error otherwise.
    """

    ABOUT: ClassVar[DataSource] = DataSource(
        title="WISDM activity and biometrics",
        kind=Medium.SIGNALS,
        licence="CC BY 4.0 (2019, as UCI states it); not stated (1.1)",
        home="https://archive.ics.uci.edu/dataset/507",
        citation="weiss2019",
    )

    root: Path
    version: Version = "2019"
    worn: Device = "phone"
    sensors: Sensors = "accelerometer"
    subjects: tuple[str, ...] = ()
    on_grid: bool = False
    skip_malformed: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.version == "1.1" and (self.worn, self.sensors) != ("phone", "accelerometer"):
            raise ValueError(
                "Expected the phone's accelerometer for version 1.1, got "
                f"{self.worn} and {self.sensors}; it has nothing else."
            )
        if self.version == "1.1" and self.on_grid:
            raise ValueError("Expected on_grid=False for version 1.1: its clock is not reliable.")

    @property
    def people(self) -> tuple[str, ...]:
        """51 of 2019, or 36 of version 1.1."""
        return tuple(map(str, range(1600, 1651) if self.version == "2019" else range(1, 37)))

    @property
    def activities(self) -> tuple[str, ...]:
        """The names of ``activity_key.txt``, or the six of version 1.1."""
        return tuple(_LETTERS.values()) if self.version == "2019" else _OLD

    @property
    def publisher_counts(self) -> PublishedCounts:
        """The numbers of the version and of the device."""
        if self.version == "1.1":
            return {"people": (36, _OLD_SOURCE), "rows": (1_098_207, _OLD_SOURCE)}
        rows = {f"{each} rows": (_ROWS[self.worn, each], _SOURCE) for each in self._sensor_names}
        return {"people": (51, _SOURCE)} | rows

    def check(self) -> tuple[CountLine, ...]:
        """Count people and rows of the device and sensors chosen; this reads the files."""
        missing: list[str] = []
        if self.version == "1.1":
            people, sizes = len(self._old_tables[0]), {"rows": [_count_rows(self._old_tables)]}
        else:
            people, missing = len(self._common_subjects), self._list_missing()
            sizes = {
                f"{each} rows": [
                    _count_rows(self._read_cached(path)) for path in self._find_paths(each).values()
                ]
                for each in self._sensor_names
            }
        counts = [self._count_line("people", people, missing)]
        counts += [self._count_line(what, sum(map(sum, each))) for what, each in sizes.items()]
        malformed = sum(bad for each in sizes.values() for _, bad in each)
        if self.skip_malformed:
            counts.append(self._count_line("malformed rows left out", malformed))
        return tuple(counts)

    @property
    def _sensor_names(self) -> tuple[str, ...]:
        return tuple(_FOLDERS) if self.sensors == "both" else (self.sensors,)

    def _find_paths(self, sensor: str) -> dict[str, Path]:
        """The file of each person."""
        short = _FOLDERS[sensor]
        folder = self.root / "raw" / self.worn / short
        found = {
            path.name.split("_")[1]: path
            for path in sorted(folder.glob(f"data_*_{short}_{self.worn}.txt"))
        }
        if not found:
            raise BadInput(
                f"Expected files data_1600_{short}_{self.worn}.txt and so on in {folder}; there "
                "are none. Check the root folder."
            )
        return found

    @property
    def _common_subjects(self) -> list[str]:
        """Who has a file for every sensor."""
        every = [set(self._find_paths(sensor)) for sensor in self._sensor_names]
        return sorted(set.intersection(*every))

    def _list_missing(self) -> list[str]:
        names = ["activity_key.txt"] if not (self.root / "activity_key.txt").is_file() else []
        for sensor in self._sensor_names:
            short, found = _FOLDERS[sensor], self._find_paths(sensor)
            names += [
                f"raw/{self.worn}/{short}/data_{number}_{short}_{self.worn}.txt"
                for number in range(1600, 1651)
                if str(number) not in found
            ]
        return names

    @cached_property
    def _old_tables(self) -> _Tables:
        return _read_tables(self.root / _OLD_FILE, _OLD, skip_malformed=self.skip_malformed)

    def _read_cached(self, path: Path) -> _Tables:
        return _read_tables(path, tuple(_LETTERS), skip_malformed=self.skip_malformed)

    def _find(self) -> Sequence[Labels]:
        there = (
            sorted(self._old_tables[0], key=int) if self.version == "1.1" else self._common_subjects
        )
        if absent := [subject for subject in self.subjects if subject not in there]:
            raise BadInput(f"Expected rows of {', '.join(absent)} below {self.root}; got none.")
        return [
            Labels(name=f"{self.worn}/{self.sensors}/{subject}", subject=subject)
            for subject in there
            if not self.subjects or subject in self.subjects
        ]

    def _load(self, index: int) -> Signal:
        labels = self.labels[index]
        subject = str(labels.subject)
        tables = [self._read_sensor(sensor, subject) for sensor in self._sensor_names]
        steps = np.concatenate([np.diff(times) for times, _, _ in tables])
        median = int(np.median(steps)) if steps.size else 0
        if self.on_grid or len(tables) > 1:
            activity, values = _on_grid(tables)
        else:
            _, activity, values = tables[0]
        if not len(values):
            raise BadInput(
                f"Expected {labels.name} to have rows of both sensors at one time, got none; "
                "read one sensor."
            )
        return Signal(
            values=values.astype(np.float32),  # (T, C)
            rate_hz=RATE_HZ,
            activity=activity,
            subject=subject,
            channels=tuple(f"{self.worn}_{s}_{axis}" for s in self._sensor_names for axis in "xyz"),
            attributes={"device": self.worn, "median_interval_ns": median},
        )

    def _read_sensor(self, sensor: str, subject: str) -> _Table:
        if self.version == "1.1":
            return self._old_tables[0][subject]
        path = self._find_paths(sensor)[subject]
        rows, _ = self._read_cached(path)
        if set(rows) != {subject}:
            raise BadInput(
                f"Expected rows of {subject} alone in {path}, got {', '.join(rows) or 'none'}; "
                "fetch it again."
            )
        return rows[subject]


def _read_tables(path: Path, names: tuple[str, ...], *, skip_malformed: bool) -> _Tables:
    if not path.is_file():
        raise BadInput(f"Expected a file at {path}; there is none. Check the root folder.")
    people: dict[str, tuple[array[int], array[int], array[float]]] = {}
    numbers = {name: number for number, name in enumerate(names)}
    malformed = 0
    for line, text in _split_rows(path):
        try:
            subject, name, time, x, y, z = text.split(",")
            row = array("q", [int(time)]), numbers[name.strip()], (float(x), float(y), float(z))
            if not math.isfinite(sum(row[2])) or not subject.strip().isdecimal():
                raise ValueError(text)
        except (ValueError, KeyError, OverflowError):
            if not skip_malformed:
                raise BadInput(
                    f"Expected person,activity,time,x,y,z in line {line} of {path}; got another "
                    "form. Set skip_malformed to leave such rows out."
                ) from None
            malformed += 1
            continue
        empty = array("q"), array("b"), array("d")
        times, activities, values = people.setdefault(subject.strip(), empty)
        times.extend(row[0])
        activities.append(row[1])
        values.extend(row[2])
    tables = {
        person: (np.array(times), np.array(done, np.int64), np.array(values).reshape(-1, 3))
        for person, (times, done, values) in people.items()
    }
    return tables, malformed


def _count_rows(found: _Tables) -> tuple[int, int]:
    """How many rows were whole, and how many malformed."""
    people, malformed = found
    return sum(len(times) for times, _, _ in people.values()), malformed


def _split_rows(path: Path) -> Iterator[tuple[int, str]]:
    """The rows with their lines. A row ends with a semicolon, and two may share a line."""
    with path.open(encoding="utf-8", errors="replace") as stream:
        for line, text in enumerate(stream, 1):
            for chunk in text.split(";"):
                if chunk := chunk.strip():
                    yield line, chunk


def _on_grid(tables: Sequence[_Table]) -> tuple[np.ndarray, np.ndarray]:
    """Activities (T,) and values (T, 3 S) at instants 50 ms apart, by nearest row."""
    activities, values = [np.empty(0, np.int64)], [np.empty((0, 3 * len(tables)))]
    for number in dict.fromkeys(tables[0][1].tolist()):  # in the order they were done
        parts = [_sort_rows(table, number) for table in tables]
        if not all(len(times) for times, _ in parts):
            continue
        first = parts[0][0]
        for times in np.split(first, np.flatnonzero(np.diff(first) > MAX_PAUSE_NS) + 1):
            grid = np.arange(times[0], times[-1] + 1, STEP_NS)
            nearest = [_find_nearest_rows(part[0], grid) for part in parts]
            pairs = list(zip(parts, nearest, strict=True))
            is_near = [abs(part[0][rows] - grid) <= MAX_NEAR_NS for part, rows in pairs]
            kept = np.logical_and.reduce(is_near)
            values.append(np.hstack([part[1][rows[kept]] for part, rows in pairs]))
            activities.append(np.full(int(kept.sum()), number, np.int64))
    return np.concatenate(activities), np.concatenate(values)


def _sort_rows(table: _Table, number: int) -> tuple[np.ndarray, np.ndarray]:
    times, activities, values = table
    chosen = activities == number
    order = np.argsort(times[chosen], kind="stable")
    return times[chosen][order], values[chosen][order]


def _find_nearest_rows(times: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """For each instant the row nearest to it."""
    after = np.clip(np.searchsorted(times, grid), 1, max(len(times) - 1, 1))
    before = after - 1
    after = np.minimum(after, len(times) - 1)
    return np.where(grid - times[before] <= times[after] - grid, before, after)
